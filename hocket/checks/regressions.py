"""Rows that fit log-ratios to advantages: gvpo, kimi-k1-5, deepvideo-r1."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from statistics import mean

import numpy as np
import torch
from torch import Tensor

from hocket.checks.check import Check, Finding
from hocket.curriculum import ByFailure
from hocket.keys import Key
from hocket.lab import Bench, Tabular, World
from hocket.lab.bandit import Bandit, descended, flat, minimised, total_variation
from hocket.lab.bench import Player
from hocket.lab.documents import random_document
from hocket.lab.theory import tilted
from hocket.lab.world import answer_of
from hocket.microscope import look
from hocket.objectives.regression import squared_residual
from hocket.recipes.group_relative import DR_GRPO, GRPO
from hocket.recipes.objectives import DEEPVIDEO_R1, GVPO, KIMI_K1_5
from hocket.rollout import Independent
from hocket.train.aio import run_async
from hocket.train.ledger import Ledger
from hocket.types import Assignment

KEY = Key.of(0).derive("checks", "regressions")

REWARDS = (1.0, 0.0, 0.5, 0.2, 0.9)


def softmax(*logits: float) -> Tensor:
    """Log-probs."""
    return torch.log_softmax(torch.tensor(logits, dtype=torch.float64), 0)


REFERENCE = softmax(0.3, 1.2, -0.4, 0.0, -1.0)
STALE = softmax(-1.5, 0.2, 0.9, 1.4, -0.8)


def copies_of(distribution: Tensor, number: int = 50) -> list[int]:
    """How often each answer occurs among about `number` samples that have its share, at least once."""
    return [max(1, round(float(share) * number)) for share in distribution]


# ---------------------------------------------------------------- gvpo


def gvpo_gradient() -> Finding:
    """The recipe's gradient against the weights formula, and both against autograd of the squared error, apart."""
    worst = 0.0
    for number in range(20):
        document = random_document(KEY.derive("gvpo", number), graded=True)
        rows, beta = document["trajectories"], 0.1
        drift = torch.tensor(
            [sum(row["logp"]) - sum(row["logp_ref"]) for row in rows], dtype=torch.float64, requires_grad=True
        )
        reward = torch.tensor([row["scores"]["reward"] for row in rows], dtype=torch.float64)
        names = [row["group"] for row in rows]
        square, wanted = torch.zeros((), dtype=torch.float64), torch.zeros(len(rows), dtype=torch.float64)
        for name in sorted(set(names)):
            own = torch.tensor([n == name for n in names])
            implied, centred = beta * (drift[own] - drift[own].mean()), reward[own] - reward[own].mean()
            share = 1 / (len(set(names)) * (int(own.sum()) - 1))
            square = square + 0.5 * share * (centred - implied).square().sum()
            wanted[own] = -beta * share * (centred - implied).detach()
        (auto,) = torch.autograd.grad(square, drift)
        found = torch.tensor([row[0] for row in look(GVPO, document)["gradient"]], dtype=torch.float64)
        worst = max(worst, float((auto - wanted).abs().max()), float((found - wanted).abs().max()))
    return Finding(worst < 1e-12, f"largest difference on 20 batches: {worst:.1e}")


def gvpo_minimiser() -> Finding:
    """Fixed samples of three distributions, gradient descent to the end; GRPO with the same leash beside it."""
    beta = 0.5
    optimum = tilted(REFERENCE.exp(), torch.tensor(REWARDS, dtype=torch.float64), beta)
    gvpo = GVPO.but({"objective.temperature": beta})
    grpo = DR_GRPO.but(
        {"regularisers": [{"type": "hocket.objectives.KLToReference", "coefficient": beta}], "objective.horizon": 1}
    )
    apart, drifted = {}, {}
    for name, old in (("on-policy", REFERENCE), ("uniform", softmax(0, 0, 0, 0, 0)), ("stale", STALE)):
        bandit = Bandit(REWARDS, old, REFERENCE, copies_of(old.exp()))
        apart[name] = total_variation(bandit.minimise(gvpo), optimum)
        batch = bandit.batch(grpo)
        ended = descended(lambda logits, b=bandit, c=batch: b.loss(grpo, logits, c), REFERENCE, lr=1.0, steps=150)
        drifted[name] = total_variation(ended, optimum)
    holds = max(apart.values()) < 1e-4 and drifted["uniform"] > 0.02 and drifted["stale"] > 0.02
    told = ", ".join(f"{name} {apart[name]:.0e} (GRPO {drifted[name]:.2f})" for name in apart)
    return Finding(holds, f"total variation to the optimum: {told}")


