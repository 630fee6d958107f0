"""IMPALA's claims."""

import math
from typing import Any

import torch

from hocket.core.components import value_at
from hocket.core.keys import Key
from hocket.credit.gae import GAE
from hocket.credit.vtrace import VTrace
from hocket.lab.claims.harness import EXACT, Claims, Finding, below, gap, inspect_rows, say
from hocket.lab.microscope import RecordedBatch
from hocket.methods.base.impala import IMPALA
from hocket.stages import Credit

claim = Claims("impala", "arXiv:1802.01561")
DISCOUNT = 0.99


def episode(rewards: list[float], values: list[float], ratios: list[float]) -> dict[str, Any]:
    """An episode of one decision per reward, the learner's probabilities being `ratios` times the sampler's."""
    now = torch.tensor(ratios, dtype=torch.float64).log() - 5
    row = {"group": "g", "scores": {}, "token_scores": {"earned": rewards}, "value": values}
    logp = now.tolist()
    return {**row, "logp": logp, "logp_proximal": logp, "logp_behaviour": [-5.0] * len(rewards)}


def credited(stage: Credit, row: dict[str, Any]) -> tuple[list[float], list[float]]:
    """Advantages and targets."""
    batch = RecordedBatch({"version": 1, "trajectories": [row]}).batch
    recipe = IMPALA.but({"credit": stage})
    seen = recipe.compute_credit(batch, recipe.init(), {})[0].occurrences
    assert seen.target is not None
    return seen.advantage.tolist(), seen.target.tolist()


REWARDS, VALUES = [1.0, 0.0, 2.0, -1.0], [0.3, 0.8, -0.2, 0.5]


@claim("On-policy the targets are n-step returns and the advantages these less V.", "section 4.1, remark 1")
def on_policy_the_targets_are_n_step_returns_and_the_advantages() -> Finding:
    advantage, target = credited(VTrace(), episode(REWARDS, VALUES, [1.0] * 4))
    returns = [sum(DISCOUNT ** (k - t) * REWARDS[k] for k in range(t, 4)) for t in range(4)]
    plain = [one - value for one, value in zip(returns, VALUES, strict=True)]
    return below(EXACT, targets_off=gap(target, returns), advantages_off=gap(advantage, plain))


@claim("An action the learner makes rarer counts less, one it makes likelier no more: weights are cut at 1.")
def an_action_the_learner_makes_rarer_counts_less_one_it_makes() -> Finding:
    advantage, target = credited(VTrace(), episode(REWARDS, VALUES, [1.0, 1.0, 1.0, 0.25]))
    last = 0.25 * (REWARDS[3] - VALUES[3])
    likelier, _ = credited(VTrace(), episode(REWARDS, VALUES, [1.0, 1.0, 1.0, 4.0]))
    plain, _ = credited(VTrace(), episode(REWARDS, VALUES, [1.0] * 4))
    return below(
        EXACT, off=abs(advantage[3] - last), target=abs(target[3] - VALUES[3] - last), cut=gap(likelier, plain)
    )


@claim("A trace is cut where the learner would hardly go: what comes after does not reach back.")
def a_trace_is_cut_where_the_learner_would_hardly_go_what_comes() -> Finding:
    far = [episode([0.0, 0.0, 0.0, late], VALUES, [1.0, 1e-12, 1.0, 1.0]) for late in (0.0, 5.0)]
    targets = [credited(VTrace(), row)[1] for row in far]
    before = gap(targets[0][:2], targets[1][:2])
    return Finding(before < 1e-9 and abs(targets[1][2] - targets[0][2]) > 4, say(reached_back=before))


