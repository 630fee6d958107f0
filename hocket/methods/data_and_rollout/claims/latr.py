"""LATR_NANO's claims."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from statistics import fmean
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from hocket.agents.workflows.single import SingleTurn
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.lab.claims.harness import EXACT, SEEDS, Claims, Finding, cases, gap, say
from hocket.lab.claims.lesson_data import begin
from hocket.lab.talk import TalkBench
from hocket.lab.toys.recorded_answers import line
from hocket.methods.base.grpo import GRPO
from hocket.methods.data_and_rollout.latr import LATR, LATR_NANO, STEERED, SYMBOLS, Growing, LookaheadTrees, Way, apart
from hocket.recipe import Recipe
from hocket.rewards.verifiers import TaskVerifier
from hocket.rollout.branches import NUMBERED
from hocket.rollout.groups import groups
from hocket.rollout.independent import Independent
from hocket.tasks.sums import Sums
from hocket.train.aio import run_async
from hocket.train.loop import Playing, collect
from hocket.types import Assignment, Decoding, Experience, Message, Quantity, Scenario, Trajectory, Turn

claim = Claims("latr", "arXiv:2510.24302")

WORDS = ("a", "b", "c", "d")
LONGEST = 12


def wandering(messages: tuple[Message, ...], said: tuple[str, ...]) -> Sequence[float]:
    """Logits that follow nothing; the end is unlikely. Every other question half forgets what was said."""
    asks = str(messages[-1]["content"])
    known = said if int(asks) % 2 else said[-1:]
    noise = Key.of(0).derive("wandering", asks, len(said), *known).numpy().normal(size=len(WORDS) + 1)
    return [*(1.5 * noise[:-1]).tolist(), float(noise[-1]) - 2]


def wanderer(recipe: Recipe, questions: int = 8, length: int = LONGEST, **settings: object) -> TalkBench:
    """Questions that are answered by up to twelve words at random."""
    asked = [Scenario(str(number), str(number), "a") for number in range(questions)]
    made = recipe.but({f"rollout.{name}": value for name, value in settings.items()})
    return TalkBench(SingleTurn(), asked, WORDS, made, length=length, ends=True, prior=wandering, capacity=200_000)


def rolled(bench: TalkBench, seed: int = 0) -> Experience:
    """One step's experience."""
    return run_async(collect(bench.parts, Key.of(seed)))[0]


def grown(bench: TalkBench) -> list[Growing]:
    """The trees of all questions, as a step grows them."""
    rule, play = bench.recipe.rollout, Playing(bench.player, Key.of(0))
    assert isinstance(rule, LookaheadTrees)
    trees = [Growing(rule, Assignment(one, decoding=bench.parts.decoding), None) for one in bench.scenarios]

    async def grow() -> None:
        while wanted := [(tree, way) for tree in trees for way in tree.wants()]:
            played = await groups(play, [tree.ahead(way) for tree, way in wanted])
            for (tree, way), (episode,) in zip(wanted, played, strict=True):
                tree.read(way, episode)

    run_async(grow())
    return trees


def by_token(bench: TalkBench, question: str) -> list[list[int]]:
    """What the tree of a question says of each way, grown word by word from the table: counted anew."""
    rule = bench.recipe.rollout
    assert isinstance(rule, LookaheadTrees)
    policy, end = bench.policies["policy"], len(WORDS)
    ways: list[tuple[list[int], int, int | None]] = [([], 0, None)]  # Words, birth, and the parent's number among all.
    live, time = [0], 0

    def over(number: int) -> bool:
        return ways[number][0][-1:] == [end] or len(ways[number][0]) == LONGEST

    while not all(map(over, live)) and time != rule.height:
        aged = all(over(number) or time - ways[number][1] > max(rule.ages) for number in live)
        if len(live) == rule.samples and aged:
            break
        forks = []
        for number in [one for one in live if not over(one)]:
            said = [WORDS[word] for word in ways[number][0]]
            chances = policy.probabilities(question, said=said).double()
            ranked = sorted(range(end + 1), key=lambda word: -float(chances[word]))
            for rank in range(1, rule.candidates + 1):
                here, first = float(chances[ranked[rank]]), float(chances[ranked[0]])
                if here > rule.least and first - here < rule.gap:
                    forks.append((rank, live.index(number), [*ways[number][0], ranked[rank]], number))
            ways[number][0].append(ranked[0])
        for _, _, words, parent in sorted(forks, key=lambda one: one[:2])[: rule.samples - len(live)]:
            live.append(len(ways))
            ways.append((words, time, parent))
        time += 1
        cut = set()
        for number in live:
            words, birth, before = ways[number]
            if before is not None and time - birth in rule.ages and not over(number) and not over(before):
                mine, theirs = words[birth:], ways[before][0][birth:]
                cut |= {number} if levenshtein(mine, theirs) / (time - birth) < rule.distance else set()
        for number in live:  # Those born later come later, so one pass finds all that left what is cut.
            cut |= {number} if ways[number][2] in cut else set()
        live = [number for number in live if number not in cut]
    return [ways[number][0] for number in live]


