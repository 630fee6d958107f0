"""The checked content of a row of data: a prompt, and recorded responses to it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from hocket.core.errors import ConfigurationError, nearest
from hocket.core.examples import BESIDES, Example
from hocket.rewards.functions import GIVEN
from hocket.stages import Split
from hocket.tasks.pictured_rows import with_digests
from hocket.tasks.split import normalise
from hocket.tasks.tables import Record, kind_of
from hocket.types import Message

SPLIT_NAMES: dict[str, Split] = {
    "train": "train",
    "eval": "eval",
    "test": "eval",
    "validation": "eval",
    "valid": "eval",
    "val": "eval",
    "dev": "eval",
}
"""The values of the column `split`."""

NEUTRAL: Mapping[str, float] = {"weight": 1.0, "margin": 0.0, "target": 1.0}
"""Numbers of an example, with the default for a row without a number that other rows have."""

Response = str | tuple[Message, ...]
"""Text, or messages to append if there are several turns."""


@dataclass(frozen=True)
class ExampleRow:
    """An example: its number, prompt, and metadata.

    Attributes:
        line: its number in its source. columns: the metadata of its scenario. example: the kind of example.
        form: the columns that determine the kind. where: its place in words. source: the number of its data set.
    """

    line: int
    prompt: str | tuple[Message, ...]
    answer: Any
    split: Split | None
    columns: Mapping[str, Any]
    example: Example = Example.PROMPT
    form: str = "prompt"
    where: str = ""
    source: int = 0

    @property
    def content(self) -> str:
        """The prompt up to whitespace, by which two rows are the same problem."""
        if isinstance(self.prompt, str):
            return normalise(self.prompt)
        if len(self.prompt) == 1 and self.prompt[0]["role"] == "user":
            return normalise(str(self.prompt[0]["content"]))
        return json.dumps([[message["role"], normalise(str(message.get("content")))] for message in self.prompt])


def checked_rows(records: Iterable[Record], source: int = 0) -> list[ExampleRow]:
    """The rows of one data set, all of one form.

    Raises:
        ConfigurationError: for an invalid row; names the place, the column and the remedy.
    """
    rows: list[ExampleRow] = []
    for record in records:
        row = checked_row(record, source)
        if rows and row.form != rows[0].form:
            raise ConfigurationError(
                f"{row.where}: the row has {row.form} where {rows[0].where} has {rows[0].form}; keep rows of one form "
                "in one file"
            )
        rows.append(row)
    return rows


def checked_row(record: Record, source: int = 0) -> ExampleRow:
    """A checked row.

    Raises:
        ConfigurationError: as `checked_rows`.
    """
    cells, where = record.cells, record.where
    for column, cell in cells.items():
        if (half := _half_a_pair([column, cell])) is not None:
            raise ConfigurationError(
                f"{where}: {column!a} holds {half!a}, half of a surrogate pair, which is no text; repair the row"
            )
    cells = with_digests(cells, record.folder, where)
    stated = {column for column, cell in cells.items() if cell is not None}
    fitting = ((form, read) for form, needed, read in _FORMS if needed & stated)
    form, read = next(fitting, ("prompt", _prompt_only))
    if form == "prompt" and "labels" in stated and {"steps", "completions"} & stated:  # the latter as TRL writes it
        form, read = "steps and labels", _steps
    if form == "messages" and isinstance(cells.get("labels"), list):
        form, read = "messages and labels", _turns
    prompt, fields, example = read(cells, where)
    name = "completions" if form == "steps and labels" and cells.get("steps") is None else form.split()[0]
    required = set() if name == "messages" else {"prompt"}
    used = {"answer", "split", *required, *({name} & {"completion", "completions", "messages"})}
    form = f"{form} and label" if example is Example.LABELLED else form
    columns = {name: value for name, value in cells.items() if name not in used}
    for column in sorted(stated & columns.keys()):
        if column in GIVEN:
            raise ConfigurationError(
                f"{where}: the column {column} is called as what reward functions are given of samples; rename it"
            )
        if column == "demonstration" and name in ("messages", "completion"):
            raise ConfigurationError(f"{where}: demonstration stands beside {name}, which is one; rename or drop it")
    columns |= fields
    if example in (Example.PAIR, Example.LABELLED):
        columns |= {name: _number(columns[name], name, where) for name in NEUTRAL if columns.get(name) is not None}
    if columns.get("tools") is not None:
        columns["tools"] = _tools(columns["tools"], where)
    answer, split = _answer(_stated_answer(cells), where), _split(cells.get("split"), where)
    return ExampleRow(record.number, prompt, answer, split, columns, example, form, where, source)


_RESPONSES = ("completion", "chosen", "rejected", "responses")
_Read = tuple[str | tuple[Message, ...], dict[str, Any], Example]


# ---------------------------------------------------------------- forms


def _prompt_only(cells: Mapping[str, Any], where: str) -> _Read:
    """A prompt, and a column `demonstration` if there is one."""
    prompt, shown, answer = _asked(cells, where), cells.get("demonstration"), cells.get("answer")
    if shown is None:
        return prompt, {}, Example.PROMPT if answer is None else Example.DEMONSTRATION
    labelled = isinstance(cells.get("label"), bool)
    fields = {"demonstration": _response(shown, "demonstration", prompt, where)}
    return prompt, fields, Example.LABELLED if labelled else Example.DEMONSTRATION


def _messages(cells: Mapping[str, Any], where: str) -> _Read:
    """A conversation; the prompt ends before the first message of the assistant."""
    messages = _conversation(cells["messages"], "messages", where)
    first = next((place for place, message in enumerate(messages) if message["role"] == "assistant"), len(messages))
    if first == len(messages):
        raise ConfigurationError(f"{where}: messages has none of the assistant's; end it with what is to be learnt")
    if not first:
        raise ConfigurationError(f"{where}: messages begins with the assistant's; put what is asked before it")
    response = _ended(messages[first:], "messages", where)
    labelled = isinstance(cells.get("label"), bool)
    return messages[:first], {"demonstration": response}, Example.LABELLED if labelled else Example.DEMONSTRATION


def _completion(cells: Mapping[str, Any], where: str) -> _Read:
    """A prompt and its completion, optionally with a label, good or bad."""
    prompt = _asked(cells, where)
    fields: dict[str, Any] = {"demonstration": _response(cells["completion"], "completion", prompt, where)}
    label = cells.get("label")
    if label is None:
        return prompt, fields, Example.DEMONSTRATION
    if label not in (0, 1) or isinstance(label, float):
        shown = repr(label) if isinstance(label, (int, float, str)) else kind_of(label)
        raise ConfigurationError(f"{where}: label is {shown}; write true for a good completion and false for a bad one")
    return prompt, {**fields, "label": bool(label)}, Example.LABELLED


def _pair(cells: Mapping[str, Any], where: str) -> _Read:
    """Two responses to a prompt, or two conversations with a common beginning."""
    for name, other in (("chosen", "rejected"), ("rejected", "chosen")):
        if cells.get(name) is None:
            raise ConfigurationError(f'{where}: no "{name}", which is compared with {other}; write both')
    chosen, rejected = cells["chosen"], cells["rejected"]
    if "prompt" in cells:
        prompt = _prompt(cells["prompt"], where)
    else:
        prompt, chosen, rejected = _parted(chosen, rejected, where)
    fields: dict[str, Any] = {
        name: _response(response, name, prompt, where)
        for name, response in (("chosen", chosen), ("rejected", rejected))
    }
    if fields["chosen"] == fields["rejected"]:
        raise ConfigurationError(f"{where}: chosen and rejected are the same; drop the row")
    target = cells.get("target")
    if target is not None and not 0 <= _number(target, "target", where) <= 1:
        raise ConfigurationError(f"{where}: target is {target}; write the probability in [0, 1] that chosen is better")
    return prompt, fields, Example.PAIR


def _parted(chosen: Any, rejected: Any, where: str) -> tuple[tuple[Message, ...], Any, Any]:
    """The common beginning of two conversations, and the rest of each."""
    if not isinstance(chosen, list) or not isinstance(rejected, list):
        raise ConfigurationError(
            f'{where}: no "prompt"; write it, or write chosen and rejected as messages that begin with what is asked'
        )
    both = [_conversation(side, name, where) for name, side in (("chosen", chosen), ("rejected", rejected))]
    shared = 0
    while shared < min(map(len, both)) and both[0][shared] == both[1][shared]:
        shared += 1
    if both[0] == both[1]:
        raise ConfigurationError(f"{where}: chosen and rejected are the same; drop the row")
    if not shared:
        raise ConfigurationError(
            f'{where}: chosen and rejected do not begin alike; write what is asked as "prompt", or begin both with it'
        )
    return both[0][:shared], list(both[0][shared:]), list(both[1][shared:])


def _ranked(cells: Mapping[str, Any], where: str) -> _Read:
    """Two responses or more, with a score each, or the best first."""
    prompt = _asked(cells, where)
    cell = cells["responses"]
    if not isinstance(cell, list) or len(cell) < 2:
        shown = f"a list of {len(cell)}" if isinstance(cell, list) else kind_of(cell)
        raise ConfigurationError(f"{where}: responses is {shown}; write a list of two responses or more")
    responses = [_response(answer, f"responses[{place}]", prompt, where) for place, answer in enumerate(cell)]
    twice = next(((a, b) for b in range(len(cell)) for a in range(b) if responses[a] == responses[b]), None)
    if twice is not None:
        raise ConfigurationError(f"{where}: responses[{twice[0]}] and responses[{twice[1]}] are the same; drop one")
    scores = cells.get("scores")
    if scores is None:
        scores = list(range(len(responses)))[::-1]
    elif not isinstance(scores, list) or len(scores) != len(responses):
        shown = f"a list of {len(scores)}" if isinstance(scores, list) else kind_of(scores)
        raise ConfigurationError(f"{where}: scores is {shown} for {len(responses)} responses; write a number for each")
    values = [_number(score, f"scores[{place}]", where) for place, score in enumerate(scores)]
    if len(set(values)) == 1:
        raise ConfigurationError(f"{where}: scores are all {values[0]}, which ranks nothing; drop the row")
    return prompt, {"responses": responses, "scores": values}, Example.RANKED


def _steps(cells: Mapping[str, Any], where: str) -> _Read:
    """The steps of one response, with a label each."""
    prompt = _asked(cells, where)
    name = "steps" if cells.get("steps") is not None else "completions"
    steps = cells.get(name)
    if not isinstance(steps, list) or not steps or not all(isinstance(step, str) and step.strip() for step in steps):
        raise ConfigurationError(f"{where}: {name} must be a list of texts that say something; write a text per step")
    return prompt, {"steps": steps, "labels": _labels(cells.get("labels"), len(steps), name, where)}, Example.STEPS


def _turns(cells: Mapping[str, Any], where: str) -> _Read:
    """A conversation with a label for each of the assistant's turns."""
    prompt, fields, _ = _messages({**cells, "label": None}, where)
    response = fields["demonstration"]
    turns = (assistant(response),) if isinstance(response, str) else response
    count = sum(message["role"] == "assistant" for message in turns)
    labels = _labels(cells["labels"], count, "the assistant's messages", where)
    return prompt, {"demonstration": turns, "labels": labels}, Example.STEPS


