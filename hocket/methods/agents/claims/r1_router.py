"""R1-Router's claims."""

from __future__ import annotations

from statistics import fmean
from typing import Any

from hocket.agents.tools.corpus import Document
from hocket.agents.tools.search import Index, Search
from hocket.agents.workflows.library import find as find_workflow
from hocket.core.columns import CALLS
from hocket.core.keys import Key
from hocket.lab.claims.harness import EXACT, SEEDS, Claims, Finding, below, gap, inspect_rows, say
from hocket.lab.claims.lesson_data import Pupil, after_lessons
from hocket.lab.talk import TalkBench
from hocket.lab.toys.episodes import by_turn, episode
from hocket.lab.toys.recorded_answers import group_relative, line
from hocket.methods.agents.r1_router import R1_ROUTER, RoutedCalls
from hocket.methods.base.grpo import GRPO
from hocket.recipe import Recipe
from hocket.testing import rehearse, tool_call
from hocket.types import Message, Scenario, Trajectory
from hocket.zoo.tasks.lookup import base_of

claim = Claims("r1-router", "the abstract of arXiv:2505.22095; rewards of steps are our own")


def random_steps(number: int) -> list[dict[str, Any]]:
    """A group of six episodes of one to four turns."""
    rng = Key.of(number).numpy()
    return [
        episode(
            "g", float(rng.integers(0, 2)), [{"tokens": [1], "reward": float(rng.integers(0, 2))} for _ in range(size)]
        )
        for size in rng.integers(1, 5, 6).tolist()
    ]


@claim("A_ik = (r_ik - mean_k)/std_k over the samples' steps number k, the outcome being the last step's reward.")
def a_ik_std_k_over_the_samples_steps_number_k_the_outcome_being() -> Finding:
    worst = 0.0
    for rows in map(random_steps, range(20)):
        steps = [[one["reward"] for one in row["turn_scores"]] for row in rows]
        for own, row in zip(steps, rows, strict=True):
            own[-1] += row["scores"]["reward"]
        found = [by_turn(row, one) for row, one in zip(rows, inspect_rows(R1_ROUTER, rows)["advantages"], strict=True)]
        for k in range(4):
            here = [place for place, own in enumerate(steps) if len(own) > k]
            due = group_relative([steps[place][k] for place in here]) if len(here) > 1 else [0.0] * len(here)
            worst = max(worst, gap([found[place][k][0] for place in here], due))
    return below(1e-9, off_by_hand_on_20_groups=worst)


@claim("With one step per episode it is GRPO to the bit.")
def with_one_step_per_episode_it_is_grpo_to_the_bit() -> Finding:
    rng, worst = Key.of(5).numpy(), 0.0
    for _ in range(10):
        rows = [episode("g", float(rng.integers(0, 3)), [{"tokens": [1, 2]}]) for _ in range(6)]
        ours, plain = inspect_rows(R1_ROUTER, rows), inspect_rows(GRPO, rows)
        worst = max(worst, gap(ours["advantages"], plain["advantages"]), gap(ours["gradient"], plain["gradient"]))
    return Finding(worst == 0.0, say(largest_difference=worst))


SIDES = {
    "texts": [Document("ana", "keeps the lamp"), Document("ben", "keeps the boat")],
    "tables": [Document("lamp", "number 4")],
    "maps": [Document("boat", "number 7")],
}
TOOLS = tuple(Search(Index(documents), 1, name=name) for name, documents in SIDES.items())
FLOW = RoutedCalls(TOOLS, turns=6, listed=False)
ASKED = [
    Scenario("ana", "ana", "4", metadata={"gold": ("ana", "lamp")}),
    Scenario("ben", "ben", "7", metadata={"gold": ("ben", "boat")}),
]


def call(base: str, query: str) -> str:
    return tool_call(base, query=query)


@claim("A turn earns where it brings an article that is needed and new; wrong bases, repeats and the answer earn 0.")
def a_turn_earns_where_it_brings_an_article_that_is_needed_and_new() -> Finding:
    said = "<answer>4</answer>"
    talks = {
        (call("texts", "ana"), call("tables", "lamp"), said): [1.0, 1.0, 0.0],
        (call("maps", "ana"), call("texts", "ana"), call("texts", "ana"), said): [0.0, 1.0, 0.0, 0.0],
        (call("maps", "lamp"), call("tables", "lamp"), said): [0.0, 1.0, 0.0],
        (call("texts", "ben"), call("nowhere", "ana"), said): [0.0, 0.0, 0.0],
        (said,): [0.0],
    }
    off = [gap(rehearse(FLOW, ASKED[0], list(talk))[0].scores["step"].value, due) for talk, due in talks.items()]
    return below(EXACT, largest_difference_from_by_hand=max(off))


QUERIES = [call(base, query) for base in SIDES for query in ("ana", "ben", "lamp", "boat")]
WORDS = (*QUERIES, "<answer>4</answer>", "<answer>7</answer>")


