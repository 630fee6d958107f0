"""What noisy-verifier-correction claims."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.lab.bench import Bench
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.claims.pages import DOCS
from hocket.lab.documents import random_document
from hocket.lab.microscope import look, relation
from hocket.lab.world import Answer, Graded, World, answer_of, question_of
from hocket.methods.base.grpo import GRPO
from hocket.methods.group_relative.noisy_verifier_correction import (
    NOISY_VERIFIER,
    NOISY_VERIFIER_APPEALS,
    NOISY_VERIFIER_FORWARD,
    AppealedCorrection,
    NoiseCorrection,
)
from hocket.recipe import Recipe
from hocket.rewards.judge import NoisyJudge
from hocket.stages import Reward
from hocket.types import Trajectory

claim = Claims("noisy-verifier-correction", "arXiv:2510.00915")


ARMS = torch.tensor([0.3, -0.5, 0.9, 0.1, -1.2], dtype=torch.float64)
RIGHT = (1.0, 0.0, 0.0, 1.0, 0.0)
RATES = ((0.15, 0.3),) * 5
OWN_RATES = ((0.0, 0.4), (0.5, 0.1), (0.2, 0.2), (0.3, 0.3), (0.05, 0.6))


def expected_gradient(recipe: Recipe, rates: Sequence[tuple[float, float]] | None, *, told: bool = False) -> Tensor:
    """The mean gradient of the loss in a 5-arm softmax bandit's logits, over all groups of two answers and verdicts.

    Without `rates` the verdicts are true. `told` writes an answer's own rates beside it.
    """
    policy = torch.softmax(ARMS, 0)
    outcomes = [(arm, verdict, chance) for arm in range(5) for verdict, chance in _verdicts(arm, rates)]
    rows: list[dict[str, Any]] = []
    chances = []
    for number, pair in enumerate(itertools.product(outcomes, repeat=2)):
        for place, (arm, verdict, _) in enumerate(pair):
            own = dict(zip(("false_positive", "false_negative"), rates[arm], strict=True)) if rates and told else {}
            rows.append({"id": f"{number}/{place}", "group": str(number), "scores": {"reward": verdict}, "info": own})
            rows[-1] |= {"logp": [float(policy[arm].log())], "tokens": [arm]}
        chances.append(float(policy[pair[0][0]] * policy[pair[1][0]]) * pair[0][2] * pair[1][2])
    seen = look(recipe, {"version": 1, "trajectories": rows})["gradient"]
    total = torch.zeros(5, dtype=torch.float64)
    for number, row in enumerate(rows):
        score = torch.nn.functional.one_hot(torch.tensor(row["tokens"][0]), 5).double() - policy
        # The loss is a mean over all rows; a group alone would be a mean over its two.
        total += chances[number // 2] * seen[number][0] * len(rows) / 2 * score
    return total


def _verdicts(arm: int, rates: Sequence[tuple[float, float]] | None) -> list[tuple[float, float]]:
    """The verdicts on an arm that can occur, with their probabilities."""
    if rates is None:
        return [(RIGHT[arm], 1.0)]
    accepted = 1 - rates[arm][1] if RIGHT[arm] else rates[arm][0]
    return [(1.0, accepted), (0.0, 1 - accepted)]


def _largest(values: Tensor) -> float:
    return float(values.abs().max())


@claim(
    "by enumeration the expected gradient under backward correction is the clean one, for rates of the "
    "verifier and rates per answer",
)
def backward_is_unbiased() -> Finding:
    """Backward correction against clean verdicts, and what no correction would do."""
    known = NOISY_VERIFIER.but(shaping=(NoiseCorrection("backward", *RATES[0]),))
    clean = expected_gradient(NOISY_VERIFIER.but(shaping=()), None)
    gap = _largest(expected_gradient(known, RATES) - clean)
    own = _largest(expected_gradient(known, OWN_RATES, told=True) - clean)
    raw = _largest(expected_gradient(NOISY_VERIFIER.but(shaping=()), OWN_RATES) - clean)
    saw = f"largest gap {gap:.1e}, with rates per answer {own:.1e}; uncorrected {raw:.2f} of {_largest(clean):.2f}"
    return Finding(max(gap, own) < 1e-10 and raw > 0.01, saw)


@claim(
    "by enumeration the expected gradient under forward correction is 1 - rho0 - rho1 times the clean one, "
    "rho0 unknown",
)
def forward_is_parallel() -> Finding:
    """Forward correction against clean verdicts, both without a baseline."""
    false_positive, false_negative = RATES[0]
    factor = 1 - false_positive - false_negative
    clean = expected_gradient(NOISY_VERIFIER_FORWARD.but(shaping=()), None)
    gaps = []
    for believed in (0.0, 0.5):  # rho0 is not needed
        known = NOISY_VERIFIER_FORWARD.but(shaping=(NoiseCorrection("forward", believed, false_negative),))
        gaps.append(_largest(expected_gradient(known, RATES) - factor * clean))
    return Finding(
        max(gaps) < 1e-10, f"largest gap to {factor:.2f} x the clean gradient {max(gaps):.1e}, any rho0 told"
    )


@claim(
    "rates of the verifier or the scenario change nothing where a group is scaled (backward) or centred "
    "(forward): only rates per answer do, though the paper reports gains of both in GRPO",
    "derived: both maps are affine",
)
def scaling_cancels() -> Finding:
    """How corrected and uncorrected gradients lie on recorded batches, with epsilon 0."""
    exact = GRPO.but({"credit.epsilon": 0.0})
    backward = (NoiseCorrection("backward", 0.15, 0.3),)
    forward = (NoiseCorrection("forward", 0.15, 0.3),)
    centred = exact.but({"credit.scale": None})
    found: dict[str, set[str]] = {"scaled": set(), "centred": set(), "forward": set()}
    found |= {"scaled, rates per scenario": set(), "scaled, rates per answer": set()}
    for number in range(10):
        document = random_document(Key.of(number))
        scaled = look(exact, document)
        found["scaled"].add(relation(scaled, look(exact.but(shaping=backward), document)))
        found["centred"].add(relation(look(centred, document), look(centred.but(shaping=backward), document)))
        found["forward"].add(relation(look(centred, document), look(centred.but(shaping=forward), document)))
        for name, number_of in (("scenario", _place_of_group), ("answer", _place)):
            found[f"scaled, rates per {name}"].add(
                relation(scaled, look(exact.but(shaping=backward), _with_rates(document, number_of)))
            )
    saw = "; ".join(f"{name}: {', '.join(sorted(kinds))}" for name, kinds in found.items())
    holds = found["scaled"] == found["forward"] == found["scaled, rates per scenario"] == {"equal"}
    holds &= "equal" not in found["scaled, rates per answer"]
    return Finding(holds and found["centred"] == {f"proportional (x {1 / 0.55:.4g})"}, f"10 batches: {saw}")


def _with_rates(document: Mapping[str, Any], number_of: Callable[[str], int]) -> dict[str, Any]:
    """The batch with rates beside each answer, chosen by a number that its id gives."""
    rows = []
    for row in document["trajectories"]:
        rates = OWN_RATES[number_of(row["id"]) % len(OWN_RATES)]
        rows.append({**row, "info": dict(zip(("false_positive", "false_negative"), rates, strict=True))})
    return {**document, "trajectories": rows}


def _place_of_group(name: str) -> int:
    return int(name.split("/")[0])


def _place(name: str) -> int:
    return int(name.split("/")[1])


@dataclass(frozen=True)
class Fickle(Reward):
    """A verifier whose error rates depend on the answer's looks."""

    right: Callable[[int, Answer], float]
    rates: Callable[[int, Answer], tuple[float, float]]
    name: str = "correct"
    weight: float = 1.0
    outside: ClassVar[bool] = False

    async def __call__(self, trajectories: Sequence[Trajectory], *, key: Key) -> list[float | None]:
        said: list[float | None] = []
        for one in trajectories:
            rates = self.rates(question_of(one), answer_of(one))
            said += await NoisyJudge(Graded("truth", self.right), *rates)([one], key=key)
        return said