def levenshtein(one: Sequence[int], other: Sequence[int]) -> int:
    """By its recursion."""

    @cache
    def least(i: int, j: int) -> int:
        if not i or not j:
            return i + j
        swap = least(i - 1, j - 1) + (one[i - 1] != other[j - 1])
        return min(swap, least(i - 1, j) + 1, least(i, j - 1) + 1)

    return least(len(one), len(other))


RULES: Sequence[Mapping[str, Any]] = (
    {"samples": 6, "ages": (2, 4)},
    {"samples": 8, "ages": (3,), "distance": 0.7, "candidates": 2, "least": 0.15},
    {"samples": 5, "ages": (2, 3, 5), "distance": 0.6, "height": 6, "gap": 0.9, "least": 0.05},
    {"samples": 4, "ages": (1, 4), "distance": 0.5, "gap": 0.3},
)


@claim("Trees say what the rules say, followed token by token on the policy's probabilities.")
def trees_say_what_the_rules_say_followed_token_by_token_on_the() -> Finding:
    same, ways, cut, missing = 0, 0, 0.0, 0
    for rule in RULES:
        made = wanderer(LATR_NANO, **rule)
        found = rolled(made)
        cut += found.metrics["rollout/pruned"]
        for asked in made.scenarios:
            group = [one for one in found.trajectories if one.scenario.id == asked.id]
            begun = [one.turns[0].action[: STEERED.get(one)].tolist() for one in group if STEERED.get(one)]
            wanted = by_token(made, asked.id)
            same += begun == wanted and len(group) == rule["samples"]
            ways, missing = ways + len(begun), missing + len(group) - len(begun)
    holds = same == 8 * len(RULES) and cut > 10 and ways > 150 and missing > 0
    return Finding(holds, say(trees_alike=f"{same} of {8 * len(RULES)}", ways=ways, cut=cut, plain=missing))


@claim("Every way that stays differs from the one it left by the distance at every age, where neither had ended.")
def every_way_that_stays_differs_from_the_one_it_left_by_the() -> Finding:
    least, looked, drawn = math.inf, 0, 0
    for rule in RULES:
        for tree in grown(wanderer(LATR_NANO, **rule)):
            for way in tree.live:
                parent = way.parent
                for age in tree.rule.ages if parent is not None else ():
                    here = slice(way.born, way.born + age)
                    if parent is None or way.born + age > tree.time or way.over(here.stop) or parent.over(here.stop):
                        drawn += 1
                        continue
                    share = levenshtein(way.tokens[here], parent.tokens[here]) / age
                    least, looked = min(least, share - tree.rule.distance), looked + 1
    return Finding(least >= 0 and looked > 100, say(least_above_distance=least, compared=looked, ended_before=drawn))


@claim("Distances are edit distances over the length.")
def distances_are_edit_distances_over_the_length() -> Finding:
    noise, worst = Key.of(0).numpy(), 0.0
    for _ in range(100):
        one, other = (noise.integers(0, 60_000, size=9).tolist() for _ in range(2))
        other[2:7] = one[1:6]
        worst = max(worst, abs(apart(one, other) - levenshtein(one, other) / 9))
    return Finding(worst < EXACT, say(largest_gap=worst))


TALE = ("the", "big", "large", "left", "right", *(f"l{n}" for n in range(9)), *(f"r{n}" for n in range(9)))


