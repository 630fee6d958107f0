"""Hawkeye's claims."""

from __future__ import annotations

from functools import cache
from statistics import fmean
from typing import Any

from hocket.core.batch import Batch
from hocket.core.casting import Leading
from hocket.core.components import value_at
from hocket.core.signals import returns
from hocket.lab.claims.harness import Claims, Finding, gap, say
from hocket.lab.microscope import RecordedBatch
from hocket.lab.talk import TalkBench, total
from hocket.lab.toys.recorded_answers import line
from hocket.methods.data_and_rollout.hawkeye import HAWKEYE, BriefThought, ChainLength
from hocket.recipe import Recipe
from hocket.rollout.reference import WithReference
from hocket.tasks.sums import Sums
from hocket.testing import Cut, rehearse
from hocket.types import Decoding, Message, Scenario, Trajectory

claim = Claims("hawkeye", "the abstract of arXiv:2504.00424; the shape of the penalty is our own")
STEPS, FILLER = ("first", "second", "third"), "um"
SAID = ("<answer>right</answer>", "<answer>wrong</answer>")
WORDS = (FILLER, *STEPS, *SAID)
ASKED = [Scenario(name, name, answer=SAID[0]) for name in ("one", "two")]
FLOW = BriefThought(opening="", closing="", thought=40)


def wordy(messages: tuple[Message, ...], said: tuple[str, ...]) -> dict[str, float]:
    """The planner before training: three steps in order with much between them, then it ends."""
    done = sum(word in STEPS for word in said)
    following = STEPS[done] if done < 3 else ""
    return {**dict.fromkeys((*WORDS, ""), -12.0), FILLER: 1.2 if done < 3 else -12.0, following: 0.0}


def needy(messages: tuple[Message, ...], said: tuple[str, ...]) -> dict[str, float]:
    """The expander: nearly always right once all steps stand before it, seldom otherwise."""
    if said and said[-1] in SAID:
        return {**dict.fromkeys(WORDS, -20.0), "": 0.0}
    whole = all(step in said for step in STEPS)
    return {**dict.fromkeys((*WORDS, ""), -20.0), SAID[0]: 4.0 if whole else -1.5, SAID[1]: 0.0}


def bench(recipe: Recipe, seed: int = 0) -> TalkBench:
    return TalkBench(
        FLOW,
        ASKED,
        WORDS,
        recipe,
        length=44,
        ends=True,
        prior={"planner": wordy, "expander": needy},
        seed=seed,
        lr=0.15,
        verifier=lambda text, scenario: float(text.endswith(str(scenario.answer))),
        capacity=60000,
    )


def chain(one: Trajectory) -> int:
    """Words and end of the planner's turn."""
    return len(one.turns[0])


@claim("R = score - lambda max(0, len/len_full - f), len_full the mean chain of the reference for the same question.")
def r_score_lambda_max_len_full_the_mean_chain_of_the_reference_for() -> Finding:
    worst, taken = 0.0, 0
    for seed in range(4):
        result = bench(HAWKEYE, seed).step()
        batch, rows = result.batch, result.trajectories
        assert isinstance(batch, Batch)
        found = returns(batch).tolist()
        for place, one in enumerate(rows):
            before = [chain(r) for r in rows if r.source == "baseline" and r.scenario.id == one.scenario.id]
            over = 0.0 if one.source == "baseline" else max(0.0, chain(one) / fmean(before) - 0.3)
            worst, taken = max(worst, abs(found[place] - (total(one) - over))), taken + (over > 0)
            assert len(before) == 4
    return Finding(worst < 1e-9 and taken > 40, say(trajectories_charged=taken, off_by_hand=worst))


@claim("The expander's response begins with the planner's thought, imposed, and what is imposed has no weight.")
def the_expanders_response_begins_with_the_planners_thought_imposed() -> Finding:
    def played(plan: Any, reply: str = "<answer>3</answer>", **how: Any) -> Trajectory:
        script: dict[str, Any] = {"planner": [plan], "expander": [reply]}
        return rehearse(BriefThought(), Scenario("s", "1 + 2?", "3"), script, verifier=Sums().verify, **how)[0]

    whole, short = played(Cut("1+2=3</think>")), played("so three")
    far = played(Cut("1" * 25 + "</think>"), "2" * 28, decoding=Decoding(max_tokens=30))
    plan, reply = whole.turns
    begun = int(reply.forced.sum()) if reply.forced is not None else 0
    holds = reply.text == "<think>1+2=3</think><answer>3</answer>" and total(whole) == 1.0
    holds &= far.answer == f"<think>{'1' * 25}</think>{'2' * 28}"
    holds &= short.answer == "<think>so three</think><answer>3</answer>" and begun == len(plan)
    batch = bench(HAWKEYE).step().batch
    assert batch is not None
    own = batch.forced[batch.occurrences.decision] & (batch.occurrences.weight != 0)
    holds &= "planner" in batch.names["policy"] and not bool(own.any())
    return Finding(holds, say(answer=whole.answer, of_a_cut_thought=short.answer, imposed=begun))


