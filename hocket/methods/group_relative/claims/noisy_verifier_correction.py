"""Claims about training on verdicts of a verifier that errs."""

from __future__ import annotations

import asyncio
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from hocket.core.keys import Key
from hocket.lab.claims import pages
from hocket.lab.claims.harness import EXACT, Claims, Finding, below, gap, inspect_rows, say
from hocket.lab.documents import random_document
from hocket.lab.hand_formulas import CountedAnswer, off, stale_rows
from hocket.lab.microscope import RecordedBatch, inspect, relation
from hocket.lab.toys.recorded_answers import answer, document, line
from hocket.lab.toys.training import trained
from hocket.lab.world import Answer, GradedReward, World, answer_of, question_of
from hocket.methods.base.grpo import GRPO
from hocket.methods.group_relative.noisy_verifier_correction import method
from hocket.methods.group_relative.noisy_verifier_correction.method import AppealedCorrection, NoiseCorrection
from hocket.recipe import Recipe
from hocket.rewards.judge import NoisyJudge
from hocket.stages import Reward
from hocket.train.ledger import Ledger
from hocket.types import Assignment, Scenario, Score, Trajectory, Turn

claim = Claims("noisy-verifier-correction", "arXiv:2510.00915")
BACKWARD, FORWARD = method.NOISY_VERIFIER, method.NOISY_VERIFIER_FORWARD
RATES = ((0.15, 0.3),) * 5
OWN_RATES = ((0.0, 0.4), (0.5, 0.1), (0.2, 0.2), (0.3, 0.3), (0.05, 0.6))
Rates = Sequence[tuple[float, float]]


def beside(rates: tuple[float, float]) -> dict[str, Any]:
    return dict(zip(("false_positive", "false_negative"), rates, strict=True))


def expected_gradient(recipe: Recipe, rates: Rates | None, *, told: bool = False) -> Tensor:
    """The mean gradient of the loss in a 5-arm softmax bandit's logits, over all groups of two answers and verdicts.

    Without `rates` the verdicts are true. `told` writes an answer's own rates beside it.
    """
    policy = torch.softmax(torch.tensor([0.3, -0.5, 0.9, 0.1, -1.2], dtype=torch.float64), 0)
    outcomes = []
    for arm, truth in enumerate((1.0, 0.0, 0.0, 1.0, 0.0)):
        accepted = truth if rates is None else 1 - rates[arm][1] if truth else rates[arm][0]
        verdicts = ((1.0, accepted), (0.0, 1 - accepted)) if rates else ((truth, 1.0),)
        outcomes += [(arm, verdict, float(policy[arm]) * chance) for verdict, chance in verdicts]
    pairs = list(itertools.product(outcomes, repeat=2))
    rows = [
        {"id": f"{number}/{place}", "group": str(number), "scores": {"reward": verdict}}
        | {"info": beside(rates[arm]) if rates and told else {}, "logp": [float(policy[arm].log())], "tokens": [arm]}
        for number, pair in enumerate(pairs)
        for place, (arm, verdict, _) in enumerate(pair)
    ]
    total, slopes = torch.zeros(5, dtype=torch.float64), iter(inspect_rows(recipe, rows)["gradient"])
    for pair in pairs:
        for (arm, _, _), (slope,) in zip(pair, slopes, strict=False):
            score = torch.nn.functional.one_hot(torch.tensor(arm), 5).double() - policy
            # The loss is a mean over all rows; a group alone would be a mean over its two.
            total += pair[0][2] * pair[1][2] * slope * len(pairs) * score
    return total


@claim(
    "by enumeration the expected gradient under backward correction is the clean one, for rates of the "
    "verifier and rates per answer"
)
def _backward() -> Finding:
    plain, known = BACKWARD.but(shaping=()), BACKWARD.but(shaping=(NoiseCorrection("backward", *RATES[0]),))
    clean = expected_gradient(plain, None)
    off = gap(expected_gradient(known, RATES), clean)
    own = gap(expected_gradient(known, OWN_RATES, told=True), clean)
    raw = gap(expected_gradient(plain, OWN_RATES), clean)
    saw = f"largest gap {off:.1e}, with rates per answer {own:.1e}; uncorrected {raw:.2f} of {gap(clean, 0.0):.2f}"
    return Finding(max(off, own) < 1e-10 and raw > 0.01, saw)


