"""VideoChat-M1's claims, on films in words: exact pieces, tables that learn, and the shipped model after lessons."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from statistics import fmean
from typing import Any

from hocket.agents.workflows.player import TextPlayer
from hocket.core.casting import Separate
from hocket.core.intervals import mean_interval
from hocket.core.keys import Key
from hocket.lab.claims.harness import EXACT, Claims, Finding, below, cases, gap, inspect_rows, say
from hocket.lab.claims.lesson_data import after_lessons
from hocket.lab.claims.shipped_check import ShippedRun
from hocket.lab.talk import TalkBench
from hocket.lab.toys.episodes import episode
from hocket.lab.toys.recorded_answers import group_relative
from hocket.lab.toys.talks import stepped
from hocket.methods.teams.videochat_m1.method import (
    REWRITTEN,
    SERVED,
    VIDEOCHAT_M1,
    InOrder,
    PeersLeftOut,
    PlanTogether,
    read_by,
)
from hocket.methods.teams.videochat_m1.task import Films
from hocket.rollout.independent import Independent
from hocket.testing import Part, rehearse
from hocket.train.aio import run_async
from hocket.train.ledger import Ledger
from hocket.types import Assignment, Message, Scenario, Trajectory
from hocket.zoo.tasks.clips import DOES, TOOLS

claim = Claims("videochat-m1", "arXiv:2511.19524, its abstract and summaries; films in words are our own")
TASK, LONG = Films(6), Films()
AGENTS = ("agent_1", "agent_2", "agent_3")
FLOW = PlanTogether()


def film(track: str = "sounds", places: Sequence[int] = (2, 5)) -> Scenario:
    """A film of six scenes with the word bell at two of them, and horn elsewhere in both tracks."""
    clip: list[dict[str, str]] = [{"seen": f"cat {does}"} for does in DOES]
    for place in places:
        clip[place - 1][track] = "bell"
    (other,) = set(TOOLS) - {track}
    clip[0][other] = clip[3][other] = clip[2][track] = "horn"
    told = {"clip": clip, "cue": "bell", "track": track, "places": list(places)}
    return Scenario("film", "What is done at each bell?", " ".join(DOES[n - 1] for n in places), metadata=told)


def played(flow: PlanTogether, said: Sequence[Sequence[str]], scenario: Scenario | None = None) -> Trajectory:
    """An episode of a script: by agent what it plans, plans anew, and answers."""
    parts = {f"agent_{n}": list(words) for n, words in enumerate(said, start=1)}
    (one,) = rehearse(flow, scenario or film(), parts, verifier=TASK.verify)
    assert one.failure is None, one.failure
    return one


def earned(one: Trajectory) -> tuple[float, list[float]]:
    """What the team earned, and what every turn did besides."""
    team, own = one.scores["team"].value, one.scores["own"].value
    assert isinstance(team, float)
    assert isinstance(own, list)
    return team, [value or 0.0 for value in own]


# ---------------------------------------------------------------- one episode

GOOD = (
    ("sounds bell; look 1", "look 2", f"{DOES[1]} {DOES[4]}"),
    ("signs bell; look 1", "look 5", f"{DOES[1]} {DOES[4]}"),
    ("look 4; look 3", "look 3", "runs naps"),
)
SERVES = (1.0, 0.5, 0.0)
"""The shares of their calls that serve."""


@claim(
    "The team's answer is what most say, of equals the earliest agent's; half its verdict and half its own each earns."
)
def the_teams_answer_is_what_most_say_of_equals_the_earliest_agents() -> Finding:
    right, other, third = f"{DOES[1]} {DOES[4]}", "naps naps", "digs digs"
    due = {
        (right, right, other): 1.0,
        (other, right, right): 1.0,
        (other, right, other): 0.0,
        (right, other, third): 1.0,
        (other, right, third): 0.0,
        (f"<answer>{right.upper()}.</answer>", other, right): 1.0,
    }

    def holds(votes: Sequence[str], verdict: float) -> bool:
        one = played(FLOW, [(*said[:2], vote) for said, vote in zip(GOOD, votes, strict=True)])
        team, each = earned(one)
        own = [0.5 * TASK.verify(vote, one.scenario) + 0.2 + more for vote, more in zip(votes, SERVES, strict=True)]
        right = TASK.verify(one.answer, one.scenario) == verdict
        return right and gap(each[6:], own) <= EXACT and team == 0.5 * verdict

    return cases(due.items(), holds)


@claim("Nobody makes more calls than its budget, whatever is planned; who plans more, or no calls, loses its form.")
def nobody_makes_more_calls_than_its_budget_whatever_is_planned_who() -> Finding:
    long, calls = "sounds bell; look 2; look 5; look 1", set[int]()
    two, three = (replace(FLOW, calls=calls, own=0.0, form=1.0, process=0.0) for calls in (2, 3))

    def holds(flow: PlanTogether, plans: Sequence[str], made: Sequence[str], formed: bool) -> bool:
        one = played(flow, [(*plans, "runs runs"), *(GOOD[1:] if flow is two else [(*plans, "runs runs")] * 2)])
        own = [call["step"] for call in one.info["calls"] if call["agent"] == 0]
        calls.add(len(own))
        whole = len(own) + 4 if flow is two else 3 * len(own)
        kept = len(one.turns) == 3 * (flow.calls + 1) and one.info["tool_calls"] == whole
        return kept and own == list(made) and earned(one)[1][-3] == float(formed)

    found = cases(
        [
            (two, (long, "look 5; look 1"), ("sounds bell", "look 5"), False),
            (two, (long, "look 5"), ("sounds bell", "look 5"), False),
            (two, ("sounds bell; look 2", "look 5; look 1"), ("sounds bell", "look 5"), False),
            (two, ("sounds bell; look 2", "hm"), ("sounds bell", "look 2"), False),
            (two, ("sounds bell; look 2", "look 2"), ("sounds bell", "look 2"), True),
            (two, ("sounds bell", "look 2"), ("sounds bell", "look 2"), True),
            (two, ("hm", "look 2"), ("look 2",), False),
            (two, ("hm", "hm"), (), False),
            (two, ("look 9; look 2", "look 2"), ("look 9", "look 2"), False),
            (two, ("look 1; look 2", "so: look 5"), ("look 1", "look 5"), False),
            (three, ("look 1; look 2; look 3", "hm", "look 6"), ("look 1", "look 2", "look 6"), False),
            (three, ("look 1", "look 2; look 3", "look 6"), ("look 1", "look 2", "look 6"), True),
            (three, ("look 1", "look 2", "look 6; look 3"), ("look 1", "look 2", "look 6"), False),
        ],
        holds,
    )
    return Finding(found.holds and max(calls) == 3, found.saw)


@claim("Plans change only between steps, after reading what all found so far; alone, each reads what it found itself.")
def plans_change_only_between_steps_after_reading_what_all_found_so() -> Finding:
    wrong = 0
    for talk in (True, False):
        parts = {who: Part(*said) for who, said in zip(AGENTS, GOOD, strict=True)}
        (one,) = rehearse(replace(FLOW, talk=talk), film(), parts, verifier=TASK.verify)
        first = ["sounds bell: 2 5", "signs bell: none", f"look 4: cat {DOES[3]}"]
        later = [f"look 2: cat {DOES[1]}", f"look 5: cat {DOES[4]}", f"look 3: cat {DOES[2]}"]
        for agent, who in enumerate(AGENTS):
            plan, rest, last = parts[who].questions
            reads = range(3) if talk else (agent,)
            wrong += any(line in plan for line in (*first, *later)) or "Found" in plan
            wrong += any((line in rest) != (n in reads) for n, line in enumerate(first))
            wrong += any(line in rest for line in later)
            wrong += any((line in last) != (n in reads) for n, line in enumerate((*first, *later)) if n < 3)
            wrong += any((line in last) != (n in reads) for n, line in enumerate(later))
            wrong += any(not text.startswith(f"Agent {agent + 1} of 3.") for text in (plan, rest))
            wrong += f"Plan: {GOOD[agent][0].split('; ')[1]}\n" not in rest
        made = [(call["agent"], call["step"]) for call in one.info["calls"]]
        wrong += made != [
            *enumerate(("sounds bell", "signs bell", "look 4")),
            *enumerate(("look 2", "look 5", "look 3")),
        ]
        wrong += REWRITTEN.get(one) != 2
    return Finding(wrong == 0, say(wrong=wrong))


def by_hand(scenario: Scenario, said: Sequence[Sequence[str]], form: float, process: float) -> list[float]:
    """What each agent earns besides verdicts, written down anew, a call at a time."""
    clip, seen, served, legal = scenario.metadata["clip"], set[str](), [0] * 3, [True] * 3
    plans = list[list[str]]()
    for agent, (plan, _, _) in enumerate(said):
        steps = [step.strip() for step in plan.split(";")] if plan != "hm" else []
        legal[agent] = 0 < len(steps) <= 2
        plans.append(steps[:2])
    for step in range(2):
        for agent in range(3):
            if not plans[agent]:
                continue
            call = plans[agent].pop(0)
            tool, word = call.split()
            places = [n for n, frame in enumerate(clip, 1) if frame.get(tool) == word]
            there = tool != "look" or 1 <= int(word) <= 6
            legal[agent] &= there
            asked = tool == "look" and there and "bell" in (clip[int(word) - 1].get(track) for track in TOOLS)
            served[agent] += call not in seen and (asked or (word == "bell" and bool(places)))
            seen.add(call)
        if step == 0:
            for agent, (_, rest, _) in enumerate(said):
                legal[agent] &= rest != "hm"
                plans[agent] = [rest] if rest != "hm" else plans[agent]
    return [form * ok + process * count / 2 for ok, count in zip(legal, served, strict=True)]


@claim(
    "An agent earns its share of two verdicts, form if its plans hold, and process times the share of its calls that "
    "found for the question what no call had found, of equal calls in a step the earliest agent's."
)
def an_agent_earns_its_share_of_two_verdicts_form_if_its_plans_hold() -> Finding:
    off, most = 0.0, 0.0
    steps = ("sounds bell", "signs bell", "sounds horn", *(f"look {n}" for n in range(1, 8)))
    for number in range(80):
        rng, scenario = Key.of(number).derive("scripts").numpy(), film(("sounds", "signs")[number % 2])
        said = [
            (_plan(rng, steps, int(rng.integers(1, 4))), _plan(rng, steps, 1), str(rng.choice([scenario.answer, "hm"])))
            for _ in range(3)
        ]
        share, form, process = rng.random(3).tolist()
        one = played(replace(FLOW, own=share, form=form, process=process), said, scenario)
        team, each = earned(one)
        due = by_hand(scenario, said, form, process)
        due = [value + share * (answer == scenario.answer) for value, (_, _, answer) in zip(due, said, strict=True)]
        answers = [answer for _, _, answer in said]
        voted = answers.count(str(scenario.answer)) >= 2
        served = sum(by_hand(scenario, said, 0.0, 2.0))
        off = max(
            off, gap(each[6:], due), abs(team - (1 - share) * voted), *each[:6], abs(SERVED.get(one) - served / 6)
        )
        most = max(most, served)
    ships = PlanTogether(agents=3, calls=2, talk=True, own=0.5, form=0.2, process=1.0) == FLOW
    return below(EXACT, ships and most == 3, off=off)


def _plan(rng: Any, steps: Sequence[str], count: int) -> str:
    """So many calls, or now and then none."""
    return "hm" if rng.random() < 0.1 else "; ".join(str(rng.choice(steps)) for _ in range(count))


@claim("Each agent is compared with itself: A = (R - mean)/std over the samples of the sum of all it earned.")
def each_agent_is_compared_with_itself_a_std_over_the_samples_of() -> Finding:
    worst = 0.0
    for number in range(20):
        rng = Key.of(number).derive("crew").numpy()
        team, own = rng.integers(0, 2, 6).tolist(), rng.random((6, 3)).tolist()
        rows = []
        for verdict, mine in zip(team, own, strict=True):
            turns = [{"tokens": [1, 2], "agent": who, "reward": 0.0} for who in AGENTS * 2]
            turns += [{"tokens": [3], "agent": who, "reward": r} for who, r in zip(AGENTS, mine, strict=True)]
            rows.append(episode("g", float(verdict), turns))
        found = inspect_rows(VIDEOCHAT_M1, rows)["advantages"]
        for agent in range(3):
            due = group_relative([verdict + mine[agent] for verdict, mine in zip(team, own, strict=True)])
            for at in (2 * agent, 2 * agent + 7, 12 + agent):
                worst = max(worst, gap([row[at] for row in found], due))
    ships = VIDEOCHAT_M1.cast == Separate() and VIDEOCHAT_M1.workflow == PlanTogether.name
    return Finding(worst < 1e-9 and ships, say(off_by_hand_on_20_groups=worst))


@claim(
    "Learnt from is what an agent said, by its own policy; what calls found and peers said stands in questions alone."
)
def learnt_from_is_what_an_agent_said_by_its_own_policy_what_calls() -> Finding:
    batch, rows = stepped(bench(0, prompts=2))
    said = [turn for one in rows for turn in one.turns]
    tokens = sum(len(turn.action) for turn in said)
    wrong = int(batch.decisions != tokens or any(turn.forced is not None and turn.forced.any() for turn in said))
    wrong += sum(turn.policy != turn.role for turn in said)
    found = sum("Found:\n" in str(turn.prompt[-1]["content"]) for turn in said)
    words = Counter(word for turn in said for word in turn.action.tolist())
    wrong += words != Counter(batch.action.tolist())
    seen = VIDEOCHAT_M1.credit(batch)
    for one in rows:
        wrong += any(turn.parent is not None for turn in one.turns)
    learnt = {batch.names["policy"][int(batch.policy[batch.turn[n]])] for n in seen.decision[seen.weight != 0].tolist()}
    return Finding(wrong == 0 and found == 2 * len(said) // 3 and learnt == set(AGENTS), say(wrong=wrong, turns=found))


# ---------------------------------------------------------------- who reads whom


@claim("With dropout agents read those before them in an order, the same in all samples of a scenario, each as likely.")
def with_dropout_agents_read_those_before_them_in_an_order_the_same() -> Finding:
    first, wrong = Counter[int](), 0
    for number in range(3000):
        reads = read_by(3, True, Key.of(number))
        wrong += sorted(map(len, reads)) != [1, 2, 3] or any(agent not in mine for agent, mine in enumerate(reads))
        order = sorted(range(3), key=lambda agent: len(reads[agent]))
        wrong += any(reads[order[n]] != frozenset(order[: n + 1]) for n in range(3))
        first[order[0]] += 1
    uneven = max(abs(first[agent] / 3000 - 1 / 3) for agent in range(3))
    wrong += read_by(2, True, None) != [frozenset({0, 1})] * 2
    wrong += read_by(2, False, Key.of(1)) != [frozenset({0}), frozenset({1})]
    heard = {chance: _asked(PeersLeftOut(samples=4, dropout=chance)) for chance in (0.0, 0.5, 1.0)}
    counts = [sum(one.option(InOrder) is not None for one in made) for made in heard.values()]
    wrong += counts[0] != 0 or counts[2] != 200 or not 70 < counts[1] < 130
    wrong += any(one.samples != 4 for made in heard.values() for one in made)
    orders = {str(one.option(InOrder)) for one in heard[1.0]}
    wrong += len(orders) != 200 or VIDEOCHAT_M1.rollout != PeersLeftOut(samples=8, dropout=0.0)
    wrong += heard[0.0] != _asked(Independent(samples=4))
    return Finding(wrong == 0 and uneven < 0.03, say(wrong=wrong, uneven=uneven))


def _asked(rollout: Independent) -> list[Assignment]:
    """What a rollout asks for of 200 scenarios."""
    told: list[Assignment] = []

    async def play(asked: Sequence[Assignment]) -> list[Trajectory]:
        told.extend(asked)
        return []

    async def score(rows: Sequence[Trajectory]) -> None:
        return None

    films = [Assignment(TASK.scenario("train", number)) for number in range(200)]
    run_async(rollout.collect(films, play=play, score=score, ledger=Ledger(), key=Key.of(3)))
    return told


@claim("In a drawn order an agent reads, between steps and in the end, what it and those before it found, and no more.")
def in_a_drawn_order_an_agent_reads_between_steps_and_in_the_end() -> Finding:
    made, wrong, kinds = bench(0), 0, set[tuple[int, ...]]()
    how = made.parts.decoding
    asked = [Assignment(one, decoding=how, options=(InOrder(Key.of(n)),)) for n, one in enumerate(CASES)]
    for number, one in enumerate(run_async(made.player.play(asked, key=Key.of(5)))):
        reads = read_by(3, True, Key.of(number))
        kinds.add(tuple(map(len, reads)))
        calls = one.info["calls"]
        for turn in one.turns[3:]:
            question, agent = str(turn.prompt[-1]["content"]), AGENTS.index(turn.role)
            known = calls if "Answer?" in question else calls[:3]
            due = {f"{call['step']}: {call['result']}" for call in known if call["agent"] in reads[agent]}
            told = question.partition("Found:\n")[2].split("\nAnswer?")[0].split("\nPlan:")[0]
            wrong += set(told.split("\n")) != (due or {"nothing"})
    return Finding(wrong == 0 and len(kinds) > 2, say(wrong=wrong, orders=len(kinds)))


# ---------------------------------------------------------------- tables that learn

CASES = [one for number in range(400) if (one := TASK.scenario("train", number)).metadata["cue"] == "bell"][:24]
FRESH = [one for number in range(800) if (one := TASK.scenario("eval", number)).metadata["cue"] == "bell"][:60]
CALLS = (*(f"{tool} bell" for tool in TOOLS), *(f"look {place}" for place in range(1, 7)))


def seen(messages: tuple[Message, ...]) -> tuple[Any, ...]:
    """Of a plan nothing, of a rest the places known, of an answer what is done there as far as it is known."""
    text = str(messages[-1]["content"])
    if "Found:" not in text:
        return ("plan",)
    known = re.search(r"^(?:sounds|signs) bell: (\d+) (\d+)$", text, re.MULTILINE)
    places = known.groups() if known else (None, None)
    if "Answer?" not in text:
        return ("rest", *places)
    done = dict(re.findall(r"^look (\d+): \w+ (\w+)$", text, re.MULTILINE))
    return ("answer", *(done.get(place) for place in places))


def reader(messages: tuple[Message, ...], said: tuple[str, ...]) -> Mapping[str, float]:
    """Any call is as likely, a rest is one call, and what is known is mostly read aright."""
    what, *known = seen(messages)
    if what == "rest" and said:
        return {"": 9.0}
    if what != "answer":
        return dict.fromkeys((*DOES, ""), -9.0)
    return {**dict.fromkeys((*CALLS, ""), -9.0), **({known[len(said)]: 4.0} if known[len(said)] else {})}


def bench(seed: int, process: float = 1.0, talk: bool = True, prompts: int = 12) -> TalkBench:
    """Three tables."""
    return TalkBench(
        PlanTogether(process=process, talk=talk), CASES, (*CALLS, *DOES), VIDEOCHAT_M1, length=2, ends=True, view=seen,
        prior=reader, seed=seed, lr=0.1, verifier=TASK.verify, prompts=prompts, measure=right,
    )  # fmt: skip


def right(one: Trajectory) -> float:
    return TASK.verify(one.answer, one.scenario)


@cache
def learnt(seed: int, process: float = 1.0, talk: bool = True) -> tuple[float, float]:
    """Accuracy on fresh films of tables after 40 steps, as they were trained and with nobody reading a peer."""
    made = bench(seed, process, talk).run(40)
    made.scenarios = FRESH
    together = made.success(4)
    made.player = replace(made.player, workflow=PlanTogether(talk=False))
    return together, made.success(4)


@claim(
    "Tables that read each other answer more than twice as many fresh films as the same tables alone with a vote, and "
    "as tables trained alone for the verdict, with as many calls.",
    slow=True,
)
def tables_that_read_each_other_answer_more_than_twice_as_many() -> Finding:
    talking, alone = [learnt(seed) for seed in range(6)], [learnt(seed, 0.0, False)[0] for seed in range(3)]
    together, parted = [one for one, _ in talking], [one for _, one in talking]
    holds = min(together) > 2 * max(*parted, *alone)
    return Finding(holds, say(together=together, the_same_alone=parted, trained_alone=alone))


@claim(
    "With the process term tables answer more fresh films after 40 steps than without, with as many calls.", slow=True
)
def with_the_process_term_tables_answer_more_fresh_films_after_40() -> Finding:
    pairs = [(learnt(seed)[0], learnt(seed, 0.0)[0]) for seed in range(6)]
    low, high = mean_interval([one - other for one, other in pairs])
    saw = say(process=[one for one, _ in pairs], verdict_alone=[other for _, other in pairs], gain=[low, high])
    return Finding(low > 0, saw)


# ---------------------------------------------------------------- the shipped model


@claim(
    "After lessons and 16 steps the shipped model's teams answer more films, more of their calls serve, and of unseen "
    "films they answer more than twice as many as the same agents do alone with a vote.",
    slow=True,
)
def after_lessons_and_16_steps_the_shipped_models_teams_answer_more() -> Finding:
    few = {"curriculum.prompts": 8, "update.lr": 1e-3}
    pupil = after_lessons(VIDEOCHAT_M1, "films", "lessons:films", few, steps=120).run(16)
    ends = [[one for row in rows for one in row.trajectories] for rows in (pupil.results[:3], pupil.results[-3:])]
    rates = [fmean(map(right, end)) for end in ends]
    served = [fmean(SERVED.get(one) for one in end) for end in ends]
    unseen = [Assignment(LONG.scenario("eval", n), decoding=pupil.parts.decoding) for n in range(80)]
    player = pupil.parts.player
    assert isinstance(player, TextPlayer)
    players = [replace(player, workflow=PlanTogether(talk=talk)) for talk in (True, False)]
    together, alone = (fmean(map(right, run_async(one.play(unseen, key=Key.of(1))))) for one in players)
    saw = say(
        right_at_first=rates[0], at_last=rates[1], served_at_first=served[0], served_at_last=served[1],
        unseen_together=together, unseen_alone=alone,
    )  # fmt: skip
    return Finding(rates[1] > rates[0] + 0.2 and served[1] > served[0] + 0.1 and together > 2 * alone, saw)


def figures(run: ShippedRun) -> Mapping[str, float]:
    """Of a run's episodes."""
    rows = [one for result in run.results for one in result.trajectories]
    return {
        "reward": run.mean("reward/mean"),
        "served": fmean(SERVED.get(one) for one in rows),
        "rewritten": fmean(REWRITTEN.get(one) for one in rows),
    }


FIRST: Mapping[str, Any] = {"recipe": "sft", "steps": 60, "update.lr": 0.003, "task": "lessons:films"}

claim.shipped(
    VIDEOCHAT_M1,
    without={"workflow": "plan-together?process=0"},
    trains=AGENTS,
    first=FIRST,
    settings={"curriculum.prompts": 4},
    sees=figures,
)
claim.shipped(
    VIDEOCHAT_M1,
    without={"workflow": "plan-together?talk=false"},
    trains=AGENTS,
    first=FIRST,
    settings={"curriculum.prompts": 5},
    sees=figures,
)
claim.shipped(VIDEOCHAT_M1, "credit", trains=AGENTS, first=FIRST, settings={"curriculum.prompts": 4})