def tale(messages: tuple[Message, ...], said: tuple[str, ...]) -> Mapping[str, float]:
    """First a synonym, later a choice after which all words are others; nothing else is open."""
    likely = {
        0: {"the": 1.0},
        1: {"big": 0.55, "large": 0.45},
        4: {"left": 0.55, "right": 0.45},
    }.get(len(said))
    if likely is None:
        side = "r" if "right" in said else "l"
        likely = {f"{side}{len(said) % 9}": 1.0}
    return dict.fromkeys(TALE, -30.0) | {word: math.log(chance) for word, chance in likely.items()}


@claim("Where two tokens are synonyms, forks between them are cut off, all of these and no others.")
def where_two_tokens_are_synonyms_forks_between_them_are_cut_off() -> Finding:
    asked = [Scenario("tale", "tale", "")]
    made = TalkBench(SingleTurn(), asked, TALE, LATR_NANO.but({"rollout.samples": 4}), length=24, prior=tale)
    (tree,) = grown(made)
    ways = [tuple(TALE[token] for token in way.tokens[:5]) for way in tree.live]
    kept = {(way[1], way[4]) for way in ways}
    holds = kept == {("big", "left"), ("big", "right")} and len(ways) == 2 and tree.pruned >= 1
    found = rolled(made).trajectories
    spared = TalkBench(
        SingleTurn(), asked, TALE, LATR_NANO.but({"rollout.samples": 4, "rollout.spared": "big"}), length=24, prior=tale
    )
    free = {one.text.split()[1] for one in rolled(spared).trajectories if STEERED.get(one)}
    return Finding(
        holds and len(found) == 4 and free == {"big", "large"},
        say(ways=str(sorted(kept)), cut=tree.pruned, first_words_where_spared=str(sorted(free))),
    )


SAID = (*WORDS, "")


def logps(trajectory: Trajectory) -> NDArray[np.float32]:
    """Of its one turn."""
    found = trajectory.turns[0].logp
    assert found is not None
    return found


def worth(bench: TalkBench, question: str, said: tuple[str, ...]) -> float:
    """The exact chance that an answer that begins so says "a"."""
    if "a" in said or len(said) == bench.length or said[-1:] == ("",):
        return float("a" in said)
    chances: list[float] = bench.policies["policy"].probabilities(question, said=said).tolist()
    return sum(chance * worth(bench, question, (*said, word)) for word, chance in zip(SAID, chances, strict=True))


@claim(
    "What the tree says is chosen, not drawn: on record is the policy's log-prob of it, the log-ratio reported; a "
    "group's mean reward is that of its ways, not the policy's."
)
def what_the_tree_says_is_chosen_not_drawn_on_record_is_the_policys() -> Finding:
    made = wanderer(LATR_NANO, 4, length=5, samples=6, ages=(1,), height=3)
    (policy,) = made.policies.values()
    worst, due, right = 0.0, list[float](), list[float]()
    for seed in range(60):
        step, sums = rolled(made, seed), list[float]()
        for one in step.trajectories:
            count, asks = STEERED.get(one), one.scenario.id
            actions = one.turns[0].action.tolist()
            said = tuple(SAID[token] for token in actions)
            chances = [policy.probabilities(asks, said=said[:place])[actions[place]] for place in range(count)]
            sums.append(sum(math.log(float(chance)) for chance in chances))
            worst = max(worst, abs(sums[-1] - float(np.sum(logps(one)[:count]))))
            due.append(worth(made, asks, said[:count]))
            right.append(float("a" in said))
        worst = max(worst, abs(fmean(sums) - step.metrics["rollout/steered_logp"]))
    plain = fmean(worth(made, one.id, ()) for one in made.scenarios)
    error = 4 * math.sqrt(sum(chance * (1 - chance) for chance in due)) / len(due)
    holds = worst < 1e-5 and abs(fmean(right) - fmean(due)) < error and abs(fmean(due) - plain) > 2 * error
    figures = {"mean_reward": fmean(right), "of_its_ways": fmean(due), "of_the_policy": plain}
    return Finding(holds, say(log_probs_off=worst, **figures, last_log_ratio=fmean(sums)))


