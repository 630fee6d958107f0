"""A headless Chromium that is spoken to through two pipes by its DevTools protocol; one for all pages of a process.

Messages are JSON, each ended by a zero byte, on the browser's descriptors 3 (to it) and 4 (from it). Nothing listens on
a port, and no driver is needed.
"""

from __future__ import annotations

import atexit
import fcntl
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from hocket.core.errors import ConfigurationError, HocketError

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
"""Programs that will do, best first; `HOCKET_BROWSER` names another."""

ANSWERING = 30.0
"""Seconds that a page has for an answer."""

_FLAGS = (
    *("--headless", "--no-first-run", "--remote-debugging-pipe", "--disable-gpu", "--disable-quic", "--mute-audio"),
    *("--disable-extensions", "--disable-background-networking", "--disable-sync", "--renderer-process-limit=2"),
    *("--disable-background-timer-throttling", "--disable-renderer-backgrounding", "--disable-dev-shm-usage"),
    *("--proxy-server=127.0.0.1:9", "--proxy-bypass-list=<-loopback>", "--window-size=500,500"),
)
"""Pages are files: what they ask of a network, this machine included, goes to a proxy that is not there."""


_BEFORE = Path(__file__).with_name("before.js")
"""What runs before a page's own scripts: its clock stands still until `pageClock.advance`, and dialogs are answered."""

_BECOME = "import os, sys; a, b, *line = sys.argv[1:]; os.dup2(int(a), 3); os.dup2(int(b), 4); os.execvp(line[0], line)"


