"""Data as a task: files of examples and rows from Python, one data set or several mixed by weight."""

from __future__ import annotations

import copy
import dataclasses
import functools
import hashlib
import itertools
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from hocket.agents.workflows.fitting import Fit, Truncate
from hocket.core.batch import Level
from hocket.core.errors import ConfigurationError, nearest
from hocket.core.examples import Example
from hocket.core.keys import Key
from hocket.core.options import checked
from hocket.rewards.verifiers import ExactMatch, Extraction, TaskVerifier
from hocket.stages import Reward, Split
from hocket.tasks.arithmetic import has_working
from hocket.tasks.columns import NAMES, columns_of
from hocket.tasks.examples import NEUTRAL, SPLIT_NAMES, ExampleRow, checked_rows
from hocket.tasks.form import TaskForm
from hocket.tasks.presets import Preset
from hocket.tasks.tables import SUFFIXES, Record, read_table, table_of
from hocket.tasks.text import INSTRUCTION, TextTask, check_number, checked_extraction
from hocket.types import Message, Scenario, Trajectory

BLOCK = 1000
"""Of so many consecutive scenarios of a mixture each data set has its share exactly."""


@dataclass(frozen=True)
class Source:
    """A data set: its name, its rows as they were written, and its weight in a mixture."""

    name: str
    records: Sequence[Record]
    weight: float = 1.0


