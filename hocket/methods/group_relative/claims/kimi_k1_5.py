"""Kimi k1.5's claims."""

import copy
import dataclasses
import itertools
import math
from collections import Counter
from collections.abc import Sequence
from statistics import fmean
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hocket.core.components import value_at
from hocket.core.keys import Key
from hocket.curriculum.random_order import Shuffled
from hocket.lab.bandit import minimised
from hocket.lab.bench import Bench, TablePlayer
from hocket.lab.claims.harness import EXACT, Claims, Finding, below, each, gap, gradient, inspect_rows, runs, say
from hocket.lab.hand_formulas import CountedAnswer, off, stale_rows
from hocket.lab.policy import Tabular
from hocket.lab.theory import tilted
from hocket.lab.toys.enumerable_groups import REFERENCE, REWARDS, documents
from hocket.lab.toys.quick_worlds import uneven
from hocket.lab.toys.recorded_answers import answer, line
from hocket.lab.world import World, answer_of
from hocket.methods.group_relative.kimi_k1_5 import (
    KIMI_K1_5,
    KIMI_K1_5_LONG,
    LONG2SHORT_DPO,
    ByFailure,
    EasyToHard,
    PartialRollouts,
)
from hocket.objectives.regression import squared_residual
from hocket.train.aio import run_async
from hocket.train.ledger import Ledger
from hocket.train.loop import Playing
from hocket.types import Assignment, Decoding, Experience, Trajectory

claim = Claims("kimi-k1-5", "arXiv 2501.12599, section 2.3.3")
REWARD = torch.tensor(REWARDS, dtype=torch.float64)
KEY = Key.of(0).derive("checks", "regressions")


def regressed(baseline: Tensor, tau: float, start: Tensor) -> Tensor:
    """The probabilities at which the expected squared residual above a baseline is least."""

    def loss(logits: Tensor) -> Tensor:
        drift = torch.log_softmax(logits, 0) - REFERENCE
        return (REFERENCE.exp() * squared_residual(REWARD - baseline, drift, tau)).sum()

    return minimised(loss, start)


@claim("with the true normaliser the regression's optimum is pi_i exp(r/tau)/Z", "arXiv 2501.12599, equation 2")
def with_the_true_normaliser_the_regressions_optimum_is_pi_i_exp_z() -> Finding:
    gaps, start = [], torch.zeros(5, dtype=torch.float64)
    for tau in (0.5, 1.0, 4.0):
        reached = regressed(tau * torch.logsumexp(REFERENCE + REWARD / tau, 0), tau, start)
        gaps.append(gap(reached, tilted(REFERENCE.exp(), REWARD, tau)))
    return Finding(max(gaps) < 1e-6, f"tau 0.5, 1, 4: {say(largest_difference_of_probabilities=max(gaps))}")


@claim("the mean-reward surrogate is off by a share of the step that falls about as 1/tau^2", "derived")
def the_mean_reward_surrogate_is_off_by_a_share_of_the_step_that() -> Finding:
    shares = []
    for tau in (0.5, 1.0, 2.0, 4.0):
        optimum = tilted(REFERENCE.exp(), REWARD, tau).log()
        reached = regressed((REFERENCE.exp() * REWARD).sum(), tau, REFERENCE).log()
        shares.append(float((reached - optimum).norm() / (optimum - REFERENCE).norm()))
    orders = [math.log2(a / b) for a, b in itertools.pairwise(shares)]
    told = say(share_of_the_step=" ".join(f"{share:.1e}" for share in shares), orders=line(orders))
    return Finding(all(1.5 < order < 2.5 for order in orders), f"tau 0.5, 1, 2, 4: {told}")


