import gzip
import hashlib
import logging

import pytest

from rayfed.datasets import fetch
from rayfed.datasets.fetch import File
from rayfed.errors import ScenarioError

CONTENT = b"1,2\n3,4\n"
PACKED = gzip.compress(CONTENT)


def sha(data):
    return hashlib.sha256(data).hexdigest()


@pytest.fixture
def cache(tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    monkeypatch.setattr("pooch.os_cache", lambda name: folder / name)
    return folder


@pytest.fixture
def published(tmp_path):
    """A file on a server: pooch has no downloader of file://, so http is served from here."""
    import http.server
    import threading
    from functools import partial

    site = tmp_path / "site"
    site.mkdir()
    (site / "table.csv.gz").write_bytes(PACKED)
    handler = partial(http.server.SimpleHTTPRequestHandler, directory=str(site))
    handler.log_message = None
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/table.csv.gz"
    server.shutdown()
