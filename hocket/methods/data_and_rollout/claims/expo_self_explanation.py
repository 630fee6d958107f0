"""ExPO's claims."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch

from hocket.agents.workflows.single import SingleTurn
from hocket.core.batch import Batch
from hocket.core.keys import Key
from hocket.lab.claims.harness import Claims, Finding, below, cases, gap, inspect_rows, say
from hocket.lab.talk import TalkBench
from hocket.lab.toys.recorded_answers import lines, sample
from hocket.methods.base.grpo import GRPO
from hocket.methods.data_and_rollout.expo_self_explanation import EXPO, EXPO_DPO
from hocket.recipe import Recipe
from hocket.rewards.verifiers import TaskVerifier
from hocket.rollout.rescue import HELPED
from hocket.train.aio import run_async
from hocket.train.ledger import Ledger
from hocket.types import Assignment, Message, Scenario, Score, Trajectory, Turn

claim = Claims("expo-self-explanation", "arXiv:2507.02834")
COLOURS = ("red", "blue", "green")
OWN, BOOK, STRAY = "counting", "theorem", "guess"
WORDS = (OWN, BOOK, STRAY, *COLOURS)
SAID = 0.0005
"""How likely the policy counts when nobody tells it the answer."""


def shy(messages: tuple[Message, ...], said: tuple[str, ...]) -> dict[str, float]:
    """Guesses wrong; told the answer, counts and finds it; after counting it is mostly right, after a guess never."""
    asks, least = str(messages[-1]["content"]), dict.fromkeys(WORDS, -30.0)
    told, (question, *_) = "The answer is" in asks, asks.split("\n")
    if not said:
        chances = {OWN: 0.9, STRAY: 0.1} if told else {OWN: SAID, BOOK: 1e-5, STRAY: 1 - SAID - 1e-5}
        return least | {word: math.log(chance) for word, chance in chances.items()}
    sure = 0.9 if said[0] in (OWN, BOOK) else 0.001
    return least | {word: math.log(sure if word == question else (1 - sure) / 2) for word in COLOURS}


def bench(recipe: Recipe, seed: int = 0) -> TalkBench:
    """Three questions that are answered by a thought and a colour."""
    asked = [Scenario(colour, colour, colour, {"demonstration": f"{BOOK} {colour}"}) for colour in COLOURS]

    def right(trajectory: Trajectory) -> float:
        return verdict(trajectory.text, trajectory.scenario)

    paid = (TaskVerifier(verdict),)
    return TalkBench(
        *(SingleTurn(), asked, WORDS, recipe), length=2, prior=shy, rewards=paid, seed=seed, lr=0.1, measure=right
    )


def verdict(text: str, scenario: Scenario) -> float:
    """1 where the last word is the answer."""
    return float(text.split()[-1] == scenario.answer)


@claim("Where all samples fail GRPO's gradient is exactly 0; with the explanation's term it is that term's alone.")
def where_all_samples_fail_grpos_gradient_is_exactly_0_with_the() -> Finding:
    rows = [sample("q", 0.0, [-1.0, -2.0]) for _ in range(4)]
    rows.append(sample("q with help", 1.0, [-3.0, -0.5], info={HELPED.name: 1}))
    seen, plain = inspect_rows(EXPO, rows), inspect_rows(GRPO, rows[:4])
    none = max(abs(one) for row in [*plain["gradient"], *seen["gradient"][:4]] for one in row)
    off = max(abs(seen["loss"] - 0.5 * 1.75), gap(seen["gradient"][4], [-0.25, -0.25]))
    return Finding(none == 0 and off < 1e-12, say(grpo=none, off_by_hand=off))


@claim("Beside groups with a success the loss is GRPO's on own samples, plus w times the explanations' mean -log pi.")
def beside_groups_with_a_success_the_loss_is_grpos_on_own_samples() -> Finding:
    # Log-ratios on both sides of both clips.
    drift, rows = (0.3, 0.3, -0.1, -0.3, -0.3, 0.1, 0.1, -0.1), []
    for n in range(8):
        logp = [-1.0 - 0.1 * n] * (1 + n % 3)
        rows.append(sample(f"{n // 4}", float(n in (1, 6)), logp, logp_behaviour=[one - drift[n] for one in logp]))
    extra = [sample(f"{n} with help", 1.0, [-0.3 * n - 0.2, -0.7], info={HELPED.name: 1}) for n in range(3)]
    whole, own = inspect_rows(EXPO, [*rows, *extra]), inspect_rows(GRPO, rows)
    term = 0.5 * sum((0.3 * n + 0.2 + 0.7) / 2 for n in range(3)) / 3
    off = max(abs(whole["loss"] - own["loss"] - term), gap(whole["gradient"][:8], own["gradient"]))
    return below(1e-12, loss_and_gradient_off=off)


@claim(
    "An explanation is read behind the plain prompt, where it is likelier than the reference; wrong ones are not kept."
)
def an_explanation_is_read_behind_the_plain_prompt_where_it_is() -> Finding:
    made = bench(EXPO)
    result = made.step()
    kept = [one for one in result.trajectories if HELPED.present(one)]
    batch = result.batch
    assert batch is not None
    (policy,) = made.policies.values()
    plain = all(str(one.turns[0].prompt[-1]["content"]) == one.scenario.answer for one in kept)
    right = all(
        one.text == f"{OWN} {one.scenario.answer}" and one.scenario.origin == one.scenario.answer for one in kept
    )
    first = policy.probabilities("red")
    after = [policy.probabilities("red", said=(word,))[WORDS.index("red")] for word in (OWN, STRAY)]
    own, book = float(first[WORDS.index(OWN)]), float(first[WORDS.index(BOOK)])
    holds = len(kept) > 0 and plain and right and own > book and float(after[0]) > float(after[1])
    counted = _weights(batch)
    return Finding(holds and counted, say(kept=len(kept), of_own_way=own, of_reference=book))


def _weights(batch: Batch) -> bool:
    """Whether what was helped has no advantage and counts."""
    helped = torch.tensor([bool(one) for one in HELPED.rows(batch)])[batch.occurrences.trajectory]
    seen = batch.occurrences
    return bool((seen.weight[helped] > 0).all()) and bool((seen.advantage[helped] == 0).all())


@claim("What GRPO never solves is learnt from self-explanations, and answered without being told.", slow=True)
def what_grpo_never_solves_is_learnt_from_self_explanations_and() -> Finding:
    ends = {one.name: [bench(one, seed).run(80).success() for seed in range(3)] for one in (EXPO, EXPO_DPO, GRPO)}
    grown = min(min(ends[name]) for name in (EXPO.name, EXPO_DPO.name))
    return Finding(grown > 0.7 and max(ends["grpo"]) < 0.3, lines(success=ends))


@claim(
    "As shipped 8 samples; where all fail 4 tries are told the answer, and the first that is right stands beside the "
    "failures behind the plain prompt, in a group of its own, or for DPO in the place of the first."
)
def as_shipped_8_samples_where_all_fail_4_tries_are_told_the_answer() -> Finding:
    asked = [Assignment(Scenario(name, name, "42"), first=3) for name in ("easy", "hard")]
    calls = list[list[Assignment]]()

    async def play(asking: Sequence[Assignment]) -> list[Trajectory]:
        """One of five samples of what is easy is right, and of what is hard every other one that is told."""
        calls.append([*asking])
        found = []
        for one, number in ((ask, n) for ask in asking for n in range(ask.first, ask.first + ask.samples)):
            zeros, told = np.zeros(1, np.int64), one.hint is not None and number % 2 == 0
            right = number % 5 == 0 if one.scenario.id == "easy" else told
            made = Trajectory(one.scenario, [Turn("policy", "policy", zeros, zeros, text=f"{number}")], number)
            made.source, made.scores["correct"] = one.source, Score(1.0 if right else 0.4)
            found.append(made)
        return found

    async def score(played: Sequence[Trajectory]) -> None:
        pass

    easy, hard = ([(name, number, "own") for number in range(3, 11)] for name in ("easy", "hard"))
    beside = ([*easy, *hard, ("hard with help", 12, "expert")], [11, 13, 14])
    instead = ([*easy, ("hard", 12, "expert"), *hard[1:]], [3, 11, 13, 14])

    def collected(recipe: Recipe, due: tuple[list[tuple[str, int, str]], list[int]]) -> bool:
        calls.clear()
        step = run_async(recipe.rollout.at(1).collect(asked, play=play, score=score, ledger=Ledger(), key=Key.of(0)))
        kept = [(one.scenario.id, one.sample, one.source) for one in step.trajectories]
        first, tries, again = calls
        right = [one.samples for one in first] == [8, 8] and (kept, sorted(one.sample for one in step.discarded)) == due
        right &= [(one.hint, one.first, one.samples) for one in tries] == [("The answer is 42", 11, 4)]
        plain = [(None, number, {"demonstration": f"{number}"}) for number in (12, 14)]
        return right and [(one.hint, one.first, one.scenario.metadata) for one in again] == plain

    return cases(((EXPO, beside), (EXPO_DPO, instead)), collected)


AGGREGATE = "no length divides a mean over sequences"
claim.spares("expo-self-explanation: objective.of.horizon = 5120", AGGREGATE)
claim.spares("expo-self-explanation: regularisers.0.of.horizon = 5120", AGGREGATE)
claim.shipped(
    EXPO,
    without={"regularisers": ()},
    settings={"rollout.samples": 2},
    first={"recipe": "sft", "task": "worked_sums?told=0.5", "steps": 12, "update.lr": 0.001},
    sees=lambda run: {"failed": run.mean("rollout/failed"), "explained": run.mean("rollout/rescued")},
)