def assistant(text: str) -> Message:
    """A message of the assistant."""
    return {"role": "assistant", "content": text}


def _labels(labels: Any, count: int, name: str, where: str) -> list[float | None]:
    if not isinstance(labels, list) or len(labels) != count:
        shown = f"a list of {len(labels)}" if isinstance(labels, list) else kind_of(labels)
        raise ConfigurationError(f"{where}: labels is {shown} where {name} are {count}; write one for each")
    numbers: list[float | None] = []
    for place, label in enumerate(labels):
        is_number = isinstance(label, (int, float)) and 0 <= label <= 1
        if label is not None and not is_number:
            shown = repr(label) if isinstance(label, (int, float, str)) else kind_of(label)
            raise ConfigurationError(
                f"{where}: labels[{place}] is {shown}; write true, false, a probability, or null for no opinion"
            )
        numbers.append(None if label is None else float(label))
    if all(label is None for label in numbers):
        raise ConfigurationError(f"{where}: labels are all null, so nothing is learnt; drop the row")
    return numbers


_FORMS: tuple[tuple[str, set[str], Callable[[Mapping[str, Any], str], _Read]], ...] = (
    ("chosen and rejected", {"chosen", "rejected"}, _pair),
    ("responses", {"responses"}, _ranked),
    ("messages", {"messages"}, _messages),
    ("completion", {"completion"}, _completion),
)
"""Forms with their columns, of which any determines the form, and their readers; other rows are prompts."""


