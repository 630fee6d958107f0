"""What marft claims."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

from hocket.core.keys import Key
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.microscope import Reading
from hocket.lab.talk import TalkBench, last_message
from hocket.lab.toys.rewarded import SEEDS, line
from hocket.methods.teams.marft import MARFT, MARFT_TOKEN
from hocket.recipe import Recipe
from hocket.types import Evaluation, Message, Scenario
from hocket.workflows.team import Team
from hocket.workflows.workflow import Outcome, Workflow

claim = Claims(
    "marft", "arXiv:2504.16129 and the authors' code; the identity is the standard multi-agent decomposition"
)


STEPS, STATES, ACTIONS = 2, 2, 2
Path = tuple[tuple[int, int], ...]
"""The joint actions of a game, step by step."""


@dataclass
class Game:
    """Two agents act in turn, the second seeing what the first did; two steps, two states, known policies.

    Attributes:
        reward: `[state, a1, a2]`. following: the next state, `[state, a1, a2]`.
        first, second: logits of the two policies, `[step, state, a1]` and `[step, state, a1, a2]`.
        gamma: from step to step. within: from the first agent to the second.
    """

    reward: Tensor
    following: Tensor
    first: Tensor
    second: Tensor
    gamma: float = 1.0
    within: float = 1.0

    @classmethod
    def random(cls, seed: int, **discounts: float) -> Game:
        draw = Key.of(seed).torch()
        shape = (STATES, ACTIONS, ACTIONS)
        return cls(
            torch.randn(shape, generator=draw, dtype=torch.float64),
            torch.randint(STATES, shape, generator=draw),
            torch.randn((STEPS, STATES, ACTIONS), generator=draw, dtype=torch.float64),
            torch.randn((STEPS, STATES, ACTIONS, ACTIONS), generator=draw, dtype=torch.float64),
            **discounts,
        )

    def q(self, step: int, state: int, one: int, two: int) -> float:
        """The value of a joint action."""
        after = 0.0 if step + 1 == STEPS else self.value(step + 1, int(self.following[state, one, two]))
        return float(self.reward[state, one, two]) + self.gamma * after

    def value(self, step: int, state: int, one: int | None = None) -> float:
        """What the first agent's input is worth, or with its action the second's."""
        if one is not None:
            chances = torch.softmax(self.second[step, state, one], -1).tolist()
            return math.fsum(chance * self.q(step, state, one, two) for two, chance in enumerate(chances))
        chances = torch.softmax(self.first[step, state], -1).tolist()
        return self.within * math.fsum(chance * self.value(step, state, one) for one, chance in enumerate(chances))

    def states(self, path: Path) -> Iterator[int]:
        """The state before each step."""
        state = 0
        for one, two in path:
            yield state
            state = int(self.following[state, one, two])

    def logp(self, paths: list[Path]) -> Tensor:
        """Log-probs of all decisions of all paths in a row, differentiable."""
        one, two = torch.log_softmax(self.first, -1), torch.log_softmax(self.second, -1)
        return torch.stack(
            [
                entry
                for path in paths
                for step, (state, (a, b)) in enumerate(zip(self.states(path), path, strict=True))
                for entry in (one[step, state, a], two[step, state, a, b])
            ]
        )

    def document(self, paths: list[Path]) -> dict[str, Any]:
        """Every path as a recorded episode with exact values; rewards stand at the second agent's turns."""
        logp = self.logp(paths).detach().reshape(len(paths), -1).tolist()
        rows = []
        for number, path in enumerate(paths):
            values, rewards = [], []
            for step, (state, (one, two)) in enumerate(zip(self.states(path), path, strict=True)):
                values += [self.value(step, state), self.value(step, state, one)]
                rewards += [{"step": 0.0}, {"step": float(self.reward[state, one, two])}]
            rows.append(
                {
                    "id": f"path {number:02}",
                    "group": "game",
                    "scores": {},
                    "logp": logp[number],
                    "value": values,
                    "turn": list(range(2 * STEPS)),
                    "agent": ["first", "second"] * STEPS,
                    "turn_scores": rewards,
                }
            )
        return {"version": 1, "trajectories": rows}


def paths_of_a_game() -> list[Path]:
    """Every sequence of joint actions."""
    joint = [(one, two) for one in range(ACTIONS) for two in range(ACTIONS)]
    return list(itertools.product(joint, repeat=STEPS))


def exact(recipe: Recipe, **discounts: float) -> Recipe:
    """The recipe with one-step advantages that are not whitened: exact where values are."""
    settings = {f"credit.{name}": value for name, value in discounts.items()}
    return recipe.but({"credit.lam": 0.0, "credit.whiten": False, **settings})


