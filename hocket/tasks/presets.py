"""Well-known data sets: how their columns become prompts, answers and pairs, and what verifies a response."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from hocket.core.errors import ConfigurationError, nearest
from hocket.core.markup import tagged
from hocket.rewards.formulas import last_formula
from hocket.rewards.verifiers import Extraction, matches
from hocket.types import Message, Scenario

Cells = Mapping[str, Any]
Verifier = Callable[[str, Scenario], float]


class LeftOut(Exception):
    """A row that the preset does not use; the message says why."""


@dataclass(frozen=True)
class Preset:
    """How one well-known data set is read.

    Attributes:
        name: the value of the setting `preset`.
        columns: the columns that a row must have; `a|b` is either.
        row: makes a row of hocket's columns of the set's own; raises `LeftOut` for one that cannot be used.
        template: the text of the prompt; `{prompt}` and other columns in braces are filled in.
        extract: what counts as the answer of a response. verify: the verdict where no comparison with an answer is one.
        addresses: names on the hub, `OWNER/NAME`, that are read so unless another preset is named; `hub:NAME` by the
            preset's name is the first, in the configuration `config`.
        train, eval: splits of the hub's set; None is by the usual names.
    """

    name: str
    columns: tuple[str, ...]
    row: Callable[[Cells], dict[str, Any]]
    addresses: tuple[str, ...]
    template: str | None = None
    extract: Extraction = "answer-tag"
    verify: Verifier | None = None
    config: str | None = None
    train: str | None = None
    eval: str | None = None

    @property
    def names(self) -> frozenset[str]:
        """All columns that it reads."""
        return frozenset(name for choice in self.columns for name in choice.split("|"))

    def missing(self, columns: Collection[str]) -> str | None:
        """The first column that is needed and not among `columns`; None where all are there."""
        return next((choice for choice in self.columns if not {*choice.split("|")} & {*columns}), None)

    def converted(self, cells: Cells) -> dict[str, Any]:
        """A row of hocket's columns. Raises `LeftOut` for one that cannot be used."""
        missing = self.missing([name for name, cell in cells.items() if cell is not None])
        if missing is not None:
            raise LeftOut(f"no {missing.replace('|', ' or ')}")
        return self.row(cells)


def preset_named(name: str) -> Preset:
    """The preset of this name.

    Raises:
        ConfigurationError: for an unknown name, with the nearest.
    """
    if name not in PRESETS:
        raise ConfigurationError(f"preset = {name!r} is unknown{nearest(name, PRESETS)}")
    return PRESETS[name]


def preset_of(address: str) -> Preset | None:
    """The preset of a set on the hub, `OWNER/NAME`; None where there is none."""
    return next((preset for preset in PRESETS.values() if address in preset.addresses), None)


# ---------------------------------------------------------------- questions with an answer


_CALCULATION = re.compile(r"<<[^<>]*>>")
"""What GSM8K notes for a calculator in its solutions."""


def _gsm8k(cells: Cells) -> dict[str, Any]:
    working, mark, answer = str(cells["answer"]).rpartition("####")
    if not mark:
        raise LeftOut("the answer has no ####")
    solution = f"{_CALCULATION.sub('', working)}#### {answer.strip()}"
    others = {name: cell for name, cell in cells.items() if name not in ("question", "answer")}
    return {**others, "prompt": cells["question"], "answer": answer.strip(), "demonstration": solution}


def _mathematics(cells: Cells) -> dict[str, Any]:
    solution, answer = cells.get("solution"), cells.get("answer")
    if answer is None:
        answer = last_formula(str(solution)) if "boxed" in str(solution) else None
    if answer is None or not str(answer).strip():
        raise LeftOut("the solution has no \\boxed answer")
    others = {name: cell for name, cell in cells.items() if name not in ("problem", "question", "solution", "answer")}
    shown = {} if solution is None else {"demonstration": solution}
    return {**others, "prompt": cells.get("problem") or cells["question"], "answer": answer, **shown}


def boxed_verdict(text: str, scenario: Scenario) -> float:
    """1 if the last box, else the last formula or number, equals the answer by value, else 0."""
    answer = last_formula(text)
    return float(answer is not None and matches(answer, scenario.answer))


def _countdown(cells: Cells) -> dict[str, Any]:
    numbers = [int(number) for number in cells["nums"]]
    return {**cells, "nums": numbers, "target": int(cells["target"]), "prompt": "Countdown"}


_EXPRESSION = re.compile(r"[\d\s()+*/-]{1,200}")


def countdown_verdict(text: str, scenario: Scenario) -> float:
    """1 if the tags hold an expression of +, -, * and / that uses every number once and equals the target, else 0."""
    inside = tagged(text)
    if inside is None or _EXPRESSION.fullmatch(inside) is None:
        return 0.0
    used = Counter(map(int, re.findall(r"\d+", inside)))
    if used != Counter(scenario.metadata["nums"]):
        return 0.0
    try:
        return float(_value(ast.parse(inside.strip(), mode="eval").body) == scenario.metadata["target"])
    except (SyntaxError, ValueError, ZeroDivisionError, RecursionError, MemoryError):
        return 0.0


