"""VisTA's claims, on pictures of three kinds and tools whose accuracy on each is known."""

from __future__ import annotations

from functools import cache
from statistics import fmean

import torch

from hocket.core.casting import Leading
from hocket.core.keys import Key
from hocket.lab.claims.harness import Claims, Finding, gap, inspect_rows, say
from hocket.lab.claims.lesson_data import Pupil, after_lessons
from hocket.lab.talk import TalkBench
from hocket.lab.toys.episodes import episode
from hocket.lab.toys.recorded_answers import group_relative
from hocket.lab.toys.talks import stepped
from hocket.methods.agents.vista_tools.method import CALLED, VISTA_TOOLS, ToolSelection
from hocket.methods.agents.vista_tools.task import COLOURS, GOOD, TOOLS, Toolbox, ToolChoice, most_said, told, which
from hocket.methods.base.grpo import GRPO
from hocket.testing import Part, rehearse
from hocket.types import Message, Trajectory

claim = Claims("vista-tools", "the abstract of arXiv:2505.20289; the pictures in words are our own")
TASK, BOX = ToolChoice(), Toolbox()
EVENLY = dict.fromkeys(GOOD, 1 / len(GOOD))


@claim("Tools are called in the order named and once, other words call nothing, and the reasoner's answer is paid.")
def tools_are_called_in_the_order_named_and_once_other_words_call() -> Finding:
    case = TASK.scenario("train", 5)
    readings, right = case.metadata["readings"], str(case.answer)
    talks = {
        "read, scan read": ("read", "scan"),
        f"{case.metadata['kind']}: Match hammer": ("match",),
        "none": (),
        "trace count match scan read": ("trace", "count", "match", "scan", "read"),
    }
    wrong, paid = [], []
    for choice, called in talks.items():
        for answer in (right, "pink"):
            parts = {"selector": Part(choice), "reasoner": Part(answer)}
            (one,) = rehearse(ToolSelection(), case, parts, verifier=TASK.verify)
            due = [
                f"{case.prompt}\n{which(TOOLS)}",
                f"{case.prompt}\n{told({tool: readings[tool] for tool in called})}",
            ]
            read = [question for part in parts.values() for question in part.questions]
            wrong += [choice] if (tuple(CALLED.get(one)), read) != (called, due) else []
            paid.append(gap([one.scores["team"].value], [float(answer == right)]))
    shipped = VISTA_TOOLS.workflow == ToolSelection.name
    return Finding(shipped and not wrong and max(paid) == 0, say(wrongly_called=len(wrong), off=max(paid)))


@claim("A = (r - mean)/std over the samples of a question: with one agent it is GRPO to the bit.")
def a_std_over_the_samples_of_a_question_with_one_agent_it_is_grpo() -> Finding:
    rng, worst, same = Key.of(5).numpy(), 0.0, 0.0
    for _ in range(10):
        earned = rng.integers(0, 2, 6).astype(float).tolist()
        rows = [episode("g", one, [{"tokens": [1, 2]}]) for one in earned]
        ours, plain = inspect_rows(VISTA_TOOLS, rows), inspect_rows(GRPO, rows)
        worst = max(worst, gap([row[0] for row in ours["advantages"]], group_relative(earned)))
        same = max(same, gap(ours["gradient"], plain["gradient"]))
    return Finding(worst < 1e-9 and same == 0, say(off_by_hand=worst, gradient_off=same))


# ---------------------------------------------------------------- tables


def seen(messages: tuple[Message, ...]) -> str:
    """Who chooses sees the kind of picture, who answers what was said."""
    head, _, last = str(messages[-1]["content"]).rpartition("\n")
    return head.split()[2].strip(".") if last.startswith("Which of") else last


def naming(messages: tuple[Message, ...], said: tuple[str, ...]) -> dict[str, float]:
    """Who chooses knows what tools are called, not what they are good for."""
    return dict.fromkeys(COLOURS, -9.0)


def reasoning(messages: tuple[Message, ...], said: tuple[str, ...], sure: float = 30.0) -> dict[str, float]:
    """Who answers says what most have said, then stops; without tools it guesses."""
    never = dict.fromkeys(TOOLS, -30.0)
    if said:
        return never | dict.fromkeys(COLOURS, -30.0)
    heard = [word.partition(": ")[2] for word in seen(messages).split(", ") if ": " in word]
    return never | dict.fromkeys(COLOURS, 30.0) | ({most_said(heard): 30.0 + sure} if heard else {})


def unsure(messages: tuple[Message, ...], said: tuple[str, ...]) -> dict[str, float]:
    """Who answers leans to what most have said."""
    return reasoning(messages, said, sure=1.0)


