"""Servers of the dashboard: their addresses, and what is refused."""

import json
import socket
import stat
import threading
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import pytest

pytest.importorskip("uvicorn", reason="uvicorn is not installed")

import rayfed
from rayfed.core.errors import RayfedError
from rayfed.dashboard import serving
from rayfed.runs.files.folder import delete


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


def _server(folder, log):
    """Return a server in a thread, its thread, and a function that asks it."""
    server, listening, address = serving._made([folder], "127.0.0.1", 0, True, (), log=log)
    thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
    thread.start()
    browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    base = address.partition("?")[0]

    def ask(path, body=None):
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        with browser.open(urllib.request.Request(base + path, data, headers)) as answer:
            return answer.read()

    browser.open(address).close()
    return server, thread, ask, listening


def test_the_end_waits_for_an_action_and_answers_it(folder, monkeypatch, capfd):
    begun, may_end, lines = threading.Event(), threading.Event(), []

    def slow(path):
        begun.set()
        assert may_end.wait(60)
        delete(path)

    monkeypatch.setattr("rayfed.dashboard.control.delete", slow)
    server, thread, ask, listening = _server(folder, lines.append)
    with ThreadPoolExecutor(1) as pool:
        wanted = {"study": "results/first", "name": "first"}
        answer = pool.submit(ask, "control/delete", wanted)
        assert begun.wait(60)
        server.should_exit = True
        while not lines:
            time.sleep(0.01)
        assert thread.is_alive()
        with pytest.raises(urllib.error.HTTPError, match="503"):
            ask("overview.json")
        may_end.set()
        thread.join(60)
        assert json.loads(answer.result(60)) == {"done": "results/first is deleted"}
    listening.close()
    assert lines == ["dashboard: waiting for delete of results/first"]
    assert not (folder / "first").exists()
    assert capfd.readouterr().err == ""


def test_the_end_answers_a_view_and_a_stream_with_nothing_printed(folder, monkeypatch, capfd):
    begun, may_end = threading.Event(), threading.Event()

    def slow(*_):
        begun.set()
        assert may_end.wait(60)

    monkeypatch.setattr("rayfed.dashboard.server.logs_of", slow)
    server, thread, ask, listening = _server(folder, print)
    with ThreadPoolExecutor(2) as pool:
        stream, view = pool.submit(ask, "events"), pool.submit(ask, "log?study=results/first")
        assert begun.wait(60)
        began = time.monotonic()
        server.should_exit = True
        assert b"retry" in stream.result(60)
        with pytest.raises(urllib.error.HTTPError, match="503"):
            view.result(60)
        assert time.monotonic() - began < 30
        may_end.set()
        thread.join(60)
    listening.close()
    assert capfd.readouterr() == ("", "")