@claim("its gradient is (r - mean r) grad log pi - tau/2 grad (log pi/pi_i)^2", "arXiv 2501.12599, equation 3")
def its_gradient_is_grad_log_pi_tau_2_grad_2() -> Finding:
    recipe, gaps = KIMI_K1_5.but({"shaping": []}), []
    tau = recipe.objective.temperature  # type: ignore[attr-defined]
    for batch in documents(20, "regressions", "kimi", graded=True):
        rows, slopes = batch["trajectories"], []
        for row in rows:
            mean = fmean(other["scores"]["reward"] for other in rows if other["group"] == row["group"])
            drift = sum(row["logp"]) - sum(row["logp_proximal"])
            slopes += [-(row["scores"]["reward"] - mean - tau * drift) / len(rows)] * len(row["logp"])
        gaps.append(gap(gradient(recipe, batch), slopes))
    return below(EXACT, largest_difference_on_20_batches=max(gaps))


@claim("lengths 10, 20, 30 give 0.5, 0, -0.5, at most 0 if wrong, after the warm-up")
def lengths_10_20_30_give_0_5_0_0_5_at_most_0_if_wrong_after_the() -> Finding:
    def shaped(rewards: Sequence[float], lengths: Sequence[int] = (10, 20, 30), progress: float = 0.5) -> list[float]:
        """Advantages of the whole recipe at weight 1, less the centred rewards."""
        rows = [answer(*pair) for pair in zip(rewards, lengths, strict=True)]
        seen = inspect_rows(KIMI_K1_5.but({"shaping.0.weight": 1.0}), rows, progress=progress)["advantages"]
        return [round(a - r + fmean(rewards), 12) for (a, *_), r in zip(seen, rewards, strict=True)]

    right, wrong, equal = shaped((1, 1, 1)), shaped((0, 0, 0)), shaped((1, 0, 1), (7, 7, 7))
    early = shaped((1, 1, 1), progress=0.1)
    # Centred: (0.5, 0, -0.5) has mean 0, (0, 0, -0.5) has mean -1/6.
    centred = [round(value + 1 / 6, 12) for value in (0.0, 0.0, -0.5)]
    holds = right == [0.5, 0.0, -0.5] and wrong == centred and not any(equal) and not any(early)
    lengths = {"right answers of 10, 20, 30": line(right), "wrong ones, centred": line(wrong)}
    return Finding(holds, say(**lengths, equal_lengths=line(equal), in_the_warm_up=line(early)))


UNSCORED = World(questions=4, tokens=3, horizon=3, end=2, reward=lambda question, answer: 0.0)


def written_over(
    steps: int, samples: int, *, learning: bool = False
) -> tuple[list[Experience], list[Tabular], PartialRollouts]:
    """What `PartialRollouts` brings back, and the policies it was written by; question n is asked in step n."""
    policy, versions = Tabular(UNSCORED), list[Tabular]()
    uneven(KEY.derive("resume"))(policy)
    rolling, found = PartialRollouts(samples=samples, pieces=3), list[Experience]()
    player, state = TablePlayer(UNSCORED, {"policy": policy}), rolling.init()

    async def unscored(ended: Sequence[Trajectory]) -> None:
        return None

    for step in range(steps):
        versions.append(copy.deepcopy(policy))
        asked = [Assignment(UNSCORED.scenario("train", step % 4), decoding=Decoding(max_tokens=3))]
        key = KEY.derive("partial", step)
        playing = Playing(player, key)
        experience, state = run_async(
            rolling.collect_with(state, asked, play=playing, score=unscored, ledger=Ledger(), key=key)
        )
        found.append(experience)
        if learning:
            policy.logits.data += 0.5 * torch.randn(policy.logits.shape, generator=KEY.derive("move", step).torch())
            policy.version += 1
    return found, versions, rolling


