"""Pages run their own script and no other, load nothing, and show the texts of others as texts."""

from __future__ import annotations

import base64
import hashlib
import html as entities
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest
import yaml
from rich.console import Console

from hocket.apps.report.compare import compare_page, compare_table
from hocket.apps.report.microscope import html
from hocket.apps.report.page import page, policy, write_report
from hocket.apps.report.plan import write_plan_report
from hocket.apps.report.reading import read_run
from hocket.apps.report.rollouts import rollouts
from hocket.apps.studies.page import page as study_page
from hocket.core.keys import Key
from hocket.lab.documents import random_document
from hocket.lab.microscope import inspect
from hocket.recipes import find

EVIL = (
    "</script><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
    "<a href=\"javascript:document.title='owned'\">x</a>\u2028\u2029\x0b"
    "\"' onload=x {{ 7 * 7 }} <!--<script> ]]> [/] [red]"
)


@pytest.fixture
def hostile(tmp_path, make_run):
    """A run in which everything that may be a text is `EVIL`."""

    def spoilt(value, key=None):
        if isinstance(value, dict):
            return {name: spoilt(item, name) for name, item in value.items()}
        if isinstance(value, list):
            return [spoilt(item, key) for item in value]
        return value + EVIL if isinstance(value, str) and key in TEXTS else value

    path = make_run(tmp_path, steps=25)
    for file in (path / "rollouts").glob("*.jsonl"):
        rows = [json.loads(line) for line in file.read_text().split("\n") if line]
        # As `json.dumps` may also write it: with separators of lines unescaped.
        file.write_text("".join(json.dumps(spoilt(row), ensure_ascii=False) + "\n" for row in rows), "utf-8")
    config = yaml.safe_load((path / "config.yaml").read_text())
    config |= {"task": EVIL, "judge": EVIL, "reward": [EVIL], "workflow": EVIL, EVIL: EVIL}
    config["recipe"]["name"] = EVIL
    (path / "config.yaml").write_text(yaml.safe_dump(config))
    summary = spoilt(json.loads((path / "summary.json").read_text()))
    (path / "summary.json").write_text(json.dumps(summary))
    (path / "messages.txt").write_text(EVIL)
    rows = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    (path / "metrics.jsonl").write_text("".join(json.dumps({**row, f"reward/{EVIL}": 1.0}) + "\n" for row in rows))
    named = path.with_name("a<img src=x onerror=alert(1)>[red]")
    path.rename(named)
    return named


TEXTS = {
    *("content", "text", "prompt", "answer", "id", "agent", "failure", "token_texts", "given"),
    *("before", "after", "task", "model", "recipe", "reason", "run"),
}


