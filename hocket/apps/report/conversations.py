"""Episodes as conversations: every turn of a group once, hung into a tree, and each sample as a path through it."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from hocket.core import sums
from hocket.core.media import media_in
from hocket.train.answers import content

Data = dict[str, Any]
Row = Mapping[str, Any]

NAMED = 12
"""Characters of a picture's or sound's digest by which a page names it."""

_CALL = re.compile(r"<tool_call>(.*?)(?:</tool_call>|\Z)", re.DOTALL)


class Conversations:
    """The turns of one group, each stored once however many samples share it.

    A turn hangs under the one before it in its episode (`up`, -1 at the top). It opens a branch where it goes on from
    an older turn of its agent. One whose history begins anew (`anew`) hangs under the last turn that this history
    keeps, beside an older one that was asked the same, else under the one before it. An episode that is a candidate
    beside the one that was taken hangs beside that one; what led to both comes first on its path, and `lead` says how
    much of the path that is.

    What several samples say alike is one node of the tree: a turn names the first one that is the `same`, where an
    agent in one place of the tree is told the same and says the same. Turns of one episode are never the same.

    Attributes:
        turns: what the page shows of each turn. size: characters that all of it takes.
    """

    def __init__(self) -> None:
        self.turns: list[Data] = []
        self.size = 0
        self._places: dict[Hashable, int] = {}
        self._asked: dict[Hashable, int] = {}
        self._alike: dict[Hashable, list[int]] = {}

    def add(self, number: int, episode: Row, room: float = math.inf) -> Data | None:
        """Tells an episode as a path through `turns`; None, and nothing is kept, where `size` would exceed `room`.

        `number` keeps apart the turns of episodes that were recorded without ids.
        """
        before = len(self.turns)
        document = self._told(number, episode)
        taken = size([document, self.turns[before:]])
        if self.size + taken > room:
            del self.turns[before:]
            self._places = {key: place for key, place in self._places.items() if place < before}
            self._asked = {key: place for key, place in self._asked.items() if place < before}
            self._alike = {key: [n for n in nodes if n < before] for key, nodes in self._alike.items()}
            return None
        self.size += taken
        return document

    def _told(self, number: int, episode: Row) -> Data:
        rows: Sequence[Row] = episode.get("turns", ())
        path: list[int] = []
        for place, row in enumerate(rows):
            key = row.get("id", (number, place))
            if key not in self._places:
                question = _question(episode, row)
                turn = self._turn(rows, place, path, self._asked.get(question))
                self._places[key] = len(self.turns)
                self._asked.setdefault(question, len(self.turns))
                self._join(turn, row, path)
                self.turns.append(turn)
            path.append(self._places[key])
        lead = self._line(self.turns[path[0]]["up"]) if path else []
        document: Data = {
            "path": [*lead, *path],
            "credit": [*(None for _ in lead), *(column(row.get("advantage")) for row in rows)],
            "scores": _totals(episode.get("scores") or {}),
        }
        if lead:
            document["lead"] = len(lead)
        if any(row.get("weight") for row in rows):
            document["weight"] = [*(None for _ in lead), *(column(row.get("weight")) for row in rows)]
        if any(row.get("rewards") for row in rows):
            document["rewards"] = [*(None for _ in lead), *(row.get("rewards") for row in rows)]
        paid = earned(episode)
        document |= {"earned": paid} if paid else {}
        return document | {name: episode[name] for name in ("feedback", "failure", "info") if episode.get(name)}

    def _node(self, turn: int) -> int:
        """The turn that stands for `turn` in the tree; -1 for the top."""
        return turn if turn < 0 else int(self.turns[turn].get("same", turn))

    def _join(self, turn: Data, row: Row, path: Sequence[int]) -> None:
        """Marks a turn, the next of `turns`, as the same as the first that was told and said the same in its place."""
        parent = self._places.get(row.get("parent"))
        prompt = list(row.get("prompt") or ())
        question = prompt[len(prompt) - row["new"] :] if parent is not None and "new" in row else prompt
        # A controller is told numbers, and says some.
        question += [] if prompt else [row.get("observation")]
        answer = row.get("text") or row.get("actions") or row.get("tokens")
        context = None if parent is None else self._node(parent)
        key = (turn["agent"], turn["role"], self._node(turn["up"]), context, json.dumps([question, answer]))
        nodes, taken = self._alike.setdefault(key, []), {self._node(other) for other in path}
        same = next((node for node in nodes if node not in taken), None)
        if same is None:
            nodes.append(len(self.turns))
        else:
            turn["same"] = same

    def _line(self, turn: int) -> list[int]:
        """The turns from the top to `turn`; none for -1."""
        line: list[int] = []
        while turn >= 0:
            line.append(turn)
            turn = self.turns[turn]["up"]
        return line[::-1]

    def _turn(self, rows: Sequence[Row], place: int, path: Sequence[int], beside: int | None) -> Data:
        row = rows[place]
        up, anew = self._hung(rows, place, path)
        if not path:  # an episode that begins where another one has been already
            up = self.turns[beside]["up"] if beside is not None else self._places.get(row.get("parent"), -1)
        turn: Data = {
            "agent": row.get("agent", ""),
            "role": row.get("role", ""),
            "up": up,
            "length": row.get("length", len(row.get("tokens") or ())),
            "finish": row.get("finish"),
            "messages": self._messages(rows, place, path),
            "logp": column(row.get("logp")),
            **_said(row),
        }
        calls = calls_in(str(row.get("text", "")))
        turn["brief"] = short(" ".join(_brief(str(row.get("text", "")), calls).split()), 90)
        forced = row.get("forced") or []
        marks = {"anew": anew, "state": row.get("state"), "calls": calls, "tags": _tags(row)}
        if any(forced) and not all(forced):
            marks["forced"] = [int(value) for value in forced]
        return turn | {name: value for name, value in marks.items() if value}

    def _hung(self, rows: Sequence[Row], place: int, path: Sequence[int]) -> tuple[int, bool]:
        """What a turn hangs under (-1 at the top), and whether its history begins anew."""
        row, latest = rows[place], path[-1] if path else -1
        mates = [
            number
            for number, old in enumerate(rows[:place])
            if old.get("conversation") is not None
            and (old.get("agent"), old["conversation"]) == (row.get("agent"), row.get("conversation"))
        ]
        if not mates:
            return latest, False
        if row.get("parent") is not None:
            extended = next((number for number in mates if rows[number].get("id") == row["parent"]), mates[-1])
            return (latest if extended == mates[-1] else path[extended]), False
        continued = [number for number in mates if _keeps(row, rows[number])]
        if continued:
            return path[continued[-1]], True
        alike = [number for number in mates if rows[number].get("prompt") == row.get("prompt")]
        return (int(self.turns[path[alike[0]]]["up"]) if alike else latest), True

    def _shown(self, path: Sequence[int]) -> dict[tuple[str, str], list[int]]:
        """Where each message was shown first on a path: the turn and the message's place."""
        return {
            (message["role"], message["content"]): [node, number]
            for node in reversed(path)
            for number, message in reversed(list(enumerate(self.turns[node]["messages"])))
            if "content" in message
        }

    def _messages(self, rows: Sequence[Row], place: int, path: Sequence[int]) -> list[Data]:
        """What the agent was told before this turn. What was said or shown before is only referred to."""
        row = rows[place]
        prompt = [message for message in row.get("prompt") or () if isinstance(message, Mapping)]
        answers = {str(old.get("text", "")).strip(): path[number] for number, old in enumerate(rows[:place])}
        answers.pop("", None)
        # What comes after a turn is new even where it repeats something; a history told as a whole mostly repeats.
        shown = {} if row.get("parent") is not None else self._shown(path)
        messages: list[Data] = []
        for message in prompt[len(prompt) - row["new"] :] if "new" in row else prompt:
            entry: Data = {"role": str(message.get("role", ""))}
            text = content(message.get("content"))
            if message.get("tool_calls"):
                entry["calls"] = [call for written in message["tool_calls"] for call in _given_call(written)]
            if message.get("name"):
                entry["name"] = str(message["name"])
            if text.strip() in answers:
                entry["said"] = answers[text.strip()]
            elif (entry["role"], text) in shown:
                entry["seen"] = shown[entry["role"], text]
            else:
                entry |= {"content": text, **_pictures(message)}
            # Without ids nobody knows what is new: what was there before is left out.
            if "new" in row or "content" in entry:
                messages.append(entry)
        return messages


