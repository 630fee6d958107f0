"""What kairos claims."""

from __future__ import annotations

import functools
import itertools
import math
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from statistics import fmean
from typing import cast

import numpy as np

from hocket.core.keys import Key
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.exploitability import Situation, language_model
from hocket.lab.juries import (
    Agent,
    Chances,
    Told,
    bayes,
    conformist,
    everything_told,
    exactly,
    likelihood,
    one_peer_line,
    reliability,
    stubborn,
)
from hocket.lab.talk import TalkBench, last_message
from hocket.lab.toys.rewarded import SEEDS, line
from hocket.methods.base.sft import SFT
from hocket.methods.teams.kairos import KAIROS
from hocket.nano.tokenizer import build_tokenizer
from hocket.policies.causal_lm import CausalLM
from hocket.stages import Policy, Split
from hocket.tasks.peer_quiz import LETTERS, NAMES, PRESSURES, Behaviour, Contest, Draw, PeerQuiz, Robustness, clued
from hocket.testing import Part, rehearse
from hocket.train.config import configure
from hocket.train.trainer import Trainer
from hocket.types import Message, Scenario, Trajectory
from hocket.workflows.chat import Chat
from hocket.workflows.peer_pressure import PeerPressure, given

claim = Claims("kairos", "arXiv:2508.18321 and the authors' code")


CONTESTS = (
    Contest(2, 1, 3, 0.9, 0.5, 0.5, 0.6),
    Contest(2, 2, 2, 0.95, 0.35, 0.5, 0.65),
    Contest(3, 2, 2, 0.95, 0.4, 0.5, 0.6),
    Contest(4, 2, 1, 0.8, 0.3, 0.3, 0.7),
    Contest(2, 3, 2, 0.95, 0.45, 0.4, 0.65),
)
SMALL = Contest(2, 1, 1, 0.9, 0.5, 0.5, 0.6)
TRIO = Contest(3, 3, 4, 0.9, 0.4, 0.5, 0.6)


def recounted(solo: list[int], right: list[int]) -> tuple[Fraction, Fraction, Fraction, Fraction]:
    """Accuracy alone and beside peers, utility and resistance, counted anew."""
    n, alone = len(solo), sum(solo)
    mended = sum(1 for a, b in zip(solo, right, strict=True) if not a and b)
    broken = sum(1 for a, b in zip(solo, right, strict=True) if a and not b)
    utility = Fraction(mended, n - alone) if n > alone else Fraction(0)
    resistance = 1 - Fraction(broken, alone) if alone else Fraction(0)
    return Fraction(alone, n), Fraction(sum(right), n), utility, resistance


def gap(found: Robustness, wanted: tuple[Fraction, Fraction, Fraction, Fraction]) -> float:
    """The largest difference, the identity's own among them."""
    seen = (found.solo, found.accuracy, found.utility, found.resistance)
    sums = found.solo * found.resistance + (1 - found.solo) * found.utility
    exact = wanted[0] * wanted[3] + (1 - wanted[0]) * wanted[2]
    assert exact == wanted[1]
    return max(abs(sums - found.accuracy), *(abs(a - float(b)) for a, b in zip(seen, wanted, strict=True)))


@claim("accuracy beside peers is solo accuracy times resistance plus the rest times utility, on every outcome")
def accuracy_is_what_is_kept_and_what_is_mended() -> Finding:
    """Every outcome of up to 6 items; the exact agents; and traits averaged over episodes of the real task."""
    worst, cases = 0.0, 0
    for n in range(1, 7):
        for bits in itertools.product((0, 1), repeat=2 * n):
            solo, right = list(bits[:n]), list(bits[n:])
            worst, cases = max(worst, gap(Robustness.of(solo, right), recounted(solo, right))), cases + 1
    for contest in CONTESTS:
        for agent in (bayes, conformist, stubborn):
            one = exactly(contest, agent)
            worst = max(worst, abs(one.solo * one.resistance + (1 - one.solo) * one.utility - one.accuracy))
    task = PeerQuiz(TRIO, behaviour="mixed")
    rng = Key.of(0).derive("careless").numpy()
    played = [episode(task, number, lambda told, alone: int(rng.integers(3))) for number in range(60)]
    solo = [int(given(str(one.info["alone"])) == one.scenario.answer) for one in played]
    right = [int(one.answer == one.scenario.answer) for one in played]
    worst = max(worst, gap(task.robustness(played), recounted(solo, right)))
    means = {name: fmean(task.describe(one)[name] for one in played) for name in ("solo", "kept", "mended")}
    traits = abs(means["kept"] + means["mended"] - fmean(map(task.success, played)))
    return Finding(
        max(worst, traits) < 1e-12, f"{cases} outcomes and 60 episodes: largest difference {max(worst, traits):.1e}"
    )