def held_to(text: str, *, live: bool = False) -> None:
    """Whether a page has the strictest policy that lets its own script run, before anything it is about."""
    head = text.partition("<style>")[0]
    (found,) = re.findall(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">', head)
    scripts = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    hashes = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    allowed = " ".join(f"'sha256-{one}'" for one in hashes) or "'none'"
    assert dict(one.split(" ", 1) for one in entities.unescape(found).split("; ")) == {
        "default-src": "'none'",
        "script-src": allowed,
        "style-src": "'unsafe-inline'",
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
        **({"connect-src": "'self'"} if live else {}),
    }
    assert len(re.findall(r"<script", text)) == len(scripts) + text.count('<script type="application/json"')
    assert "<img" not in text
    readable_when_narrow(text)
    assert not re.search(r"<[^>]*\shref=[\"']?javascript:", text)


class _Tables(HTMLParser):
    """Counts tables and preformatted texts that lie in no box that scrolls."""

    def __init__(self) -> None:
        super().__init__()
        self.boxes: list[bool] = []
        self.loose = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "div":
            self.boxes.append("scroll" in str(dict(attrs).get("class")).split())
        self.loose += tag == "table" and not any(self.boxes)

    def handle_endtag(self, tag: str) -> None:
        if tag == "div":
            self.boxes.pop()


def readable_when_narrow(text: str) -> None:
    """A page is as wide as its window, wide tables scroll by themselves, and its colours follow light and dark."""
    assert '<meta name="viewport" content="width=device-width, initial-scale=1">' in text
    style = text.partition("<style>")[2].partition("</style>")[0]
    assert re.search(r"\.scroll \{[^}]*overflow-x: auto", style)
    assert "color-scheme: light dark" in style
    # Colours are variables, each of which has a value in the dark.
    light, dark = style.split("@media (prefers-color-scheme: dark)")[:2]
    assert set(re.findall(r"--[\w-]+(?=:)", light)) == set(re.findall(r"--[\w-]+(?=:)", dark.partition("* {")[0]))
    fixed = re.sub(r"--[\w-]+:[^;]*;", "", style)
    assert not re.findall(r"#[0-9a-fA-F]{3,8}\b|(?<!-)\b(?:black|white)\b(?!-)", fixed)
    tables = _Tables()
    tables.feed(text)
    assert tables.loose == 0


def test_the_page_of_a_run(hostile: Path) -> None:
    text = write_report(hostile).read_text()
    held_to(text)
    steps = json.loads(re.search(r'id="rollouts">(.*?)</script>', text, re.DOTALL)[1])["steps"]
    assert len(steps) == len(list((hostile / "rollouts").glob("*.jsonl")))  # No line was torn at U+2028.
    assert steps[0]["groups"][0]["prompt"].endswith(EVIL)


def test_the_live_page_of_a_run(hostile: Path) -> None:
    run = read_run(hostile)
    held_to(page(run, rollouts(run)), live=True)


def test_the_page_of_a_comparison_and_the_table(hostile: Path, tmp_path: Path, make_run) -> None:
    other = make_run(tmp_path / "other", steps=25)
    held_to(compare_page([hostile, other]))
    console = Console(width=4000, record=True, file=(tmp_path / "out").open("w"))
    console.print(compare_table([hostile, other]))
    shown = console.export_text()
    assert "[/] [red]" in shown  # Neither a style nor an error.


def test_the_page_of_a_plan(hostile: Path) -> None:
    folder = hostile.parent / "plan"
    folder.mkdir()
    hostile.rename(folder / "1-a")
    config = {"task": EVIL, "model": EVIL, "recipe": {"name": EVIL}, "reward": [EVIL], "steps": 25}
    (folder / "plan.yaml").write_text(yaml.safe_dump({"phases": [{"name": "1-a", "config": config}]}))
    held_to(write_plan_report(folder).read_text())


def test_the_page_of_the_microscope() -> None:
    document = random_document(Key.of(0))
    row = document["trajectories"][0]
    row |= {"id": EVIL, "info": {"pieces": [EVIL] * len(row["logp"])}}
    held_to(html([inspect(find("grpo"), document), {"recipe": EVIL, "error": EVIL}], document, EVIL))


def test_the_page_of_a_study() -> None:
    file = sorted((Path(__file__).parents[2] / "docs" / "studies").glob("*/results.json"))[0]
    found = file.read_text().replace(json.loads(file.read_text())["methods"][0]["label"], json.dumps(EVIL)[1:-1])
    held_to(study_page(json.loads(found)))


def test_a_policy_without_scripts_allows_none() -> None:
    assert "script-src 'none';" in policy()


@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs the chromium browser")
def test_a_browser_keeps_to_it(hostile: Path, tmp_path: Path) -> None:
    text = write_report(hostile).read_text()
    file = tmp_path / "page.html"
    # As if something had gone through unescaped.
    file.write_text(
        text.replace(
            "<main>", "<main><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
        )
    )
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
    command += ["--disable-background-networking", f"--user-data-dir={tmp_path / 'browser'}", "--dump-dom"]
    shown = subprocess.run([*command, file.as_uri()], capture_output=True, text=True, check=True, timeout=60).stdout
    (title,) = re.findall(r"<title>([^<]*)</title>", shown)
    assert title == "sums-grpo-001"
    assert shown.count('class="card episode"') == 8  # Its own script has run.
