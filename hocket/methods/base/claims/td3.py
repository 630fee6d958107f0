"""TD3's claims."""

from __future__ import annotations

import numpy as np

from hocket.core.keys import Key
from hocket.lab.claims.harness import Claims, Finding, below, say
from hocket.lab.toys.drawn_rows import critics, evaluated, numbers, perceptron, policy_of, reached, rows
from hocket.lab.toys.measured_runs import returns
from hocket.methods.base.td3 import TD3
from hocket.train.learner import Learner

claim = Claims("td3", "arXiv:1802.09477")
CLOSE = 2e-5


@claim("Its losses are those of the paper, computed from the weights in float64.", "algorithm 1")
def its_losses_are_those_of_the_paper_computed_from_the_weights() -> Finding:
    off = {"critics": 0.0, "actor": 0.0}
    for seed in range(5):
        policy, batch = policy_of(TD3, discrete=False, seed=seed), rows(TD3, discrete=False, seed=seed)
        held = numbers(batch)
        later = np.tanh(perceptron(policy, "slow_actor.body", held["following"]))
        later = np.clip(later + np.clip(0.2 * held["noise"][:, 1], -0.5, 0.5), -1, 1)
        target = held["paid"] + held["goes_on"] * critics(policy, "slow", held["following"], later).min(1)
        values = critics(policy, "critics", held["seen"], held["action"])
        action = np.tanh(perceptron(policy, "actor.body", held["seen"]))
        lead = -critics(policy, "critics", held["seen"], action)[:, 0].mean()
        _, losses = evaluated(TD3, policy, batch)
        off["critics"] = max(
            off["critics"], abs(losses["CriticLoss"] - ((values - target[:, None]) ** 2).sum(1).mean())
        )
        off["actor"] = max(off["actor"], abs(losses["PathwiseLoss"] - lead))
    return below(CLOSE, **off)


@claim("The critics' loss moves the critics alone, the actor's the actor, and neither a slow copy.")
def each_loss_moves_its_own_part_alone() -> Finding:
    policy, batch = policy_of(TD3, discrete=False), rows(TD3, discrete=False)
    evaluation = policy.evaluate(batch, TD3.needs)
    moved = [reached(policy, loss(evaluation, batch).total()) for loss in TD3.losses]
    return Finding(moved == [frozenset({"critics"}), frozenset({"actor"})], "; ".join(map(str, map(sorted, moved))))


@claim("Actor and slow copies move with every second gradient.", "section 5.2")
def actor_and_slow_copies_move_with_every_second_gradient() -> Finding:
    learner = Learner(policy_of(TD3, discrete=False), TD3, total_steps=1)
    batch, moves = rows(TD3, discrete=False), []
    for number in range(4):
        before = _weights(learner)
        learner.learn_drawn(learner.credit_drawn(batch, 1), Key.of(number), 1, 1)
        moves.append({name for name, weights in _weights(learner).items() if weights != before[name]})
    expected = [{"critics"}, {"actor", "critics", "slow", "slow_actor"}] * 2
    return Finding(moves == expected, "; ".join(", ".join(sorted(part)) for part in moves))


def _weights(learner: Learner) -> dict[str, list[list[float]]]:
    parts = learner.policy.parts()  # type: ignore[attr-defined]
    return {name: [weight.detach().flatten().tolist() for weight in part] for name, part in parts.items()}


@claim("On Pendulum it comes from -1,200 to at least -300 within 10,000 decisions, in 2 of 3 seeds.", slow=True)
def on_pendulum_it_learns_within_10000_decisions() -> Finding:
    earned = [returns(TD3, "gym:Pendulum-v1", seed, 50)[1] for seed in range(3)]
    return Finding(sorted(earned)[1] > -300, say(returns=[round(each) for each in earned]))


claim.shipped(TD3)
