"""Curr-ReFT's claims, on problems of three steps, each with one right token of six.

Yes/no needs the first step, a choice two, an open question all. A first token 0 gives a vague answer; any other begins
to reason.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from functools import partial
from statistics import fmean
from typing import Any

from hocket.core.keys import Key
from hocket.lab.bench import Bench
from hocket.lab.claims.harness import SEEDS, Claims, Finding, say
from hocket.lab.policy import Tabular
from hocket.lab.toys.rewarded import lines
from hocket.lab.toys.training import accuracy, trained
from hocket.lab.world import Answer, World
from hocket.methods.group_relative.curr_reft import CURR_REFT, CURR_REFT_SELF
from hocket.types import Scenario

claim = Claims("curr-reft", "arXiv:2503.07065")
PROBLEMS, UPDATES = 3, 75
FORMS = ("binary", "choice", "open")


def code(problem: int) -> list[int]:
    return [(2 * problem + 3 * place + 1) % 6 for place in range(3)]


def posed_as(scenario: Scenario, form: str, key: Key) -> Scenario:
    problem = int(scenario.metadata["question"]) % PROBLEMS
    answer = {"binary": "yes", "choice": "AB", "open": f"{'-'.join(map(str, code(problem)))} apples"}
    told = {"question": problem + PROBLEMS * FORMS.index(form), "format": form}
    return replace(scenario, id=f"lab/{problem}/{form}", answer=answer[form], metadata=told)


def concluded(vague: str, question: int, answer: Answer) -> str:
    """What an answer says in the question's format, when a hedge says `vague` to an open question."""
    form, right = FORMS[question // PROBLEMS], code(question % PROBLEMS)
    if answer[0] == 0:
        return vague if form == "open" else "perhaps"
    first, second = (token == wanted for token, wanted in zip(answer[1:3], right, strict=False))
    if form == "binary":
        return "yes" if first else "no"
    if form == "choice":
        return "AB" if first and second else "A" if first else "C"
    return f"{'-'.join(map(str, answer[1:]))} {'apples' if [*answer[1:]] == right else 'pears'}"


def solved(question: int, answer: Answer) -> float:
    """Whether an open question is answered; others do not count."""
    return float(question // PROBLEMS == 2 and answer[0] != 0 and [*answer[1:]] == code(question % PROBLEMS))


def shared_steps(question: int, prefix: Answer) -> Hashable:
    """Steps that a format needs are taken in contexts that all formats share; all else is its own."""
    problem, form = question % PROBLEMS, question // PROBLEMS
    own = not prefix or not prefix[0] or len(prefix) > form + 1
    return (problem, form, len(prefix)) if own else (problem, prefix[1:])


def orders_compared(vague: str, *names: str) -> dict[str, list[float]]:
    world = World(9, 6, 4, solved, text=partial(concluded, vague), context=shared_steps)
    base = CURR_REFT.but({"curriculum.pose": posed_as, "curriculum.per_stage": UPDATES * PROBLEMS // 3})
    changes: dict[str, Any] = {"staged": {}, "shuffled": {"curriculum.order": "shuffled"}}
    changes["open alone"] = {"curriculum.stages": ("open",)}
    return {
        name: [3 * one.success() for one in trained(world, base.but(changes[name]), UPDATES, prompts=PROBLEMS, lr=0.2)]
        for name in names
    }


@claim(
    "at equal updates formats from easy to hard beat a shuffled order and open questions alone, on open "
    "questions, where vague answers tempt",
    slow=True,
)
def _() -> Finding:
    # A vague answer to an open question earns a third, by the words it shares.
    right = orders_compared("some of the apples", "staged", "shuffled", "open alone")
    ahead = fmean(right["staged"]) - max(fmean(right["shuffled"]), fmean(right["open alone"]))
    return Finding(ahead > 0.2, say(accuracy_on_open_questions=right))


@claim(
    "where nothing tempts, a shuffled order does as well: the claim needs open questions that mislead early",
    "derived: a counter-example",
    slow=True,
)
def _() -> Finding:
    right = orders_compared("something", "staged", "shuffled")
    return Finding(fmean(right["shuffled"]) > fmean(right["staged"]) - 0.1, say(accuracy_on_open_questions=right))


def skills(question: int, answer: Answer) -> float:
    """Question 0, the new skill, wants (0, 1); question 1, the old one, (0, 2) or (1, 2)."""
    return float(answer == (0, 1) if question == 0 else answer in ((0, 2), (1, 2)))


def skilled(policy: Tabular) -> None:
    """Before RL: both begin mostly with 0, and after any beginning 2 follows."""
    for question in range(2):
        policy.logits[policy.row(question, ()), 0] += 3.0
        policy.logits[policy.row(question, ()), 1] += 1.5
    for first in range(4):
        policy.logits[policy.row(0, (first,)), 2] += 3.0


def restored(world: World, seed: int) -> list[float]:
    """Accuracy on the new skill and the old one: at the start, after RL on the new one, and after self-training."""
    pose = {"curriculum.pose": lambda one, form, key: replace(one, id="lab/0", metadata={"question": 0})}
    first = Bench(world, CURR_REFT.but(pose, rewards=()), seed, start=skilled)
    row = [accuracy(question, first) for question in range(2)]
    after = first.run(60).policy.logits.detach().clone()
    (second,) = trained(world, CURR_REFT_SELF, 60, seeds=(seed,), start=lambda policy: policy.logits.copy_(after))
    return row + [accuracy(question, bench) for bench in (first, second) for question in range(2)]


@claim("self-training on selected samples restores an old skill that fell during RL, and keeps the new one", slow=True)
def _() -> Finding:
    # The skills share their second step.
    world = World(2, 4, 2, skills, context=lambda question, prefix: ("shared", prefix) if prefix else question)
    rows = [restored(world, seed) for seed in SEEDS]
    columns = [fmean(column) for column in zip(*rows, strict=True)]
    least, kept = min(row[5] - row[3] for row in rows), min(row[4] - row[2] for row in rows)
    saw = lines(new_skill_before_and_after_RL_and_self_training=columns[::2], old_skill=columns[1::2])
    return Finding(columns[3] < columns[1] - 0.2 and least > 0.2 and kept > -0.05, saw)


claim.shipped(CURR_REFT_SELF, without={"rollout.least": 0.0})
claim.shipped(CURR_REFT, without={"curriculum.stages": ("open",)}, steps=3, settings={"curriculum.per_stage": 16})