def _value(node: ast.expr) -> Fraction:
    """The exact value of an expression of integers; `ValueError` for anything else."""
    match node:
        case ast.Constant(value=int(number)):
            return Fraction(number)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _value(left) + _value(right)
        case ast.BinOp(left=left, op=ast.Sub(), right=right):
            return _value(left) - _value(right)
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return _value(left) * _value(right)
        case ast.BinOp(left=left, op=ast.Div(), right=right):
            return _value(left) / _value(right)
    raise ValueError("not an expression of integers with +, -, * and /")


# ---------------------------------------------------------------- pairs


def _pair(cells: Cells) -> dict[str, Any]:
    """UltraFeedback, binarised: whole conversations, which both begin with the prompt."""
    chosen, rejected = cells["chosen"], cells["rejected"]
    if chosen == rejected:
        raise LeftOut("chosen and rejected are the same")
    if any(not str(side[-1].get("content") or "").strip() for side in (chosen, rejected) if isinstance(side, list)):
        raise LeftOut("a response is empty")
    others = {name: cell for name, cell in cells.items() if name not in ("prompt", "messages")}
    # Both conversations hold the prompt with what a system message says before it.
    return others if isinstance(chosen, list) else {**others, "prompt": cells["prompt"]}


_TURN = re.compile(r"\n\n(Human|Assistant):")
_ROLES = {"Human": "user", "Assistant": "assistant"}


def _transcripts(cells: Cells) -> dict[str, Any]:
    """HH-RLHF: transcripts of `Human` and `Assistant`, of which the last turn is compared."""
    chosen, rejected = (_messages(str(cells[name])) for name in ("chosen", "rejected"))
    if chosen == rejected:
        raise LeftOut("chosen and rejected are the same")
    shared = 0
    while shared < min(len(chosen), len(rejected)) and chosen[shared] == rejected[shared]:
        shared += 1
    last = [side[shared:] for side in (chosen, rejected)]
    if any([message["role"] for message in side] != ["assistant"] for side in last) or not shared:
        raise LeftOut("more than the last response differs")
    if any(not side[0]["content"] for side in last):
        raise LeftOut("a response is empty")
    others = {name: cell for name, cell in cells.items() if name not in ("chosen", "rejected")}
    answers = {"chosen": last[0][0]["content"], "rejected": last[1][0]["content"]}
    return {**others, "prompt": chosen[:shared], **answers}


def _messages(transcript: str) -> list[Message]:
    opening, *parts = _TURN.split(transcript)
    if opening.strip() or not parts:
        raise LeftOut("the transcript does not begin with a turn")
    return [{"role": _ROLES[role], "content": text.strip()} for role, text in zip(parts[::2], parts[1::2], strict=True)]


# ---------------------------------------------------------------- the presets


_BOXED = "{prompt}\nThink step by step, and put the final answer into \\boxed{}."

PRESETS: Mapping[str, Preset] = {
    preset.name: preset
    for preset in (
        Preset(
            name="gsm8k",
            columns=("question", "answer"),
            row=_gsm8k,
            addresses=("openai/gsm8k", "gsm8k"),
            config="main",
            template="{prompt}\nThink step by step, and write the final answer as a number after ####.",
            extract="number",
        ),
        Preset(
            name="math",
            columns=("problem|question", "answer|solution"),
            row=_mathematics,
            addresses=(
                "DigitalLearningGmbH/MATH-lighteval",
                "EleutherAI/hendrycks_math",
                "HuggingFaceH4/MATH-500",
                "nlile/hendrycks-MATH-benchmark",
            ),
            template=_BOXED,
            extract="math",
        ),
        Preset(
            name="aime",
            columns=("problem|question", "answer"),
            row=_mathematics,
            addresses=(
                "HuggingFaceH4/aime_2024",
                "AI-MO/aimo-validation-aime",
                "math-ai/aime24",
                "math-ai/aime25",
                "opencompass/AIME2025",
            ),
            template="{prompt}\nThink step by step, and put the answer, an integer from 0 to 999, into \\boxed{}.",
            extract="number",
            verify=boxed_verdict,
        ),
        Preset(
            name="countdown",
            columns=("nums", "target"),
            row=_countdown,
            addresses=("Jiayi-Pan/Countdown-Tasks-3to4",),
            template=(
                "Using each of the numbers {nums} once, write an expression that equals {target}. You may use +, -, *, "
                "/ and brackets. Think first, in <think> </think> tags. Then give the expression alone in <answer> "
                "</answer> tags, for example <answer>(1 + 2) / 3</answer>."
            ),
            verify=countdown_verdict,
        ),
        Preset(
            name="ultrafeedback",
            columns=("prompt|messages", "chosen", "rejected"),
            row=_pair,
            addresses=("HuggingFaceH4/ultrafeedback_binarized",),
            train="train_prefs",
            eval="test_prefs",
        ),
        Preset(
            name="hh-rlhf",
            columns=("chosen", "rejected"),
            row=_transcripts,
            addresses=("Anthropic/hh-rlhf",),
        ),
    )
}
