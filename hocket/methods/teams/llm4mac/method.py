"""LLM4MAC: nodes that share a channel learn in words who sends when.

Sending over one channel is a game that nobody sees whole, told in words: a node reads its identity, the slot, its
buffer and the base station's last message, and answers with what it does (`hocket.methods.teams.llm4mac.world`, task
`uplink`). One model plays all nodes and is trained by PPO on the throughput, which all earn alike; each node's
decisions have values and advantages of their own (`EachAgent`). The paper's structured identity embedding is the line
that says which node it is (`identified` of the task): without it all nodes are one policy of what all of them know, and
no better than slotted ALOHA.

The paper's text was not at hand, only its abstract: the words, the moves and the settings of PPO are ours. From mere
coins the shipped model stayed at ALOHA's throughput in the runs tried, so the task's lessons lean a little: in one move
of four the first node sends and the others wait. That is no protocol: every node has packets of its own, and one that
sends alone delivers half of them.
"""

from __future__ import annotations

from hocket.credit.each_agent import EachAgent
from hocket.methods.base.ppo import PPO
from hocket.update.gradient import GradientStep

LLM4MAC = PPO.but(
    name="llm4mac",
    title="LLM4MAC: medium access protocols that emerge in words",
    source="LLM4MAC: An LLM-Driven Reinforcement Learning Framework for MAC Protocol Emergence",
    family="teams",
    catalogue_ids=("llm4mac",),
    axes=("environment", "policy", "team"),
    formula="every node:  a ~ pi(. | identity, slot, buffer, message);  r_t = [one sender] / slots for all;  "
    "A_t = GAE of the node's own decisions;  L = PPO's",
    conventions={
        **PPO.conventions,
        "identity": "a number in words, `Node 2 of 3`; the paper's structured embedding is said to serve the same end",
        "signalling": "the base station tells all nodes whether the last slot was idle, received or a collision; a "
        "node answers with send or wait, and with `?signals=true` may ask, which all hear in the next slot",
        "reward": "the team's throughput, 1 / slots to every node for each packet that is delivered",
        "weights": "one model for all nodes; --cast separate gives each its own",
        "credit": "each node's own turns, with values of its own observations",
        "whitening": "over a node's decisions of a batch, ddof 1, epsilon 1e-8",
        "updates per batch": "2 epochs of 2 mini-batches",
    },
    task="uplink",
    credit=EachAgent(PPO.credit, by="agent"),
    update=GradientStep(epochs=2, minibatches=2),
)
