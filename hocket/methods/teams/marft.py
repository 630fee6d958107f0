"""MARFT: PPO for a team that acts in order, with one ratio per utterance (Liao et al., arXiv:2504.16129).

Advantages run along the chain of agents, from each one's value to that of the next one's input (`AgentGAE`), and a
whole utterance is clipped (`TurnSurrogate` of `hocket.objectives.turn_ratio`). `marft-token` does both token by token.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch
from torch import Tensor

from hocket.core.batch import Batch, Occurrences
from hocket.core.casting import Separate
from hocket.core.columns import Column
from hocket.core.errors import ConfigurationError
from hocket.core.requirements import Requirement
from hocket.core.segments import segment_count, segment_sum, suffix_sum
from hocket.core.signals import rewards_by_occurrence, turn_visits
from hocket.credit.formulas import whitened
from hocket.credit.gae import final_values, rewards_passed_back, values_known
from hocket.methods.base.conventions import PER_TURN
from hocket.methods.base.ppo import PPO
from hocket.objectives.surrogate import ClippedSurrogate
from hocket.objectives.turn_ratio import TurnSurrogate
from hocket.objectives.value import ValueLoss
from hocket.stages import Credit


@dataclass(frozen=True)
class AgentGAE(Credit):
    """`A_m = delta_m + g_m lam A_{m+1}`, `delta_m = r_m + g_m V(next agent's input) - V(own input)`: MARFT.

    MARFT (arXiv 2504.16129): agents act one after another, each upon what the earlier ones did, and the advantage of
    their joint action is the sum of theirs. A link m is one turn (`action`) or one decision (`token`); the chain goes
    through all agents of a trajectory, and its last link is followed by the value of the final state where the
    trajectory was truncated, else by 0. V(own input) is the value before a turn's first decision.

    A *step* of the environment is a row of turns in which nobody acts twice: it ends where an agent that has acted in
    it acts again. g_m is `gamma` from step to step and `within` from agent to agent of one step. With `within` = 1 the
    advantages of a step sum to that of the joint action exactly; the released code has `within` = `gamma`, where only
    the sum discounted in the same way does (and also discounts from token to token: `between` = `gamma`).

    The target is `A + V`, before whitening. At the level of actions it is the same for all decisions of a turn, of
    which the chain reads the first alone: it is a return from each of them too. Turns without any known value (an
    outside model's) take no time; what they earned belongs to the link before.

    Attributes:
        level: what a link is. gamma, within, between: discounts per step, per agent of a step, per decision of a turn.
        lam: 0 gives one-step differences, 1 discounted returns minus V.
        whiten: `(A - mean) / (std + epsilon)` over the links with a decision that counts, each once; the others get 0.
        epsilon: added to the deviation. ddof: 0, that of the released code, divides the sum of squares by their number.
    """

    level: Literal["action", "token"] = "action"
    gamma: float = 0.99
    lam: float = 0.95
    within: float = 1.0
    between: float = 1.0
    whiten: bool = True
    epsilon: float = 1e-8
    ddof: int = 0

    gives_targets: ClassVar[bool] = True
    reads: ClassVar[frozenset[Column]] = frozenset({Column.VALUE})

    def __post_init__(self) -> None:
        if self.level not in ("action", "token"):
            raise ValueError(f"level must be 'action' or 'token', not {self.level!r}")
        for name in ("gamma", "lam", "within", "between"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} must lie in [0, 1], not {getattr(self, name)}")

    def __call__(self, batch: Batch) -> Occurrences:
        """The batch's occurrences with advantages and value targets, both `[E]` float64."""
        if batch.value is None:
            raise ConfigurationError("AgentGAE reads the value of every decision, but the batch has no column 'value'")
        seen, known = batch.occurrences, values_known(batch)
        link, begins = self._links(batch, known)
        of = torch.nonzero(begins).flatten()
        value = batch.value.detach().double()[seen.decision[of]]
        rewards = rewards_passed_back(rewards_by_occurrence(batch), known, seen.trajectory)[known]
        earned = segment_sum(rewards, link[known], len(of))
        credit = self._chain(earned, value, batch, of)
        used = segment_count(link[known & (seen.weight != 0)], len(of)) > 0
        shown = torch.zeros_like(credit)
        shown[used] = whitened(credit[used], ddof=self.ddof, epsilon=self.epsilon) if self.whiten else credit[used]
        nothing = torch.zeros(len(seen), dtype=torch.float64)
        return replace(
            seen,
            advantage=nothing.masked_scatter(known, shown[link[known]]),
            target=nothing.masked_scatter(known, (credit + value)[link[known]]),
        )

    def _links(self, batch: Batch, known: Tensor) -> tuple[Tensor, Tensor]:
        """The link of each occurrence, `[E]`, and where links begin, `[E]` bool; only where values are known."""
        begins = known.clone()
        if self.level == "action":
            visit, starts = turn_visits(batch)
            first = torch.full((int(starts.sum()),), len(known))
            places = torch.nonzero(known).flatten()
            first = first.scatter_reduce(0, visit[places], places, "amin")
            begins = torch.zeros_like(known)
            begins[first[first < len(known)]] = True
        return torch.cumsum(begins, 0) - 1, begins

    def _chain(self, earned: Tensor, value: Tensor, batch: Batch, of: Tensor) -> Tensor:
        """The advantages of links that begin at the occurrences `of`, `[M]`."""
        trajectory = batch.occurrences.trajectory[of]
        discount = self._discounts(batch, of)
        following = final_values(batch)[trajectory]
        same = trajectory[1:] == trajectory[:-1]
        following[:-1] = torch.where(same, value[1:], following[:-1])
        delta = earned + discount * following - value
        return suffix_sum(delta, trajectory, batch.trajectories, discount=self.lam * discount)

    def _discounts(self, batch: Batch, of: Tensor) -> Tensor:
        """What stands between each link and the next, `[M]`; a trajectory's end ends its step."""
        seen = batch.occurrences
        visit, _ = turn_visits(batch)
        agent = batch.agent[batch.turn[seen.decision[of]]].tolist()
        rows = list(zip(seen.trajectory[of].tolist(), visit[of].tolist(), agent, strict=True))
        found = [self.gamma] * len(rows)
        acted: set[int] = set()
        for place, (this, following) in enumerate(itertools.pairwise(rows)):
            acted = acted | {this[-1]}
            if this[:2] == following[:2]:
                found[place] = self.between
            elif this[0] == following[0] and following[-1] not in acted:
                found[place] = self.within
            else:
                acted = set()
        return torch.tensor(found, dtype=torch.float64)


MARFT = PPO.but(
    name="marft",
    title="Multi-agent reinforcement fine-tuning, a ratio per utterance",
    source="Liao et al., arXiv:2504.16129, and the authors' code",
    family="teams",
    catalogue_ids=("marft",),
    axes=("team", "objective", "policy"),
    formula="A_m = delta_m + g lam A_{m+1},  delta_m = r_m + g V(next agent's input) - V(own input);  "
    "L = -mean_m min(r_m A_m, clip(r_m) A_m) + 1/2 mean (V - y)^2,  r_m = prod_t r_mt",
    conventions={
        **PPO.conventions,
        "team": "two agents in a row, the second reading what the first said (workflow pipeline), chosen here",
        "order": "that in which the agents of a trajectory acted; a step ends where one acts again",
        "discount": "0.99 from step to step, none within (the released code: also between the agents of a step)",
        "value": "of every policy by its own head, before the first decision of a turn; targets for all of the turn's",
        "whitening": "advantages over the batch's turns, ddof 0, epsilon 1e-8",
        "clipping side": "both, 0.2; values too, 0.2",
        "aggregation": PER_TURN + "; values over all decisions",
        "small updates": "a step ends once KL(before || now) exceeds 1e-3 nats; the code skips the update that would",
        "entropy": "no bonus",
        "who learns": "one policy per role (adapters on one base with --lora), all at once",
    },
    task="sums",
    requires=(Requirement.AGENTS,),
    workflow="pipeline?agents=2",
    cast=Separate(),
    credit=AgentGAE(level="action", gamma=0.99, lam=0.95),
    objective=TurnSurrogate(low=0.2, high=0.2, dual=None, cap=None, mean="product", aggregate="turn-mean"),
    regularisers=(ValueLoss(coefficient=0.5, clip=0.2, aggregate="token-mean"),),
    **{"update.target_kl": 1e-3},
)


MARFT_TOKEN = MARFT.but(
    name="marft-token",
    title="Multi-agent reinforcement fine-tuning, a ratio per token",
    catalogue_ids=("marft",),
    formula="A_t = delta_t + g lam A_{t+1} along the decisions of all agents,  L = PPO with a ratio per decision",
    conventions={
        **MARFT.conventions,
        "discount": "0.99 from step to step, none within, none from token to token (the released code: everywhere)",
        "value": "of every policy by its own head, before each decision",
        "whitening": "advantages over the batch's decisions, ddof 0, epsilon 1e-8",
        "aggregation": "mean over all decisions of the batch",
    },
    objective=ClippedSurrogate(low=0.2, high=0.2, aggregate="token-mean"),
    **{"credit.level": "token"},
)
