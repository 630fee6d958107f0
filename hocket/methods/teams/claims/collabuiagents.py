"""CollabUIAgents' claims, on pages in words with a critic that is right so often as it is told to be."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from statistics import fmean
from typing import Any

import torch

from hocket.agents.workflows.episode import Limits
from hocket.core.columns import RETURNS
from hocket.core.keys import Key
from hocket.lab.claims.harness import EXACT, Claims, Finding, below, gap, inspect_rows, say
from hocket.lab.claims.shipped_check import ShippedRun
from hocket.lab.talk import TalkBench
from hocket.lab.toys.recorded_answers import line
from hocket.lab.toys.screens import THINGS, Few, page
from hocket.lab.toys.talks import stepped
from hocket.methods.teams.collabuiagents import (
    ADVERSARY,
    COLLABUIAGENTS,
    FOLLOWS,
    GRADES,
    LEAD,
    OPPOSED,
    OPPOSES,
    WRONG,
    OpposedAnswers,
    VotedMoves,
    drawn_graph,
)
from hocket.rewards.judging import Answer, Judge, Question
from hocket.testing import Part, rehearse
from hocket.types import Message, Scenario, Trajectory
from hocket.zoo.screens import OnScreen, Screens

claim = Claims("collabuiagents", "arXiv:2502.14496, by its abstract, summaries and the authors' code")
AGENTS = ("agent_1", "agent_2", "agent_3")
LONGEST = 2
RIGHT = {thing.asked: thing.move for thing in THINGS}
WORDS = (*RIGHT.values(), "click 2", "say 17", "hm")
"""What may be said: every right move, and some that never are."""


# ---------------------------------------------------------------- pages, and a critic


@dataclass(frozen=True)
class Short(Few):
    """Pages with one or two things to do."""

    def make(self, scenario: Scenario) -> OnScreen:
        return OnScreen(page(int(scenario.metadata["screen"]), LONGEST), self.rules)


PAGES = [
    Scenario(f"page {n}", page(n, LONGEST).told(), metadata={"screen": n, "plan": page(n, LONGEST).plan}, seed=n)
    for n in range(12)
]
FLOW = VotedMoves(Short(Screens(longest=LONGEST)), memory=False, instruct=False, voters=3, edges=2)


@dataclass(frozen=True)
class Critic(OpposedAnswers):
    """Right with probability `accuracy` about each answer, or, with `whole`, about each episode, for all its answers.

    Grades of whole episodes say nothing of the adversary's answers, which get one half.
    """

    accuracy: float = 1.0
    whole: bool = False
    asked: list[int] = field(default_factory=list, compare=False)

    async def opinions(self, answers: Sequence[tuple[Trajectory, int]]) -> list[float | None]:
        self.asked.append(len(answers))
        rng = Key.of(len(self.asked)).derive("critic").numpy()
        if not self.whole:
            right = [float(one or 0.0) for one in await super().opinions(answers)]
            return [one if rng.random() < self.accuracy else 1 - one for one in right]
        episodes = {id(episode): episode for episode, _ in answers}
        label = {
            number: float(done(episode) == float(rng.random() < self.accuracy)) for number, episode in episodes.items()
        }
        wrong = {(number, other) for number, one in episodes.items() for _, other in OPPOSED.get(one)}
        return [0.5 if (id(episode), place) in wrong else label[id(episode)] for episode, place in answers]


def done(episode: Trajectory) -> float:
    """Whether the page was done."""
    return float(sum(RETURNS.get(episode).values()) >= 1.0)


def sees(messages: tuple[Message, ...]) -> tuple[str, str]:
    """What a table sees: what is asked for next, and the move it heard most, or that it is to be wrong."""
    lines = str(messages[-1]["content"]).split("\n")
    next_ = next(one for one in lines[0].split("; ") if not one.startswith("x "))
    heard = [one for text in lines if text.startswith(LEAD) for one in text.removeprefix(LEAD).split("; ")]
    return next_, WRONG if lines[-1] == WRONG else max(heard, key=heard.count, default="")


def errs(messages: tuple[Message, ...], said: tuple[str, ...]) -> dict[str, float]:
    """An adversary does what it is told, agents know no more than words."""
    asked, told = sees(messages)
    return {RIGHT[asked]: -30.0} if told == WRONG else {}


def bench(seed: int = 0, own: bool = False, flow: VotedMoves = FLOW, **critic: Any) -> TalkBench:
    """Agents on tables, six pages in a step."""
    recipe = COLLABUIAGENTS.but({"rollout": Critic(samples=2, **critic), "credit.own": own})
    return TalkBench(
        flow, PAGES, WORDS, recipe, view=sees, prior=errs, seed=seed, lr=0.3, limits=Limits(turns=None), prompts=6,
        measure=done,
    )  # fmt: skip


# ---------------------------------------------------------------- the loss


@claim("Of two answers to one question the higher graded is preferred: DPO's loss and gradient by hand.")
def of_two_answers_to_one_question_the_higher_graded_is_preferred() -> Finding:
    off, counts = [0.0], Counter[str]()
    rng = Key.of(1).derive("grades").numpy()
    for own in (False, True):
        for _ in range(12):
            rows, due = list[dict[str, Any]](), dict[Place, float]()
            pairs: list[tuple[Place, Place]] = []
            for sample in range(4):
                number, turns = len(rows), int(rng.integers(1, 4))
                grades = [float(one) for one in rng.integers(0, 3, turns) / 2]
                rows.append(recorded(rng, grades, sample, -1))
                for place in range(turns):
                    one = float(rng.integers(0, 3)) / 2
                    rows.append(recorded(rng, [one], sample, place))
                    counts["questions"] += 1
                    mine, other = (number, place), (len(rows) - 1, 0)
                    if grades[place] > one:
                        pairs.append((mine, other))
                    elif grades[place] < one and not own:
                        pairs.append((other, mine))
            counts["pairs"] += len(pairs)
            gain = [[now - ref for now, ref in zip(r["logp"], r["logp_ref"], strict=True)] for r in rows]
            drift = {
                (n, t): math.fsum(v for v, turn in zip(gain[n], r["turn"], strict=True) if turn == t)
                for n, r in enumerate(rows)
                for t in set(r["turn"])
            }
            loss = 0.0
            for better, worse in pairs:
                h = 0.1 * (drift[better] - drift[worse])
                loss += math.log1p(math.exp(-h)) / len(pairs)
                slope = 0.1 / (1 + math.exp(h)) / len(pairs)
                due[better] = due.get(better, 0.0) - slope
                due[worse] = due.get(worse, 0.0) + slope
            found = inspect_rows(COLLABUIAGENTS.but({"credit.own": own}), rows)
            wanted = [[due.get((n, t), 0.0) for t in r["turn"]] for n, r in enumerate(rows)]
            off += [gap(found["gradient"], wanted), abs(found["loss"] - loss)]
    return below(1e-9, 20 < counts["pairs"] < counts["questions"], off=max(off))


Place = tuple[int, int]


def recorded(rng: Any, grades: Sequence[float | None], sample: int, place: int) -> dict[str, Any]:
    """An episode whose answers are graded so (place -1), or what an adversary said to one of its questions."""
    turn = [number for number in range(len(grades)) for _ in range(int(rng.integers(1, 4)))]
    logp = (-rng.exponential(size=len(turn))).tolist()
    row = {"group": f"page {sample // 2}", "logp": logp, "turn": turn, "scores": {}}
    told = {OPPOSES.name: [sample, place], GRADES.name: list(grades)}
    return {**row, "logp_ref": (-rng.exponential(size=len(turn))).tolist(), "info": told}


@claim("Answers without a grade, or graded too near, make no pair; without any grade nothing is learnt.")
def answers_without_a_grade_or_graded_too_near_make_no_pair_without() -> Finding:
    rng = Key.of(2).numpy()

    def slope(mine: float | None, other: float | None, margin: float = 0.0) -> float:
        rows = [recorded(rng, [mine], 0, -1), recorded(rng, [other], 0, 0)]
        found = inspect_rows(COLLABUIAGENTS.but({"credit.margin": margin}), rows)["gradient"]
        return max(abs(float(one)) for row in found for one in row)

    silent = [(None, 1.0, 0.0), (1.0, None, 0.0), (None, None, 0.0), (0.5, 0.5, 0.0), (1.0, 0.5, 0.5)]
    moved = min(slope(1.0, 0.0), slope(0.0, 1.0), slope(1.0, 0.5, 0.4))
    return below(EXACT, moved > 0.01, still=max(slope(*one) for one in silent))


@claim("Adversary's answers are answers to the agent's own question, of its policy; each is paired by its grade.")
def adversarys_answers_are_answers_to_the_agents_own_question_of() -> Finding:
    batch, rows = stepped(bench(3, accuracy=0.8))
    seen, wrong, questions = COLLABUIAGENTS.credit(batch), 0, 0
    assert seen.pairs is not None
    assert seen.compared is not None
    episode, due = rows[0], Counter[tuple[str, str, str]]()
    for one in rows:
        if one.source != "branch":
            episode, turns = one, iter(OPPOSED.get(one))
            continue
        own, other = next(turns)
        mine, theirs, (said,) = episode.turns[own], episode.turns[other], one.turns
        wrong += said.policy != mine.policy or said.observation.tolist() != mine.observation.tolist()
        wrong += said.action.tolist() != theirs.action.tolist() or said.logp is not None
        wrong += theirs.policy != ADVERSARY or OPPOSES.get(one) != (episode.sample, own)
        heard = str(theirs.prompt[-1]["content"])
        wrong += heard != f"{mine.prompt[-1]['content']}\n{WRONG}"
        grades = GRADES.get(episode)[own], GRADES.get(one)[0]
        wrong += GRADES.get(episode)[other] != grades[1] or set(episode.scores) != {"reward"}
        questions += 1
        if grades[0] != grades[1]:
            best, worst = (mine, said) if grades[0] > grades[1] else (said, mine)
            due[mine.policy, best.text, worst.text] += 1
    found = Counter[tuple[str, str, str]]()
    for better, worse in seen.compared.tolist():
        policy = {batch.names["policy"][int(batch.policy[one])] for one in (better, worse)}
        texts = [WORDS[int(batch.action[batch.turn == one][0])] for one in (better, worse)]
        found[policy.pop(), texts[0], texts[1]] += 1
        wrong += len(policy)
    better, worse = (torch.isin(batch.turn[seen.decision], side) for side in seen.compared.unbind(1))
    told = gap(seen.advantage, better.double() - worse.double()) == 0 and bool(better.any())
    told &= COLLABUIAGENTS.rollout == OpposedAnswers(samples=2, scale=10)
    learnt = {batch.names["role"][int(batch.role[batch.turn[n]])] for n in seen.decision[seen.weight != 0].tolist()}
    holds = wrong == 0 and told and found == due and learnt == set(AGENTS)
    return Finding(holds, say(questions=questions, pairs=sum(due.values()), wrong=wrong))


# ---------------------------------------------------------------- one episode


@claim("A graph has no circle and so many edges as are asked for, each as likely; every episode draws its own.")
def a_graph_has_no_circle_and_so_many_edges_as_are_asked_for_each() -> Finding:
    counts, wrong = Counter[tuple[int, int]](), 0
    for number in range(3000):
        edges = drawn_graph(4, 3, Key.of(number))
        wrong += len(set(edges)) != 3 or any((b, a) in edges for a, b in edges) or _circle(edges)
        counts.update(edges)
    uneven = max(abs(counts[a, b] / 3000 - 0.25) for a in range(4) for b in range(4) if a != b)
    whole = {len(drawn_graph(4, most, Key.of(1))) for most in (6, 7, 99)} == {6} and drawn_graph(3, 0, Key.of(1)) == ()
    kinds = len({FLOW.graph(Key.of(number)) for number in range(40)})
    return Finding(wrong == 0 and uneven < 0.03 and whole and kinds > 5, say(wrong=wrong, uneven=uneven, graphs=kinds))


def _circle(edges: Sequence[tuple[int, int]]) -> bool:
    """Whether one comes back to where one was."""
    left = set(edges)
    while left:
        ends = {b for _, b in left} - {a for a, _ in left}
        if not ends:
            return True
        left = {(a, b) for a, b in left if b not in ends}
    return False


@claim("All answer; those connected answer again, having heard the others; the most named last move is made.")
def all_answer_those_connected_answer_again_having_heard_the_others() -> Finding:
    flow, scenario = replace(FLOW, edges=3), PAGES[0]
    begun, wrong = page(0, LONGEST), 0
    said = {"agent_1": "hm", "agent_2": begun.plan[0], "agent_3": f"{begun.plan[0].upper()} "}
    orders = set()
    for seed in range(6):
        parts = {name: Part(otherwise=text) for name, text in said.items()}
        parts[ADVERSARY] = Part()
        (one,) = rehearse(flow, scenario, parts, seed=seed)
        first = {name: part.questions[0] for name, part in parts.items() if part.asked}
        wrong += first != dict.fromkeys(AGENTS, begun.told()) or parts[ADVERSARY].asked != []
        again = {name: part.questions[1:2] for name, part in parts.items()}
        heard = [text[0].removeprefix(f"{begun.told()}\n{LEAD}").split("; ") for text in again.values() if text]
        wrong += sorted(map(len, heard)) != [1, 2] or done(one) != 1.0 or len(one.turns) != 5
        wrong += not {move for moves in heard for move in moves} <= {text.strip() for text in said.values()}
        orders.add(tuple(sorted(name for name, text in again.items() if text)))
        wrong += one.info["opposed"] != [] or len(FOLLOWS.get(one)) != 5 or "limit" in one.info
    tie = {"agent_1": ["hm"], "agent_2": [begun.plan[0]], "agent_3": ["do it"], ADVERSARY: ["-"]}
    (lost,) = rehearse(replace(flow, rounds=1), scenario, tie)
    first_wins = {**tie, "agent_1": [begun.plan[0]], "agent_2": ["hm"]}
    (won,) = rehearse(replace(flow, edges=0), scenario, first_wins)
    holds = (done(lost), done(won), len(won.turns)) == (0.0, 1.0, 3)
    two = {**dict.fromkeys(AGENTS, page(1, LONGEST).plan), ADVERSARY: ["-"]}
    (cut,) = rehearse(replace(flow, edges=0, turns=1), PAGES[1], two)
    (through,) = rehearse(replace(flow, edges=0, turns=2), PAGES[1], two)
    holds &= (done(cut), len(cut.turns), done(through), len(through.turns)) == (0.0, 3, 1.0, 6)
    holds &= lost.info["limit"] == "the episode has used its 1 moves"
    return Finding(wrong == 0 and holds and len(orders) > 1, say(wrong=wrong, orders=len(orders)))


class _Says(Judge):
    """Grades by what the move is, and keeps what it was asked."""

    def __init__(self, said: Callable[[str], str | None]) -> None:
        super().__init__("test")
        self.said, self.heard = said, list[str]()

    def ask(self, questions: Sequence[Question]) -> Sequence[Answer]:
        self.heard += [question.prompt for question in questions]
        return [Answer(self.said(question.prompt)) for question in questions]


@claim("A judge reads the question and the move, an adversary's like an agent's, and grades in tenths.")
def a_judge_reads_the_question_and_the_move_an_adversarys_like_an() -> Finding:
    judge = _Says(lambda prompt: "7 of 10" if "Move:\nclick" in prompt else None)
    recipe = COLLABUIAGENTS.but({"rollout": OpposedAnswers(samples=1, judge=judge)})
    made = TalkBench(
        FLOW, PAGES, WORDS, recipe, view=sees, prior=errs, seed=5, limits=Limits(turns=None), prompts=6, measure=done
    )
    _, rows = stepped(made)
    wrong, seen = 0, set[float | None]()
    for one in rows:
        for turn, grade in zip(one.turns, GRADES.get(one), strict=True):
            wrong += grade != (0.7 if turn.text.startswith("click") else None)
            seen.add(grade)
    told = all(WRONG not in prompt and "Shown:\n" in prompt for prompt in judge.heard)
    shown = any(f"\n{LEAD}" in prompt for prompt in judge.heard)
    return Finding(wrong == 0 and told and shown and seen == {0.7, None}, say(asked=len(judge.heard), wrong=wrong))


# ---------------------------------------------------------------- what is learnt

STEPS = 60


def rightly(made: TalkBench) -> float:
    """The chance of the right move, exactly; the mean over agents and things that are asked for."""
    chances = (
        float(made.policies[name].probabilities(thing.asked)[WORDS.index(thing.move)])
        for name in AGENTS
        for thing in THINGS
    )
    return fmean(chances)


@cache
def trained(seed: int, own: bool = False, **_: Any) -> TalkBench:
    return bench(seed, own, accuracy=0.8).run(STEPS)


@claim(
    "From a critic that is right about four answers in five a team learns to do pages; from as many labels, as often "
    "right, of whole episodes it does not.",
    slow=True,
)
def from_a_critic_that_is_right_about_four_answers_in_five_a_team() -> Finding:
    each = [trained(seed) for seed in (0, 1)]
    whole = [bench(seed, accuracy=0.8, whole=True).run(STEPS) for seed in (0, 1)]
    before, chances = rightly(bench()), [[rightly(one) for one in made] for made in (each, whole)]
    pages = [[one.success(4) for one in made] for made in (each, whole)]
    holds = min(chances[0]) > 0.9 and max(chances[1]) < before + 0.05 and min(pages[0]) > 0.8 > 0.2 > max(pages[1])
    saw = f"right moves {before:.2f} before, {line(chances[0])} after, by episodes {line(chances[1])}"
    return Finding(holds, f"{saw}; pages {line(pages[0])}, by episodes {line(pages[1])}")


@claim("The team does pages as well over other graphs: none, one with all edges, one round and three.", slow=True)
def the_team_does_pages_as_well_over_other_graphs_none_one_with_all() -> Finding:
    made, found = trained(0), dict[str, float]()
    graphs = {"as trained": FLOW, "none": replace(FLOW, edges=0), "all": replace(FLOW, edges=3)}
    graphs |= {"one round": replace(FLOW, rounds=1), "three rounds": replace(FLOW, rounds=3, edges=3)}
    player = made.player
    for name, flow in graphs.items():
        made.player = replace(player, workflow=flow)
        found[name] = made.success(6)
    made.player = player
    return Finding(min(found.values()) > found["as trained"] - 0.1 and found["as trained"] > 0.8, say(**found))


@claim(
    "A critic that guesses teaches nothing; where the adversary's answer is never the preferred one it does, as then "
    "what the adversary says is unlearnt.",
    "the first by the paper's sense, the second derived",
    slow=True,
)
def a_critic_that_guesses_teaches_nothing_where_the_adversarys() -> Finding:
    before = rightly(bench())
    guessed, own = ([rightly(bench(s, o, accuracy=0.5).run(STEPS)) for s in (0, 1)] for o in (False, True))
    holds = max(guessed) < before + 0.05 and min(own) > 2 * before
    return Finding(holds, say(before=before, guessed=guessed, adversary_never_preferred=own))


def seen(run: ShippedRun) -> dict[str, float]:
    """Pairs, questions that were answered twice, and what agents heard."""
    pairs = min(run.mean(f"agent_{number}/pairs/total") for number in (1, 2, 3, 4))
    episodes = [one for row in run.results if row.experience for one in row.experience.trajectories]
    heard = sum(LEAD in str(turn.prompt[-1]["content"]) for one in episodes for turn in one.turns)
    return {"pairs of an agent": pairs, "opposed": float(sum(OPPOSES.present(one) for one in episodes)), "heard": heard}


claim.shipped(
    COLLABUIAGENTS,
    "credit",
    "rollout",
    trains=("agent_1", "agent_2", "agent_3", "agent_4"),
    steps=2,
    settings={"curriculum.prompts": 8},
    first={"recipe": "sft", "steps": 120, "update.lr": 0.003, "task": "lessons:voted:screens?longest=2"},
    sees=seen,
)
