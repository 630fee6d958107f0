"""TTRV's claims."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from hocket.credit.reinforce import ReturnToGo
from hocket.lab.claims.harness import EXACT, Claims, Finding, gap, say
from hocket.lab.toys.recorded_answers import advantages, line, said, shaped
from hocket.lab.toys.training import starting, trained
from hocket.lab.world import World
from hocket.methods.group_relative.ttrv import TTRV

claim = Claims("ttrv", "TTRV, arXiv:2510.06783")
FREQUENCY = TTRV.but({"shaping.0.entropy": 0.0})


@claim("the expected frequency reward of an answer grows with its probability")
def the_expected_frequency_reward_of_an_answer_grows_with_its() -> Finding:
    chance, mean = (0.5, 0.3, 0.2), [0.0, 0.0, 0.0]
    groups = list(itertools.product(range(3), repeat=4))
    graded = shaped(FREQUENCY, [said(str(g), "", label="abc"[own]) for g, group in enumerate(groups) for own in group])
    for group, reward in zip(groups, graded[::4], strict=True):
        mean[group[0]] += math.prod(chance[own] for own in group) * reward / chance[group[0]]
    holds = gap(mean, [1 / 4 + 3 / 4 * p for p in chance]) < EXACT and mean[0] > mean[1] > mean[2]
    return Finding(holds, f"E[r | y] = {line(mean)} for p = 0.5, 0.3, 0.2: 1/N + (N - 1)/N p")


@claim(
    "rewards are shares less 0.75 of the normalised entropy, 0 without an answer; where nobody said a word they stay"
)
def rewards_are_shares_less_0_75_of_the_normalised_entropy_0() -> Finding:
    off, plain = 0.0, TTRV.but({"shaping.0.normalise": False})
    groups: list[Sequence[str | None]] = ["aab", "aaaa", "abcc", ["a", None, None, "b", "c"], [None, None], "bbaacd"]
    rows = [said(str(n), "well", 0.3, label=label) for n, group in enumerate(groups) for label in group]
    graded = [iter(shaped(one, rows)) for one in (TTRV, plain, FREQUENCY.but({"shaping.0.vote": "majority"}))]
    for group in groups:
        shares = {label: group.count(label) / len(group) for label in group}
        entropy, most = -sum(p * math.log(p) for p in shares.values()), max([0, *(shares[one] for one in group if one)])
        for label in group:
            share, usual = shares[label] if label else 0.0, entropy / math.log(max(2, len(shares)))
            wanted = [share - 0.75 * usual, share - 0.75 * entropy, float(share == most > 0)]
            off = max(off, gap([next(side) for side in graded], wanted))
    kept = shaped(TTRV, [said("q", "", reward, label="") for reward in (0.25, 0.75)])
    return Finding(off < EXACT and kept == [0.25, 0.75], say(groups=len(groups), off=off, without_words=str(kept)))


@claim("the entropy term leaves group-centred advantages unchanged", "derived here")
def the_entropy_term_leaves_group_centred_advantages_unchanged() -> Finding:
    rows = [said(str(n // 4), "", label=label) for n, label in enumerate(["a", "a", "b", "c", None, "a", "b", "b"])]
    without = {"credit": ReturnToGo()}
    pairs = ((TTRV, FREQUENCY), (TTRV.but(without), FREQUENCY.but(without)))
    centred, plain = (gap(*(advantages(one, rows) for one in pair)) for pair in pairs)
    saw = say(largest_change_of_an_advantage_with_the_group_baseline=centred, without_a_baseline=plain)
    return Finding(centred < EXACT and plain > 0.1, saw)


@claim("minority answers get graded credit where a majority vote gives 0")
def minority_answers_get_graded_credit_where_a_majority_vote_gives() -> Finding:
    rows = [said("q", "", label=label) for label in "aaabbc"]
    graded, votes = shaped(FREQUENCY, rows), shaped(FREQUENCY.but({"shaping.0.vote": "majority"}), rows)
    holds = gap(graded, [1 / 2] * 3 + [1 / 3] * 2 + [1 / 6]) < EXACT and votes == [1.0] * 3 + [0.0] * 3
    return Finding(holds, f"shares {line(graded)}; majority vote {line(votes)}")


def after(chances: Sequence[Sequence[float]]) -> list[float]:
    """Success by seed on a question per row of starting probabilities, answer 0 right."""
    world = World(len(chances), len(chances[0]), 1, lambda question, answer: float(answer[0] == 0))
    start = starting({(question, ()): row for question, row in enumerate(chances)})
    return [one.success() for one in trained(world, TTRV.but({"rollout.samples": 16}), 50, steps=50, start=start)]


@claim("accuracy approaches that of majority voting, and falls where the mode is wrong", slow=True)
def accuracy_approaches_that_of_majority_voting_and_falls_where_the() -> Finding:
    rises = after([(0.72, 0.2, 0.04, 0.04)] * 8 + [(0.12, 0.8, 0.04, 0.04)] * 2)
    falls = after([(0.4, 0.5, 0.05, 0.05)] * 10)
    saw = f"from 0.60 with a majority vote of 0.80: {line(rises)}; from 0.40 with a wrong mode it falls: {line(falls)}"
    return Finding(min(rises) > 0.76 and max(rises) < 0.81 and max(falls) < 0.2, saw)


claim.shipped(TTRV, "shaping")
