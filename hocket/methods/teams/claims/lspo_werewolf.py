"""The claims of LSPO in Werewolf."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from statistics import fmean, stdev
from typing import Any

import numpy as np

from hocket.core.columns import TOKEN_TEXTS
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.lab.claims.harness import EXACT, SEEDS, Claims, Finding, below, say
from hocket.lab.exploitability import InformationState as Known
from hocket.lab.talk import TalkBench, last_message
from hocket.lab.toys.recorded_answers import line
from hocket.lab.toys.talks import kuhn_games, kuhn_nash_conv
from hocket.methods.teams.lspo_werewolf import method
from hocket.methods.teams.lspo_werewolf.method import LSPO_WEREWOLF, AbstractGame, Course, Move, OneNight, adjusted_rand
from hocket.methods.teams.lspo_werewolf.recorded_games import Plan, Records
from hocket.rewards.combine import WeightedSum
from hocket.train.describe import token_texts_of
from hocket.types import Message, Scenario

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


def apart(found: Mapping[Any, float], due: Mapping[Any, float]) -> float:
    return max(abs(found[one] - number) for one, number in due.items())


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
            best = {role: oracle.best(role, plan) for role in game.roles}
            value, reached = oracle.value(plan), oracle.reached(plan)
            answers = {role: game.best_response(role, plan) for role in game.roles}
            for name, gap in (
                ("value", apart(game.value(plan), {role: value[role] for role in game.roles})),
                ("reached", apart(game.reached(plan), reached)),
                ("best", apart(answers, best)),
                ("nash_conv", abs(game.nash_conv(plan) - sum(best[role] - value[role] for role in game.roles))),
            ):
                off[name] = max(off[name], gap)
            off["brought"] = max(off["brought"], furthest(game.action_values(plan), oracle.action_values(plan)))
        solved, wanted = game.solved(7), oracle.solved(7)
        off["solution"] = max(off["solution"], furthest(solved, wanted))
    return below(1e-9, filled > 5, **off)


# ---------------------------------------------------------------- pairs


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
