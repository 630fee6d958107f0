"""GTR's claims: on hands of cards whose thoughts and moves are rows of a table, and as shipped."""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hocket.agents.environments.reading import Tagged
from hocket.agents.workflows.environment import PlayEnvironment
from hocket.agents.workflows.player import TextPlayer
from hocket.core.keys import Key
from hocket.core.markup import THOUGHT
from hocket.lab.claims.harness import Claims, Finding, below, gap, inspect_rows, say
from hocket.lab.claims.lesson_data import Pupil, after_lessons
from hocket.lab.talk import ContextRows, LookupPolicy, Prior, TalkBench, WordChat, total
from hocket.lab.toys.recorded_answers import line, sample
from hocket.methods.agents.gtr.method import GTR, GUIDED, GuidedThoughts, SolvedPoints, comes_out
from hocket.methods.agents.gtr.task import chain_of, thought_of
from hocket.methods.agents.gtr.world import Joined, Points24, read, solution
from hocket.methods.base.ppo import PPO
from hocket.recipe import Recipe
from hocket.rollout.branches import tokens_covering
from hocket.train.aio import run_async
from hocket.types import Assignment, Message, Scenario, Trajectory, Turn

claim = Claims("gtr", "arXiv:2503.08525; weit123/GTR")
HANDS = ((1, 2, 8), (1, 3, 6), (1, 3, 7), (1, 3, 8), (1, 4, 5), (1, 4, 6))
WORLD = Points24(cards=3)
KNOWN, FOLLOWED, HABIT = 0.2, 0.1, 0.3
"""How likely a right thought is, that a move follows the thought, and that it is right by the cards alone."""


def situations(now: Joined) -> Iterator[Joined]:
    """This one, and all that moves lead to while cards are left."""
    yield now
    for move in now.moves():
        after = now.after(move)
        if after is not None and after.left:
            yield from situations(after)


SEEN = tuple(dict.fromkeys(one for hand in HANDS for one in situations(Joined(24, None, hand))))
WAYS = {one.text: solution(one) for one in SEEN}
THOUGHTS = tuple(dict.fromkeys(thought_of(one, way) for one in SEEN if (way := WAYS[one.text]) is not None))
MOVES = tuple(dict.fromkeys(move for one in SEEN for move in one.moves()))
READING = Tagged("answer")
WORDS = (*THOUGHTS, *(READING.written(move) for move in MOVES))
MEANT = {thought_of(one, way): READING.written(way[0]) for one in SEEN if (way := WAYS[one.text]) is not None}


def start(messages: tuple[Message, ...], said: tuple[str, ...]) -> Mapping[str, float]:
    """Thoughts of any situation, the right one more often; then the thought's move, one of habit, or any legal one."""
    seen = read(str(messages[-1]["content"]))
    assert seen is not None
    way, chances = WAYS[seen.text], dict.fromkeys(WORDS, 1e-9)
    if not said:
        for thought in THOUGHTS:
            chances[thought] += (1 - KNOWN * (way is not None)) / len(THOUGHTS)
        if way is not None:
            chances[thought_of(seen, way)] += KNOWN
    else:
        legal = [READING.written(move) for move in seen.moves()]
        for move in legal:
            chances[move] += (1 - FOLLOWED - HABIT * (way is not None)) / len(legal)
        chances[MEANT.get(said[0], legal[0])] += FOLLOWED
        if way is not None:
            chances[READING.written(way[0])] += HABIT
    return {word: math.log(chance) for word, chance in chances.items()}


LEAN = 3.0
"""How much what is thought in one situation moves what is thought in all others."""


class Rows(ContextRows):
    """Knows which rows are of thoughts."""

    def __init__(self, chat: WordChat, actions: int, capacity: int, prior: Prior | None) -> None:
        super().__init__(chat, actions, capacity, prior)
        self.thinks = torch.zeros(capacity, dtype=torch.float64)

    def _begin(self, row: int, key: tuple[int, tuple[int, ...]]) -> None:
        super()._begin(row, key)
        self.thinks[row] = float(not key[1])


