"""The claims of LSPO in Werewolf."""

from __future__ import annotations

import functools
import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from statistics import fmean, stdev
from typing import Any

import numpy as np
import torch

from hocket.core.columns import TOKEN_TEXTS
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.core.signals import paid_at_decisions, rewards_by_occurrence
from hocket.lab.claims.harness import EXACT, SEEDS, Claims, Finding, below, say
from hocket.lab.exploitability import Situation as Known
from hocket.lab.talk import TalkBench, last_message
from hocket.lab.toys.rewarded import line
from hocket.lab.toys.talks import kuhn_games, kuhn_nash_conv
from hocket.methods.teams.lspo_werewolf import method
from hocket.methods.teams.lspo_werewolf.method import LSPO_WEREWOLF, AbstractGame, Course, Move, OneNight, adjusted_rand
from hocket.methods.teams.lspo_werewolf.recorded_games import Plan, Records
from hocket.rewards.combine import WeightedSum
from hocket.testing import Part, rehearse
from hocket.train.describe import token_texts_of
from hocket.types import Message, Scenario, Score, Trajectory

claim = Claims("lspo-werewolf", "arXiv:2502.04686")
TEMPLATES = """\
I am the seer and last night I checked {name}.
Listen, I am the seer; {name} is what I checked last night.
As the seer I checked {name} last night, believe me.

{name} is a wolf, we should vote {name} out today.
Vote {name} out, I say {name} is a wolf!
Today we should vote out {name}: clearly a wolf.

Leave {name} alone, {name} did nothing wrong so far.
{name} did nothing wrong, so leave {name} alone.
Why {name}? So far {name} did nothing wrong.

I have no idea yet, let us hear what {name} has to say.
Let us hear {name} first, I have no opinion yet.
No opinion yet from me, let us hear what others like {name} say."""
INTENTS = [forms.split("\n") for forms in TEMPLATES.split("\n\n")]  # Ways to claim, to accuse, to defend and to wait.
NAMES = ("Ann", "Bob", "Cleo", "Dan", "Eve", "Finn", "Gil", "Hana", "player 3", "player 7")
OPENINGS = ("", "Well, ", "Friends, ", "Hm. ", "Okay then, ")


def talk(key: Key, size: int) -> tuple[list[str], list[int]]:
    """Utterances and which intent each has."""
    rng, texts, meant = key.numpy(), list[str](), list[int]()
    for _ in range(size):
        meant.append(int(rng.integers(len(INTENTS))))
        form = INTENTS[meant[-1]][int(rng.integers(3))].format(name=NAMES[int(rng.integers(len(NAMES)))])
        texts.append(OPENINGS[int(rng.integers(len(OPENINGS)))] + form)
    return texts, meant


@claim("Clusters of templated utterances are their intents: adjusted Rand above 0.9.")
def clusters_of_templated_utterances_are_their_intents_adjusted() -> Finding:
    rand, shuffled = [], []
    for seed in range(10):
        texts, meant = talk(Key.of(seed).derive("talk"), 150)
        clusters = method.k_means(method.embedded(texts), len(INTENTS), Key.of(seed))
        order = Key.of(seed).derive("shuffled").numpy().permutation(len(meant))
        rand.append(adjusted_rand(clusters, meant))
        shuffled.append(abs(adjusted_rand(clusters, [meant[place] for place in order])))
    saw = say(utterances=150, draws=10, adjusted_Rand=rand, against_shuffled_intents_at_most=max(shuffled))
    return Finding(min(rand) > 0.9 and max(shuffled) < 0.1, saw)


def kuhn() -> AbstractGame:
    """Kuhn poker from a record of every deal and every course of moves."""
    courses, seats = [], ("first", "second")
    for cards, moves, won in kuhn_games():
        steps = [Move(seats[n % 2], str(cards[n % 2]), "pb".index(move)) for n, move in enumerate(moves)]
        courses.append(Course("kuhn", tuple(steps), {"first": float(won), "second": float(-won)}))
    return AbstractGame(courses)


def spiel_nash_conv(strategy: Mapping[method.Situation, Mapping[int, float]]) -> float:
    """NashConv of the same play by open_spiel."""
    known = {f"{one.private}{''.join('pb'[n] for _, n in one.heard)}": chances for one, chances in strategy.items()}

    def log_probs(asked: Sequence[Known]) -> list[list[float]]:
        return [[math.log(max(known[one.known][code], 1e-300)) for code in one.codes] for one in asked]

    return kuhn_nash_conv(log_probs)