@claim(
    "by enumeration the expected gradient under forward correction is 1 - rho0 - rho1 times the clean one, rho0 unknown"
)
def _forward() -> Finding:
    factor = 1 - sum(RATES[0])
    clean = factor * expected_gradient(FORWARD.but(shaping=()), None)
    known = [FORWARD.but(shaping=(NoiseCorrection("forward", believed, RATES[0][1]),)) for believed in (0.0, 0.5)]
    off = max(gap(expected_gradient(recipe, RATES), clean) for recipe in known)
    return Finding(off < 1e-10, f"largest gap to {factor:.2f} x the clean gradient {off:.1e}, any rho0 told")


@claim(
    "rates of the verifier or the scenario change nothing where a group is scaled (backward) or centred "
    "(forward): only rates per answer do, though the paper reports gains of both in GRPO",
    "derived: both maps are affine",
)
def _affine() -> Finding:
    scaled = GRPO.but({"credit.epsilon": 0.0})
    centred = scaled.but({"credit.scale": None})
    documents = [random_document(Key.of(number)) for number in range(10)]

    def rated(row: dict[str, Any], part: int) -> dict[str, Any]:
        return {**row, "info": beside(OWN_RATES[int(row["id"].split("/")[part]) % 5])}

    def kinds(recipe: Recipe, kind: Any, part: int | None = None) -> set[str]:
        corrected, relations = recipe.but(shaping=(NoiseCorrection(kind, 0.15, 0.3),)), set()
        for one in documents:
            rows = [row if part is None else rated(row, part) for row in one["trajectories"]]
            relations.add(relation(inspect(recipe, one), inspect_rows(corrected, rows)))
        return relations

    kept = {"scaled": kinds(scaled, "backward"), "centred": kinds(centred, "backward")}
    kept |= {"forward": kinds(centred, "forward"), "scaled, rates per scenario": kinds(scaled, "backward", 0)}
    answer = kinds(scaled, "backward", 1)
    holds = kept["scaled"] == kept["forward"] == kept["scaled, rates per scenario"] == {"equal"}
    holds &= "equal" not in answer and kept["centred"] == {f"proportional (x {1 / 0.55:.4g})"}
    every = {**kept, "scaled, rates per answer": answer}
    return Finding(holds, "10 batches: " + "; ".join(f"{name}: {', '.join(sorted(k))}" for name, k in every.items()))


@claim("Advantages, loss and gradient of both are the formulas', counted by hand: rates 0.1, or an answer's own.")
def _by_hand() -> Finding:
    def rates(one: CountedAnswer) -> tuple[float, float]:
        told = one.row["info"]
        return told.get("false_positive", 0.1), told.get("false_negative", 0.1)

    def cleaned(members: Sequence[CountedAnswer]) -> list[float]:
        values = [(one.reward - rates(one)[0]) / (1 - sum(rates(one))) for one in members]
        return [value - fmean(values) for value in values]

    def weighed(members: Sequence[CountedAnswer]) -> list[float]:
        return [one.reward - 1 + rates(one)[1] for one in members]

    gaps = []
    for rows in stale_rows("noisy verifiers"):
        for number, row in enumerate(rows):
            row["info"] |= ({"false_positive": 0.3}, {"false_negative": 0.2}, {})[number % 3]
        gaps += [off(BACKWARD, rows, credit=cleaned), off(FORWARD, rows, credit=weighed)]
    return below(EXACT, off_by_hand=max(gaps))


def estimated(seen: Sequence[float], rho0: float, judge: tuple[float, float]) -> float:
    """rho1 from answers accepted, rejected, appealed and upheld: what is missing over all that is right."""
    accepted, rejected, appealed, upheld = seen
    missing = rejected * min(1.0, max(0.0, (upheld / appealed - judge[0]) / (1 - sum(judge))))
    right = (accepted + missing - rho0 * (accepted + rejected)) / (1 - rho0)
    return min(missing / right if right > 0 else 0.0, 0.95 - rho0)


def appealed(verdicts: str, reward: float = 0.0) -> list[dict[str, Any]]:
    """Answers by what the judge said of them: y, n, or nothing."""
    said_of = {"y": 1.0, "n": 0.0, "-": None}
    return [answer(reward, 2, info={"appeal": said_of[one]}) for one in verdicts]