@claim(
    "with frozen weights resumed partial rollouts have the distribution of unbroken ones",
    "arXiv 2501.12599, section 2.6.2",
)
def with_frozen_weights_resumed_partial_rollouts_have_the() -> Finding:
    found, (policy, *_), _ = written_over(6, 2_000)
    answers = list(UNSCORED.answers())
    freedom, worst, gaps, whole = len(answers) - 1, 0.0, list[float](), 0
    for question in range(4):
        own = [one for part in found for one in part.trajectories if one.scenario.id == f"lab/{question}"]
        counts = Counter(answer_of(one) for one in own)
        expected = len(own) * policy.logp(question).exp().detach().numpy()
        seen = np.array([counts[answer] for answer in answers])
        worst, whole = max(worst, float(((seen - expected) ** 2 / expected).sum())), whole + len(own)
        for one in own[:200]:
            logp = sum(float(turn.logp.sum()) for turn in one.turns if turn.logp is not None)
            gaps.append(abs(logp - float(policy.logp(question, [answer_of(one)]).detach())))
    # Chi-squared with K - 1 degrees of freedom: mean K - 1, deviation sqrt(2 (K - 1)).
    holds = worst < freedom + 5 * math.sqrt(2 * freedom) and max(gaps) < 1e-5 and whole == 8_000
    figures = say(chi_squared=worst, degrees_of_freedom=freedom, answers=whole, logprobs_chain_to=max(gaps))
    return Finding(holds, figures)


@claim(
    "every token of an answer written over steps keeps the log-prob and the version it was written with, and is the "
    "policy's own; a step adds a third of the length, and a group comes back whole",
    "arXiv 2501.12599, section 2.6.2",
)
def every_token_of_an_answer_written_over_steps_keeps_the_log_prob() -> Finding:
    found, versions, rolling = written_over(6, 40, learning=True)
    everything = [one for part in found for one in part.trajectories]
    parted, gaps, sound = 0, list[float](), True
    for one in everything:
        (turn,), question = one.turns, int(one.scenario.metadata["question"])
        assert turn.logp is not None
        assert turn.version is not None
        assert turn.forced is not None
        begun = int(turn.version[0])
        sound &= turn.version.tolist() == [begun + place for place in range(len(turn))] and not turn.forced.any()
        parted += len(turn) > 1
        for place, token in enumerate(turn.action.tolist()):
            by = versions[int(turn.version[place])]
            row = by.row(question, tuple(turn.action[:place].tolist()))
            gaps.append(abs(float(torch.log_softmax(by.logits.detach()[row], -1)[token]) - float(turn.logp[place])))
    groups = Counter(one.scenario.id for part in found for one in part.trajectories)
    sound &= all(count % 40 == 0 for count in groups.values()) and parted > 0
    wrote = [part.metrics["tokens/generated"] for part in found]
    sound &= wrote[0] == 40 and all(
        wrote[n] == 40 + found[n].metrics["rollout/resumed"] == 40 + found[n - 1].metrics["rollout/open"]
        for n in range(1, 6)
    )
    figures = say(written_by_several=parted, logprobs_off=max(gaps), tokens_of_steps=line(wrote))
    return Finding(sound and max(gaps) < 1e-6 and rolling.init() == {"groups": []}, figures)


@claim("problems are asked in thirds of the pool by their difficulty, easy ones first, then by failure")
def problems_are_asked_in_thirds_of_the_pool_by_their_difficulty() -> Finding:
    hard = (3, 1, 2, 2, 1, 3)
    world = World(6, 2, 1, reward=lambda q, a: 0.0, metadata=lambda q: {"difficulty": hard[q], "effort": -hard[q]})
    ledger = Ledger()

    def difficulties(asking: Any) -> list[int]:
        return [hard[int(one.metadata["question"])] for one in asking(world, 0, 12, ledger, KEY)]

    asking: Any = KIMI_K1_5_LONG.but({"curriculum.per_stage": 4, "curriculum.pool": 6}).curriculum
    eased, turned = difficulties(asking), difficulties(dataclasses.replace(asking, label="effort"))
    then = [one.id for one in asking(world, 10, 8, ledger, KEY)]
    after = [one.id for one in ByFailure()(world, 0, 6, ledger, KEY)]
    split = then[2:] == after and [one.id for one in asking(world, 10, 2, ledger, KEY)] == then[:2]
    settings = [value_at(KIMI_K1_5_LONG, f"curriculum.{name}") for name in ("stages", "per_stage", "pool")]
    holds = eased == [1] * 4 + [2] * 4 + [3] * 4 and turned == eased[::-1] and split and settings == [3, 160, None]
    return Finding(holds, say(asked=str(eased), by_the_other_label=str(turned), then_by_failure=split))


