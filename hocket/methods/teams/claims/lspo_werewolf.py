"""What lspo-werewolf claims."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from statistics import fmean, stdev

from hocket.core.batch import Batch
from hocket.core.columns import TOKEN_TEXTS
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.exploitability import Situation as Known
from hocket.lab.exploitability import assess
from hocket.lab.talk import TalkBench, last_message
from hocket.lab.toys.seats import ENDS, kuhn_poker, payoff
from hocket.lab.toys.turn_toys import SEEDS
from hocket.methods.teams.lspo_werewolf import (
    JUDGE,
    LSPO_WEREWOLF,
    SPEAKER,
    AbstractGame,
    Course,
    IntentPairs,
    Move,
    OneNight,
    Situation,
    adjusted_rand,
    embedded,
    k_means,
)
from hocket.rewards.combine import WeightedSum
from hocket.train.describe import token_texts_of
from hocket.types import Message, Scenario

claim = Claims("lspo-werewolf", "arXiv:2502.04686")


TEMPLATES = {
    "claim": (
        "I am the seer and last night I checked {name}.",
        "Listen, I am the seer; {name} is what I checked last night.",
        "As the seer I checked {name} last night, believe me.",
    ),
    "accuse": (
        "{name} is a wolf, we should vote {name} out today.",
        "Vote {name} out, I say {name} is a wolf!",
        "Today we should vote out {name}: clearly a wolf.",
    ),
    "defend": (
        "Leave {name} alone, {name} did nothing wrong so far.",
        "{name} did nothing wrong, so leave {name} alone.",
        "Why {name}? So far {name} did nothing wrong.",
    ),
    "wait": (
        "I have no idea yet, let us hear what {name} has to say.",
        "Let us hear {name} first, I have no opinion yet.",
        "No opinion yet from me, let us hear what others like {name} say.",
    ),
}
NAMES = ("Ann", "Bob", "Cleo", "Dan", "Eve", "Finn", "Gil", "Hana", "player 3", "player 7")
OPENINGS = ("", "Well, ", "Friends, ", "Hm. ", "Okay then, ")


def talk(key: Key, size: int) -> tuple[list[str], list[int]]:
    """Utterances and which intent each has."""
    rng, said, meant = key.numpy(), list[str](), list[int]()
    for _ in range(size):
        intent = int(rng.integers(len(TEMPLATES)))
        forms = list(TEMPLATES.values())[intent]
        line = forms[int(rng.integers(len(forms)))].format(name=NAMES[int(rng.integers(len(NAMES)))])
        said.append(OPENINGS[int(rng.integers(len(OPENINGS)))] + line)
        meant.append(intent)
    return said, meant


@claim("Clusters of templated utterances are their intents: adjusted Rand above 0.9.")
def clusters_are_intents() -> Finding:
    found = []
    for seed in range(10):
        said, meant = talk(Key.of(seed).derive("talk"), 150)
        found.append(adjusted_rand(k_means(embedded(said), len(TEMPLATES), Key.of(seed)), meant))
    shuffled = []
    for seed in range(10):
        said, meant = talk(Key.of(seed).derive("talk"), 150)
        other = [meant[place] for place in Key.of(seed).derive("shuffled").numpy().permutation(len(meant))]
        shuffled.append(adjusted_rand(k_means(embedded(said), len(TEMPLATES), Key.of(seed)), other))
    return Finding(
        min(found) > 0.9 and max(map(abs, shuffled)) < 0.1,
        f"150 utterances of 4 intents, 12 templates, 10 names and 5 openings, 10 draws: adjusted Rand at least "
        f"{min(found):.3f}, mean {fmean(found):.3f}; against shuffled intents at most {max(map(abs, shuffled)):.3f}",
    )


PASS, BET = 0, 1


def kuhn() -> AbstractGame:
    """Kuhn poker from a record of every deal and every course of moves."""
    courses = []
    for cards in itertools.permutations(range(3), 2):
        for moves in ENDS:
            told = tuple(
                Move(("first", "second")[place % 2], str(cards[place % 2]), "pb".index(move))
                for place, move in enumerate(moves)
            )
            won = float(payoff((cards[0], cards[1]), moves))
            courses.append(Course("kuhn", told, {"first": won, "second": -won}))
    return AbstractGame(courses)


def spiel_nash_conv(strategy: Mapping[Situation, Mapping[int, float]]) -> float:
    """NashConv of the same play by open_spiel."""
    said = {
        f"{one.private}{''.join('pb'[intent] for _, intent in one.heard)}": chances for one, chances in strategy.items()
    }

    def log_probs(asked: Sequence[Known]) -> list[list[float]]:
        return [[math.log(max(said[one.known][code], 1e-300)) for code in one.codes] for one in asked]

    return assess(kuhn_poker(), log_probs).nash_conv


@claim(
    "Exploitability of the abstract game's solution falls over CFR iterations, as open_spiel measures it.",
    "Zinkevich et al. 2007",
)
def cfr_solves_the_game() -> Finding:
    game, apart = kuhn(), 0.0
    for number in range(5):
        rng = Key.of(number).derive("strategy").numpy()
        drawn = {situation: float(rng.random()) for situation in game.situations}
        strategy = {situation: {PASS: 1 - chance, BET: chance} for situation, chance in drawn.items()}
        apart = max(apart, abs(game.nash_conv(strategy) - spiel_nash_conv(strategy)))
    steps = (1, 10, 100, 1000)
    gaps = [game.nash_conv(game.solved(count)) for count in steps]
    value = game.value(game.solved(steps[-1]))["first"]
    return Finding(
        apart < 1e-12 and all(later < earlier / 2 for earlier, later in pairwise(gaps)) and abs(value + 1 / 18) < 1e-3,
        f"Kuhn poker from a record of its 30 courses: NashConv of 5 random strategies as open_spiel has it, off by "
        f"{apart:.1e}; after {', '.join(map(str, steps))} iterations {', '.join(f'{gap:.4f}' for gap in gaps)}; the "
        f"first seat is worth {value:.4f}",
    )


CLAIMS = ("I am the seer, trust me.", "Trust me, the seer is me.", "I swear I am the seer.")
QUIETS = ("It is a cold night.", "A cold night it is.", "What a cold night.")
DOUBTS = ("You are a liar.", "That is a lie, you liar.", "A liar you are.")
BELIEFS = ("I believe every word.", "Every word I believe.", "Fine, I believe it.")
WORDS = (*CLAIMS, *QUIETS, *DOUBTS, *BELIEFS)
STEPS, ROUNDS = 10, 6
GAME = OneNight()


def habits(seed: int) -> dict[tuple[str, str], float]:
    """Log-odds of a policy's habits before training: honest speakers, and a judge that believes."""
    rng = Key.of(seed).derive("habits").numpy()
    return {
        ("villager", "claim"): -0.5 + 0.5 * float(rng.normal()),
        ("wolf", "claim"): -2.0 + 0.5 * float(rng.normal()),
        ("judge", "doubt"): -1.5 + 0.5 * float(rng.normal()),
    }


