"""Charts in a browser: values by pointer and keys, and files; the pages of control runs; where the microscope opens."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from browser_cases import browse, browser, logged

from hocket.apps.report.chart import Chart, ChartLine
from hocket.apps.report.compare import compare_page
from hocket.apps.report.microscope import html
from hocket.apps.report.page import drawn, policy, template, write_report
from hocket.core.keys import Key
from hocket.lab.documents import random_document
from hocket.lab.microscope import inspect
from hocket.recipes import find

CHARTS = [
    Chart(
        "Accuracy & more",
        [
            ChartLine("=SUM(A1)", [(0, 0.25), (10, 0.5)], [(0, 0.2, 0.3), (10, 0.4, 0.6)], marks=True),
            ChartLine('sam"pled', [(5, 0.1), (10, 0.75)]),
        ],
        share=True,
    )
]


def chart_page(folder: Path) -> Path:
    file = folder / "charts.html"
    shared: dict[str, Any] = {"title": "My run", "names": [], "rows": [], "footer": ""}
    script = (Path(__file__).parents[2] / "hocket/apps/report/page.js").read_text()
    file.write_text(template("compare.html").render(css="", js=markup(script), charts=drawn(CHARTS), **shared))
    return file


def markup(text: str) -> Any:
    from markupsafe import Markup

    return Markup(text)


SCRIPT = """
  const svg = document.querySelector("svg.chart");
  const box = svg.getBoundingClientRect();
  const shown = [];
  const press = (key) => {
    svg.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
    shown.push(tip.style.display === "none" ? null : tip.textContent);
  };
  svg.focus();
  for (const key of ["ArrowRight", "ArrowRight", "End", "ArrowRight", "Home", "Escape", "ArrowLeft"]) press(key);
  svg.blur();
  shown.push(tip.style.display);
  svg.dispatchEvent(new PointerEvent("pointermove", { clientX: box.right - 5, clientY: box.top + 9 }));
  shown.push(tip.textContent);
  svg.dispatchEvent(new PointerEvent("pointerleave"));
  shown.push(tip.style.display);
  log.push([svg.tabIndex, tip.getAttribute("role"), ...shown]);

  const saved = [];
  URL.createObjectURL = (blob) => { saved.push(blob.type); return "#"; };
  HTMLAnchorElement.prototype.click = function () { saved.push(this.download); };
  for (const button of document.querySelectorAll(".save button")) button.click();
  log.push([document.querySelector(".save").hidden, ...saved]);
  log.push(csv(tableOf(JSON.parse(svg.dataset.chart))));
  const text = standalone(svg, "Accuracy & more", [["one", "rgb(1, 2, 3)"], ["two", "rgb(4, 5, 6)"]]);
  const file = new DOMParser().parseFromString(text, "image/svg+xml").documentElement;
  log.push([file.tagName, file.querySelectorAll("[class], [data-chart], .cross").length, text.includes("var("),
    file.querySelector("text").textContent, file.querySelectorAll("tspan").length]);
