"""MARS's claims."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from statistics import fmean
from typing import Any

from hocket.agents.workflows.reply import Reply
from hocket.agents.workflows.team import Team
from hocket.agents.workflows.workflow import Outcome
from hocket.core.batch import GroupBy
from hocket.core.keys import Key
from hocket.credit.turn_level import TurnRelative
from hocket.hooks.past_selves import PastSelves
from hocket.lab.claims.harness import SEEDS, Claims, Finding, below, gap, inspect_rows, say
from hocket.lab.exploitability import InformationState
from hocket.lab.talk import TalkBench
from hocket.lab.toys.episodes import random_batches
from hocket.lab.toys.recorded_answers import lines
from hocket.lab.toys.talks import kuhn_games, kuhn_nash_conv, kuhn_poker, played_by
from hocket.methods.base.grpo import GRPO
from hocket.methods.teams.mars_self_play import MARS_SELF_PLAY, PAST_SELVES
from hocket.recipe import Recipe
from hocket.types import Message, Scenario

claim = Claims("mars-self-play", "arXiv:2510.15414 and the authors' code")

POOLED = MARS_SELF_PLAY.but(name="pooled", credit=TurnRelative(by=GroupBy("policy"), baseline="mean", scale=None))
"""One baseline for both seats. In games paid at the end a turn's reward-to-go is its seat's whole return, so this is
credit per seat's trajectory, too."""

Strategy = Mapping[tuple[int, str], Fraction]
"""How likely a seat bets, by its card (0 to 2) and the moves so far in initials."""

NEVER, THIRD, ALWAYS = (Fraction(n, 3) for n in (0, 1, 3))
EQUILIBRIUM: tuple[Strategy, Strategy] = (
    {(0, ""): THIRD, (1, ""): NEVER, (2, ""): ALWAYS, (0, "pb"): NEVER, (1, "pb"): 2 * THIRD, (2, "pb"): ALWAYS},
    {(0, "p"): THIRD, (1, "p"): NEVER, (2, "p"): ALWAYS, (0, "b"): NEVER, (1, "b"): THIRD, (2, "b"): ALWAYS},
)
"""The first seat bluffs with its jack one time in three; then it always bets its king."""


def games(play: tuple[Strategy, Strategy]) -> Iterator[tuple[Fraction, str, int]]:
    """The probability of every deal and course of moves, the moves, and what the first seat wins."""
    for cards, moves, won in kuhn_games():
        chance = Fraction(1, 6)
        for place, move in enumerate(moves):
            bets = play[place % 2][cards[place % 2], moves[:place]]
            chance *= bets if move == "b" else 1 - bets
        if chance:
            yield chance, moves, won


def worth(play: tuple[Strategy, Strategy]) -> Fraction:
    """What the first seat earns on average."""
    return sum((chance * won for chance, _, won in games(play)), Fraction(0))


def best_response(play: tuple[Strategy, Strategy], seat: int) -> Fraction:
    """The most a seat can earn against the other, over all its pure strategies."""
    bits = itertools.product((NEVER, ALWAYS), repeat=len(play[seat]))
    pure = [dict(zip(play[seat], own, strict=True)) for own in bits]
    return max(worth((own, play[1])) if seat == 0 else -worth((play[0], own)) for own in pure)


def played(moves: str, won: int) -> dict[str, Any]:
    """A game as a recorded episode: each seat's winnings stand at its last turn."""
    places = range(len(moves))
    last = {max(place for place in places if place % 2 == seat): float(s) for seat, s in ((0, won), (1, -won))}
    agents = [("first", "second")[place % 2] for place in places]
    row = {"group": "kuhn", "scores": {}, "logp": [-0.7] * len(moves), "turn": list(places), "agent": agents}
    return {**row, "turn_scores": [{"reward": last.get(place, 0.0)} for place in places]}


@claim(
    "in Kuhn poker the seats are worth -1/18 and 1/18: a pooled baseline gives each a mean advantage, one per role none"
)
def in_kuhn_poker_the_seats_are_worth_1_18_and_1_18_a_pooled() -> Finding:
    """All games of equilibrium play, each as often as it happens in 162: mean advantages of the seats."""
    value, best = worth(EQUILIBRIUM), [best_response(EQUILIBRIUM, seat) for seat in (0, 1)]
    rows = [played(moves, won) for chance, moves, won in games(EQUILIBRIUM) for _ in range(int(chance * 162))]
    recipes = (MARS_SELF_PLAY, POOLED, POOLED.but({"credit.baseline": "none"}))
    own, pooled, returns = (inspect_rows(recipe, rows)["advantages"] for recipe in recipes)
    means = [[fmean(a for row in credit for a in row[seat::2]) for seat in (0, 1)] for credit in (own, pooled)]
    # Per game instead of per turn: every seat acts, and what follows its first turn is all it earns.
    first, second = (fmean(row[seat] for row in returns) for seat in (0, 1))
    holds = len(rows) == 162 and value == Fraction(-1, 18) and best == [value, -value]
    holds &= abs(first + 1 / 18) < 1e-12 and abs(second - 1 / 18) < 1e-12
    holds &= max(map(abs, means[0])) < 1e-12 and min(map(abs, means[1])) > 1e-2
    gains = f"seats are worth {value} and {-value}, best responses gain {best[0] - value} and {best[1] + value}"
    return Finding(holds, f"{gains}; " + lines(mean_advantages_per_role=means[0], pooled=means[1]))


