"""MT-GRPO's claims."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from statistics import fmean
from typing import Any

from hocket.agents.workflows.library import find as find_workflow
from hocket.agents.workflows.team import Team
from hocket.agents.workflows.workflow import Outcome
from hocket.core.columns import InfoColumn
from hocket.core.keys import Key
from hocket.lab.claims.harness import EXACT, SEEDS, Claims, Finding, below, gap, inspect_rows, say
from hocket.lab.talk import TalkBench, last_message
from hocket.lab.toys.episodes import by_turn, episode, identical
from hocket.lab.toys.recorded_answers import group_relative, line
from hocket.lab.toys.talks import played_by
from hocket.methods.agents.mt_grpo import MT_GRPO
from hocket.methods.base.grpo import GRPO
from hocket.recipe import Recipe
from hocket.testing import rehearse, tool_call
from hocket.types import Message, Scenario

claim = Claims("mt-grpo", "arXiv:2505.11821")
RIGHT = InfoColumn("right", "Whether the answer was right.")


def called(group: str, turn: float, outcome: float, size: int = 2) -> dict[str, Any]:
    """An episode that calls the tool, which writes a result that is read, and then answers."""
    return episode(group, outcome, [{"tokens": [1] * size, "reward": turn}, {"tokens": [2] * size}])


def guessed(group: str, outcome: float, size: int = 2) -> dict[str, Any]:
    """An episode that answers at once."""
    return episode(group, outcome, [{"tokens": [3] * size}])


FOUR = [called("g", 1.0, 1.0), called("g", 0.0, 1.0), called("g", 0.5, 0.0), guessed("g", 0.0)]


def random_calls(number: int) -> list[dict[str, Any]]:
    """Groups of five, with calls that earn 0, 1/2 or 1, and guesses."""
    rng, rows = Key.of(number).numpy(), []
    for group in ("one",) * 5 + ("two",) * 5:
        outcome, size, call = float(rng.integers(0, 2)), int(rng.integers(1, 4)), float(rng.integers(0, 3)) / 2
        rows.append(called(group, call, outcome, size) if rng.random() < 0.7 else guessed(group, outcome, size))
    return rows


@claim("With c = 0 it equals trajectory-level GRPO.")
def with_c_0_it_equals_trajectory_level_grpo() -> Finding:
    return identical(MT_GRPO.but({"credit.coefficient": 0.0}), GRPO, map(random_calls, range(20)), "turn_scores")


@claim("Advantages are the normalised rewards, in both published forms.")
def advantages_are_the_normalised_rewards_in_both_published_forms() -> Finding:
    gaps = []
    for rows, form in product(map(random_calls, range(20)), ("added", "cumulative")):
        recipe = MT_GRPO.but({"credit.form": form, "credit.coefficient": 0.7, "credit.gamma": 0.9})
        advantages = inspect_rows(recipe, rows)["advantages"]
        for group in (slice(0, 5), slice(5, 10)):
            outcome = [row["scores"]["reward"] for row in rows[group]]
            turn = [sum(one["reward"] for one in row["turn_scores"]) for row in rows[group]]
            pairs = list(zip(outcome, turn, strict=True))
            joint = group_relative([o + 0.7 * t if form == "added" else t + 0.9 * o for o, t in pairs])
            final, call = group_relative(outcome), group_relative(turn)
            for row, values, both, last, first in zip(rows[group], advantages[group], joint, final, call, strict=True):
                early = last + 0.7 * first if form == "added" else both
                alone = row["turn"][-1] == 0
                gaps.append(gap(values, [both if alone else early if place == 0 else last for place in row["turn"]]))
    return below(EXACT, difference_from_both_forms_counted_anew=max(gaps))


@claim("As shipped c = 1: before the result it is N(R_O) + N(R_T), after it N(R_O).")
def as_shipped_c_1_before_the_result_it_is_n_n_after_it_n() -> Finding:
    outcome, turn = group_relative([1.0, 1.0, 0.0, 0.0]), group_relative([1.0, 0.0, 0.5, 0.25])
    rows = [called("g", one, final) for one, final in zip((1.0, 0.0, 0.5, 0.25), (1.0, 1.0, 0.0, 0.0), strict=True)]
    wanted = [[o + t, o + t, o, o] for o, t in zip(outcome, turn, strict=True)]
    return below(EXACT, off=gap(inspect_rows(MT_GRPO, rows)["advantages"], wanted))


@claim("Two rollouts with the same outcome and different turn rewards differ on the first turn's tokens alone.")
def two_rollouts_with_the_same_outcome_and_different_turn_rewards() -> Finding:
    one, other = map(by_turn, FOUR[:2], inspect_rows(MT_GRPO, FOUR)["advantages"][:2])
    first, answer = abs(one[0][0] - other[0][0]), gap(one[1], other[1])
    return Finding(first > 1 and answer == 0.0, say(first_turns_differ_by=first, answers=answer))


@claim("Gradients on tool-output tokens are zero.")
def gradients_on_tool_output_tokens_are_zero() -> Finding:
    # A result that stands among the decisions is imposed; everything else keeps what it had without it.
    shown = [{**row, "tokens": [*row["tokens"], 9], "logp": [*row["logp"], -3.0]} for row in FOUR]
    shown = [{**row, "turn": [*row["turn"], row["turn"][-1]]} for row in shown]
    shown = [{**row, "trained": [True] * (len(row["logp"]) - 1) + [False]} for row in shown]
    before, after = inspect_rows(MT_GRPO, FOUR)["gradient"], inspect_rows(MT_GRPO, shown)["gradient"]
    of_tool, others = max(abs(row[-1]) for row in after), gap([row[:-1] for row in after], before)
    return Finding(of_tool == 0.0 and others < 1e-15, say(gradient_on_tool_output=of_tool, elsewhere_changed_by=others))


@claim("A turn earns by a call that could be carried out and by the right answer in its result; the last earns 0.")
def a_turn_earns_by_a_call_that_could_be_carried_out_and_by_the() -> Finding:
    right, wrong = tool_call("calculator", expression="6 * 7"), tool_call("calculator", expression="6 * 8")
    broken, said = tool_call("calculator", expression="six"), "<answer>42</answer>"
    talks = {(right, said): [0.7, 0.0], (wrong, said): [0.2, 0.0], (broken, said): [0.0, 0.0], (said,): [0.0]}
    talks |= {(wrong, right, said): [0.2, 0.7, 0.0], (right, right, right, right): [0.7, 0.7, 0.7, 0.0]}
    flow, scenario = find_workflow(str(MT_GRPO.workflow)), Scenario("s", "What is 6 * 7?", "42")
    gaps = []
    for talk, wanted in talks.items():
        (played,) = rehearse(flow, scenario, list(talk))
        gaps.append(gap(played.scores["call"].value, wanted))
    return below(EXACT, difference_from_the_rewards_by_hand=max(gaps))


ANSWERS, RUBBISH = ("red", "green", "blue"), tuple(f"word {number}" for number in range(12))
WORDS = (*ANSWERS, "look", *RUBBISH)


@played_by("solver")
async def look_up(scenario: Scenario, team: Team) -> Outcome:
    """Nobody can know the answer, one of three, but looking it up tells it: answer at once, or look and then answer."""
    answer = await team.solver("question")
    calls = {answer: float(str(answer) == "look")}
    if calls[answer]:
        answer = await team.solver(f"found {scenario.answer}")
        calls[answer] = 0.0
    right = float(str(answer) == scenario.answer)
    return Outcome(rewards={"right": right}, turn_rewards={"call": calls}, info={RIGHT.name: right})


def hasty(messages: tuple[Message, ...], said: tuple[str, ...]) -> Mapping[str, float]:
    """Guesses among the three, looks rarely, and makes nothing of what it finds."""
    if str(messages[-1]["content"]) == "question":
        return {**dict.fromkeys(RUBBISH, -9.0), "look": -0.5}
    return {"look": -9.0}


def trained(recipe: Recipe, steps: int) -> list[TalkBench]:
    asked = [Scenario(answer, "question", answer) for answer in ANSWERS]
    how: dict[str, Any] = {"view": last_message, "prior": hasty, "lr": 0.1}
    return [TalkBench(look_up, asked, WORDS, recipe, seed=seed, **how).run(steps) for seed in SEEDS]


def right(bench: TalkBench) -> float:
    """The exact chance of a right answer."""
    return bench.expected(lambda one: float(RIGHT.get(one)))


def calls(bench: TalkBench) -> float:
    """The exact chance of a call."""
    (policy,) = bench.policies.values()
    return float(policy.probabilities("question")[WORDS.index("look")])


@claim("Where guessing is sometimes right, the call rate goes to 1 with turn credit and to 0 without it.", slow=True)
def where_guessing_is_sometimes_right_the_call_rate_goes_to_1_with() -> Finding:
    blind, ours = (trained(recipe, 45) for recipe in (GRPO.but({"combine.weights": {"call": 0.0}}), MT_GRPO))
    lost, kept, won = list(map(calls, blind)), list(map(calls, ours)), list(map(right, ours))
    saw = say(calls_on_the_outcome_alone=line(lost), with_turn_credit=line(kept), and_right=line(won))
    return Finding(max(lost) < 0.06 and min(kept) > 0.95 and min(won) > 0.8, f"from 0.17 calls and 0.29 right: {saw}")


@claim("Answers get right sooner than with both rewards in one.", slow=True)
def answers_get_right_sooner_than_with_both_rewards_in_one() -> Finding:
    summed, ours = (list(map(right, trained(recipe, 30))) for recipe in (GRPO, MT_GRPO))
    holds = fmean(ours) > fmean(summed) + 0.1 and all(a > b for a, b in zip(ours, summed, strict=True))
    return Finding(holds, say(right_after_30_steps_on_the_sum=line(summed), apart=line(ours)))


claim.spares("mt-grpo: credit.gamma = 40.0", "of the cumulative form alone")
claim.spares("mt-grpo: credit.gamma = 0.0", "of the cumulative form alone")

claim.shipped(
    MT_GRPO, "credit", sees=lambda run: {"calls": run.mean("tools/calls"), "groups": run.mean("groups/with_signal")}
)
