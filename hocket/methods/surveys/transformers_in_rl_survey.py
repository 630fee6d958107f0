"""Transformers in reinforcement learning: a survey by role and difficulty, and attention as memory (arXiv:2307.05979).

The survey asks which part of an agent a transformer is (representation, model of the world or of the reward, policy)
and which difficulty it is to cure. The one that can be shown on a small network is partial observability: a policy
that attends to what it saw before solves a task that one without memory cannot.

`AttentionWindow` is that memory: actor and critic read, beside what is seen, the values of the last `length`
observations of the episode, weighted by attention from the present one,

    c_t = tanh( sum_k w_k V o_{t-k} ),   w = softmax_k( (Q o_t) . (K o_{t-k}) / sqrt(size) + b_k ),

b a learnt bias by age. It is one layer with one head; transformers have several, with residual gates (GTrXL).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from hocket.core.batch import Batch
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.policy_parts import PolicyPart
from hocket.core.surveys import Axis, Cell, FieldSurvey, Gap, is_a, kind, mentions, row, rows, uses
from hocket.methods.base.ppo import PPO
from hocket.objectives.entropy import EntropyBonus
from hocket.objectives.value import ValueLoss
from hocket.policies.control_networks import Perceptron
from hocket.policies.control_parts import ControlPart, PartHost
from hocket.policies.turns import before


class Attention(nn.Module):
    """Reads windows `[.., length, inputs]`, the present observation first, and gives `[.., size]`."""

    def __init__(self, inputs: int, length: int, size: int, *, key: Key) -> None:
        super().__init__()
        self.queries, self.keys, self.values = (
            Perceptron((inputs, size), last_gain=math.sqrt(2), key=key.derive(name))
            for name in ("queries", "keys", "values")
        )
        self.ages = nn.Parameter(torch.zeros(length))

    def weights(self, rows: Tensor, present: Tensor) -> Tensor:
        """The weight of every row, `[.., length]`; 0 where none is `present`."""
        query, keys = self.queries(rows[..., 0, :]), self.keys(rows)
        score = (keys * query[..., None, :]).sum(-1) / math.sqrt(query.shape[-1]) + self.ages
        shares: Tensor = score.masked_fill(~present, -math.inf).softmax(-1)
        return shares

    def forward(self, rows: Tensor, present: Tensor) -> Tensor:
        return torch.tanh((self.weights(rows, present)[..., None] * self.values(rows)).sum(-2))


@dataclass(frozen=True)
class AttentionWindow(ControlPart):
    """Actor and critic attend to the last observations of the episode, each by an `Attention` of its own.

    Attributes:
        length: observations of a window, the present one among them. size: numbers that are read of it.
    """

    length: int = 16
    size: int = 16

    needed: ClassVar[str] = "attention to what was seen before"
    advice: ClassVar[str] = "choose a task for controllers, such as recall:corridor"
    recurrent: ClassVar[bool] = True
    critics: ClassVar[tuple[str, ...]] = ("attention_value",)

    def __post_init__(self) -> None:
        if self.length < 2 or self.size < 1:
            raise ValueError(f"length must be at least 2 and size at least 1, not {self.length} and {self.size}")

    def begin(self, host: PartHost) -> None:
        if host.module.critic is not None:
            raise ConfigurationError(f"policy {host.name!r} has a critic without attention already; train it anew")
        host.module.add_module("attention", self._made(host, "attention"))

    def add_critics(self, host: PartHost) -> None:
        host.module.add_module("attention_value", self._made(host, "attention of values"))

    def _made(self, host: PartHost, purpose: str) -> Attention:
        return Attention(host.observations, self.length, self.size, key=host.key.derive(purpose))

    def config(self, host: PartHost) -> Mapping[str, Any]:
        return {"attention": [self.length, self.size]}

    def behind(self, host: PartHost) -> int:
        return self.size

    def read(self, host: PartHost, batch: Batch, chosen: Tensor, seen: Tensor, *, critic: bool) -> Tensor:
        lengths = torch.bincount(batch.turn, minlength=batch.turns)
        place = chosen - (torch.cumsum(lengths, 0) - lengths)[batch.turn[chosen]]
        ages = torch.arange(self.length)
        present = place[:, None] >= ages
        rows = host.as_read(host.observed(batch))[(chosen[:, None] - ages).clamp(min=0)]
        return torch.cat([seen, self._of(host, critic=critic)(rows, present)], 1)

    def read_last(self, host: PartHost, batch: Batch, rows: Sequence[int], last: Tensor, seen: Tensor) -> Tensor:
        read, windows, present = host.as_read(host.observed(batch)), list[Tensor](), list[Tensor]()
        for earlier, end in zip(before(batch, rows), last, strict=True):
            window = torch.cat([end[None], read[earlier].flip(0)])[: self.length]
            blank = window.new_zeros(self.length - len(window), window.shape[1])
            windows.append(torch.cat([window, blank]))
            present.append(torch.arange(self.length) < len(window))
        context: Tensor = self._of(host, critic=True)(torch.stack(windows), torch.stack(present))
        return torch.cat([seen, context], 1)

    def carries(self, host: PartHost) -> int:
        return (self.length - 1) * (host.observations + 1)

    def step(self, host: PartHost, seen: Tensor, carried: Tensor) -> tuple[Tensor, Tensor]:
        size = host.observations
        past = carried.reshape(len(seen), self.length - 1, size + 1)
        latest = torch.cat([seen[:, :size], seen.new_ones(len(seen), 1)], 1)[:, None]
        window = torch.cat([latest, past], 1)
        context: Tensor = self._of(host, critic=False)(window[..., :size], window[..., size] > 0)
        return torch.cat([seen, context], 1), window[:, :-1].reshape(len(seen), -1)

    @staticmethod
    def _of(host: PartHost, *, critic: bool) -> nn.Module:
        return host.module.get_submodule("attention_value" if critic else "attention")


@dataclass(frozen=True)
class AttentiveEntropy(EntropyBonus):
    """`EntropyBonus` of a policy that attends to what it saw before, and asks for it."""

    policy_parts: ClassVar[tuple[PolicyPart, ...]] = (AttentionWindow(),)


PPO_ATTENTION = PPO.but(
    name="ppo-attention",
    title="PPO with attention to earlier observations",
    source="the memory of GTrXL, Parisotto et al., arXiv:1910.06764, in one layer; the survey is Agarwal et al., "
    "arXiv:2307.05979",
    catalogue_ids=("transformers-in-rl-survey",),
    axes=("policy",),
    formula="PPO of pi(a | o_t, c_t) - 0.01 H,  "
    "c_t = tanh(sum_k softmax_k(Q o_t . K o_{t-k} / sqrt(d) + b_k) V o_{t-k})",
    conventions={
        **PPO.conventions,
        "entropy": "bonus 0.01",
        "attention": "one layer and one head over the last 16 observations, of actor and critic each its own",
    },
    task="recall:corridor",
    regularisers=(
        ValueLoss(coefficient=0.5, aggregate="token-mean"),
        AttentiveEntropy(coefficient=0.01, aggregate="token-mean"),
    ),
)

_MODEL = Gap("models of worlds are learnt by perceptrons alone", until=mentions("learnt model of the world"))

TRANSFORMERS_IN_RL_SURVEY = FieldSurvey(
    name="transformers-in-rl-survey",
    title="Transformers in Reinforcement Learning: A Survey",
    source="Agarwal et al., arXiv:2307.05979",
    witness="in `recall:corridor` attention to earlier observations earns twice what a policy without memory can",
    axes=(
        Axis(
            "role",
            "What part of the agent the transformer is.",
            (
                Cell("representation", "it encodes what is seen", is_a("ppo-attention") | row("clam-agent-modelling")),
                Cell("transition-model", "it predicts the next state", _MODEL),
                Cell("reward-model", "it predicts preferences or rewards", uses("BradleyTerry")),
                Cell("policy", "it chooses actions", is_a("grpo") | is_a("ppo-rlhf")),
                Cell(
                    "sequence-policy",
                    "trajectories with their returns are sequences to continue",
                    is_a("decision-transformer"),
                ),
            ),
        ),
        Axis(
            "difficulty",
            "Which difficulty it is to cure.",
            (
                Cell("instability", "training that diverges", rows("gmpo", "bapo", "areal")),
                Cell("credit", "rewards that come late", is_a("process-reward") | row("gigpo")),
                Cell("partial-observability", "what matters was seen before", is_a("ppo-attention") | row("contrabar")),
                Cell(
                    "opacity",
                    "what a policy attends to",
                    Gap("no page shows attention", until=mentions("attention map")),
                ),
            ),
        ),
    ),
    named=(
        Cell("GTrXL", "a gated transformer as memory", is_a("ppo-attention")),
        Cell("RLHF", "language models fine-tuned by PPO", is_a("ppo-rlhf")),
        Cell("Decision Transformer", "actions given returns", is_a("decision-transformer")),
        Cell("transformer world models", "IRIS and others", _MODEL),
        Cell(
            "tree search",
            "search in a learnt model",
            Gap("search is over messages", until=kind("searcher") & is_a("muzero")),
        ),
    ),
)
