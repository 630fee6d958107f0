"""KAIROS's claims."""

from __future__ import annotations

import itertools
import math
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from statistics import fmean
from typing import cast

import numpy as np

from hocket.agents.workflows.chat import Chat
from hocket.core.components import value_at
from hocket.core.keys import Key
from hocket.lab.claims.harness import EXACT, SEEDS, Claims, Finding, gap, say
from hocket.lab.exploitability import InformationState, language_model
from hocket.lab.hand_formulas import clipped, off, stale_rows
from hocket.lab.talk import TalkBench, last_message
from hocket.lab.toys.recorded_answers import line
from hocket.methods.base.sft import SFT
from hocket.methods.teams.kairos import juries
from hocket.methods.teams.kairos.juries import (
    Agent,
    Chances,
    Evidence,
    bayes,
    conformist,
    everything_told,
    exactly,
    stubborn,
)
from hocket.methods.teams.kairos.method import KAIROS
from hocket.methods.teams.kairos.task import LETTERS, NAMES, PRESSURES, Contest, Draw, PeerQuiz, Robustness, clued
from hocket.methods.teams.kairos.workflow import PeerPressure, given
from hocket.nano.tokenizer import build_tokenizer
from hocket.policies.causal_lm import CausalLM
from hocket.stages import Policy, Split
from hocket.testing import Part, rehearse
from hocket.train.config import configure
from hocket.train.trainer import Trainer
from hocket.types import Message, Scenario, Trajectory

claim = Claims("kairos", "arXiv:2508.18321 and the authors' code")
CONTESTS = (
    Contest(2, 1, 3, 0.9, 0.5, 0.5, 0.6),
    Contest(2, 2, 2, 0.95, 0.35, 0.5, 0.65),
    Contest(3, 2, 2, 0.95, 0.4, 0.5, 0.6),
    Contest(4, 2, 1, 0.8, 0.3, 0.3, 0.7),
    Contest(2, 3, 2, 0.95, 0.45, 0.4, 0.65),
)
TRIO, DUO = Contest(3, 3, 4, 0.9, 0.4, 0.5, 0.6), CONTESTS[1]
AGENTS = (bayes, conformist, stubborn)
Choice = Callable[[Evidence], int]  # The option chosen, given what is told (no peers when asked alone).


def read(prompt: str) -> Evidence:
    """What a prompt of the clue quiz says: the clue, and how often each peer was right and what it says."""
    *peers, question = prompt.split("\n")
    told = []
    for record, _, answer in (one.removesuffix(".").rpartition(". Now says ") for one in peers):
        count = int(record.split(" was right ")[1].split(" of ")[0]) if " times" in record else record.count("right")
        told.append((count, LETTERS.index(answer)))
    return Evidence(LETTERS.index(question.rstrip(".")[-1]), tuple(told))


def episode(task: PeerQuiz, number: int, choice: Choice) -> Trajectory:
    """One round of evaluation, played by a script."""
    reply = Part(lambda messages: LETTERS[choice(read(str(messages[-1]["content"])))])
    return rehearse(task.workflow, task.scenario("eval", number), reply, chat=Chat(build_tokenizer()))[0]


def by(agent: Agent, contest: Contest) -> Choice:
    """The likeliest choice of an agent; alone it follows its clue."""
    return lambda told: int(np.argmax(agent(contest, told))) if told.peers else told.clue


def unbalanced(one: Robustness) -> float:
    """How far accuracy is from what is kept and what is mended."""
    return abs(one.solo * one.resistance + (1 - one.solo) * one.utility - one.accuracy)


def miscounted(one: Robustness, solo: list[int], right: list[int]) -> float:
    """The largest difference from accuracy alone and beside peers, utility and resistance, counted anew."""
    n, alone, pairs = len(solo), sum(solo), list(zip(solo, right, strict=True))
    utility = Fraction(pairs.count((0, 1)), n - alone) if n > alone else Fraction(0)
    resistance = 1 - Fraction(pairs.count((1, 0)), alone) if alone else Fraction(0)
    share, accuracy = Fraction(alone, n), Fraction(sum(right), n)
    assert share * resistance + (1 - share) * utility == accuracy
    counted = [float(value) for value in (share, accuracy, utility, resistance)]
    return max(unbalanced(one), gap([one.solo, one.accuracy, one.utility, one.resistance], counted))


