import gzip
import hashlib
import http.server
import threading
from functools import partial
from pathlib import Path

import pytest

from rayfed.core.errors import DataMissing, ScenarioError
from rayfed.datasets.fetch import File, available_locally, read

CONTENT = b"1,2\n3,4\n"
PACKED = gzip.compress(CONTENT, mtime=1)
NAME = "toy/table.csv.gz"


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def published(url: str) -> File:
    return File(NAME, url, sha(PACKED), sha(CONTENT))


def put(home: Path, data: bytes, name: str = NAME) -> Path:
    path = home / name
    path.parent.mkdir(parents=True)
    path.write_bytes(data)
    return path


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setattr("pooch.os_cache", lambda name: tmp_path / "cache" / name)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    return tmp_path / "cache"


@pytest.fixture
def site(tmp_path):
    """Serve a folder on this machine; yield it and its address."""
    folder = tmp_path / "site"
    folder.mkdir()
    handler = partial(http.server.SimpleHTTPRequestHandler, directory=str(folder))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield folder, f"http://127.0.0.1:{server.server_port}/table.csv.gz"
    server.shutdown()
    server.server_close()


NOWHERE = published("http://127.0.0.1:9/table.csv.gz")


def test_a_file_at_hand_is_unpacked(tmp_path):
    put(tmp_path, PACKED)
    assert available_locally(NOWHERE, tmp_path)
    assert read(NOWHERE, tmp_path) == CONTENT


def test_a_file_at_hand_may_be_compressed_in_another_way(tmp_path):
    put(tmp_path, gzip.compress(CONTENT, 0, mtime=2))
    assert read(NOWHERE, tmp_path) == CONTENT


def test_a_plain_file_needs_one_checksum(tmp_path):
    put(tmp_path, CONTENT, "toy/table.csv")
    assert read(File("toy/table.csv", NOWHERE.url, sha(CONTENT)), tmp_path) == CONTENT


def test_other_content_is_refused(tmp_path):
    path = put(tmp_path, gzip.compress(b"1,2\n3,5\n"))
    with pytest.raises(ScenarioError, match="its checksum differs") as error:
        read(NOWHERE, tmp_path)
    assert str(path) in str(error.value)


@pytest.mark.parametrize("data", [b"not gzip", PACKED[:-9]])
def test_a_broken_file_is_refused(tmp_path, data):
    put(tmp_path, data)
    with pytest.raises(ScenarioError, match="replace the file"):
        read(NOWHERE, tmp_path)


def test_a_file_is_downloaded_once(site, cache, tmp_path):
    folder, url = site
    (folder / "table.csv.gz").write_bytes(PACKED)
    file = published(url)
    assert not available_locally(file, None)
    assert read(file, tmp_path / "elsewhere") == CONTENT
    assert (cache / "rayfed" / NAME).read_bytes() == PACKED
    (folder / "table.csv.gz").unlink()
    assert available_locally(file, None)
    assert read(file, None) == CONTENT


def test_a_download_with_another_checksum_is_not_kept(site, cache):
    folder, url = site
    (folder / "table.csv.gz").write_bytes(gzip.compress(b"tampered"))
    with pytest.raises(ScenarioError, match="could not be downloaded"):
        read(published(url), None)
    assert not (cache / "rayfed" / NAME).exists()


def test_without_a_network_one_line_says_what_to_do():
    with pytest.raises(DataMissing) as error:
        read(NOWHERE, None)
    assert str(error.value) == (
        "problem.dataset: file 'toy/table.csv.gz' is not available locally and could not be "
        "downloaded (ConnectionError); set RAYFED_DATA to a folder that holds it"
    )