@claim(
    "The rate estimated from appeals is the formula's, by hand: as shipped from 16 appeals on, older ones faded else."
)
def _estimates() -> Finding:
    (shipped,), faded = (
        method.NOISY_VERIFIER_APPEALS.shaping,
        AppealedCorrection("backward", 0.2, 0.3, 4, 0.5, 0.1, 0.25),
    )
    few = [*appealed("--", 1.0), *appealed("yynnnnn" + "-" * 4)]
    many = [*appealed("---", 0.5), *appealed("yynynnnnn" + "-" * 9)]
    # The judge says yes more seldom than it errs; always; of more than verifiers reject of what is right; never asked.
    odd = [[*appealed("-----", 1.0), *appealed("n" * 8 + "--")], [*appealed("-" * 9, 1.0), *appealed("yyyy")]]
    odd += [[*appealed("--", 1.0), *appealed("yyyyn" * 2)], appealed("--", 1.0), appealed("nnnnn")]
    odd += [[*appealed("-" * 60, 1.0), *appealed(said)] for said in ("yyn" * 2 + "----", "yyn" * 8 + "-" * 8)]
    gaps = [method.false_negative_rate(0, 10, 0.2, 0.15) - 1]
    arms: list[tuple[Any, float, tuple[float, float], float, int, float]]
    arms = [(shipped, 0.0, (0.0, 0.0), 1.0, 16, 0.0), (faded, 0.2, (0.1, 0.25), 0.5, 4, 0.3)]
    for correction, rho0, judge, momentum, least, initial in arms:
        for steps in ([few, many], *([one] for one in odd), [few, few, many]):
            state, seen = correction.init(), [0.0] * 4
            for rows in steps:
                batch = RecordedBatch(document(rows)).batch
                changed, state = correction(batch, state)
                rewards = [row["scores"]["reward"] for row in rows]
                said = [row["info"]["appeal"] for row in rows if row["info"]["appeal"] is not None]
                right = sum(one >= 0.5 for one in rewards)
                new = [right, len(rows) - right, len(said), sum(said)]
                seen = [momentum * old + one for old, one in zip(seen, new, strict=True)]
                rho1 = estimated(seen, rho0, judge) if seen[2] >= least else initial
                wanted = [r - 1 + rho1 if correction is shipped else (r - rho0) / (1 - rho0 - rho1) for r in rewards]
                gaps.append(gap(changed.scores["reward"].values, wanted))
    return below(EXACT, off_by_hand=max(gaps))


@claim(
    "As shipped each of 8 answers that was rejected, and did not fail, is appealed with probability 1/4, to its number."
)
def _appealing() -> Finding:
    async def play(asked: Sequence[Assignment]) -> list[Trajectory]:
        played = []
        for one in asked:
            for sample in range(one.samples):
                turn = Turn("solo", "solo", np.zeros(1, np.int64), np.ones(1, np.int64), text=f"so {sample % 3}")
                failure = "lost" if sample == 7 else None
                played.append(Trajectory(one.scenario, [turn], sample, failure=failure))
        return played

    async def score(played: Sequence[Trajectory]) -> None:
        for one in played:  # Some parts alone are less than what accepts.
            one.scores.update(a=Score(0.25 * (one.sample % 2)), b=Score(0.25 if one.sample < 2 else 0.2))

    asked, rollout = (
        [Assignment(Scenario(str(n), "?", answer=2)) for n in range(400)],
        method.NOISY_VERIFIER_APPEALS.rollout,
    )
    found = asyncio.run(rollout.collect(asked, play=play, score=score, ledger=Ledger(), key=Key.of(0)))
    heard = [(one, said) for one in found.trajectories if (said := method.APPEAL.get(one)) is not None]
    allowed = len(found.trajectories) == 3200 and {one.sample for one, _ in heard} == {0, 2, 3, 4, 5, 6}
    right = all(said == (one.sample % 3 == 2) for one, said in heard)
    counts = [found.metrics[name] for name in ("appeals", "appeals/upheld")]
    nobody = method.NOISY_VERIFIER_APPEALS.but({"rollout.judge": None}).rollout
    bare = asyncio.run(nobody.collect(asked[:9], play=play, score=score, ledger=Ledger(), key=Key.of(0)))
    allowed &= bare.metrics["appeals"] == 0
    apart = abs(len(heard) - 600) / math.sqrt(2400 * 0.25 * 0.75)
    holds = allowed and right and counts == [len(heard), sum(said for _, said in heard)] and apart < 4
    return Finding(holds, say(appeals_of_2400=len(heard), upheld=counts[1], standard_errors_off_a_quarter=apart))


