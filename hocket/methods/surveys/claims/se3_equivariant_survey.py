"""Claims about policies that turn with their world."""

from __future__ import annotations

import math

import torch

from hocket.apps.report import map as maps
from hocket.core.keys import Key
from hocket.lab.claims.harness import Claims, Finding, say
from hocket.methods.surveys.se3_equivariant_survey import (
    SE3_EQUIVARIANT_SURVEY,
    PlainPolicy,
    TurningPolicy,
    point_mass,
    starts,
    trained,
    turn,
)

claim = Claims("se3-equivariant-survey", "arXiv:2503.09829; the network is derived here")

KEY = Key.of(0).derive("turns")
SIZES = (2, 16, 16, 1)


@claim("For every angle pi(R s) = R pi(s), to 1e-12 after training; a perceptron of the same size is off by far.")
def for_every_angle_the_policy_turns() -> Finding:
    state = torch.from_numpy(KEY.derive("states").numpy().normal(size=(200, 2, 2)))
    rotation = turn(torch.from_numpy(KEY.derive("angles").numpy().uniform(0, 2 * math.pi, 200)))
    gaps = {}
    for name, kind in (("turning", TurningPolicy), ("plain", PlainPolicy)):
        policy = kind(SIZES, key=KEY)
        trained(policy, 8, 5, KEY)
        with torch.no_grad():
            there = policy(torch.einsum("bxy,biy->bix", rotation, state))
            back = torch.einsum("bxy,biy->bix", rotation, policy(state))
        gaps[name] = float((there - back).norm(dim=-1).max())
    return Finding(gaps["turning"] < 1e-12 and gaps["plain"] > 0.1, say(**gaps))


@claim(
    "A layer is by formula: vectors are mixed with turns and lengths, and scaled by tanh of lengths, without numbers."
)
def a_layer_is_by_formula() -> Finding:
    policy = TurningPolicy((2, 3, 1), key=KEY)
    state = torch.from_numpy(KEY.derive("rows").numpy().normal(size=(5, 2, 2)))
    first, last = (weight.detach().numpy() for weight in policy.mixes)
    gate = policy.gates[0]
    assert isinstance(gate, torch.nn.Linear)
    off = 0.0
    for number in range(5):
        hidden = []
        for unit in range(3):
            x = y = 0.0
            for k in range(2):
                (a, b), (p, q) = first[unit, k], state[number, k].tolist()
                x, y = x + a * p - b * q, y + a * q + b * p
            hidden.append((x, y))
        lengths = [math.hypot(x, y) for x, y in hidden]
        rows, offsets = gate.weight.detach().tolist(), gate.bias.detach().tolist()
        scales = [
            2 * math.tanh(sum(w * length for w, length in zip(row, lengths, strict=True)) + offset)
            for row, offset in zip(rows, offsets, strict=True)
        ]
        x = sum(
            last[0, k][0] * s * h[0] - last[0, k][1] * s * h[1]
            for k, (s, h) in enumerate(zip(scales, hidden, strict=True))
        )
        y = sum(
            last[0, k][0] * s * h[1] + last[0, k][1] * s * h[0]
            for k, (s, h) in enumerate(zip(scales, hidden, strict=True))
        )
        moves = policy(state[number : number + 1])[0, 0].detach().tolist()
        off = max(off, abs(moves[0] - x), abs(moves[1] - y))
    return Finding(off < 1e-12, say(off=off))


@claim("The point mass looks the same however it is turned: under a policy that turns, a turned start loses the same.")
def the_point_mass_looks_the_same_turned() -> Finding:
    state, policy = starts(100, 8, KEY.derive("begun")), TurningPolicy(SIZES, key=KEY.derive("other"))
    rotation = turn(torch.from_numpy(KEY.derive("more angles").numpy().uniform(0, 2 * math.pi, 100)))
    with torch.no_grad():
        lost, turned = point_mass(policy, state), point_mass(policy, torch.einsum("bxy,biy->bix", rotation, state))
    off = float((lost / turned - 1).abs().max())
    return Finding(off < 1e-9 and float(lost.std()) > 1e-3, say(off=off, spread=float(lost.std())))


@claim(
    "Trained from starts in one octant, the policy that turns loses as little from all eight as from that one, within "
    "10 %; a perceptron loses more than twice as much from all eight as from that one; in each of 2 seeds.",
    slow=True,
)
def one_octant_is_enough() -> Finding:
    figures, holds = {}, True
    for seed in range(2):
        for name, kind in (("turning", TurningPolicy), ("plain", PlainPolicy)):
            policy = kind(SIZES, key=Key.of(seed).derive(name))
            trained(policy, 1, 80, Key.of(seed).derive("starts"))
            with torch.no_grad():
                inside, everywhere = (
                    float(point_mass(policy, starts(2000, octants, KEY.derive("test"))).mean()) for octants in (1, 8)
                )
            figures[f"{name} {seed}"] = f"{inside:.3f} and {everywhere:.3f}"
            holds &= everywhere < 1.1 * inside if name == "turning" else everywhere > 2 * inside
    return Finding(holds, say(**figures))


@claim("Every cell of its map has a recipe or says why not, and every method that it names has one.")
def every_cell_has_a_recipe_or_a_reason() -> Finding:
    problems = maps.problems(SE3_EQUIVARIANT_SURVEY)
    sizes = [len(maps.members(cell.holds)) for cell in SE3_EQUIVARIANT_SURVEY.named]
    return Finding(not problems and min(sizes) > 0, say(problems=problems or 0, named=sizes))