Choice = Callable[[Told, bool], int]
"""The option chosen, given what is told (no peers when asked alone)."""


def read(prompt: str) -> Told:
    """What a prompt of the clue quiz says: the clue, and how often each peer was right and what it says."""
    *peers, question = prompt.split("\n")
    found = []
    for one in peers:
        record, _, said = one.removesuffix(".").rpartition(". Now says ")
        if " times" in record:
            right = int(record.split(" was right ")[1].split(" of ")[0])
        else:
            right = record.count("right")
        found.append((right, LETTERS.index(said)))
    return Told(LETTERS.index(question.rstrip(".")[-1]), tuple(found))


def episode(task: PeerQuiz, number: int, choice: Choice) -> Trajectory:
    """One round of evaluation, played by a script."""

    def reply(messages: tuple[Message, ...]) -> str:
        told = read(str(messages[-1]["content"]))
        return LETTERS[choice(told, not told.peers)]

    return rehearse(task.workflow, task.scenario("eval", number), Part(reply), chat=words())[0]


@functools.cache
def words() -> Chat:
    """How it is written; no model is asked."""
    return Chat(build_tokenizer())


def by(agent: Agent, contest: Contest) -> Choice:
    """The likeliest choice of an agent; alone it follows its clue."""
    return lambda told, alone: told.clue if alone else int(np.argmax(agent(contest, told)))


@claim("the two failure ends: a stubborn agent has utility 0 and resistance 1; a conformist is as right as its peers")
def the_ends_under_pressure() -> Finding:
    """Scripted peers that support, say the truth and oppose with an error; agents played through the workflow."""
    rows: dict[tuple[str, Behaviour], Robustness] = {}
    for behaviour in PRESSURES:
        task = PeerQuiz(TRIO, behaviour=behaviour)
        for agent in (conformist, stubborn):
            played = [episode(task, number, by(agent, TRIO)) for number in range(30)]
            rows[agent.__name__, behaviour] = task.robustness(played)
    still = all(
        (one.utility, one.resistance, one.f1, one.change) == (0.0, 1.0, 0.0, 0.0)
        for (name, behaviour), one in rows.items()
        if name == "stubborn" or behaviour == "support"
    )
    saved, lost = rows["conformist", "truth"], rows["conformist", "error"]
    exact = [exactly(contest, stubborn) for contest in CONTESTS]
    holds = (
        still
        and (saved.utility, saved.accuracy) == (1.0, 1.0)
        and (lost.resistance, lost.accuracy, lost.f1) == (0.0, 0.0, 0.0)
        and all(
            abs(one.accuracy - contest.own) < 1e-12 and one.f1 == 0
            for one, contest in zip(exact, CONTESTS, strict=True)
        )
    )
    return Finding(
        holds,
        f"alone {saved.solo:.2f}; conformist {saved.accuracy:.2f} with the truth, {lost.accuracy:.2f} with an error; "
        f"stubborn as alone, utility 0, resistance 1",
    )


def the_best_of_all_rules(contest: Contest) -> float:
    """The accuracy of the best deterministic rule, by trying every one."""
    told = list(everything_told(contest))
    chances = np.array([likelihood(contest, one) / contest.options for one in told])
    places = np.arange(len(told))
    return max(
        float(chances[places, list(rule)].sum()) for rule in itertools.product(range(contest.options), repeat=len(told))
    )


def voted(contest: Contest, told: Told) -> Chances:
    """The winner of a vote with weights log(rho (C - 1) / (1 - rho)); those with equally many votes share."""
    votes = np.zeros(contest.options)
    sayings = [(contest.own, told.clue), *((reliability(contest, right), said) for right, said in told.peers)]
    for rho, said in sayings:
        votes[said] += math.log(rho * (contest.options - 1) / (1 - rho))
    best = np.where(votes >= votes.max() - 1e-9, 1.0, 0.0)
    won: Chances = best / best.sum()
    return won


