"""``python -m rayfed`` is the command ``rayfed``."""

from rayfed.cli.main import main

main()