@claim(
    "Exploitability of the abstract game's solution falls over CFR iterations, as open_spiel measures it.",
    "Zinkevich et al. 2007",
)
def exploitability_of_the_abstract_games_solution_falls_over_cfr() -> Finding:
    game, apart = kuhn(), []
    for number in range(5):
        rng = Key.of(number).derive("strategy").numpy()
        bets = {situation: float(rng.random()) for situation in game.situations}
        strategy = {situation: {0: 1 - chance, 1: chance} for situation, chance in bets.items()}
        apart.append(abs(game.nash_conv(strategy) - spiel_nash_conv(strategy)))
    gaps = {steps: game.nash_conv(game.solved(steps)) for steps in (1, 10, 100, 1000)}
    value = game.value(game.solved(1000))["first"]
    falls = all(later < earlier / 2 for earlier, later in pairwise(gaps.values()))
    saw = say(off_open_spiel=max(apart), NashConv_after=gaps, worth_of_the_first_seat=value)
    return Finding(max(apart) < EXACT and falls and abs(value + 1 / 18) < 1e-3, saw)


CLAIMS = ("I am the seer, trust me.", "Trust me, the seer is me.", "I swear I am the seer.")
QUIETS = ("It is a cold night.", "A cold night it is.", "What a cold night.")
DOUBTS = ("You are a liar.", "That is a lie, you liar.", "A liar you are.")
BELIEFS = ("I believe every word.", "Every word I believe.", "Fine, I believe it.")
WORDS = (*CLAIMS, *QUIETS, *DOUBTS, *BELIEFS)
STEPS, ROUNDS = 10, 6
GAME = OneNight()


def bench(seed: int) -> TalkBench:
    """One night of honest speakers and a judge that believes, out of habit."""
    noise = Key.of(seed).derive("habits").numpy()
    means = {"villager": -0.5, "wolf": -2.0, "": -1.5}
    habits = {name: mean + 0.5 * float(noise.normal()) for name, mean in means.items()}

    def prior(messages: tuple[Message, ...], said: tuple[str, ...]) -> Mapping[str, float]:
        text = str(messages[-1]["content"])
        if text.startswith("You are"):
            card = "villager" if "villager" in text else "wolf"
            return dict.fromkeys((*DOUBTS, *BELIEFS), -30.0) | dict.fromkeys(CLAIMS, habits[card])
        return dict.fromkeys((*CLAIMS, *QUIETS), -30.0) | dict.fromkeys(DOUBTS, habits[""])

    recipe = method.LSPO_WEREWOLF.but({"credit.intents": 2, "credit.margin": 0.03})
    night = [Scenario("night", "night")]
    return TalkBench(GAME, night, WORDS, recipe, view=last_message, prior=prior, seed=seed, lr=0.08)


Play = tuple[float, float, float]  # How likely a villager claims, a wolf claims, and the judge doubts a claim.
EQUILIBRIUM: Play = (1.0, 1 / 3, 2 / 3)


def play(table: TalkBench) -> Play:
    """The shares of intents, exactly; the judge's over the speaker's ways to claim."""

    def chances(prompt: str, words: Sequence[str]) -> list[float]:
        every = table.policies["policy"].probabilities(prompt)
        return [float(every[WORDS.index(word)]) for word in words]

    villager, wolf = (chances(method.SPEAKER.format(card=card), CLAIMS) for card in ("villager", "wolf"))
    weights = [sum(pair) for pair in zip(villager, wolf, strict=True)]
    doubts = [sum(chances(method.JUDGE.format(said=one), DOUBTS)) for one in CLAIMS]
    doubt = sum(weight * one for weight, one in zip(weights, doubts, strict=True)) / sum(weights)
    return sum(villager), sum(wolf), doubt


def worth(speaker: Play, judge: Play) -> float:
    """What a speaker earns of a judge."""
    doubt, stake = judge[2], GAME.stake
    ways = zip(speaker[:2], (doubt * stake + (1 - doubt), -doubt * stake + (1 - doubt)), (1.0, -1.0), strict=True)
    return fmean(chance * after + (1 - chance) * quiet for chance, after, quiet in ways)


def exploitable(own: Play) -> float:
    """NashConv: what both could gain by the best of all pure answers."""
    speakers = [worth((a, b, 0.0), own) for a in (0.0, 1.0) for b in (0.0, 1.0)]
    return max(speakers) + max(-worth(own, (0.0, 0.0, doubt)) for doubt in (0.0, 1.0))


