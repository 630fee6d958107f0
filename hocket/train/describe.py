"""Descriptions of trajectories that training provides to stages, as columns of `Batch.info`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hocket.core.columns import FEEDBACK, HISTORY, LABEL, METADATA, ORIGIN, PROMPT, TEXT, TOKEN_TEXTS, TRACE, Column
from hocket.rewards.judging import prompt_text
from hocket.stages import LedgerView, Player, Task
from hocket.types import Trajectory


def described(
    trajectories: Sequence[Trajectory], *, task: Task, player: Player, ledger: LedgerView, reads: frozenset[Column]
) -> dict[str, list[Any]]:
    """The columns by name; the text of single tokens only where it is among `reads`, since it costs time."""
    label: Callable[[Trajectory], str | None] | None = getattr(task, "label", None)
    columns: dict[Column, list[Any]] = {}
    if TOKEN_TEXTS in reads:
        columns[TOKEN_TEXTS] = token_texts_of(trajectories, getattr(player, "decode", None))
    columns |= {
        FEEDBACK: [{name: s.feedback for name, s in t.scores.items() if s.feedback} for t in trajectories],
        PROMPT: [prompt_text(trajectory.scenario) for trajectory in trajectories],
        TEXT: [trajectory.text for trajectory in trajectories],
        TRACE: ["\n".join(turn.text for turn in trajectory.turns if turn.text) for trajectory in trajectories],
        LABEL: [label(trajectory) if label else None for trajectory in trajectories],
        HISTORY: [{"rewards": list(ledger.history(t.scenario.id))} for t in trajectories],
        METADATA: [t.scenario.metadata for t in trajectories],
        ORIGIN: [t.scenario.origin for t in trajectories],
    }
    return {column.name: values for column, values in columns.items()}


def token_texts_of(
    trajectories: Sequence[Trajectory], decode: Callable[[Sequence[int]], str] | None
) -> list[list[str]]:
    """The text of every decision of each trajectory; empty texts for decisions that are no tokens."""
    known: dict[int, str] = {}
    rows = []
    for trajectory in trajectories:
        actions = [action for turn in trajectory.turns for action in turn.action.tolist()]
        if decode is None:
            rows.append([""] * len(actions))
            continue
        for token in set(actions) - known.keys():
            known[token] = decode([token])
        rows.append([known[token] for token in actions])
    return rows