def form(messages: tuple[Message, ...], said: tuple[str, ...]) -> dict[str, float]:
    """It knows what to ask for and when to answer, and asks any base."""
    heard = " ".join(str(message["content"]) for message in messages if message["role"] == "tool")
    if "number" in heard:
        return {**dict.fromkeys(WORDS, -9.0), f"<answer>{heard.split('number ')[1][0]}</answer>": 3.0}
    known = (
        "lamp" if "keeps the lamp" in heard else "boat" if "keeps the boat" in heard else str(messages[0]["content"])
    )
    return {**dict.fromkeys(WORDS, -9.0), **{call(base, known): 0.0 for base in SIDES}}


def view(messages: tuple[Message, ...]) -> tuple[str, ...]:
    """What was found so far; what brought nothing is forgotten."""
    found = {str(one["content"]) for one in messages if one["role"] == "tool" and "nothing" not in str(one["content"])}
    return (str(messages[0]["content"]), *sorted(found))


def routed(one: Trajectory) -> list[float]:
    """Of each call whether it asked a base that has the article."""
    home = {document.title: name for name, documents in SIDES.items() for document in documents}
    return [float(made["name"] == home.get(made["arguments"].get("query"))) for made in CALLS.get(one)]


def bench(recipe: Recipe, seed: int) -> TalkBench:
    return TalkBench(FLOW, ASKED, WORDS, recipe, view=view, prior=form, seed=seed, lr=0.1, verifier=right)


def right(text: str, scenario: Scenario) -> float:
    return float(text == f"<answer>{scenario.answer}</answer>")


def habits(made: TalkBench) -> tuple[float, float]:
    """The share of calls that ask the right base, and calls per episode."""
    played = made.play(100)
    calls = [one for episode_ in played for one in routed(episode_)]
    return fmean(calls), len(calls) / len(played)


def updates(recipe: Recipe, seed: int) -> float:
    """How many it takes until nine calls of ten ask the right base; 150 where it is never so."""
    made = bench(recipe, seed)
    for step in range(5, 151, 5):
        if habits(made.run(5))[0] > 0.9:
            return float(step)
    return 150.0


@claim(
    "Routing goes from one in three to nearly always right, calls fall to the two that are needed, in fewer updates "
    "than with one advantage of the outcome for all steps.",
    slow=True,
)
def routing_goes_from_one_in_three_to_nearly_always_right_calls() -> Finding:
    outcome = R1_ROUTER.but({"credit": GRPO.credit, "workflow": None})
    before = habits(bench(R1_ROUTER, 0))
    after = [habits(bench(R1_ROUTER, seed).run(60)) for seed in list(SEEDS)[:3]]
    steps, whole = ([updates(recipe, seed) for seed in SEEDS] for recipe in (R1_ROUTER, outcome))
    holds = before[0] < 0.45 and min(row[0] for row in after) > 0.95 and max(row[1] for row in after) < 2.2
    holds &= fmean(steps) < fmean(whole)
    saw = say(right_before=before[0], calls_before=before[1])
    saw += f"; after 60 updates {line([row[0] for row in after])}, calls {line([row[1] for row in after])}"
    return Finding(holds, f"{saw}; updates to nine in ten {line(steps)}, by the outcome {line(whole)}")


TASK, TAUGHT = "lookup?bases=3&hops=2", "lookup?bases=3&hops=2&routed=0"


def asked_rightly(pupil: Pupil) -> tuple[float, float]:
    """Of the shipped model's calls on unseen questions, the share to the right base; and success."""
    played = pupil.exam()
    calls = [one for episode_ in played for one in CALLS.get(episode_, ())]
    queries = [str(one["arguments"].get("query") or "?") for one in calls]
    share = fmean(float(one["name"] == base_of(query)) for one, query in zip(calls, queries, strict=True))
    return share, fmean(pupil.parts.task.success(one) for one in played)


@claim("After lessons that ask bases in any order the shipped model learns to route on unseen questions.", slow=True)
def after_lessons_that_ask_bases_in_any_order_the_shipped_model() -> Finding:
    pupil = after_lessons(R1_ROUTER, TASK, TAUGHT, {"curriculum.prompts": 8}, steps=80)
    before = asked_rightly(pupil)
    after = asked_rightly(pupil.run(25))
    saw = say(right_base_before=before[0], after_25_steps=after[0], success_before=before[1], success_after=after[1])
    return Finding(after[0] > before[0] + 0.15 and after[1] > before[1], saw)


@claim("As shipped a turn earns by what its calls bring; there are eight, and no base is described.", "chosen here")
def as_shipped_a_turn_earns_by_what_its_calls_bring_there_are_eight() -> Finding:
    flow = find_workflow(str(R1_ROUTER.workflow))
    holds = isinstance(flow, RoutedCalls) and (flow.turns, flow.listed, flow.useful) == (8, False, 1.0)
    return Finding(holds, str(R1_ROUTER.workflow))


claim.shipped(
    R1_ROUTER,
    "credit",
    first={"recipe": "sft", "steps": 60, "update.lr": 0.003, "task": TAUGHT},
    settings={"curriculum.prompts": 4},
    sees=lambda run: {"calls": run.mean("tools/calls"), "groups": run.mean("groups/with_signal")},
)