class Browser:
    """One process of Chromium.

    Raises:
        ConfigurationError: when there is none, or it does not start.
    """

    def __init__(self) -> None:
        program = os.environ.get("HOCKET_BROWSER") or next(filter(None, map(shutil.which, NAMES)), None)
        if program is None:
            raise ConfigurationError(
                "web pages need Chromium, which is not installed: apt install chromium, or name a browser of its "
                "family in HOCKET_BROWSER"
            )
        self._folder = tempfile.TemporaryDirectory(prefix="hocket-browser-", ignore_cleanup_errors=True)
        self._numbers, self._lock = itertools.count(1), threading.Lock()
        self._waiting: dict[int, Future[Mapping[str, Any]]] = {}
        self._idle: list[Page] = []
        self._ended: str | None = None
        self._process = self._started(program)
        threading.Thread(target=self._listen, name="hocket-browser", daemon=True).start()
        atexit.register(self.close)
        try:
            self.ask("Browser.getVersion")
        except HocketError as error:
            self.close()
            raise ConfigurationError(f"the browser {program} does not start: {error}") from None

    def _started(self, program: str) -> subprocess.Popen[bytes]:
        """The process; the interpreter that becomes it moves its ends of the pipes to where it expects them."""
        theirs_in, ours_out = os.pipe()
        ours_in, theirs_out = os.pipe()
        # Numbers above those that they are moved to.
        ends = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (theirs_in, theirs_out)]
        flags = [*_FLAGS, f"--user-data-dir={self._folder.name}"]
        if os.geteuid() == 0:
            flags.append("--no-sandbox")  # Chromium's own sandbox refuses root.
        try:
            process = subprocess.Popen(
                [sys.executable, "-ISc", _BECOME, *map(str, ends), program, *flags],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=ends,
                start_new_session=True,
            )
        finally:
            for end in (theirs_in, theirs_out, *ends):
                os.close(end)
        self._out, self._in = os.fdopen(ours_out, "wb", buffering=0), os.fdopen(ours_in, "rb")
        return process

    def ask(self, method: str, session: str | None = None, /, **parameters: Any) -> Mapping[str, Any]:
        """What the browser answers to a method of the protocol, in a session of a page where one is given.

        Raises:
            HocketError: when it refuses, does not answer within `ANSWERING` seconds, or has ended.
        """
        answer: Future[Mapping[str, Any]] = Future()
        message: dict[str, Any] = {"id": next(self._numbers), "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        with self._lock:
            if self._ended is not None:
                raise HocketError(self._ended)
            self._waiting[message["id"]] = answer
            try:
                self._out.write(json.dumps(message).encode() + b"\0")
            except OSError:
                raise HocketError("the browser has ended") from None
        try:
            reply = answer.result(ANSWERING)
        except TimeoutError:
            raise HocketError(f"the browser gave no answer to {method} within {ANSWERING:g} s") from None
        finally:
            self._waiting.pop(message["id"], None)
        if "error" in reply:
            raise HocketError(f"the browser refuses {method}: {reply['error'].get('message')}")
        result: Mapping[str, Any] = reply["result"]
        return result

    def page(self, url: str) -> Page:
        """A page that is at `url` already if one was given back there, else any other, a new one at need."""
        with self._lock:
            page = next((idle for idle in self._idle if idle.url == url), self._idle[-1] if self._idle else None)
            if page is not None:
                self._idle.remove(page)
                return page
        target = str(self.ask("Target.createTarget", url="about:blank")["targetId"])
        session = str(self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"])
        self.ask("Page.enable", session)
        self.ask("Page.addScriptToEvaluateOnNewDocument", session, source=_BEFORE.read_text())
        return Page(self, target, session)

    def give_back(self, page: Page) -> None:
        """Keeps a page for the next one who wants one."""
        with self._lock:
            self._idle.append(page)

    @property
    def ended(self) -> bool:
        """Whether it can no longer be asked."""
        return self._ended is not None or self._process.poll() is not None

    def close(self) -> None:
        """Ends the process, and removes what it wrote."""
        self._end("the browser was closed")
        self._process.kill()
        self._process.wait()
        self._folder.cleanup()

    def _listen(self) -> None:
        """Hands answers to those who wait for them, until the browser ends."""
        rest = b""
        with suppress(OSError, ValueError):
            while part := os.read(self._in.fileno(), 2**16):
                *messages, rest = (rest + part).split(b"\0")
                for message in map(json.loads, messages):
                    waiting = self._waiting.pop(message.get("id"), None)
                    if waiting is not None:
                        waiting.set_result(message)
        self._end("the browser has ended")

    def _end(self, reason: str) -> None:
        with self._lock:
            self._ended = self._ended or reason
            waiting, self._waiting = list(self._waiting.values()), {}
        for future in waiting:
            future.set_result({"error": {"message": reason}})


class Page:
    """One page of the browser, a document at a time.

    Attributes:
        url: where it is, None before it was opened.
    """

    def __init__(self, browser: Browser, target: str, session: str) -> None:
        self._browser, self._target, self._session = browser, target, session
        self._sound = True
        self.url: str | None = None

    def open(self, url: str, ready: str, script: str) -> None:
        """Goes to `url`, waits until the expression `ready` is true there, and runs a script.

        Raises:
            HocketError: when it cannot be reached, or never becomes so.
        """
        self.url = None
        reply = self._ask("Page.navigate", url=url)
        if reply.get("errorText"):
            raise HocketError(f"the page {url} cannot be opened: {reply['errorText']}")
        # A document that is on its way answers for the one before; its address tells them apart.
        condition = f"location.href === {json.dumps(url)} && document.readyState === 'complete' && !!({ready})"
        until = time.monotonic() + ANSWERING
        while not self._outcome(condition).get("value"):  # Also where it was asked between two documents.
            if time.monotonic() > until:
                raise HocketError(f"the page {url} did not become ready within {ANSWERING:g} s")
            time.sleep(0.01)
        self.evaluate(script)
        self.url = url

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression in the page, a promise's when it is kept.

        Raises:
            HocketError: when it throws.
        """
        outcome = self._outcome(expression)
        if "raised" in outcome:
            raise HocketError(f"the page raised {outcome['raised']}")
        return outcome.get("value")

    def close(self) -> None:
        """Gives the page back as it is; one that has once not answered is shut."""
        if self._sound:
            self._browser.give_back(self)
        elif not self._browser.ended:
            self._shut()

    def _shut(self) -> None:
        """Stops the page's scripts and closes it. Pages share processes: one that cannot be stopped ends them all."""
        try:
            self._browser.ask("Runtime.terminateExecution", self._session)
            self._browser.ask("Target.closeTarget", targetId=self._target)
        except HocketError:
            self._browser.close()

    def _outcome(self, expression: str) -> Mapping[str, Any]:
        """The `value` of an expression, or what it `raised`."""
        reply = self._ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" not in reply:
            result: Mapping[str, Any] = reply["result"]
            return result
        details = reply["exceptionDetails"]
        return {"raised": details.get("exception", {}).get("description", details["text"])}

    def _ask(self, method: str, **parameters: Any) -> Mapping[str, Any]:
        try:
            return self._browser.ask(method, self._session, **parameters)
        except HocketError:
            self._sound = False
            raise


_STARTING = threading.Lock()


def browser() -> Browser:
    """The browser of this process, started at the first need, and again when it has ended."""
    with _STARTING:
        if _browser(os.getpid()).ended:
            _browser.cache_clear()
        return _browser(os.getpid())


@cache
def _browser(process: int) -> Browser:
    return Browser()