@claim("accuracy beside peers is solo accuracy times resistance plus the rest times utility, on every outcome")
def accuracy_beside_peers_is_solo_accuracy_times_resistance_plus() -> Finding:
    outcomes = [bits for n in range(1, 7) for bits in itertools.product((0, 1), repeat=2 * n)]
    halves = ((list(bits[: len(bits) // 2]), list(bits[len(bits) // 2 :])) for bits in outcomes)
    gaps = [miscounted(Robustness.of(solo, right), solo, right) for solo, right in halves]
    gaps += [unbalanced(exactly(contest, agent)) for contest in CONTESTS for agent in AGENTS]
    task, rng = PeerQuiz(TRIO, behaviour="mixed"), Key.of(0).derive("careless").numpy()
    played = [episode(task, number, lambda told: int(rng.integers(3))) for number in range(60)]
    solo = [int(given(str(one.info["alone"])) == one.scenario.answer) for one in played]
    gaps.append(miscounted(task.robustness(played), solo, [int(one.answer == one.scenario.answer) for one in played]))
    kept, mended = (fmean(task.describe(one)[name] for one in played) for name in ("kept", "mended"))
    gaps.append(abs(kept + mended - fmean(map(task.success, played))))
    return Finding(max(gaps) < EXACT, say(outcomes=len(outcomes), episodes=60, largest_difference=max(gaps)))


@claim("the two failure ends: a stubborn agent has utility 0 and resistance 1; a conformist is as right as its peers")
def the_two_failure_ends_a_stubborn_agent_has_utility_0_and() -> Finding:
    rows: dict[tuple[str, str], Robustness] = {}
    for behaviour, agent in itertools.product(PRESSURES, (conformist, stubborn)):
        task = PeerQuiz(TRIO, behaviour=behaviour)
        rows[agent.__name__, behaviour] = task.robustness([episode(task, n, by(agent, TRIO)) for n in range(30)])
    still = [one for (name, behaviour), one in rows.items() if name == "stubborn" or behaviour == "support"]
    holds = all((one.utility, one.resistance, one.f1, one.change) == (0.0, 1.0, 0.0, 0.0) for one in still)
    saved, lost = rows["conformist", "truth"], rows["conformist", "error"]
    holds &= (saved.utility, saved.accuracy) == (1.0, 1.0)
    holds &= (lost.resistance, lost.accuracy, lost.f1) == (0.0, 0.0, 0.0)
    exact = [(exactly(contest, stubborn), contest.own) for contest in CONTESTS]
    holds &= all(abs(one.accuracy - own) < EXACT and one.f1 == 0 for one, own in exact)
    conforming = {"with the truth": saved.accuracy, "with an error": lost.accuracy}
    return Finding(holds, say(alone=saved.solo, conformist=conforming, stubborn="as alone, utility 0, resistance 1"))


def voted(contest: Contest, told: Evidence) -> Chances:
    """The winner of a vote with weights log(rho (C - 1) / (1 - rho)); those with equally many votes share."""
    votes = np.zeros(contest.options)
    sayings = [(contest.own, told.clue), *((juries.reliability(contest, right), one) for right, one in told.peers)]
    for rho, one in sayings:
        votes[one] += math.log(rho * (contest.options - 1) / (1 - rho))
    best = np.where(votes >= votes.max() - 1e-9, 1.0, 0.0)
    won: Chances = best / best.sum()
    return won


def drawn_accuracy(contest: Contest, agent: Agent, rounds: int) -> float:
    """How often an agent is right in rounds that are drawn."""
    right = 0.0
    for one in (contest.draw(Key.of(number).derive("line")) for number in range(rounds)):
        told = Evidence(one.clue, tuple((sum(r), s) for r, s in zip(one.record, one.said, strict=True)))
        right += float(agent(contest, told)[one.truth])
    return right / rounds


@claim(
    "an agent that weighs peers by their records reaches the best accuracy of any rule, in closed form", "derived here"
)
def an_agent_that_weighs_peers_by_their_records_reaches_the_best() -> Finding:
    small = Contest(2, 1, 1, 0.9, 0.5, 0.5, 0.6)
    told = list(everything_told(small))
    likely = np.array([juries.likelihood(small, one) / small.options for one in told])
    rules = (list(rule) for rule in itertools.product(range(small.options), repeat=len(told)))
    best = max(float(likely[np.arange(len(told)), rule].sum()) for rule in rules)
    every = abs(best - exactly(small, bayes).accuracy)
    chances = itertools.product((2, 4), (0, 2, 5), ((0.5, 0.6), (0.6, 0.8)))
    single = [Contest(c, 1, h, 0.9, novice, 0.4, own) for c, h, (novice, own) in chances]
    closed = max(abs(juries.one_peer_line(one) - exactly(one, bayes).accuracy) for one in single)
    lines = {agent.__name__: [exactly(one, agent).accuracy for one in CONTESTS] for agent in AGENTS}
    cases = [(one, told) for one in CONTESTS for told in everything_told(one)]
    vote = max(float(np.abs(voted(*one) - bayes(*one)).max()) for one in cases)
    # 1500 rounds: a standard error of at most 0.013.
    sampled = max(abs(drawn_accuracy(DUO, agent, 1500) - exactly(DUO, agent).accuracy) for agent in AGENTS)
    ahead = min(best - max(others) for best, *others in zip(*lines.values(), strict=True))
    holds = every < EXACT and closed < EXACT and ahead > 0.005 and vote < 1e-9 and sampled < 0.052
    off = {"best of 256 rules": every, "one peer": closed, "weighted vote": vote, "drawn rounds": sampled}
    return Finding(holds, say(off_by=off, accuracy={name: line(values) for name, values in lines.items()}))


QUIZ = PeerQuiz(DUO, counts=True)


def posed(task: PeerQuiz, name: str, drawn: Draw, asks: str = "{}") -> Scenario:
    """A round beside the first peers; `asks` is put around the question."""
    answers = LETTERS[: task.contest.options]
    return task.posed(name, asks.format(clued(answers, drawn.clue)), answers, drawn, NAMES[: task.contest.peers])


def prompt_of(task: PeerQuiz, told: Evidence, asks: str = "{}") -> tuple[Message, ...]:
    """What an agent is asked that is told so."""
    record = tuple((True,) * right + (False,) * (task.contest.rounds - right) for right, _ in told.peers)
    return posed(task, "", Draw(0, told.clue, record, tuple(answer for _, answer in told.peers)), asks).messages


def easily_led(messages: tuple[Message, ...], said: tuple[str, ...]) -> Mapping[str, float]:
    """A start that leans to what the peers say, whatever their records, and less to its clue."""
    told = read(str(messages[-1]["content"]))
    logits = dict.fromkeys(LETTERS[: DUO.options], 0.0)
    logits[LETTERS[told.clue]] += 0.5
    for _, one in told.peers:
        logits[LETTERS[one]] += 1.0
    return logits


def company(seed: int) -> TalkBench:
    """A table that answers beside peers."""
    key = Key.of(seed).derive("company")
    rounds = [posed(QUIZ, f"round {number}", DUO.draw(key.derive(number))) for number in range(2000)]
    start = {"view": last_message, "prior": easily_led, "rewards": QUIZ.rewards, "prompts": 32, "seed": seed}
    return TalkBench(PeerPressure(), rounds, tuple(LETTERS[: DUO.options]), KAIROS, **start)  # type: ignore[arg-type]


def of_table(bench: TalkBench) -> Robustness:
    """What the table's own chances come to."""
    policy = bench.policies["policy"]
    return exactly(DUO, lambda contest, told: policy.probabilities(*prompt_of(QUIZ, told)).numpy())


def neared(contest: Contest, before: Sequence[Robustness], after: Sequence[Robustness], least: float) -> Finding:
    """Whether each gained that share of the way to the Bayes line; accuracy, utility and resistance."""
    best = exactly(contest, bayes)
    gained = [(b.accuracy - a.accuracy) / (best.accuracy - a.accuracy) for a, b in zip(before, after, strict=True)]
    lines = {"Bayes": best.accuracy, "conformist": exactly(contest, conformist).accuracy, "stubborn": contest.own}
    saw = say(accuracy={"before": before[0].accuracy, "after": line([one.accuracy for one in after]), **lines})
    for name in ("utility", "resistance"):
        start, *ends = (getattr(one, name) for one in (before[0], *after))
        saw += f"; {say(**{name: {'before': start, 'after': fmean(ends), 'Bayes': getattr(best, name)}})}"
    return Finding(min(gained) > least and max(one.accuracy for one in after) < best.accuracy, saw)


@claim(
    "GRPO beside peers takes an easily led agent at least half of the way to the Bayes line; what became of "
    "its utility and resistance is reported",
    slow=True,
)
def grpo_beside_peers_takes_an_easily_led_agent_at_least_half_of() -> Finding:
    benches = [company(seed) for seed in SEEDS]
    return neared(DUO, [*map(of_table, benches)], [of_table(bench.run(30)) for bench in benches], 0.5)


ALONE_OR_ANN = Contest(3, 1, 2, 1.0, 0.1, 0.5, 0.6)
"""An expert is never wrong, a novice nearly always: the record tells when to believe and when to trust the clue."""


class Taught(PeerQuiz):
    """Each round of training also shows an answer: the clue's or the peer's, by a fair draw that knows no truth."""

    def scenario(self, split: Split, number: int) -> Scenario:
        one = super().scenario(split, number)
        if split == "eval":
            return one
        told = read(str(one.messages[-1]["content"]))
        answers = (told.clue, *(answer for _, answer in told.peers))
        shown = LETTERS[answers[int(Key.of(number).derive("lesson").numpy().integers(len(answers)))]]
        return replace(one, metadata={**one.metadata, "demonstration": f"<answer>{shown}</answer>"})


def of_model(task: PeerQuiz, policy: Policy, chat: Chat) -> Robustness:
    """A language model's own chances of each letter as the whole answer; the rest is wrong."""
    letters, told = tuple(LETTERS[: task.contest.options]), list(everything_told(task.contest))
    ways = (letters, tuple(f"<answer>{letter}</answer>" for letter in letters), tuple(range(len(letters))))
    places = [
        InformationState("policy", "policy", str(one), prompt_of(task, one, "Box 500: {}"), *ways) for one in told
    ]
    rows = dict(zip(told, np.exp(np.array(language_model(policy, chat)(places))), strict=True))
    return exactly(task.contest, lambda contest, one: rows[one])


@claim(
    "so it takes the nano model, which was first shown to say either its clue or its peer's answer: the exact "
    "accuracy of what it samples; utility and resistance are reported",
    slow=True,
)
def so_it_takes_the_nano_model_which_was_first_shown_to_say_either() -> Finding:
    task = Taught(ALONE_OR_ANN, counts=True)
    lessons = SFT.but({"update.lr": 1e-3, "curriculum.prompts": 32})
    few = {"curriculum.prompts": 32, "rollout.samples": 4}
    beside = KAIROS.but({"update.lr": 5e-4, "update.epochs": 1, **few})
    plan = [{"recipe": lessons, "steps": 30}, {"recipe": beside, "steps": 40}]
    settings = {"plan": plan, "threads": 1, "evaluation.n": 2, "evaluation.every": 0, "decoding.max_tokens": 12}
    made: list[Robustness] = []
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(configure([*settings.items(), ("runs", folder)], task), task=task)
        policy = cast(CausalLM, trainer.parts.lead.policy)
        while trainer.progress.step < trainer.total_steps:
            trainer.step()
            if trainer.progress.step in (30, 70):
                made.append(of_model(task, policy, Chat(policy.tokenizer)))
        trainer.folder.release()
    return neared(ALONE_OR_ANN, made[:1], made[1:], 0.4)


@claim(
    "as shipped it is GRPO with a KL term, clipped 0.2 below and 0.28 above, counted by hand; 4 epochs", "released code"
)
def as_shipped_it_is_grpo_with_a_kl_term_clipped_0_2_below_and_0_28() -> Finding:
    gaps = [off(KAIROS, rows, partial(clipped, high=0.28, kl=0.04)) for rows in stale_rows("kairos")]
    epochs = value_at(KAIROS, "update.epochs")
    return Finding(max(gaps) < EXACT and epochs == 4, say(off_by_hand=max(gaps), epochs=epochs))


claim.shipped(KAIROS, "objective", "update")
