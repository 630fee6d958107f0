"""Doctors who ask: what a consultation is worth is added up from its parts."""

from __future__ import annotations

from hocket.casting import Leading
from hocket.recipes.group_relative import GRPO
from hocket.rewards import Compliance, DiagnosisQuality, QuestionInformation

DOCTOR_AGENT_RL = GRPO.but(
    name="doctoragent-rl",
    title="A doctor who asks a simulated patient",
    source="Feng et al., DoctorAgent-RL, arXiv:2505.19630, and the authors' code",
    catalogue_ids=("doctoragent-rl",),
    axes=("team", "reward", "environment"),
    formula="R = 10 (share right of condition and advice) + bits learnt - 2 malformed - 2 repeated - 1 unknown - "
    "5 [no diagnosis] - 0.2 turns;  A_i = (R_i - mean_g R)/(std_g R + eps)",
    conventions={
        **GRPO.conventions,
        "diagnosis": "two grades of 0 to 5 as released, here by rule: 5 if the record's condition is named, 5 if its "
        "advice is",
        "information": "bits about the condition; rewards.1.count = answers pays 1 for every answered question, as "
        "released, whatever it tells",
        "compliance": "amounts as released; 0.2 a turn is ours, rewards.2.turn",
        "turn limit": "the task's; the released one draws 2 to 10 for each dialogue and tells it",
        "loss": "the doctor's tokens alone",
        "patient": "a script, or with played a copy of the model as it was; what it draws is part of the environment",
        "warm start": "plan: [{recipe: sft, ..}, {recipe: doctoragent-rl, ..}] puts one before",
        "workflow": "the task's (simulated-user?desk=consultation)",
    },
    note="demonstrations of sft are single answers, so the supervised warm start knows no dialogues; grades of the "
    "diagnosis are by rule; a toy doctor that at first repeats questions and names what the answers exclude collapses "
    "to guessing at once",
    cast=Leading(leader="agent", others="patient"),
    rewards=(DiagnosisQuality(), QuestionInformation(), Compliance()),
)
