"""MMedAgent-RL's claims, on cases in words whose best decision is known."""

from __future__ import annotations

import itertools
from functools import cache
from statistics import fmean
from typing import Any

from hocket.core.casting import Separate
from hocket.core.keys import Key
from hocket.lab.claims.harness import EXACT, Claims, Finding, below, gap, inspect_rows, say
from hocket.lab.claims.lesson_data import after_lessons
from hocket.lab.talk import TalkBench
from hocket.lab.toys.episodes import episode
from hocket.lab.toys.recorded_answers import group_relative
from hocket.methods.base.grpo import GRPO
from hocket.methods.teams.mmedagent_rl import MMEDAGENT_RL, AdviceStages, TriageAttending, stage_of
from hocket.testing import Cut, rehearse
from hocket.train.ledger import Ledger
from hocket.types import Message, Scenario, Trajectory
from hocket.zoo.tasks.referral import CONDITIONS, DEPARTMENTS, Referral, Wards, attending, given

claim = Claims("mmedagent-rl", "the abstract; stages are recalled, the cases in words are our own")
TASK = Referral()


@claim("Each doctor is compared with itself: A = (r - mean)/std over the samples, triage's apart from attending's.")
def each_doctor_is_compared_with_itself_a_std_over_the_samples() -> Finding:
    worst = 0.0
    for number in range(20):
        rng = Key.of(number).derive("doctors").numpy()
        earned = rng.random((6, 2)).tolist()
        rows = [
            episode("g", 0.0, [{"tokens": [1], "agent": who, "reward": r} for who, r in zip(ROLES, row, strict=True)])
            for row in earned
        ]
        due = [group_relative([row[place] for row in earned]) for place in range(2)]
        found: list[list[float]] = inspect_rows(MMEDAGENT_RL, rows)["advantages"]
        worst = max(worst, *(gap([row[place] for row in found], due[place]) for place in range(2)))
    return Finding(worst < 1e-9, say(off_by_hand_on_20_groups=worst))


ROLES = ("triage", "attending")


@claim("With one doctor it is GRPO to the bit.")
def with_one_doctor_it_is_grpo_to_the_bit() -> Finding:
    rng, worst = Key.of(5).numpy(), 0.0
    for _ in range(10):
        rows = [episode("g", float(rng.integers(0, 3)), [{"tokens": [1, 2]}]) for _ in range(6)]
        ours, plain = inspect_rows(MMEDAGENT_RL, rows), inspect_rows(GRPO, rows)
        worst = max(worst, gap(ours["advantages"], plain["advantages"]), gap(ours["gradient"], plain["gradient"]))
    return Finding(worst == 0.0, say(largest_difference=worst))


@claim(
    "Triage earns the right department; the attending doctor reads the chosen one's opinions, and earns the verdict."
)
def triage_earns_the_right_department_the_attending_doctor_reads() -> Finding:
    case = TASK.scenario("train", 3)
    right, answer = case.metadata["department"], str(case.answer)
    (other,) = set(DEPARTMENTS) - {right}
    off, heard = [], []
    talks = {(right, answer): [1.0, 1.1], (other, "flux"): [0.0, 0.1], (f"{right} or {other}", answer): [0.0, 1.1]}
    for (first, last), due in talks.items():
        (one,) = rehearse(TriageAttending(), case, {"triage": [first], "attending": [last]}, verifier=TASK.verify)
        off.append(gap(one.scores["own"].value, due))
        heard.append(str(one.turns[1].prompt[-1]["content"]))
    told = [str(attending(case, name)[-1]["content"]) for name in (right, other, None)]
    return Finding(max(off) < EXACT and heard == told, say(rewards_off=max(off), prompts_as_taught=heard == told))


