"""EDGE_GRPO-GRPO's claims."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from statistics import fmean
from typing import Any

import numpy as np

from hocket.core.keys import Key
from hocket.lab.bench import Bench
from hocket.lab.claims.harness import EXACT, SEEDS, Claims, Finding, gap, inspect_rows, say
from hocket.lab.hand_formulas import CountedAnswer, off, stale_rows, standardised
from hocket.lab.microscope import inspect
from hocket.lab.toys.recorded_answers import drawn, sample, shown
from hocket.lab.toys.training import starting
from hocket.lab.world import Answer, World
from hocket.methods.base.grpo import GRPO
from hocket.methods.group_relative.edge_grpo import EDGE_GRPO
from hocket.recipe import Recipe
from hocket.train.ledger import Ledger
from hocket.types import Assignment, Decoding, Scenario, Score, Trajectory, Turn

claim = Claims("edge-grpo", "derived")


@claim("With equal entropies nothing changes.")
def with_equal_entropies_nothing_changes() -> Finding:
    rows = [row | {"entropy": [0.7] * len(row["logp"])} for row in drawn(1)["trajectories"]]
    apart = gap(inspect_rows(EDGE_GRPO, rows)["advantages"], inspect_rows(GRPO, rows)["advantages"])
    return Finding(apart <= 1e-12, f"where every H_i is 0.7: {say(difference_of_advantages=apart)}")


@claim(
    "A' = A fmean(H)/H_i never changes a sign, and entropies are constants.",
    "arXiv 2507.21848, entropy-driven advantage",
)
def a_a_fmean_h_i_never_changes_a_sign_and_entropies_are_constants() -> Finding:
    held = 0
    for batch in map(drawn, range(30)):
        ours, plain = inspect(EDGE_GRPO, batch), inspect(GRPO, batch)["advantages"]
        entropies = [fmean(row["entropy"]) for row in batch["trajectories"]]
        factors = [min(10.0, max(0.1, fmean(entropies) / one)) for one in entropies]
        expected = [[a * factor for a in row] for row, factor in zip(plain, factors, strict=True)]
        signs, kept = ([[(a > 0) - (a < 0) for a in row] for row in rows] for rows in (ours["advantages"], plain))
        held += signs == kept and gap(ours["advantages"], expected) <= EXACT and "gradient_entropy" not in ours
    return Finding(held == 30, say(batches=30, with_signs_kept_and_A_by_hand_and_no_slope_of_entropies=held))


@claim("With imposed tokens and entropies near 0 all is as counted by hand, factors between 0.1 and 10.", "derived")
def with_imposed_tokens_and_entropies_near_0_all_is_as_counted_by() -> Finding:
    def undecided(row: Mapping[str, Any]) -> float:
        return fmean(h for h, used in zip(row["entropy"], row["trained"], strict=True) if used)

    def credit(members: Sequence[CountedAnswer], middle: float) -> list[float]:
        factors = [min(10.0, max(0.1, middle / (undecided(one.row) or 1e-300))) for one in members]
        return [a * factor for a, factor in zip(standardised(members), factors, strict=True)]

    gaps = []
    for rows in stale_rows("edge"):
        for row, factor in zip(rows[1:], (0.0, 1e-3, 30.0), strict=False):
            row["entropy"] = [factor * h for h in row["entropy"]]
        middle = fmean(undecided(row) for row in rows if any(row["trained"]))
        gaps.append(off(EDGE_GRPO, rows, credit=partial(credit, middle=middle)))
        for row in rows:
            row["entropy"] = [0.0] * len(row["entropy"])
        gaps.append(off(EDGE_GRPO, rows))
    return Finding(max(gaps) < EXACT, say(off_by_hand=max(gaps)))


@claim("Half of a group's wrong answers, rounded up, go on after a cue; those that come back take their places.")
def half_of_a_groups_wrong_answers_rounded_up_go_on_after_a_cue() -> Finding:
    asked, scored, zeros = list[Assignment](), list[int](), np.zeros(3, np.float32)

    async def play(some: Sequence[Assignment]) -> list[Trajectory]:
        asked.extend(some)
        found = []
        for one in some:
            for number in range(one.first, one.first + one.samples):
                turn = Turn("p", "p", np.zeros(0), np.array([number, 7, 9]), zeros)
                found.append(Trajectory(one.scenario, [turn], number, scores={"r": Score(float(number in (0, 12)))}))
        if len(some) == 2:
            found[9].turns[0].action = np.zeros((3, 2))  # No tokens that could go on.
        found[2].truncated = len(some) == 2  # The third answer of the first question did not end by itself.
        if len(some) != 2:
            found[-1].failure = "lost"
        return found

    async def score(trajectories: Sequence[Trajectory]) -> None:
        scored.append(len(trajectories))

    rollout = EDGE_GRPO.but({"rollout.tokens": (5,)}).rollout
    rows = [Assignment(Scenario(name, "?", "7"), decoding=Decoding(max_tokens=20)) for name in "ab"]
    made = asyncio.run(rollout.collect(rows, play=play, score=score, ledger=Ledger(), key=Key.of(0)))
    again = [(one.scenario.id, one.first, one.samples, one.prefix, one.decoding.max_tokens) for one in asked[2:]]
    chosen = [("a", 1), ("a", 3), ("a", 4), ("b", 2), ("b", 3), ("b", 4)]
    wanted = [(name, 8 + n, 1, (n, 7, 5), 23) for name, n in chosen]
    kept = [one.sample for one in made.trajectories]
    holds = again == wanted and [one.samples for one in asked[:2]] == [8, 8] and scored == [16, 6]
    holds &= kept == [0, 9, 2, 11, 12, 5, 6, 7, 0, 1, 10, 11, 4, 5, 6, 7] and len(made.discarded) == 5
    holds &= made.metrics == {"rollout/corrected": 6.0, "rollout/corrected_right": 2.0}
    return Finding(holds, say(asked_again=str(again), members=str(kept), metrics=str(made.metrics)))


@claim("Entropy alone cannot revive a group of equal rewards, a corrected sample can.", "arXiv 2507.21848")
def entropy_alone_cannot_revive_a_group_of_equal_rewards_a() -> Finding:
    rows = [sample("a", 0.0, [-1.0] * n, entropy=[0.3 * n] * n) for n in (1, 2, 3)]
    dead = inspect_rows(EDGE_GRPO, rows)["advantages"]
    alive = inspect_rows(EDGE_GRPO, [*rows, sample("a", 1.0, [-1.0, -2.0], trained=[False, True])])["advantages"]
    holds = not any(map(any, dead)) and all(row[0] < 0 for row in alive[:3]) and alive[3][1] > 0
    figures = say(all_wrong=shown([r[0] for r in dead]), with_a_corrected_sample=shown([r[-1] for r in alive]))
    return Finding(holds, figures)


WAIT, FULL_STOP = 4, 5


def right(question: int, answer: Answer) -> float:
    """Whether an answer that may be taken back once is right."""
    whole = answer[-1] == FULL_STOP and (len(answer) == 2 or (len(answer) == 4 and answer[1] == WAIT))
    return float(whole and answer[-2] == question)


# Hard at the first attempt, easier at the second, which is rarely made.
FOUR = range(4)
ODDS: dict[tuple[int, Answer], dict[int, float]] = {(q, ()): dict.fromkeys(FOUR, 1 / 3) | {q: 1e-5} for q in FOUR}
ODDS |= {(q, (0, WAIT)): dict.fromkeys(FOUR, 0.28) | {q: 0.16} for q in FOUR}
ODDS |= {(q, (token,)): {FULL_STOP: 0.99, WAIT: 0.01} for q in FOUR for token in FOUR}
ODDS |= {(q, (0, WAIT, token)): {FULL_STOP: 1.0} for q in FOUR for token in FOUR}
WORLD = World(4, 6, 4, right, end=FULL_STOP, words=("0", "1", "2", "3", "w", "."), context="last")


def course(recipe: Recipe, seed: int) -> tuple[float, float]:
    """Success after 80 steps, and the mean variance of advantages in the first 40."""
    bench, variances = Bench(WORLD, recipe, seed=seed, lr=0.1, start=starting(ODDS, 1e-4)), []
    for _ in range(80):
        batch = bench.step().batch
        assert batch is not None
        variances.append(float(batch.occurrences.advantage[batch.last()].var()))
    return bench.success(), fmean(variances[:40])


@claim(
    "Variance of advantages and accuracy on hard questions are above GRPO's at equal rollouts.",
    "arXiv 2507.21848, results",
    slow=True,
)
def variance_of_advantages_and_accuracy_on_hard_questions_are_above() -> Finding:
    # 12 are as many as 8 and the 4 continuations of half of 8 wrong ones.
    ours, plain = EDGE_GRPO.but({"rollout.cues": ("w",)}), GRPO.but({"rollout.samples": 12})
    (edge, wide), (grpo, narrow) = (zip(*(course(one, n) for n in SEEDS), strict=True) for one in (ours, plain))
    rates = say(accuracy=shown(edge), of_GRPO=shown(grpo), variance_of_advantages=shown(wide), its=shown(narrow))
    holds = min(edge) > fmean(grpo) and min(wide) > max(narrow)
    return Finding(holds, f"hard questions, 80 steps of 12 rollouts: {rates}")


claim.spares("1e-300 -> 4e-299", "only keeps a division by 0 away")

claim.shipped(EDGE_GRPO, "rollout")
claim.shipped(EDGE_GRPO, "credit")
