"""What curr-reft claims."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean

from torch import Tensor

from hocket.core.keys import Key
from hocket.lab.bench import Bench
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.policy import Tabular
from hocket.lab.toys.judged_answers import SEEDS, span, trained
from hocket.lab.world import Answer, World
from hocket.methods.group_relative.curr_reft import CURR_REFT, CURR_REFT_SELF
from hocket.types import Scenario

claim = Claims("curr-reft", "arXiv:2503.07065")


PROBLEMS, STEPS = 3, 3
"""Problems of three steps, each with one right token of six: yes/no needs the first, a choice two, open all."""


FORMS = ("binary", "choice", "open")
NEEDED = (1, 2, 3)


HEDGE = 0
"""A first token that gives a vague answer; any other begins to reason."""


def step_of(problem: int, place: int) -> int:
    """The right token of a step."""
    return (2 * problem + 3 * place + 1) % 6


def posed_as(scenario: Scenario, form: str, key: Key) -> Scenario:
    """The problem in a format."""
    problem = int(scenario.metadata["question"]) % PROBLEMS
    code = _code([step_of(problem, place) for place in range(STEPS)])
    answer = {"binary": "yes", "choice": "AB", "open": f"{code} apples"}
    told = {"question": problem + PROBLEMS * FORMS.index(form), "format": form}
    return replace(scenario, id=f"lab/{problem}/{form}", answer=answer[form], metadata=told)


def _code(tokens: Sequence[int]) -> str:
    return "-".join(map(str, tokens))


def _right(question: int, answer: Answer) -> list[bool]:
    """Which steps are right."""
    return [token == step_of(question % PROBLEMS, place) for place, token in enumerate(answer[1:])]


def concluded(vague: str) -> Callable[[int, Answer], str]:
    """What an answer says in the question's format, when a hedge says `vague` to an open question."""

    def text(question: int, answer: Answer) -> str:
        form, right = FORMS[question // PROBLEMS], _right(question, answer)
        if answer[0] == HEDGE:
            return vague if form == "open" else "perhaps"
        if form == "binary":
            return "yes" if right[0] else "no"
        if form == "choice":
            return "AB" if right[0] and right[1] else "A" if right[0] else "C"
        return f"{_code(answer[1:])} {'apples' if all(right) else 'pears'}"

    return text


def solved(question: int, answer: Answer) -> float:
    """Whether an open question is answered; others do not count."""
    return float(question // PROBLEMS == 2 and answer[0] != HEDGE and all(_right(question, answer)))


def shared_steps(question: int, prefix: Answer) -> Hashable:
    """Steps that a format needs are taken in contexts that all formats share; all else is its own."""
    problem, form = question % PROBLEMS, question // PROBLEMS
    if not prefix or prefix[0] == HEDGE or len(prefix) > NEEDED[form]:
        return problem, form, len(prefix)
    return problem, prefix[1:]


def orders_compared(vague: str, names: Sequence[str], updates: int = 75) -> dict[str, list[float]]:
    """Accuracy on open questions by order, 5 seeds."""
    world = World(
        questions=PROBLEMS * len(FORMS),
        tokens=6,
        horizon=STEPS + 1,
        reward=solved,
        text=concluded(vague),
        context=shared_steps,
    )
    base = CURR_REFT.but({"curriculum.pose": posed_as, "curriculum.per_stage": updates * PROBLEMS // 3})
    orders = {
        "staged": base,
        "shuffled": base.but({"curriculum.order": "shuffled"}),
        "open alone": base.but({"curriculum.stages": ("open",)}),
    }
    return {
        name: [
            len(FORMS) * trained(world, orders[name], seed, updates, prompts=PROBLEMS, lr=0.2).success()
            for seed in SEEDS
        ]
        for name in names
    }


def _listed(found: Mapping[str, Sequence[float]]) -> str:
    told = "; ".join(f"{name} {span(values)}, mean {fmean(values):.2f}" for name, values in found.items())
    return f"accuracy on open questions after 75 updates, 5 seeds: {told}"


@claim(
    "at equal updates formats from easy to hard beat a shuffled order and open questions alone, on open "
    "questions, where vague answers tempt",
    slow=True,
)
def easy_to_hard_wins() -> Finding:
    """Where a vague answer to an open question earns a third, by the words it shares."""
    found = orders_compared("some of the apples", ("staged", "shuffled", "open alone"))
    ahead = fmean(found["staged"]) - max(fmean(found["shuffled"]), fmean(found["open alone"]))
    return Finding(ahead > 0.2, _listed(found))


@claim(
    "where nothing tempts, a shuffled order does as well: the claim needs open questions that mislead early",
    "derived: a counter-example",
    slow=True,
)
def shuffled_may_do() -> Finding:
    """Where a vague answer earns nothing."""
    found = orders_compared("something", ("staged", "shuffled"))
    return Finding(fmean(found["shuffled"]) > fmean(found["staged"]) - 0.1, _listed(found))


def _new_only(scenario: Scenario, form: str, key: Key) -> Scenario:
    """The new skill alone."""
    return replace(scenario, id="lab/0", metadata={"question": 0})


def skills(question: int, answer: Answer) -> float:
    """Question 0, the new skill, wants (0, 1); question 1, the old one, (0, 2) or (1, 2)."""
    return float(answer == (0, 1) if question == 0 else answer in ((0, 2), (1, 2)))


def _skilled(policy: Tabular) -> None:
    """Before RL: both begin mostly with 0, and after any beginning 2 follows."""
    for question in range(2):
        policy.logits[policy.row(question, ()), 0] += 3.0
        policy.logits[policy.row(question, ()), 1] += 1.5
    for first in range(4):
        policy.logits[policy.row(0, (first,)), 2] += 3.0


@claim("self-training on selected samples restores an old skill that fell during RL, and keeps the new one", slow=True)
def self_training_restores() -> Finding:
    """What RL on the new skill does to the old one, which shares its second step, and what self-training does then."""
    world = World(
        questions=2,
        tokens=4,
        horizon=2,
        reward=skills,
        context=lambda question, prefix: ("shared", prefix) if prefix else question,
    )
    rows = []
    for seed in SEEDS:
        recipe = CURR_REFT.but({"curriculum.pose": _new_only}, rewards=())
        bench = Bench(world, recipe, seed, start=_skilled)
        before = _both(bench)
        bench.run(60, every=60)
        after = bench.policy.logits.detach().clone()
        second = Bench(world, CURR_REFT_SELF, seed, start=_from(after))
        rows.append((*before, *_both(bench), *_both(second.run(60, every=60))))
    columns = [fmean(column) for column in zip(*rows, strict=True)]
    saw = (
        "new and old skill, means of 5 seeds: {:.2f} {:.2f}, after RL {:.2f} {:.2f}, after self-training {:.2f} {:.2f}"
    )
    least = min(row[5] - row[3] for row in rows)
    kept = min(row[4] - row[2] for row in rows)
    return Finding(columns[3] < columns[1] - 0.2 and least > 0.2 and kept > -0.05, saw.format(*columns))


def _from(table: Tensor) -> Callable[[Tabular], None]:
    def start(policy: Tabular) -> None:
        policy.logits.copy_(table)

    return start


def _both(bench: Bench) -> tuple[float, float]:
    """The success rates of the new and the old skill."""
    new, old = (2 * bench.expected(_on(question)) for question in range(2))
    return new, old


def _on(question: int) -> Callable[[int, Answer], float]:
    return lambda q, a: skills(q, a) if q == question else 0.0