def bench(seed: int, **more: object) -> TalkBench:
    cases = [TASK.scenario("train", 200 * seed + number) for number in range(200)]
    how = {"prior": {"selector": naming, "reasoner": reasoning}, "frozen": frozenset({"reasoner"}), **more}
    return TalkBench(
        ToolSelection(), cases, (*TOOLS, *COLOURS), VISTA_TOOLS, length=4, ends=True, view=seen, prompts=16,
        seed=seed, lr=0.1, verifier=TASK.verify, **how,  # type: ignore[arg-type]
    )  # fmt: skip


@claim("Only who chooses learns: the reasoner's tokens have no gradient, and it answers alike what it is told alike.")
def only_who_chooses_learns_the_reasoners_tokens_have_no_gradient() -> Finding:
    made = bench(1, prior={"selector": naming, "reasoner": unsure}, frozen=frozenset())
    batch, played = stepped(made)
    learner, mine = made.learners["selector"], batch.of_policy("selector")
    theirs = ~torch.isin(torch.arange(batch.decisions), mine.occurrences.decision)
    now = learner.policy.evaluate(batch, learner.recipe.needs)
    logp = now.logp.detach().clone().requires_grad_()
    (gradient,) = torch.autograd.grad(learner.recipe.loss(type(now)(logp=logp), mine)[0].total(), logp)
    answers: dict[tuple[str, tuple[str, ...]], set[str]] = {}
    for one in played:
        answers.setdefault((one.scenario.id, tuple(CALLED.get(one))), set()).add(str(one.answer))
    several = max(map(len, answers.values()))
    off, size = float(gradient[theirs].abs().max()), float(gradient.abs().max())
    saw = say(reasoner=off, selector=size, tokens_of_the_reasoner=int(theirs.sum()), answers_to_one_question=several)
    return Finding(off == 0 < size and several == 1 and VISTA_TOOLS.cast == Leading("selector", "reasoner"), saw)


def oracle() -> float:
    """How often the best choice by kind is right."""
    return fmean(BOX.best({kind: 1.0})[1] for kind in GOOD)


def by_kind(played: list[Trajectory]) -> dict[str, float]:
    """Of each kind the exact accuracy of what was called in these episodes."""
    worth: dict[str, list[float]] = {kind: [] for kind in GOOD}
    for one in played:
        kind = one.scenario.metadata["kind"]
        worth[kind].append(BOX.accuracy(kind, CALLED.get(one)))
    return {kind: fmean(values) for kind, values in worth.items()}


@cache
def learnt(seed: int) -> dict[str, float]:
    return by_kind(bench(seed).run(80).play(4))


@claim(
    "Learnt from outcomes alone, the choice comes within 5 % of the best by kind, and beats the best tool, all tools, "
    "and on other mixes of kinds the list that was best in training.",
    slow=True,
)
def learnt_from_outcomes_alone_the_choice_comes_within_5_of_the() -> Finding:
    listed, _ = BOX.best(EVENLY)
    mixes = [dict(zip(GOOD, shares, strict=True)) for shares in Key.of(3).numpy().dirichlet([1.0] * 3, 30).tolist()]
    means, margins = [], []
    for seed in range(2):
        own = learnt(seed)
        means.append(fmean(own.values()))
        margins += [sum(mix[kind] * (own[kind] - BOX.accuracy(kind, listed)) for kind in GOOD) for mix in mixes]
    single = max(fmean(BOX.accuracy(kind, (tool,)) for kind in GOOD) for tool in TOOLS)
    every = fmean(BOX.accuracy(kind, TOOLS) for kind in GOOD)
    saw = say(accuracy=means, oracle=oracle(), best_tool=single, all_tools=every, least_margin_on_30_mixes=min(margins))
    return Finding(min(means) > 0.95 * oracle() and min(means) > max(single, every) and min(margins) > 0, saw)


# ---------------------------------------------------------------- the shipped model


def chosen(pupil: Pupil, last: slice) -> float:
    """The exact accuracy of what the shipped model called in these steps, all kinds alike."""
    return fmean(by_kind([one for row in pupil.results[last] for one in row.trajectories]).values())


@claim(
    "After lessons that name tools by lot, a good one first one time in four, the shipped model calls better ones.",
    slow=True,
)
def after_lessons_that_name_tools_by_lot_a_good_one_first_one_time() -> Finding:
    pupil = after_lessons(VISTA_TOOLS, "tool_choice", "lessons:tool_choice", {"update.lr": LR}, steps=100).run(40)
    before, after = chosen(pupil, slice(0, 3)), chosen(pupil, slice(-3, None))
    saw = say(of_what_is_called_at_first=before, at_last=after, oracle=oracle(), best_list=BOX.best(EVENLY)[1])
    return Finding(after > before + 0.15, saw)


LR = 3e-4

claim.shipped(
    VISTA_TOOLS,
    "workflow",
    "cast",
    trains=("selector",),
    first={"recipe": "sft", "steps": 40, "update.lr": 0.003, "task": "lessons:tool_choice"},
    settings={"curriculum.prompts": 8},
    sees=lambda run: {"reward": run.mean("reward/mean"), "groups": run.mean("selector/groups/with_signal")},
)