# ---------------------------------------------------------------- cells


def _half_a_pair(cell: Any) -> str | None:
    """The first half of a surrogate pair, which neither files nor tokenizers accept; None without one."""
    if isinstance(cell, str):
        try:
            cell.encode()
        except UnicodeEncodeError as error:
            return cell[error.start]
        return None
    if isinstance(cell, Mapping):
        cell = [part for pair in cell.items() for part in pair]
    return next(filter(None, map(_half_a_pair, cell)), None) if isinstance(cell, (list, tuple)) else None


def _asked(cells: Mapping[str, Any], where: str) -> str | tuple[Message, ...]:
    """The prompt, from its column."""
    if "prompt" not in cells:
        hint = nearest("prompt", [column for column in cells if column not in _RESPONSES])
        if not hint.startswith("; did you mean"):
            hint = f', only {", ".join(cells)}; call the column of what is asked "prompt"' if cells else ""
        raise ConfigurationError(f'{where}: no "prompt"{hint}')
    return _prompt(cells["prompt"], where)


def _prompt(prompt: Any, where: str) -> str | tuple[Message, ...]:
    if isinstance(prompt, str):
        if not prompt.strip():
            raise ConfigurationError(f"{where}: the prompt is empty")
        return prompt
    if not isinstance(prompt, list):
        raise ConfigurationError(f"{where}: the prompt is {kind_of(prompt)}; write text or a list of messages")
    if not prompt:
        raise ConfigurationError(f"{where}: the prompt has no messages")
    return tuple(_message(message, f"{where}: message {place} of the prompt") for place, message in enumerate(prompt))