@claim("With no way in a tree the group is GRPO's to the last bit; shares fall after the steps that are set.")
def with_no_way_in_a_tree_the_group_is_grpos_to_the_last_bit_shares() -> Finding:
    none, plain = (rolled(wanderer(recipe, samples=8)) for recipe in (LATR_NANO.but({"rollout.shares": (0.0,)}), GRPO))
    texts = [[(one.text, one.sample) for one in step.trajectories] for step in (none, plain)]
    rule = LookaheadTrees(samples=8, shares=(1.0, 0.5, 0.0), until=(10, 20))
    ways = [one.branches if isinstance(one, LookaheadTrees) else 0 for one in map(rule.at, (1, 10, 11, 20, 21, 99))]
    holds = texts[0] == texts[1] and ways == [8, 8, 4, 4, 0, 0] and isinstance(rule.at(21), Independent)
    half = [
        STEERED.get(trajectory) > 0
        for trajectory in rolled(wanderer(LATR_NANO, samples=8, shares=(0.5,), ages=(1,))).trajectories
    ]
    begun = [sum(half[place : place + 8]) for place in range(0, len(half), 8)]
    return Finding(holds and max(begun) == 4, say(groups_alike=texts[0] == texts[1], ways=str(ways), half=str(begun)))


CROSSING = ("left", "right", "on")


def undecided(messages: tuple[Message, ...], said: tuple[str, ...]) -> Mapping[str, float]:
    """At each of three crossings left is somewhat likelier, and then one goes on."""
    likely = {"left": math.log(0.6), "right": math.log(0.4)} if len(said) < 3 else {"on": 0.0}
    return dict.fromkeys(CROSSING, -30.0) | likely


def arrived(text: str, scenario: Scenario) -> float:
    """1 where the first three words are the scenario's."""
    return float(text.split()[:3] == str(scenario.answer).split())


def crossings(recipe: Recipe, seed: int) -> TalkBench:
    """Three crossings, after which one is where one should be or not."""
    asked = [Scenario(way, way, way) for way in ("right right right", "right left right", "left right right")]
    made = recipe.but({"rollout.ages": (1,)}) if recipe is LATR_NANO else recipe
    paid = (TaskVerifier(arrived),)
    return TalkBench(SingleTurn(), asked, CROSSING, made, length=8, prior=undecided, rewards=paid, seed=seed, lr=0.05)


def arrives(bench: TalkBench) -> float:
    """The exact chance to be right, over the questions."""
    (policy,) = bench.policies.values()
    chances = []
    for asked in bench.scenarios:
        way = str(asked.answer).split()
        steps = [policy.probabilities(asked.id, said=way[:n])[CROSSING.index(word)] for n, word in enumerate(way)]
        chances.append(math.prod(map(float, steps)))
    return fmean(chances)


@claim(
    "Where a right answer is one of many that are somewhat likely it learns more than GRPO in as many steps.", slow=True
)
def where_a_right_answer_is_one_of_many_that_are_somewhat_likely_it() -> Finding:
    ends = {one.name: [arrives(crossings(one, seed).run(12)) for seed in SEEDS] for one in (LATR_NANO, GRPO)}
    before = arrives(crossings(GRPO, 0))
    ahead = sum(one > other for one, other in zip(ends["latr-nano"], ends["grpo"], strict=True))
    saw = f"12 steps from {before:.3f}: latr-nano {line(ends['latr-nano'])}, grpo {line(ends['grpo'])}"
    return Finding(ahead == len(SEEDS), saw)


@claim("A tree's ways are greedy until it is full, so that a token below both thresholds is never said in one.")
def a_trees_ways_are_greedy_until_it_is_full_so_that_a_token_below() -> Finding:
    made = wanderer(LATR_NANO, samples=4, least=0.9)
    first = [rolled(made, seed).trajectories for seed in range(2)]
    texts = [sorted(one.text for one in step if STEERED.get(one)) for step in first]
    greedy = sorted(one.text for one in made.play(greedy=True))
    return Finding(texts[0] == texts[1] == greedy, say(ways=len(texts[0]), questions=len(greedy)))


@cache
def on_sums() -> dict[str, Experience]:
    """A step's groups of 8 for 96 sums, by the shipped model."""
    found = {}
    for recipe in (LATR_NANO, GRPO):
        parts = begin(recipe, "sums", {"curriculum.prompts": 96}).parts
        found[recipe.name] = run_async(collect(parts, Key.of(0)))[0]
    return found