claim.constants(
    "as shipped 8 samples are written over 8 steps at most, and the last stage is by failure as in kimi-k1-5",
    KIMI_K1_5_LONG,
    {
        "rollout": PartialRollouts(samples=8, pieces=8),
        "curriculum": EasyToHard(16, 3, 160, None, "staged", ByFailure(16, None, 0.05, 4), "difficulty"),
    },
)


SPOKEN = World(2, 4, 5, lambda q, a: float(a[-2:] == (q + 1, 3)), end=3, context="last")
"""Any answer may be padded with token 0; it is right when its last word before the end is the question's."""


@claim("on a toy task tokens fall without loss of accuracy", slow=True)
def on_a_toy_task_tokens_fall_without_loss_of_accuracy() -> Finding:
    sides = [KIMI_K1_5.but({"name": name, "shaping.0.weight": w}) for name, w in (("with", 0.5), ("without", 0.0))]
    benches = runs(SPOKEN, *sides, steps=60, every=60, lr=0.1)
    lengths, success = each(benches, lambda b: b.readings[-1].length), each(benches, Bench.success)
    holds = max(lengths["with"]) < min(lengths["without"])
    holds &= fmean(success["with"]) > fmean(success["without"]) - 0.03
    return Finding(holds, say(length=lengths, success=success))


@claim("prompts are asked in proportion to their failure rate", "arXiv 2501.12599, section 2.3.4")
def prompts_are_asked_in_proportion_to_their_failure_rate() -> Finding:
    ledger, world, rates = Ledger(), World(4, 2, 1, reward=lambda q, a: 0.0), (1.0, 0.9, 0.5, 0.0)
    for number, rate in enumerate(rates):
        ledger.record(f"lab/{number}", 1, rate)
    asking: Any = KIMI_K1_5.but({"curriculum.pool": 4}).curriculum
    asked = Counter(asking(world, 4 + n, 1, ledger, KEY)[0].id for n in range(2000))
    shares = [asked[f"lab/{number}"] / 2000 for number in range(4)]
    expected = [(1.05 - rate) / math.fsum(1.05 - one for one in rates) for rate in rates]
    errors = max(abs(a - b) / math.sqrt(b * (1 - b) / 2000) for a, b in zip(shares, expected, strict=True))
    figures = say(asked=str(shares), expected=line(expected), largest_error=errors)
    return Finding(errors < 4.5, f"{figures} standard errors")


@claim("each of the pool is asked once first, then different ones as often as one likes; a pool of all, 16 a step")
def each_of_the_pool_is_asked_once_first_then_different_ones_as() -> Finding:
    world, ledger, asking = World(6, 2, 1, reward=lambda q, a: 0.0), Ledger(), ByFailure(pool=4)

    def asked(start: int, count: int, one: ByFailure = asking, seen: Ledger = ledger) -> list[str]:
        return [scenario.id for scenario in one(world, start, count, seen, KEY)]

    plain = [scenario.id for scenario in Shuffled()(world, 0, 6, ledger, KEY)]
    first = asked(0, 4) == plain[:4] and asked(1, 2) == plain[1:3] and asked(0, 6, ByFailure(pool=10)) == plain
    across, twice = asked(2, 5), asked(4, 8)
    first &= len(across) == 5 and across[:2] == plain[2:4] and set(across[2:]) < set(plain[:4])
    apart = twice == asked(4, 4) + asked(8, 4) and sorted(twice[:4]) == sorted(twice[4:]) == sorted(plain[:4])
    apart &= twice[:4] != twice[4:]
    settings = [value_at(KIMI_K1_5, f"curriculum.{name}") for name in ("pool", "prompts")]
    return Finding(
        first and apart and settings == [None, 16], say(asked_twice=str(twice), pool_and_prompts=str(settings))
    )