def against(new: Play, old: Play) -> float:
    """What the new policy earns of the old one, playing both roles by turns."""
    return (worth(new, old) - worth(old, new)) / 2


def away(own: Play) -> float:
    """The mean distance of the shares from the solution's."""
    return fmean(abs(one - other) for one, other in zip(own, EQUILIBRIUM, strict=True))


@functools.cache
def learnt(seed: int) -> list[Play]:
    """The play before training and after every iteration of `STEPS` steps."""
    table = bench(seed)
    return [play(table), *(play(table.run(STEPS)) for _ in range(ROUNDS))]


@claim(
    "Preferred are intents worth no less that the mix plays more than the policy; none where the mix is met.", "derived"
)
def preferred_are_intents_worth_no_less_that_the_mix_plays_more() -> Finding:
    credit, rand, over, close, chosen, gaps = method.IntentPairs(intents=2, margin=0.03), [], -1.0, 0, 0, []
    for table in map(bench, range(10)):
        played = table.play(128)
        texts = {TOKEN_TEXTS.name: token_texts_of(played, table.player.decode)}
        batch = WeightedSum()(pack(played).but(info=texts), {})
        heard = credit.talk(batch)
        meant = credit.meant(heard)
        for role in GAME.roles:
            own = [place for place, one in enumerate(heard) if one.role == role]
            truth = [int(heard[place].text in (*CLAIMS, *DOUBTS)) for place in own]
            rand.append(adjusted_rand([meant[place] for place in own], truth))
        _, game = credit.abstracted(batch, heard, meant)
        mix = game.solved(1000)
        values, reached = game.action_values(mix), game.reached(mix)
        gaps.append(game.nash_conv(mix))
        for situation, counts in game.intents.items():
            better, worse = credit.preferred(counts, mix[situation])
            chosen += better != worse
            # Playing the worse one wherever the mix plays the better one gains so much, which NashConv bounds.
            lost = values[situation][worse] - values[situation][better]
            over = max(over, reached[situation] * mix[situation][better] * lost - gaps[-1])
            met = {intent: round(1e6 * chance) + 1 for intent, chance in mix[situation].items()}
            close += credit.preferred(met, mix[situation])[0] != credit.preferred(met, mix[situation])[1]
    holds = min(rand) == 1 and chosen >= 20 and over < 1e-9 and close == 0 and max(gaps) < 0.05
    saw = say(records_of_128_episodes=10, adjusted_Rand=min(rand), NashConv=max(gaps), preferred=chosen)
    return Finding(holds, f"{saw}, {say(the_other_gains_less_than_NashConv_by=-over, preferred_where_met=close)}")


@claim("After DPO the policy's intents are near the CFR mix, and it is hard to exploit.", slow=True)
def after_dpo_the_policys_intents_are_near_the_cfr_mix_and_it_is() -> Finding:
    starts, ends = ([learnt(seed)[place] for seed in SEEDS] for place in (0, -1))
    before, after = list(map(away, starts)), list(map(away, ends))
    gaps = [list(map(exploitable, group)) for group in (starts, ends)]
    holds = max(after) < 0.1 < min(before) / 2 and all(b < a / 4 for a, b in zip(*gaps, strict=True))
    mean = [fmean(column) for column in zip(*ends, strict=True)]
    saw = say(distance_before=line(before), after=line(after), mean_play=line(mean), solution=line(EQUILIBRIUM))
    return Finding(holds, f"{saw}, {say(NashConv_before=line(gaps[0]), after=line(gaps[1]))}")


@claim("Each iteration earns at least as much as the previous one when they meet, up to noise.", slow=True)
def each_iteration_earns_at_least_as_much_as_the_previous_one_when() -> Finding:
    plays = [learnt(seed) for seed in SEEDS]
    columns = list(zip(*([against(new, old) for old, new in pairwise(own)] for own in plays), strict=True))
    whole = [against(own[-1], own[0]) for own in plays]
    mean, error = list(map(fmean, columns)), [stdev(column) / len(SEEDS) ** 0.5 for column in columns]
    holds = all(one + 2 * off >= 0 for one, off in zip(mean, error, strict=True))
    holds &= min(*columns[0], *columns[1]) > 0 and min(whole) > 0.05
    saw = say(earned_of_the_one_before=line(mean), errors_up_to=max(error), least=min(map(min, columns)))
    return Finding(holds, f"{saw}, {say(the_last_of_the_first=line(whole))}")


