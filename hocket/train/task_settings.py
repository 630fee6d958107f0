"""Settings of the task that stand beside its name: `eval_task`, and `columns.NAME`, which go into the name."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from hocket.train.config import Pairs, task_of
from hocket.train.known_names import COLUMNS, EVAL_TASK


def with_task_settings(pairs: Pairs) -> list[tuple[str, Any]]:
    """The pairs, with `--eval-task B` and `--columns.prompt C` in the task's name: `A?eval_task=B&prompt=C`.

    So whatever names the run's task, such as a resumed run or another process, names these as well.
    """
    added = {key: str(value) for key, value in pairs if key == EVAL_TASK or key.startswith(COLUMNS)}
    if not added:
        return list(pairs)
    name = task_of(pairs)
    for key, value in added.items():
        mark = "&" if "?" in name else "?"
        name += f"{mark}{key.removeprefix(COLUMNS)}={quote(value, safe='/:.,-_[]')}"
    return [*((key, value) for key, value in pairs if key not in added and key != "task"), ("task", name)]
