"""``python -m rayfed`` is the command ``rayfed``."""

import os
import sys

if __name__ == "__main__":
    if sys.path[0] == os.getcwd():  # Python looked there first, before all libraries
        sys.path.append(sys.path.pop(0))
    from rayfed.cli.main import main

    main()
