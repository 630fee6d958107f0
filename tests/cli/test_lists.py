"""What `hocket recipes`, `tasks` and `workflows` list: the first page, a family, what a word finds, and everything."""

from __future__ import annotations

import io
import re
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console
from rich.text import Text
from tiny_runs import call

from hocket.agents.workflows.library import library
from hocket.apps.cli import output
from hocket.apps.report import lists
from hocket.core.names import RECIPES, TASKS
from hocket.tasks import catalogue

LISTS = {"recipe": lists.recipes, "task": lists.all_tasks, "workflow": lists.workflows}


@pytest.mark.parametrize("kind", LISTS)
def test_the_first_page_is_a_screen_that_leads_to_everything(kind: str) -> None:
    lines = call(f"{kind}s").out.splitlines()
    entries = LISTS[kind]()
    assert len(lines) <= 50
    ways = {found[1]: int(found[2]) for line in lines if (found := re.match(rf"  hocket {kind}s (\S+) +(\d+)  ", line))}
    assert ways == {family: len(lists.of_family(entries, family)) for family in {one.family for one in entries}}
    assert sum(ways.values()) == len(entries)
    shown = {line.split()[0] for line in lines if line.startswith("  ")} - {"hocket"}
    assert shown == {one.name for one in entries if one.first}


@pytest.mark.parametrize("kind", LISTS)
def test_everything_has_a_line_of_its_own(kind: str) -> None:
    entries = LISTS[kind]()
    assert len({one.name for one in entries}) == len(entries)
    assert all(one.about and one.family for one in entries)


def test_everything_is_listed_in_the_same_order_for_programs() -> None:
    assert [row["name"] for row in call("recipes", "--json").json] == list(RECIPES.declared)
    assert call("recipes", "--json").out == call("recipes", "--all", "--json").out
    assert [(row["name"], row["description"]) for row in call("tasks", "--json").json] == catalogue()
    assert [row["name"] for row in call("workflows", "--json").json] == list(library())
    out = call("recipes", "--all").out
    assert all(f"  {name} " in out for name in RECIPES.declared if len(name) < 10)


def test_a_family_is_listed_by_its_name() -> None:
    teams = call("recipes", "teams", "--json").json
    assert {row["family"] for row in teams} == {"teams"}
    assert len(teams) > 20
    assert call("recipes", "group_relative", "--json").out == call("recipes", "group-relative", "--json").out
    assert "PATH.jsonl" in call("tasks", "data").out
    assert {row["name"] for row in call("workflows", "general", "--json").json} >= {"debate", "single", "tool-use"}


def test_a_name_of_a_recipe_and_a_family_shows_both() -> None:
    said = call("recipes", "reward-model").out
    assert "Bradley and Terry 1952" in said
    assert re.search(r"^reward-model \(\d+\)$", said, re.M)
    assert call("recipes", "reward-model", "--json").json["name"] == "reward-model"


def test_a_recipe_of_a_file_runs_by_its_path(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("from hocket.recipes import GRPO\nMINE = GRPO.but(name='mine', **{'credit.scale': None})\n")
    shown = call("recipes", f"{file}:MINE").out
    assert f"hocket train --recipe {file}:MINE" in shown.replace("\n", "")
    assert "a variant of grpo" in shown
    assert "DeepSeekMath" not in shown


def test_a_word_finds_names_and_descriptions() -> None:
    def found(*words: str) -> list[str]:
        return [row["name"] for row in call(*words, "--json").json]

    assert found("recipes", "--search", "self-play") == found("recipes", "--search", "SELF_play")
    assert "mars-self-play" in found("recipes", "--search", "self-play")
    assert found("tasks", "--search", "graded_sums") == ["graded-sums"]
    assert found("tasks", "agents", "--search", "unit analysis") == ["unit-tests"]
    wrong = call("tasks", "--search", "zzzz")
    assert (wrong.code, wrong.out) == (2, "")
    assert "no task has 'zzzz' in its name or description; `hocket tasks --all` lists them all" in wrong.err


def test_what_one_paper_needs_is_listed_with_it() -> None:
    found = {one.name: (one.family, one.paper) for one in lists.all_tasks()}
    assert found["safe-words"] == ("preference", "backtracking-safety")
    assert found["sql"] == ("agents", "reasoning-sql")
    assert found["restated-sums"] == ("data-and-rollout", "clpo")
    assert found["worked-sums"] == ("words", "")
    assert found["PATH.csv"] == ("data", "")
    flows = {one.name: (one.family, one.paper) for one in lists.workflows()}
    assert flows["two-halves"] == ("teams", "optima")
    assert flows["debate"] == ("general", "")
    assert re.search(r"safe-words .* backtracking-safety", call("tasks", "preference").out)


def test_only_what_no_paper_needs_alone_states_its_family() -> None:
    stated = {name for name, one in TASKS.own.items() if one.family}
    families = ("data", "packages", "pictures", "sounds", "words", "worlds")
    assert stated == {one.name for one in lists.all_tasks() if one.family in families}


def test_old_spellings_are_names_too() -> None:
    assert call("recipes", "grpo_kl").out == call("recipes", "grpo-kl").out
    assert call("tasks", "worked_sums", "--json").out == call("tasks", "worked-sums", "--json").out
    assert "worked_sums" not in call("tasks", "--json").out


def test_lines_are_cut_in_a_terminal_and_complete_in_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    long = "word " * 40
    assert {line.rstrip() for line in call("tasks").out.splitlines()} >= {
        f"  PATH.jsonl               {TASKS.declared['PATH.jsonl'].description}"
    }
    file = io.StringIO()
    monkeypatch.setattr(output, "out", lambda: Console(file=file, force_terminal=True, width=40, no_color=True))
    output.print_lines([Text(long), Text("short")])
    first, second = file.getvalue().splitlines()
    assert (len(first), first[-1], second) == (40, "…", "short")


@pytest.mark.parametrize("command", ["recipes", "tasks", "workflows"])
def test_first_pages_load_no_torch(command: str) -> None:
    code = f"import sys; from hocket.apps.cli.parser import main; main([{command!r}]); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0