"""


@browser
def test_charts_show_values_by_pointer_and_keys_and_are_saved_as_tables_and_drawings(tmp_path: Path) -> None:
    (focusable, role, *shown), saved, table, drawing = logged(browse(chart_page(tmp_path), tmp_path, SCRIPT))
    first = '=SUM(A1) 25.0 % (20.0 % to 30.0 %)\nsam"pled 10.0 %'
    last = 'step 10\n=SUM(A1) 50.0 % (40.0 % to 60.0 %)\nsam"pled 75.0 %'
    # A line without a value at a step shows its nearest one, with the step of that.
    start, middle = f"step 0\n{first} at 5", "step 5\n" + first.replace(")\n", ") at 0\n")
    assert (focusable, role) == (0, "status")
    assert shown == [start, middle, last, last, start, None, last, "none", last, "none"]
    names = ["image/svg+xml", "my-run-accuracy-more.svg", "text/csv", "my-run-accuracy-more.csv"]
    assert saved == [False, *names]
    # A name is never a formula, and quotes are doubled.
    heading = '"step","\'=SUM(A1)","\'=SUM(A1) low","\'=SUM(A1) high","sam""pled"'
    assert table.split("\r\n") == [heading, '0,0.25,0.2,0.3,""', '5,"","","",0.1', "10,0.5,0.4,0.6,0.75", ""]
    assert drawing == ["svg", 0, False, "Accuracy & more", 2]


def test_every_chart_offers_its_files(run: Path) -> None:
    for page in (write_report(run).read_text(), compare_page([run, run])):
        assert page.count('data-save="svg"') == page.count('data-save="csv"') == page.count('class="chart"') > 3
        assert page.count('<svg class="chart"') == len(re.findall(r'<svg class="chart"[^>]*tabindex="0"', page))
    assert "blob:" not in policy()  # A download needs nothing that the policy would have to allow.


@pytest.fixture
def control(tmp_path: Path, make_run: Any) -> Path:
    """A run whose measure is a return, with an episode per start."""
    folder: Path = make_run(tmp_path, name="cart", steps=50)
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    for row in rows:
        row |= {"eval/return": 100.0} if row.pop("eval/accuracy", None) is not None else {}
        row |= {"groups/with_signal": 16} if row["step"] else {}
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    ends = [{"return": value, "n": 100, "length": value, "truncated": 0.5} for value in (20.0, 200.0)]
    summary = {"measure": "return", "before": ends[0], "after": ends[1]}
    (folder / "summary.json").write_text(json.dumps(summary))
    for file in (folder / "rollouts").glob("*.jsonl"):
        episodes = [json.loads(line) for line in file.read_text().splitlines()]
        for number, episode in enumerate(episodes):
            episode["group"] = number
            for turn in episode["turns"]:
                del turn["text"], turn["token_texts"]
                turn |= {"observation": {"shape": [3, 4]}, "tokens": [0, 1, 1]}
        file.write_text("".join(json.dumps(episode) + "\n" for episode in episodes))
    return folder


def test_control_runs_speak_of_episodes_and_steps(control: Path) -> None:
    page = write_report(control).read_text()
    text = re.sub(r"<(style|script|pre).*?</\1>", "", page, flags=re.DOTALL)
    text = " ".join(re.sub(r"<[^>]+>", " ", text).split())
    for words in (
        "environment steps sampled",
        "steps per episode",
        "on unseen episodes",
        "Truncated episodes",
        "Episodes",
    ):
        assert words in text
    for words in ("token ", "response", "decisions", "answers", "Rollouts", "prompt", "Groups with signal"):
        assert words not in text


@browser
def test_episodes_alone_are_no_groups(control: Path, tmp_path: Path) -> None:
    script = """
      const shown = (selector) => [...document.querySelectorAll(selector)].filter((one) => one.checkVisibility());
      log.push(shown(".groups th").map((one) => one.textContent));
      log.push(document.getElementById("step-facts").textContent, document.getElementById("group-title").textContent);
      log.push(shown(".colours").length, document.querySelector(".episode header").textContent.includes("sample"));
    """
    headings, facts, title, coloured, sample = logged(browse(write_report(control), tmp_path, script))
    assert headings == ["episode", "start", "return", "advantages", "outcome"]
    assert re.fullmatch(r"48 episodes, \d+ with signal.*", facts)
    assert title.startswith("Episode ")
    assert (coloured, sample) == (0, False)


def test_runs_of_two_kinds_are_compared_in_words_for_both(control: Path, run: Path) -> None:
    assert "decisions sampled" in compare_page([control, run])
    assert "environment steps sampled" in compare_page([control, control])
    assert "tokens sampled" in compare_page([run, run])


def test_the_microscope_opens_with_groups_that_have_signal() -> None:
    document = random_document(Key.of(0))
    rows = document["trajectories"]
    silent = rows[0]["group"]
    for row in rows:
        row["scores"] = {"reward": 1.0 if row["group"] == silent else float(len(row["logp"]) % 3)}
    page = html([inspect(find("grpo"), document), {"recipe": "none", "error": "failed"}], document, "x")
    listed = json.loads(re.search(r'id="data">(.*?)</script>', page, re.DOTALL)[1])["rows"]  # type: ignore[index]
    groups = [row["group"] for row in listed]
    count = groups.count(str(silent))
    assert 0 < count < len(groups)
    assert groups[-count:] == [str(silent)] * count
    assert not any(row["signal"] for row in listed[-count:])
    assert any(row["signal"] for row in listed[:-count])
    assert sorted(row["id"] for row in listed) == sorted(str(row["id"]) for row in rows)
