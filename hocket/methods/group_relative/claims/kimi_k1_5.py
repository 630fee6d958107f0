"""What kimi-k1-5 claims."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from statistics import mean

import numpy as np
import torch
from torch import Tensor

from hocket.lab.bandit import minimised
from hocket.lab.bench import Bench, Player
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.documents import random_document
from hocket.lab.microscope import look
from hocket.lab.policy import Tabular
from hocket.lab.theory import tilted
from hocket.lab.toys.regressions import KEY, REFERENCE, REWARDS
from hocket.lab.world import World, answer_of
from hocket.methods.group_relative.kimi_k1_5 import KIMI_K1_5, ByFailure
from hocket.objectives.regression import squared_residual
from hocket.train.aio import run_async
from hocket.train.ledger import Ledger
from hocket.types import Assignment

claim = Claims("kimi-k1-5", "arXiv 2501.12599, section 2.3.3")


@claim("with the true normaliser the regression's optimum is pi_i exp(r/tau)/Z", "arXiv 2501.12599, equation 2")
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


@claim("the mean-reward surrogate is off by a share of the step that falls about as 1/tau^2", "derived")
def kimi_surrogate() -> Finding:
    """Shares of the step at four temperatures, and the order at which they fall."""
    shares = [surrogate_share(tau) for tau in (0.5, 1.0, 2.0, 4.0)]
    orders = [math.log2(a / b) for a, b in itertools.pairwise(shares)]
    holds = all(1.5 < order < 2.5 for order in orders)
    told = ", ".join(f"{share:.1e}" for share in shares)
    return Finding(
        holds, f"share of the step at tau 0.5, 1, 2, 4: {told}; orders {', '.join(f'{o:.2f}' for o in orders)}"
    )


@claim("its gradient is (r - mean r) grad log pi - tau/2 grad (log pi/pi_i)^2", "arXiv 2501.12599, equation 3")
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


@claim("lengths 10, 20, 30 give 0.5, 0, -0.5, at most 0 if wrong, after the warm-up")
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


@claim(
    "with frozen weights resumed partial rollouts have the distribution of unbroken ones",
    "arXiv 2501.12599, section 2.6.2",
    slow=True,
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


@claim("on a toy task tokens fall without loss of accuracy", slow=True)
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


@claim("prompts are asked in proportion to their failure rate", "arXiv 2501.12599, section 2.3.4")
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