# ---------------------------------------------------------------- the abstract game, by brute force


def furthest(left: Plan, right: Plan) -> float:
    return max(abs(left[situation][intent] - one) for situation, row in right.items() for intent, one in row.items())


def record(seed: int) -> list[Course]:
    """Some courses of two or three who speak up to three times, of hidden cards, pay and order that are drawn."""
    rng, courses = Key.of(seed).derive("courses").numpy(), list[Course]()
    roles = ("ann", "bob", "cleo")[: 2 + seed % 2]
    for _ in range(12 + 4 * (seed % 3)):
        moves = tuple(
            Move(roles[place % len(roles)], "xy"[int(rng.integers(2))] if place == 0 else "", int(rng.integers(2)))
            for place in range(int(rng.integers(1, 4)))
        )
        payoff = {role: float(rng.normal()) for role in roles}
        courses.append(Course(f"s{int(rng.integers(2))}", moves, payoff))
    return courses


@claim(
    "The abstract game's values, what intents bring, how likely situations are, best responses and its solution are "
    "those of the list of episodes by brute force, intents that were heard elsewhere bringing what they brought there.",
    "derived",
)
def the_abstract_games_values_what_intents_bring_how_likely() -> Finding:
    off = dict.fromkeys(("value", "brought", "reached", "best", "nash_conv", "solution"), 0.0)
    filled = 0
    for seed in range(9):
        courses = record(seed)
        game, oracle = AbstractGame(courses), Records(courses)
        assert list(game.roles) == oracle.roles
        assert {one: set(intents) for one, intents in game.intents.items()} == {
            one: set(intents) for one, intents in oracle.known.items()
        }
        assert all(game.intents[one][i] == len(c) for one, known in oracle.known.items() for i, c in known.items())
        filled += sum(len(places) > 1 for places in map(oracle.places, oracle.known))
        rng = Key.of(seed).derive("plans").numpy()
        drawn = {
            one: dict(zip(known, rng.dirichlet(np.ones(len(known))).tolist(), strict=True))
            for one, known in oracle.known.items()
        }
        pure = {one: {i: float(place == 0) for place, i in enumerate(known)} for one, known in oracle.known.items()}
        for plan in (drawn, pure):
            ours, theirs = game.value(plan), oracle.value(plan)
            off["value"] = max(off["value"], *(abs(ours[role] - theirs[role]) for role in game.roles))
            brought, due = game.action_values(plan), oracle.action_values(plan)
            off["brought"] = max(off["brought"], furthest(brought, due))
            reached = game.reached(plan)
            off["reached"] = max(off["reached"], *(abs(reached[s] - v) for s, v in oracle.reached(plan).items()))
            best = {role: oracle.best(role, plan) for role in game.roles}
            off["best"] = max(off["best"], *(abs(game.best_response(role, plan) - best[role]) for role in game.roles))
            gain = sum(best[role] - theirs[role] for role in game.roles)
            off["nash_conv"] = max(off["nash_conv"], abs(game.nash_conv(plan) - gain))
        solved, wanted = game.solved(7), oracle.solved(7)
        off["solution"] = max(off["solution"], furthest(solved, wanted))
    return below(1e-9, filled > 5, **off)


# ---------------------------------------------------------------- talk and clusters


@claim("Texts are compared by their words and pairs of neighbouring ones, counts dampened; case does not count.")
def texts_are_compared_by_their_words_and_pairs_of_neighbouring() -> Finding:
    texts = ["Trust me, trust me!", "trust ME trust me", "I saw", "", "me trust"]
    rows = method.embedded(texts)
    two, three = math.log(2), math.log(3)
    one = {"trust": three, "me": three, "trust me": three, "me trust": two}
    length = math.sqrt(3 * three**2 + two**2)
    due = (one["me"] * two + one["trust"] * two + one["me trust"] * two) / length / (math.sqrt(3) * two)
    off = max(
        abs(float(rows[0] @ rows[1]) - 1),
        abs(float(rows[0] @ rows[4]) - due),
        abs(float(rows[0] @ rows[2])),
        float(rows[3].abs().max()),
        abs(float(rows[2].norm()) - 1),
    )
    return below(1e-12, rows.shape == (5, 7), off_by=off)