# ---------------------------------------------------------------- kimi k1.5


def kimi_with_true_normaliser() -> Finding:
    """The squared residual with tau log Z subtracted, minimised over a softmax."""
    reward = torch.tensor(REWARDS, dtype=torch.float64)
    worst = 0.0
    for tau in (0.5, 1.0, 4.0):
        optimum = tilted(REFERENCE.exp(), reward, tau)
        log_z = tau * torch.logsumexp(REFERENCE + reward / tau, 0)

        def loss(logits: Tensor, tau: float = tau, log_z: Tensor = log_z) -> Tensor:
            drift = torch.log_softmax(logits, 0) - REFERENCE
            return (REFERENCE.exp() * squared_residual(reward - log_z, drift, tau)).sum()

        worst = max(worst, float((minimised(loss, torch.zeros(5, dtype=torch.float64)) - optimum).abs().max()))
    return Finding(worst < 1e-6, f"largest difference of probabilities at tau 0.5, 1, 4: {worst:.1e}")


def surrogate_share(tau: float) -> float:
    """How far the mean-reward surrogate's log-policy lies from the optimum, as a share of the step from the anchor."""
    reward = torch.tensor(REWARDS, dtype=torch.float64)
    mean = (REFERENCE.exp() * reward).sum()

    def loss(logits: Tensor) -> Tensor:
        drift = torch.log_softmax(logits, 0) - REFERENCE
        return (REFERENCE.exp() * squared_residual(reward - mean, drift, tau)).sum()

    optimum = tilted(REFERENCE.exp(), reward, tau).log()
    found = minimised(loss, REFERENCE).log()
    return float((found - optimum).norm() / (optimum - REFERENCE).norm())


def kimi_surrogate() -> Finding:
    """Shares of the step at four temperatures, and the order at which they fall."""
    shares = [surrogate_share(tau) for tau in (0.5, 1.0, 2.0, 4.0)]
    orders = [math.log2(a / b) for a, b in itertools.pairwise(shares)]
    holds = all(1.5 < order < 2.5 for order in orders)
    told = ", ".join(f"{share:.1e}" for share in shares)
    return Finding(
        holds, f"share of the step at tau 0.5, 1, 2, 4: {told}; orders {', '.join(f'{o:.2f}' for o in orders)}"
    )


def kimi_gradient() -> Finding:
    """The recipe against (R - mean R) grad log pi - tau/2 grad (log pi/pi_old)^2, written out."""
    recipe, worst = KIMI_K1_5.but({"shaping": []}), 0.0
    for number in range(20):
        document = random_document(KEY.derive("kimi", number), graded=True)
        rows, tau = document["trajectories"], recipe.objective.temperature  # type: ignore[attr-defined]
        found = [row[0] for row in look(recipe, document)["gradient"]]
        for place, row in enumerate(rows):
            group = [other["scores"]["reward"] for other in rows if other["group"] == row["group"]]
            drift = sum(row["logp"]) - sum(row["logp_proximal"])
            wanted = -(row["scores"]["reward"] - sum(group) / len(group) - tau * drift) / len(rows)
            worst = max(worst, abs(found[place] - wanted))
    return Finding(worst < 1e-12, f"largest difference on 20 batches: {worst:.1e}")


def lengths_document(lengths: Sequence[int], rewards: Sequence[float]) -> dict[str, object]:
    """One group of answers of these lengths and rewards."""
    rows = [
        {"group": "g", "scores": {"reward": reward}, "logp": [-1.0] * length}
        for length, reward in zip(lengths, rewards, strict=True)
    ]
    return {"version": 1, "trajectories": rows, "state": {"progress": 0.5}}