class Data(TextTask):
    """Examples of one data set, or of several mixed by weight.

    A row has a `prompt` (text, or chat messages), optionally an `answer` (text, number, boolean, or a list of
    accepted ones) and a `split` (train or eval), and responses to it: see `hocket.core.examples.Example` and
    docs/data.md. Every other column is passed on to reward functions. All rows are checked here, before anything is
    computed.

    Rows that do not say their split are divided by the hash of their prompt, `eval_share` of them for evaluation and
    at least one, so rows added later do not move others. A prompt in evaluation is never trained on, whichever data
    set it is in: its other rows are left out.

    A mixture is endless: of any `BLOCK` scenarios that begin a block, each data set has its share, in an order drawn
    from the block's number; its own rows come once per pass, in an order drawn from the pass. Its evaluation has all
    unseen rows, spread evenly.

    With `eval_share=1` the data is only evaluated on: all rows, or those for evaluation where a row states its split.

    Attributes:
        name: of the task. sources: the data sets.
        eval_share: of the prompts without a `split`.
        extract: what counts as the answer of a completion: `answer-tag`, `last-line` or `number`.
        instruct: asks for the answer's tags in a system message.
        fit: what becomes of examples that are longer than the model's context.
        example: what every row holds. left_out: lines that are not used, because their prompt is in evaluation.
        verifier: judges responses instead of a comparison with the answer.

    Raises:
        ConfigurationError: naming the place and the column, for data that cannot be used.
    """

    def __init__(
        self,
        sources: Sequence[Source],
        name: str | None = None,
        *,
        eval_share: float = 0.1,
        extract: Extraction = "answer-tag",
        instruct: bool = False,
        truncate: Truncate = "refuse",
        max_length: int | None = None,
        verifier: Callable[[str, Scenario], float] | None = None,
    ) -> None:
        self.name = name or ",".join(source.name for source in sources)
        if not 0 < eval_share <= 1:
            raise ConfigurationError(f"task {self.name}: eval_share must be above 0 and at most 1, not {eval_share}")
        held_out = eval_share == 1
        self.extract = checked_extraction(self.name, extract)
        try:
            self.fit = Fit(truncate, max_length)
        except ValueError as error:
            raise ConfigurationError(f"task {self.name}: {error}") from None
        self.sources, self.instruct = tuple(sources), instruct
        rows = [row for number, source in enumerate(sources) for row in checked_rows(source.records, number)]
        self.example = _common(rows)
        usual = NEUTRAL if self.example in (Example.PAIR, Example.LABELLED) else {}
        self._columns = {name: usual.get(name) for row in rows for name in row.columns}
        self._rows, self.left_out = divided(rows, eval_share, self.name)
        if self.example is Example.LABELLED and not held_out:
            _check_labels(self._rows["train"], self.name)
        self._match, self.verifier = ExactMatch(extract=extract), verifier
        self._answered = any(row.answer is not None for row in rows)
        self._mixture = None
        if len(sources) > 1:
            self._mixture = None if held_out else Mixture.of(sources, self._rows["train"])
            self._rows["eval"] = _spread(self._rows["eval"])
        self._stems = _stems([source.name for source in sources])

    def contents(self, split: Split) -> frozenset[str]:
        """The prompts of a split, by which two rows are the same problem."""
        return frozenset(row.content for row in self._rows[split])

    def without(self, contents: Collection[str]) -> Data:
        """The same data without training rows whose prompt is among `contents`.

        Raises:
            ConfigurationError: when no row would be left.
        """
        rows = [row for row in self._rows["train"] if row.content not in contents]
        dropped = len(self._rows["train"]) - len(rows)
        if not dropped:
            return self
        if not rows:
            raise ConfigurationError(f"all {dropped} rows of {self.name} to train on are in the data to evaluate on")
        other = copy.copy(self)
        other._rows = {**self._rows, "train": rows}
        other._mixture = None if self._mixture is None else Mixture.of(self.sources, rows)
        sentence = f"{self.name}: {dropped} rows whose prompt is in the data to evaluate on are not trained on"
        other.remarks = (*self.remarks, sentence)
        return other

    def size(self, split: Split) -> int | None:
        return None if self._mixture is not None and split == "train" else len(self._rows[split])

    def scenario(self, split: Split, number: int) -> Scenario:
        if split == "train" and not self._rows["train"]:
            raise ConfigurationError(
                f"task {self.name} has only rows to evaluate on; name it with --eval-task, or measure by hocket eval"
            )
        check_number(self.name, split, number, self.size(split) if split in self._rows else 0)
        if self._mixture is not None and split == "train":
            return self._scenario(self._mixture.row(number))
        return self._scenario(self._rows[split][number])

    def examples(self) -> Iterator[tuple[str, Scenario]]:
        """Every row to train on, once: its place in words, and its scenario."""
        for row in self._rows["train"]:
            yield row.where, self._scenario(row)

    def every_row(self) -> Iterator[tuple[str, Callable[[], Scenario]]]:
        """Every row that is used, those of evaluation first: its place in words, and what makes its scenario."""
        for row in (*self._rows["eval"], *self._rows["train"]):
            yield row.where, functools.partial(self._scenario, row)

    def _scenario(self, row: ExampleRow) -> Scenario:
        cells = {
            name: usual if row.columns.get(name) is None else row.columns[name] for name, usual in self._columns.items()
        }
        return Scenario(
            id=f"{self._stems[row.source]}:{row.line}",
            prompt=self._prompt(row),
            answer=row.answer,
            metadata=cells,
            seed=row.line,
        )

    def _prompt(self, row: ExampleRow) -> str | tuple[Message, ...]:
        if not self.instruct:
            return row.prompt
        messages = ({"role": "user", "content": row.prompt},) if isinstance(row.prompt, str) else row.prompt
        if messages[0]["role"] != "system":
            return ({"role": "system", "content": INSTRUCTION}, *messages)
        return ({**messages[0], "content": f"{messages[0]['content']}\n{INSTRUCTION}"}, *messages[1:])

    @property
    def rewards(self) -> Sequence[Reward]:
        """The verifier or comparison with the answers; none for data without any, which needs a reward of yours."""
        if self.verifier is not None:
            return (TaskVerifier(self.verifier),)
        return (self._match,) if self._answered else ()

    def verify(self, text: str, scenario: Scenario) -> float | None:
        return self._match.verify(text, scenario) if self.verifier is None else self.verifier(text, scenario)

    def describe(self, trajectory: Trajectory) -> Mapping[str, float]:
        """`format`: whether there is anything to compare with an answer; `working`: a filled `<think>` block.

        Nothing of pictures, which have no words.
        """
        if trajectory.final_state is not None:
            return {}
        has_answer = self._match.extracted(trajectory.text) is not None
        return {"format": float(has_answer), "working": float(has_working(trajectory.text))}

    def success(self, trajectory: Trajectory) -> float:
        """1 for the right answer, 0 for another; without a known answer the mean score, brought into [0, 1]."""
        if trajectory.scenario.answer is not None or self.verifier is not None:
            return super().success(trajectory)
        scored = [score.value for score in trajectory.scores.values() if score.level is Level.TRAJECTORY]
        values = [min(max(float(value), 0.0), 1.0) for value in scored if isinstance(value, (int, float))]
        return sum(values) / len(values) if values else math.nan


# ---------------------------------------------------------------- dividing