@claim(
    "the advantages of a step's agents sum to that of their joint action without discount between them; with "
    "the released code's discount only the discounted sum does",
)
def advantages_sum_to_the_joint_one() -> Finding:
    """sum_m A_m(s, a_1:m) = Q(s, a) - V(s) without discount within a step; with it, only the discounted sum is."""
    plain = discounted = 0.0
    missed = []
    for seed, recipe in itertools.product(range(10), (MARFT, MARFT_TOKEN)):
        for gamma, within in ((0.9, 1.0), (0.9, 0.9)):
            game = Game.random(seed, gamma=gamma, within=within)
            paths = paths_of_a_game()
            read = Reading(game.document(paths))
            assessed, _ = exact(recipe, gamma=gamma, within=within).assess(read.batch, {}, {})
            found = read.by_trajectory(assessed.occurrences.advantage)
            for path, row in zip(paths, found, strict=True):
                for step, (state, (one, two)) in enumerate(zip(game.states(path), path, strict=True)):
                    a, b = row[2 * step : 2 * step + 2]
                    q, v = game.q(step, state, one, two), game.value(step, state)
                    if within == 1.0:
                        plain = max(plain, abs(a + b - (q - v)))
                    else:
                        discounted = max(discounted, abs(a + within * b - (within * q - v)))
                        missed.append(abs(a + b - (q - v)))
    holds = plain < 1e-8 and discounted < 1e-8 and fmean(missed) > 0.01
    return Finding(
        holds,
        f"10 games, both levels: within {plain:.1e}; discounted between agents as in the released code the plain sum "
        f"misses by {fmean(missed):.3f} in the mean, the discounted one by {discounted:.1e}",
    )


@claim("with exact advantages, one-agent-at-a-time updates do not decrease the true return for small steps")
def one_at_a_time_never_loses() -> Finding:
    """Exact advantages, small steps, the agents in turn: the true return of 8 games never falls, and rises."""
    paths, recipe = paths_of_a_game(), exact(MARFT, gamma=1.0)
    worst, gains = 0.0, []
    for seed in range(8):
        game = Game.random(seed)
        start = before = game.value(0, 0)
        for turn in range(8):
            table = game.first if turn % 2 == 0 else game.second
            table -= 0.05 * _gradient(recipe, game, paths, turn % 2)
            now = game.value(0, 0)
            worst, before = min(worst, now - before), now
        gains.append(before - start)
    return Finding(
        worst >= -1e-12 and min(gains) > 0, f"largest fall {-worst:.1e}; gains {min(gains):.3f} to {max(gains):.3f}"
    )


def _gradient(recipe: Recipe, game: Game, paths: list[Path], agent: int) -> Tensor:
    """The exact expected gradient of the recipe's policy loss in one agent's logits."""
    read = Reading(game.document(paths))
    assessed, _ = recipe.assess(read.batch, {}, {})
    chance = game.logp(paths).detach().reshape(len(paths), -1).sum(1).exp()
    seen = assessed.occurrences
    mine = torch.arange(len(seen)) % 2 == agent
    # Occurrence weights are probabilities, so the sum over paths is the expectation.
    batch = assessed.credited(weight=torch.where(mine, chance[seen.trajectory] * len(paths), 0.0))
    table = game.first if agent == 0 else game.second
    table.requires_grad_()
    try:
        terms = recipe.objective(Evaluation(game.logp(paths)), batch)
        (gradient,) = torch.autograd.grad(terms.total(), table)
    finally:
        table.requires_grad_(False)
    return gradient


COLOURS, SHAPES = ("red", "blue"), ("box", "ring")
TARGETS = tuple(f"{colour} {shape}" for colour in COLOURS for shape in SHAPES)


class HintSolve(Workflow):
    """The hinter sees a coloured shape and says two words; the solver hears them alone and must name it."""

    roles = ("hinter", "solver")

    async def play(self, scenario: Scenario, team: Team) -> Outcome:
        hint = await team.hinter(f"hint at {scenario.prompt}")
        said = await team.solver(f"solve {hint}")
        return Outcome(rewards={"right": float(said.text == scenario.answer)})


def leaning(messages: tuple[Message, ...], said: tuple[str, ...]) -> dict[str, float] | None:
    """The base both roles begin from: it leans to repeating the word that is due."""
    words = str(messages[-1]["content"]).split()[-2:]
    return {words[len(said)]: 0.5} if len(said) < len(words) else None


def hinting(recipe: Recipe, seed: int, frozen: frozenset[str] = frozenset()) -> TalkBench:
    """Two tables on top of one base that is never trained: what adapters on a shared model are."""
    scenarios = [Scenario(target, target, answer=target) for target in TARGETS]
    return TalkBench(
        HintSolve(),
        scenarios,
        (*COLOURS, *SHAPES),
        recipe.but({"rollout.samples": 8, "update.epochs": 4, "update.minibatches": 1, "update.target_kl": 1e-2}),
        length=2,
        view=last_message,
        prior=leaning,
        frozen=frozen,
        lr=0.1,
        seed=seed,
    )


@claim("hinter and solver on one base: joint training beats training one role; both levels learn", slow=True)
def both_roles_and_both_levels() -> Finding:
    """Training both roles beats training one of them, and ratios per utterance and per token both learn."""
    found: dict[str, list[float]] = {"action": [], "token": [], "hinter alone": [], "solver alone": []}
    before = hinting(MARFT, 0).expected()
    for seed in SEEDS:
        found["action"].append(hinting(MARFT, seed).run(20).expected())
        found["token"].append(hinting(MARFT_TOKEN, seed).run(20).expected())
        for role, other in (("hinter", "solver"), ("solver", "hinter")):
            found[f"{role} alone"].append(hinting(MARFT, seed, frozenset({other})).run(20).expected())
    joint = min(found["action"] + found["token"])
    single = max(found["hinter alone"] + found["solver alone"])
    figures = "; ".join(f"{name} {line(values)}" for name, values in found.items())
    return Finding(joint > single + 0.2 and joint > 0.7, f"right, before {before:.3f}, 20 steps, 5 seeds: {figures}")