@claim("Advantages, loss and all gradients are the formulas', counted by hand; cut episodes end in their value.")
def advantages_loss_and_all_gradients_are_the_formulas_counted_by() -> Finding:
    rng, gaps = Key.of(1).derive("claims", "impala").numpy(), []
    for _ in range(5):
        rows, loss, count = list[dict[str, Any]](), 0.0, 0
        for number in range(4):
            size = int(rng.integers(1, 7))
            row: dict[str, Any] = {"group": str(number), "scores": {"end": float(rng.random())}}
            row |= {name: (-rng.random(size) - 0.1).tolist() for name in ("logp", "logp_proximal", "logp_behaviour")}
            row |= {name: rng.normal(size=size).tolist() for name in ("value", "entropy")}
            row |= {"token_scores": {"earned": rng.normal(size=size).tolist()}, "truncated": number == 0}
            rows.append({**row, "final_value": 0.7})
            count += size
        made = inspect_rows(IMPALA.but({"combine.weights": {"end": 1.0, "earned": 1.0}}), rows)
        for row, credit, slope, of_v, of_h in zip(
            rows,
            *(made[name] for name in ("advantages", "gradient", "gradient_value", "gradient_entropy")),
            strict=True,
        ):
            rewards, values = [*row["token_scores"]["earned"]], [*row["value"], 0.7 * row["truncated"]]
            rewards[-1] += row["scores"]["end"]
            target, wanted = values[-1], list[float]()
            for t in reversed(range(len(rewards))):
                weight = min(1.0, math.exp(row["logp_proximal"][t] - row["logp_behaviour"][t]))
                advantage = weight * (rewards[t] + 0.99 * target - values[t])
                step = weight * (rewards[t] + 0.99 * values[t + 1] - values[t])
                target = values[t] + step + 0.99 * weight * (target - values[t + 1])
                wanted.insert(0, advantage)
                loss += (
                    0.5 * (values[t] - target) ** 2 - advantage * row["logp"][t] - 0.01 * row["entropy"][t]
                ) / count
                gaps += [abs(of_v[t] - (values[t] - target) / count), abs(of_h[t] + 0.01 / count)]
            gaps += [gap(credit, wanted), gap(slope, [-one / count for one in wanted])]
        gaps.append(abs(made["loss"] - loss))
    return below(EXACT, value_at(IMPALA, "update.epochs") == 1, off_by_hand=max(gaps))


@claim("The fixed point is the value of the policy cut at rho: of the learner's own where no ratio reaches rho.")
def the_fixed_point_is_the_value_of_the_policy_cut_at_rho_of_the() -> Finding:
    rng, off = Key.of(0).derive("claims", "impala").numpy(), {"cut": 0.0, "uncut": 0.0}
    for _ in range(20):
        mu, pi = (torch.softmax(torch.from_numpy(rng.normal(size=4)), 0) for _ in range(2))
        reward = torch.from_numpy(rng.normal(size=4))
        for name, rho in (("cut", 1.0), ("uncut", 1e6)):
            weight = torch.minimum(pi / mu, torch.tensor(rho, dtype=torch.float64)) * mu
            value = float((weight * reward).sum() / weight.sum())
            stage = VTrace(rho=rho, c=min(rho, 1.0))
            drawn = [
                credited(stage, episode([float(reward[a])], [value], [float(pi[a] / mu[a])]))[1][0] for a in range(4)
            ]
            off[name] = max(off[name], abs(float((mu * torch.tensor(drawn, dtype=torch.float64)).sum()) - value))
            if name == "uncut":
                off[name] = max(off[name], abs(value - float((pi * reward).sum())))
    return below(1e-9, **off)


@claim("GAE on the same stale experience credits as if the sampler were the learner.", "derived")
def gae_on_the_same_stale_experience_credits_as_if_the_sampler_were() -> Finding:
    row = episode(REWARDS, VALUES, [0.5, 2.0, 0.1, 1.0])
    ours, plain = (credited(one, row)[0] for one in (VTrace(), GAE(gamma=DISCOUNT, lam=1.0, whiten=False)))
    return Finding(gap(ours, plain) > 0.5, say(largest_difference=gap(ours, plain)))


claim.spares("impala: objective.horizon = 5120", "no length divides a mean over tokens")
claim.spares("impala: regularisers.0.horizon = 5120", "no length divides a mean over tokens")
claim.spares("impala: regularisers.1.horizon = 5120", "no length divides a mean over tokens")