def divided(
    rows: Sequence[ExampleRow], eval_share: float, name: object
) -> tuple[dict[Split, list[ExampleRow]], list[int]]:
    """The rows of each split in the file's order, and the lines left out.

    A prompt is in evaluation if any of its rows says so, else in training if one says so, else by its hash.
    Evaluation has each prompt once. With the share 1 nothing is for training.
    """
    if eval_share == 1:
        return _held_out(rows)
    splits: dict[str, Split | None] = {}
    for row in rows:
        if splits.get(row.content) != "eval":
            splits[row.content] = row.split or splits.get(row.content)
    places = _placed(splits, eval_share, name)
    split_rows: dict[Split, list[ExampleRow]] = {"train": [], "eval": []}
    left_out, evaluated = [], set[str]()
    for row in rows:
        split = places[row.content]
        if split == "eval" and (row.content in evaluated or row.split == "train"):
            left_out.append(row.line)
            continue
        evaluated.add(row.content)
        split_rows[split].append(row)
    return split_rows, left_out


def _held_out(rows: Sequence[ExampleRow]) -> tuple[dict[Split, list[ExampleRow]], list[int]]:
    """Rows that are only evaluated on, each prompt once: those for evaluation where a row says so, else all."""
    stated = [row for row in rows if row.split == "eval"] or rows
    first = {row.content: row for row in reversed(stated)}
    used = {id(row) for row in first.values()}
    return (
        {"train": [], "eval": [row for row in stated if id(row) in used]},
        [row.line for row in rows if id(row) not in used],
    )


def _placed(splits: Mapping[str, Split | None], eval_share: float, name: object) -> dict[str, Split]:
    """Every distinct prompt's split, with at least one prompt in each."""
    free = sorted((content for content, split in splits.items() if split is None), key=_rank)
    chosen = {content for content in free if _rank(content) < eval_share}
    named = set(splits.values())
    if free and not chosen and "eval" not in named:
        chosen = {free[0]}
    if len(chosen) == len(free) > 0 and "train" not in named:
        chosen.discard(free[-1])
    placed: dict[str, Split] = {
        content: split or ("eval" if content in chosen else "train") for content, split in splits.items()
    }
    for split in ("train", "eval"):
        if split not in placed.values():
            raise ConfigurationError(
                f"{name} has {len(splits)} distinct prompt{'s' * (len(splits) != 1)} and none for {split}; training "
                "and evaluation need one each, so add rows or change the column split"
            )
    return placed


def _rank(content: str) -> float:
    """A fixed pseudo-random place of a prompt in [0, 1)."""
    digest = hashlib.blake2b(content.encode("utf-8", "surrogatepass"), digest_size=8, person=b"hocket-jsonl").digest()
    return int.from_bytes(digest, "big") / 2**64


def _common(rows: Sequence[ExampleRow]) -> Example:
    """What all rows hold. A prompt with an answer can be imitated, so it goes with demonstrations."""
    examples = {row.example for row in rows}
    if examples == {Example.PROMPT, Example.DEMONSTRATION}:
        return Example.PROMPT
    if len(examples) > 1:
        first = rows[0]
        other = next(row for row in rows if row.example is not first.example)
        raise ConfigurationError(
            f"{other.where}: the row has {other.form} where {first.where} has {first.form}; mix data of one form"
        )
    return examples.pop()


def _check_labels(rows: Sequence[ExampleRow], name: str) -> None:
    labels = {bool(row.columns["label"]) for row in rows}
    if len(labels) == 1:
        only = str(labels.pop()).lower()
        raise ConfigurationError(
            f"{name}: label is {only} in all {len(rows)} rows to train on, so there is nothing to tell apart; add rows "
            "of the other label, or learn from the good ones alone by a column completion without label"
        )


# ---------------------------------------------------------------- mixing


@dataclass(frozen=True)
class Mixture:
    """Rows of several data sets in an endless order, in which any number can be asked for at once.

    Attributes:
        rows: of each data set. counts: of a block, how many are from each.
    """

    rows: tuple[tuple[ExampleRow, ...], ...]
    counts: tuple[int, ...]

    @classmethod
    def of(cls, sources: Sequence[Source], rows: Sequence[ExampleRow]) -> Mixture:
        """Shares by the largest remainder, at least one each.

        Raises:
            ConfigurationError: for a weight that is no share, and a data set with nothing to train on.
        """
        by_source = tuple(tuple(row for row in rows if row.source == number) for number in range(len(sources)))
        for source, part in zip(sources, by_source, strict=True):
            if not part:
                raise ConfigurationError(f"{source.name} has no rows to train on, so it cannot be mixed; drop it")
            if not (math.isfinite(source.weight) and source.weight > 0):
                raise ConfigurationError(f"{source.name} has the weight {source.weight}; write a number above 0")
        total = math.fsum(source.weight for source in sources)
        exact = [BLOCK * source.weight / total for source in sources]
        counts = [max(1, math.floor(share)) for share in exact]
        by_remainder = sorted(range(len(sources)), key=lambda i: counts[i] - exact[i])
        for place in range(BLOCK - sum(counts)):
            counts[by_remainder[place % len(sources)]] += 1
        return cls(by_source, tuple(counts))

    def row(self, number: int) -> ExampleRow:
        """The row that scenario `number` is."""
        block, place = divmod(number, sum(self.counts))
        order, earlier = _block(self.counts, block)
        source = int(order[place])
        index = block * self.counts[source] + int(earlier[place])
        epoch, at = divmod(index, len(self.rows[source]))
        return self.rows[source][int(_pass(source, epoch, len(self.rows[source]))[at])]


