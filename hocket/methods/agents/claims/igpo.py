"""IGPO's claims."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import islice, pairwise
from statistics import fmean
from typing import Any

from hocket.agents.workflows.team import Team
from hocket.agents.workflows.workflow import Outcome, Workflow
from hocket.core.batch import Level
from hocket.core.keys import Key
from hocket.core.signals import REWARD
from hocket.lab.claims.harness import SEEDS, Claims, Finding, below, gap, inspect_rows, say
from hocket.lab.microscope import RecordedBatch
from hocket.lab.talk import TalkBench, last_message
from hocket.lab.toys.episodes import episode, to_go, without
from hocket.lab.toys.recorded_answers import document, lines
from hocket.lab.toys.talks import played_by
from hocket.methods.agents.igpo import IGPO, IGPO_SEPARATE, IGPO_UNBIASED, WithBeliefs
from hocket.methods.base.grpo import GRPO
from hocket.recipe import Recipe
from hocket.types import Message, Scenario

claim = Claims("igpo", "arXiv:2510.14967")


def believing(group: str, reward: float, beliefs: Sequence[float | None]) -> dict[str, Any]:
    """An episode of as many turns as there are beliefs, two decisions each."""
    turns = [{"tokens": [n] * 2} for n in range(len(beliefs))]
    return without([episode(group, reward, turns, info={"beliefs": list(beliefs)})], "turn_scores")[0]


def random_beliefs(seed: int) -> list[Any]:
    rng = Key.of(seed).numpy()
    drawn = ((float(rng.integers(0, 2)), rng.random(int(rng.integers(1, 5))).tolist()) for _ in range(8))
    return [believing(f"{n // 4}", *one) for n, one in enumerate(drawn)]


def turn_rewards(rows: Sequence[Any]) -> list[list[float]]:
    """What credit sees per turn, the outcome aside."""
    batch, _ = IGPO.compute_credit(RecordedBatch(document(rows)).batch, IGPO.init(), {})
    values = iter(batch.scores[REWARD[Level.TURN]].values.tolist())
    return [list(islice(values, row["turn"][-1] + 1)) for row in rows]


@claim("With gamma = 1 the turn rewards telescope to b_T - b_0.")
def with_gamma_1_the_turn_rewards_telescope_to_b_t_b_0() -> Finding:
    off = 0.0
    for rows in map(random_beliefs, range(20)):
        for row, gains in zip(rows, turn_rewards(rows), strict=True):
            held = row["info"]["beliefs"]
            off = max(off, abs(sum(gains) - (held[-1] - held[0])), abs(gains[-1]))
    return below(1e-12, sum_of_gains_against_b_T_minus_b_0_on_20_batches=off)


@claim("Apart, gains are compared with gains and outcomes with outcomes; a gain of 0 is one of them.", "released code")
def apart_gains_are_compared_with_gains_and_outcomes_with_outcomes() -> Finding:
    off = 0.0
    for rows in map(random_beliefs, range(10)):
        rows = [*rows, believing("0", 1.0, [0.5, 0.5, 0.2])]
        found = inspect_rows(IGPO_SEPARATE, rows)["advantages"]
        gains, wanted = turn_rewards(rows), []
        for row, own in zip(rows, gains, strict=True):
            peers = [n for n, other in enumerate(rows) if other["group"] == row["group"]]
            early = _standard([one for n in peers for one in gains[n][:-1]])
            late = _standard([float(rows[n]["scores"]["reward"]) for n in peers])
            marks = [early(one) for one in own[:-1]] + [late(float(row["scores"]["reward"]))]
            wanted.append([sum(marks[turn:]) for turn in range(len(marks)) for _ in range(2)])
        off = max(off, gap(found, wanted))
    return below(1e-9, off_by_hand_on_10_batches=off)


@claim("The release's floor keeps gains that hardly differ small; without it its joint mode is the recipe.", "release")
def the_releases_floor_keeps_gains_that_hardly_differ_small_without() -> Finding:
    off, largest = 0.0, list[float]()
    for rows in map(random_beliefs, range(10)):
        joint = IGPO_SEPARATE.but({"credit.apart": False})
        off = max(off, gap(inspect_rows(joint, rows)["advantages"], inspect_rows(IGPO, rows)["advantages"]))
    rows = [believing("g", 0.0, [0.5, 0.5 + 1e-6 * number]) for number in range(4)]
    pool = [1e-6 * number for number in range(4)]
    for floor in (1e-8, 0.0):
        found = inspect_rows(IGPO_SEPARATE.but({"credit.floor": floor}), rows)["advantages"]
        wanted = [_standard(pool, floor)(one) for one in pool]
        off = max(off, gap([row[0] for row in found], wanted))
        largest.append(max(abs(row[0]) for row in found))
    small, plain = largest
    return Finding(off < 1e-9 and small < 0.05 < 0.5 < plain, lines(off_by_hand=off, largest=small, without=plain))


def _standard(values: Sequence[float], floor: float = 0.0) -> Callable[[float], float]:
    """`(x - mean)/(sqrt(variance + floor) + 1e-6)` of these values, ddof 0; 0 where all are equal."""
    mean = fmean(values) if values else 0.0
    spread = math.sqrt(fmean([(one - mean) ** 2 for one in values]) + floor) if values else 0.0
    return lambda one: (one - mean) / (spread + 1e-6) if max(values) > min(values) else 0.0


@claim("The belief is the chance of the right answer once the answer's tag is imposed.")
def the_belief_is_the_chance_of_the_right_answer_once_the_answers() -> Finding:
    """Words are likelier, and unlikelier, after the tag than at the beginning of a reply."""

    @played_by("policy")
    async def flow(scenario: Scenario, team: Team) -> Outcome:
        said = await team.policy(str(scenario.prompt))
        return Outcome(rewards={"right": float(str(said) == scenario.answer)})

    def leaning(messages: tuple[Message, ...], said: tuple[str, ...]) -> dict[str, float]:
        return {"red": 1.5} if said else {"blue": 2.0}

    asked = [Scenario(colour, "which?", colour) for colour in ("red", "blue")]
    bench = TalkBench(flow, asked, ("red", "blue", "<answer>"), IGPO, prior=leaning, length=2)
    played, (policy,) = bench.step().trajectories, bench.policies.values()
    chances = [math.exp(one) / (math.exp(1.5) + 2) for one in (1.5, 0.0)]
    off = [abs(one.info["beliefs"][0] - chances[one.scenario.answer == "blue"]) for one in played]
    return Finding(max(off) < 1e-6 and len(policy.rows) > 1, say(beliefs=len(off), off_the_chance_by_hand=max(off)))


@claim("A turn that leaves the belief as it was has reward 0.")
def a_turn_that_leaves_the_belief_as_it_was_has_reward_0() -> Finding:
    (gains,) = turn_rewards([believing("g", 0.0, [0.2, 0.2, 0.7, 0.7])])
    return Finding(gains[0] == 0.0 and gains[2] == 0.0, lines(beliefs="0.2 0.2 0.7 0.7", earn=gains))


@claim("Groups of wrong answers still have advantages that are not 0.")
def groups_of_wrong_answers_still_have_advantages_that_are_not_0() -> Finding:
    rows = [believing("g", 0.0, held) for held in ([0.1, 0.5, 0.4], [0.1, 0.1, 0.1], [0.1, 0.2], [0.1])]
    ours, grpo = (max(abs(a) for row in inspect_rows(r, rows)["advantages"] for a in row) for r in (IGPO, GRPO))
    return Finding(ours > 0.1 and grpo == 0.0, say(nobody_right_largest_advantage=ours, GRPOs=grpo))


@claim("Rewards are normalised over all turns of the group and then summed.")
def rewards_are_normalised_over_all_turns_of_the_group_and_then() -> Finding:
    off, gamma = 0.0, 0.9
    for rows in map(random_beliefs, range(20)):
        pools: dict[str, list[float]] = {}
        earned = [[*(b - a for a, b in pairwise(row["info"]["beliefs"])), row["scores"]["reward"]] for row in rows]
        for row, own in zip(rows, earned, strict=True):
            pools.setdefault(row["group"], []).extend(own)
        wanted = []
        for row, own in zip(rows, earned, strict=True):
            pool, middle = pools[row["group"]], fmean(pools[row["group"]])
            spread = math.sqrt(fmean([(r - middle) ** 2 for r in pool])) + 1e-6
            after = to_go([(r - middle) / spread if max(pool) > min(pool) else 0.0 for r in own], gamma)
            wanted.append([after[turn] for turn in row["turn"]])
        off = max(off, gap(inspect_rows(IGPO.but({"credit.gamma": gamma}), rows)["advantages"], wanted))
    return below(1e-10, off_the_formula_on_20_batches=off)


@claim("As shipped nothing is discounted, and unbiased a turn's return is set against the others' who came there.")
def as_shipped_nothing_is_discounted_and_unbiased_a_turns_return_is() -> Finding:
    off = 0.0
    for rows in map(random_beliefs, range(20)):
        earned = [[*(b - a for a, b in pairwise(row["info"]["beliefs"])), row["scores"]["reward"]] for row in rows]
        summed, wanted, slopes = [to_go(own, 1.0) for own in earned], [], []
        for number, (row, own) in enumerate(zip(rows, summed, strict=True)):
            peers = [n for n, other in enumerate(rows) if other["group"] == row["group"]]
            pool = [one for n in peers for one in earned[n]]
            spread = math.sqrt(fmean([(r - fmean(pool)) ** 2 for r in pool])) + 1e-6
            wanted.append([(own[turn] - fmean(pool) * (len(own) - turn)) / spread for turn in row["turn"]])
            others = [[summed[n][turn] for n in peers if n != number and turn < len(summed[n])] for turn in row["turn"]]
            # The log-probs are the sampler's, so the ratio is 1 and nothing is clipped.
            ahead = [own[turn] - (fmean(some) if some else 0.0) for turn, some in zip(row["turn"], others, strict=True)]
            slopes.append([-one / len(rows) for one in ahead])
        off = max(off, gap(inspect_rows(IGPO, rows)["advantages"], wanted))
        off = max(off, gap(inspect_rows(IGPO_UNBIASED, rows)["gradient"], slopes))
    return below(1e-10, off_by_hand_on_20_batches=off)


claim.spares("igpo-unbiased: credit.ddof = 40", "no deviation is taken")
claim.spares("igpo-unbiased: credit.epsilon = 3.9999999999999996e-05", "no deviation is taken")
claim.spares("igpo-unbiased: credit.epsilon = 0.0", "no deviation is taken")


CITIES, LANDS = ("rome", "oslo", "lima"), tuple(f"land {letter}" for letter in "abcdef")
WORDS = ("ann", *CITIES, *LANDS, "weather", "news")
SCENARIOS = [Scenario(land, "?", land, metadata={"city": CITIES[n % len(CITIES)]}) for n, land in enumerate(LANDS)]


def two_hops(*, free: bool) -> Workflow:
    """In which land does Ann live? Looking Ann up tells her city, looking the city up tells the land. Every scenario
    asks the same and differs in what is true. Two look-ups and an answer; or, if `free`, saying a land is the answer
    whenever it is said, at most after four look-ups."""

    @played_by("seeker")
    async def flow(scenario: Scenario, team: Team) -> Outcome:
        city, read = scenario.metadata["city"], "where is ann"
        for look in range(5 if free else 3):
            word = str(await team.seeker.fresh()(read))
            if word in LANDS and (free or look == 2):
                return Outcome(answer=word, rewards={"right": float(word == scenario.answer)})
            if word == "ann":
                read = f"ann is in {city}"
            elif word == city and city in read:
                read = f"{city} is in {scenario.answer}"
        return Outcome(rewards={"right": 0.0})

    return flow


def bench(recipe: Recipe, seed: int, *, free: bool = False) -> TalkBench:
    """The belief is the chance of saying the right land at once, as every answer here is one word."""
    recipe = recipe.but({"rollout.phrase": ""}) if isinstance(recipe.rollout, WithBeliefs) else recipe
    strength = 0.0 if free else 1.0

    def inclined(messages: tuple[Message, ...], said: tuple[str, ...]) -> dict[str, float]:
        """Says the land that it has just read more often than not, and tends to look up what it was told of."""
        last = str(messages[-1]["content"]).rpartition(" is in ")[2]
        return {last: 3.0 if last in LANDS else strength} if last in WORDS else {"ann": strength}

    flow = two_hops(free=free)
    return TalkBench(flow, SCENARIOS, WORDS, recipe, view=last_message, prior=inclined, seed=seed, lr=0.1)


@claim("Beliefs are those of the policy that played.")
def beliefs_are_those_of_the_policy_that_played() -> Finding:
    made, off = bench(IGPO, 0).run(1), 0.0
    (policy,) = made.policies.values()
    player, trajectories = policy.frozen_copy(), made.step().trajectories
    for one in trajectories:
        for turn, belief in zip(one.turns, one.info["beliefs"], strict=True):
            chance = player.probabilities(str(turn.prompt[-1]["content"]))[WORDS.index(str(one.scenario.answer))]
            off = max(off, abs(belief - float(chance)))
    return Finding(off < 1e-6, say(trajectories=len(trajectories), beliefs_off=off))


def trained(measure: Callable[[TalkBench], tuple[float, ...]], *recipes: Recipe, free: bool = False) -> list[Any]:
    """Figures of each recipe after 30 steps, seed by seed: a tuple of five for each figure."""
    runs = [[bench(recipe, seed, free=free).run(30) for seed in SEEDS] for recipe in recipes]
    return [list(zip(*map(measure, group), strict=True)) for group in runs]


@claim(
    "On a two-hop look-up it learns faster than from the outcome alone, and fewer groups have no gradient.", slow=True
)
def on_a_two_hop_look_up_it_learns_faster_than_from_the_outcome() -> Finding:
    def measure(run: TalkBench) -> tuple[float, float]:
        return run.success(100), 1 - fmean(row["groups/with_signal"] / row["groups/total"] for row in run.history)

    (plain, idle), (ours, less) = trained(measure, GRPO, IGPO)
    ahead = [b - a for a, b in zip(plain, ours, strict=True)]
    holds = min(ahead) > 0.1 and fmean(ahead) > 0.15 and fmean(less) < fmean(idle) - 0.1
    silent = say(groups_without_gradient_GRPO=fmean(idle), IGPO=fmean(less))
    return Finding(holds, lines(right_after_30_steps_GRPO=plain, IGPO=ours) + f"; {silent}")


@claim(
    "Where the policy decides when to answer, centring rewards before summing them costs right answers.",
    "derived; hocket.lab.theorems.turns",
    slow=True,
)
def where_the_policy_decides_when_to_answer_centring_rewards_before() -> Finding:
    """Taking the mean away once per turn still to come pays for answering early; a mean of returns does not."""
    (paper,), (free,) = trained(lambda run: (run.success(100),), IGPO, IGPO_UNBIASED, free=True)
    holds = fmean(free) > fmean(paper) + 0.15 and all(b > a for a, b in zip(paper, free, strict=True))
    return Finding(holds, lines(right_after_30_steps_when_the_answer_may_come_at_any_turn=paper, unbiased=free))


claim.shipped(IGPO, "shaping")