def bench(seed: int) -> TalkBench:
    habit = habits(seed)

    def prior(messages: tuple[Message, ...], said: tuple[str, ...]) -> Mapping[str, float]:
        text = str(messages[-1]["content"])
        if text.startswith("You are"):
            card = "villager" if "villager" in text else "wolf"
            return dict.fromkeys((*DOUBTS, *BELIEFS), -30.0) | dict.fromkeys(CLAIMS, habit[card, "claim"])
        return dict.fromkeys((*CLAIMS, *QUIETS), -30.0) | dict.fromkeys(DOUBTS, habit["judge", "doubt"])

    recipe = LSPO_WEREWOLF.but({"credit.intents": 2, "credit.margin": 0.03})
    night = [Scenario("night", "night")]
    return TalkBench(GAME, night, WORDS, recipe, view=last_message, prior=prior, seed=seed, lr=0.08)


Play = tuple[float, float, float]
"""How likely a villager claims, a wolf claims, and the judge doubts a claim."""


EQUILIBRIUM: Play = (1.0, 1 / 3, 2 / 3)


def play(table: TalkBench) -> Play:
    """The shares of intents, exactly; the judge's over the speaker's ways to claim."""
    policy = table.policies["policy"]

    def share(prompt: str, words: Sequence[str]) -> float:
        chances = policy.probabilities(prompt)
        return float(sum(chances[WORDS.index(word)] for word in words))

    speaks = {card: policy.probabilities(SPEAKER.format(card=card)) for card in ("villager", "wolf")}
    weights = [float(sum(chances[WORDS.index(claim)] for chances in speaks.values())) for claim in CLAIMS]
    doubts = [share(JUDGE.format(said=claim), DOUBTS) for claim in CLAIMS]
    doubt = sum(weight * one for weight, one in zip(weights, doubts, strict=True)) / sum(weights)
    return share(SPEAKER.format(card="villager"), CLAIMS), share(SPEAKER.format(card="wolf"), CLAIMS), doubt


