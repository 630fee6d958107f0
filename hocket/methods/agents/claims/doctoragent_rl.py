"""What doctoragent-rl claims."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping, Sequence
from functools import cache
from statistics import fmean

import numpy as np

from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.environments.casebook import Casebook, agreeing, symptoms_of
from hocket.environments.consultation import Clinic, Patient, answered, bound, ceiling, draw_book, fewest, possible
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.talk import TalkBench
from hocket.lab.toys.rewarded import SEEDS, apart, group_relative, line
from hocket.methods.agents.doctoragent_rl import DOCTOR_AGENT_RL, QuestionInformation
from hocket.rewards.consultation import Compliance, Consultation, DiagnosisQuality
from hocket.testing import rehearse
from hocket.types import Message, Scenario, Trajectory
from hocket.workflows.simulated_user import SimulatedUser

claim = Claims("doctoragent-rl", "catalogue; Feng et al., arXiv 2505.19630, and the authors' code")


COMPLAINT = ("fatigue",)
HALVING = ("fever", "cough", "rash")
RARE = ("thirst", "cramps")
NAMES = ("anaemia", "asthma", "flu", "gout", "malaria", "measles", "migraine", "sinusitis")


def toy_book() -> Casebook:
    """Eight conditions that share the complaint: three symptoms halve them, two more come with one condition each."""
    book = {}
    for number, name in enumerate(NAMES):
        bits = [symptom for place, symptom in enumerate(HALVING) if number >> place & 1]
        rare = [symptom for place, symptom in enumerate(RARE) if number == 2 * place + 1]
        book[name] = {"symptoms": [*COMPLAINT, *bits, *rare], "advice": ("rest", "diet")[number % 2]}
    return book


BOOK = toy_book()
QUESTIONS = [f"Any {symptom}?" for symptom in (*HALVING, *RARE)]
FINALS = [answered(BOOK, name) for name in NAMES]
WORDS = (*QUESTIONS, *FINALS, "Hm.")
TURNS = 8


def patients(book: Casebook = BOOK, complaint: Sequence[str] = COMPLAINT) -> list[Scenario]:
    """A scenario for every condition that the complaint leaves."""
    return [Clinic().scenario(name, book, name, complaint) for name in possible(book, complaint)]


def heard(messages: Sequence[Message]) -> tuple[str, ...]:
    """All that the patient told, each thing once, in any order."""
    return tuple(sorted({str(message["content"]) for message in messages if message["role"] == "user"}))


def well_read(messages: tuple[Message, ...], said: tuple[str, ...]) -> Mapping[str, float]:
    """The doctor before training, as a warm start leaves it: it asks anything new, or names what agrees with that."""
    told = [str(message["content"]) for message in messages if message["role"] == "user"]
    facts = {
        symptom: any(f"Yes, {symptom}." in one for one in told)
        for symptom in (*HALVING, *RARE)
        if any(f"{symptom}." in one for one in told[1:])
    }
    agree = agreeing(BOOK, facts)
    finals = {answered(BOOK, name): -1.0 if name in agree else -4.0 for name in NAMES}
    return {**finals, **{f"Any {symptom}?": -3.0 for symptom in facts}, "Hm.": -3.0}


def truthful(messages: tuple[Message, ...], said: tuple[str, ...]) -> Mapping[str, float]:
    """A patient that a policy plays: it complains, and answers by the record in its instruction."""
    has = str(messages[0]["content"]).partition("You have ")[2].partition(", but")[0].split(", ")
    last = str(messages[-1]["content"])
    asked = [symptom for symptom in (*HALVING, *RARE) if symptom in last]
    right = [f"Yes, {one}." if one in has else f"No {one}." for one in asked] or [f"I have {COMPLAINT[0]}."]
    return {word: 0.0 if word == right[0] else -1e9 for word in PLAYED}


ANSWERS = [text for symptom in (*HALVING, *RARE) for text in (f"Yes, {symptom}.", f"No {symptom}.")]
PLAYED = (*WORDS, f"I have {COMPLAINT[0]}.", *ANSWERS)


def played_doctor(messages: tuple[Message, ...], said: tuple[str, ...]) -> Mapping[str, float]:
    """The doctor, who does not speak for the patient."""
    return {**well_read(messages, said), **dict.fromkeys(PLAYED[len(WORDS) :], -1e9)}


def clinic(seed: int, steps: int, *, played: bool = False) -> TalkBench:
    """The game of eight patients, some of whom come in each step."""
    return TalkBench(
        SimulatedUser(Clinic(), TURNS, played),
        patients(),
        PLAYED if played else WORDS,
        DOCTOR_AGENT_RL.but({"rollout.samples": 16}),
        view=heard,
        prior={"agent": played_doctor, "patient": truthful} if played else well_read,
        frozen=frozenset({"patient"}),
        measure=lambda trajectory: float(DiagnosisQuality().judge(trajectory) == 1.0),
        seed=seed,
        lr=0.1,
        steps=steps,
        prompts=4,
    )


PARTS = (DiagnosisQuality(), QuestionInformation(), Compliance())


def worth(trajectory: Trajectory) -> float:
    """The sum of an evaluator's parts."""
    return sum(part.weight * (part.judge(trajectory) or 0.0) for part in PARTS)


