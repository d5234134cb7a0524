"""Access to the server: this machine's own pages, and others with a token."""

from __future__ import annotations

import secrets
from ipaddress import ip_address
from urllib.parse import urlencode

from starlette.datastructures import Headers, QueryParams
from starlette.requests import cookie_parser
from starlette.responses import PlainTextResponse, RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_NAMES = ("localhost", "127.0.0.1", "[::1]")
_POLICY = "default-src 'self' data: blob: 'unsafe-inline'; frame-ancestors "
_HEADERS = (
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


def in_address(host: str) -> str:
    """Return a host as it stands in an address.

    Examples
    --------
    >>> in_address("127.0.0.1"), in_address("::1")
    ('127.0.0.1', '[::1]')
    """
    return f"[{host.strip('[]')}]" if ":" in host else host


class Guard:
    """Refuses requests of foreign pages and requests without the token.

    A page elsewhere can make a browser ask a server on loopback; its name for the server is in the
    header ``Host``, and its own in ``Origin``. Both must be those of this server. Other users of
    the machine reach loopback too, so reading needs the token as well.

    Parameters
    ----------
    app : ASGIApp
    port : int
    host : str
        Where the server listens.
    token : str or None
        What requests must bring: in the query once, then in a cookie; or as ``Authorization:
        Bearer``. Whoever reaches the server may read if None.
    framed : bool
        Whether pages of this machine, such as notebooks, may frame the dashboard.
    """

    def __init__(
        self, app: ASGIApp, *, host: str, port: int, token: str | None, framed: bool = False
    ) -> None:
        self.app, self.token = app, token
        self.local = is_loopback(host)
        names = {*_NAMES, in_address(host)}
        self.hosts = {f"{name}:{port}" for name in names} | (names if port == 80 else set())
        # browsers share cookies among ports
        self.cookie = f"rayfed-token-{port}"
        frames = "'self' http://localhost:* http://127.0.0.1:*" if framed else "'none'"
        self.headers = (("Content-Security-Policy", _POLICY + frames), *_HEADERS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it with a line."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                held = [(name.lower().encode(), value.encode()) for name, value in self.headers]
                message = {**message, "headers": [*message.get("headers", ()), *held]}
            await send(message)

        answer = self._answer(scope) or self.app
        await answer(scope, receive, guarded)

    def _answer(self, scope: Scope) -> ASGIApp | None:
        """Return the answer to a request that the application is not asked; None to others."""
        headers, query = Headers(scope=scope), QueryParams(scope["query_string"])
        refusal = self._refusal(headers)
        if refusal is None and (given := query.get("token")) and self._is_token(given):
            answer = RedirectResponse(_without_token(scope, query), 303)
            # lax: whoever opens the address from a file or a notebook comes from another site
            answer.set_cookie(self.cookie, given, httponly=True, samesite="lax")
            return answer
        cookie = cookie_parser(headers.get("cookie", "")).get(self.cookie, "")
        bearer = headers.get("authorization", "").removeprefix("Bearer ")
        knows = self.token is None or self._is_token(cookie) or self._is_token(bearer)
        if refusal is None and not knows:
            refusal = "needs the address with the token that rayfed dashboard printed"
        return None if refusal is None else PlainTextResponse(f"{refusal}\n", 403)

    def _refusal(self, headers: Headers) -> str | None:
        """Return the reason for refusing a request of any sender; None without one."""
        host, origin = headers.get("host", ""), headers.get("origin")
        if self.local and host not in self.hosts:
            return "this server is not known by that name; use 127.0.0.1"
        if origin is not None and origin.partition("://")[2] != host:
            return "pages of other servers may not ask this one"
        return None

    def _is_token(self, given: str) -> bool:
        return self.token is not None and secrets.compare_digest(
            given.encode(), self.token.encode()
        )


def _without_token(scope: Scope, query: QueryParams) -> str:
    """Return the address without the token; a path that begins with two slashes names a host."""
    rest = urlencode([pair for pair in query.multi_items() if pair[0] != "token"])
    path = "/" + str(scope["path"]).lstrip("/\\")
    return f"{path}?{rest}" if rest else path