@claim("The curriculum asks cases with all, some and none of the specialists right, in this order, then all of them.")
def the_curriculum_asks_cases_with_all_some_and_none_of_the() -> Finding:
    made, ledger, key = AdviceStages(prompts=8, per_stage=24), Ledger(), Key.of(1)
    asked = [made(TASK, 8 * step, 8, ledger, key) for step in range(14)]
    stages = [[stage_of(one.metadata["advice"]) for one in row] for row in asked]
    order = [set(itertools.chain.from_iterable(stages[place : place + 3])) for place in (0, 3, 6)]
    rest = list(itertools.chain.from_iterable(stages[9:]))
    plain = AdviceStages(prompts=8, per_stage=24, order="shuffled")(TASK, 0, 60, ledger, key)
    names = [one.id for row in asked for one in row]
    holds = (
        order == [{0}, {1}, {2}]
        and len(set(rest)) == 3
        and len({stage_of(one.metadata["advice"]) for one in plain}) == 3
    )
    holds &= MMEDAGENT_RL.curriculum == AdviceStages(prompts=16, per_stage=160, order="staged", tries=200)
    holds &= MMEDAGENT_RL.workflow == TriageAttending.name and MMEDAGENT_RL.cast == Separate()
    return Finding(
        holds and made(TASK, 8, 8, ledger, key) == asked[1], say(cases=len(names), different=len(set(names)))
    )


@claim("A reply that did not end by itself earns nothing for its form; a doctor's turn earns its own reward alone.")
def a_reply_that_did_not_end_by_itself_earns_nothing_for_its_form_a() -> Finding:
    case, worst = TASK.scenario("train", 3), 0.0
    parts = {"triage": [case.metadata["department"]], "attending": [Cut(str(case.answer))]}
    (cut,) = rehearse(TriageAttending(), case, parts, verifier=TASK.verify)
    rng = Key.of(6).derive("turns").numpy()
    earned = rng.random((6, 4)).tolist()
    rows = [
        episode("g", 0.0, [{"tokens": [1], "agent": ROLES[n % 2], "reward": r} for n, r in enumerate(row)])
        for row in earned
    ]
    found: list[list[float]] = inspect_rows(MMEDAGENT_RL, rows)["advantages"]
    for place in range(4):
        worst = max(worst, gap([row[place] for row in found], group_relative([row[place] for row in earned])))
    return below(1e-9, cut=gap(cut.scores["own"].value, [1.0, 1.0]), advantages=worst)


@claim("The best decision's accuracy is what deciding so comes to; imitating the majority is worse.")
def the_best_decisions_accuracy_is_what_deciding_so_comes_to() -> Finding:
    wards, cases = Wards(), [TASK.scenario("train", number) for number in range(3000)]
    best, majority = (fmean(TASK.verify(rule(case), case) for case in cases) for rule in (bayes, majority_of))
    error = (wards.best * (1 - wards.best) / len(cases)) ** 0.5
    saw = say(in_closed_form=wards.best, of_3000_cases=best, majority=majority)
    return Finding(abs(best - wards.best) < 3 * error and majority < best - 0.2, saw)


def majority_of(case: Scenario) -> str:
    """What most specialists of the right department say."""
    said: list[str] = case.metadata["opinions"][case.metadata["department"]]
    return max(said, key=said.count)


def bayes(case: Scenario) -> str:
    """The test where it is certain, else the majority: of three specialists it outweighs the test."""
    return str(case.prompt).rpartition(" ")[2].strip(".") if case.metadata["certain"] else majority_of(case)


def seen(messages: tuple[Message, ...]) -> tuple[str, ...]:
    """Triage sees the sign; the attending doctor the test and how many say what."""
    words = str(messages[-1]["content"]).replace("\n", " ").split()
    if "Which" in words:
        return ("triage", words[words.index("Sign:") + 1])
    said = sorted(word.strip(",.") for word in words[words.index("Test:") + 3 :] if word.strip(",.") in CONDITIONS)
    return (words[words.index("Test:") + 1], words[words.index("Test:") + 2].strip("."), *said)


