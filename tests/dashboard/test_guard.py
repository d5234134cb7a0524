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


def client(host="127.0.0.1", at=HERE, token="right", **settings):
    async def answer(request):
        return PlainTextResponse(f"{request.method} {request.url.query}")

    routes = [Route("/{path:path}", answer, methods=["GET", "POST"])]
    middleware = [Middleware(Guard, host=host, port=8270, token=token, **settings)]
    return TestClient(Starlette(routes=routes, middleware=middleware), base_url=at)


@pytest.mark.parametrize(("host", "name"), [
    ("127.0.0.1", "127.0.0.1:8270"), ("127.0.0.1", "localhost:8270"), ("::1", "[::1]:8270"),
    ("127.0.0.2", "127.0.0.2:8270"), ("127.0.0.2", "127.0.0.1:8270"),
])  # fmt: skip
def test_without_a_token_this_machine_reads(host, name):
    answer = client(host, token=None).get("/?a=1", headers={"Host": name})
    assert (answer.status_code, answer.text) == (200, "GET a=1")
    assert "default-src 'self'" in answer.headers["content-security-policy"]


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example:8270"},  # a name that somebody let point to 127.0.0.1
        {"Host": "127.0.0.2:8270"},
        {"Host": "127.0.0.1"},
        {"Origin": "http://evil.example"},
        {"Origin": "http://127.0.0.1:9999"},
        {"Origin": "null"},
        {"Origin": "http://["},
    ],
)
@pytest.mark.parametrize("token", ["right", None])
def test_pages_of_others_are_refused(headers, token):
    assert client(token=token).get("/", headers=headers).status_code == 403
    assert client(token=token).get("/?token=right", headers=headers).status_code == 403


def test_reading_and_steering_need_the_token_once():
    asked = client()
    for path in ("/", "/events", "/data/compare.csv", "/plotly.js"):
        assert asked.get(path).status_code == asked.post(path).status_code == 403
        assert "token" in asked.get(path).text
    assert asked.get("/?token=wrong&a=1").status_code == 403
    answer = asked.get("/?token=right&a=1&a=2")
    assert answer.url.query == b"a=1&a=2"  # the token leaves the address
    cookie = answer.history[0].headers["set-cookie"].lower()
    assert cookie.startswith("rayfed-token-8270=right;")
    assert "httponly; path=/; samesite=lax" in cookie
    assert asked.get("/events").status_code == 200
    assert asked.post("/", headers={"Origin": HERE}).status_code == 200
    assert asked.post("/", headers={"Origin": "http://evil.example"}).status_code == 403


def test_programs_bring_the_token_in_a_header():
    given = {"Authorization": "Bearer right"}
    assert client().get("/", headers=given).status_code == 200
    assert client().get("/", headers={"Authorization": "Bearer wrong"}).status_code == 403


@pytest.mark.parametrize("path", ["//evil.example/", "///evil.example", "/\\evil.example/", "//"])
def test_an_address_with_the_token_leads_nowhere_else(path):
    answer = client().get(f"{HERE}{path}?token=right", follow_redirects=False)
    assert answer.status_code == 303
    assert answer.headers["location"].startswith("/")
    assert not answer.headers["location"].startswith(("//", "/\\"))


def test_pages_are_not_framed_but_by_a_notebook_of_this_machine():
    for answer in (client().get("/"), client().get("/?token=right", follow_redirects=False)):
        assert answer.headers["content-security-policy"].endswith("frame-ancestors 'none'")
    framed = client(framed=True).get("/").headers["content-security-policy"]
    assert framed.endswith("frame-ancestors 'self' http://localhost:* http://127.0.0.1:*")


def test_other_machines_need_the_token_to_read():
    far = client("0.0.0.0", "http://simulator:8270")
    assert far.get("/").status_code == 403
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
