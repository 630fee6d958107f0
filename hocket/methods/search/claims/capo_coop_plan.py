"""CaPo's claims."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise, product
from statistics import fmean, stdev
from typing import Any

from hocket import tasks
from hocket.core.columns import ACTIONS, LIMIT, MESSAGES
from hocket.core.keys import Key
from hocket.lab.claims.harness import Claims, Finding, cases, say
from hocket.lab.claims.lesson_data import after_lessons
from hocket.lab.claims.shipped_check import ShippedRun
from hocket.methods.search.capo_coop_plan import CAPO, PLANS, MetaPlan, plan_in
from hocket.testing import Part, rehearse
from hocket.train.aio import run_async
from hocket.types import Assignment, Scenario, Trajectory
from hocket.zoo.carry import Carries, Carry
from hocket.zoo.tasks.carry import (
    AGREE,
    APPRAISE,
    LESSONS,
    WRITE,
    CarryQuestion,
    CarryTask,
    answer,
    length,
    move,
    objection,
    plan_text,
)

claim = Claims("capo-coop-plan", "arXiv:2411.04679")

SEEDS, EACH = range(5), 10
"""Blocks of scenarios, and scenarios in each."""

SURPRISED = "carry?size=4&known=4&surprise=5"

Says = Callable[[str], str]


def episode(flow: MetaPlan, scenario: Scenario, says: Says = answer) -> Trajectory:
    """One episode of a team that all speaks by a function of the question alone."""
    script = Part(lambda messages: says(str(messages[-1]["content"])))
    (played,) = rehearse(flow, scenario, script, limits=flow.limits)
    assert played.failure is None, played.failure
    return played


def task_of(name: str) -> CarryTask:
    found = tasks.find(name)
    assert isinstance(found, CarryTask)
    return found


def yielding(question: str) -> str:
    """As the script, but without a plan it leaves to others what they are nearer to, or as near and named before."""
    heard = CarryQuestion.of(question)
    if not heard.me or heard.now or heard.holds[heard.me]:
        return answer(question)
    free = [one for one in heard.todo if heard.bound(one) is None]
    order = list(heard.places)

    def nearest(subtask: str) -> str:
        there = heard.room(subtask)
        return min(order, key=lambda name: (heard.apart(heard.places[name], there), order.index(name)))

    mine = [one for one in free if nearest(one) == heard.me] or free[1:]
    return move(replace(heard, todo={one: heard.todo[one] for one in mine or free}))


@cache
def steps(name: str, flow: MetaPlan, says: Says = answer) -> tuple[float, ...]:
    """Steps to the end of each scenario of all seeds; what does not end counts all its steps."""
    task = task_of(name)
    asked = [task.scenario("eval", 1000 * seed + number) for seed, number in product(SEEDS, range(EACH))]
    return tuple(task.describe(episode(flow, one, says))["steps"] for one in asked)


def saved(slow: Sequence[float], fast: Sequence[float]) -> tuple[list[float], float]:
    """Steps saved per seed, and in standard errors over all scenarios."""
    gaps = [one - other for one, other in zip(slow, fast, strict=True)]
    each = [fmean(gaps[seed * EACH : (seed + 1) * EACH]) for seed in SEEDS]
    return each, fmean(gaps) / (stdev(gaps) / math.sqrt(len(gaps)))


@claim(
    "Agents that agree on a plan end sooner than the same agents without one, also where those are told at once "
    "whatever any of them sees, and leave to others what is nearer to them.",
    slow=True,
)
def agents_that_agree_on_a_plan_end_sooner_than_the_same_agents() -> Finding:
    name, alone = "carry?size=4&known=2", MetaPlan(plans=False)
    planned, told = steps(name, MetaPlan()), f"{name}&radio=true"
    others = {"without": (name, answer), "told": (told, answer), "yielding": (told, yielding)}
    found = {label: steps(world, alone, says) for label, (world, says) in others.items()}
    gains = {label: saved(slow, planned) for label, slow in found.items()}
    holds = all(errors > 3 and sum(one > 0 for one in each) >= 4 for each, errors in gains.values())
    means = {label: fmean(slow) for label, slow in found.items()}
    return Finding(holds, say(steps=fmean(planned), **means, **{f"errors_{one}": e for one, (_, e) in gains.items()}))


@claim(
    "After a thing was moved they end sooner than by a first plan that is never revised, and than without.", slow=True
)
def after_a_thing_was_moved_they_end_sooner_than_by_a_first_plan() -> Finding:
    flows = MetaPlan(), MetaPlan(revise=False), MetaPlan(plans=False)
    revised, kept, none = (steps(SURPRISED, flow) for flow in flows)
    (each, errors), (_, further) = saved(kept, revised), saved(none, revised)
    holds = errors > 3 and further > 3 and sum(one > 0 for one in each) >= 4
    means = say(steps=fmean(revised), never_revised=fmean(kept), without=fmean(none))
    return Finding(holds, f"{means}, {say(saved_by_seed=each, errors=errors, errors_without=further)}")


def dealing(question: str) -> str:
    """Deals subtasks out in turn, wherever they lie, and then does what was objected; else as the script."""
    if not question.endswith(WRITE) or "Objection" in question:
        return answer(question)
    heard = CarryQuestion.of(question)
    names = list(heard.places)
    return plan_text({name: list(heard.todo)[place :: len(names)] for place, name in enumerate(names)})


@claim("Criticism shortens a careless draft, more rounds shorten it more, until nobody objects and it is agreed on.")
def criticism_shortens_a_careless_draft_more_rounds_shorten_it_more() -> Finding:
    task, spans, wrong = task_of("carry?size=4&things=6&known=3"), [], 0
    for rounds in (0, 1, 2, 6):
        found = []
        for number in range(10):
            played = episode(MetaPlan(rounds=rounds, revise=False), task.scenario("eval", number), dealing)
            first, question = PLANS.get(played)[0], str(played.turns[0].prompt[-1]["content"])
            heard = CarryQuestion.of(f"{question}\nPlan:\n{plan_text(first['plan'])}\n{APPRAISE}")
            found.append(length(heard, heard.plan)[0])
            wrong += first["agreed"] and objection(heard) != AGREE
        spans.append(fmean(found))
    falls = all(late < early for early, late in pairwise(spans))
    figures = {f"steps_by_{rounds}_rounds": span for rounds, span in zip((0, 1, 2, 6), spans, strict=True)}
    return Finding(falls and wrong == 0, say(**figures, agreed_in_spite_of_objections=wrong))


def begun(world: Carries, seed: int) -> Carry:
    """An episode as the workflow begins it."""
    carry = world.make(Scenario("s", seed=seed))
    carry.reset(Key.of(seed).derive("environment"))
    return carry


def replayed(world: Carries, played: Trajectory) -> Iterator[tuple[int, Carry]]:
    """The world after every step, by the moves that were made."""
    carry, seats = begun(world, played.scenario.seed), world.agents
    made = [one for one in ACTIONS.get(played) if one is not None]
    talks = {talk["step"] for talk in PLANS.get(played)}
    for step in range(len(made) // len(seats)):
        if step in talks:
            carry.share()
        carry.act(dict(zip(seats, made[step * len(seats) :], strict=False)))
        yield step + 1, carry


NAMES = (SURPRISED, "carry", "carry?team=3&size=4&things=5&surprise=4")


def episodes(**how: Any) -> Iterator[tuple[Carries, Trajectory]]:
    for name in NAMES:
        task = task_of(name)
        world = task.workflow.world
        assert isinstance(world, Carries)
        flow = MetaPlan(agents=world.team, **how)
        yield from ((world, episode(flow, task.scenario("eval", number))) for number in range(4))


@claim(
    "The plan is revised after progress alone, at once, once, led by whoever made it and told what it was, and after "
    "every progress up to the bound."
)
def the_plan_is_revised_after_progress_alone_at_once_once_led_by() -> Finding:
    wrong, revised, idle = 0, 0, 0
    for most in (16, 2):
        for world, played in episodes(revisions=most):
            first, *later = PLANS.get(played)
            due = []
            for step, carry in replayed(world, played):
                idle += not carry.progress
                if carry.progress and carry.acting:
                    due.append((step, carry.progress[0][0], [sentence for _, sentence in carry.progress]))
            wrong += (first["step"], first["leader"], first["news"]) != (0, "alice", [])
            wrong += [(talk["step"], talk["leader"], talk["news"]) for talk in later] != due[:most]
            revised += len(later)
    return Finding(wrong == 0 and revised > 40 and idle > 40, say(revisions=revised, steps_without=idle, wrong=wrong))


@claim("Every subtask has one owner at a time, whatever is drafted: whom the draft names first; and all have one.")
def every_subtask_has_one_owner_at_a_time_whatever_is_drafted_whom() -> Finding:
    twice, unowned, plans = 0, 0, 0
    for world, played in episodes():
        for step, talk in enumerate(PLANS.get(played)):
            owned = [subtask for subtasks in talk["plan"].values() for subtask in subtasks]
            twice += len(owned) != len(set(owned))
            plans += 1
            if step == 0:
                unowned += set(owned) != set(begun(world, played.scenario.seed).subtasks("alice"))
    rng, open_ = Key.of(5).numpy(), ["fetch hat", "fetch key", "search 2", "search 12", "search 3"]
    for _ in range(300):
        draft = [(("alice", "Bob", "eve")[int(rng.integers(3))], open_[int(rng.integers(5))]) for _ in range(6)]
        text = "\n".join(f"- {name}: go {subtask} now, nothing" for name, subtask in draft)
        first: dict[str, str] = {}
        for name, subtask in draft:
            if name != "eve":
                first.setdefault(subtask, name.casefold())
        plan = plan_in(text, ("alice", "bob"), open_)
        twice += sorted((one, name) for name, mine in plan.items() for one in mine) != sorted(first.items())
    return Finding(twice == 0 and unowned == 0, say(plans=plans + 300, other_owners=twice, not_all_owned=unowned))


def stubborn(question: str) -> str:
    """Never agrees."""
    return "no" if question.endswith(APPRAISE) else answer(question)


@claim("Messages are bounded: a talk ends with agreement, and without it after its rounds, an episode's talks too.")
def messages_are_bounded_a_talk_ends_with_agreement_and_without_it() -> Finding:
    wrong, most = 0, 0
    for rounds, revisions in ((0, 3), (1, 2), (2, 16), (3, 0)):
        for name, agents in (("carry", 2), ("carry?team=3", 3)):
            flow = MetaPlan(agents=agents, rounds=rounds, revisions=revisions)
            for says in (stubborn, answer):
                played = episode(flow, task_of(name).scenario("eval", 1), says)
                talks, told = PLANS.get(played), MESSAGES.get(played)
                planning = sum(one is None for one in ACTIONS.get(played))
                longest = 1 + rounds * agents
                wrong += told != planning or told > flow.messages or len(talks) > 1 + revisions
                for talk in talks:
                    calm = (talk["messages"] - 1) % agents == agents - 1
                    wrong += talk["messages"] > longest or (says is stubborn and talk["messages"] != longest)
                    wrong += talk["agreed"] != (rounds > 0 and calm)
                most = max(most, told)
    return Finding(wrong == 0, say(most_messages=most, wrong=wrong))


@claim(
    "The most messages of an episode are its talks times those of a talk; the longest subtask that is named is meant; "
    "who only waits is cut short, which is noted, and nobody else is."
)
def the_most_messages_of_an_episode_are_its_talks_times_those_of_a() -> Finding:
    flows = {85: MetaPlan(), 5: MetaPlan(revise=False), 0: MetaPlan(plans=False), 12: MetaPlan(3, 1, revisions=2)}
    most = cases({**flows, 1: MetaPlan(rounds=0, revisions=0)}.items(), lambda most, flow: flow.messages == most)
    drafts = {
        "Alice: fetch hat box, then fetch hat\nbob: go search 1; eat\neve: search 1": {
            "alice": ("fetch hat box", "fetch hat"),
            "bob": ("search 1",),
        },
        "eve: search 1\nalice: eat": {},
    }
    named = ("alice", "bob"), ["fetch hat", "fetch hat box", "search 1"]
    read = cases(drafts.items(), lambda text, plan: plan_in(text, *named) == plan)
    scenario = task_of("carry").scenario("eval", 0)
    idle, done = episode(MetaPlan(plans=False), scenario, lambda question: "wait"), episode(MetaPlan(), scenario)
    cut = [LIMIT.get(one, "") for one in (idle, done)] == ["the environment cut the episode short", ""]
    holds = most.holds and read.holds and cut and CAPO.workflow == MetaPlan.name
    return Finding(holds, f"{most.saw}, {read.saw}, cut short {cut}")


@cache
def taught(workflow: str) -> tuple[float, ...]:
    """What the shipped model earns by greedy play in unseen scenarios, after lessons."""
    pupil = after_lessons(CAPO, "carry", "lessons:carry", {"workflow": workflow}, steps=LESSONS).parts
    greedy = replace(pupil.decoding, temperature=0.0)
    asked = [Assignment(pupil.task.scenario("eval", number), 1, greedy) for number in range(24)]
    return tuple(map(pupil.task.success, run_async(pupil.player.play(asked, key=Key.of(0)))))


@claim(
    "So it is with a language model in all seats: taught all parts, the shipped one earns more with plans that are "
    "revised than with its first plan, and with that more than without.",
    "derived",
    slow=True,
)
def so_it_is_with_a_language_model_in_all_seats_taught_all_parts() -> Finding:
    revised, kept, none = (taught(f"meta-plan{how}") for how in ("", "?revise=false", "?plans=false"))
    errors = [
        fmean(gaps) / (stdev(gaps) / math.sqrt(len(gaps)))
        for gaps in ([a - b for a, b in zip(*pair, strict=True)] for pair in ((revised, kept), (kept, none)))
    ]
    figures = say(revised=fmean(revised), kept=fmean(kept), without=fmean(none), errors=errors)
    return Finding(min(errors) > 2, figures)


def seen(run: ShippedRun) -> dict[str, float]:
    """What the model's talks came to."""
    everything = [*run.results[0].trajectories, *run.results[0].discarded]
    talks = [talk for one in everything for talk in PLANS.get(one)]
    return {
        "talks": float(len(talks)),
        "revisions": float(sum(bool(talk["news"]) for talk in talks)),
        "agreed": float(sum(talk["agreed"] for talk in talks)),
        "plans": float(sum(any(talk["plan"].values()) for talk in talks)),
    }


claim.shipped(
    CAPO,
    "workflow",
    first={"recipe": "sft", "steps": LESSONS, "update.lr": 0.003, "task": "lessons:carry"},
    settings={"curriculum.prompts": 2},
    sees=seen,
)