@claim("Clusters have the least squared distance to their means of all partitions, numbered as they first appear.")
def clusters_have_the_least_squared_distance_to_their_means_of_all() -> Finding:
    worst, wrong = 0.0, 0
    for seed in range(12):
        size, clusters = 7, 2 + seed % 2
        points = torch.tensor(Key.of(seed).derive("points").numpy().normal(size=(size, 2)))

        def spread(labels: Sequence[int], points: Any = points) -> float:
            groups = [points[[place for place, own in enumerate(labels) if own == name]] for name in set(labels)]
            return float(sum((group - group.mean(0)).square().sum() for group in groups))

        found = method.k_means(points, clusters, Key.of(seed))
        every = itertools.product(range(clusters), repeat=size)
        least = min(spread(labels) for labels in every if len(set(labels)) == clusters)
        worst = max(worst, spread(found) - least)
        first = [found.index(name) for name in range(clusters)]
        wrong += first != sorted(first) or len(set(found)) != clusters
    alike = torch.tensor([[0.0, 1.0], [0.0, 1.0], [2.0, 0.0], [0.0, 1.0]], dtype=torch.float64)
    fewer = method.k_means(alike, 4, Key.of(0)) == [0, 0, 1, 0]
    return below(1e-9, wrong == 0, fewer, above_the_best=worst)


def lloyd(points: Sequence[float], seeds: Sequence[float]) -> tuple[list[int], int]:
    """Lloyd's algorithm on a line, by hand: the cluster of each point, by its place, and how often one was empty."""
    centres, before, empty = list(seeds), list[int](), 0
    while True:
        nearest = [min(range(len(centres)), key=lambda n, one=one: abs(one - centres[n])) for one in points]  # type: ignore[misc]
        if nearest == before:
            return nearest, empty
        for number in range(len(centres)):
            own = [one for one, cluster in zip(points, nearest, strict=True) if cluster == number]
            centres[number], empty = (fmean(own), empty) if own else (centres[number], empty + 1)
        before = nearest


@claim(
    "Seeds are drawn by their squared distance to the nearest of those drawn before, never twice the same; a centre "
    "that loses all its points stays where it is, and of equally good runs the first counts."
)
def seeds_are_drawn_by_their_squared_distance_to_the_nearest_of() -> Finding:
    line_of = torch.tensor([[0.0], [1.0], [4.0]], dtype=torch.float64)
    draws, third = 3000, Counter[tuple[float, ...]]()
    for number in range(draws):
        third[tuple(method._seeds(line_of, 2, Key.of(number).numpy()).flatten().tolist())] += 1
    due = {
        (a, b): (a - b) ** 2 / sum((a - c) ** 2 for c in (0.0, 1.0, 4.0)) / 3
        for a, b in itertools.permutations((0.0, 1.0, 4.0), 2)
    }
    off = max(abs(third[pair] / draws - chance) / math.sqrt(chance / draws) for pair, chance in due.items())
    every = all(len(set(method.k_means(line_of, 3, Key.of(number), restarts=1))) == 3 for number in range(30))
    # Between its first and its second neighbours a middle centre at 0 has two points left, and both are nearer to them.
    points = [-3.1, *[-1.1] * 3, -1.0, 1.0, *[1.8] * 3, 2.5]
    places, wrong, emptied = torch.tensor(points, dtype=torch.float64)[:, None], 0, 0
    for number in range(150):
        seeds = method._seeds(places, 3, Key.of(number).derive("restart", 0).numpy()).flatten().tolist()
        wanted, empty = lloyd(points, seeds)
        names: dict[int, int] = {}
        found = method.k_means(places, 3, Key.of(number), restarts=1)
        wrong, emptied = wrong + (found != [names.setdefault(one, len(names)) for one in wanted]), emptied + (empty > 0)
    square = torch.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
    runs = [[method.k_means(square, 2, Key.of(number), restarts=n) for n in (1, 8)] for number in range(20)]
    # Halves are equally good, three against one is worse.
    first = [one == all_of for one, all_of in runs if sum(one) == 2]
    holds = off < 4 and every and wrong == 0 and emptied > 0 and all(first) and len(first) > 5
    return Finding(
        holds, say(errors_off=off, runs_unlike_by_hand=wrong, with_an_empty_cluster=emptied, ties=len(first))
    )


