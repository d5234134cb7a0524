"""A script that does nothing until the process that started it has ended."""

import os
import time

if __name__ == "__main__":
    parent = os.getppid()
    while os.getppid() == parent:
        time.sleep(1.0)
