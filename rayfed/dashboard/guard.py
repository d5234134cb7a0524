"""Who may ask the server: this machine's own pages, and others with a token."""

from __future__ import annotations

import secrets
from ipaddress import ip_address
from urllib.parse import urlencode, urlsplit

from starlette.datastructures import Headers, QueryParams
from starlette.requests import cookie_parser
from starlette.responses import PlainTextResponse, RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

COOKIE = "rayfed-token"
_NAMES = ("localhost", "127.0.0.1", "[::1]")
_HEADERS = (
    ("Content-Security-Policy", "default-src 'self' data: blob: 'unsafe-inline'"),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
)  # fmt: skip


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches a server that listens on a host.

    Examples
    --------
    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


class Guard:
    """Refuses requests of foreign pages, and of other machines without the token.

    A page elsewhere can make a browser ask a server on loopback; its name for the server is in the
    header ``Host``, and its own in ``Origin``. Both must be those of this server.

    Parameters
    ----------
    app : ASGIApp
    port : int
    host : str
        Where the server listens.
    token : str
        What requests must bring if `host` is not loopback, and those that steer always: in the
        query once, then in a cookie.
    """

    def __init__(self, app: ASGIApp, *, host: str, port: int, token: str) -> None:
        self.app, self.token = app, token
        self.local = is_loopback(host)
        names = _NAMES if self.local else (*_NAMES, host)
        self.hosts = {f"{name}:{port}" for name in names} | (set(names) if port == 80 else set())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it with a line."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers, query = Headers(scope=scope), QueryParams(scope["query_string"])
        refusal = self._refusal(headers)
        if refusal is None and (given := query.get("token")) and self._is_token(given):
            answer = RedirectResponse(_without_token(scope, query), 303)
            answer.set_cookie(COOKIE, self.token, httponly=True, samesite="strict")
            await answer(scope, receive, send)
            return
        knows = self._is_token(cookie_parser(headers.get("cookie", "")).get(COOKIE, ""))
        if refusal is None and not knows and (not self.local or scope["method"] != "GET"):
            refusal = "needs the address with the token that rayfed dashboard printed"
        if refusal is not None:
            await PlainTextResponse(f"{refusal}\n", 403)(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                held = [(name.lower().encode(), value.encode()) for name, value in _HEADERS]
                message = {**message, "headers": [*message.get("headers", ()), *held]}
            await send(message)

        await self.app(scope, receive, guarded)

    def _refusal(self, headers: Headers) -> str | None:
        """Return why a request is refused whoever sends it; None if it is not."""
        host, origin = headers.get("host", ""), headers.get("origin")
        if self.local and host not in self.hosts:
            return "this server is not known by that name; use 127.0.0.1"
        if origin is not None and urlsplit(origin).netloc != host:
            return "pages of other servers may not ask this one"
        return None

    def _is_token(self, given: str) -> bool:
        return secrets.compare_digest(given.encode(), self.token.encode())


def _without_token(scope: Scope, query: QueryParams) -> str:
    rest = urlencode([pair for pair in query.multi_items() if pair[0] != "token"])
    return f"{scope['path']}?{rest}" if rest else str(scope["path"])
