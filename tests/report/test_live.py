"""A run watched while it goes on: in a terminal, and on a page that renews itself."""

from __future__ import annotations

import asyncio
import io
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from browser_cases import browse, browser, logged
from rich.console import Console
from tiny_runs import call

from hocket.apps.live.following import FollowedRun, seconds_per_step
from hocket.apps.live.page import LivePage, build_app, stream
from hocket.apps.live.terminal import contrasting, run_page, watch
from hocket.apps.report.chart import Chart, ChartLine
from hocket.apps.report.rollouts import recorded_step
from hocket.apps.report.text_chart import text_chart
from hocket.apps.serve.host import ApplicationHost
from hocket.core.errors import HocketError
from hocket.train.answers import sampled_answers
from hocket.train.runfolder import is_training

STEPS = 900
"""More than the run has."""


@pytest.fixture
def going(run: Path, tmp_path: Path) -> Path:
    """A run that this process seems to train: a lock, and no summary."""
    copy = tmp_path / "runs" / "mine"
    shutil.copytree(run, copy)
    (copy / "summary.json").unlink()
    (copy / ".lock").write_text(json.dumps({"host": socket.gethostname(), "pid": os.getpid()}))
    return copy


def followed(run: Path) -> FollowedRun:
    return FollowedRun(run.name, str(run.parent))


def more(run: Path, **values: Any) -> None:
    with (run / "metrics.jsonl").open("a") as file:
        file.write(json.dumps(values) + "\n")


def drawn(run: FollowedRun, width: int, height: int | None = None) -> list[str]:
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(run_page(run, width, height))
    return console.export_text().splitlines()


# ---------------------------------------------------------------- charts of characters


def test_a_line_is_drawn_from_corner_to_corner() -> None:
    chart = Chart("Reward", [ChartLine("mean", [(0.0, 0.0), (10.0, 1.0)])])
    rows = text_chart(chart, 30, 8).plain.split("\n")
    assert [len(row) for row in rows] == [30] * 8
    assert rows[0].startswith("Reward  1 ")
    assert rows[-1].split() == ["0", "10"]
    curve = [row[rows[1].index("1") :] for row in rows[1:-1]]
    marked = [[place for place, dot in enumerate(row) if 0x2800 < ord(dot) < 0x2900] for row in curve]
    assert all(marked)
    assert marked[0][-1] == 30 - rows[1].index("1") - 1
    assert [row[0] for row in marked] == sorted((row[0] for row in marked), reverse=True)


def test_charts_of_one_point_of_shares_and_of_nothing_that_moves() -> None:
    share = Chart("Accuracy", [ChartLine("a", [(3.0, 0.5)]), ChartLine("b", [])], share=True)
    assert "50%" in text_chart(share, 24, 5).plain
    for point in ([(0.0, 0.0)], [(0.0, 1e300), (1.0, -1e300)], [(0.0, 2.0), (1e9, 2.0)]):
        assert text_chart(Chart("Loss", [ChartLine("a", point)]), 8, 4).plain.count("\n") == 3


def test_a_title_has_the_values_of_as_many_lines_as_fit() -> None:
    lines = [ChartLine(f"role {number}", [(0.0, float(number))]) for number in range(6)]
    (title, *_) = text_chart(Chart("Rewards", lines), 40, 4).plain.split("\n")
    assert title.rstrip() == "Rewards  role 0 0  role 1 1  role 2 2"


# ---------------------------------------------------------------- following


def test_a_run_is_read_again_when_it_has_changed(going: Path) -> None:
    run = followed(going)
    steps = run.record.rows[-1]["step"]
    assert (run.training, run.ended, run.state, run.version) == (True, False, "training", 1)
    assert not run.poll()
    more(going, step=steps + 1, **{"reward/mean": 0.75, "time/total": 1e4})
    assert run.poll()
    assert (run.record.rows[-1]["step"], run.version) == (steps + 1, 2)
    (going / ".lock").write_text("")
    assert run.poll()
    assert (run.training, run.ended, run.state) == (False, True, "stopped without a summary")
    (going / "summary.json").write_text('{"reason": "finished"}')
    assert run.poll()
    assert run.state == "finished"


def test_a_resumed_run_does_not_show_its_earlier_end(going: Path, run: Path) -> None:
    shutil.copy(run / "summary.json", going / "summary.json")
    found = followed(going)
    assert found.record.summary["reason"] == "training"
    assert found.record.summary["steps"] == found.record.rows[-1]["step"]
    assert not any("summary" in line for line in drawn(found, 80))


def test_a_run_that_is_gone_is_one_sentence(going: Path) -> None:
    run = followed(going)
    going.rename(going.with_name("elsewhere"))
    with pytest.raises(HocketError, match=r"mine is gone: it was moved or removed"):
        run.poll()


