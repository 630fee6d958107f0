"""Equivariant robot learning: a tutorial survey, and its property for every turn of the plane (arXiv:2503.09829).

All of it rests on one property, `pi(g s) = g pi(s)` for every g of a group, and `V(g s) = V(s)`. The survey leads from
Lie groups over steerable features to imitation, RL and geometric control on SE(3).

`TurningPolicy` has the property for all turns of the plane, SO(2), by construction: what it reads and gives are
vectors of the plane, written as complex numbers; a layer mixes them by complex weights without a bias, and scales each
by a number that depends on lengths alone. So a turn `z -> exp(i t) z` passes through every layer. `point_mass` is a
task that looks the same however it is turned. Three dimensions need steerable features of higher order and are not
here.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from hocket.core.keys import Key
from hocket.core.surveys import Axis, Cell, FieldSurvey, Gap, is_a, mentions, row


class TurningPolicy(nn.Module):
    """Vectors of the plane `[B, I, 2]` to `[B, O, 2]` with `f(R x) = R f(x)` for every turn R.

    Args:
        sizes: vectors of the input, of each hidden layer and of the output.
    """

    def __init__(self, sizes: Sequence[int], *, key: Key) -> None:
        super().__init__()
        draw = key.torch()
        self.mixes, self.gates = nn.ParameterList(), nn.ModuleList()
        for inputs, outputs in itertools.pairwise(sizes):
            weight = torch.randn(outputs, inputs, 2, generator=draw, dtype=torch.float64) / math.sqrt(2 * inputs)
            self.mixes.append(nn.Parameter(weight))
        for units in sizes[1:-1]:
            gate = nn.utils.skip_init(nn.Linear, units, units, dtype=torch.float64)  # type: ignore[no-untyped-call]
            with torch.no_grad():
                gate.weight.copy_(torch.randn(units, units, generator=draw, dtype=torch.float64) / math.sqrt(units))
                gate.bias.zero_()
            self.gates.append(gate)

    def forward(self, x: Tensor) -> Tensor:
        vectors = torch.view_as_complex(x.contiguous())
        for number, weight in enumerate(self.mixes):
            vectors = vectors @ torch.view_as_complex(weight).T
            if number < len(self.gates):
                vectors = vectors * torch.tanh(self.gates[number](vectors.abs())) * 2
        return torch.view_as_real(vectors)


class PlainPolicy(nn.Module):
    """The same reading and giving by a perceptron with tanh, which no turn passes through."""

    def __init__(self, sizes: Sequence[int], *, key: Key) -> None:
        super().__init__()
        draw, layers = key.torch(), list[nn.Module]()
        for inputs, outputs in itertools.pairwise(sizes):
            layer = nn.utils.skip_init(nn.Linear, 2 * inputs, 2 * outputs, dtype=torch.float64)  # type: ignore[no-untyped-call]
            with torch.no_grad():
                layer.weight.copy_(
                    torch.randn(2 * outputs, 2 * inputs, generator=draw).double() / math.sqrt(2 * inputs)
                )
                layer.bias.zero_()
            layers += [layer, nn.Tanh()]
        self.layers = nn.Sequential(*layers[:-1])

    def forward(self, x: Tensor) -> Tensor:
        moves: Tensor = self.layers(x.flatten(1))
        return moves.reshape(len(x), -1, 2)


def turn(angle: Tensor) -> Tensor:
    """Turns of the plane by angles `[B]`, `[B, 2, 2]`."""
    return torch.stack([torch.stack([angle.cos(), -angle.sin()], -1), torch.stack([angle.sin(), angle.cos()], -1)], -2)


def starts(count: int, octants: int, key: Key) -> Tensor:
    """Positions and velocities `[B, 2, 2]`: positions at 0.5 to 1.5 in the first `octants` of 8, velocities small."""
    draw = key.numpy()
    angle = torch.from_numpy(draw.uniform(0, 2 * math.pi * octants / 8, count))
    distance = torch.from_numpy(draw.uniform(0.5, 1.5, count))
    place = torch.stack([angle.cos(), angle.sin()], 1) * distance[:, None]
    return torch.stack([place, torch.from_numpy(draw.normal(0, 0.2, (count, 2)))], 1)


def point_mass(policy: Callable[[Tensor], Tensor], state: Tensor, moments: int = 12, step: float = 0.15) -> Tensor:
    """What a point mass loses `[B]` under a policy of position and velocity: mean distance to a ring, and effort.

    It is to come to the ring of radius 1 around the origin, against a wind that whirls around it.
    """
    place, velocity = state.unbind(1)
    lost = torch.zeros(len(state), dtype=state.dtype)
    for _ in range(moments):
        force = policy(torch.stack([place, velocity], 1))[:, 0]
        wind = 0.6 * torch.stack([-place[:, 1], place[:, 0]], 1)
        velocity = velocity + step * (force + wind)
        place = place + step * velocity
        lost = lost + (((place**2).sum(1) - 1) ** 2 + 0.02 * (force**2).sum(1)) / moments
    return lost


def trained(policy: nn.Module, octants: int, steps: int, key: Key, count: int = 48, lr: float = 1e-2) -> None:
    """Trains a policy by the slope of its loss through the point mass, from starts in these octants alone."""
    optimiser = torch.optim.Adam(policy.parameters(), lr=lr)
    for number in range(steps):
        optimiser.zero_grad()
        torch.autograd.backward(point_mass(policy, starts(count, octants, key.derive(number))).mean())
        nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
        optimiser.step()


_EQUIVARIANT = row("multi-agent-mdp-homomorphic-networks")

SE3_EQUIVARIANT_SURVEY = FieldSurvey(
    name="se3-equivariant-survey",
    title="SE(3)-Equivariant Robot Learning and Control: A Tutorial Survey",
    source="arXiv:2503.09829",
    witness="a policy of complex vectors turns with its world to 1e-12 for every angle; trained from an octant it "
    "steers from all eight, and a perceptron does not",
    axes=(
        Axis(
            "where",
            "Where the symmetry enters.",
            (
                Cell("network", "layers that are equivariant by construction", _EQUIVARIANT),
                Cell(
                    "augmentation",
                    "data is turned at random",
                    Gap("no world of control turns its states at random", until=mentions("turned at random")),
                ),
                Cell(
                    "control-law",
                    "a geometric controller on the group",
                    Gap("controllers are networks", until=mentions("geometric control")),
                ),
            ),
        ),
        Axis(
            "group",
            "Which group acts.",
            (
                Cell("discrete", "quarter turns of the plane", _EQUIVARIANT),
                Cell(
                    "plane",
                    "all turns of the plane",
                    Gap("in this survey's witness alone; no recipe has such a network", until=mentions("so(2)")),
                ),
                Cell(
                    "space",
                    "turns and shifts of space, SE(3)",
                    Gap("there is no world with poses in space", until=mentions("se(3)")),
                ),
            ),
        ),
        Axis(
            "learning",
            "What is learnt with it.",
            (
                Cell(
                    "imitation",
                    "policies from demonstrations",
                    Gap("cloning has plain networks", until=is_a("bc") & _EQUIVARIANT),
                ),
                Cell("rl", "policies and values from rewards", _EQUIVARIANT),
                Cell(
                    "diffusion",
                    "equivariant diffusion policies",
                    Gap("diffusion policies have plain networks", until=row("dppo") & mentions("equivarian")),
                ),
            ),
        ),
    ),
    named=(
        Cell("homomorphic networks", "policies of a group of symmetries", _EQUIVARIANT),
        Cell("SAC", "the learner that most equivariant RL builds on", is_a("sac")),
        Cell("behaviour cloning", "likelihood of recorded actions", is_a("bc")),
    ),
)