@claim("A turn gets what its seat earns from it on, less the mean over the turns of its role; all turns count alike.")
def a_turn_gets_what_its_seat_earns_from_it_on_less_the_mean_over() -> Finding:
    off = 0.0
    for number, rows in enumerate(random_batches()):
        rng, places = Key.of(number).derive("gap").numpy(), list[tuple[str, float]]()
        for row in rows:
            earned, turns = [turn["reward"] for turn in row["turn_scores"]], len(row["state"])
            row |= {"scores": {}, "agent": [("first", "second")[place % 2] for place in range(turns)]}
            row["logp_behaviour"] = [now - 0.3 * rng.normal() for now in row["logp"]]
            places += [(row["agent"][place], sum(earned[place::2])) for place in range(turns)]
        means = {seat: fmean(value for other, value in places if other == seat) for seat in ("first", "second")}
        made, of_turn = inspect_rows(MARS_SELF_PLAY, rows), iter(value - means[seat] for seat, value in places)
        for row, credit, slopes in zip(rows, made["advantages"], made["gradient"], strict=True):
            wanted = [next(of_turn) for _ in row["state"]]
            off = max(off, gap(credit, [wanted[turn] for turn in row["turn"]]))
            for turn, now, old, slope in zip(row["turn"], row["logp"], row["logp_behaviour"], slopes, strict=True):
                ratio, a = math.exp(now - old), wanted[turn]
                cut = ratio > 1.2 if a > 0 else ratio < 0.8
                off = max(off, abs(slope + (0.0 if cut else a * ratio / row["turn"].count(turn) / len(places))))
    return below(1e-12, advantages_and_gradient_off_the_formula_on_20_batches=off)


claim.spares("mars-self-play: credit.ddof = 40", "no deviation is taken")
claim.spares("mars-self-play: credit.epsilon = 3.9999999999999996e-05", "no deviation is taken")
claim.spares("mars-self-play: credit.epsilon = 0.0", "no deviation is taken")


@claim("Past selves: every 10 steps one enters a pool of 8; in half of the games one takes a seat, whichever.", "ours")
def past_selves_every_10_steps_one_enters_a_pool_of_8_in_half_of() -> Finding:
    (hook,) = PAST_SELVES.hooks
    assert isinstance(hook, PastSelves)
    due = [step for step in range(1, 32) if hook.due(step)]
    places = [[hook.place(entered, Key.of(n)) for n in range(99)] for entered in range(10)]
    seats = [len(hook.visited(("a", "b", "c"), Key.of(number))) for number in range(400)]
    holds = due == [1, 11, 21, 31] and all(set(own) == {n} for n, own in enumerate(places[:8]))
    holds &= all(set(own) == {None, *range(8)} for own in places[8:]) and set(seats) == {0, 1}
    holds &= abs(fmean(seats) - 0.5) < 0.1 and hook.odds((0.1, 0.9)) == [0.5, 0.5]
    holds &= hook.decay == 0.99 and not hook.alike
    return Finding(holds, say(due_before_steps=str(due), share_of_games=fmean(seats), games_count_less_by=hook.decay))


def kuhn(recipe: Recipe, seed: int) -> TalkBench:
    """Self-play of one table; every episode is dealt anew."""
    recipe = recipe.but({"rollout.samples": 32})
    return TalkBench(kuhn_poker(), [Scenario("kuhn", "kuhn")], ("pass", "bet"), recipe, lr=0.05, seed=seed)


def nash_conv(bench: TalkBench) -> float:
    """The exact NashConv of a bench's table, by open_spiel."""
    policy, words = bench.policies["policy"], list(bench.words)

    def answers(asked: Sequence[InformationState]) -> list[list[float]]:
        chances = [policy.probabilities(*one.messages).log().tolist() for one in asked]
        return [[row[words.index(reply)] for reply in one.replies] for row, one in zip(chances, asked, strict=True)]

    return kuhn_nash_conv(answers)


Make = Callable[[Recipe, int], TalkBench]
Measure = Callable[[TalkBench], float]


