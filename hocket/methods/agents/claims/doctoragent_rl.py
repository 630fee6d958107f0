"""DoctorAgent-RL's claims."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import cache
from statistics import fmean
from typing import Any

import numpy as np

from hocket.agents.workflows.simulated_user import SimulatedUser
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.lab.claims.harness import SEEDS, Claims, Finding, gap, say
from hocket.lab.talk import TalkBench
from hocket.lab.toys.recorded_answers import group_relative, lines
from hocket.methods.agents.doctoragent_rl.casebook import agreeing
from hocket.methods.agents.doctoragent_rl.method import DOCTOR_AGENT_RL, QuestionInformation
from hocket.methods.agents.doctoragent_rl.reward import Compliance, Consultation, DiagnosisQuality
from hocket.methods.agents.doctoragent_rl.world import (
    Clinic,
    answered,
    bound,
    ceiling,
    possible,
)
from hocket.rewards.judging import Answer, Judge, Question
from hocket.testing import rehearse
from hocket.types import Message, Scenario, Trajectory

claim = Claims("doctoragent-rl", "catalogue; Feng et al., arXiv 2505.19630, and the authors' code")

COMPLAINT, HALVING, RARE = ("fatigue",), ("fever", "cough", "rash"), ("thirst", "cramps")
SYMPTOMS, TURNS, STEPS = (*HALVING, *RARE), 8, 80
NAMES = ("anaemia", "asthma", "flu", "gout", "malaria", "measles", "migraine", "sinusitis")
HAS = [[symptom for place, symptom in enumerate(HALVING) if number >> place & 1] for number in range(len(NAMES))]
BOOK = {
    # Eight conditions that share the complaint: three symptoms halve them, two more come with one condition each.
    name: {"symptoms": [*COMPLAINT, *has, *one], "advice": advice}
    for name, has, one, advice in zip(
        NAMES, HAS, ((), RARE[:1], (), RARE[1:], *[()] * 4), ("rest", "diet") * 4, strict=True
    )
}
QUESTIONS, FINALS = [f"Any {symptom}?" for symptom in SYMPTOMS], [answered(BOOK, name) for name in NAMES]
WORDS = (*QUESTIONS, *FINALS, "Hm.")
ANSWERS = [text for symptom in SYMPTOMS for text in (f"Yes, {symptom}.", f"No {symptom}.")]
PLAYED = (*WORDS, f"I have {COMPLAINT[0]}.", *ANSWERS)


def heard(messages: Sequence[Message]) -> tuple[str, ...]:
    """All that the patient told, each thing once, in any order."""
    return tuple(sorted({str(message["content"]) for message in messages if message["role"] == "user"}))


def well_read(messages: tuple[Message, ...], said: tuple[str, ...]) -> Mapping[str, float]:
    """The doctor before training, as a warm start leaves it: it asks anything new, or names what agrees with that."""
    texts = [str(message["content"]) for message in messages if message["role"] == "user"]
    known = [symptom for symptom in SYMPTOMS if any(f"{symptom}." in one for one in texts[1:])]
    agree = agreeing(BOOK, {symptom: any(f"Yes, {symptom}." in one for one in texts) for symptom in known})
    finals = {answered(BOOK, name): -1.0 if name in agree else -4.0 for name in NAMES}
    return {**finals, **{f"Any {symptom}?": -3.0 for symptom in known}, "Hm.": -3.0}


def truthful(messages: tuple[Message, ...], said: tuple[str, ...]) -> Mapping[str, float]:
    """A patient that a policy plays: it complains, and answers by the record in its instruction."""
    has = str(messages[0]["content"]).partition("You have ")[2].partition(", but")[0].split(", ")
    asked = [symptom for symptom in SYMPTOMS if symptom in str(messages[-1]["content"])]
    right = [f"Yes, {one}." if one in has else f"No {one}." for one in asked] or [f"I have {COMPLAINT[0]}."]
    return {word: 0.0 if word == right[0] else -1e9 for word in PLAYED}


def right(trajectory: Trajectory) -> float:
    """Whether the diagnosis is the patient's."""
    return float(DiagnosisQuality().judge(trajectory) == 1.0)


