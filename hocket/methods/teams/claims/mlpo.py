"""MLPO's claims, on a leader of three peers each of whom knows another kind of question."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Hashable
from statistics import fmean
from typing import Any

import numpy as np
import torch

from hocket.lab.claims.harness import SEEDS, Claims, Finding, say
from hocket.lab.talk import LookupPolicy, TalkBench
from hocket.lab.toys.talks import by_last, stepped
from hocket.methods.teams.mlpo import MLPO, LeaderPeers
from hocket.testing import Part, rehearse
from hocket.types import Message, Scenario

claim = Claims("mlpo", "derived")
WINDS = ("north", "south", "east", "west")
SKILL = ((0.9, 0.45, 0.35), (0.35, 0.9, 0.45), (0.45, 0.35, 0.9))
"""How often each of three peers is right about each of three kinds of question."""
ASKED = {
    (kind, wind): Scenario(f"{kind} {wind}", f"kind {kind} number {number}", answer=wind)
    for kind in range(3)
    for number, wind in enumerate(WINDS)
}


def solved(peer: int, text: str) -> dict[str, float]:
    """A peer as a table: right as often as its skill says, wrong answers equally likely."""
    _, kind, _, number = text.split()
    right = SKILL[peer][int(kind)]
    return {WINDS[int(number)]: float(np.log(3 * right / (1 - right)))}


def view(messages: tuple[Message, ...]) -> Hashable:
    """With peers the leader sees the kind of question and what they said; alone it sees the question."""
    head, *answers = str(messages[-1]["content"]).split("\n")
    return (head.split()[1], tuple(one.split(": ")[1] for one in answers)) if answers else head


def led(seed: int) -> TalkBench:
    roles = {f"peer_{n}": f"solver {n}" for n in (1, 2, 3)}
    peers = {f"solver {n}": by_last(functools.partial(solved, n - 1)) for n in (1, 2, 3)}
    bench: dict[str, Any] = {"roles": roles, "frozen": frozenset(peers), "prior": peers, "view": view, "lr": 0.2}
    return TalkBench(LeaderPeers(peers=3, alone=0.25), list(ASKED.values()), WINDS, MLPO, seed=seed, **bench)


def chances(kind: int, wind: str) -> list[tuple[float, tuple[str, ...]]]:
    """Everything the peers may say to a question, with its probability, and those of the questions: all alike."""
    every = list(itertools.product(WINDS, repeat=3))
    right = [
        [own[kind] if one == wind else (1 - own[kind]) / 3 for one, own in zip(s, SKILL, strict=True)] for s in every
    ]
    return [(float(np.prod(each)) / len(ASKED), said) for each, said in zip(right, every, strict=True)]


def accuracy(policy: LookupPolicy) -> tuple[float, float]:
    """A leader's exact accuracy with peers, and alone."""
    together = alone = 0.0
    for (kind, wind), scenario in ASKED.items():
        right = WINDS.index(wind)
        for chance, said in chances(kind, wind):
            told = "\n".join([str(scenario.prompt), *(f"Peer {n}: {one}" for n, one in enumerate(said, start=1))])
            together += chance * float(policy.probabilities(told)[right])
        alone += float(policy.probabilities(str(scenario.prompt))[right]) / len(ASKED)
    return together, alone


def majority() -> float:
    """Exact accuracy of the vote, ties broken at random."""
    right = 0.0
    for kind, wind in ASKED:
        for chance, said in chances(kind, wind):
            winners = {one for one in said if said.count(one) == max(map(said.count, said))}
            right += chance * float(wind in winners) / len(winners)
    return right


def bayes() -> float:
    """Exact accuracy of who knows the peers' skills."""
    tables = [[[chance for chance, _ in chances(kind, wind)] for wind in WINDS] for kind in range(3)]
    return math.fsum(max(ways) for table in tables for ways in zip(*table, strict=True))


@claim("the trained leader beats the best peer and the vote, and alone itself untrained", "section 4", slow=True)
def the_trained_leader_beats_the_best_peer_and_the_vote_and_alone() -> Finding:
    best, vote = max(map(fmean, SKILL)), majority()
    right, single = zip(*(accuracy(led(seed).run(90).policies["leader"]) for seed in SEEDS), strict=True)
    together, alone = min(right), min(single)
    others = {"best peer": best, "vote": vote, "Bayes": bayes()}
    saw = say(accuracy_after_90_steps=fmean(right), worst=together, **others, without_peers=alone, untrained=0.25)
    return Finding(together > vote + 0.05 and together > best + 0.05 and alone > 0.25 + 0.2, saw)


@claim("in each further round peers revise after the leader's answer, the leader after all of theirs")
def in_each_further_round_peers_revise_after_the_leaders_answer_the() -> Finding:
    def exact(text: str, scenario: Scenario) -> float:
        return float(text == scenario.answer)

    leader, alone, play = Part("a", "b", "c"), Part("d"), functools.partial(rehearse, verifier=exact)
    peers = {f"peer_{n}": Part(*(f"{n}{turn}" for turn in "xyz")) for n in (1, 2)}
    (played,) = play(LeaderPeers(peers=2, rounds=3), Scenario("s", "?", answer="c"), {"leader": leader, **peers})
    (single,) = play(LeaderPeers(peers=2, alone=1.0), Scenario("s", "?", answer="d"), {"leader": alone, **peers})
    (usual,) = play(LeaderPeers(), Scenario("s", "?"), {role: Part(otherwise="e") for role in LeaderPeers().roles})
    told = [f"Peer 1: 1{turn}\nPeer 2: 2{turn}" for turn in "xyz"]
    holds = leader.questions == [f"?\n{told[0]}", *told[1:]] and alone.questions == ["?"] and len(usual.turns) == 4
    revised = ["?", *(f"The leader says: {answer}" for answer in "ab")]
    holds &= all(peer.questions == revised for peer in peers.values()) and MLPO.workflow == LeaderPeers.name
    holds &= [one.scores["team"].value for one in (played, single)] == [1.0, 1.0]
    return Finding(holds, say(leader_read=str(leader.questions), alone=str(alone.questions)))


@claim("peer tokens have no gradient, and samples share one prompt")
def peer_tokens_have_no_gradient_and_samples_share_one_prompt() -> Finding:
    bench = led(1)
    batch, played = stepped(bench)
    learner, mine = bench.learners["leader"], batch.of_policy("leader")
    peers = ~torch.isin(torch.arange(batch.decisions), mine.occurrences.decision)
    now = learner.policy.evaluate(batch, learner.recipe.needs)
    logp = now.logp.detach().clone().requires_grad_()
    (gradient,) = torch.autograd.grad(learner.recipe.loss(type(now)(logp=logp), mine)[0].total(), logp)
    still = max(float(bench.policies[f"solver {n}"].module.logits.detach().abs().max()) for n in (1, 2, 3))
    asked = ((turn, one) for one in played for turn in one.turns if turn.role == "leader")
    prompts = {(turn.prompt[-1]["content"], one.scenario.id) for turn, one in asked}
    scenarios = {one.scenario.id for one in played}
    of_peers, of_leader = float(gradient[peers].abs().max()), float(gradient.abs().max())
    saw = say(peer_decisions=int(peers.sum()), largest_gradient=of_peers, leaders=of_leader, samples=8)
    holds = of_peers == 0 and of_leader > 0 and still == 0 and len(prompts) == len(scenarios)
    return Finding(holds, f"{saw}, {say(leader_prompts=len(prompts), questions=len(scenarios))}")


claim.shipped(MLPO, "cast", trains=("leader",))