def kimi_length() -> Finding:
    """The advantages of the whole recipe, weight 1, tell the rewards apart from the group's mean."""
    recipe = KIMI_K1_5.but({"shaping.0.weight": 1.0})

    def shaped(rewards: Sequence[float], lengths: Sequence[int] = (10, 20, 30)) -> list[float]:
        found = [row[0] for row in look(recipe, lengths_document(lengths, rewards))["advantages"]]
        own = [reward - sum(rewards) / len(rewards) for reward in rewards]
        return [round(value - base, 12) for value, base in zip(found, own, strict=True)]

    right, wrong, equal = shaped((1, 1, 1)), shaped((0, 0, 0)), shaped((1, 0, 1), (7, 7, 7))
    # Centred: (0.5, 0, -0.5) has mean 0, (0, 0, -0.5) has mean -1/6.
    wanted = [round(value + 1 / 6, 12) for value in (0.0, 0.0, -0.5)]
    early = look(recipe, {**lengths_document((10, 20, 30), (1, 1, 1)), "state": {"progress": 0.1}})["advantages"]
    holds = right == [0.5, 0.0, -0.5] and wrong == wanted and not any(equal) and not any(map(any, early))
    return Finding(
        holds, f"right answers of 10, 20, 30 get {right}, wrong ones min(0, c), equal lengths 0, none in the warm-up"
    )


def kimi_resumed() -> Finding:
    """With frozen weights, answers cut after each token and resumed are distributed as unbroken ones."""
    world = World(questions=1, tokens=3, horizon=3, end=2, reward=lambda question, answer: 0.0)
    policy = Tabular(world)
    with torch.no_grad():
        policy.logits.copy_(torch.from_numpy(KEY.derive("resume").numpy().normal(size=tuple(policy.logits.shape))))
    player, scenario, samples = Player(world, {"policy": policy}), world.scenario("train", 0), 4_000

    def play(assignment: Assignment, purpose: str) -> list[tuple[tuple[int, ...], list[float]]]:
        played = run_async(player.play([assignment], key=KEY.derive(purpose)))
        return [
            (answer_of(t), [float(v) for turn in t.turns for v in (() if turn.logp is None else turn.logp)])
            for t in played
        ]

    answers = list(world.answers())
    exact = policy.logp(0).exp().detach().numpy()
    finished: dict[tuple[int, ...], int] = dict.fromkeys(answers, 0)
    pending: dict[tuple[int, ...], int] = {(): samples}
    worst = 0.0
    for budget in (1, 2, 3):
        following: dict[tuple[int, ...], int] = {}
        for prefix, number in pending.items():
            asked = Assignment(scenario, number, prefix=prefix, budget=budget)
            for tokens, logp in play(asked, f"round {budget} {prefix}"):
                if world.finished(tokens):
                    finished[tokens] += 1
                    worst = max(worst, abs(sum(logp) - float(policy.logp(0, [tokens])[0].detach())))
                else:
                    following[tokens] = following.get(tokens, 0) + 1
        pending = following
    found = np.array([finished[answer] for answer in answers]) / samples
    chi = float((samples * (found - exact) ** 2 / exact).sum())
    # Chi-squared with K - 1 degrees of freedom: mean K - 1, deviation sqrt(2 (K - 1)).
    limit = len(answers) - 1 + 5 * math.sqrt(2 * (len(answers) - 1))
    holds = chi < limit and worst < 1e-5 and sum(finished.values()) == samples
    return Finding(
        holds,
        f"chi-squared {chi:.1f} of {len(answers) - 1} degrees of freedom over {samples} answers; log-probs chain "
        f"to {worst:.0e}",
    )


SPOKEN = World(
    # Any answer may be padded with token 0; it is right when its last word before the end is the question's.
    questions=2,
    tokens=4,
    horizon=5,
    end=3,
    context="last",
    reward=lambda question, answer: float(len(answer) > 1 and answer[-1] == 3 and answer[-2] == question + 1),
)


