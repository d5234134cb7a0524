"""Who may ask the dashboard's server, and what."""

import pytest

pytest.importorskip("starlette", reason="starlette is not installed")

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from rayfed.dashboard.guard import Guard, is_loopback

HERE = "http://127.0.0.1:8270"


def client(host="127.0.0.1", at=HERE):
    async def answer(request):
        return PlainTextResponse(f"{request.method} {request.url.query}")

    routes = [Route("/", answer, methods=["GET", "POST"])]
    middleware = [Middleware(Guard, host=host, port=8270, token="right")]
    return TestClient(Starlette(routes=routes, middleware=middleware), base_url=at)


@pytest.mark.parametrize("name", ["127.0.0.1:8270", "localhost:8270", "[::1]:8270"])
def test_this_machine_reads_without_a_token(name):
    answer = client().get("/?a=1", headers={"Host": name})
    assert (answer.status_code, answer.text) == (200, "GET a=1")
    assert "default-src 'self'" in answer.headers["content-security-policy"]


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example:8270"},  # a name that somebody let point to 127.0.0.1
        {"Host": "127.0.0.1"},
        {"Origin": "http://evil.example"},
        {"Origin": "http://127.0.0.1:9999"},
        {"Origin": "null"},
    ],
)
def test_pages_of_others_are_refused(headers):
    assert client().get("/", headers=headers).status_code == 403
    assert client().get("/?token=right", headers=headers).status_code == 403


def test_who_steers_needs_the_token_once():
    asked = client()
    assert asked.post("/").status_code == 403
    assert asked.get("/?token=wrong&a=1").status_code == 200  # it reads
    assert asked.post("/").status_code == 403
    answer = asked.get("/?token=right&a=1&a=2")
    assert answer.url.query == b"a=1&a=2"  # the token leaves the address
    assert (
        answer.history[0].headers["set-cookie"].lower().count("httponly; path=/; samesite=strict")
    )
    assert asked.post("/", headers={"Origin": HERE}).status_code == 200
    assert asked.post("/", headers={"Origin": "http://evil.example"}).status_code == 403


def test_other_machines_need_the_token_to_read():
    far = client("0.0.0.0", "http://simulator:8270")
    assert far.get("/").status_code == 403
    assert "token" in far.get("/").text
    assert far.get("/?token=right").status_code == 200
    assert far.get("/").status_code == 200
    assert client("0.0.0.0", "http://simulator:8270").get("/").status_code == 403


@pytest.mark.parametrize(
    ("host", "expected"),
    [("127.0.0.1", True), ("127.8.8.8", True), ("[::1]", True), ("localhost", True),
     ("0.0.0.0", False), ("::", False), ("10.0.0.1", False), ("example.org", False)],
)  # fmt: skip
def test_loopback(host, expected):
    assert is_loopback(host) is expected