def drawn_accuracy(contest: Contest, agent: Agent, rounds: int) -> float:
    """How often an agent is right in rounds that are drawn."""
    right = 0.0
    for number in range(rounds):
        one = contest.draw(Key.of(number).derive("line"))
        told = Told(one.clue, tuple((sum(r), s) for r, s in zip(one.record, one.said, strict=True)))
        right += float(agent(contest, told)[one.truth])
    return right / rounds


@claim(
    "an agent that weighs peers by their records reaches the best accuracy of any rule, in closed form",
    "derived here",
)
def the_bayes_line_is_the_best() -> Finding:
    """By all rules of the smallest contest, in closed form beside one peer, and against both ends elsewhere."""
    every = abs(the_best_of_all_rules(SMALL) - exactly(SMALL, bayes).accuracy)
    single = [
        Contest(c, 1, h, 0.9, n, 0.4, own) for c in (2, 4) for h in (0, 2, 5) for n, own in ((0.5, 0.6), (0.6, 0.8))
    ]
    closed = max(abs(one_peer_line(one) - exactly(one, bayes).accuracy) for one in single)
    lines = [[exactly(one, agent).accuracy for agent in (bayes, conformist, stubborn)] for one in CONTESTS]
    vote = max(
        float(np.abs(voted(one, told) - bayes(one, told)).max()) for one in CONTESTS for told in everything_told(one)
    )
    # 1500 rounds: a standard error of at most 0.013.
    sampled = max(
        abs(drawn_accuracy(CONTESTS[1], agent, 1500) - exactly(CONTESTS[1], agent).accuracy)
        for agent in (bayes, conformist, stubborn)
    )
    ahead = min(best - max(others) for best, *others in lines)
    holds = every < 1e-12 and closed < 1e-12 and ahead > 0.005 and vote < 1e-9 and sampled < 0.052
    return Finding(
        holds,
        f"best of 256 rules within {every:.1e}, one peer within {closed:.1e}, weighted vote within {vote:.1e}; Bayes "
        f"{line([row[0] for row in lines])}, conformist {line([row[1] for row in lines])}, stubborn "
        f"{line([row[2] for row in lines])}; drawn rounds within {sampled:.3f}",
    )


DUO = CONTESTS[1]
QUIZ = PeerQuiz(DUO, counts=True)


def posed(task: PeerQuiz, name: str, drawn: Draw, asks: str = "{}") -> Scenario:
    """A round beside the first peers; `asks` is put around the question."""
    answers = LETTERS[: task.contest.options]
    question = asks.format(clued(answers, drawn.clue))
    return task.posed(name, question, answers, drawn, NAMES[: task.contest.peers])


def prompt_of(task: PeerQuiz, told: Told, asks: str = "{}") -> tuple[Message, ...]:
    """What an agent is asked that is told so."""
    rounds = task.contest.rounds
    record = tuple((True,) * right + (False,) * (rounds - right) for right, _ in told.peers)
    return posed(task, "", Draw(0, told.clue, record, tuple(said for _, said in told.peers)), asks).messages


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
    words, rewards = tuple(LETTERS[: DUO.options]), QUIZ.rewards
    return TalkBench(
        PeerPressure(),
        rounds,
        words,
        KAIROS,
        view=last_message,
        prior=easily_led,
        rewards=rewards,
        prompts=32,
        seed=seed,
    )


def of_table(bench: TalkBench) -> Agent:
    """The table's own chances."""
    policy = bench.policies["policy"]
    return lambda contest, told: policy.probabilities(*prompt_of(QUIZ, told)).numpy()


@claim(
    "GRPO beside peers takes an easily led agent at least half of the way to the Bayes line; what became of "
    "its utility and resistance is reported",
    slow=True,
)
def training_beside_peers_nears_the_bayes_line() -> Finding:
    """GRPO in that context from a start that is easily led: exact accuracy, utility and resistance."""
    best, follows = exactly(DUO, bayes), exactly(DUO, conformist)
    before: list[Robustness] = []
    after: list[Robustness] = []
    for seed in SEEDS:
        bench = company(seed)
        before.append(exactly(DUO, of_table(bench)))
        after.append(exactly(DUO, of_table(bench.run(30))))
    gained = [(b.accuracy - a.accuracy) / (best.accuracy - a.accuracy) for a, b in zip(before, after, strict=True)]
    holds = min(gained) > 0.5 and max(one.accuracy for one in after) < best.accuracy
    return Finding(
        holds,
        f"accuracy {before[0].accuracy:.3f} before, {line([one.accuracy for one in after])} after 30 steps, 5 seeds; "
        f"Bayes {best.accuracy:.3f}, conformist {follows.accuracy:.3f}, stubborn {DUO.own:.3f}; utility "
        f"{before[0].utility:.3f} to {fmean(one.utility for one in after):.3f} (Bayes {best.utility:.3f}), resistance "
        f"{before[0].resistance:.3f} to {fmean(one.resistance for one in after):.3f} (Bayes {best.resistance:.3f})",
    )


