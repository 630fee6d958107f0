"""Pages in a real browser: told in words, moved in words, the same every time."""

from __future__ import annotations

import shutil
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from hocket.agents.environments import browser as browsing
from hocket.agents.environments.miniwob import SEAT, MiniWoB
from hocket.core.errors import ConfigurationError, HocketError
from hocket.core.keys import Key
from hocket.tasks import find
from hocket.testing import rehearse
from hocket.types import Scenario

pytestmark = [
    pytest.mark.skipif(not any(map(shutil.which, browsing.NAMES)), reason="needs the chromium browser"),
    pytest.mark.skipif(find_spec("miniwob") is None, reason="needs the package miniwob"),
]

FORM = """<!DOCTYPE html><html><body>
<div id="query">Write "blue" and tick the box.</div>
<input id="word"><label><input type="checkbox" id="box">sure</label>
<select id="size"><option>small</option><option>large</option></select><button id="send">Send</button>
<div style="display: none">hidden</div>
<script>
  Math.seedrandom = (seed) => { window.seeded = seed; };
  var WOB_DONE_GLOBAL = false, WOB_RAW_REWARD_GLOBAL = 0;
  addEventListener("beforeunload", (event) => event.preventDefault());
  const by = (name) => document.getElementById(name);
  window.core = { cover_div: true, startEpisodeReal() {}, getUtterance: () => by("query").textContent };
  by("send").onclick = () => {
    alert("sent");
    WOB_DONE_GLOBAL = true;
    const right = by("word").value === "blue" && by("box").checked && by("size").value === "large";
    WOB_RAW_REWARD_GLOBAL = right ? 1 : -1;
  };
</script></body></html>"""


def opened(page: str, seed: int = 0, **settings):
    environment = MiniWoB(page, **settings).make(Scenario("s", ""))
    environment.reset(Key.of(seed))
    return environment


def played(environment, *moves: str) -> list[float]:
    return [environment.act({SEAT: move})[SEAT] for move in moves]


@pytest.fixture
def form(tmp_path: Path):
    (tmp_path / "form.html").write_text(FORM)
    environment = opened("form", root=str(tmp_path))
    yield environment
    environment.close()


def test_a_page_of_ones_own_is_told_and_filled_in(form) -> None:
    assert form.observe(SEAT).text.splitlines() == [
        'Write "blue" and tick the box.',
        '1 text field ""',
        "2 text sure",
        "3 checkbox",
        "4 option small (chosen)",
        "5 option large",
        "6 button Send",
    ]
    assert form.observe(SEAT).actions[-1] == "type 1 blue"
    assert played(form, "type 1 blue", "click 3", "CLICK 5.") == [0.0, 0.0, 0.0]
    assert form.elements[0] == 'text field "blue"'
    assert form.elements[2:5] == ("checkbox (on)", "option small", "option large (chosen)")
    assert played(form, "click 6") == [1.0]
    assert form.over
    assert not form.truncated


def test_what_is_no_move_costs_a_move_and_changes_nothing(form) -> None:
    before = form.observe(SEAT).text
    assert played(form, "", "click 7", "type 2 blue", "jump") == [0.0] * 4
    assert form.illegal == {SEAT: 4}
    assert form.observe(SEAT).text == f"{before}\nThat was no move."
    assert played(form, "click 6") == [-1.0]


def test_an_episode_ends_at_its_limit(form) -> None:
    assert played(form, *["click 1"] * 5) == [0.0] * 5
    assert form.over
    assert form.truncated


def test_a_page_that_would_not_let_go_is_left(form) -> None:
    played(form, "type 1 blue")
    for _ in range(3):
        form.reset(Key.of(1))
        assert form.elements[0] == 'text field ""'


def test_equal_keys_are_equal_episodes_whatever_was_before() -> None:
    first, other = opened("click-button", 3), opened("click-button", 4)
    told = first.observe(SEAT).text
    assert told.startswith('Click on the "')
    assert other.observe(SEAT).text != told
    played(other, "click 1", "click 2")
    other.reset(Key.of(3))
    assert other.observe(SEAT).text == told
    first.close()
    other.close()


def test_the_packages_pages_pay_what_they_ask_for() -> None:
    page = opened("click-button", 3)
    wanted = page.asked.split('"')[1]
    place = page.elements.index(f"button {wanted}")
    assert played(page, f"click {place + 1}") == [1.0]
    page.close()
    page = opened("enter-text", 5)
    assert played(page, next(m for m in page.observe(SEAT).actions if m.startswith("type"))) == [0.0]
    assert played(page, f"click {page.elements.index('button Submit') + 1}") == [1.0]
    page.close()


def test_a_task_plays_it() -> None:
    task = find("miniwob:click-test?reading=answer&instruct=false")
    (episode,) = rehearse(task.workflow, task.scenario("train", 0), ["<answer>click 1</answer>"])
    assert task.success(episode) == 1.0


