"""What igpo claims."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from hocket.core.batch import Level
from hocket.core.keys import Key
from hocket.core.signals import REWARD
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.microscope import Reading
from hocket.lab.talk import Prior, TalkBench, last_message
from hocket.lab.toys.turn_toys import SEEDS, episode, seen, worst
from hocket.methods.agents.igpo import IGPO, IGPO_UNBIASED, WithBeliefs
from hocket.methods.base.grpo import GRPO
from hocket.recipe import Recipe
from hocket.types import Message, Scenario
from hocket.workflows.team import Team
from hocket.workflows.workflow import Outcome, Workflow

claim = Claims("igpo", "arXiv:2510.14967")


def believing(group: str, reward: float, beliefs: Sequence[float | None], size: int = 2) -> dict[str, Any]:
    """An episode of as many turns as there are beliefs."""
    row = episode(group, reward, [{"tokens": [n] * size} for n in range(len(beliefs))], info={"beliefs": list(beliefs)})
    del row["turn_scores"]
    return row


def random_beliefs(key: Key, groups: int = 2) -> list[Any]:
    rng = key.numpy()
    return [
        believing(f"{group}", float(rng.integers(0, 2)), rng.random(int(rng.integers(1, 5))).tolist())
        for group in range(groups)
        for _ in range(4)
    ]


def turn_rewards(rows: Sequence[Any]) -> list[list[float]]:
    """What credit sees per turn, the outcome aside."""
    batch, _ = IGPO.assess(Reading({"version": 1, "trajectories": list(rows)}).batch, IGPO.init(), {})
    values = batch.scores[REWARD[Level.TURN]].values.tolist()
    found, at = [], 0
    for row in rows:
        turns = row["turn"][-1] + 1
        found.append(values[at : at + turns])
        at += turns
    return found


@claim("With gamma = 1 the turn rewards telescope to b_T - b_0.")
def gains_telescope() -> Finding:
    gap = 0.0
    for number in range(20):
        rows = random_beliefs(Key.of(number))
        for row, gains in zip(rows, turn_rewards(rows), strict=True):
            held = row["info"]["beliefs"]
            gap = max(gap, abs(sum(gains) - (held[-1] - held[0])), abs(gains[-1]))
    return Finding(gap < 1e-12, f"sum of gains against b_T - b_0, 20 random batches: {gap:.1e}")


@claim("A turn that leaves the belief as it was has reward 0.")
def an_idle_turn_earns_nothing() -> Finding:
    gains = turn_rewards([believing("g", 0.0, [0.2, 0.2, 0.7, 0.7])])[0]
    return Finding(gains[0] == 0.0 and gains[2] == 0.0, f"beliefs 0.2 0.2 0.7 0.7 earn {[round(g, 3) for g in gains]}")


@claim("Groups of wrong answers still have advantages that are not 0.")
def wrong_groups_still_teach() -> Finding:
    rows = [believing("g", 0.0, held) for held in ([0.1, 0.5, 0.4], [0.1, 0.1, 0.1], [0.1, 0.2], [0.1])]
    ours = max(abs(a) for row in seen(IGPO, rows)["advantages"] for a in row)
    grpo = max(abs(a) for row in seen(GRPO, rows)["advantages"] for a in row)
    return Finding(ours > 0.1 and grpo == 0.0, f"nobody right: largest |A| {ours:.2f}, GRPO's {grpo:.1e}")


@claim("Rewards are normalised over all turns of the group and then summed.")
def it_is_the_formula() -> Finding:
    """Rewards normalised over all turns of the group, then summed from each turn on with a discount."""
    gap = 0.0
    for number in range(20):
        rows, gamma = random_beliefs(Key.of(number)), 0.9
        rewards = []
        for row in rows:
            held = row["info"]["beliefs"]
            rewards.append([b - a for a, b in itertools.pairwise(held)] + [row["scores"]["reward"]])
        found = seen(IGPO.but({"credit.gamma": gamma}), rows)["advantages"]
        for n, row in enumerate(rows):
            pool = [r for m, other in enumerate(rows) if other["group"] == row["group"] for r in rewards[m]]
            middle = fmean(pool)
            spread = math.sqrt(fmean([(r - middle) ** 2 for r in pool])) + 1e-6
            normal = [(r - middle) / spread if max(pool) > min(pool) else 0.0 for r in rewards[n]]
            to_go = [sum(gamma ** (k - t) * normal[k] for k in range(t, len(normal))) for t in range(len(normal))]
            gap = max(gap, worst(found[n], [to_go[turn] for turn in row["turn"]]))
    return Finding(gap < 1e-10, f"against the formula counted anew, 20 random batches: {gap:.1e}")


CITIES = ("rome", "oslo", "lima")
LANDS = tuple(f"land {letter}" for letter in "abcdef")
WORDS = ("ann", *CITIES, *LANDS, "weather", "news")


@dataclass(frozen=True)
class TwoHops(Workflow):
    """In which land does Ann live? Looking Ann up tells her city, looking the city up tells the land.

    Every scenario asks the same and differs in what is true. Two look-ups and an answer; or, if `free`, saying a land
    is the answer whenever it is said, at most after four look-ups.
    """

    free: bool = False

    roles = ("seeker",)

    async def play(self, scenario: Scenario, team: Team) -> Outcome:
        city, told = scenario.metadata["city"], "where is ann"
        for look in range(5 if self.free else 3):
            said = str(await team.seeker.fresh()(told))
            if said in LANDS and (self.free or look == 2):
                return Outcome(answer=said, rewards={"right": float(said == scenario.answer)})
            if said == "ann":
                told = f"ann is in {city}"
            elif said == city and city in told:
                told = f"{city} is in {scenario.answer}"
        return Outcome(rewards={"right": 0.0})


SCENARIOS = [Scenario(land, "?", land, metadata={"city": CITIES[n % len(CITIES)]}) for n, land in enumerate(LANDS)]


def inclined(strength: float) -> Prior:
    """Says the land that it has just read more often than not, and tends to look up what it was told of."""

    def prior(messages: tuple[Message, ...], said: tuple[str, ...]) -> dict[str, float]:
        told = str(messages[-1]["content"]).rpartition(" is in ")[2]
        return {told: 3.0 if told in LANDS else strength} if told in WORDS else {"ann": strength}

    return prior


def bench(recipe: Recipe, seed: int, *, free: bool = False) -> TalkBench:
    """The belief is the chance of saying the right land at once, as every answer here is one word."""
    prior, asked = inclined(0.0 if free else 1.0), recipe
    if isinstance(recipe.rollout, WithBeliefs):
        asked = recipe.but({"rollout.phrase": ""})
    return TalkBench(TwoHops(free), SCENARIOS, WORDS, asked, view=last_message, prior=prior, seed=seed, lr=0.1)


@claim("Beliefs are those of the policy that played.")
def beliefs_are_the_policys_own() -> Finding:
    """What the rollout writes down is the chance of the right word where each turn began."""
    made = bench(IGPO, 0)
    made.run(1)
    (policy,) = made.policies.values()
    wanted = policy.frozen_copy()
    trajectories = made.step().trajectories
    gap = 0.0
    for one in trajectories:
        for turn, belief in zip(one.turns, one.info["beliefs"], strict=True):
            chance = wanted.probabilities(str(turn.prompt[-1]["content"]))[WORDS.index(str(one.scenario.answer))]
            gap = max(gap, abs(belief - float(chance)))
    return Finding(gap < 1e-6, f"{len(trajectories)} trajectories: beliefs off by {gap:.1e}")


@claim(
    "On a two-hop look-up it learns faster than from the outcome alone, and fewer groups have no gradient.",
    slow=True,
)
def it_is_faster_than_the_outcome_alone() -> Finding:
    runs = {recipe.name: [bench(recipe, seed).run(30) for seed in SEEDS] for recipe in (GRPO, IGPO)}
    plain, ours = ([run.success(100) for run in runs[name]] for name in ("grpo", "igpo"))
    idle = {name: fmean(_idle(run) for run in found) for name, found in runs.items()}
    ahead = [b - a for a, b in zip(plain, ours, strict=True)]
    return Finding(
        min(ahead) > 0.1 and fmean(ahead) > 0.15 and idle["igpo"] < idle["grpo"] - 0.1,
        f"right after 30 steps of two look-ups and an answer: GRPO {_shown(plain)}, IGPO {_shown(ours)}; groups "
        f"without gradient {idle['grpo']:.0%} and {idle['igpo']:.0%}, 5 seeds",
    )


def _idle(run: TalkBench) -> float:
    """The share of groups without a gradient."""
    return 1 - fmean(row["groups/with_signal"] / row["groups/total"] for row in run.history)


@claim(
    "Where the policy decides when to answer, centring rewards before summing them costs right answers.",
    "derived; hocket.lab.theorems.turns",
    slow=True,
)
def where_stopping_is_free_the_mean_hurts() -> Finding:
    """Taking the mean away once per turn still to come pays for answering early; a mean of returns does not."""
    found = {
        recipe.name: [bench(recipe, seed, free=True).run(30).success(100) for seed in SEEDS]
        for recipe in (IGPO, IGPO_UNBIASED)
    }
    paper, free = found["igpo"], found["igpo-unbiased"]
    return Finding(
        fmean(free) > fmean(paper) + 0.15 and all(b > a for a, b in zip(paper, free, strict=True)),
        f"right after 30 steps when the answer may come at any turn: IGPO {_shown(paper)}, its unbiased form "
        f"{_shown(free)}, 5 seeds",
    )


def _shown(numbers: Sequence[float]) -> str:
    return " ".join(f"{number:.2f}" for number in numbers)