def consultation(condition: str, *messages: str, turns: int = TURNS) -> Trajectory:
    """A talk of the doctor's messages with the scripted patient."""
    scenario = Clinic().scenario(condition, BOOK, condition, COMPLAINT)
    (found,) = rehearse(SimulatedUser(Clinic(), turns), scenario, list(messages))
    return found


@claim("the evaluator adds up diagnosis, information and compliance")
def sum_of_parts() -> Finding:
    """The reward is diagnosis, information and compliance added up."""
    asking = [f"Any {symptom}?" for symptom in itertools.islice(itertools.cycle(HALVING), TURNS)]
    talks = [
        (("Any fever?", "Any cough?", "Any rash?", answered(BOOK, "flu")), 10 + 3 - 0.6),
        (("Any fever?", "Any fever?", "Hm.", "Any gold?", answered(BOOK, "gout")), 1 - 2 - 2 - 1 - 0.8),
        (("<think>Any rash?</think>Diagnosis: flu. Recommendation: diet",), 5.0),
        (("Any thirst?", "Diagnosis: flu or gout. Recommendation: rest"), 5.0 + 1 - 0.2),
        (tuple(asking), 3 - 2 * (TURNS - 3) - 5 - 0.2 * TURNS),
    ]
    wanted = [reward for _, reward in talks]
    # A rare symptom that is denied leaves six of the eight conditions' names: those without it.
    wanted[3] += -1 + float(np.log2(len(NAMES) / sum("thirst" not in BOOK[name]["symptoms"] for name in NAMES)))
    found = [worth(consultation("flu", *talk)) for talk, _ in talks]
    off = apart(found, wanted)
    return Finding(off < 1e-9, f"rewards {line(found)}; {off:.1e} from those by hand")


@claim("only the doctor's tokens carry loss, with group-relative advantages")
def only_the_doctor_learns() -> Finding:
    """Every token of the doctor has its talk's group-relative advantage; a patient, script or policy, never learns."""
    scripted = consultation("flu", "Any fever?", answered(BOOK, "flu"))
    own = pack([scripted]).decisions == sum(len(turn) for turn in scripted.turns)
    bench = clinic(0, 1, played=True)
    start = {name: policy.module.logits.detach().clone() for name, policy in bench.policies.items()}
    result = bench.step()
    assert result.batch is not None
    seen = result.batch.occurrences
    worst, tokens = 0.0, 0
    for group in {one.scenario.id for one in result.trajectories}:
        mine = [number for number, one in enumerate(result.trajectories) if one.scenario.id == group]
        wanted = group_relative([worth(result.trajectories[number]) for number in mine])
        for number, base in zip(mine, wanted, strict=True):
            turns = result.trajectories[number].turns
            roles = [turn.role for turn in turns for _ in range(len(turn))]
            credit = seen.advantage[seen.trajectory == number].tolist()
            ours = [value for value, role in zip(credit, roles, strict=True) if role == "agent"]
            tokens += len(ours)
            worst = max(worst, *(abs(value - base) for value in ours))
    moved = {name: not bool((p.module.logits == start[name]).all()) for name, p in bench.policies.items()}
    return Finding(
        own and worst < 1e-6 and moved == {"agent": True, "patient": False},
        f"{tokens} tokens of the doctor, advantages {worst:.1e} from GRPO's; moved: {moved}",
    )


