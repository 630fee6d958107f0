"""VGC-Bench's training against populations: fictitious play and double oracle (arXiv:2506.10326).

The benchmark compares self-play with fictitious play, against an even mixture of former selves, and double oracle,
against a Nash mixture of them (`PastSelves` of `hocket.hooks.past_selves` with `meta` = `nash`, whose payoff table is
played). Battles of Pokémon are not here; Kuhn poker, whose equilibrium is known, stands for them.
"""

from __future__ import annotations

from hocket.core.requirements import Requirement
from hocket.hooks.past_selves import PastSelves
from hocket.methods.marl.ippo import IPPO

VGC_BENCH = IPPO.but(
    name="vgc-bench",
    title="Double oracle: PPO against a Nash mixture of former selves",
    source="A Benchmark for Generalizing Across Diverse Team Strategies in Competitive Pokémon, arXiv:2506.10326",
    catalogue_ids=("vgc-bench",),
    axes=("environment", "team", "analysis"),
    formula="ippo against a former self, drawn by p:  p A >= v 1 at the largest v,  A_ij = what self i earns against "
    "j; a copy enters every k steps",
    conventions={
        **IPPO.conventions,
        "agents": "one network in both seats, its seat is a one-hot number",
        "population": "a copy every 5 steps, the latest 16; the oracle goes on from the network as it is",
        "payoffs": "half the difference of what both earn, over 200 games with exchanged seats",
        "meta-solver": "a linear programme; the even mixture is `vgc-bench-fictitious-play`",
    },
    note="the solvers alone, in Kuhn poker and rock-paper-scissors: no Pokémon battles, no teams to generalise over, "
    "no records of people to clone, no Elo",
    task="openspiel:kuhn_poker?kind=control",
    requires=(Requirement.AGENTS,),
    hooks=(PastSelves(every=5, keep=16, share=1.0, pool="latest", meta="nash", matches=200),),
)


FICTITIOUS_PLAY = VGC_BENCH.but(
    name="vgc-bench-fictitious-play",
    title="Fictitious play: PPO against an even mixture of former selves",
    formula="ippo against a former self, drawn evenly; a copy enters every k steps",
    **{"hooks.0.meta": "games"},
)