def test_the_next_phase_of_a_plan_is_followed(going: Path) -> None:
    plan = going.parent / "plan"
    plan.mkdir()
    going.rename(plan / "1-first")
    (plan / "plan.yaml").write_text("phases: [{name: 1-first}, {name: 2-second}]\n")
    run = followed(plan)
    assert run.record.path.name == "1-first"
    (plan / "1-first" / ".lock").write_text("")
    (plan / "1-first" / "summary.json").write_text('{"reason": "finished"}')
    run.poll()
    assert not run.ended  # The second one is about to begin.
    os.utime(plan / "1-first" / "summary.json", (0, 0))
    assert run.ended
    (plan / "2-second").mkdir()
    (plan / "2-second" / "config.yaml").write_text("task: sums\nsteps: 3\n")
    run.poll()
    assert (run.record.path.name, run.ended) == ("2-second", True)


def test_who_trains_in_a_folder(tmp_path: Path) -> None:
    assert not is_training(tmp_path)
    for text, trains in (("", False), ("{", False), ('{"host": "elsewhere", "pid": 1}', True)):
        (tmp_path / ".lock").write_text(text)
        assert is_training(tmp_path) is trains


def test_the_pace_is_that_of_the_latest_steps() -> None:
    rows = [{"step": step, "time/total": 100.0 * step if step < 50 else 5000.0 + 2 * (step - 50)} for step in range(99)]
    assert seconds_per_step(rows) == 2.0
    assert seconds_per_step(rows[:1]) is None
    assert seconds_per_step([{"step": 1}, {"step": 2}]) is None


# ---------------------------------------------------------------- the terminal


@pytest.mark.parametrize(("width", "height"), [(80, 30), (140, 45), (40, 24), (30, 8), (200, None)])
def test_a_page_fits_its_terminal(going: Path, width: int, height: int | None) -> None:
    lines = drawn(followed(going), width, height)
    assert max(map(len, lines)) <= width
    assert height is None or len(lines) <= height
    assert lines[0].startswith("mine  training")
    assert lines[1].startswith("step ")
    if height is None or height > 20:
        assert any("Accuracy" in line for line in lines)
    assert lines[-1].startswith("Ctrl-C ends this view")


def test_answers_are_shown_with_their_rewards_and_obey_nothing(going: Path) -> None:
    file = sorted((going / "rollouts").glob("*.jsonl"))[-1]
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    rows[0]["turns"][0]["text"] = "\x1b[2J[red]gone[/]\nnext"
    rows[0]["reward"] = 9.0
    rows[1] |= {"failure": "the tool broke"}
    file.write_text("".join(json.dumps(row) + "\n" for row in rows[:2]))
    shown = "\n".join(drawn(followed(going), 100))
    assert "\x1b" not in shown
    assert "[2J[red]gone[/] next" in shown
    assert "failed" in shown
    assert "the tool broke" in shown


def test_groups_that_teach_come_first() -> None:
    rewards = [(0, 1.0), (0, 1.0), (1, 0.0), (1, 1.0), (1, 0.5), (2, None)]
    answers = sampled_answers([{"group": group, "reward": reward, "turns": []} for group, reward in rewards])
    assert [(one.group, one.reward) for one in contrasting(answers, 4)] == [(1, 1.0), (1, 0.0), (0, 1.0), (0, 1.0)]


def test_a_view_ends_with_its_run(going: Path) -> None:
    run, out = followed(going), io.StringIO()

    def train() -> None:
        time.sleep(0.05)
        more(going, step=STEPS + 1, **{"reward/mean": 0.5})
        (going / ".lock").write_text("")

    trainer = threading.Thread(target=train)
    trainer.start()
    watch(run, Console(file=out, force_terminal=True, width=60, height=20), every=0.02)
    trainer.join()
    assert out.getvalue().endswith("\n")
    assert f"step {STEPS + 1}" in out.getvalue().rpartition("\x1b[?1049l")[2]  # After the alternate screen.


def test_the_command_shows_a_run_as_it_stands_and_refuses_what_is_none(going: Path, tmp_path: Path) -> None:
    said = call("watch", "mine", "--runs", going.parent)
    assert said.code == 0, said.err
    assert "training" in said.out.splitlines()[0]
    assert call("watch", going, "--json").json["state"] == "training"
    for words in (("watch", tmp_path), ("watch", "mien", "--runs", going.parent), ("watch", going, "--steps", "3")):
        refused = call(*words)
        assert (refused.code, refused.out, refused.err.count("\n")) == (2, "", 1)
    assert "did you mean 'mine'" in call("watch", "mien", "--runs", going.parent).err
    assert "--port goes with --live" in call("report", going, "--port", "1").err


@pytest.mark.slow
def test_a_closed_pipe_ends_it_in_silence(going: Path) -> None:
    command = f"{sys.executable} -m hocket watch {going} | true; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("0\n", "")


# ---------------------------------------------------------------- the page