@claim("the patient answers only what was asked")
def patients_tell_what_is_asked() -> Finding:
    """Over drawn casebooks the patient says no symptom that was not asked for, and nothing against its record."""
    asked = wrong = 0
    for number in range(20):
        book = draw_book(6, 5, Key.of(number))
        for name in book:
            has = book[name]["symptoms"]
            patient = Patient(book, name, has[:1])
            for symptom in symptoms_of(book):
                said = str(asyncio.run(patient.reply(f"Do you have {symptom}?")))
                told = [one for one in symptoms_of(book) if one in said]
                asked += 1
                wrong += symptom not in has[:1] and (told != [symptom] or said.startswith("Yes") != (symptom in has))
    return Finding(wrong == 0, f"{asked} questions, {wrong} answers that tell more or other than the record")


@claim("the ceiling of a single-turn diagnosis is computable from the prior")
def ceiling_without_questions() -> Finding:
    """No single-turn diagnosis is right more often than the prior allows, counted by playing every fixed diagnosis."""
    most = ceiling(BOOK, COMPLAINT)
    found = []
    for final in FINALS:
        right = [
            DiagnosisQuality().judge(consultation(name, final, turns=1)) == 1.0 for name in possible(BOOK, COMPLAINT)
        ]
        found.append(fmean(right))
    return Finding(max(found) == most == 1 / 8, f"ceiling {most}; fixed diagnoses are right in {line(found)}")


@claim("no tree of questions needs fewer than the entropy")
def bounds_are_bounds() -> Finding:
    """The best tree of questions needs at least the entropy, over drawn casebooks; in the toy exactly that."""
    slack, reached = [], 0
    for number in range(30):
        book = draw_book(8, 6, Key.of(number))
        complaint = [symptoms_of(book)[0]]
        if possible(book, complaint):
            slack.append(fewest(book, complaint) - bound(book, complaint))
            reached += slack[-1] < 1e-9
    holds = min(slack) > -1e-9 and fewest(BOOK, COMPLAINT) == bound(BOOK, COMPLAINT) == 3.0
    return Finding(
        holds,
        f"{len(slack)} casebooks: at most {max(slack):.2f} questions above the entropy, {reached} reach it; toy: 3",
    )


@claim("a point per answered question, as released, pays for asking on; bits less a price do not")
def released_rewards_pay_for_asking() -> Finding:
    """A counter-example: a point for each answer, as released, pays for asking on; bits less a price do not."""
    released = (DiagnosisQuality(), QuestionInformation(count="answers"), Compliance(turn=0.0))
    final = answered(BOOK, "anaemia")
    short = consultation("anaemia", *QUESTIONS[:3], final)
    long = consultation("anaemia", *QUESTIONS, final)
    theirs, ours = (
        [sum(p.weight * (p.judge(one) or 0.0) for p in parts) for one in (short, long)] for parts in (released, PARTS)
    )
    return Finding(
        theirs[1] > theirs[0] and ours[1] < ours[0],
        f"the condition known after 3 questions, 2 more asked: {line(theirs)} as released, {line(ours)} here",
    )


STEPS = 80


@cache
def trained(seed: int) -> tuple[float, float, float, float]:
    """Right before training, right after it, and messages before the diagnosis, on average and at most."""
    bench = clinic(seed, STEPS)
    before = bench.success(20)
    played = bench.run(STEPS).play(40)
    cases = [case for one in played if (case := Consultation.of(one)) is not None]
    right = fmean(float(DiagnosisQuality().judge(one) == 1.0) for one in played)
    return before, right, fmean(case.questions for case in cases), max(case.questions for case in cases)


@claim("the trained doctor approaches the information-theoretic number of questions, within 1.5 times", slow=True)
def few_questions() -> Finding:
    """After training the doctor needs at most 1.5 times the entropy in questions in every seed, and is mostly right."""
    least, runs = bound(BOOK, COMPLAINT), [trained(seed) for seed in SEEDS]
    asked, right = [run[2] for run in runs], [run[1] for run in runs]
    return Finding(
        max(asked) <= 1.5 * least and min(right) > 0.9,
        f"{STEPS} steps, 5 seeds: {line(asked)} questions, bound {least:.0f}; right {line(right)}",
    )


@claim("it beats the single-turn diagnosis, whose ceiling is exact", slow=True)
def above_the_ceiling() -> Finding:
    """It is right far more often than any single-turn diagnosis."""
    most, runs = ceiling(BOOK, COMPLAINT), [trained(seed) for seed in SEEDS]
    right = [run[1] for run in runs]
    return Finding(
        min(right) > most + 0.5,
        f"right {line(right)} from {line([run[0] for run in runs])} before; ceiling without questions {most:.3f}",
    )
