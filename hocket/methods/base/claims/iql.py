"""IQL's claims."""

from __future__ import annotations

import torch

from hocket.lab.claims.harness import Claims, Finding, below, say
from hocket.lab.toys.drawn_rows import critics, evaluated, numbers, policy_of, reached, rows
from hocket.methods.base.bc import BC
from hocket.methods.base.iql import IQL
from hocket.types import Quantity

claim = Claims("iql", "arXiv:2110.06169")


@claim("Q backs up the value of the state that follows, and V is fitted to slow Q of recorded actions.", "eqs. 5 and 6")
def q_backs_up_v_and_v_is_fitted_to_slow_q() -> Finding:
    policy, batch = policy_of(IQL, discrete=False), rows(IQL, discrete=False)
    held, evaluation = numbers(batch), evaluated(IQL, policy, batch)[0]
    nothing = held["action"][:, :0]
    backup = held["paid"] + held["goes_on"] * critics(policy, "state_value", held["following"], nothing)[:, 0]
    best = critics(policy, "slow", held["seen"], held["action"]).min(1)
    fitted = evaluation.get(Quantity.STATE_VALUE)[:, 1].detach().double().numpy()
    targets = evaluation.get(Quantity.BACKUP).detach().double().numpy()
    return below(2e-5, backup=float(abs(targets - backup).max()), best=float(abs(fitted - best).max()))


@claim("Each loss moves its own part alone: the critics, the state's value, the actor.")
def each_loss_moves_its_own_part_alone() -> Finding:
    policy, batch = policy_of(IQL, discrete=False), rows(IQL, discrete=False)
    evaluation = policy.evaluate(batch, IQL.needs)
    moved = [reached(policy, loss(evaluation, batch).total()) for loss in IQL.losses]
    expected = [frozenset({"critics"}), frozenset({"state_value"}), frozenset({"actor"})]
    return Finding(moved == expected, "; ".join(map(str, map(sorted, moved))))


@claim("With beta = 0 the actor's loss is that of behaviour cloning.", "section 4.3")
def with_beta_zero_the_actors_loss_is_behaviour_cloning() -> Finding:
    policy, batch = policy_of(IQL, discrete=False), rows(IQL, discrete=False)
    evaluation = policy.evaluate(batch, IQL.needs)
    plain = IQL.but(**{"regularisers.1.beta": 0.0}).regularisers[1](evaluation, batch).total()
    cloned = BC.objective(evaluation, batch).total()
    with torch.no_grad():
        gap = float((plain - cloned).abs())
    return Finding(gap < 1e-6, say(off=gap))
