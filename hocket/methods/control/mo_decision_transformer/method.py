"""Multi-objective decision transformer: states and returns are predicted beside actions (arXiv:2308.16379).

A decision transformer learns what is done next from returns, states and actions. Here the same network is trained for
what comes of a decision, too, so that attention serves three predictions:

    L = L_a + w_s L_s + w_r L_r

with L_s and L_r the negative log-likelihoods of the next state and of the return that is still to come, read where a
decision ends. Behind each action a token says in which region it falls, a cell of a grid over the range of actions, as
recorded actions jump and cells do not. With w_s = w_r = 0 and without regions it is the decision transformer.

The paper's abstract leaves weights, densities and the place of the tokens open; see the recipe's conventions.

    python -m hocket.methods.control.mo_decision_transformer.recorded --out maze.npz
    hocket train --recipe mo-decision-transformer --store.data maze.npz
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from hocket.core.batch import Batch
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.methods.base.decision_transformer import DECISION_TRANSFORMER
from hocket.objectives.wanted_returns import ConditionedLikelihood
from hocket.policies.control_attention import linear
from hocket.policies.control_heads import Head
from hocket.policies.control_parts import ActionForm, EvaluatedRows, Links, PartHost
from hocket.policies.wanted_returns import DecisionTransformer, WantedReturn
from hocket.rollout.transitions import Transitions
from hocket.types import Evaluation, Quantity, Terms
from hocket.update.gradient import GradientStep

_FIRST_LOG_STD = -0.5


class PredictingTransformer(DecisionTransformer):
    """A `DecisionTransformer` whose outputs at a decision are the action's, and what was predicted of it before it.

    Outputs are `[.., A + O + 1]`: the action's, read at the state's token; then the state and the return still wanted
    here, read where the decision before ended, 0 at the first decision of a window.

    Attributes:
        regions: cells along each dimension of an action; 0 for no such tokens. log_std: of the action, where it is a
            vector. spread: the logarithms of the deviations of state and return, `[O + 1]`.
    """

    def __init__(
        self, sights: int, actions: int, hidden: tuple[int, ...], *, window: int, regions: int, key: Key
    ) -> None:
        super().__init__(sights, actions, hidden, window=window, key=key)
        width, self.regions = hidden[0], regions
        if regions:
            self.of_region = linear(actions * regions, width, key.derive("region"))
        self.next_seen = linear(width, sights, key.derive("next seen"))
        self.next_return = linear(width, 1, key.derive("next return"))
        self.spread = nn.Parameter(torch.full((sights + 1,), _FIRST_LOG_STD))

    def states(self, rows: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        """What the last block gives at states `[B, L, width]`, and at the ends of decisions `[B, L - 1, width]`."""
        sights, to_go, before, step = torch.split(rows, self.sizes, -1)
        place = step[..., 0].long().clamp(0, len(self.times) - 1)
        moment, earlier = self.times[place], self.times[(place - 1).clamp(min=0)]
        tokens = [self.of_action(before) + earlier]
        if self.regions:
            tokens.append(self.of_region(region(before, self.regions)) + earlier)
        tokens += [self.of_return(to_go) + moment, self.of_seen(sights) + moment]
        kinds = len(tokens)
        # The action before a window's first decision is no part of the window.
        x = self.first(torch.stack(tokens, 2).flatten(1, 2)[:, kinds - 2 :])
        for block in self.blocks:
            x = block(x)
        x = self.last(x)
        return x[:, 1::kinds], x[:, kinds - 1 :: kinds]

    def read(self, rows: Tensor) -> Tensor:
        at_states, at_ends = self.states(rows)
        then = torch.cat([self.next_seen(at_ends), self.next_return(at_ends)], -1)
        blank = then.new_zeros(len(rows), 1, then.shape[-1])
        return torch.cat([self.after(at_states), torch.cat([blank, then], 1)], -1)


def region(action: Tensor, cells: int) -> Tensor:
    """The cell of each dimension of actions `[.., A]` in [-1, 1], one-hot: `[.., A * cells]`."""
    place = ((action.clamp(-1.0, 1.0) + 1) * cells / 2).long().clamp(max=cells - 1)
    return nn.functional.one_hot(place, cells).to(action.dtype).flatten(-2)


@dataclass(frozen=True)
class _FirstOutputs:
    """A form of actions that reads the first `count` outputs alone."""

    form: ActionForm
    count: int
    regions: int

    @property
    def draws(self) -> int:
        return self.form.draws

    def actor(self, link: Links) -> nn.Module:
        return self.form.actor(link)

    def head(self, outputs: Tensor, actor: nn.Module, allowed: Tensor | None, taken: Tensor | None) -> Head:
        return self.form.head(outputs[..., : self.count], actor, allowed, taken)

    def config(self) -> Mapping[str, Any]:
        return {**self.form.config(), "predicts": self.regions}


@dataclass(frozen=True)
class PredictedReturn(WantedReturn):
    """`WantedReturn` with a `PredictingTransformer`.

    Attributes:
        regions: cells along each dimension of a vector of actions, whose numbers are tokens; 0 for none.
    """

    regions: int = 4

    quantities: ClassVar[frozenset[Quantity]] = frozenset({Quantity.DYNAMICS})

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.regions < 0 or self.regions == 1:
            raise ValueError(f"regions must be 0 or at least 2, not {self.regions}")

    def begin(self, host: PartHost) -> None:
        if host.discrete and self.regions:
            raise ConfigurationError(
                f"policy {host.name!r}: choices have no regions, which are of vectors of actions; set "
                "objective.policy.regions to 0"
            )
        super().begin(host)
        if host.action_form is not None:
            host.action_form = _FirstOutputs(host.action_form, host.actions, self.regions)

    def _made(self, sights: int, actions: int, hidden: tuple[int, ...], key: Key) -> PredictingTransformer:
        return PredictingTransformer(sights, actions, hidden, window=self.window, regions=self.regions, key=key)

    def evaluated(self, host: PartHost, wanted: frozenset[Quantity], rows: EvaluatedRows) -> Mapping[Quantity, Tensor]:
        """`DYNAMICS` `[K, 2]`: -log p of what is seen at a decision, and of the return still to come there.

        It is 0 at the first decision of a sequence, of which nothing was predicted.
        """
        spread: Tensor = host.module.actor.spread  # type: ignore[assignment]
        sights = host.observations
        gap = (rows.seen[:, : sights + 1] - rows.outputs[:, host.actions :]) / spread.exp()
        loss = 0.5 * gap.square() + spread + 0.5 * torch.log(torch.tensor(2 * torch.pi))
        return {Quantity.DYNAMICS: torch.stack([loss[:, :sights].sum(1), loss[:, sights]], 1) * follows(rows)[:, None]}


def follows(rows: EvaluatedRows) -> Tensor:
    """Whether a row has one before it in its sequence, so that it was predicted, `[K]`."""
    batch, chosen = rows.batch, rows.places
    if (taken := batch.taken) is not None:
        batch, chosen = taken.whole, taken.decision[chosen]
    return (chosen > 0) & (batch.turn[(chosen - 1).clamp(min=0)] == batch.turn[chosen])


@dataclass(frozen=True)
class ThreeLikelihoods(ConditionedLikelihood):
    """Minimises `-log pi(a) + w_s (-log p(s)) + w_r (-log p(R))`; see the module.

    Attributes:
        state, to_go: the weights w_s and w_r.
    """

    state: float = 0.1
    to_go: float = 0.1

    needs: ClassVar[frozenset[Quantity]] = frozenset({Quantity.LOGP, Quantity.DYNAMICS})

    def __post_init__(self) -> None:
        super().__post_init__()
        if min(self.state, self.to_go) < 0:
            raise ValueError(f"state and to_go must be at least 0, not {self.state} and {self.to_go}")

    def __call__(self, now: Evaluation, batch: Batch) -> Terms:
        actions, decision = super().__call__(now, batch), batch.occurrences.decision
        state, to_go = now.get(Quantity.DYNAMICS)[decision].unbind(1)
        with torch.no_grad():
            figures = {"state": state, "return": to_go, "action": actions.value}
            metrics = {f"prediction/{name}": (value * actions.weight).sum() for name, value in figures.items()}
        return replace(actions, value=actions.value + self.state * state + self.to_go * to_go, metrics=metrics)


MO_DECISION_TRANSFORMER = DECISION_TRANSFORMER.but(
    name="mo-decision-transformer",
    title="Multi-objective decision transformer",
    source="Ghanem et al., arXiv:2308.16379",
    catalogue_ids=("mo-decision-transformer",),
    axes=("objective", "policy", "data"),
    formula="L = L_a + w_s L_s + w_r L_r,  L_a = -mean log pi(a_t | tau_t),  L_s = -mean log p(s_{t+1} | tau_t, a_t, "
    "c(a_t)),  L_r = -mean log p(R_{t+1} | tau_t, a_t, c(a_t)),  tau_t = R_{t-K+1}, s_{t-K+1}, a_{t-K+1}, "
    "c(a_{t-K+1}), .., R_t, s_t;  c(a) the cell of a",
    conventions={
        **DECISION_TRANSFORMER.conventions,
        "weights": "w_s = w_r = 0.1",
        "states and returns": "Gaussians with a learnt deviation for each number; returns over 20",
        "regions": "four equal cells along each dimension of an action, whose embeddings are added: a token behind the "
        "action's",
        "where they are read": "at the last token of a decision; the first decision of a window was not predicted",
    },
    note="a point in a corridor with recorded episodes of our own stands in for D4RL's locomotion",
    task="crooked:point",
    store=Transitions(rows=32, length=5, gradients_per_step=100, draws=100, begin=1),
    objective=ThreeLikelihoods(policy=PredictedReturn(window=5, scale=20.0)),
    update=GradientStep(lr=3e-3, clip_norm=0.25),
)