def kimi_shortens() -> Finding:
    """With and without the length reward; padding costs nothing else."""
    lengths: dict[str, list[float]] = {}
    rights: dict[str, list[float]] = {}
    for name, weight in (("with", 0.5), ("without", 0.0)):
        recipe = KIMI_K1_5.but({"shaping.0.weight": weight})
        for seed in range(5):
            bench = Bench(SPOKEN, recipe, seed=seed, lr=0.1, steps=60).run(60, every=60)
            lengths.setdefault(name, []).append(bench.readings[-1].length)
            rights.setdefault(name, []).append(bench.success())
    holds = max(lengths["with"]) < min(lengths["without"]) and mean(rights["with"]) > mean(rights["without"]) - 0.03
    return Finding(
        holds,
        f"5 seeds, mean length {mean(lengths['with']):.2f} against {mean(lengths['without']):.2f} without the "
        "length reward, "
        f"success {mean(rights['with']):.2f} against {mean(rights['without']):.2f}",
    )


def kimi_asks_failures() -> Finding:
    """A ledger of two solved and two failed scenarios: how often each is asked, against its share of 1 - s."""
    ledger, world, curriculum = Ledger(), World(4, 2, 1, reward=lambda q, a: 0.0), ByFailure(prompts=1, pool=4)
    for number, rate in enumerate((1.0, 0.9, 0.5, 0.0)):
        ledger.record(f"lab/{number}", 1, rate)
    asked = [curriculum(world, 4 + n, 1, ledger, KEY)[0].id for n in range(2000)]
    found = [asked.count(f"lab/{number}") / len(asked) for number in range(4)]
    weight = [0.05 + 1 - rate for rate in (1.0, 0.9, 0.5, 0.0)]
    wanted = [value / sum(weight) for value in weight]
    worst = max(abs(a - b) / math.sqrt(b * (1 - b) / len(asked)) for a, b in zip(found, wanted, strict=True))
    return Finding(worst < 4.5, f"asked {found}, expected {[round(w, 3) for w in wanted]}: {worst:.1f} standard errors")


# ---------------------------------------------------------------- deepvideo-r1


def regressive_gradient() -> Finding:
    """At the old policy, against GRPO unclipped with one term per answer; factors -2/s times."""
    grpo = GRPO.but({"objective.aggregate": "sequence-sum"})
    worst = 0.0
    for number in range(5):
        document = random_document(KEY.derive("regressive", number), gap=0.0, graded=True)
        for scale in (0.5, 1.0, 2.0):
            recipe = DEEPVIDEO_R1.but({"objective.temperature": 1 / scale})
            difference = flat(look(recipe, document)) - 2 / scale * flat(look(grpo, document))
            worst = max(worst, float(difference.abs().max()))
    return Finding(worst < 1e-12, f"equal to 2/s times GRPO's to {worst:.1e}, s = 0.5, 1, 2")


def regressive_minimiser() -> Finding:
    """L-BFGS on the recipe over five answers sampled once each."""
    worst = 0.0
    for scale in (0.5, 1.0, 2.0):
        bandit = Bandit(REWARDS, STALE, REFERENCE, [1, 1, 1, 1, 1])
        recipe = DEEPVIDEO_R1.but({"objective.temperature": 1 / scale})
        advantage = bandit.batch(recipe).occurrences.advantage
        optimum = tilted(STALE.exp(), advantage * scale, 1.0)
        worst = max(worst, total_variation(bandit.minimise(recipe), optimum))
    return Finding(worst < 1e-6, f"total variation to pi_old exp(s A)/Z, s = 0.5, 1, 2: {worst:.1e}")


def regressive_restores() -> Finding:
    """Log-ratios far beyond the clip: what is left of each gradient."""
    rows = []
    for number, reward in enumerate((1.0, 0.0)):
        step = 2.0 if reward else -2.0
        rows += [
            {
                "id": f"{number}",
                "group": "g",
                "scores": {"reward": reward},
                "logp": [-3.0 + step],
                "logp_behaviour": [-3.0],
            }
        ]
    document = {"version": 1, "trajectories": rows}
    clipped, fitted = flat(look(GRPO, document)), flat(look(DEEPVIDEO_R1, document))
    # The overshot right answer is pushed down again, the overshot wrong one up.
    holds = not clipped.any() and bool(fitted[0] > 0) and bool(fitted[1] < 0)
    return Finding(holds, f"clipped GRPO {clipped.tolist()}, regression {[round(v, 3) for v in fitted.tolist()]}")


