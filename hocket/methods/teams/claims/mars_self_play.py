"""What mars-self-play claims."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from statistics import fmean
from typing import Any

from hocket.core.batch import GroupBy
from hocket.credit.turn_level import TurnRelative
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.exploitability import Situation, assess
from hocket.lab.microscope import look
from hocket.lab.talk import TalkBench
from hocket.lab.toys.rewarded import SEEDS, line
from hocket.lab.toys.seats import ENDS, kuhn_poker, payoff
from hocket.methods.base.grpo import GRPO
from hocket.methods.teams.mars_self_play import MARS_SELF_PLAY
from hocket.recipe import Recipe
from hocket.types import Message, Scenario
from hocket.workflows.reply import Reply
from hocket.workflows.team import Team
from hocket.workflows.workflow import Outcome, Workflow

claim = Claims("mars-self-play", "arXiv:2510.15414 and the authors' code")


POOLED = MARS_SELF_PLAY.but(name="pooled", credit=TurnRelative(by=GroupBy("policy"), baseline="mean", scale=None))
"""One baseline for both seats. In games paid at the end a turn's reward-to-go is its seat's whole return, so this is
credit per seat's trajectory, too."""


JOINT = GRPO.but(name="joint")
"""One return for the whole game: what both seats earned together."""


PASS, BET = "pass", "bet"
Strategy = Mapping[tuple[int, str], Fraction]
"""How likely a seat bets, by its card (0 to 2) and the moves so far in initials."""


third = Fraction(1, 3)
EQUILIBRIUM: tuple[Strategy, Strategy] = (
    {(0, ""): third, (1, ""): Fraction(0), (2, ""): Fraction(1)}
    | {(0, "pb"): Fraction(0), (1, "pb"): 2 * third, (2, "pb"): Fraction(1)},
    {(0, "p"): third, (1, "p"): Fraction(0), (2, "p"): Fraction(1)}
    | {(0, "b"): Fraction(0), (1, "b"): third, (2, "b"): Fraction(1)},
)
"""The first seat bluffs with its jack one time in three; then it always bets its king."""


def games(play: tuple[Strategy, Strategy]) -> Iterator[tuple[Fraction, tuple[int, int], str]]:
    """Every deal and every course of moves with its probability."""
    for cards in itertools.permutations(range(3), 2):
        for moves in ENDS:
            chance = Fraction(1, 6)
            for place, move in enumerate(moves):
                bets = play[place % 2][cards[place % 2], moves[:place]]
                chance *= bets if move == "b" else 1 - bets
            if chance:
                yield chance, (cards[0], cards[1]), moves


def worth(play: tuple[Strategy, Strategy]) -> Fraction:
    """What the first seat earns on average."""
    return sum((chance * payoff(cards, moves) for chance, cards, moves in games(play)), Fraction(0))


def best_response(play: tuple[Strategy, Strategy], seat: int) -> Fraction:
    """The most a seat can earn against the other, over all its pure strategies."""
    places = list(play[seat])
    found = []
    for bits in itertools.product((Fraction(0), Fraction(1)), repeat=len(places)):
        pure = dict(zip(places, bits, strict=True))
        both = (pure, play[1]) if seat == 0 else (play[0], pure)
        found.append(worth(both) * (1 if seat == 0 else -1))
    return max(found)


def played(cards: tuple[int, int], moves: str) -> dict[str, Any]:
    """A game as a recorded episode: each seat's winnings stand at its last turn."""
    first = payoff(cards, moves)
    rewards = [0.0] * len(moves)
    for seat, earned in ((0, first), (1, -first)):
        rewards[max(place for place in range(len(moves)) if place % 2 == seat)] = float(earned)
    return {
        "group": "kuhn",
        "scores": {},
        "logp": [-0.7] * len(moves),
        "turn": list(range(len(moves))),
        "agent": [("first", "second")[place % 2] for place in range(len(moves))],
        "turn_scores": [{"reward": reward} for reward in rewards],
    }