class Leaning(LookupPolicy):
    """A table whose rows of thoughts lean on a common one, as a network's do: what is thought anywhere gets likelier
    everywhere."""

    def logp(self, rows: Tensor, temperature: float | Tensor = 1.0) -> Tensor:
        own, known = self.module.logits, self.rows
        assert isinstance(known, Rows)
        common = LEAN * known.thinks[rows][:, None] * own[-1]
        return torch.log_softmax((known.start[rows] + own[rows] + common) / temperature, -1)


class Cards(TalkBench):
    """Hands, thought about and played by a leaning table."""

    def _policy(self, name: str) -> LookupPolicy:
        assert callable(self.prior)
        return Leaning(Rows(self.chat, len(self.words), self.capacity, self.prior), lr=self.lr, name=name)


SCENARIOS = [Scenario(f"hand {n}", "Make 24.", metadata={"hand": list(hand)}, seed=n) for n, hand in enumerate(HANDS)]
PLAIN = PPO.but({"rollout.samples": 4, "update.minibatches": 1}, name="plain")
RECIPES = {one.name: one for one in (PLAIN, GTR)}
SOLVABLE = [one for one in SEEN if WAYS[one.text] is not None]
SEEDS, STEPS, EARLY = range(3), 120, 20


def won(one: Trajectory) -> float:
    return float(total(one) > 0)


def bench(recipe: Recipe, seed: int = 0) -> TalkBench:
    play = PlayEnvironment(WORLD, reading=READING, memory=False, instruct=False)
    return Cards(play, SCENARIOS, WORDS, recipe, seed=seed, length=2, prior=start, measure=won, capacity=8192, lr=0.05)


@dataclass(frozen=True)
class Thinking:
    """What is thought, over all situations that can be solved, each as often: exact. distinct: exp of the entropy of
    thoughts. information: that thoughts and situations share, in nats. right: how likely the solver's thought is."""

    distinct: float
    information: float
    right: float

    @staticmethod
    def of(made: TalkBench) -> Thinking:
        (policy,) = made.policies.values()
        chances = torch.stack([policy.probabilities(one.text) for one in SOLVABLE])
        whole, apart = _entropy(chances.mean(0)), fmean(map(_entropy, chances))
        wanted = [WORDS.index(thought_of(one, WAYS[one.text] or ())) for one in SOLVABLE]
        right = chances[range(len(wanted)), wanted].mean()
        return Thinking(math.exp(whole), whole - apart, float(right))


def _entropy(chances: Tensor) -> float:
    return float(-(chances * chances.clamp(min=1e-300).log()).sum())


@functools.cache
def course(name: str, seed: int) -> dict[str, float]:
    """A run: thoughts before and after, and success by samples early and at the end."""
    made = bench(RECIPES[name], seed)
    before = Thinking.of(made)
    early = made.run(EARLY).success(32)
    after = Thinking.of(made.run(STEPS - EARLY))
    told = {
        f"{when} {figure}": value
        for when, one in (("before", before), ("after", after))
        for figure, value in vars(one).items()
    }
    return {**told, "early": early, "late": made.success(32)}


def courses(recipe: Recipe, figure: str) -> list[float]:
    """A figure of the runs of all seeds."""
    return [course(recipe.name, seed)[figure] for seed in SEEDS]


ALONE = GTR.but({"regularisers.1.coefficient": 0.0}, name="alone")


@claim("With alpha = 0 it is PPO exactly: credit, loss and gradient of a batch, and every probability along a run.")
def with_alpha_0_it_is_ppo_exactly_credit_loss_and_gradient_of_a() -> Finding:
    gaps = list[float]()
    for seed in range(5):
        own, guided = _rows(seed)
        seen, plain = inspect_rows(ALONE, [*own, *guided]), inspect_rows(PLAIN, own)
        gaps += [abs(seen["loss"] - plain["loss"]), gap(seen["gradient"][: len(own)], plain["gradient"])]
        gaps.append(max(abs(one) for row in seen["gradient"][len(own) :] for one in row))
    runs = [_chances(bench(one).run(4)) for one in (ALONE, PLAIN)]
    return Finding(max(gaps) == 0 and bool((runs[0] == runs[1]).all()), say(off=max(gaps), run_off=gap(*runs)))