def _response(response: Any, name: str, prompt: str | tuple[Message, ...], where: str) -> Response:
    """A response, as text if it is a single message of the assistant. A repeated prompt is removed."""
    if isinstance(response, str):
        if not response.strip():
            raise ConfigurationError(f"{where}: {name} is empty; write the response, or drop the row")
        return response
    messages = _conversation(response, name, where)
    opening: tuple[Message, ...] = ({"role": "user", "content": prompt},) if isinstance(prompt, str) else prompt
    if messages[: len(opening)] == opening:
        messages = messages[len(opening) :]
    return _ended(messages, name, where)


def _conversation(messages: Any, name: str, where: str) -> tuple[Message, ...]:
    if not isinstance(messages, list):
        form = "write a list of messages" if name == "messages" else "write text or a list of messages"
        raise ConfigurationError(f"{where}: {name} is {kind_of(messages)}; {form}")
    if not messages:
        raise ConfigurationError(f"{where}: {name} has no messages; write some, or drop the row")
    return tuple(_message(message, f"{where}: message {place} of {name}") for place, message in enumerate(messages))


def _ended(messages: Sequence[Message], name: str, where: str) -> Response:
    """Messages that end with the assistant's, each of which has text or calls a tool; text if there is only one."""
    if not messages or messages[-1]["role"] != "assistant":
        last = repr(messages[-1]["role"]) if messages else "the prompt"
        raise ConfigurationError(f"{where}: {name} ends with {last}; end it with a message of the assistant's")
    for message in messages:
        text = str(message.get("content") or "").strip() or message.get("tool_calls")
        if message["role"] == "assistant" and not text:
            raise ConfigurationError(
                f"{where}: a message of the assistant's in {name} has no text and calls no tool; write what it says"
            )
    only = messages[0] if len(messages) == 1 else {}
    return str(only["content"]) if only and not any(only.get(key) for key in BESIDES) else tuple(messages)