@claim(
    "At equal K the shipped model gives more distinct answers per group than by independent samples, and fewer groups "
    "whose rewards are all equal.",
    slow=True,
)
def at_equal_k_the_shipped_model_gives_more_distinct_answers_per() -> Finding:
    task = Sums()
    distinct, equal = dict[str, float](), dict[str, float]()
    for name, step in on_sums().items():
        kept = [step.trajectories[place : place + 8] for place in range(0, len(step.trajectories), 8)]
        distinct[name] = fmean(len({task.label(one) for one in group}) for group in kept)
        equal[name] = fmean(len({task.success(one) for one in group}) == 1 for group in kept)
    metrics = on_sums()["latr-nano"].metrics
    holds = distinct["latr-nano"] > distinct["grpo"] and equal["latr-nano"] < equal["grpo"]
    figures = {"forks": metrics["rollout/forks"], "cut": metrics["rollout/pruned"]}
    return Finding(holds, say(distinct=distinct, equal_rewards=equal, **figures))


@claim("The log-probs on record of what the tree says are the learner's, for the shipped model.", slow=True)
def the_log_probs_on_record_of_what_the_tree_says_are_the_learners() -> Finding:
    found = on_sums()["latr-nano"].trajectories[:64]
    batch = pack(found)
    with torch.no_grad():
        known = begin(GRPO, "sums").parts.lead.policy.evaluate(batch, {Quantity.LOGP}).logp
    worst, steered = 0.0, 0
    for number, one in enumerate(found):
        own = known[batch.occurrences.decision[batch.occurrences.trajectory == number]]
        worst = max(worst, gap(own, torch.from_numpy(logps(one))))
        steered += STEERED.get(one)
    return Finding(worst < 1e-4 and steered > 100, say(largest_gap=worst, tokens_of_the_tree=steered))


@claim("What the tree says is learnt from: its tokens have the advantage of their answer.")
def what_the_tree_says_is_learnt_from_its_tokens_have_the_advantage() -> Finding:
    made = crossings(LATR_NANO, 0)
    batch = made.step().batch
    assert batch is not None
    return Finding(not bool(batch.forced.any()), say(imposed=int(batch.forced.sum()), decisions=batch.decisions))


@claim(
    "A fork from a token of the spared text stays, however alike it goes on; one from another token, from nothing but "
    "space, or where decisions are no words, is cut off."
)
def a_fork_from_a_token_of_the_spared_text_stays_however_alike_it() -> Finding:
    class Letters:
        """Tokens 0 to 2 are a digit, a letter and a space."""

        def encode(self, text: str, after: Sequence[int] = ()) -> tuple[int, ...]:
            return tuple(map("1a ".index, text))

        def decode(self, tokens: Sequence[int]) -> str:
            return "".join("1a "[token] for token in tokens)

    def stays(left: int, spared: str, words: Letters | None) -> bool:
        rule = LookaheadTrees(samples=2, ages=(2,), distance=0.6, spared=spared)
        tree = Growing(rule, Assignment(Scenario("0", "0", "")), words)
        parent = Way([left, 3], ranked=[(), ()])
        tree.live, tree.time = [parent, Way([4, 3], 0, parent, [(), ()])], 1  # They differ in one token of two.
        tree.wants()
        return len(tree.live) == 2

    known = [stays(left, "0123", Letters()) for left in range(3)]
    never = [stays(0, "0123", None), stays(0, "", Letters()), stays(2, "", Letters())]
    return Finding(known == [True, False, False] and not any(never), say(stay=str(known), where_none_can=str(never)))


@claim("A way is read on greedily from all that was said, by the largest age or as there is room, under a new number.")
def a_way_is_read_on_greedily_from_all_that_was_said_by_the_largest() -> Finding:
    asked = Assignment(Scenario("0", "0", ""), first=3, prefix=(1, 2), decoding=Decoding(max_tokens=9))
    tree = Growing(LookaheadTrees(ages=(2, 4), candidates=3), asked, None)
    ahead = [tree.ahead(Way(tokens)) for tokens in ([7], [7, 8, 9, 7])]
    told = [(one.prefix, one.budget, one.first - NUMBERED, one.samples, one.source) for one in ahead]
    greedy = all(one.decoding.temperature == 0 and one.decoding.alternatives == 4 for one in ahead)
    wanted = [((1, 2, 7), 7, 3, 1, "branch"), ((1, 2, 7, 8, 9, 7), 9, 4, 1, "branch")]
    return Finding(told == wanted and greedy, say(asked=str(told)))


