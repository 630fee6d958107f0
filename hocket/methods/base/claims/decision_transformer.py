"""The decision transformer's claims."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import numpy as np
import torch

from hocket.core.stored_rows import STEP, TO_GO
from hocket.lab.claims.harness import Claims, Finding, below, say
from hocket.lab.toys.attention_by_hand import block, held, linear, normal
from hocket.lab.toys.drawn_rows import policy_of, rows
from hocket.methods.base.decision_transformer import DECISION_TRANSFORMER
from hocket.policies.wanted_returns import DecisionTransformer
from hocket.types import Quantity

claim = Claims("decision-transformer", "arXiv:2106.01345")
SMALL = DECISION_TRANSFORMER.but(**{"store.length": 3, "objective.policy.window": 3, "objective.policy.scale": 2.0})
LOGP = frozenset({Quantity.LOGP})


@claim("An action's density is that of causal attention over returns, states and actions, in float64.", "section 3")
def densities_are_those_of_attention_over_the_three_kinds_of_tokens() -> Finding:
    policy, batch = policy_of(SMALL, discrete=False), rows(SMALL, discrete=False)
    logp = policy.evaluate(batch, LOGP).logp.detach().double().numpy()
    to_go, step = TO_GO.read(batch, "the claim").double().numpy(), STEP.read(batch, "the claim").numpy()
    turn, action, sights = batch.turn.numpy(), batch.action.double().numpy(), np.concatenate(batch.observation)
    log_std = held(policy, "log_std")
    off = 0.0
    for number in range(batch.turns):
        mine = np.flatnonzero(turn == number)
        tokens = []
        for n, row in enumerate(mine):
            place = held(policy, "times")[step[row]]
            tokens.append(linear(policy, "of_return", to_go[row : row + 1] / 2) + place)
            tokens.append(linear(policy, "of_seen", sights[row].astype(float)) + place)
            if n < len(mine) - 1:
                tokens.append(linear(policy, "of_action", np.clip(action[row], -1, 1)) + place)
        x = normal(policy, "first", np.stack(tokens))
        for layer in range(2):
            x = block(policy, f"blocks.{layer}.", x)
        mean = linear(policy, "after", normal(policy, "last", x))[1::3]
        scaled = (action[mine] - mean) / np.exp(log_std)
        expected = (-0.5 * scaled**2 - log_std - 0.5 * np.log(2 * np.pi)).sum(1)
        off = max(off, float(abs(expected - logp[mine]).max()))
    return below(1e-4, off=off)


@claim("In play it reads what it was trained to read: the return still wanted falls by what is paid.", "section 3")
def what_is_played_is_what_is_learnt() -> Finding:
    policy = policy_of(SMALL, discrete=False)
    rng = np.random.default_rng(0)
    sights = rng.normal(size=(3, 1, 3)).astype(np.float32)
    pays, carried = rng.normal(size=3), np.zeros((1, policy.carries), np.float32)
    cast(DecisionTransformer, policy.module.actor).wanted.fill_(float(pays.sum()))
    actions, played = [], []
    for t in range(3):
        action, logp = policy.sample(sights[t], rng.random((1, 2)), np.ones(1, np.float32), carried=carried)
        policy.paid(pays[t : t + 1], carried)
        actions.append(action[0])
        played.append(float(logp[0]))
    batch = rows(SMALL, discrete=False, count=200)
    longest = next(n for n in range(batch.turns) if int((batch.turn == n).sum()) == 3)
    mine = torch.nonzero(batch.turn == longest).flatten()
    taken, observed = batch.action.clone(), list(batch.observation)
    taken[mine], observed[longest] = torch.from_numpy(np.stack(actions)), sights[:, 0]
    to_go, step = batch.annotations[TO_GO.name].clone(), batch.annotations[STEP.name].clone()
    to_go[mine] = torch.from_numpy(np.cumsum(pays[::-1])[::-1].astype(np.float32).copy())
    step[mine] = torch.arange(3)
    written = {**batch.annotations, TO_GO.name: to_go, STEP.name: step}
    learnt = policy.evaluate(replace(batch, action=taken, observation=observed, annotations=written), LOGP).logp[mine]
    return below(2e-5, off=float((learnt.detach() - torch.tensor(played)).abs().max()))


@claim("Where the return tells what was done, wanting another return does something else.", "section 5.4")
def wanting_another_return_does_something_else() -> Finding:
    policy, batch = policy_of(SMALL, discrete=True, width=16), rows(SMALL, discrete=True, count=16)
    batch = replace(batch, action=(TO_GO.read(batch, "the claim") > 0).long())
    step = torch.optim.Adam(policy.parts()["actor"], lr=1e-2)
    for _ in range(40):
        step.zero_grad()
        torch.autograd.backward(SMALL.objective(policy.evaluate(batch, SMALL.needs), batch).total())
        step.step()
    done = {}
    for wanted in (-3.0, 3.0):
        cast(DecisionTransformer, policy.module.actor).wanted.fill_(wanted)
        carried, sights = np.zeros((64, policy.carries), np.float32), np.zeros((64, 3), np.float32)
        sights[:] = np.random.default_rng(1).normal(size=sights.shape)
        action, _ = policy.sample(sights, np.full((64, 1), 0.5), np.zeros(64, np.float32), carried=carried)
        done[wanted] = float(np.mean(action == 1))
    return Finding(done[3.0] > done[-3.0] + 0.5, say(little=done[-3.0], much=done[3.0]))