def _message(message: Any, where: str) -> Message:
    if not isinstance(message, dict):
        raise ConfigurationError(f'{where} is {kind_of(message)}; write {{"role": ..., "content": ...}}')
    stated = {name: value for name, value in message.items() if value is not None}
    role = stated.get("role")
    if not isinstance(role, str) or not role:
        raise ConfigurationError(f'{where} has no "role"; write system, user, assistant or tool')
    called = role == "assistant" and isinstance(stated.get("tool_calls"), list)
    if called:
        for number, call in enumerate(stated["tool_calls"]):
            function = call.get("function", call) if isinstance(call, dict) else None
            if not isinstance(function, dict) or not isinstance(function.get("name"), str):
                raise ConfigurationError(
                    f'{where}: tool_calls[{number}] names no function; write {{"function": {{"name": ..., "arguments": '
                    "{...}}}"
                )
        stated = {"role": role, "content": "", **stated}
    if not isinstance(stated.get("content"), (str, list)):
        raise ConfigurationError(f'{where} has no text as its "content"')
    return stated


def _number(value: Any, name: str, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ConfigurationError(f"{where}: {name} is {kind_of(value)}; write a number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ConfigurationError(f"{where}: {name} is {number}; write a finite number")
    if name == "weight" and number < 0:
        raise ConfigurationError(f"{where}: weight is {number}; write 0 or more")
    return number


def _tools(value: Any, where: str) -> list[dict[str, Any]] | None:
    """Function schemas, as chat templates show them; JSON text is read."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            pass
    if not isinstance(value, list) or not all(map(_is_schema, value)):
        shown = "a list of something else" if isinstance(value, list) else kind_of(value)
        raise ConfigurationError(
            f'{where}: tools is {shown}; write a list of function schemas, each {{"type": "function", "function": '
            '{"name": ...}}, or call the column something else'
        )
    return value or None


def _is_schema(tool: Any) -> bool:
    function = tool.get("function", tool) if isinstance(tool, dict) else None
    return isinstance(function, dict) and isinstance(function.get("name"), str)


def _stated_answer(cells: Mapping[str, Any]) -> Any:
    """The cell of the answer: `answer`, or as verl's data sets write it `reward_model["ground_truth"]`."""
    rule = cells.get("reward_model")
    if cells.get("answer") is None and isinstance(rule, Mapping):
        return rule.get("ground_truth")
    return cells.get("answer")


def _answer(answer: Any, where: str) -> Any:
    members = answer if isinstance(answer, list) else [answer]
    wrong = next((member for member in members if isinstance(member, (dict, list))), None)
    if wrong is not None or answer == []:
        shown = "an empty list" if wrong is None else kind_of(wrong)
        raise ConfigurationError(
            f"{where}: the answer is {shown}; write text, a number, a list of these, or another column's name"
        )
    odd = next(
        (member for member in members if isinstance(member, (float, Decimal)) and not math.isfinite(member)), None
    )
    if odd is not None or (isinstance(answer, list) and all(item is None for item in answer)):
        raise ConfigurationError(
            f"{where}: the answer is {'null' if odd is None else odd}, which no response can match; leave it out where "
            "there is none, or write it as text in words"
        )
    return answer


def _split(value: Any, where: str) -> Split | None:
    if value is None:
        return None
    if not isinstance(value, str) or value.lower() not in SPLIT_NAMES:
        raise ConfigurationError(f"{where}: split = {value!r}{nearest(str(value), SPLIT_NAMES)}")
    return SPLIT_NAMES[value.lower()]
