"""LCA: dense rewards for each agent out of a language model's rankings of states (arXiv:2502.03723).

For pairs of states, in words, a ranker says once per agent in which of them that agent has helped the team's goal more.
A network phi_i is fitted to what it says of agent i, `-log sigmoid(phi_i(s_w) - phi_i(s_l))`, where several queries
of a pair average out wrong answers, and `gamma phi_i(s') - phi_i(s)` is added to the team's sparse reward
(`RankedPotentials`), which leaves the best joint policies what they were. Each agent then learns by PPO on its own.
`StatesInWords` is the hook that notes what each agent was shown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from hocket.core.batch import Batch, Level
from hocket.core.casting import Separate
from hocket.core.columns import InfoColumn
from hocket.core.keys import Key
from hocket.core.requirements import Requirement
from hocket.core.signals import counted_trajectories, returns
from hocket.credit.each_agent import EachAgent
from hocket.methods.base.ppo import PPO
from hocket.rewards.judge import features
from hocket.rewards.judging import Judge, compared
from hocket.rewards.ngrams import Orders
from hocket.rewards.shaping import added
from hocket.stages import Hook, HookContext, Player, Shaping, State
from hocket.types import Assignment, Trajectory

STATES = InfoColumn("states", "What each turn's agent was shown before it, all messages as one text; in call order.")

ASK = (
    "A team works on a task. Here are two situations as {role} sees them. In which of the two has {role} helped the "
    "team more to reach its goal? (Opinion {number} of {queries}.)"
)


# ---------------------------------------------------------------- states in words


@dataclass
class NotingPlayer:
    """Plays as `player` does and notes the states."""

    player: Player

    def __getattr__(self, name: str) -> Any:
        return getattr(self.player, name)

    async def play(self, assignments: Sequence[Assignment], *, key: Key) -> list[Trajectory]:
        """Every sample of every assignment, in assignment order, then sample order."""
        played = await self.player.play(assignments, key=key)
        for trajectory in played:
            words = ["\n".join(str(one.get("content") or "") for one in turn.prompt) for turn in trajectory.turns]
            STATES.write(trajectory, words)
        return played


@dataclass(frozen=True)
class StatesInWords(Hook):
    """Notes of every turn what its agent was shown, in the column `STATES`."""

    def seat(self, player: Player, run: HookContext, step: int, memory: Any) -> Player:
        return NotingPlayer(player)


# ---------------------------------------------------------------- potentials


@dataclass(frozen=True, eq=False)
class ScoringNetwork:
    """A perceptron with one hidden layer: `s(x) = out . tanh(into x + bias)`, float64.

    Attributes:
        into: `[H, D]`. bias, out: `[H]`.
    """

    into: Tensor
    bias: Tensor
    out: Tensor

    def __call__(self, inputs: Tensor) -> Tensor:
        """Scores `[M]` of inputs `[M, D]`."""
        return torch.tanh(inputs @ self.into.T + self.bias) @ self.out


def fit_rankings(
    pairs: Tensor, chances: Tensor, *, hidden: int = 16, ridge: float = 0.1, iterations: int = 200
) -> ScoringNetwork:
    """Bradley-Terry by a network: `P(first above second) = sigmoid(s(first) - s(second))`.

    `min -sum_i (p_i log P_i + (1 - p_i) log(1 - P_i)) + ridge/2 |weights|^2` by L-BFGS, from a start that depends on
    the sizes alone, so that equal pairs give equal scores.

    Args:
        pairs: `[N, 2, D]`. chances: `[N]`, how often the first was ranked higher.
    """
    draw, size = Key.of(0).derive("rankings", hidden).numpy(), pairs.shape[-1]
    start = (draw.normal(size=hidden * size) / size**0.5, np.zeros(hidden), draw.normal(size=hidden) / hidden**0.5)
    told = chances.double()

    def network(flat: Tensor) -> ScoringNetwork:
        into, bias, out = torch.split(flat, [hidden * size, hidden, hidden])
        return ScoringNetwork(into.reshape(hidden, size), bias, out)

    def slope(flat: Tensor) -> tuple[float, Tensor]:
        with torch.enable_grad():
            flat = flat.clone().requires_grad_()
            score = network(flat)
            margin = score(pairs[:, 0]) - score(pairs[:, 1])
            loss = (torch.nn.functional.softplus(margin) - told * margin).sum() + ridge / 2 * flat.square().sum()
            (gradient,) = torch.autograd.grad(loss, flat)
        return float(loss.detach()), gradient

    return network(descended(slope, torch.tensor(np.concatenate(start)), iterations))


def descended(slope: Callable[[Tensor], tuple[float, Tensor]], at: Tensor, iterations: int, kept: int = 10) -> Tensor:
    """L-BFGS (Liu and Nocedal 1989) with halved steps: near where `slope`, a loss and its gradient, has none.

    By hand, since optimisers of torch are those of the policies, whose steps are counted.
    """
    loss, gradient = slope(at)
    moves: list[tuple[Tensor, Tensor]] = []
    for _ in range(iterations):
        way, shares = gradient.clone(), []
        for move, bend in reversed(moves):
            shares.append(move @ way / (bend @ move))
            way -= shares[-1] * bend
        if moves:
            move, bend = moves[-1]
            way *= move @ bend / (bend @ bend)
        for (move, bend), share in zip(moves, reversed(shares), strict=True):
            way += move * (share - bend @ way / (bend @ move))
        size, least = 1.0, float(gradient @ way)
        while (found := slope(at - size * way))[0] > loss - 1e-4 * size * least:
            size /= 2
            if size < 1e-9:
                return at
        move, bend = -size * way, found[1] - gradient
        if float(move @ bend) > 1e-12:
            moves = [*moves, (move, bend)][-kept:]
        at, loss, gradient = at + move, *found
    return at


@dataclass(frozen=True)
class RankedPotentials(Shaping):
    """Adds `weight (gamma phi_i(s') - phi_i(s))` to the reward of every turn of agent i, s' being what it sees next.

    After its last turn the potential is 0. phi_i is linear in the n-grams of a state and fitted anew at every step to
    the latest `keep` pairs of agent i. The ranker is the run's judge (`--judge`), asked `queries` times in both orders;
    without one it is `rule`, asked `queries` times with their number; and without either the state of the episode that
    earned more is the better one. Stateful: it remembers pairs and rankings.

    Attributes:
        comparisons: pairs that are ranked for each agent at a step. gamma: of the potential; that of the credit.
        rule: (role, first state, second state, number of the query) to whether the first is ranked higher.
        hidden: units of the network. ridge: of the fit. buckets, orders: of the n-grams.
    """

    comparisons: int = 32
    queries: int = 1
    gamma: float = 1.0
    weight: float = 1.0
    keep: int = 256
    rule: Callable[[str, str, str, int], float] | None = None
    hidden: int = 16
    ridge: float = 0.1
    buckets: int = 256
    orders: Orders = (1, 2, 3)
    judge: Judge | None = None

    asks_judge: ClassVar[bool] = True

    def __post_init__(self) -> None:
        for name in ("comparisons", "queries", "keep", "hidden"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")
        if not 0 <= self.gamma <= 1:
            raise ValueError(f"gamma must be in [0, 1], not {self.gamma}")

    def init(self) -> State:
        """Nothing was ranked yet: potentials are 0."""
        return {"pairs": {}, "chances": {}}

    def __call__(self, batch: Batch, state: State) -> tuple[Batch, State]:  # type: ignore[override]
        seen = self._seen(batch)
        worth, used = returns(batch), counted_trajectories(batch)
        pairs: dict[str, Tensor] = dict(state["pairs"])
        chances: dict[str, Tensor] = dict(state["chances"])
        reward = torch.zeros(batch.turns, dtype=torch.float64)
        for role in sorted(seen):
            mine = seen[role]
            phi = features([words for _, _, words in mine], self.buckets, self.orders)
            asked = self._asked([row for row, (who, _, _) in enumerate(mine) if used[who]], len(mine), batch.step, role)
            asked = [(one, other) for one, other in asked if mine[one][2] != mine[other][2]]
            ranked = self._ranked(
                role,
                [(mine[a][2], mine[b][2]) for a, b in asked],
                [_above(float(worth[mine[a][0]]), float(worth[mine[b][0]])) for a, b in asked],
            )
            known = [(pair, chance) for pair, chance in zip(asked, ranked, strict=True) if chance is not None]
            if known:
                new = phi[torch.tensor([pair for pair, _ in known])]
                told = torch.tensor([chance for _, chance in known], dtype=torch.float64)
                pairs[role] = torch.cat([pairs.get(role, new[:0]), new])[-self.keep :]
                chances[role] = torch.cat([chances.get(role, told[:0]), told])[-self.keep :]
            if role in pairs:
                potential = fit_rankings(pairs[role], chances[role], hidden=self.hidden, ridge=self.ridge)(phi)
                reward += self._differences(batch, [(who, turn) for who, turn, _ in mine], potential)
        return added(batch, Level.TURN, self.weight * reward), {"pairs": pairs, "chances": chances}

    def _seen(self, batch: Batch) -> dict[str, list[tuple[int, int, str]]]:
        """Of each role the trajectory, the turn and the words of every state, in order; a shared turn once."""
        occurrences, told = batch.occurrences, STATES.rows(batch)
        turns = batch.turn[occurrences.decision].tolist()
        visits = dict.fromkeys(zip(turns, occurrences.trajectory.tolist(), strict=True))
        owner: dict[int, int] = {}
        found: dict[str, list[tuple[int, int, str]]] = {}
        for turn, trajectory in visits:
            if turn in owner:
                continue
            owner[turn] = trajectory
            words = (told[trajectory] or [])[int(batch.index[turn]) :][:1]
            role = batch.names["role"][int(batch.role[turn])]
            found.setdefault(role, []).append((trajectory, turn, str(words[0]) if words else ""))
        return found

    def _asked(self, rows: Sequence[int], size: int, step: int, role: str) -> list[tuple[int, int]]:
        """Random pairs of states that count."""
        if len(rows) < 2:
            return []
        draw = Key.of(step).derive("ranked", role, size).numpy()
        drawn = (draw.choice(len(rows), 2, replace=False) for _ in range(self.comparisons))
        return [(rows[int(one)], rows[int(other)]) for one, other in drawn]

    def _ranked(
        self, role: str, asked: Sequence[tuple[str, str]], outcome: Sequence[float | None]
    ) -> list[float | None]:
        """The share of queries in which the first of each pair was ranked higher; None without an answer."""
        if self.judge is None and self.rule is None:
            return list(outcome)
        answers: list[list[float]] = [[] for _ in asked]
        for number in range(1, self.queries + 1):
            if self.judge is not None:
                question = ASK.format(role=role, number=number, queries=self.queries)
                said = compared(self.judge, [(question, one, other) for one, other in asked])
            else:
                assert self.rule is not None
                said = [float(self.rule(role, one, other, number)) for one, other in asked]
            for row, answer in zip(answers, said, strict=True):
                row += [] if answer is None else [answer]
        return [sum(row) / len(row) if row else None for row in answers]

    def _differences(self, batch: Batch, visits: Sequence[tuple[int, int]], potential: Tensor) -> Tensor:
        """gamma phi(s') - phi(s) at each turn of an agent, `[U]`; 0 at those of others."""
        reward = torch.zeros(batch.turns, dtype=torch.float64)
        for place, (trajectory, turn) in enumerate(visits):
            goes_on = place + 1 < len(visits) and visits[place + 1][0] == trajectory
            after = float(potential[place + 1]) if goes_on else 0.0
            reward[turn] = self.gamma * after - float(potential[place])
        return reward


def _above(one: float, other: float) -> float | None:
    """Whether one episode earned more than another; None where as much."""
    return None if one == other else float(one > other)


LCA = PPO.but(
    name="lca",
    title="LCA: each agent's potential from rankings of states",
    source="Lin et al., Speaking the Language of Teamwork, arXiv:2502.03723",
    family="teams",
    catalogue_ids=("lca",),
    axes=("reward", "credit", "team"),
    formula="min_phi_i -log sigmoid(phi_i(s_w) - phi_i(s_l)) over pairs ranked for agent i;  "
    "r_i = r_team + gamma phi_i(s') - phi_i(s);  each agent: PPO on its own r_i",
    conventions={
        **PPO.conventions,
        "ranker": "the run's judge (--judge), or a function (shaping.0.rule); without either the state of the episode "
        "that earned more is the better one, and equals are not ranked",
        "states": "all that the agent was shown before its turn, its own earlier words included",
        "potential": "a perceptron of 16 hidden units over n-grams of the state, with a ridge, fitted anew at every "
        "step to the latest 256 pairs of each agent, where the paper fits it before training",
        "last turn": "the potential after it is 0",
        "discount of the potential": "1, that of the credit",
        "queries": "1 per pair (shaping.0.queries); a judge is asked in both orders each time",
        "value, GAE and whitening": "each agent's own; the others are part of its environment",
        "role weights": "one policy each",
    },
    task="sums",
    requires=(Requirement.TURNS, Requirement.AGENTS),
    workflow="debate?debaters=2&rounds=3",
    cast=Separate(),
    shaping=(RankedPotentials(),),
    credit=EachAgent(PPO.credit, by="policy"),
    hooks=(StatesInWords(),),
)
