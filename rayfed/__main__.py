"""``python -m rayfed`` is the command ``rayfed``."""

from rayfed.cli import main

main()