@claim(
    "in Kuhn poker the seats are worth -1/18 and 1/18: a pooled baseline gives each a mean advantage, one per "
    "role none",
)
def seats_are_worth_a_different_amount() -> Finding:
    """All games of equilibrium play, each as often as it happens in 162: mean advantages of the seats."""
    value, gaps = worth(EQUILIBRIUM), [best_response(EQUILIBRIUM, seat) for seat in (0, 1)]
    rows = [played(cards, moves) for chance, cards, moves in games(EQUILIBRIUM) for _ in range(int(chance * 162))]
    document = {"version": 1, "trajectories": rows}
    means: dict[str, list[float]] = {}
    for name, recipe in (("own", MARS_SELF_PLAY), ("pooled", POOLED)):
        credit = look(recipe, document)["advantages"]
        by_seat: list[list[float]] = [[], []]
        for row in credit:
            for place, advantage in enumerate(row):
                by_seat[place % 2].append(advantage)
        means[name] = [fmean(values) for values in by_seat]
    # Per game instead of per turn: every seat acts, and what follows its first turn is all it earns.
    first = fmean(row[0] for row in look(POOLED.but({"credit.baseline": "none"}), document)["advantages"])
    second = fmean(row[1] for row in look(POOLED.but({"credit.baseline": "none"}), document)["advantages"])
    holds = (
        len(rows) == 162
        and value == Fraction(-1, 18)
        and gaps == [Fraction(-1, 18), Fraction(1, 18)]
        and abs(first + 1 / 18) < 1e-12
        and abs(second - 1 / 18) < 1e-12
        and max(map(abs, means["own"])) < 1e-12
        and min(map(abs, means["pooled"])) > 1e-2
    )
    return Finding(
        holds,
        f"seats are worth {value} and {-value}, best responses gain {gaps[0] - value} and {gaps[1] + value}; mean "
        f"advantages per role {line(means['own'])}, pooled {line(means['pooled'])}",
    )


def kuhn(recipe: Recipe, seed: int) -> TalkBench:
    """Self-play of one table; every episode is dealt anew."""
    recipe = recipe.but({"rollout.samples": 32})
    return TalkBench(kuhn_poker(), [Scenario("kuhn", "kuhn")], (PASS, BET), recipe, lr=0.05, seed=seed)


def nash_conv(bench: TalkBench) -> float:
    """The exact NashConv of a bench's table, by open_spiel."""
    policy, words = bench.policies["policy"], list(bench.words)

    def said(asked: Sequence[Situation]) -> list[list[float]]:
        chances = [policy.probabilities(*one.messages).log().tolist() for one in asked]
        return [[row[words.index(reply)] for reply in one.replies] for row, one in zip(chances, asked, strict=True)]

    return assess(kuhn_poker(), said).nash_conv