def right(question: int, answer: Answer) -> float:
    """The answer to question q is token q."""
    return float(answer == (question,))


def looks(question: int, answer: Answer) -> tuple[float, float]:
    """One wrong answer looks right to a lenient parser; all others meet a strict one."""
    return (0.8, 0.1) if answer == ((question + 1) % 4,) else (0.0, 0.5)


def told(question: int, answer: Answer) -> dict[str, Any]:
    """An answer's error rates, for the correction."""
    return dict(zip(("false_positive", "false_negative"), looks(question, answer), strict=True))


@claim(
    "where error rates depend on the answer, GRPO learns the answer that is wrongly accepted and the "
    "corrected one the right answer",
    "derived from arXiv:2510.00915",
    slow=True,
)
def rates_per_answer_mislead() -> Finding:
    """A wrong answer is accepted in 8 of 10 cases, the right one in 5 of 10."""
    world = World(questions=4, tokens=4, horizon=1, reward=right, info=told)
    rewards = (Fickle(right, looks),)
    raw, corrected = [], []
    for seed in range(5):
        raw.append(Bench(world, GRPO.but(rewards=rewards), seed).run(120, every=120).success())
        fixed = NOISY_VERIFIER.but(rewards=rewards)
        corrected.append(Bench(world, fixed, seed).run(120, every=120).success())
    saw = f"success from 0.25 in 120 steps, 5 seeds: uncorrected {_span(raw)}, corrected {_span(corrected)}"
    return Finding(max(raw) < 0.1 and min(corrected) > 0.75, saw)


