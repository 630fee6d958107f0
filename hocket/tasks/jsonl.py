"""A file of prompts as a task: one JSON object per line."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hocket.core.batch import Level
from hocket.core.errors import ConfigurationError, nearest
from hocket.core.options import checked
from hocket.rewards.verifiers import ExactMatch, Extraction
from hocket.stages import Reward, Split
from hocket.tasks.arithmetic import has_working
from hocket.tasks.form import TaskForm
from hocket.tasks.split import normalise
from hocket.tasks.text import INSTRUCTION, TextTask, check_number, checked_extraction
from hocket.types import Message, Scenario, Trajectory

SPLIT_NAMES: dict[str, Split] = {
    "train": "train",
    "eval": "eval",
    "test": "eval",
    "validation": "eval",
    "valid": "eval",
    "val": "eval",
    "dev": "eval",
}
"""What the column `split` may say."""


@dataclass(frozen=True)
class Row:
    """A line of the file: its number from 1, what is asked, and the rest."""

    line: int
    prompt: str | tuple[Message, ...]
    answer: Any
    split: Split | None
    columns: Mapping[str, Any]

    @property
    def content(self) -> str:
        """What makes two rows the same problem: the prompt up to whitespace."""
        if isinstance(self.prompt, str):
            return normalise(self.prompt)
        if len(self.prompt) == 1 and self.prompt[0]["role"] == "user":
            return normalise(str(self.prompt[0]["content"]))
        return json.dumps([[message["role"], normalise(str(message.get("content")))] for message in self.prompt])


class JsonLines(TextTask):
    """The rows of a JSONL file.

    A row has a `prompt` (text, or chat messages), optionally an `answer` (text, number, boolean, or a list of
    accepted ones) and a `split` (train or eval); every other column is passed on to reward functions. Rows that do
    not say their split are divided by the hash of their prompt, `eval_share` of them for evaluation and at least one,
    so rows added later do not move others. A prompt in evaluation is never trained on: its other rows are left out.

    Attributes:
        eval_share: of the prompts without a `split`.
        extract: what counts as the answer of a completion: `answer-tag`, `last-line` or `number`.
        instruct: asks for the answer's tags in a system message.
        left_out: lines that are not used, because their prompt is in evaluation already.

    Raises:
        ConfigurationError: naming the file and the line, for a file or a row that cannot be used.
    """

    def __init__(
        self, path: Path, eval_share: float = 0.1, extract: Extraction = "answer-tag", instruct: bool = False
    ) -> None:
        if not 0 < eval_share < 1:
            raise ConfigurationError(f"task {path}: eval_share must be between 0 and 1, not {eval_share}")
        self.extract = checked_extraction(str(path), extract)
        self.path, self.name, self.instruct = path, str(path), instruct
        rows = list(read_rows(path))
        self._columns = tuple({name: None for row in rows for name in row.columns})
        self._rows, self.left_out = divided(rows, eval_share, path)
        self._match = ExactMatch(extract=extract)
        self._answered = any(row.answer is not None for row in rows)

    def size(self, split: Split) -> int | None:
        return len(self._rows[split])

    def scenario(self, split: Split, number: int) -> Scenario:
        check_number(self.name, split, number, len(self._rows[split]) if split in self._rows else 0)
        row = self._rows[split][number]
        return Scenario(
            id=f"{self.path.stem}:{row.line}",
            prompt=self._prompt(row),
            answer=row.answer,
            metadata={name: row.columns.get(name) for name in self._columns},
            seed=row.line,
        )

    def _prompt(self, row: Row) -> str | tuple[Message, ...]:
        if not self.instruct:
            return row.prompt
        asked = ({"role": "user", "content": row.prompt},) if isinstance(row.prompt, str) else row.prompt
        if asked[0]["role"] != "system":
            return ({"role": "system", "content": INSTRUCTION}, *asked)
        return ({**asked[0], "content": f"{asked[0]['content']}\n{INSTRUCTION}"}, *asked[1:])

    @property
    def rewards(self) -> Sequence[Reward]:
        """Comparison with the answers; none for a file without any, which needs a reward of yours."""
        return (self._match,) if self._answered else ()

    def verify(self, text: str, scenario: Scenario) -> float | None:
        return self._match.verify(text, scenario)

    def describe(self, trajectory: Trajectory) -> Mapping[str, float]:
        """`format`: whether there is anything to compare with an answer; `working`: a filled `<think>` block."""
        found = self._match.extracted(trajectory.text) is not None
        return {"format": float(found), "working": float(has_working(trajectory.text))}

    def success(self, trajectory: Trajectory) -> float:
        """1 for the right answer, 0 for another; without a known answer the mean score, brought into [0, 1]."""
        if trajectory.scenario.answer is not None:
            return super().success(trajectory)
        given = [score.value for score in trajectory.scores.values() if score.level is Level.TRAJECTORY]
        values = [min(max(float(value), 0.0), 1.0) for value in given if isinstance(value, (int, float))]
        return sum(values) / len(values) if values else math.nan


# ---------------------------------------------------------------- reading


def read_rows(path: Path) -> Iterator[Row]:
    """The rows of a file, checked. Blank lines are passed over.

    Raises:
        ConfigurationError: naming the file and the line.
    """
    empty = True
    for number, line in enumerate(_lines(path), start=1):
        if line.strip():
            empty = False
            yield _row(line, number, f"{path}, line {number}")
    if empty:
        raise ConfigurationError(f"{path} is empty; write one JSON object with a prompt per line")


def _lines(path: Path) -> list[str]:
    if not path.exists():
        raise ConfigurationError(f"there is no file {path}")
    if path.is_dir():
        raise ConfigurationError(f"{path} is a folder; name a .jsonl file in it")
    try:
        # Only line feeds end a line: JSON strings may hold other separators.
        return path.read_text(encoding="utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{path} is not UTF-8 text (byte {error.start}); convert it") from None
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from None


def _row(line: str, number: int, where: str) -> Row:
    try:
        data = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"{where}: not valid JSON ({error}); write one object per line") from None
    if not isinstance(data, dict):
        raise ConfigurationError(f'{where}: {_kind(data)} where an object belongs; write {{"prompt": ...}}')
    if "prompt" not in data:
        hint = nearest("prompt", data)
        if not hint.startswith("; did you mean"):
            hint = f', only {", ".join(data)}; call the column of what is asked "prompt"' if data else ""
        raise ConfigurationError(f'{where}: no "prompt"{hint}')
    columns = {name: value for name, value in data.items() if name not in ("prompt", "answer", "split")}
    split = _split(data.get("split"), where)
    return Row(
        number, _checked_prompt(data["prompt"], where), _checked_answer(data.get("answer"), where), split, columns
    )


def _checked_prompt(prompt: Any, where: str) -> str | tuple[Message, ...]:
    if isinstance(prompt, str):
        if not prompt.strip():
            raise ConfigurationError(f"{where}: the prompt is empty")
        return prompt
    if not isinstance(prompt, list):
        raise ConfigurationError(f"{where}: the prompt is {_kind(prompt)}; write text or a list of messages")
    if not prompt:
        raise ConfigurationError(f"{where}: the prompt has no messages")
    for place, message in enumerate(prompt):
        _check_message(message, f"{where}: message {place} of the prompt")
    return tuple(prompt)


def _check_message(message: Any, where: str) -> None:
    if not isinstance(message, dict):
        raise ConfigurationError(f'{where} is {_kind(message)}; write {{"role": ..., "content": ...}}')
    role = message.get("role")
    if not isinstance(role, str) or not role:
        raise ConfigurationError(f'{where} has no "role"; write system, user, assistant or tool')
    called = role == "assistant" and isinstance(message.get("tool_calls"), list)
    if not isinstance(message.get("content"), str) and not called:
        raise ConfigurationError(f'{where} has no text as its "content"')


def _checked_answer(answer: Any, where: str) -> Any:
    members = answer if isinstance(answer, list) else [answer]
    wrong = next((member for member in members if isinstance(member, (dict, list))), None)
    if wrong is not None or answer == []:
        shown = "an empty list" if wrong is None else _kind(wrong)
        raise ConfigurationError(
            f"{where}: the answer is {shown}; write text, a number, a list of these, or another column's name"
        )
    return answer


def _split(value: Any, where: str) -> Split | None:
    if value is None:
        return None
    if not isinstance(value, str) or value.lower() not in SPLIT_NAMES:
        raise ConfigurationError(f"{where}: split = {value!r}{nearest(str(value), SPLIT_NAMES)}")
    return SPLIT_NAMES[value.lower()]


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "text", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")


# ---------------------------------------------------------------- dividing


def divided(rows: Sequence[Row], eval_share: float, path: Path) -> tuple[dict[Split, list[Row]], list[int]]:
    """The rows of each split in the file's order, and the lines left out.

    A prompt is in evaluation if any of its rows says so, else in training if one says so, else by its hash.
    Evaluation has each prompt once.
    """
    said: dict[str, Split | None] = {}
    for row in rows:
        if said.get(row.content) != "eval":
            said[row.content] = row.split or said.get(row.content)
    places = _placed(said, eval_share, path)
    split_rows: dict[Split, list[Row]] = {"train": [], "eval": []}
    left_out, seen = [], set[str]()
    for row in rows:
        split = places[row.content]
        if split == "eval" and (row.content in seen or row.split == "train"):
            left_out.append(row.line)
            continue
        seen.add(row.content)
        split_rows[split].append(row)
    return split_rows, left_out


def _placed(said: Mapping[str, Split | None], eval_share: float, path: Path) -> dict[str, Split]:
    """Every distinct prompt's split, with at least one prompt in each."""
    free = sorted((content for content, split in said.items() if split is None), key=_rank)
    chosen = {content for content in free if _rank(content) < eval_share}
    named = set(said.values())
    if free and not chosen and "eval" not in named:
        chosen = {free[0]}
    if len(chosen) == len(free) > 0 and "train" not in named:
        chosen.discard(free[-1])
    placed: dict[str, Split] = {
        content: split or ("eval" if content in chosen else "train") for content, split in said.items()
    }
    for split in ("train", "eval"):
        if split not in placed.values():
            raise ConfigurationError(
                f"{path} has {len(said)} distinct prompt{'s' * (len(said) != 1)} and none for {split}; training and "
                "evaluation need one each, so add rows or change the column split"
            )
    return placed


def _rank(content: str) -> float:
    """A fixed pseudo-random place of a prompt in [0, 1)."""
    digest = hashlib.blake2b(content.encode("utf-8", "surrogatepass"), digest_size=8, person=b"hocket-jsonl").digest()
    return int.from_bytes(digest, "big") / 2**64


def from_settings(path: str, settings: Mapping[str, str]) -> JsonLines:
    """The task with these settings."""
    return JsonLines(Path(path), **checked(path, settings, {"eval_share": float, "extract": str, "instruct": bool}))


JSONL = TaskForm(
    name="PATH.jsonl",
    description="a file with one JSON object per line: prompt, and optionally answer, split and other columns",
    make=from_settings,
)