@functools.lru_cache(maxsize=64)
def _block(counts: tuple[int, ...], block: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The data set of each scenario of a block, and how many of the same came before it in the block."""
    order = np.repeat(np.arange(len(counts)), counts)
    order = Key.of(0).derive("mixture", block).numpy().permutation(order)
    earlier = np.zeros(len(order), np.int64)
    for source in range(len(counts)):
        earlier[order == source] = np.arange(counts[source])
    return order, earlier


@functools.lru_cache(maxsize=64)
def _pass(source: int, epoch: int, size: int) -> NDArray[np.int64]:
    return Key.of(0).derive("mixture", "pass", source, epoch).numpy().permutation(size)


def _spread(rows: Sequence[ExampleRow]) -> list[ExampleRow]:
    """Rows of several data sets, each spread evenly, so that a beginning has all in proportion."""
    sizes: dict[int, int] = {}
    places = []
    for row in rows:
        places.append(sizes.get(row.source, 0))
        sizes[row.source] = places[-1] + 1
    order = sorted(range(len(rows)), key=lambda i: ((places[i] + 0.5) / sizes[rows[i].source], rows[i].source))
    return [rows[i] for i in order]


def _stems(names: Sequence[str]) -> list[str]:
    """What scenarios of each data set are called after: the file's name, whole paths where two are alike."""
    stems = [Path(name).stem for name in names]
    return stems if len(set(stems)) == len(stems) else list(names)


# ---------------------------------------------------------------- making


def from_rows(rows: Any, name: str = "data", **settings: Any) -> Data:
    """The task of rows from Python: an iterable of mappings, or one per split by its name, as in a `DatasetDict`.

    Args:
        rows: see above; a `datasets.Dataset` is such an iterable, and so is a DataFrame. An iterator is read once.
        name: of the task, and in messages: `data[2]` is the third row.
        settings: of `Data`, and as in a task's name the columns to read (`prompt="question"`), `preset` and `template`.

    Raises:
        ConfigurationError: as `Data`.
    """
    if not isinstance(rows, Mapping):
        records = table_of(_iterable(rows, name), name)
        remark = f"{name}: the iterator was read once, {len(records)} rows, and kept"
        return data_of([Source(name, records)], name, settings, [remark] if isinstance(rows, Iterator) else [])
    records = []
    for split, part in rows.items():
        if split not in SPLIT_NAMES:
            table = "; a dict of columns goes in as pandas.DataFrame(columns)" * ("prompt" in rows)
            hint = table or nearest(str(split), SPLIT_NAMES)
            raise ConfigurationError(f"{name}: the split {split!r} is unknown{hint}")
        parsed = table_of(_iterable(part, f"{name}[{split!r}]"), f"{name}[{split!r}]")
        stated = [str(row.cells.get("split", split)).lower() for row in parsed]
        other = next(
            (row for row, word in zip(parsed, stated, strict=True) if SPLIT_NAMES.get(word) != SPLIT_NAMES[split]),
            None,
        )
        if other is not None:
            raise ConfigurationError(
                f"{other.where}: split = {other.cells['split']!r} in the rows of {split!r}; rename or drop the column"
            )
        records += [
            Record(len(records) + place, row.where, {**row.cells, "split": split}) for place, row in enumerate(parsed)
        ]
    return data_of([Source(name, records)], name, settings)


def data_of(
    sources: Sequence[Source],
    name: str,
    settings: Mapping[str, Any],
    remarks: Sequence[str] = (),
    preset: Preset | None = None,
) -> Data:
    """The task of data sets whose columns are read as `settings` say; the rest of them are those of `Data`.

    Args:
        preset: how the data is read unless the settings say otherwise.

    Raises:
        ConfigurationError: as `Data`, and for columns that no row has.
    """
    columns, others = columns_of(settings, preset)
    sentences = list(remarks)
    made = []
    for source in sources:
        records, remarks_of_source = columns.over(source.records, source.name)
        sentences += remarks_of_source
        made.append(dataclasses.replace(source, records=records))
    if columns.preset is not None:
        others.setdefault("extract", columns.preset.extract)
        # Answers may be compared in another way; a set without answers has its verifier alone.
        if "extract" not in settings or "answer" not in columns.preset.columns:
            others["verifier"] = columns.preset.verify
    data = Data(made, name, **others)
    data.remarks = tuple(sentences)
    return data


def is_rows(value: Any) -> bool:
    """Whether something from Python is rows of data, or rows by split."""
    return isinstance(value, Iterable) and not isinstance(value, (str, bytes, type))


MOST_ROWS = 1_000_000
"""How many rows an iterator may give, which does not state how many it has."""


def _iterable(rows: Any, name: str) -> Iterable[Any]:
    """The rows of a table, or of what iterates over rows."""
    if hasattr(rows, "to_dict") and hasattr(rows, "columns"):  # A DataFrame of pandas, in which NaN is no value.
        rows = rows.astype(object).where(rows.notna(), None).to_dict("records")
    for convert in ("to_dicts", "to_pylist"):  # A DataFrame of polars, a table of pyarrow.
        rows = getattr(rows, convert)() if hasattr(rows, convert) else rows
    if not is_rows(rows):
        raise ConfigurationError(
            f"{name} is of type {type(rows).__name__}; give an iterable of mappings, a DataFrame, or a dict of these "
            "by split"
        )
    if not isinstance(rows, Iterator):
        return cast("Iterable[Any]", rows)
    taken = list(itertools.islice(rows, MOST_ROWS + 1))
    if len(taken) > MOST_ROWS:
        raise ConfigurationError(
            f"{name} has given {MOST_ROWS:,} rows and gives more; end it, as itertools.islice does, or write a task "
            "that makes scenarios by number (hocket.tasks.text.TextTask)"
        )
    return taken


_SETTINGS = {
    "eval_share": float,
    "extract": str,
    "instruct": bool,
    "truncate": str,
    "max_length": int,
}


def checked_settings(
    name: str, settings: Mapping[str, str], preset: Preset | None = None, **more: Any
) -> dict[str, Any]:
    """The settings in a data task's name by their types: those of `Data`, columns, `preset`, `template` and `more`.

    `preset` is the one that the set has by its address.
    """
    columns, _ = columns_of(settings, preset)
    text = dict.fromkeys((*NAMES, *(columns.preset.names if columns.preset else ())), str)
    return checked(name, settings, {**_SETTINGS, **text, "preset": str, "template": str, **more})


def from_settings(path: str, settings: Mapping[str, str], held_out: bool = False) -> Data:
    """The task of a file, or of several joined by commas, each with `=WEIGHT` behind its name where not 1."""
    options = checked_settings(path, settings) | ({"eval_share": 1.0} if held_out else {})
    names = columns_of(settings)[0].names
    if "," not in path or Path(path).exists():
        return data_of([Source(path, read_table(Path(path), names))], path, options)
    sources = []
    for part in path.split(","):
        file, equals, weight = part.strip().rpartition("=")
        if not equals or weight.endswith(SUFFIXES):
            file, weight = part.strip(), "1"
        try:
            share = float(weight)
        except ValueError:
            raise ConfigurationError(
                f"task {path}: the weight of {file} is {weight!r}; write A.jsonl=0.7,B.jsonl=0.3"
            ) from None
        if not file.endswith(SUFFIXES):
            raise ConfigurationError(
                f"task {path}: {file or part!r} is no data file; it must end in .jsonl, .csv or .parquet"
            )
        sources.append(Source(file, read_table(Path(file), names), share))
    return data_of(sources, path, options)


JSONL = TaskForm(
    name="PATH.jsonl",
    description="a file with one JSON object per line: prompt, and optionally answer, split and other columns",
    family="data",
    make=from_settings,
    held_out=functools.partial(from_settings, held_out=True),
)
CSV = TaskForm(
    name="PATH.csv",
    description="the same columns as comma-separated values; messages and lists are written as JSON",
    family="data",
    make=from_settings,
    held_out=functools.partial(from_settings, held_out=True),
)
PARQUET = TaskForm(
    name="PATH.parquet",
    description="the same columns as a parquet file",
    family="data",
    make=from_settings,
    held_out=functools.partial(from_settings, held_out=True),
)
MIXTURE = TaskForm(
    name="PATH=WEIGHT,PATH=WEIGHT",
    description="several data files mixed by weight, e.g. a.jsonl=0.7,b.csv=0.3",
    family="data",
    make=from_settings,
    held_out=functools.partial(from_settings, held_out=True),
)
