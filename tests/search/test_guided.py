"""Answers that a run's own value chose: what is compared, what it costs, and what is refused."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
import torch

from hocket.agents.search.value_search import Beam, Best, Guide, TreeSearch
from hocket.agents.workflows.pipeline import Pipeline
from hocket.agents.workflows.team import Team
from hocket.agents.workflows.workflow import Outcome
from hocket.apps.cli.parser import main
from hocket.core.errors import ConfigurationError, HocketError
from hocket.core.keys import Key
from hocket.lab.talk import TalkBench
from hocket.recipes import find
from hocket.train.search_evaluation import guide_of, sought, way_of
from hocket.types import Message, Scenario

WORDS = ("red", "blue", "green", "grey")
SCENARIOS = [Scenario(f"q{number}", f"question {number}", answer="red") for number in range(4)]


def follows(messages: tuple[Message, ...], said: tuple[str, ...]) -> Mapping[str, float]:
    """Agents repeat the last note, mostly."""
    if said:
        return dict.fromkeys(WORDS, -math.inf)
    last = str(messages[-1]["content"]).split()[-1]
    return {"": -math.inf} | ({last: 3.0} if last in WORDS else {})


def bench(recipe: str = "masprm", flow: Pipeline | None = None) -> TalkBench:
    settings = {"rollout.searches": 8} if recipe == "masprm" else {}
    made = find(recipe).but(settings)
    # Two tokens, so that the word is known where the value of a message is read.
    return TalkBench(flow or Pipeline(), SCENARIOS, WORDS, made, length=2, ends=True, prior=follows, lr=0.2)


def test_a_value_that_was_learnt_finds_more_than_one_pass_and_the_best_of_as_many() -> None:
    trained = bench().run(25)
    found = [asyncio.run(sought(trained.parts, Beam(1, 4), n=4, key=Key.of(seed))) for seed in range(8)]
    titles = [one.title for one in found[0]]
    assert titles == ["one sampled answer", "best of as many messages", "beam search"]
    one, best, beam = (sum(sum(row[place].success) for row in found) / 32 for place in range(3))
    assert beam > one + 0.2
    assert beam >= best
    assert [row.messages for row in found[0]] == [3, 12, 12]


def test_those_who_speak_are_the_team_before_the_value_was_fitted() -> None:
    trained = bench().run(3)
    with torch.no_grad():
        trained.policies["policy"].module.logits[:, WORDS.index("grey")] += 50.0
    plain = asyncio.run(sought(trained.parts, Best(1), n=4, key=Key.of(0)))[0]
    again = asyncio.run(sought(bench().run(3).parts, Best(1), n=4, key=Key.of(0)))[0]
    assert plain.success == again.success


def test_scores_are_not_looked_at_before_the_choice() -> None:
    fresh = bench()  # Its value is 0 everywhere, so of equals the first is taken: the plain pass itself.
    rows = asyncio.run(sought(fresh.parts, Best(8), n=4, key=Key.of(1)))
    assert rows[0].success == rows[1].success
    assert rows[1].messages == 24


def test_every_way_goes_through_and_counts() -> None:
    rows = asyncio.run(sought(bench().run(2).parts, TreeSearch(searches=4, candidates=2), n=2, key=Key.of(0)))
    assert [row.title for row in rows][-1] == "tree search"
    assert rows[-1].messages >= 6
    assert not rows[-1].failures


class Fragile(Pipeline):
    """Fails on one question."""

    name = "fragile"

    async def play(self, scenario: Scenario, team: Team) -> Outcome:
        if scenario.id == "q1":
            raise RuntimeError("the tool is gone")
        return await super().play(scenario, team)


def test_a_search_that_fails_is_no_success_and_is_told() -> None:
    rows = asyncio.run(sought(bench(flow=Fragile()).parts, Beam(1, 2), n=4, key=Key.of(0)))
    for row in rows:
        assert len(row.success) == 4
        assert row.success[-1] == 0
        assert len(row.failures) == 1
    assert "the tool is gone" in rows[-1].failures[0]


def test_when_all_fail_it_says_why() -> None:
    made = bench(flow=Fragile())
    parts = replace(made.parts, task=replace(made.parts.task, scenarios=SCENARIOS[1:2]))  # type: ignore[type-var]
    with pytest.raises(HocketError, match="the tool is gone"):
        asyncio.run(sought(parts, Beam(1, 2), n=1, key=Key.of(0)))


@pytest.mark.parametrize("recipe", ["masprm", "oreo"])
def test_recipes_that_fit_a_value_of_transcripts_can_guide(recipe: str) -> None:
    assert isinstance(find(recipe).objective, Guide)


def test_a_recipe_without_such_a_value_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="grpo learns none; masprm and oreo do"):
        guide_of(bench("grpo").parts)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("bean", "did you mean 'beam'"),
        ("beam?widht=2", "did you mean 'width'"),
        ("beam?width=0", "width must be at least 1"),
        ("best?samples=x", "samples"),
    ],
)
def test_ways_that_there_are_not_are_refused(name: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        way_of(name)


def test_ways_take_settings() -> None:
    assert way_of("beam?width=3&candidates=5") == Beam(3, 5)
    assert way_of("best") == Best()
    assert way_of("tree?searches=2") == TreeSearch(2)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--samples", "4"], "--samples and --search are two measurements"),
        (["--against", "nano"], "--against and --search are two measurements"),
    ],
)
def test_two_measurements_at_once_are_refused(
    flags: Sequence[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["eval", "nano", "--task", "sums", "--search", "beam", *flags]) == 2
    assert said in capsys.readouterr().err


def test_a_model_without_a_value_is_refused_in_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", "nano", "--task", "sums", "--search", "beam", "--n", "4"]) == 2
    assert "hocket train --recipe masprm" in capsys.readouterr().err