def _pictures(message: Row) -> Data:
    names = [digest[:NAMED] for _, digest in media_in([message])]
    return {"pictures": names} if names else {}


def _totals(scores: Row) -> dict[str, float | None]:
    """Scores as numbers; those per turn or decision summed."""
    totals = {}
    for name, score in scores.items():
        values = [v for v in (score if isinstance(score, list) else [score]) if isinstance(v, (int, float))]
        if values:
            totals[name] = digits(sums.total(values))
    return totals


def _question(episode: Row, row: Row) -> Hashable:
    """Equal for the candidates that answer one question of an attempt."""
    agent = (row.get("agent"), row.get("conversation"), row.get("parent"))
    return episode.get("sample"), *agent, json.dumps(list(row.get("prompt") or ())[-1:])


def _keeps(row: Row, old: Row) -> bool:
    """Whether a turn's history holds all of an older turn: what it was told and what it said."""
    prompt, earlier = list(row.get("prompt") or ()), list(old.get("prompt") or ())
    if (
        len(prompt) <= len(earlier)
        or prompt[: len(earlier)] != earlier
        or not isinstance(prompt[len(earlier)], Mapping)
    ):
        return False
    return content(prompt[len(earlier)].get("content")).strip() == str(old.get("text", "")).strip()


def _said(row: Row) -> Data:
    """What was decided: tokens, a controller's actions, or text."""
    if row.get("token_texts"):
        text, joined = str(row.get("text", "")), "".join(row["token_texts"])
        # The tokens that end a turn are no part of what is said.
        closing = len(joined) - len(text) if joined.startswith(text) else 0
        return {"tokens": row["token_texts"], **({"closing": closing} if closing else {})}
    if isinstance(row.get("observation"), Mapping):  # a controller: its actions are the story
        actions = row.get("actions") or row.get("tokens") or []
        return {"actions": short(" ".join(map(_action, actions)), 1200)}
    return {"text": row.get("text", "")}