def _rows(seed: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """A batch: what an agent said, and what is imitated, the end of each not to be learnt."""
    rng, own, guided = np.random.default_rng(seed), list[dict[str, Any]](), list[dict[str, Any]]()
    for place in range(7):
        size = int(rng.integers(2, 5))
        logs = {name: (-rng.exponential(size=size)).tolist() for name in ("logp", "logp_behaviour")}
        row = sample(f"hand {place}", float(rng.integers(0, 2)), logs["logp"], value=rng.normal(size=size).tolist())
        if place < 4:
            own.append({**row, "logp_behaviour": logs["logp_behaviour"]})
        else:
            told = {GUIDED.name: True}
            guided.append({**row, "scores": {}, "info": told, "trained": [*[True] * (size - 1), False]})
    return own, guided


def _chances(made: TalkBench) -> Tensor:
    (policy,) = made.policies.values()
    return torch.stack([policy.probabilities(one.text) for one in SEEN])


@claim(
    "Its loss is PPO's on its own turns and alpha times the mean -log pi of corrected thoughts, their moves left out."
)
def its_loss_is_ppos_on_its_own_turns_and_alpha_times_the_mean_log() -> Finding:
    off = list[float]()
    for seed in range(5):
        (own, guided), alpha = _rows(seed), 0.3 + seed
        seen = inspect_rows(GTR.but({"regularisers.1.coefficient": alpha}), [*own, *guided])
        plain, thoughts = inspect_rows(PLAIN, own), [one for row in guided for one in row["logp"][:-1]]
        off.append(abs(seen["loss"] - plain["loss"] + alpha * fmean(thoughts)))
        slopes = [[*[-alpha / len(thoughts)] * (len(row["logp"]) - 1), 0.0] for row in guided]
        off += [gap(seen["gradient"][: len(own)], plain["gradient"]), gap(seen["gradient"][len(own) :], slopes)]
    plain_sum = GTR.regularisers[1].coefficient == 1.0  # type: ignore[attr-defined]
    return below(1e-12, plain_sum, loss_and_gradient_off=max(off))


@claim("The corrector leaves a thought alone that comes out, by adding up anew, and writes one that does elsewhere.")
def the_corrector_leaves_a_thought_alone_that_comes_out_by_adding() -> Finding:
    wrong, counts = 0, Counter[str]()
    for seen in SEEN:
        for way in _ways(seen):
            said = chain_of(seen, way)
            value = "" if seen.total is None else str(seen.total)
            for move in way:
                value = f"({value}{move})"
            out, turn = eval(value) == seen.target, _turn(seen, f"<think>{said}</think><answer>{way[0]}</answer>")
            told = SolvedPoints()(turn)
            wrong += comes_out(seen, said) is not out or comes_out(seen, said + "+1=25") or comes_out(seen, "1" + said)
            wrong += (told is None) is not (out or WAYS[seen.text] is None)
            wrong += told is not None and not comes_out(seen, told.removeprefix("<think>").removesuffix("</think>"))
            counts["right" if out else "out of reach" if told is None else "corrected"] += 1
        silent = SolvedPoints()(_turn(seen, "<answer>8</answer>"))
        wrong += (silent is None) is not (WAYS[seen.text] is None)
    return Finding(not wrong and len(counts) == 3, say(wrong=wrong, **counts))


def _ways(seen: Joined) -> Iterator[tuple[str, ...]]:
    for move in seen.moves():
        after = seen.after(move)
        assert after is not None
        yield from ((move, *rest) for rest in _ways(after)) if after.left else [(move,)]


def _turn(seen: Joined, said: str) -> Turn:
    nothing = np.zeros(0, np.int64)
    return Turn("player", "policy", nothing, nothing, text=said, prompt=({"role": "user", "content": seen.text},))


@claim("Corrected thoughts gather over steps, and old ones come back; of each the thought alone is learnt.")
def corrected_thoughts_gather_over_steps_and_old_ones_come_back_of() -> Finding:
    made, corrected, faults, old = bench(GTR.but({"rollout.imitated": 40})), Counter[tuple[str, str]](), 0, 0
    for _step in range(5):
        before, result = set(corrected), made.step()
        own = [turn for one in result.trajectories if not GUIDED.present(one) for turn in one.turns]
        wrong = [
            (str(turn.prompt[-1]["content"]), should) for turn in own if (should := SolvedPoints()(turn)) is not None
        ]
        corrected.update(wrong)
        distinct = {turn.text.partition("</think>")[0] for turn in own}
        shares = [result.metrics[f"thoughts/{name}"] for name in ("corrected", "distinct")]
        faults += shares != [len(wrong) / len(own), len(distinct) / len(own)]
        taught = [one.turns[0] for one in result.trajectories if GUIDED.present(one)]
        told = [(str(turn.prompt[-1]["content"]), turn.text.partition("</think>")[0] + "</think>") for turn in taught]
        faults += len(taught) != min(40, corrected.total()) or any(one not in corrected for one in told)
        faults += any(turn.forced is None or turn.forced.tolist() != [False, True] for turn in taught)
        faults += result.metrics["thoughts/kept"] != corrected.total()
        old += sum(one in before for one in told)
    faults += GTR.rollout != GuidedThoughts(samples=4, imitated=64, kept=4096)
    return Finding(not faults and old > 20, say(faults=faults, kept=corrected.total(), seen_in_earlier_steps=old))


@claim(
    "Rewarded by outcomes alone thoughts collapse: one or two are left, which tell less than a quarter of what they "
    "could.",
    slow=True,
)
def rewarded_by_outcomes_alone_thoughts_collapse_one_or_two_are() -> Finding:
    first, last, shared = (courses(PLAIN, name) for name in ("before distinct", "after distinct", "after information"))
    holds = max(last) < min(first) / 4 and max(shared) < 0.25 * math.log(len(THOUGHTS))
    most = math.log(len(THOUGHTS))
    return Finding(holds, say(distinct_before=line(first), after=line(last), information=line(shared), at_most=most))


@claim("Guided, thoughts keep their number and tell what the situation is, and the solver's is thought.", slow=True)
def guided_thoughts_keep_their_number_and_tell_what_the_situation() -> Finding:
    first, last, shared, right = (
        courses(GTR, name) for name in ("before distinct", "after distinct", "after information", "after right")
    )
    kept = min(b / a for a, b in zip(first, last, strict=True))
    holds = kept > 0.85 and min(shared) > 4 * max(courses(PLAIN, "after information")) and min(right) > 0.9
    return Finding(
        holds, say(distinct_before=line(first), after=line(last), information=line(shared), right=line(right))
    )


@claim("It wins more at equal steps of play, as long as hands are lost.", slow=True)
def it_wins_more_at_equal_steps_of_play_as_long_as_hands_are_lost() -> Finding:
    early = {one.name: courses(one, "early") for one in (GTR, PLAIN)}
    late = {one.name: courses(one, "late") for one in (GTR, PLAIN)}
    holds = min(early["gtr"]) > max(early["plain"]) and min(late["gtr"]) > 0.95
    return Finding(holds, say(after_20_steps=_lines(early), after_120=_lines(late)))


def _lines(found: Mapping[str, list[float]]) -> dict[str, str]:
    return {name: line(values) for name, values in found.items()}


SPOKEN, SITUATIONS, TRIES, LONG = "points24?cards=3&led=0", 16, 4, 80
"""Hands played by the shipped model, whose moves do not follow thoughts at first; how much is examined and trained."""


def spoken(made: Pupil) -> tuple[Thinking, float]:
    """What is thought before the first move of unseen hands, estimated from samples and exact likelihoods; success.

    The marginal is over these hands, so that thoughts tell log(hands) at most.
    """
    asked = [
        Assignment(made.parts.task.scenario("eval", number), TRIES, made.parts.decoding) for number in range(SITUATIONS)
    ]
    player = made.parts.player
    assert isinstance(player, TextPlayer)
    played = run_async(player.play(asked, key=Key.of(0).derive("thoughts")))
    firsts, said, right = [one.turns[0] for one in played], list[list[int]](), 0
    for turn in firsts:
        seen, thought = read(str(turn.prompt[-1]["content"])), THOUGHT.search(turn.text)
        length = len(turn.text) if thought is None else thought.end()
        said.append(turn.action[: tokens_covering(player, turn.action, length)].tolist())
        right += seen is not None and thought is not None and comes_out(seen, thought[1])
    pairs = [(turn, tokens) for tokens in said for turn in firsts[::TRIES]]
    known = [one for one in run_async(player.likelihood(pairs)) if one is not None]
    logs = torch.tensor([float(one.sum()) for one in known], dtype=torch.float64).view(len(said), SITUATIONS)
    whole = logs.logsumexp(1) - math.log(SITUATIONS)
    own = logs[range(len(said)), [number // TRIES for number in range(len(said))]]
    found = Thinking(math.exp(-float(whole.mean())), float((own - whole).mean()), right / len(said))
    return found, fmean(map(made.parts.task.success, played))


@claim(
    "With the shipped model, on hands whose moves do not follow thoughts at first: in 80 steps of PPO alone thoughts "
    "collapse, a hundredth is left, which tells less than a quarter of what it could, and none comes out; guided, they "
    "tell three quarters, and a sixth at least comes out; two seeds.",
    slow=True,
)
def with_the_shipped_model_on_hands_whose_moves_do_not_follow() -> Finding:
    """Predicted besides: most guided thoughts come out, and hands are won. A fifth did, and hardly a hand is won."""
    found = dict[str, list[float]]()
    for seed in range(2):
        ask = {"update.lr": 0.003, "curriculum.prompts": 4, "seed": seed}
        for recipe in (ALONE.but({"rollout.imitated": 0}), GTR):
            made = after_lessons(recipe, SPOKEN, f"lessons:{SPOKEN}", ask, steps=80)
            if not seed and recipe is not GTR:
                found["distinct before"] = [spoken(made)[0].distinct]
            thinking, won_by = spoken(made.run(LONG))
            name = "guided" if recipe is GTR else "alone"
            for figure, value in {**vars(thinking), "success": won_by}.items():
                found.setdefault(f"{name} {figure}", []).append(value)
    most = math.log(SITUATIONS)
    collapsed = max(found["alone information"]) < most / 4 and max(found["alone right"] + found["alone success"]) < 0.05
    fewer = max(found["alone distinct"]) < found["distinct before"][0] / 100
    kept = min(found["guided information"]) > 3 * most / 4 and min(found["guided right"]) > 1 / 6
    return Finding(
        collapsed and fewer and kept, say(at_most=most, **{name: line(values) for name, values in found.items()})
    )


HORIZON = "a mean over tokens has no horizon"
claim.spares("gtr: objective.of.horizon = 5120", HORIZON)
claim.spares("gtr: regularisers.0.of.horizon = 5120", HORIZON)
claim.spares("gtr: regularisers.1.of.horizon = 5120", HORIZON)
claim.spares(
    "not drawn or words is None -> not drawn and words is None",
    "where nothing is drawn nothing is played; all players of the claims have words",
)

claim.shipped(
    GTR,
    without={"regularisers": GTR.regularisers[:1]},
    first={"recipe": "sft", "task": "lessons:points24?cards=3", "steps": 60},
    sees=lambda run: {"corrected": run.mean("thoughts/corrected"), "distinct": run.mean("thoughts/distinct")},
)
