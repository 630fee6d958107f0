"""Wireless networks and language models trained by RL, each in the other's service: a survey (abstract).

One way a language model runs the network: it shares out channels, adapts settings and decides in time. The other way
the network carries the model: its training, its deployment and its inference, over links that are slow and fail.

The second way has a figure that decides: the bytes of an update. `SharedUplink` is a link that carries so many bytes in
a round and loses what is beyond, for `hocket.distributed.swarm.averaging.Averaging`; `hocket swarm --average N` counts
the bytes of a run.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hocket.core.surveys import Axis, Cell, FieldSurvey, Gap, is_a, mentions, row, rows


@dataclass
class SharedUplink:
    """The uplink of a cell, as the `deliver` of a swarm: messages of a round in turn, as long as they fit.

    The node that begins moves on by one every round, so that each is first in its turn.

    Attributes:
        capacity: bytes of a round. nodes: senders. sent, lost: messages so far, by sender.
    """

    capacity: int
    nodes: tuple[str, ...]
    sent: dict[str, int] = field(default_factory=dict)
    lost: dict[str, int] = field(default_factory=dict)
    _left: int = 0

    def round(self, number: int) -> list[str]:
        """Opens a round; the order in which nodes are to send."""
        self._left = self.capacity
        first = number % len(self.nodes)
        return [*self.nodes[first:], *self.nodes[:first]]

    def __call__(self, sender: str, receiver: str, data: bytes) -> list[bytes]:
        """The message, or nothing where what is left of the round does not carry it."""
        counts = self.lost if len(data) > self._left else self.sent
        counts[sender] = counts.get(sender, 0) + 1
        if len(data) > self._left:
            return []
        self._left -= len(data)
        return [data]


WIRELESS_RL_LLM_SURVEY = FieldSurvey(
    name="wireless-rl-llm-survey",
    title="Exploring Mutual Empowerment Between Wireless Networks and RL-based LLMs: A Survey",
    source="Survey (abstract)",
    witness="one way the shipped model learns medium access on `uplink` (`hocket train --recipe llm4mac`); the other "
    "way nodes train it over an uplink that carries every second update, with the bytes counted "
    "(`hocket swarm --average 5`)",
    axes=(
        Axis(
            "direction",
            "Which of the two serves the other.",
            (
                Cell("llm-for-wireless", "a language model runs the network", row("llm4mac")),
                Cell(
                    "wireless-for-llm",
                    "the network carries training and inference",
                    rows("plural-llm", "sapo-swarm", "lattica"),
                ),
            ),
        ),
        Axis(
            "control",
            "What is decided in the network.",
            (
                Cell("resources", "who may use the channel, and when", row("llm4mac")),
                Cell(
                    "power",
                    "how strongly stations send",
                    Gap("no world has powers and interference", until=mentions("transmission power")),
                ),
                Cell("optimisation", "settings and places of stations", row("uav-distributed-sarsa")),
                Cell("real-time", "decisions within a slot", rows("llm4mac", "uav-distributed-sarsa")),
            ),
        ),
        Axis(
            "infrastructure",
            "What the network does for the model.",
            (
                Cell("training", "weights are learnt where the data are, and averaged", row("plural-llm")),
                Cell("experience", "samples are shared in place of weights", rows("sapo-swarm", "hail-to-the-thief")),
                Cell("without-centre", "nodes find and hand each other weights", row("lattica")),
                Cell(
                    "deployment",
                    "models are made small enough for the edge",
                    is_a("on-policy-distillation") | is_a("distillm"),
                ),
                Cell(
                    "distributed-inference",
                    "a model is computed in parts, on a device and at the edge",
                    Gap("every sampler holds all layers", until=mentions("split inference")),
                ),
            ),
        ),
        Axis(
            "technique",
            "How the language models are trained.",
            (
                Cell("supervised", "instruction tuning", is_a("sft")),
                Cell("rlhf", "PPO on a learnt reward", is_a("ppo-rlhf")),
                Cell("preferences", "directly on comparisons", is_a("dpo")),
                Cell("verified", "group-relative RL on rules, for reasoning", is_a("grpo")),
                Cell("distillation", "a small model from a large one", is_a("gkd")),
            ),
        ),
        Axis(
            "obstacle",
            "What stands in the way.",
            (
                Cell("communication", "bytes and lost messages", rows("plural-llm", "lattica")),
                Cell(
                    "latency", "samples that are stale when they arrive", row("areal") | is_a("m2po") | is_a("impala")
                ),
                Cell("privacy", "data that must stay where they are", row("plural-llm")),
                Cell("security", "nodes and prompts that attack", rows("hail-to-the-thief", "sentinel")),
                Cell("energy", "what a device can spend", Gap("energy is not measured", until=mentions("energy"))),
            ),
        ),
    ),
    named=(
        Cell("PPO", "RLHF's optimiser", is_a("ppo")),
        Cell("DPO", "preferences without a reward model", is_a("dpo")),
        Cell("GRPO", "the optimiser of DeepSeek's models", is_a("grpo")),
        Cell("federated averaging", "weights of nodes are averaged", row("plural-llm")),
    ),
)