def falling(make: Make, measure: Measure, steps: int, parts: int, *also: Recipe) -> tuple[bool, str]:
    """Whether credit per role halves the measure, with a mean over the run near the pooled; and all figures. It is
    taken before training and after each of `parts` of it; of the recipes `also` after 2 and 4 steps."""
    curves: dict[str, list[list[float]]] = {}
    for seed, recipe in itertools.product(SEEDS, (MARS_SELF_PLAY, POOLED, *also)):
        bench = make(recipe, seed)
        curve = [measure(bench)]
        for stretch in [2] * 2 if recipe in also else [steps // parts] * parts:
            curve.append(measure(bench.run(stretch)))
        curves.setdefault("per role" if recipe is MARS_SELF_PLAY else recipe.name, []).append(curve)
    start, last = curves["per role"][0][0], {name: [row[-1] for row in rows] for name, rows in curves.items()}
    area = {name: fmean(fmean(row) for row in rows) for name, rows in curves.items()}
    holds = max(last["per role"]) < 0.5 * start and abs(area["per role"] / area["pooled"] - 1) < 0.15
    holds &= all(min(last[recipe.name]) == start for recipe in also)
    return holds, lines(steps=steps, NashConv_before=start, after=last, means_over_the_run=area)


@claim(
    "Kuhn poker: exploitability falls with credit per role and turn, and not at all with the return of the "
    "whole game; a baseline pooled over the seats' own returns is about as fast, not clearly slower as the "
    "paper has it",
    slow=True,
)
def kuhn_poker_exploitability_falls_with_credit_per_role_and_turn() -> Finding:
    """The joint return of both seats is always 0 and teaches nothing."""
    return Finding(*falling(kuhn, nash_conv, 60, 4, GRPO.but(name="joint return")))


LINES = ((0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6))
OPENING = "....X..O."  # The first seat has the centre and the second an edge: a won game for the first.
SYMMETRIES = [
    tuple(3 * abs(2 * down - y) + abs(2 * right - x) for y, x in (divmod(place, 3)[::turn] for place in range(9)))
    for down, right, turn in itertools.product((0, 1), (0, 1), (1, -1))
]


@functools.cache
def shown(board: str) -> tuple[str, tuple[int, ...]]:
    """The board as a player is shown it, the least of its turnings, and which square each shown one is."""
    return min(("".join(board[place] for place in turning), turning) for turning in SYMMETRIES)


@functools.cache
def after(board: str, square: int, number: int) -> tuple[str, float | None]:
    """The board after move `number`, and what it earns the mover if it ends the game; a taken square loses at once."""
    if board[square] != ".":
        return board, -1.0
    mark = "XO"[number % 2]
    board = board[:square] + mark + board[square + 1 :]
    if any(all(board[place] == mark for place in row) for row in LINES):
        return board, 1.0
    return board, None if "." in board else 0.0


@played_by("first", "second")
async def tic_tac_toe_game(scenario: Scenario, team: Team) -> Outcome:
    """Both seats name squares from the opening on. A seat's reward stands at its last turn."""
    board, replies = str(scenario.prompt), list[Reply]()
    earned: float | None = None
    while earned is None:
        sight, squares = shown(board)
        replies.append(await team[("first", "second")[len(replies) % 2]].fresh()(sight))
        board, earned = after(board, squares[int(replies[-1].text)], len(replies) - 1)
    values = dict.fromkeys(replies, 0.0) | {replies[-1]: earned}
    if len(replies) > 1:
        values[replies[-2]] = -earned
    return Outcome(turn_rewards={"reward": values})


def mostly_legal(messages: tuple[Message, ...], said: tuple[str, ...]) -> Mapping[str, float]:
    """A base that seldom names a taken square."""
    return {str(place): -3.0 for place, mark in enumerate(str(messages[-1]["content"])) if mark != "."}


def tic_tac_toe(recipe: Recipe, seed: int) -> TalkBench:
    recipe, scenarios = recipe.but({"rollout.samples": 32}), [Scenario("opening", OPENING)]
    return TalkBench(tic_tac_toe_game, scenarios, tuple("012345678"), recipe, prior=mostly_legal, lr=0.1, seed=seed)


def best_gains(bench: TalkBench) -> float:
    """The exact NashConv: what both seats could gain by answering the table's play in the best way."""
    chances = functools.cache(lambda sight: bench.policies["policy"].probabilities(sight).tolist())

    @functools.cache
    def value(board: str, number: int, best: int) -> float:
        """What the mover earns when seat `best` answers as well as it can."""
        sight, squares = shown(board)
        worths = []
        for square in squares:
            following, earned = after(board, square, number)
            worths.append(-value(shown(following)[0], number + 1, best) if earned is None else earned)
        if best == number % 2:
            return max(worths)
        return float(sum(share * earned for share, earned in zip(chances(sight), worths, strict=True)))

    start = shown(OPENING)[0]
    return value(start, 0, 0) - value(start, 0, 1)


@claim(
    "tic-tac-toe from a won opening: exploitability falls with credit per role and turn; pooled about as fast",
    slow=True,
)
def tic_tac_toe_from_a_won_opening_exploitability_falls_with_credit() -> Finding:
    return Finding(*falling(tic_tac_toe, best_gains, 90, 6))


claim.shipped(MARS_SELF_PLAY, "credit")
claim.shipped(PAST_SELVES, "hooks")