def clinic(seed: int, steps: int, *, played: bool = False) -> TalkBench:
    """The game of eight patients, some of whom come in each step."""
    scenarios = [Clinic().scenario(name, BOOK, name, COMPLAINT) for name in possible(BOOK, COMPLAINT)]
    recipe, flow = DOCTOR_AGENT_RL.but({"rollout.samples": 16}), SimulatedUser(Clinic(), TURNS, played)
    silent = dict.fromkeys(PLAYED[len(WORDS) :], -1e9)  # A doctor does not speak for the patient.
    pair = {"agent": lambda messages, said: {**well_read(messages, said), **silent}, "patient": truthful}
    setting: dict[str, Any] = {"view": heard, "prior": pair if played else well_read, "measure": right}
    setting["frozen"] = frozenset({"patient"})
    words = PLAYED if played else WORDS
    return TalkBench(flow, scenarios, words, recipe, lr=0.1, seed=seed, steps=steps, prompts=4, **setting)


PARTS = (DiagnosisQuality(), QuestionInformation(), Compliance())


def worth(trajectory: Trajectory, parts: Sequence[Any] = PARTS) -> float:
    """The sum of an evaluator's parts."""
    return float(sum(part.weight * (part.judge(trajectory) or 0.0) for part in parts))


def consultation(condition: str, *messages: str, turns: int = TURNS) -> Trajectory:
    """A talk of the doctor's messages with the scripted patient."""
    scenario = Clinic().scenario(condition, BOOK, condition, COMPLAINT)
    return rehearse(SimulatedUser(Clinic(), turns), scenario, list(messages))[0]


@claim("the evaluator adds up diagnosis, information and compliance")
def the_evaluator_adds_up_diagnosis_information_and_compliance() -> Finding:
    # A rare symptom that is denied leaves six of the eight conditions' names: those without it.
    rare = -1 + float(np.log2(len(NAMES) / sum("thirst" not in BOOK[name]["symptoms"] for name in NAMES)))
    talks = [
        (("Any fever?", "Any cough?", "Any rash?", answered(BOOK, "flu")), 10 + 3 - 0.6),
        (("Any fever?", "Any fever?", "Hm.", "Any gold?", answered(BOOK, "gout")), 1 - 2 - 2 - 1 - 0.8),
        (("<think>Any rash?</think>Diagnosis: flu. Recommendation: diet",), 5.0),
        (("Any thirst?", "Diagnosis: flu or gout. Recommendation: rest"), 5.0 + 1 - 0.2 + rare),
        (tuple(QUESTIONS[n % 3] for n in range(TURNS)), 3 - 2 * (TURNS - 3) - 5 - 0.2 * TURNS),
    ]
    rewards = [worth(consultation("flu", *talk)) for talk, _ in talks]
    off = gap(rewards, [reward for _, reward in talks])
    return Finding(off < 1e-9, lines(rewards=rewards, off_those_by_hand=off))


@claim("the recipe pays these parts; a judge's two grades of a final message are averaged, and both are needed")
def the_recipe_pays_these_parts_a_judges_two_grades_of_a_final() -> Finding:
    class Grades(Judge):
        """4 of 5 for the condition, 1 for the advice; of asthma it grades the condition alone, of gout the advice."""

        def ask(self, questions: Sequence[Question]) -> list[Answer]:
            told = []
            for one in questions:
                condition = "the condition of" in one.prompt
                silent = ("asthma" if not condition else "gout") in one.prompt.partition("Message:")[2]
                told.append(Answer(None, problem="silent") if silent else Answer("4" if condition else "1"))
            return told

    unfinished, talk = consultation("flu", *(["Any fever?"] * 3), turns=3), ("Any gold?", answered(BOOK, "flu"))
    finals = [consultation("flu", answered(BOOK, name)) for name in ("asthma", "gout", "measles")]
    asked = [consultation("flu", *talk), unfinished, *finals, Trajectory(Scenario("s"), [])]
    rule, judged = DOCTOR_AGENT_RL, DOCTOR_AGENT_RL.but({"rewards.0.judge": Grades("grades")})
    parts = [asyncio.run(one(asked[:2], key=Key.of(0))) for one in rule.rewards]
    paid = [
        sum(one.weight * float(row[n] or 0.0) for one, row in zip(rule.rewards, parts, strict=True)) for n in (0, 1)
    ]
    graded = asyncio.run(judged.rewards[0](asked, key=Key.of(0)))
    # Fever alone halves the eight; asking again is taken for a repetition, twice.
    off = gap(paid, [10 - 1 - 0.2, 1 - 2 * 2 - 5 - 3 * 0.2])
    holds = off < 1e-9 and graded == [0.5, 0.0, None, None, 0.5, None]
    return Finding(holds, lines(paid=paid, off_by_hand=off) + f"; graded: {graded}")