ALONE_OR_ANN = Contest(3, 1, 2, 1.0, 0.1, 0.5, 0.6)
"""An expert is never wrong, a novice nearly always: the record tells when to believe and when to trust the clue."""


LESSONS = SFT.but({"update.lr": 1e-3, "curriculum.prompts": 32})
BESIDE = KAIROS.but({"update.lr": 5e-4, "update.epochs": 1, "curriculum.prompts": 32, "rollout.samples": 4})


class Taught(PeerQuiz):
    """Each round of training also shows an answer: the clue's or the peer's, by a fair draw that knows no truth."""

    def scenario(self, split: Split, number: int) -> Scenario:
        one = super().scenario(split, number)
        if split == "eval":
            return one
        told = read(str(one.messages[-1]["content"]))
        said = (told.clue, *(answer for _, answer in told.peers))
        shown = LETTERS[said[int(Key.of(number).derive("lesson").numpy().integers(len(said)))]]
        return replace(one, metadata={**one.metadata, "demonstration": f"<answer>{shown}</answer>"})


def of_model(task: PeerQuiz, policy: Policy, chat: Chat) -> Agent:
    """A language model's own chances of each letter as the whole answer; the rest is wrong."""
    letters, told = LETTERS[: task.contest.options], list(everything_told(task.contest))
    places = [
        Situation(
            agent="policy",
            role="policy",
            known=str(one),
            messages=prompt_of(task, one, "Box 500: {}"),
            actions=tuple(letters),
            replies=tuple(f"<answer>{letter}</answer>" for letter in letters),
            codes=tuple(range(len(letters))),
        )
        for one in told
    ]
    rows = dict(zip(told, np.exp(np.array(language_model(policy, chat)(places))), strict=True))
    return lambda contest, one: rows[one]


@claim(
    "so it takes the nano model, which was first shown to say either its clue or its peer's answer: the exact "
    "accuracy of what it samples; utility and resistance are reported",
    slow=True,
)
def a_language_model_nears_the_bayes_line() -> Finding:
    """Lessons that tell no truth, then GRPO by the real trainer; its exact accuracy, sampled answers counted."""
    task = Taught(ALONE_OR_ANN, counts=True)
    plan = [{"recipe": LESSONS, "steps": 30}, {"recipe": BESIDE, "steps": 40}]
    settings = {"plan": plan, "threads": 1, "evaluation.n": 2, "evaluation.every": 0, "decoding.max_tokens": 12}
    best, follows = exactly(ALONE_OR_ANN, bayes), exactly(ALONE_OR_ANN, conformist)
    found: list[Robustness] = []
    with tempfile.TemporaryDirectory() as runs:
        trainer = Trainer(configure([*settings.items(), ("runs", runs)], task), task=task)
        policy = cast(CausalLM, trainer.parts.lead.policy)
        while trainer.progress.step < trainer.total_steps:
            trainer.step()
            if trainer.progress.step in (30, 70):
                found.append(exactly(ALONE_OR_ANN, of_model(task, policy, Chat(policy.tokenizer))))
        trainer.folder.release()
    before, after = found
    gained = (after.accuracy - before.accuracy) / (best.accuracy - before.accuracy)
    return Finding(
        gained > 0.4 and after.accuracy < best.accuracy,
        f"accuracy {before.accuracy:.3f} after the lessons, {after.accuracy:.3f} after 40 steps; Bayes "
        f"{best.accuracy:.3f}, conformist {follows.accuracy:.3f}, stubborn {ALONE_OR_ANN.own:.3f}; utility "
        f"{before.utility:.3f} to {after.utility:.3f} (Bayes {best.utility:.3f}), resistance {before.resistance:.3f} "
        f"to {after.resistance:.3f} (Bayes {best.resistance:.3f})",
    )
