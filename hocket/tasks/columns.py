"""Columns of data by hocket's names: renamed by settings, read by a preset, and a prompt from a template."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hocket.core.errors import ConfigurationError
from hocket.tasks.presets import LeftOut, Preset, preset_named
from hocket.tasks.tables import Record

NAMES = (
    "prompt",
    "answer",
    "completion",
    "messages",
    "chosen",
    "rejected",
    "label",
    "responses",
    "scores",
    "steps",
    "labels",
    "demonstration",
    "tools",
    "weight",
    "margin",
    "target",
    "image",
    "images",
    "audio",
    "audios",
)
"""Columns that hocket reads, as settings of a data task: `prompt=question` reads the column `question` as prompt."""

_FIELD = re.compile(r"\{([A-Za-z_]\w*)\}")


@dataclass(frozen=True)
class Columns:
    """How the rows of a data set become rows with hocket's columns: renamed, then by the preset, then the template.

    Attributes:
        names: the column to read for each name; `a.b` is the field `b` of the column `a`.
        preset: how a well-known set is read. template: the prompt's text; columns in braces are filled in.
    """

    names: Mapping[str, str] = field(default_factory=dict)
    preset: Preset | None = None
    template: str | None = None

    @property
    def changes(self) -> bool:
        """Whether rows are changed at all."""
        return bool(self.names) or self.preset is not None or self.template is not None

    def over(self, records: Sequence[Record], name: str) -> tuple[list[Record], list[str]]:
        """The rows that can be used, and in sentences how many cannot.

        Raises:
            ConfigurationError: for a column that a row lacks, and when the preset leaves out every row.
        """
        if not self.changes:
            return list(records), []
        self._check(records, name)
        made, left_out = [], Counter[str]()
        for record in records:
            try:
                made.append(replace(record, cells=self._row(record)))
            except LeftOut as reason:
                left_out[str(reason)] += 1
        reasons = ", ".join(f"{reason} ({count})" for reason, count in left_out.most_common())
        which = "" if self.preset is None else f"preset {self.preset.name}"
        if left_out and not made:
            raise ConfigurationError(f"{name}: {which} can use none of {len(records)} rows: {reasons}; choose another")
        if not left_out:
            return made, []
        return made, [f"{name}: {which} leaves out {left_out.total()} of {len(records)} rows: {reasons}"]

    def _check(self, records: Sequence[Record], name: str) -> None:
        """Refuses columns that no row has."""
        columns = dict.fromkeys(column for record in records for column in record.cells)
        have = f"its columns are {', '.join(column for column in columns if column != 'split') or 'none'}"
        for target, column in self.names.items():
            if column not in columns and column.split(".")[0] not in columns:
                raise ConfigurationError(f"{name}: {target}={column} names a column that no row has; {have}")
        missing = None if self.preset is None else self.preset.missing({*columns, *self.names})
        if self.preset is not None and missing is not None:
            first, words = missing.split("|")[0], missing.replace("|", " or ")
            raise ConfigurationError(
                f"{name}: preset {self.preset.name} reads the column {words}, which no row has; {have}; name it "
                f"({first}=COLUMN), or choose another preset"
            )

    def _row(self, record: Record) -> dict[str, Any]:
        cells: dict[str, Any] = {
            column: cell
            for column, cell in record.cells.items()
            if column not in self.names and column not in self.names.values()
        }
        cells |= {name: cell for name, column in self.names.items() if (cell := _cell(record, column)) is not None}
        if self.preset is not None:
            cells = self.preset.converted(cells)
        template = self.template or (None if self.preset is None else self.preset.template)
        return cells if template is None else {**cells, "prompt": _filled(template, cells, record.where)}


def columns_of(settings: Mapping[str, Any], preset: Preset | None = None) -> tuple[Columns, dict[str, Any]]:
    """How rows are read by `settings`, and the settings of other things.

    `preset` is the one that the set has by its address; the setting `preset` replaces it, `none` by nothing.

    Raises:
        ConfigurationError: for a preset that there is not.
    """
    others = dict(settings)
    named = others.pop("preset", None)
    if named is not None:
        preset = None if named == "none" else preset_named(str(named))
    readable = {*NAMES, *(() if preset is None else preset.names)}
    names = {name: str(others.pop(name)) for name in list(others) if name in readable}
    return Columns(names, preset, others.pop("template", None)), others


def _cell(record: Record, column: str) -> Any:
    """The cell of a column, or of a field in one; None without it."""
    if column in record.cells:
        return record.cells[column]
    value: Any = record.cells
    for part in column.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def _filled(template: str, cells: Mapping[str, Any], where: str) -> str:
    """The template with the cells of the columns that it names in braces. Other braces stay."""
    for name in _FIELD.findall(template):
        if cells.get(name) is None:
            raise ConfigurationError(
                f"{where}: the template names the column {name!r}, which the row lacks; it has {', '.join(cells)}"
            )
        if name == "prompt" and not isinstance(cells[name], str):
            raise ConfigurationError(
                f"{where}: the prompt is a list of messages, which a template cannot hold; drop it"
            )
    return _FIELD.sub(lambda found: _text(cells[found[1]]), template)


def _text(cell: Any) -> str:
    return ", ".join(map(str, cell)) if isinstance(cell, list) else str(cell)