def right(question: int, answer: Answer) -> float:
    return float(answer == (question,))


def looks(question: int, answer: Answer) -> tuple[float, float]:
    """One wrong answer looks right to a lenient parser; all others meet a strict one."""
    return (0.8, 0.1) if answer == ((question + 1) % 4,) else (0.0, 0.5)


@dataclass(frozen=True)
class Fickle(Reward):
    """A verifier whose error rates depend on the answer's looks."""

    name: str = "correct"
    weight: float = 1.0
    outside: ClassVar[bool] = False

    async def __call__(self, trajectories: Sequence[Trajectory], *, key: Key) -> list[float | None]:
        judges = [NoisyJudge(GradedReward("truth", right), *looks(question_of(o), answer_of(o))) for o in trajectories]
        return [(await judge([one], key=key))[0] for judge, one in zip(judges, trajectories, strict=True)]


@claim(
    "where error rates depend on the answer, GRPO learns the answer that is wrongly accepted and the "
    "corrected one the right answer",
    "derived from arXiv:2510.00915",
    slow=True,
)
def _misled() -> Finding:
    world = World(4, 4, 1, right, info=lambda question, answer: beside(looks(question, answer)))
    recipes = (recipe.but(rewards=(Fickle(),)) for recipe in (GRPO, BACKWARD))
    raw, corrected = ([one.success() for one in trained(world, recipe, 120)] for recipe in recipes)
    return Finding(max(raw) < 0.1 and min(corrected) > 0.75, say(success_uncorrected=raw, corrected=corrected))


@claim(
    "the false-negative rate estimated from appeals converges, also with false positives and a judge that errs",
    slow=True,
)
def _appeals() -> Finding:
    # After 4,608 answers, half of the rejected ones appealed, the estimate has a standard error of some 0.018.
    truth = GradedReward("truth", right)
    cases = {
        "only_rejects_wrongly": (0.0, NoisyJudge(truth), AppealedCorrection("forward")),
        "accepts_0_1_wrongly_and_a_judge_errs_in_0_1": (
            *(0.1, NoisyJudge(truth, 0.1, 0.1)),
            AppealedCorrection("forward", 0.1, judge_false_positive=0.1, judge_false_negative=0.1),
        ),
    }
    errors, holds = {}, True
    for name, (false_positive, judge, correction) in cases.items():
        sampled = {"rollout.judge": judge, "rollout.samples": 48, "rollout.share": 0.5}
        stages = {"rewards": (NoisyJudge(truth, false_positive, 0.3),), "shaping": (correction,)}
        benches = trained(World(4, 4, 1, right), method.NOISY_VERIFIER_APPEALS.but(sampled, **stages), 3, lr=0.02)
        early, late = (
            [abs(correction.estimate(one.run(more).learner.memory["shaping.0"]) - 0.3) for one in benches]
            for more in (0, 21)
        )
        holds &= fmean(late) < fmean(early) and max(late) < 0.05
        errors[name] = line([fmean(early), fmean(late), max(late)])
    return Finding(holds, f"mean error in rho1 = 0.3 after 3 and 24 steps, and the worst: {say(**errors)}")


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
    pages.write("noisy-verifiers", PAGE, claim)


claim.spares("noisy-verifier-forward: credit.epsilon = 4e-07", "no deviation is taken")
claim.spares("noisy-verifier-forward: credit.epsilon = 0.0", "no deviation is taken")
claim.spares("noisy-verifier-forward: credit.ddof = 40", "no deviation is taken")
claim.spares("noisy-verifier-appeals: rollout.judge.weight = 40.0", "a judge's verdict is read as it is")
claim.spares("noisy-verifier-appeals: rollout.judge.weight = 0.0", "a judge's verdict is read as it is")

claim.shipped(method.NOISY_VERIFIER, "shaping")
claim.shipped(method.NOISY_VERIFIER_FORWARD, "shaping")
claim.shipped(method.NOISY_VERIFIER_APPEALS, "rollout", "shaping")