@claim("Partitions agree by 2 (ad - bc) / ((a + b)(b + d) + (a + c)(c + d)) over pairs; by 1 where both say nothing.")
def partitions_agree_by_2_over_pairs_by_1_where_both_say_nothing() -> Finding:
    off, rng = 0.0, Key.of(6).numpy()
    for _ in range(40):
        left, right = (rng.integers(0, 3, 9).tolist() for _ in range(2))
        a = b = c = d = 0
        for i, j in itertools.combinations(range(9), 2):
            one, other = left[i] == left[j], right[i] == right[j]
            a, b = a + (one and other), b + (one and not other)
            c, d = c + (other and not one), d + (not one and not other)
        due = 2 * (a * d - b * c) / ((a + b) * (b + d) + (a + c) * (c + d))
        off = max(off, abs(adjusted_rand(left, right) - due))
    return below(1e-12, adjusted_rand([0], [5]) == 1.0, adjusted_rand([], []) == 1.0, off_by=off)


@claim("A quiet wolf loses 1 and a quiet villager wins it; believed claims win 1, doubted ones the stake, by the card.")
def a_quiet_wolf_loses_1_and_a_quiet_villager_wins_it_believed() -> Finding:
    wrong, cards = 0, set()
    for seed, (said, judged, stake) in itertools.product(
        range(6),
        (
            ("Cold here.", None, 2.0),
            ("I SWEAR it.", "You LIE.", 3.0),
            ("Trust me, seer I am.", "As you say.", 2.0),
            ("Innocent!", "Hang him.", 2.0),
        ),
    ):
        judge = Part(*([] if judged is None else [judged]))
        speaker = Part(said)
        parts = {"speaker": speaker, "judge": judge}
        (made,) = rehearse(OneNight(stake=stake), Scenario("night", "n"), parts, seed=seed)
        card = method.CARD.get(made)
        cards.add(card)
        good = card == "villager"
        doubted = judged in ("You LIE.", "Hang him.")
        won = (1.0 if good else -1.0) * (stake if doubted else 1.0) if judged is None or doubted else 1.0
        values = [float(one) for one in made.scores["reward"].value if one is not None]  # type: ignore[union-attr]
        wrong += values != [won, -won][: len(made.turns)] or f"You are a {card}." not in speaker.questions[0]
        wrong += judged is not None and f"says: {said}\n" not in judge.questions[0]
        wrong += made.turns[0].state != card or (judged is not None and made.turns[1].state != "judge")
        wrong += made.info["answer"] != (said if judged is None else judged)
    return Finding(wrong == 0 and cards == {"villager", "wolf"}, say(wrong=wrong, cards=len(cards)))


@claim("Preferred is the intent of largest pi/p over that of smallest, where both are off by more than the margin.")
def preferred_is_the_intent_of_largest_pi_p_over_that_of_smallest() -> Finding:
    wrong, met, rng = 0, 0, Key.of(8).numpy()
    credit = method.IntentPairs(margin=0.1)
    for _ in range(300):
        counts = {place: int(one) for place, one in enumerate(rng.integers(1, 9, 3))}
        mix = dict(enumerate(rng.dirichlet(np.ones(3)).tolist()))
        share = {place: count / sum(counts.values()) for place, count in counts.items()}
        order = sorted(share, key=lambda place: mix[place] / share[place])
        low, high = order[0], order[-1]
        apart = mix[high] - share[high] > 0.1 and share[low] - mix[low] > 0.1
        wrong += credit.preferred(counts, mix) != ((high, low) if apart else (high, high))
        met += not apart
    return Finding(wrong == 0 and 30 < met < 270, say(wrong=wrong, met=met))


def nights(count: int) -> tuple[Any, list[Trajectory]]:
    """A batch of nights by the bench's policy, with its words, and the trajectories."""
    table = bench(3)
    played = table.play(count)
    batch = WeightedSum()(pack(played).but(info={TOKEN_TEXTS.name: token_texts_of(played, table.player.decode)}), {})
    return batch, played