@claim("only the doctor's tokens carry loss, with group-relative advantages")
def only_the_doctors_tokens_carry_loss_with_group_relative() -> Finding:
    scripted = consultation("flu", "Any fever?", answered(BOOK, "flu"))
    own = pack([scripted]).decisions == sum(len(turn) for turn in scripted.turns)
    bench = clinic(0, 1, played=True)
    start = {name: policy.module.logits.detach().clone() for name, policy in bench.policies.items()}
    result, off = bench.step(), list[float]()
    assert result.batch is not None
    credit = result.batch.occurrences
    for group in {one.scenario.id for one in result.trajectories}:
        mine = [number for number, one in enumerate(result.trajectories) if one.scenario.id == group]
        wanted = group_relative([worth(result.trajectories[number]) for number in mine])
        for number, base in zip(mine, wanted, strict=True):
            roles = [turn.role for turn in result.trajectories[number].turns for _ in range(len(turn))]
            values = zip(credit.advantage[credit.trajectory == number].tolist(), roles, strict=True)
            off += [abs(value - base) for value, role in values if role == "agent"]
    moved = {name: not bool((p.module.logits == start[name]).all()) for name, p in bench.policies.items()}
    holds = own and max(off) < 1e-6 and moved == {"agent": True, "patient": False}
    return Finding(holds, say(tokens_of_the_doctor=len(off), advantages_off_GRPOs=max(off), moved=moved))


@claim("the ceiling of a single-turn diagnosis is computable from the prior")
def the_ceiling_of_a_single_turn_diagnosis_is_computable_from_the() -> Finding:
    most, names = ceiling(BOOK, COMPLAINT), possible(BOOK, COMPLAINT)
    rates = [fmean(right(consultation(name, final, turns=1)) for name in names) for final in FINALS]
    return Finding(max(rates) == most == 1 / 8, lines(ceiling=most, fixed_diagnoses_are_right=rates))


@claim("a point per answered question, as released, pays for asking on; bits less a price do not")
def a_point_per_answered_question_as_released_pays_for_asking_on() -> Finding:
    """The condition is known after three questions; two more are asked."""
    released = (DiagnosisQuality(), QuestionInformation(count="answers"), Compliance(turn=0.0))
    talks = [consultation("anaemia", *asked, answered(BOOK, "anaemia")) for asked in (QUESTIONS[:3], QUESTIONS)]
    theirs, ours = ([worth(one, parts) for one in talks] for parts in (released, PARTS))
    return Finding(theirs[1] > theirs[0] and ours[1] < ours[0], lines(asked="3 and 5", as_released=theirs, here=ours))


@cache
def trained(seed: int) -> tuple[float, float, float]:
    """Right before training, right after it, and messages before the diagnosis."""
    bench = clinic(seed, STEPS)
    before, played = bench.success(20), bench.run(STEPS).play(40)
    cases = [case for one in played if (case := Consultation.of(one)) is not None]
    return before, fmean(map(right, played)), fmean(case.questions for case in cases)


@claim("the trained doctor approaches the information-theoretic number of questions, within 1.5 times", slow=True)
def the_trained_doctor_approaches_the_information_theoretic_number() -> Finding:
    _, after, asked = zip(*map(trained, SEEDS), strict=True)
    least = bound(BOOK, COMPLAINT)
    holds = max(asked) <= 1.5 * least and min(after) > 0.9
    return Finding(holds, lines(steps=STEPS, questions=asked, bound=least, right=after))


@claim("it beats the single-turn diagnosis, whose ceiling is exact", slow=True)
def it_beats_the_single_turn_diagnosis_whose_ceiling_is_exact() -> Finding:
    before, after, _ = zip(*map(trained, SEEDS), strict=True)
    most = ceiling(BOOK, COMPLAINT)
    return Finding(min(after) > most + 0.5, lines(right=after, before=before, ceiling_without_questions=most))


claim.spares("doctoragent-rl: rewards.0.rule.weight = 400.0", "what counts is the weight of the reward around the rule")
claim.spares("doctoragent-rl: rewards.0.rule.weight = 0.0", "what counts is the weight of the reward around the rule")
claim.shipped(
    DOCTOR_AGENT_RL,
    "rewards",
    trains=("agent",),
    first={"recipe": "sft", "steps": 60, "task": "lessons:consultation"},
    settings={"curriculum.prompts": 4, "judge": "smollm2"},
    sees=lambda run: {
        "diagnosis": run.mean("reward/diagnosis"),
        "information": run.mean("reward/information"),
        "asked": run.mean("judge/questions"),
    },
)
