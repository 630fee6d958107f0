"""`hocket report RUN --live`: the page of a run, on this machine alone, that renews itself by server-sent events."""

from __future__ import annotations

import asyncio
import json
import secrets
import sys
import threading
import time
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any, NamedTuple

from hocket.apps.live.following import FollowedRun, seconds_since, steps_of
from hocket.apps.report.page import duration, notes, overview, page, template
from hocket.apps.report.rollouts import STEPS, chosen, pictures_shown, recorded_step
from hocket.apps.serve.addresses import addressed, is_loopback
from hocket.apps.serve.command import until_asked_to_end
from hocket.apps.serve.host import ApplicationHost, require
from hocket.core.errors import HocketError

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

PAUSE = 1.0
"""Seconds between two looks at the run."""

AT_ONCE = 8
"""Recorded steps sent at most to a page that has missed some."""

_HEADERS = {"cache-control": "no-store", "x-content-type-options": "nosniff", "referrer-policy": "no-referrer"}


class News(NamedTuple):
    """The run as it stands: how often it has changed, parts of the page as HTML, recorded steps, and its state."""

    version: int
    parts: dict[str, str]
    steps: list[int]
    state: dict[str, Any]


class LivePage:
    """What is sent of a run; for several threads and readers, who share what is read and drawn.

    Args:
        run: the run. pause: seconds between two looks at its folder.
    """

    def __init__(self, run: FollowedRun, pause: float = PAUSE) -> None:
        self._run, self.pause = run, pause
        self._lock = threading.Lock()
        self._steps: dict[tuple[str, int, int], dict[str, Any]] = {}
        self._parts: tuple[int, dict[str, str]] = (0, {})
        self._next_look = 0.0

    def document(self) -> str:
        """The whole page."""
        with self._lock:
            self._look()
            record, steps = self._run.record, self._recorded()
            return page(record, {"steps": steps, "pictures": pictures_shown(record, steps)})

    def news(self) -> News:
        """The run as it stands.

        Raises:
            HocketError: when it is gone.
        """
        with self._lock:
            self._look()
            run = self._run
            if self._parts[0] != run.version:
                parts = {
                    "overview": template("overview.html").render(
                        **overview(run.record, self._recorded(), run.answers())
                    ),
                    "notes": template("notes.html").render(**notes(run.record)),
                }
                self._parts = (run.version, parts)
            return News(run.version, self._parts[1], list(run.record.steps), self._state())

    def step(self, number: int) -> dict[str, Any] | None:
        """A recorded step with its pictures; None where there is nothing of it."""
        with self._lock:
            data = self._step(number)
            return data and {"step": data, "pictures": pictures_shown(self._run.record, [data])}

    def _look(self) -> None:
        began = time.monotonic()
        if began >= self._next_look:
            self._run.poll()
            # A long run takes a while to read: at most a sixth of the time goes into it.
            self._next_look = time.monotonic() + max(self.pause, 5 * (time.monotonic() - began))

    def _recorded(self) -> list[dict[str, Any]]:
        steps = chosen(self._run.record.steps, STEPS)
        return [data for step in steps if (data := self._step(step))]

    def _step(self, number: int) -> dict[str, Any] | None:
        record = self._run.record
        try:
            changed = (record.path / "rollouts" / f"step-{number:06d}.jsonl").stat().st_mtime_ns
        except OSError:
            return None
        key = (str(record.path), number, changed)
        if key not in self._steps and (data := recorded_step(record, number)):
            self._steps[key] = data
        return self._steps.get(key)

    def _state(self) -> dict[str, Any]:
        run = self._run
        step, steps = steps_of(run.record)
        words = f"{run.state} · step {step}" + (f" of {steps}" if steps else "")
        since = seconds_since(run.record)
        if run.training and since is not None:
            words += f" · last step {duration(since)} ago"
        title = f"{step}{f'/{steps}' if steps else ''} {run.record.name}"
        return {"words": words, "training": run.training, "over": run.ended, "title": title}


def build_app(live: LivePage, secret: str) -> Starlette:
    """The page at `/SECRET/` and its events at `/SECRET/events`, for this machine's own names alone."""
    from starlette.applications import Starlette
    from starlette.responses import HTMLResponse, PlainTextResponse, StreamingResponse
    from starlette.routing import Route

    def refused(request: Request) -> Response | None:
        # A page of the web may not ask under a name of its own.
        host = addressed(request.headers.get("host", ""))
        known = host is not None and is_loopback(host)
        return None if known else PlainTextResponse("this page is for this machine alone", 403)

    async def document(request: Request) -> Response:
        try:
            return refused(request) or HTMLResponse(await asyncio.to_thread(live.document), headers=_HEADERS)
        except HocketError as error:
            return PlainTextResponse(str(error), 410)

    async def events(request: Request) -> Response:
        after = request.headers.get("last-event-id") or request.query_params.get("after", "")
        content = stream(live, int(after) if after.isdecimal() else 0)
        return refused(request) or StreamingResponse(content, media_type="text/event-stream", headers=_HEADERS)

    return Starlette(routes=[Route(f"/{secret}/", document), Route(f"/{secret}/events", events)])


async def stream(live: LivePage, after: int) -> AsyncGenerator[str, None]:
    """The events of one page: parts that have changed, recorded steps after step `after`, and the state."""
    version = 0
    yield "retry: 1000\n\n"
    while True:
        try:
            news = await asyncio.to_thread(live.news)
        except HocketError as error:
            yield _event("state", {"words": str(error), "training": False, "over": True, "title": "gone"})
            return
        if news.version != version:
            version = news.version
            if news.steps and news.steps[-1] < after:
                after = 0  # Another phase of a plan, or a run that began again.
            yield _event("parts", news.parts)
            for number in [step for step in news.steps if step > after][-AT_ONCE:]:
                after = number
                if data := await asyncio.to_thread(live.step, number):
                    yield f"id: {number}\n{_event('step', data)}"
        yield _event("state", news.state)
        if news.state["over"]:
            return
        await asyncio.sleep(live.pause)


def _event(name: str, data: Any) -> str:
    # Halves of characters, which a model may leave, have no place in UTF-8.
    text = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return f"event: {name}\ndata: {text}\n\n"


def serve_page(name: str, runs: str, port: int) -> None:
    """Serves the page of a run until a signal asks to end; prints its address.

    Raises:
        ConfigurationError: when there is no such run, the port is taken, or the extra `hocket[serve]` is missing.
    """
    require()
    live = LivePage(FollowedRun(name, runs))
    secret = secrets.token_urlsafe(16)
    with until_asked_to_end() as end, ApplicationHost(lambda: build_app(live, secret), port=port) as host:
        print(f"{host.address}/{secret}/", flush=True)
        print("for this machine alone, while this command runs; Ctrl-C ends it, and the run goes on", file=sys.stderr)
        end.wait()
