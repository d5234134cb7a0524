"""The end of the server: requests under way are answered with a line."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_ENDED = PlainTextResponse("the dashboard has ended\n", 503)


class Requests:
    """The requests that a server answers at the moment."""

    def __init__(self) -> None:
        self.tasks: dict[asyncio.Task[Any], str] = {}
        self.ended = False

    def end(self, but: str) -> None:
        """Answer all of them, and all further ones, with a line, but those below a path."""
        self.ended = True
        for task, path in self.tasks.items():
            if not path.startswith(but):
                task.cancel()


class Ending:
    """Middleware that answers requests with a line once the server ends.

    Parameters
    ----------
    app : callable
        The application.
    requests : Requests
        The requests under way.
    """

    def __init__(self, app: ASGIApp, requests: Requests) -> None:
        self.app, self.requests = app, requests

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; what it does in a thread continues after the end of the server."""
        task = asyncio.current_task()
        if scope["type"] != "http" or task is None:
            await self.app(scope, receive, send)
            return
        begun = False

        async def noted(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        self.requests.tasks[task] = scope["path"]
        try:
            answer = _ENDED if self.requests.ended else self.app
            await answer(scope, receive, noted)
        except asyncio.CancelledError:
            if not self.requests.ended:
                raise
            task.uncancel()
            if not begun:
                await _ENDED(scope, receive, send)
            else:  # such as a stream
                with suppress(Exception):  # an answer of a fixed length is cut
                    await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            del self.requests.tasks[task]