def events_of(live: LivePage, after: int, count: int) -> list[tuple[str, Any]]:
    async def read() -> list[tuple[str, Any]]:
        found = []
        async for text in stream(live, after):
            if "data: " in text:
                found.append((text.split("event: ")[1].split("\n")[0], json.loads(text.partition("data: ")[2])))
            if len(found) == count:
                break
        return found

    return asyncio.run(read())


def test_a_page_is_sent_what_is_new(going: Path) -> None:
    run = followed(going)
    recorded = list(run.record.steps)
    live = LivePage(run, pause=0.01)
    found = events_of(live, recorded[-3], 4)
    assert [name for name, _ in found] == ["parts", "step", "step", "state"]
    assert [data["step"]["step"] for name, data in found if name == "step"] == recorded[-2:]
    assert '<svg class="chart"' in found[0][1]["overview"]
    assert found[-1][1]["training"]
    assert not found[-1][1]["over"]
    (going / ".lock").write_text("")
    (going / "summary.json").write_text('{"reason": "finished"}')
    time.sleep(0.02)
    ended = events_of(live, recorded[-1], 99)
    assert [name for name, _ in ended] == ["parts", "state"]
    assert ended[-1][1]["over"]
    assert ended[-1][1]["words"].startswith("finished · step")
    shutil.rmtree(going)
    time.sleep(0.02)
    ((name, gone),) = events_of(live, 0, 99)
    assert (name, gone["over"], "is gone" in gone["words"]) == ("state", True, True)


def test_a_page_that_missed_much_gets_the_latest(going: Path) -> None:
    for step in range(STEPS + 1, STEPS + 13):
        shutil.copy(sorted((going / "rollouts").glob("*.jsonl"))[0], going / "rollouts" / f"step-{step:06d}.jsonl")
    found = events_of(LivePage(followed(going), pause=0.01), STEPS, 10)  # Four of twelve are left out.
    assert [data["step"]["step"] for name, data in found if name == "step"] == list(range(STEPS + 5, STEPS + 13))


def test_it_is_served_to_this_machine_under_its_secret(going: Path) -> None:
    live = LivePage(followed(going), pause=0.01)

    def ask(path: str, host: str = "") -> tuple[int, str]:
        request = urllib.request.Request(address + path, headers={"Host": host} if host else {})
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:
                return answer.status, answer.read(200).decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    with ApplicationHost(lambda: build_app(live, "secret")) as host:
        address = host.address
        assert host.host == "127.0.0.1"
        code, text = ask("/secret/")
        assert (code, "<!doctype html>" in text) == (200, True)
        assert ask("/secret/events?after=0")[1].startswith("retry: 1000\n\nevent: parts\ndata: {")
        assert [ask(path)[0] for path in ("/", "/other/", "/secrets/", "/events")] == [404] * 4
        for path in ("/secret/", "/secret/events"):
            assert ask(path, "evil.example") == (403, "this page is for this machine alone")
        shutil.rmtree(going)
        time.sleep(0.02)
        assert ask("/secret/")[0] == 410


@browser
def test_a_browser_adds_steps_and_keeps_what_is_open(going: Path, tmp_path: Path) -> None:
    run = followed(going)
    data = recorded_step(run.record, run.record.steps[-1])
    page = tmp_path / "page.html"
    for step in run.record.steps:
        (going / "rollouts" / f"step-{step:06d}.jsonl").unlink()
    run.poll()
    page.write_text(LivePage(run).document())
    script = f"""
      const step = {json.dumps(data).replace("<", chr(92) + "u003c")};
      log.push(find("recorded").hidden, view.steps.length);
      addStep({{ step: {{ ...step, step: 4 }}, pictures: {{}} }});
      const rows = document.querySelectorAll(".groups tr.open");
      log.push(find("recorded").hidden, find("step").options.length, rows.length > 0);
      addStep({{ step: {{ ...step, step: 8 }}, pictures: {{}} }});
      log.push(now().step);
      find("follow").checked = false;
      addStep({{ step: {{ ...step, step: 12 }}, pictures: {{}} }});
      log.push(now().step, find("step").options.length);
      addStep({{ step: {{ ...step, step: 8 }}, pictures: {{}} }});
      log.push(view.steps.map((one) => one.step).join());
      const details = document.querySelector("#notes details");
      details.open = true;
      renew("notes", find("notes").innerHTML.replace("<b>", "<b>"));
      renew("overview", find("overview").innerHTML);
      const other = document.querySelector("#notes details");
      log.push(other !== details, other.open, document.querySelectorAll("#overview .save:not([hidden])").length > 0);
      for (let more = 20; more < 90; more++) addStep({{ step: {{ ...step, step: more }}, pictures: {{}} }});
      log.push(view.steps.length, view.steps[0].step, now().step);
      showState("finished", false);
      log.push(find("live-state").textContent);"""
    found = logged(browse(page, tmp_path, script))
    assert found[:8] == [True, 0, False, 1, True, 8, 8, 3]
    assert found[8:12] == ["4,8", True, True, True]
    assert found[12:14] == [60, 4]
    assert found[15] == "finished"
