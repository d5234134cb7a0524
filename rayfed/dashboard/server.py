"""The server of the dashboard: views as HTML, and a stream of changed studies."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar

import plotly.offline
from jinja2 import ChoiceLoader, Environment, PackageLoader
from markupsafe import Markup
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from rayfed.core.errors import RayfedError, ScenarioError, clipped
from rayfed.core.files import parse_json
from rayfed.dashboard.cache import Cache
from rayfed.dashboard.catalogue import Catalogue
from rayfed.dashboard.control import Control
from rayfed.dashboard.ending import Ending, Requests
from rayfed.dashboard.guard import Guard
from rayfed.dashboard.overview import Goal, Layout, Overview, titled
from rayfed.dashboard.scatter import Scatter
from rayfed.dashboard.views import (
    LOG,
    VIEWS,
    Chosen,
    Found,
    asked,
    client_of,
    frame_of,
    logs_of,
    over_rounds,
    results_of,
    saved,
    shown,
    stamps_of,
)
from rayfed.report.html import asset, environment, scripts
from rayfed.report.page.report import colours
from rayfed.report.panels.base import Panel

LOOK_S = 1.0
"""Seconds between two checks of the folders while a browser is connected."""
RESTS = 20.0
"""Processor times of an answer that a tab waits before it asks again: at most 5 % of a core."""
REST_S = 30.0
"""Most seconds that it waits: the first view of many runs takes longer than later ones."""
REST = "Rayfed-Rest"
"""Header with these seconds."""
_KEEP_S = 15.0
_ANSWERS_BYTES = 16e6
_VIEWS = ("overview", *VIEWS, LOG)
_SCRIPTS = ("scatter.js", "runs.js", "saved.js", "live.js")
_DATA: dict[str, tuple[str, Callable[[Any], str | bytes]]] = {
    "csv": ("text/csv", lambda frame: frame.to_csv(index=False)),
    "parquet": ("application/octet-stream", lambda frame: frame.to_parquet(index=False)),
}
_T = TypeVar("_T")


@cache
def templates() -> Environment:
    """Return the environment of the page's templates and the dashboard's."""
    own = PackageLoader("rayfed.dashboard")
    base = environment()
    assert base.loader is not None
    return base.overlay(loader=ChoiceLoader([own, base.loader]))


@cache
def own_asset(name: str) -> str:
    """Return the text of a file in ``rayfed/dashboard/assets``."""
    return (Path(__file__).parent / "assets" / name).read_text(encoding="utf-8")


class Watch:
    """Polls folders while there are listeners, and sends them changes."""

    def __init__(self, catalogue: Catalogue) -> None:
        self.catalogue = catalogue
        self.listeners: set[asyncio.Queue[frozenset[str]]] = set()
        self.looking = asyncio.Lock()

    async def look(self) -> None:
        """Read changed files."""
        async with self.looking:
            changed = await run_in_threadpool(self.catalogue.look)
        if changed:
            for queue in self.listeners:
                queue.put_nowait(changed)

    async def run(self) -> None:
        """Look again and again."""
        while True:
            if self.listeners:
                await self.look()
            await asyncio.sleep(LOOK_S)

    async def stream(self) -> AsyncIterator[str]:
        """Yield server-sent events: the keys of the studies that have changed."""
        queue: asyncio.Queue[frozenset[str]] = asyncio.Queue()
        self.listeners.add(queue)
        try:
            yield "retry: 2000\n\n"
            while True:
                try:
                    changed = set(await asyncio.wait_for(queue.get(), _KEEP_S))
                except TimeoutError:
                    yield ": still here\n\n"
                    continue
                while not queue.empty():
                    changed |= queue.get_nowait()
                yield f"data: {json.dumps(sorted(changed))}\n\n"
        finally:
            self.listeners.discard(queue)


class Dashboard:
    """The pages of the dashboard.

    Parameters
    ----------
    catalogue : Catalogue
    kinds : sequence of type
        The panels that there are, the user's included.
    control : bool
        Whether the browser may change studies, see `Control`.
    """

    def __init__(
        self, catalogue: Catalogue, kinds: Sequence[type[Panel]], control: bool = False
    ) -> None:
        self.catalogue, self.kinds = catalogue, kinds
        self.control = Control(catalogue) if control else None
        self.watch = Watch(catalogue)
        self.requests = Requests()
        self._answers: Cache[tuple[bytes, float]] = Cache(_ANSWERS_BYTES, lambda one: len(one[0]))
        self._began = time.time_ns()

    def app(self, host: str, port: int, token: str | None, *, framed: bool = False) -> Starlette:
        """Return the application for a server on a host and port; see `Guard`."""

        @asynccontextmanager
        async def lifespan(_: Starlette) -> AsyncIterator[None]:
            task = asyncio.create_task(self.watch.run())
            try:
                yield
            finally:
                task.cancel()

        steering = [] if self.control is None else [
            Route("/control/{what}", self.steer, methods=["POST"])
        ]  # fmt: skip
        return Starlette(
            routes=[
                *steering,
                Route("/", self.overview),
                Route("/overview.json", self.overview_json),
                Route("/events", self.events),
                Route("/plotly.js", self.plotly),
                Route("/save/{view}", self.save),
                Route("/data/{view}.{kind}", self.data),
                Route("/client.json", self.client_json),
                Route("/{view}.json", self.view_json),
                Route("/{view}", self.view),
            ],
            exception_handlers={RayfedError: self.refused},
            middleware=[
                Middleware(Ending, requests=self.requests),
                Middleware(Guard, host=host, port=port, token=token, framed=framed),
            ],
            lifespan=lifespan,
        )

    async def end(self, log: Callable[[str], None]) -> None:
        """Answer requests with a line, and actions once they have ended; see `Control.end`."""
        self.requests.end(but="/control/")
        if self.control is not None:
            await run_in_threadpool(self.control.end, log)

    async def overview(self, request: Request) -> Response:
        """Send every run of every study."""
        await self.watch.look()
        made = await run_in_threadpool(self._overview, request)
        return HTMLResponse(self._page("overview.html", "overview", **made))

    async def overview_json(self, request: Request) -> Response:
        """Send the current overview."""
        made = await run_in_threadpool(self._overview, request)
        main = templates().get_template("overview_main.html").render(**made)
        parts = {"main": main, "title": made["overview"].tab, "colours": made["colours"]}
        return JSONResponse(parts | {"scatter": made["scatter"].payload})

    def _overview(self, request: Request) -> dict[str, Any]:
        goal, layout = Goal.of(request.query_params), Layout.of(request.url.query)
        overview = Overview.of(self.catalogue, time.time(), goal, layout)
        scatter = Scatter(overview)
        return {
            "overview": overview, "scatter": scatter, "colours": colours(scatter.styles),
            "control": self.control is not None, "figures": Markup(asset("figures.js")),
        }  # fmt: skip

    async def view(self, request: Request) -> Response:
        """Send panels of the page over some runs."""
        return await self._answered(request, "text/html", self._html)

    async def view_json(self, request: Request) -> Response:
        """Send a current view."""
        return await self._answered(request, "application/json", self._json)

    def _html(self, name: str, made: dict[str, Any]) -> str:
        return self._page(f"{_template(name)}.html", name, **made)

    def _json(self, name: str, made: dict[str, Any]) -> str:
        main = templates().get_template(f"{_template(name)}_main.html").render(view=name, **made)
        parts = {"main": main, "data": made["payload"], "colours": str(made["colours"])}
        parts |= {"title": made["tab"]}
        return json.dumps(parts, ensure_ascii=False, allow_nan=False, separators=(",", ":"))

    async def _answered(
        self, request: Request, media: str, text_of: Callable[[str, dict[str, Any]], str]
    ) -> Response:
        """Send a view as text; that of unchanged files is made once, and a browser keeps it."""
        name, query = _named(request, (*VIEWS, LOG)), request.url.query
        await self.watch.look()
        chosen, missing = Chosen.of(query).present(self.catalogue)
        parts = {"query": chosen.query, "missing": dict.fromkeys(missing)}

        def make(_: object, found: Found) -> tuple[bytes, float]:
            began = time.thread_time()
            made = self._shown(name, found, query) | parts
            text = text_of(name, made).encode()
            return text, min(REST_S, RESTS * (time.thread_time() - began))

        def answer(found: Found) -> Response:
            if name == LOG or (name == "machine" and any(study.running for study, _ in found)):
                return Response(make(None, found)[0], media_type=media)  # logs and processes
            stamps = stamps_of(found)
            key = (media, name, query, missing)
            tag = hashlib.sha256(repr((self._began, key, stamps)).encode()).hexdigest()
            headers = {"ETag": f'"{tag}"', "Cache-Control": "no-cache"}
            if request.headers.get("If-None-Match") == headers["ETag"]:
                return Response(status_code=304, headers=headers)
            text, rest = self._answers.get(key, stamps, partial(make, found=found))
            return Response(text, media_type=media, headers=headers | {REST: f"{rest:.2f}"})

        return await run_in_threadpool(answer, chosen.found(self.catalogue))

    async def client_json(self, request: Request) -> Response:
        """Send the activity of a client in a run."""
        client = request.query_params.get("client", "")
        if not client.isdecimal() or len(client) > 18:
            raise ScenarioError(
                "client", f"found '{clipped(client, 40)}'; give the number of a client"
            )
        return JSONResponse(await self._of_runs(request, partial(client_of, client=int(client))))

    async def save(self, request: Request) -> Response:
        """Send a view as a page in one file."""
        name = _named(request, VIEWS)
        opening = request.query_params.get("at", "")
        text = await self._of_runs(request, lambda found: saved(name, found, self.kinds, opening))
        return HTMLResponse(text, headers=_as_file(f"{name}.html"))

    async def data(self, request: Request) -> Response:
        """Send the rows that a view draws, as CSV or Parquet."""
        name, kind = _named(request, VIEWS), request.path_params["kind"]
        if kind not in _DATA:
            raise ScenarioError("", "found another format; use csv or parquet")
        media, text_of = _DATA[kind]
        text = await self._of_runs(
            request, lambda found: text_of(frame_of(name, results_of(found)))
        )
        return Response(text, media_type=media, headers=_as_file(f"{name}.{kind}"))

    async def _of_runs(self, request: Request, make: Callable[[Found], _T]) -> _T:
        """Return a result of the runs that a request names, in their current state."""
        await self.watch.look()
        found = Chosen.of(request.url.query).found(self.catalogue)
        return await run_in_threadpool(make, found)

    def _shown(self, name: str, found: Found, query: str) -> dict[str, Any]:
        about = {"studies": sorted(study.key for study, _ in found)}
        runs = [study.by_folder[run] for study, names in found for run in names]
        if name == LOG:
            made: dict[str, Any] = {"logs": logs_of(found), "payload": None, "colours": colours({})}
            return made | about | {"tab": titled(LOG, runs)}
        results = results_of(found)
        made = shown(name, results, self.kinds, found, asked(query))
        made |= {"columns": over_rounds(name, results)}
        return made | about | {"tab": titled(results.study, runs)}

    async def refused(self, request: Request, error: Exception) -> Response:
        """Report an error: as JSON to requests for JSON, else as a page."""
        if request.url.path.endswith(".json"):
            return JSONResponse({"error": str(error)}, 404)
        view = request.path_params.get("view", "")
        return HTMLResponse(self._page("trouble.html", view, text=str(error)), 404)

    def _page(self, template: str, view: str, query: str = "", **made: Any) -> str:
        values: dict[str, Any] = {"view": view, "query": query} | made
        values["colours"] = Markup(values.get("colours", colours({})))
        return templates().get_template(template).render(
            views=_VIEWS,
            css=Markup(asset("page.css") + own_asset("dashboard.css")),
            scripts=Markup(scripts()),
            live=Markup("\n".join(map(own_asset, _SCRIPTS))),
            **values,
        )  # fmt: skip

    async def steer(self, request: Request) -> Response:
        """Carry out a request of `Control.do`; only with `control`.

        A refusal is an answer as any other: of other states a browser writes errors in its console.
        """
        assert self.control is not None
        try:
            given = parse_json(await request.body())
        except ValueError as error:
            return JSONResponse({"error": str(error)}, 400)
        try:
            if not isinstance(given, dict):
                text = f"found {clipped(json.dumps(given), 40)}; give a mapping with a study"
                raise ScenarioError("body", text)
            line = await run_in_threadpool(self.control.do, request.path_params["what"], given)
        except (RayfedError, ValueError) as error:
            return JSONResponse({"error": str(error)})
        return JSONResponse({"done": line})

    async def events(self, request: Request) -> Response:
        """Send changes as they occur."""
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return StreamingResponse(
            self.watch.stream(), media_type="text/event-stream", headers=headers
        )

    async def plotly(self, request: Request) -> Response:
        """Send the script of Plotly."""
        text = plotly.offline.get_plotlyjs()
        return Response(
            text, media_type="text/javascript", headers={"Cache-Control": "max-age=86400"}
        )


def _named(request: Request, views: Collection[str]) -> str:
    """Return the view that an address names."""
    name = str(request.path_params["view"])
    if name not in views:
        raise ScenarioError("", "found no such view; use the links of the dashboard")
    return name


def _as_file(name: str) -> dict[str, str]:
    """Return headers by which a browser keeps an answer as a file."""
    return {"Content-Disposition": f'attachment; filename="{name}"'}


def _template(view: str) -> str:
    return LOG if view == LOG else "view"
