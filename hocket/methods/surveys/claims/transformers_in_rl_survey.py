"""Claims about transformers in RL."""

from __future__ import annotations

import numpy as np
import torch

from hocket import tasks
from hocket.apps.report import map as maps
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.core.surveys import Gap
from hocket.lab.claims.harness import Claims, Finding, say
from hocket.lab.claims.shipped_check import configured
from hocket.lab.toys.teams import trained
from hocket.methods.surveys.transformers_in_rl_survey import (
    PPO_ATTENTION,
    TRANSFORMERS_IN_RL_SURVEY,
    Attention,
)
from hocket.policies.control import ControlPolicy
from hocket.train.aio import run_async
from hocket.train.assemble import build_parts
from hocket.types import Assignment, Quantity

claim = Claims("transformers-in-rl-survey", "arXiv:2307.05979; the layer is that of arXiv:1706.03762")

TASK = "recall:corridor"


@claim("Attention is softmax(q . k / sqrt(d) + bias by age) over what is there, counted by hand.", "equation 1")
def attention_is_counted_by_hand() -> Finding:
    layer, draw, off = Attention(3, 5, 4, key=Key.of(0)).double(), Key.of(1).derive("rows").numpy(), []
    with torch.no_grad():
        layer.ages.copy_(torch.from_numpy(draw.normal(size=5)))
        query, keys, values = (net.weights[0].detach().numpy() for net in (layer.queries, layer.keys, layer.values))
        for length in (1, 3, 5):
            rows = draw.normal(size=(5, 3))
            context = layer(torch.from_numpy(rows), torch.arange(5) < length).numpy()
            scores = [(query @ rows[0]) @ (keys @ rows[k]) / 2 + float(layer.ages[k]) for k in range(length)]
            shares = np.exp(scores) / np.exp(scores).sum()
            wanted = np.tanh(sum(share * (values @ rows[k]) for k, share in enumerate(shares)))
            off.append(float(np.abs(context - wanted).max()))
    return Finding(max(off) < 1e-12, say(off=max(off)))


@claim("What acts and what learns attend to the same: log-probs of episodes longer than the window agree to 1e-5.")
def what_acts_and_what_learns_attend_to_the_same() -> Finding:
    name = "recall:corridor?length=14"  # Undecided play is cut after 28 decisions, and 16 are attended to.
    task = tasks.find(name)
    parts = build_parts(configured(PPO_ATTENTION, name, task, {}), task)
    policy = parts.lead.policy
    assert isinstance(policy, ControlPolicy)
    for weight in policy.module.parameters():
        weight.data += 0.3 * torch.from_numpy(Key.of(weight.numel()).numpy().normal(size=weight.shape)).float()
    assignments = [Assignment(task.scenario("train", number)) for number in range(16)]
    batch = pack(run_async(parts.player.play(assignments, key=Key.of(2))))
    with torch.no_grad():
        gap = float((policy.evaluate(batch, [Quantity.LOGP]).logp - batch.logp["behaviour"].values).abs().max())
    longest = int(torch.bincount(batch.turn).max())
    return Finding(gap < 1e-5 and longest > 16, say(gap=gap, longest=longest))


@claim(
    "In the corridor attention earns above 3.5 of 4 in each of 2 seeds; without memory PPO earns at most half.",
    slow=True,
)
def in_the_corridor_attention_remembers() -> Finding:
    attentive = [trained("ppo-attention", TASK, seed, 40).score for seed in range(2)]
    blind = [trained("ppo", TASK, seed, 40).score for seed in range(2)]
    return Finding(min(attentive) > 3.5 and max(blind) < 2.3, say(attention=attentive, perceptron=blind))


@claim("Every role and difficulty has a recipe, or the map says what is left out.")
def every_role_has_a_recipe_or_a_reason() -> Finding:
    problems = maps.problems(TRANSFORMERS_IN_RL_SURVEY)
    gaps = sum(isinstance(cell.holds, Gap) for axis in TRANSFORMERS_IN_RL_SURVEY.axes for cell in axis.cells)
    return Finding(not problems and gaps == 3, say(problems=len(problems), gaps=gaps))


claim.shipped(PPO_ATTENTION, "regularisers")