def _brief(text: str, calls: Sequence[Data]) -> str:
    """A turn in a few words: what it called, or what it said."""
    named = [f"→ {call['name']}({call['arguments']})" for call in calls if "name" in call]
    return ", ".join(named) or text


def _tags(row: Row) -> list[str]:
    forced = row.get("forced") or []
    if row.get("outside"):
        return ["outside model, not learnt from"]
    if str(row.get("policy", "")).endswith(" before training"):
        return ["as before training, not learnt from"]
    if forced and all(forced):
        return ["imposed, not learnt from"]
    tags = [f"{sum(map(bool, forced))} imposed"] if any(forced) else []
    return [*tags, "given text"] if row.get("logp") is None and row.get("tokens") else tags


# ---------------------------------------------------------------- tools


def calls_in(text: str) -> list[Data]:
    """The tool calls of a reply: name and arguments as text; without a name where a call cannot be read."""
    return [_call(match.strip()) for match in _CALL.findall(text)]


def _call(text: str) -> Data:
    try:
        call = json.loads(text)
    except ValueError:
        return {"arguments": text}
    return next(iter(_given_call(call)), {"arguments": text})


def _given_call(call: Any) -> list[Data]:
    """A call as chat messages hold it, as a list of one; none where it is no call."""
    function = call.get("function", call) if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        return []
    arguments = function.get("arguments", function.get("parameters", {}))
    if isinstance(arguments, Mapping):
        arguments = ", ".join(f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in arguments.items())
    return [{"name": function["name"], "arguments": content(arguments)}]


# ---------------------------------------------------------------- rewards per agent


def earned(episode: Row) -> dict[str, dict[str, float]]:
    """What each agent earned: its turn rewards summed, by name; of seats without any, the return that `info` tells."""
    sums_by_agent: dict[str, dict[str, float]] = {}
    for turn in episode.get("turns", ()):
        for name, value in (turn.get("rewards") or {}).items():
            mine = sums_by_agent.setdefault(str(turn.get("agent", "")), {})
            mine[name] = round(mine.get(name, 0.0) + value, 9)
    returns = (episode.get("info") or {}).get("returns")
    for agent, value in returns.items() if isinstance(returns, Mapping) else ():
        if isinstance(value, (int, float)):
            sums_by_agent.setdefault(str(agent), {"return": float(value)})
    return sums_by_agent


# ---------------------------------------------------------------- small things


def column(values: Sequence[float | None] | None) -> Any:
    """Rounded values; a single number when all are the same, as advantages often are."""
    if not values:
        return None
    if values.count(values[0]) == len(values):
        return digits(values[0])
    rounded = [digits(value) for value in values]
    return rounded[0] if all(value == rounded[0] for value in rounded) else rounded


def digits(value: float | None) -> float | None:
    """Four digits; None where it is no number."""
    return None if value is None or not math.isfinite(value) else float(f"{value:.4g}")


def short(text: str, most: int) -> str:
    """The text, cut to `most` characters."""
    return text if len(text) <= most else text[: most - 1] + "…"


def least_size(episode: Row) -> int:
    """Characters that an episode whose turns are all new takes at least: a text and a comma per decision."""
    return sum(3 * int(turn.get("length") or 0) for turn in episode.get("turns", ()))


def size(data: Any) -> int:
    """Characters that data takes in a page."""
    return len(json.dumps(data, separators=(",", ":")))


def _action(action: Any) -> str:
    if isinstance(action, list):
        return "(" + ", ".join(_action(part) for part in action) + ")"
    return f"{action:.2f}" if isinstance(action, float) else str(action)