def test_lessons_hold_legal_moves_only() -> None:
    task = find("miniwob:enter-text")
    talks = task.lessons.play(task.scenario("train", 0), np.random.default_rng(0))
    assert all(talk.said[0]["content"].split()[0] in ("click", "type") for talk in talks)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("click-buton", "there is no page 'click-buton' in miniwob/; did you mean 'click-button'?"),
        ("drag-box", "drag-box wants a hand"),
        ("click-button?limit=0", "limit and concurrent are at least 1"),
        ("form?root=/nowhere", "there is no page 'form' in nowhere/"),
    ],
)
def test_what_cannot_be_is_refused(name: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said.replace("?", r"\?").replace("'", "'")):
        find(f"miniwob:{name}")


def test_a_missing_browser_is_said(monkeypatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("HOCKET_BROWSER", raising=False)
    with pytest.raises(ConfigurationError, match="web pages need Chromium"):
        browsing.Browser()
    monkeypatch.setenv("HOCKET_BROWSER", "/bin/true")
    with pytest.raises(ConfigurationError, match="does not start"):
        browsing.Browser()


def test_a_browser_that_dies_fails_its_episode_and_the_next_one_has_another() -> None:
    page = opened("click-test")
    process = browsing.browser()._process  # Asked for again, a browser that has ended is another.
    process.kill()
    process.wait()
    with pytest.raises(HocketError, match="the browser has ended"):
        played(page, "click 1")
    page.close()
    page = opened("click-test")
    assert played(page, "click 1") == [1.0]
    page.close()


def hang(page: browsing.Page, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs a script that never ends, until the page has had its time."""
    with monkeypatch.context() as short:
        short.setattr(browsing, "ANSWERING", 0.5)
        with pytest.raises(HocketError, match="gave no answer"):
            page.evaluate("(() => { while (true); })()")


def test_a_page_that_does_not_answer_is_not_used_again(form, monkeypatch) -> None:
    page = form._page
    hang(page, monkeypatch)
    form.close()
    assert page not in browsing.browser()._idle


def test_a_page_that_does_not_answer_stops_no_other(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "form.html").write_text(FORM)
    for _ in range(2):  # As many as the browser has processes for pages.
        page = opened("form", root=str(tmp_path))
        hang(page._page, monkeypatch)
        page.close()
    page = opened("form", root=str(tmp_path))
    assert played(page, "type 1 blue") == [0.0]
    page.close()


def test_a_page_that_does_not_open_is_replaced_once(form, monkeypatch) -> None:
    first, begin = form._page, browsing.Page.open

    def open_page(page: browsing.Page, *rest: str) -> None:
        if page is first:
            page._sound = False
            raise HocketError("no answer")
        begin(page, *rest)

    monkeypatch.setattr(browsing.Page, "open", open_page)
    form.reset(Key.of(1))
    assert form._page is not first
    assert played(form, "type 1 blue") == [0.0]


def test_pages_reach_nothing_of_this_machine(form) -> None:
    asked = []

    class Answering(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.end_headers()

    with ThreadingHTTPServer(("127.0.0.1", 0), Answering) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        for host in ("127.0.0.1", "localhost"):
            reach = f"fetch('http://{host}:{server.server_port}/', {{mode: 'no-cors'}}).then(() => 'in', () => 'out')"
            assert form._page.evaluate(reach) == "out"
        server.shutdown()
    assert not asked


def test_a_page_without_anything_to_act_on_ends_its_episode(tmp_path: Path) -> None:
    start, _, rest = FORM.partition("<input")
    bare = start + "<script>" + rest.partition("<script>")[2].replace('by("send").onclick', "window.sent")
    (tmp_path / "bare.html").write_text(bare)
    page = opened("bare", root=str(tmp_path))
    assert page.elements == ()
    assert page.over
    assert page.truncated
    page.close()


def test_the_clock_of_a_page_moves_by_a_second_with_each_move(tmp_path: Path) -> None:
    ticking = """startEpisodeReal() {
      let ticks = 0;
      setInterval(() => { by("send").textContent = `${++ticks} at ${Date.now() % 10000}`; }, 400);
      setTimeout(() => by("word").remove(), 2500);
    }"""
    (tmp_path / "ticking.html").write_text(FORM.replace("startEpisodeReal() {}", ticking))
    page = opened("ticking", root=str(tmp_path))
    told = [page.elements[-1]]
    for _ in range(2):
        time.sleep(0.5)  # Of the world's time nothing is seen.
        played(page, "click 2")
        told.append(page.elements[-1])
    assert told == ["button 2 at 800", "button 5 at 2000", "button 7 at 2800"]
    assert page.elements[0] == "text sure"
    page.close()


def test_a_move_is_about_what_was_told(form) -> None:
    """Whatever a page took away meanwhile: what was the sixth is still the one that is clicked."""
    form._page.evaluate("document.getElementById('size').remove(0)")
    assert played(form, "click 6") == [-1.0]


def test_a_page_that_sets_timer_after_timer_goes_on(form) -> None:
    form._page.evaluate("(() => { window.ticks = 0; const on = () => { ticks++; setTimeout(on, 0); }; on(); })()")
    played(form, "click 3")
    assert 500 < form._page.evaluate("ticks") < 2000
