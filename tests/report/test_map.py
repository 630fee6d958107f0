"""The map of the field: cells by predicates over cards, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from hocket.apps.cli.parser import main
from hocket.apps.report import map as maps
from hocket.apps.report.method_docs import write_docs
from hocket.core.errors import ConfigurationError
from hocket.core.surveys import (
    Axis,
    Cell,
    FieldSurvey,
    Gap,
    family,
    fills,
    is_a,
    kind,
    mentions,
    reads,
    row,
    rows,
    uses,
)


def _survey(holds, named=()):
    return FieldSurvey("small", "A survey", axes=(Axis("way", "How.", (Cell("first", "of all", holds),)),), named=named)


def test_predicates_read_cards():
    assert maps.members(is_a("dqn")) == ("dqn", "dqn-duelling", "vdn", "qmix")
    assert "a2c" in maps.members(reads("value") & ~fills("store"))
    assert set(maps.members(rows("gspo", "gigpo"))) == set(maps.members(row("gspo"))) | set(maps.members(row("gigpo")))
    assert maps.members(family("value-based") | uses("Transitions")) != maps.members(family("value-based"))
    assert "gepa" in maps.members(kind("searcher"))
    assert "value-iteration" in maps.members(kind("solver"))
    assert maps.members(mentions("no such words at all")) == ()


@pytest.mark.parametrize(
    ("holds", "problem"),
    [
        (row("grpo"), ""),
        (row("no-such-row"), "nothing in the library is row('no-such-row')"),
        (is_a("grpo") | uses("NoSuchStage"), "nothing in the library is uses('NoSuchStage')"),
        (is_a("dqn") & row("grpo"), "nothing is there; write Gap('why')"),
        (Gap("none yet", until=is_a("coma")), ""),
        (Gap("none yet", until=is_a("grpo")), "the gap is filled by grpo"),
    ],
)
def test_an_empty_cell_needs_a_reason_and_a_filled_gap_none(holds, problem):
    for survey in (_survey(holds), _survey(row("grpo"), (Cell("method", "named", holds),))):
        problems = maps.problems(survey)
        assert len(problems) == bool(problem)
        assert all(problem in sentence for sentence in problems)


def test_no_docs_are_written_once_a_row_has_another_name(monkeypatch, tmp_path):
    entries = [
        entry if entry["name"] != "text2grad" else {**entry, "catalogue_ids": ("text-to-grad",)}
        for entry in maps.entries()
    ]
    monkeypatch.setattr(maps, "entries", lambda: tuple(entries))
    monkeypatch.setattr("hocket.apps.report.cards.write", lambda: None)
    for page in ("recipes", "catalogue", "primitives", "equivalences", "theorems", "mutants", "known_flags"):
        monkeypatch.setattr(f"hocket.apps.report.method_docs.{page}_page", lambda: "")
    with pytest.raises(ConfigurationError, match=r"feedback=critiques: nothing in the library is row\('text2grad'\)"):
        write_docs(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_every_survey_has_a_map_without_problems():
    assert [problem for survey in maps.surveys() for problem in maps.problems(survey)] == []


def test_the_command_lists_shows_and_chooses(capsys):
    assert main(["map"]) == 0
    assert "survey-rl-techniques-llm" in capsys.readouterr().out
    assert main(["map", "survey-rl-techniques-llm"]) == 0
    assert "optimisation=" in capsys.readouterr().out
    chosen = ["--where", "optimisation=value-based", "--where", "optimisation=stored"]
    assert main(["map", "survey-rl-techniques-llm", *chosen, "--json"]) == 0
    selection = json.loads(capsys.readouterr().out)
    assert "dqn" in selection["members"]
    assert "grpo" not in selection["members"]
    assert main(["map", "survey-rl-techniques-llm", "--json"]) == 0
    assert "dqn" in json.loads(capsys.readouterr().out)["named"]["Q-learning"]["members"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["survey-rl-technique-llm"], "there is no survey 'survey-rl-technique-llm'; did you mean"),
        (["survey-rl-techniques-llm", "--where", "rewards=judge"], "has no axis 'rewards'"),
        (["survey-rl-techniques-llm", "--where", "reward=juge"], "has no cell 'juge'"),
        (["survey-rl-techniques-llm", "--where", "judge"], "write AXIS=CELL, such as reward=learnt"),
        (["--where", "reward=judge"], "name it"),
        (["survey-rl-techniques-llm", "--steps", "3"], "no setting --steps"),
    ],
)
def test_bad_input_is_one_sentence(capsys, words, message):
    assert main(["map", *words]) == 2
    assert message in capsys.readouterr().err
    assert replace(_survey(row("grpo")), named=()).kind == "survey"
