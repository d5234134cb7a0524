"""Servers of the dashboard: their addresses, and what is refused."""

import socket
import stat
import threading
import time
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

import pytest

pytest.importorskip("uvicorn", reason="uvicorn is not installed")

import rayfed
from rayfed.core.errors import RayfedError
from rayfed.dashboard import serving


def test_a_result_serves_its_own_dashboard(folder):
    served = rayfed.load(folder / "first").dashboard()
    try:
        assert served.address.startswith("http://127.0.0.1:")
        assert f'src="{served.address}"' in served._repr_html_()
        browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        with browser.open(served.address) as answer:
            assert "2 runs in 1 study: 2 finished" in answer.read().decode()
    finally:
        served.close()
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(served.address)


def test_a_port_that_is_taken_is_said(folder):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        with pytest.raises(RayfedError, match=rf"--port {port}: 127.0.0.1 cannot be listened on"):
            serving.serve([folder], port=port)


def test_a_missing_package_is_one_line(folder, monkeypatch):
    monkeypatch.setattr(serving, "find_spec", lambda name: None)
    with pytest.raises(
        RayfedError,
        match=r"needs starlette and uvicorn; pip install 'starlette.* 'uvicorn",
    ):
        serving.start([folder])


@pytest.mark.parametrize(("host", "begins"), [
    ("127.0.0.1", "http://127.0.0.1:"), ("127.0.0.2", "http://127.0.0.2:"),
    ("0.0.0.0", "http://127.0.0.1:"), ("::1", "http://[::1]:"), ("[::1]", "http://[::1]:"),
    ("::", "http://[::1]:"),
])  # fmt: skip
def test_the_address_that_is_printed_is_answered(folder, host, begins):
    if ":" in host and not _has_ipv6():
        pytest.skip("no IPv6 on this machine")
    server, listening, address = serving._made([folder], host, 0, False, ())
    assert address.startswith(begins)
    assert "?token=" in address
    thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
    thread.start()
    try:
        browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        with browser.open(address) as answer:
            assert answer.status == 200
    finally:
        server.should_exit = True
        thread.join()
        listening.close()


def _has_ipv6():
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


def test_without_a_token_nobody_steers(folder):
    _, listening, address = serving._made([folder], "127.0.0.1", 0, False, (), token=False)
    listening.close()
    assert "token" not in address
    with pytest.raises(RayfedError, match="--no-token: found --control, which needs a token"):
        serving.serve([folder], control=True, token=False)


def test_a_browser_is_opened_by_a_file_that_others_cannot_read(monkeypatch):
    opened = []
    monkeypatch.setattr(serving.webbrowser, "open", opened.append)
    monkeypatch.setattr(serving, "_SOON_S", 0.0)
    with serving._browsing("http://127.0.0.1:1/?token=secret&a=1"):
        while not opened:
            time.sleep(0.01)
        page = Path(urllib.request.url2pathname(urlsplit(opened[0]).path))
        assert (stat.S_IMODE(page.stat().st_mode), "secret" in opened[0]) == (0o600, False)
        assert stat.S_IMODE(page.parent.stat().st_mode) == 0o700
        assert "url=http://127.0.0.1:1/?token=secret&amp;a=1" in page.read_text()
    assert not page.parent.exists()