@claim(
    "Talk is every turn in its order with its place and words; without words its actions; turns that do not count are "
    "heard and never compared; roles earn what their turns and the whole episode bring."
)
def talk_is_every_turn_in_its_order_with_its_place_and_words() -> Finding:
    batch, played = nights(40)
    credit = method.IntentPairs(intents=2, margin=0.03)
    talk, found = credit.talk(batch), {}
    order = sorted(range(len(played)), key=lambda row: int(batch.order[row]))
    told = [(row, place, turn.role, turn.text) for row in order for place, turn in enumerate(played[row].turns)]
    found["turns"] = [(one.trajectory, one.phase, one.role, one.text) for one in talk] == told
    found["counted"] = all(one.counts for one in talk)
    bare = credit.talk(batch.but(info={}))
    numbers: dict[str, set[str]] = {}
    for one, other in zip(talk, bare, strict=True):
        numbers.setdefault(one.text, set()).add(other.text)
    found["actions"] = len({*map(min, numbers.values())}) == len(numbers) == sum(map(len, numbers.values()))
    own = method.earned(batch)
    due = []
    for night in played:
        values: Any = night.scores["reward"].value
        due.append({turn.role: float(v or 0) for turn, v in zip(night.turns, values, strict=True)})
    found["earned"] = own == due
    # As a shaping leaves it that pays decisions alone: nothing is the whole episode's any more.
    found["at decisions"] = method.earned(paid_at_decisions(batch, rewards_by_occurrence(batch))) == due
    whole = [replace(one, scores={"reward": Score(0.5 + place)}) for place, one in enumerate(played[:6])]
    shared = method.earned(WeightedSum()(pack(whole), {}))
    found["shared"] = shared == [{turn.role: 0.5 + place for turn in one.turns} for place, one in enumerate(whole)]
    pairs = credit(batch)
    assert pairs.pairs is not None
    assert pairs.compared is not None
    used = pairs.compared.flatten().tolist()
    found["once"] = len(used) == len(set(used)) > 4
    meant = {(one.trajectory, one.turn): kind for one, kind in zip(talk, credit.meant(talk), strict=True)}
    ways = {
        (meant[better, b] != meant[worse, w]) and batch.role[b] == batch.role[w] and batch.state[b] == batch.state[w]
        for (better, worse), (b, w) in zip(pairs.pairs.tolist(), pairs.compared.tolist(), strict=True)
    }
    found["apart"] = {bool(one) for one in ways} == {True}
    muted = replace(batch.occurrences, weight=batch.occurrences.weight.clone())
    dropped = pairs.compared[0, 0].item()
    muted.weight[batch.turn[muted.decision] == dropped] = 0
    quiet = batch.but(occurrences=muted)
    heard = credit.talk(quiet)
    found["heard"] = [one.turn for one in heard if not one.counts] == [dropped] and len(heard) == len(talk)
    again = credit(quiet)
    assert again.compared is not None
    found["never compared"] = dropped not in again.compared.flatten().tolist() and len(again.compared) > 0
    return Finding(all(found.values()), say(**{name.replace(" ", "_"): one for name, one in found.items()}))


@claim(
    "The recipe plays 64 nights of each scenario, of up to 4 intents at a place, and solves their game; what is off by "
    "more than .05 is mended.",
    "ours",
)
def the_recipe_plays_64_nights_of_each_scenario_of_up_to_4_intents() -> Finding:
    credit = LSPO_WEREWOLF.credit
    assert isinstance(credit, method.IntentPairs)
    told = [method.Said(0, place, "judge", 1, " ".join([word] * 3), True) for place, word in enumerate("abcdef")]
    kinds = len(set(credit.meant(told)))
    again = [replace(one, phase=place % 2) for place, one in enumerate(told)]
    apart = credit.meant(again)
    shaped = LSPO_WEREWOLF.rollout.samples == 64 and LSPO_WEREWOLF.workflow == "one-night" and credit.iterations == 200
    even = {0: 0.5, 1: 0.5}
    shaped &= credit.preferred({0: 54, 1: 46}, even) == (1, 1) and credit.preferred({0: 56, 1: 44}, even) == (1, 0)
    return Finding(kinds == 4 and max(apart) <= 2 and shaped, say(intents=kinds, margin=credit.margin))


claim.spares(
    "1.0 -> 40.0",
    "where CFR's walk begins: all regrets grow alike, or all sums of the average, and their shares are taken",
)

claim.spares("-1 -> 1", "the last of two dimensions")
ROUNDING = "two spreads or places that are equal but for rounding; others are farther apart than either"
claim.spares("least - 1e-12 -> least", ROUNDING)
claim.spares("1e-12 -> 4e-11", ROUNDING)
claim.spares("1e-18 -> 4e-17", ROUNDING)

claim.shipped(LSPO_WEREWOLF, "credit", sees=lambda run: {"pairs": run.mean("pairs/total")})