def worth(speaker: Play, judge: Play) -> float:
    """What a speaker earns of a judge."""
    doubt, stake = judge[2], GAME.stake
    claimed = [doubt * stake + (1 - doubt), -doubt * stake + (1 - doubt)]
    return fmean(
        claim * after + (1 - claim) * quiet
        for claim, after, quiet in zip(speaker[:2], claimed, (1.0, -1.0), strict=True)
    )


def exploitable(own: Play) -> float:
    """NashConv: what both could gain by the best of all pure answers."""
    speakers = [worth((a, b, 0.0), own) for a in (0.0, 1.0) for b in (0.0, 1.0)]
    judges = [-worth(own, (0.0, 0.0, doubt)) for doubt in (0.0, 1.0)]
    return max(speakers) + max(judges)


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
    found = [play(table)]
    for _ in range(ROUNDS):
        table.run(STEPS)
        found.append(play(table))
    return found


def recorded(seed: int, samples: int) -> Batch:
    """Episodes of a policy with its habits, as credit meets them."""
    table = bench(seed)
    played = table.play(samples)
    batch = pack(played)
    return WeightedSum()(batch.but(info={TOKEN_TEXTS.name: token_texts_of(played, table.player.decode)}), {})


INTENTS = tuple((*CLAIMS, *DOUBTS).count(word) for word in WORDS)
"""1 for what a claim or a doubt is worded as."""


@claim(
    "Preferred are intents worth no less that the mix plays more than the policy; none where the mix is met.",
    "derived",
)
def better_valued_is_preferred() -> Finding:
    credit = IntentPairs(intents=2, margin=0.03)
    rand, over, close, chosen, gaps = 1.0, -1.0, 0, 0, []
    for seed in range(10):
        batch = recorded(seed, 128)
        talk = credit.talk(batch)
        meant = credit.meant(talk)
        for role in GAME.roles:
            own = [place for place, one in enumerate(talk) if one.role == role]
            truth = [INTENTS[WORDS.index(talk[place].text)] for place in own]
            rand = min(rand, adjusted_rand([meant[place] for place in own], truth))
        _, game = credit.abstracted(batch, talk, meant)
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
    return Finding(
        rand == 1 and chosen >= 20 and over < 1e-9 and close == 0 and max(gaps) < 0.05,
        f"10 records of 128 episodes: intents found with adjusted Rand {rand:.3f}, NashConv of the solutions at most "
        f"{max(gaps):.4f}; {chosen} times some intent is preferred, and to play the other instead gains less than "
        f"NashConv (by {-over:.4f} at least); where the policy is the mix, none is",
    )


@claim("After DPO the policy's intents are near the CFR mix, and it is hard to exploit.", slow=True)
def the_policy_follows_the_solution() -> Finding:
    runs = [learnt(seed) for seed in SEEDS]
    before, after = [away(run[0]) for run in runs], [away(run[-1]) for run in runs]
    gaps = [(exploitable(run[0]), exploitable(run[-1])) for run in runs]
    mean = [fmean(column) for column in zip(*(run[-1] for run in runs), strict=True)]
    return Finding(
        max(after) < 0.1 < min(before) / 2 and all(last < first / 4 for first, last in gaps),
        f"one night, {ROUNDS * STEPS} steps, 5 seeds: distance of villager's claims, wolf's claims and doubts from the "
        f"solution {_shown(before)} before, {_shown(after)} after (mean play {_shown(mean)}, solution "
        f"{_shown(EQUILIBRIUM)}); NashConv {_shown(first for first, _ in gaps)} before, "
        f"{_shown(last for _, last in gaps)} after",
    )


@claim("Each iteration earns at least as much as the previous one when they meet, up to noise.", slow=True)
def iterations_beat_their_predecessors() -> Finding:
    runs = [learnt(seed) for seed in SEEDS]
    steps = [[against(new, old) for old, new in pairwise(run)] for run in runs]
    whole = [against(run[-1], run[0]) for run in runs]
    columns = list(zip(*steps, strict=True))
    mean, error = [fmean(column) for column in columns], [stdev(column) / len(SEEDS) ** 0.5 for column in columns]
    below = [one + 2 * off < 0 for one, off in zip(mean, error, strict=True)]
    return Finding(
        not any(below) and min(columns[0]) > 0 and min(columns[1]) > 0 and min(whole) > 0.05,
        f"what an iteration of {STEPS} steps earns of the one before, both roles by turns, mean of 5 seeds "
        f"{' '.join(f'{one:.3f}' for one in mean)}, standard errors up to {max(error):.3f}, least "
        f"{min(min(row) for row in steps):.4f}; the last of the first {_shown(whole)}",
    )


def _shown(numbers: Iterable[float]) -> str:
    return " ".join(f"{number:.2f}" for number in numbers)