def falling(
    make: Callable[[], TalkBench], measure: Callable[[TalkBench], float], steps: int, parts: int
) -> list[float]:
    """The measure before training and after each part of it."""
    bench = make()
    found = [measure(bench)]
    for _ in range(parts):
        bench.run(steps // parts)
        found.append(measure(bench))
    return found


@claim(
    "Kuhn poker: exploitability falls with credit per role and turn, and not at all with the return of the "
    "whole game; a baseline pooled over the seats' own returns is about as fast, not clearly slower as the "
    "paper has it",
    slow=True,
)
def kuhn_is_learnt_by_seat() -> Finding:
    """NashConv of self-play: credit per seat halves it, the game's joint return, always 0, teaches nothing."""
    curves: dict[str, list[list[float]]] = {"own": [], "pooled": [], "joint": []}
    for seed in SEEDS:
        for name, recipe in (("own", MARS_SELF_PLAY), ("pooled", POOLED), ("joint", JOINT)):
            steps, parts = (60, 4) if name != "joint" else (4, 2)
            curves[name].append(falling(functools.partial(kuhn, recipe, seed), nash_conv, steps, parts))
    start = curves["own"][0][0]
    last = {name: [row[-1] for row in rows] for name, rows in curves.items()}
    area = {name: fmean(fmean(row) for row in rows) for name, rows in curves.items()}
    holds = (
        max(last["own"]) < 0.5 * start and min(last["joint"]) == start and abs(area["own"] / area["pooled"] - 1) < 0.15
    )
    return Finding(
        holds,
        f"NashConv {start:.3f} before; after 60 steps, 5 seeds: per role {line(last['own'])}, pooled "
        f"{line(last['pooled'])}, joint return {line(last['joint'])}; means over the run {area['own']:.3f} per role, "
        f"{area['pooled']:.3f} pooled",
    )


LINES = ((0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6))
OPENING = "....X..O."
"""The first seat has the centre and the second an edge: a won game for the first."""


def _symmetries() -> tuple[tuple[int, ...], ...]:
    turned = tuple(6 - 3 * (place % 3) + place // 3 for place in range(9))
    found, square = [], tuple(range(9))
    for _ in range(4):
        found += [square, tuple(square[3 * (place // 3) + 2 - place % 3] for place in range(9))]
        square = tuple(square[place] for place in turned)
    return tuple(found)


SYMMETRIES = _symmetries()


@functools.cache
def seen(board: str) -> tuple[str, tuple[int, ...]]:
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


class TicTacToe(Workflow):
    """Both seats name squares from the opening on. A seat's reward stands at its last turn."""

    roles = ("first", "second")

    async def play(self, scenario: Scenario, team: Team) -> Outcome:
        board, replies = str(scenario.prompt), list[Reply]()
        earned: float | None = None
        while earned is None:
            shown, squares = seen(board)
            replies.append(await team[self.roles[len(replies) % 2]].fresh()(shown))
            board, earned = after(board, squares[int(replies[-1].text)], len(replies) - 1)
        values = dict.fromkeys(replies, 0.0) | {replies[-1]: earned}
        if len(replies) > 1:
            values[replies[-2]] = -earned
        return Outcome(turn_rewards={"reward": values})


def mostly_legal(messages: tuple[Message, ...], said: tuple[str, ...]) -> Mapping[str, float]:
    """A base that seldom names a taken square."""
    return {str(place): -3.0 for place, mark in enumerate(str(messages[-1]["content"])) if mark != "."}


def tic_tac_toe(recipe: Recipe, seed: int) -> TalkBench:
    recipe = recipe.but({"rollout.samples": 32})
    scenarios = [Scenario("opening", OPENING)]
    words = tuple("012345678")
    return TalkBench(TicTacToe(), scenarios, words, recipe, prior=mostly_legal, lr=0.1, seed=seed)


def gap(bench: TalkBench) -> float:
    """The exact NashConv: what both seats could gain by answering the table's play in the best way."""
    policy, chances = bench.policies["policy"], dict[str, list[float]]()

    def chance(shown: str) -> list[float]:
        if shown not in chances:
            chances[shown] = policy.probabilities(shown).tolist()
        return chances[shown]

    @functools.cache
    def value(board: str, number: int, best: int | None) -> float:
        """What the mover earns when seat `best` answers as well as it can."""
        shown, squares = seen(board)
        found = []
        for square in squares:
            following, earned = after(board, square, number)
            found.append(-value(seen(following)[0], number + 1, best) if earned is None else earned)
        if best == number % 2:
            return max(found)
        return sum(share * earned for share, earned in zip(chance(shown), found, strict=True))

    start = seen(OPENING)[0]
    return value(start, 0, 0) - value(start, 0, 1)


@claim(
    "tic-tac-toe from a won opening: exploitability falls with credit per role and turn; pooled about as fast",
    slow=True,
)
def tic_tac_toe_is_learnt_by_seat() -> Finding:
    """NashConv of self-play from an opening that is won for the first seat."""
    curves: dict[str, list[list[float]]] = {"own": [], "pooled": []}
    for seed in SEEDS:
        for name, recipe in (("own", MARS_SELF_PLAY), ("pooled", POOLED)):
            curves[name].append(falling(functools.partial(tic_tac_toe, recipe, seed), gap, 90, 6))
    start = curves["own"][0][0]
    last = {name: [row[-1] for row in rows] for name, rows in curves.items()}
    area = {name: fmean(fmean(row) for row in rows) for name, rows in curves.items()}
    holds = max(last["own"]) < 0.5 * start and abs(area["own"] / area["pooled"] - 1) < 0.15
    return Finding(
        holds,
        f"NashConv {start:.3f} before; after 90 steps, 5 seeds: per role {line(last['own'])}, pooled "
        f"{line(last['pooled'])}; means over the run {area['own']:.3f} per role, {area['pooled']:.3f} pooled",
    )