@claim("a success rate is the mean of the last 4 groups, cut to [0, 1]", "derived")
def a_success_rate_is_the_mean_of_the_last_4_groups_cut_to_0_1() -> Finding:
    world = World(4, 2, 1, reward=lambda q, a: 0.0)
    asking: Any = KIMI_K1_5.but({"curriculum.pool": 4}).curriculum

    def asked(*history: float) -> list[str]:
        ledger = Ledger()
        for step, mean in enumerate(history, 1):
            ledger.record("lab/0", step, mean)
        return [one.id for n in range(100) for one in asking(world, 4 + 4 * n, 4, ledger, KEY)]

    solved = asked(1, 1, 1, 1)
    forgot, cut = asked(0, 0, 0, 0, 0, 0, 1, 1, 1, 1) == solved, asked(3) == solved and asked(-2) == asked()
    return Finding(forgot and cut and asked(0, 1, 1, 1) != solved, say(forgot=forgot, cut=cut))


@claim("loss and gradient are the formula's with tau 0.1, counted by hand after the warm-up; two updates of a batch")
def loss_and_gradient_are_the_formulas_with_tau_0_1_counted_by_hand() -> Finding:
    def placed(members: Sequence[CountedAnswer]) -> list[float]:
        lengths = [len(one.row["logp"]) for one in members]
        width, values = max(lengths) - min(lengths), []
        for one, length in zip(members, lengths, strict=True):
            score = 0.5 - (length - min(lengths)) / width if width else 0.0
            values.append(one.reward + 0.5 * (score if one.reward >= 0.5 else min(0.0, score)))
        return [value - fmean(values) for value in values]

    def loss(answers: Sequence[CountedAnswer]) -> tuple[Tensor, dict[str, float]]:
        drifts = torch.stack([(one.logp - one.old).sum() for one in answers])
        wanted = torch.stack([one.advantage[0] for one in answers])
        return ((wanted - 0.1 * drifts) ** 2).mean() / (2 * 0.1), {}

    gaps = [off(KIMI_K1_5, rows, loss, placed, {"progress": 0.5}) for rows in stale_rows("kimi", masked=False)]
    return below(EXACT, value_at(KIMI_K1_5, "update.epochs") == 2, off_by_hand=max(gaps))


@claim(
    "long2short DPO prefers the shortest right answer to wrong ones and to right ones 1.5 times as long",
    "arXiv 2501.12599, section 2.4",
)
def long2short_dpo_prefers_the_shortest_right_answer_to_wrong_ones() -> Finding:
    kinds = [(1.0, 4), (1.0, 5), (1.0, 6), (0.0, 2), (0.0, 9)]
    rows = [answer(verdict, length, logp_ref=[-1.0] * length) for verdict, length in kinds]
    slopes = [sum(one) for one in inspect_rows(LONG2SHORT_DPO, rows)["gradient"]]
    signs = [(slope > 0) - (slope < 0) for slope in slopes]
    return Finding(signs == [-1, 0, 1, 1, 1], say(of_verdicts_and_lengths=str(kinds), signs_of_gradients=str(signs)))


claim.spares(
    "long2short-dpo: credit.margin = 1.0", "pairs are made by verdict and length, not by how far rewards lie apart"
)

claim.shipped(KIMI_K1_5, "objective")
claim.shipped(KIMI_K1_5, "shaping", steps=2, settings={"steps": 2})
claim.shipped(LONG2SHORT_DPO, "credit")
claim.shipped(KIMI_K1_5, "curriculum", task="worked_sums?size=32", steps=3)
claim.shipped(
    KIMI_K1_5_LONG,
    "rollout",
    steps=3,
    sees=lambda run: {"resumed": run.mean("rollout/resumed"), "still open": run.mean("rollout/open")},
)
claim.shipped(KIMI_K1_5_LONG, "curriculum")
