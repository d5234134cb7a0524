"""Content of a page in one file."""

from __future__ import annotations

import gzip
import json
import re
from base64 import b64decode
from typing import Any


def data_of(page: str) -> Any:
    """Return the data of the page's scripts."""
    held = re.search(r'<script type="application/gzip" id="data">(.*?)</script>', page, re.S)
    assert held
    return json.loads(gzip.decompress(b64decode(held[1])))


def body_of(page: str) -> str:
    """Return the HTML before the page's scripts."""
    return page.partition("<body>")[2].partition("<script")[0]
