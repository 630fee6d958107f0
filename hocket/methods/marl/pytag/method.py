"""PyTAG: tabletop games with masks and any number of players, and self-play PPO as baseline (arXiv:2307.09905).

The bridge leads to OpenSpiel's and PettingZoo's games here (`Table` of `hocket.methods.marl.pytag.world`),
where the original's leads to games in Java. One network plays all seats and learns by PPO from what each of them
earned. In a share of the steps one seat is taken by what the network was some steps ago, which learns nothing
(`PastSelves`); chance and tree search are scripted opponents of the task: `?against=random+mcts`.
"""

from __future__ import annotations

from hocket.core.requirements import Requirement
from hocket.hooks.past_selves import PastSelves
from hocket.methods.marl.ippo import IPPO

PYTAG = IPPO.but(
    name="pytag",
    title="PyTAG's baseline: self-play PPO with masks at a table",
    source="PyTAG: Tabletop Games for Multi-Agent Reinforcement Learning, arXiv:2307.09905",
    catalogue_ids=("pytag",),
    axes=("environment", "team"),
    formula="ippo of one network in all seats;  in half of the steps one seat is the network of k steps ago",
    conventions={
        **IPPO.conventions,
        "world": "games of OpenSpiel and PettingZoo; the original's are in Java",
        "agents": "one network in all seats, told its seat by a one-hot number; a game of several numbers of players "
        "tells that number, too",
        "rewards": "what the game pays, at the last move before",
        "former selves": "a copy every 5 steps; in half of the steps one of the 4 latest has a seat of every game",
        "scripted opponents": "chance and tree search by the task's `against`; the paper's pool has both",
    },
    task="openspiel:tic_tac_toe?kind=control",
    requires=(Requirement.AGENTS,),
    hooks=(PastSelves(every=5, keep=4, pool="latest"),),
)