def led(messages: tuple[Message, ...], said: tuple[str, ...]) -> dict[str, float]:
    """Before training each knows its words, and leans to what was named last."""
    triage = seen(messages)[0] == "triage"
    start = dict.fromkeys(CONDITIONS if triage else DEPARTMENTS, -9.0)
    return start if triage else {**start, **dict.fromkeys(seen(messages)[1:], 2.0)}


class _Cases(TalkBench):
    """A bench whose cases the recipe's own curriculum chooses."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.parts.task = TASK


@cache
def taught(order: str, seed: int) -> tuple[float, float, float]:
    """Accuracy, that on cases where all specialists are wrong, and triage's, of tables after 60 steps."""
    recipe = MMEDAGENT_RL.but({"curriculum.order": order, "curriculum.per_stage": 240, "rollout.samples": 8})
    words = (*DEPARTMENTS, *CONDITIONS)
    bench = _Cases(
        TriageAttending(), [TASK.scenario("eval", n) for n in range(400)], words, recipe, view=seen, prior=led,
        prompts=16, seed=seed, lr=0.1, verifier=TASK.verify,
    )  # fmt: skip
    played = bench.run(60).play(2)
    wrong = [right(one) for one in played if one.scenario.metadata["advice"] == 0]
    triage = fmean(float(one.info["referred"] == one.scenario.metadata["department"]) for one in played)
    assert not any(one.failure for one in played)
    return fmean(map(right, played)), fmean(wrong), triage


def right(one: Trajectory) -> float:
    return float(given(str(one.answer)) == one.scenario.answer)


@claim(
    "Tables come near the best decision, also where all specialists are wrong; shuffled cases teach them as much (the "
    "paper: the curriculum teaches more).",
    slow=True,
)
def tables_come_near_the_best_decision_also_where_all_specialists() -> Finding:
    figures: dict[str, Any] = {}
    for order in ("staged", "shuffled"):
        columns = [list(column) for column in zip(*(taught(order, seed) for seed in range(3)), strict=True)]
        names = (f"{order}_{what}" for what in ("accuracy", "all_wrong", "triage"))
        figures |= dict(zip(names, columns, strict=True))
    holds = min(figures["staged_accuracy"]) > Wards().best - 0.12 and min(figures["staged_all_wrong"]) > 0.7
    holds &= abs(fmean(figures["staged_all_wrong"]) - fmean(figures["shuffled_all_wrong"])) < 0.1
    return Finding(holds and min(figures["staged_triage"]) > 0.95, say(**figures, best=Wards().best))


@claim(
    "After lessons the shipped model decides more cases rightly, and its triage sends more of them rightly.", slow=True
)
def after_lessons_the_shipped_model_decides_more_cases_rightly_and() -> Finding:
    few = {"curriculum.prompts": 8, "curriculum.order": "shuffled", "update.lr": 5e-4}
    pupil = after_lessons(MMEDAGENT_RL, "referral", "lessons:referral", few, steps=60).run(30)
    ends = [[one for row in rows for one in row.trajectories] for rows in (pupil.results[:3], pupil.results[-3:])]
    rates = [fmean(map(right, end)) for end in ends]
    sent = [fmean(float(one.info["referred"] == one.scenario.metadata["department"]) for one in end) for end in ends]
    saw = say(right_at_first=rates[0], at_last=rates[1], sent_rightly_at_first=sent[0], sent_rightly_at_last=sent[1])
    return Finding(rates[1] > rates[0] + 0.15 and sent[1] > sent[0] + 0.15, saw)


claim.shipped(
    MMEDAGENT_RL,
    "curriculum",
    "credit",
    trains=("triage", "attending"),
    first={"recipe": "sft", "steps": 60, "update.lr": 0.003, "task": "lessons:referral"},
    settings={"curriculum.prompts": 8},
    sees=lambda run: {"reward": run.mean("reward/mean")},
)