@claim("A response has room for as many tokens as may be sampled, or as its budget has left where that is fewer.")
def a_response_has_room_for_as_many_tokens_as_may_be_sampled_or_as() -> Finding:
    asked = Assignment(Scenario("0", "0", ""), decoding=Decoding(max_tokens=8))
    room = [Growing(LookaheadTrees(), replace(asked, budget=left), None).room for left in (None, 5, 12)]
    return Finding(room == [8, 5, 8], say(room=str(room)))


@claim("As many samples go on from the tree as it has ways, one each within the room left, none after an end.")
def as_many_samples_go_on_from_the_tree_as_it_has_ways_one_each() -> Finding:
    decoding = Decoding(max_tokens=12)
    asked = Assignment(Scenario("0", "0", ""), first=40, prefix=(7, 8, 9), budget=10, decoding=decoding)
    tree = Growing(LookaheadTrees(samples=5, shares=(0.6,)), asked, None)
    tree.live, tree.time = [Way([1]), Way([1, 2, 3, 4]), Way([5, 6], ended=True)], 2
    told = [(one.prefix[3:], one.budget, one.first, one.samples) for one in tree.leaves()]
    wanted = [((1,), 10, 40, 1), ((1, 2), 10, 41, 1), ((5, 6), 5, 42, 1), ((), 10, 43, 2)]
    return Finding(told == wanted, say(asked=str(told)))


@claim("What the tree said of a leaf, after a prefix, is learnt from; a way that had ended ends the leaf, given room.")
def what_the_tree_said_of_a_leaf_after_a_prefix_is_learnt_from_a() -> Finding:
    asked = Assignment(Scenario("0", "0", ""), prefix=(7, 8, 9), decoding=Decoding(max_tokens=6))
    tree = Growing(LookaheadTrees(), asked, None)
    tree.live, tree.time = [Way([1, 2, 3]), Way([1, 2], ended=True), Way([1, 2, 3], ended=True)], 3
    ended, cut = ("stop", True, False), ("length", False, True)

    def begun(place: int, actions: Sequence[int], logp: float, imposed: int, end: tuple[str, bool, bool]) -> bool:
        known, forced = np.arange(len(actions), dtype=np.float32) - 10, np.arange(len(actions)) < 5
        turn = Turn("policy", "policy", np.zeros(1, np.int64), np.array(actions), known, forced=forced, finish="length")
        leaf = Trajectory(asked.scenario, [turn], terminated=False, truncated=True)
        right = tree.begun(leaf, place) == logp and (turn.finish, leaf.terminated, leaf.truncated) == end
        return right and turn.forced is not None and np.flatnonzero(turn.forced).tolist() == list(range(imposed))

    rows = [(0, [7, 8, 9, 1, 2], -13.0, 3, cut), (1, [7, 8, 9, 1, 2], -13.0, 3, ended)]
    rows += [(2, [7, 8, 9, 1, 2, 3], -18.0, 3, cut), (3, [7, 8, 9, 4], 0.0, 4, cut)]
    finding = cases(rows, begun)
    return Finding(finding.holds and tree.begun(Trajectory(asked.scenario, []), 0) == 0, finding.saw)


@claim("Without a chosen token among the likely ones nothing is too far below it.")
def without_a_chosen_token_among_the_likely_ones_nothing_is_too_far() -> Finding:
    rule = LookaheadTrees(least=0.3, gap=0.1)
    found = rule.choices([(4, math.log(0.5)), (5, math.log(0.4))], 6), rule.choices([(4, math.log(0.5))], 4)
    return Finding(found == ([(1, 4)], []), say(choices=str(found)))


claim.constants(
    "Ships with the paper's thresholds, ages and distance, and spares digits and signs.",
    LATR,
    {
        "rollout.least": 0.25,
        "rollout.gap": 0.15,
        "rollout.ages": (20, 30, 50),
        "rollout.distance": 0.4,
        "rollout.candidates": 1,
        "rollout.spared": SYMBOLS,
    },
    "the released code",
)
claim.constants(
    "The variant for the shipped model forks more readily, looks less far and spares nothing.",
    LATR_NANO,
    {"rollout.least": 0.1, "rollout.gap": 0.5, "rollout.ages": (5, 10, 15), "rollout.spared": ""},
    "chosen here",
)
claim.shipped(
    LATR,
    "rollout",
    sees=lambda run: {"forks": run.mean("rollout/forks"), "groups": run.mean("groups/with_signal")},
)
