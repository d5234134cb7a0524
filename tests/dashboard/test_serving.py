"""Servers of the dashboard: their addresses, and what is refused."""

import socket
import urllib.request

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
        with urllib.request.urlopen(served.address) as answer:
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
        RayfedError, match=r"needs starlette and uvicorn; pip install 'rayfed\[dashboard\]'"
    ):
        serving.start([folder])


@pytest.mark.parametrize(
    ("host", "control", "has"),
    [("127.0.0.1", False, False), ("127.0.0.1", True, True), ("0.0.0.0", False, True)],
)
def test_the_address_has_a_token_where_one_is_needed(folder, host, control, has):
    _, listening, address = serving._made([folder], host, 0, control, ())
    listening.close()
    assert ("?token=" in address) is has
    assert address.startswith("http://127.0.0.1:")