@claim(
    "the false-negative rate estimated from appeals converges, also with false positives and a judge that errs",
    slow=True,
)
def estimate_converges() -> Finding:
    """After 4,608 answers, half of the rejected ones appealed, the estimate has a standard error of some 0.018."""
    world = World(questions=4, tokens=4, horizon=1, reward=right)
    truth = Graded("truth", world.reward)
    cases = {
        "a verifier that only rejects wrongly": (0.0, NoisyJudge(truth), AppealedCorrection("forward")),
        "one that also accepts wrongly (0.1), and a judge that errs (0.1, 0.1)": (
            0.1,
            NoisyJudge(truth, 0.1, 0.1),
            AppealedCorrection("forward", 0.1, judge_false_positive=0.1, judge_false_negative=0.1),
        ),
    }
    gaps: dict[str, tuple[float, float, float]] = {}
    for name, (false_positive, judge, correction) in cases.items():
        early, late = [], []
        for seed in range(5):
            sampled = {"rollout.judge": judge, "rollout.samples": 48, "rollout.share": 0.5}
            rule = NoisyJudge(truth, false_positive, 0.3)
            recipe = NOISY_VERIFIER_APPEALS.but(sampled, rewards=(rule,), shaping=(correction,))
            bench = Bench(world, recipe, seed, lr=0.02).run(3, every=3)
            early.append(abs(correction.estimate(bench.learner.memory["shaping.0"]) - 0.3))
            bench.run(21, every=21)
            late.append(abs(correction.estimate(bench.learner.memory["shaping.0"]) - 0.3))
        gaps[name] = (sum(early) / 5, sum(late) / 5, max(late))
    saw = "; ".join(f"{name}: {a:.3f}, then {b:.3f}, at worst {c:.3f}" for name, (a, b, c) in gaps.items())
    holds = all(late < early and worst < 0.05 for early, late, worst in gaps.values())
    return Finding(holds, f"mean error in rho1 = 0.3 after 3 and after 24 steps, 5 seeds: {saw}")


def _span(values: Sequence[float]) -> str:
    return f"{min(values):.2f} to {max(values):.2f}"


def page() -> str:
    """`docs/noisy-verifiers.md`, its figures as the checks find them now."""
    verdicts = [check() for check in claim]
    lines = [f"- *{one.claim[0].upper()}{one.claim[1:]}.* {one.saw}." for one in verdicts]
    failed = [one.claim for one in verdicts if not one.holds]
    if failed:
        raise ConfigurationError(f"the page tells what holds, but this does not: {failed[0]}")
    return PAGE.format(figures="\n".join(lines))


PAGE = """# Verifiers that err

*Made by `python -m hocket.methods.group_relative.claims.noisy_verifier_correction`;
`hocket recipes --check noisy-verifier-correction` runs the checks.*

A verifier says 1 or 0 of an answer whose true verdict is r*. It accepts wrong answers at rate rho0 and rejects right
ones at rate rho1, with rho0 + rho1 < 1. Two corrections are known (arXiv:2510.00915):

- **backward** trains on (r - rho0) / (1 - rho0 - rho1), whose mean is r*. It needs both rates.
- **forward** weighs the score function by w(1) = rho1, w(0) = rho1 - 1, whose mean is (1 - rho0 - rho1)(r* - 1): the
  clean reward up to a factor and a constant. It needs rho1 alone.

## When they matter

Both maps are affine in r, and w is just r - (1 - rho1). So what credit does afterwards decides:

| credit | backward, constant rates | forward, constant rates |
|---|---|---|
| mean and deviation of a group (GRPO) | nothing changes | nothing changes |
| mean of a group (Dr. GRPO, RLOO) | a factor 1 / (1 - rho0 - rho1), like a larger learning rate | nothing changes |
| no baseline | unbiased | unbiased up to a factor; 1 - rho1 acts as a baseline |
| any, rates per answer | unbiased before scaling | as its rates are |

So with one pair of rates for all answers, or one per scenario, GRPO's scaled advantages are the same with and without
the correction. What misleads it is a verifier whose errors depend on the *answer*, such as a lenient parser for one
form and a strict one for another; then rates per answer repair it, and one pair of rates cannot.

## The false-negative rate, by appeals

The rollout `WithAppeals` lets a second, light judge re-check a share of what was rejected. If a share q of those is
right, rho1 C = q x rejected, and the number C of right answers follows from what was accepted:
C = (accepted + q x rejected - rho0 N) / (1 - rho0). A judge that errs itself, at rates known, is allowed for by
q = (said - f0) / (1 - f0 - f1).

    hocket train --task sums --recipe noisy-verifier-appeals
    hocket train --task sums --recipe noisy-verifier-correction --shaping.0.false_negative 0.3

## What the checks saw

{figures}
"""


if __name__ == "__main__":
    DOCS.joinpath("noisy-verifiers.md").write_text(page())