@claim("Who never saw the reference's chain is charged nothing, an empty chain counts as one token; lambda 1, f 0.3.")
def who_never_saw_the_references_chain_is_charged_nothing_an_empty() -> Finding:
    def charged(*rows: tuple[str, str, int]) -> list[float]:
        """What is taken of each trajectory by its question, its source and the length of its chain."""
        told = [
            {"group": group, "source": source, "scores": {"reward": 1.0}, "logp": [-1.0] * length}
            for group, source, length in rows
        ]
        batch = RecordedBatch({"version": 1, "trajectories": told}).batch
        return [1.0 - value for value in returns(ChainLength(policy="policy")(batch)).tolist()]

    mixed = charged(("a", "own", 6), ("a", "baseline", 10), ("a", "baseline", 20), ("b", "own", 9), ("a", "own", 4))
    plain = charged(("a", "own", 6), ("a", "replay", 2), ("a", "own", 9))
    silent = charged(("a", "own", 2), ("a", "baseline", 0))
    off = gap([mixed, plain, silent], [[0.1, 0.0, 0.0, 0.0, 0.0], [0.0] * 3, [1.7, 0.0]])
    names = ("workflow", "cast", "rollout", "shaping")
    shipped = [value_at(HAWKEYE, name) for name in names]
    wanted = ["brief-thought", Leading("planner", "expander"), WithReference(8, 4), (ChainLength(1.0, 0.3),)]
    return Finding(off < 1e-12 and shipped == wanted, say(charged=str(mixed), of_an_empty_one=silent[0]))


def figures(made: TalkBench) -> tuple[float, float, float]:
    """How often it is right, words of a chain, and of an answer."""
    played = made.play(400)
    own = [len(one.turns[1]) - int(one.turns[1].forced.sum()) for one in played if one.turns[1].forced is not None]
    return fmean(map(total, played)), fmean(map(chain, played)), fmean(own)


@cache
def trained(weight: float) -> list[tuple[float, float, float]]:
    recipe = HAWKEYE.but({"shaping": (HAWKEYE.shaping[0],), "shaping.0.weight": weight})
    return [figures(bench(recipe, seed).run(80)) for seed in range(3)]


@claim(
    "The chain shrinks to less than 40 % with at most two points of accuracy lost; without the penalty it stays long.",
    slow=True,
)
def the_chain_shrinks_to_less_than_40_with_at_most_two_points_of() -> Finding:
    right, words, _ = figures(bench(HAWKEYE))
    ours, free = ([list(column) for column in zip(*trained(weight), strict=True)] for weight in (1.0, 0.0))
    holds = max(ours[1]) < 0.4 * words and min(ours[0]) > right - 0.02 and min(free[1]) > 0.8 * words
    saw = say(right_before=right, words_before=words)
    saw += f"; after 80 steps right {line(ours[0])}, words {line(ours[1])}"
    return Finding(holds, f"{saw}; without the penalty right {line(free[0])}, words {line(free[1])}")


@claim(
    "With a planner of ten times the expander's size the cost of an answer, tokens times size, halves.",
    slow=True,
)
def with_a_planner_of_ten_times_the_expanders_size_the_cost_of_an() -> Finding:
    _, words, own = figures(bench(HAWKEYE))
    before = 10 * words + words + own
    after = [10 * thought + thought + rest for _, thought, rest in trained(1.0)]
    return Finding(max(after) < 0.5 * before, say(cost_before=before, after=after))


claim.shipped(
    HAWKEYE,
    "shaping",
    trains=("planner",),
    settings={"curriculum.prompts": 4},
    sees=lambda run: {"references": run.mean("rollout/references"), "groups": run.mean("planner/groups/with_signal")},
)
