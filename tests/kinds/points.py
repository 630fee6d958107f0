"""A kind of decider of one's own: a sampler of points in the plane whose decisions are denoising steps.

hocket train --task tests/kinds/points.py:Points
"""

import copy
from dataclasses import dataclass

import numpy as np
import torch
from safetensors.torch import load_file, save_file

from hocket.core.batch import Level
from hocket.core.keys import uniforms
from hocket.policies.control_heads import DiagonalGaussian
from hocket.policies.control_networks import Perceptron
from hocket.stages import Reward
from hocket.train.kinds.network import Network
from hocket.types import Evaluation, Quantity, Scenario, Trajectory, Turn

STEPS = 5
"""Denoising steps of a sample."""

SPREAD = torch.tensor([0.5, 0.4, 0.3, 0.2, 0.1])
"""Standard deviation of each."""


class Denoiser:
    """Where the next point lies, given the point, the time and the direction that is asked for."""

    granularity = Level.DECISION
    default_lr = 1e-2

    def __init__(self, name, key):
        self.name, self.version = name, 0
        self.module = Perceptron((5, 32, 2), last_gain=0.01, key=key)

    def head(self, seen):
        """The normal distribution of the next point `[B, 2]`, for observations `[B, 5]`: point, time, direction."""
        spread = SPREAD[seen[:, 2].long()][:, None].log().expand(-1, 2)
        return DiagonalGaussian(seen[:, :2] + self.module(seen), spread)

    def require(self, needs):
        assert Quantity.VALUE not in needs

    def chunks(self, batch, decisions):
        return [decisions] if len(decisions) else []

    def evaluate(self, batch, needs, decisions=None, *, reference=None):
        chosen = torch.arange(batch.decisions) if decisions is None else decisions
        seen = torch.from_numpy(np.concatenate(batch.observation))[chosen]
        head = self.head(seen).tempered(batch.temperature[batch.turn[chosen]].float())

        def scattered(values):
            return torch.zeros(batch.decisions).index_put((chosen,), values)

        return Evaluation(scattered(head.logp(batch.action[chosen])), entropy=scattered(head.entropy()))

    def final_values(self, batch):
        return torch.zeros(batch.trajectories)

    def frozen_copy(self):
        other = copy.copy(self)
        other.module = copy.deepcopy(self.module).requires_grad_(False)
        return other

    def save(self, folder):
        save_file(dict(self.module.state_dict()), folder / "model.safetensors")

    def load(self, folder):
        self.module.load_state_dict(load_file(folder / "model.safetensors"))


@dataclass
class Player:
    """Draws points side by side: noise first, then one decision per denoising step."""

    policy: Denoiser

    async def play(self, assignments, *, key):
        asked = [(one, number) for one in assignments for number in range(one.first, one.first + one.samples)]
        words = np.array([key.derive(one.scenario.id, one.source, number).word for one, number in asked], np.uint64)
        draws = uniforms(words[:, None], np.arange(2 * (STEPS + 1), dtype=np.uint64)[None])
        draws = torch.from_numpy(draws).reshape(len(asked), STEPS + 1, 2)
        direction = torch.tensor([one.scenario.metadata["direction"] for one, _ in asked])
        temperature = torch.tensor([one.decoding.temperature for one, _ in asked])
        point = torch.special.ndtri(draws[:, 0]).float()
        seen, actions, logps = [], [], []
        with torch.inference_mode():
            for time in range(STEPS):
                seen.append(torch.cat([point, torch.full((len(asked), 1), float(time)), direction], 1))
                head = self.policy.head(seen[-1]).tempered(torch.where(temperature > 0, temperature, 1.0))
                point = torch.where(temperature[:, None] > 0, head.draw(draws[:, time + 1]), head.mode())
                actions.append(point)
                logps.append(head.logp(point))
        columns = [torch.stack(column, 1).numpy() for column in (seen, actions, logps)]
        return [self.trajectory(*pair, *row) for pair, *row in zip(asked, *columns, strict=True)]

    def trajectory(self, asked, number, seen, actions, logps):
        version = np.full(STEPS, self.policy.version)
        turn = Turn("sampler", self.policy.name, seen, actions, logp=logps, version=version, decoding=asked.decoding)
        return Trajectory(asked.scenario, [turn], sample=number, final_state=actions[-1], source=asked.source)


class Diffusion(Network):
    """Points by denoising."""

    name = "diffusion"

    def policy(self, task, name, key):
        return Denoiser(name, key)

    def player(self, task, policy):
        return Player(policy)


DIFFUSION = Diffusion()


class Near(Reward):
    """How near a point came to the unit circle in the direction asked for, in (0, 1]."""

    name, weight = "near", 1.0

    async def __call__(self, trajectories, *, key):
        return [near(one) for one in trajectories]


def near(trajectory):
    gap = trajectory.final_state - np.array(trajectory.scenario.metadata["direction"])
    return float(np.exp(-np.square(gap).sum()))


class Points:
    """Scenario n asks for a point in a direction of its own."""

    name, kind, rewards = "points", DIFFUSION, (Near(),)

    def size(self, split):
        return None

    def scenario(self, split, number):
        angle = 2.4 * number + (0.5 if split == "eval" else 0.0)
        return Scenario(f"{split}/{number}", metadata={"direction": [float(np.cos(angle)), float(np.sin(angle))]})

    def suggest(self, recipe):
        return {"steps": 40, "curriculum.prompts": 16, "rollout.samples": 16}

    def describe(self, trajectory):
        return {}

    def success(self, trajectory):
        return near(trajectory)


class ByName(Points):
    """The same, its kind named instead of given."""

    kind = f"{__file__}:DIFFUSION"
