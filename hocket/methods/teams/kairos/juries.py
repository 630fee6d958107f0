"""Quizzes beside peers, exactly: how right an agent is that weighs them by their records, follows them, or does not.

A peer's answer is right with its reliability rho, and each of the C - 1 wrong answers equally likely otherwise. With
the record of k right rounds of h, an expert (reliability e, share x) is as likely as

    x e^k (1 - e)^(h - k) / (x e^k (1 - e)^(h - k) + (1 - x) n^k (1 - n)^(h - k)),

which gives the mean reliability rho_k. The likelihood of an answer is linear in a peer's reliability, so rho_k is all
that a record says, and the posterior is a vote with weights log(rho (C - 1) / (1 - rho)), the clue's among them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hocket.methods.teams.kairos.task import Contest, Robustness

Chances = NDArray[np.float64]


class Evidence(NamedTuple):
    """What an agent knows: its clue, and of each peer how many rounds it was right in and what it says now."""

    clue: int
    peers: tuple[tuple[int, int], ...]


Agent = Callable[[Contest, Evidence], Chances]
"""How likely each option is chosen, `[C]`."""


def reliability(contest: Contest, right: int) -> float:
    """rho_k, the mean reliability of a peer that was right in k of the rounds."""
    chances = _kinds(contest, right)
    whole = sum(chances)
    means = (contest.expert, contest.novice)
    return sum(c * m for c, m in zip(chances, means, strict=True)) / whole if whole else 1 / contest.options


def record_chance(contest: Contest, right: int) -> float:
    """How likely a peer is right in exactly k of the rounds."""
    return math.comb(contest.rounds, right) * sum(_kinds(contest, right))


def _kinds(contest: Contest, right: int) -> tuple[float, float]:
    wrong = contest.rounds - right
    expert = contest.experts * contest.expert**right * (1 - contest.expert) ** wrong
    return expert, (1 - contest.experts) * contest.novice**right * (1 - contest.novice) ** wrong


def likelihood(contest: Contest, told: Evidence) -> Chances:
    """How likely what is told is under each truth, records included, `[C]`."""
    found = _answered(contest, contest.own, told.clue)
    for right, said in told.peers:
        found = found * record_chance(contest, right) * _answered(contest, reliability(contest, right), said)
    return found


def _answered(contest: Contest, reliable: float, said: int) -> Chances:
    found = np.full(contest.options, (1 - reliable) / (contest.options - 1))
    found[said] = reliable
    return found


def bayes(contest: Contest, told: Evidence) -> Chances:
    """The likeliest option; those equally likely share."""
    return _most(likelihood(contest, told))


def conformist(contest: Contest, told: Evidence) -> Chances:
    """What most peers say, whatever their records; of several its clue, if it is among them."""
    votes = np.zeros(contest.options)
    for _, said in told.peers:
        votes[said] += 1
    votes[told.clue] += 0.5
    return _most(votes)


def stubborn(contest: Contest, told: Evidence) -> Chances:
    """Its clue."""
    return _most(np.eye(contest.options)[told.clue])


def _most(values: Chances) -> Chances:
    best = np.where(values >= values.max() * (1 - 1e-12), 1.0, 0.0)
    shared: Chances = best / best.sum()
    return shared


def everything_told(contest: Contest) -> Iterator[Evidence]:
    """All that an agent may know."""
    options = range(contest.options)
    one = list(itertools.product(range(contest.rounds + 1), options))
    for clue in options:
        for peers in itertools.product(one, repeat=contest.peers):
            yield Evidence(clue, peers)


def exactly(contest: Contest, agent: Agent) -> Robustness:
    """What an agent does beside honest peers that follows its clue when alone; every option is true equally often."""
    solo: list[float] = []
    right: list[float] = []
    weights: list[float] = []
    for told in everything_told(contest):
        chosen, chances = agent(contest, told), likelihood(contest, told) / contest.options
        for truth in range(contest.options):
            solo.append(float(told.clue == truth))
            right.append(float(chosen[truth]))
            weights.append(float(chances[truth]))
    return Robustness.of(solo, right, weights)


def one_peer_line(contest: Contest) -> float:
    """The best accuracy beside one honest peer: `sum_k P(k) max(own, rho_k)`, where neither is below 1/C."""
    ways: Sequence[int] = range(contest.rounds + 1)
    return sum(record_chance(contest, k) * max(contest.own, reliability(contest, k)) for k in ways)