UNEVEN = World(
    # Two questions ask for one exact answer, two are content with nearly any.
    questions=4,
    tokens=6,
    horizon=3,
    context="last",
    reward=lambda question, answer: float(answer == (4, 2, 5) if question < 2 else answer != (0, 0, 0)),
    metadata=lambda question: {"solution": (4, 2, 5)} if question < 2 else {},
)


def easy(policy: Tabular) -> None:
    """Sure of itself where that is good enough, so that neither kind of question tells samples apart."""
    for question in (2, 3):
        for row in {row for answer in UNEVEN.answers() for row in policy.path(question, answer)}:
            policy.logits[row, 1] += 4.0
            policy.logits[row, 0] += 2.5


def augmentation_helps() -> Finding:
    """Groups whose samples are not told apart, with and without hints and heat, while hardly anything is learnt."""
    shares: dict[str, list[float]] = {}
    for name, rollout in (("with", DEEPVIDEO_R1.rollout), ("without", Independent(samples=8))):
        for seed in range(5):
            bench = Bench(UNEVEN, DEEPVIDEO_R1.but({"rollout": rollout}), seed=seed, lr=1e-4, steps=20, start=easy)
            bench.run(20, every=20)
            equal = [1 - m["groups/with_signal"] / m["groups/total"] for m in bench.history]
            shares.setdefault(name, []).append(mean(equal))
    holds = max(shares["with"]) < min(shares["without"]) - 0.1
    return Finding(
        holds,
        f"share of groups of one reward {mean(shares['with']):.2f} against {mean(shares['without']):.2f}, 5 seeds",
    )


CHECKS: tuple[Check, ...] = (
    Check(
        "gvpo",
        "its gradient is that of 0.5/(k-1) sum (centred R - beta centred d)^2",
        gvpo_gradient,
        "arXiv 2504.19599, section 3",
    ),
    Check(
        "gvpo",
        "it converges to pi_ref exp(R/beta)/Z from on-policy, uniform and stale samples, GRPO does not from the "
        "last two",
        gvpo_minimiser,
        "arXiv 2504.19599, theorem 3.1",
        slow=True,
    ),
    Check(
        "kimi-k1-5",
        "with the true normaliser the regression's optimum is pi_i exp(r/tau)/Z",
        kimi_with_true_normaliser,
        "arXiv 2501.12599, equation 2",
    ),
    Check(
        "kimi-k1-5",
        "the mean-reward surrogate is off by a share of the step that falls about as 1/tau^2",
        kimi_surrogate,
        "derived",
    ),
    Check(
        "kimi-k1-5",
        "its gradient is (r - mean r) grad log pi - tau/2 grad (log pi/pi_i)^2",
        kimi_gradient,
        "arXiv 2501.12599, equation 3",
    ),
    Check(
        "kimi-k1-5",
        "lengths 10, 20, 30 give 0.5, 0, -0.5, at most 0 if wrong, after the warm-up",
        kimi_length,
        "arXiv 2501.12599, section 2.3.3",
    ),
    Check(
        "kimi-k1-5",
        "with frozen weights resumed partial rollouts have the distribution of unbroken ones",
        kimi_resumed,
        "arXiv 2501.12599, section 2.6.2",
        slow=True,
    ),
    Check(
        "deepvideo-r1",
        "at the old policy the gradient is proportional to the unclipped GRPO gradient",
        regressive_gradient,
        "arXiv 2506.07464, section 4",
    ),
    Check("deepvideo-r1", "its minimiser is pi_old exp(s A)/Z", regressive_minimiser, "derived"),
    Check(
        "deepvideo-r1",
        "a too large step leaves a restoring gradient where clipped GRPO gives zero",
        regressive_restores,
        "arXiv 2506.07464",
    ),
    Check(
        "deepvideo-r1",
        "hints and perturbation lower the share of groups of one reward",
        augmentation_helps,
        "arXiv 2506.07464, section 4",
        slow=True,
    ),
    Check(
        "kimi-k1-5",
        "prompts are asked in proportion to their failure rate",
        kimi_asks_failures,
        "arXiv 2501.12599, section 2.3.4",
    ),
    Check(
        "kimi-k1-5",
        "on a toy task tokens fall without loss of accuracy",
        kimi_shortens,
        "arXiv 2501.12599, section 2.3.3",
        slow=True,
    ),
)
