"""reasoning-gym's generated datasets as tasks. Importing this module does not import reasoning-gym, which is slow."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import importlib.util
import json
import math
import typing
import warnings
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from hocket.core.components import leaf
from hocket.core.errors import ConfigurationError, nearest
from hocket.core.keys import Key
from hocket.core.options import checked
from hocket.stages import Split
from hocket.tasks.form import TaskForm
from hocket.tasks.reasoning_guards import PARTIAL, REFUSED, item, prepare, score
from hocket.tasks.split import normalise, split_of
from hocket.tasks.text import TextTask, check_number, checked_extraction, instructed
from hocket.types import Scenario

DEFAULTS: dict[str, dict[str, Any]] = {
    "chain_sum": {"min_terms": 3, "max_terms": 3, "min_digits": 1, "max_digits": 3},
}
"""Where hocket's defaults differ from reasoning-gym's: three terms of one to three digits, as the nano base knows."""

_ATTEMPTS = 300
"""Draws before a dataset counts as having no problem of the wanted split; the rarest split is one draw in five."""
_FRUITLESS = 1500
"""Draws in a row that bring no new evaluation problem before a dataset counts as exhausted."""
_KEPT = 4096
"""Problems kept for verification; others are generated again."""
_LONGEST_ANSWER = 10_000


class ReasoningGym(TextTask):
    """The dataset `dataset` of reasoning-gym, verified by its own `score_answer` on the last `<answer>..</answer>`.

    Settings are those of the dataset's configuration, as text, and four more: `level` applies its curriculum's
    attributes at that level before the other settings, `instruct` asks for the answer's tags in a system message,
    `extract` judges a model that writes none by its last line or its last number (`last-line`, `number`), and `strict`
    pays 1 for a full score and nothing for less. Where the verifier pays for what is wrong, or would never end, its
    score is corrected (`hocket.tasks.reasoning_guards`, docs/reasoning-gym.md).
    A problem's split follows from its question (`hocket.tasks.split`); evaluation problems are all distinct.

    Raises:
        ConfigurationError: without reasoning-gym, or for an unknown dataset or setting or a wrong value; and later,
            if a dataset holds too few problems.
    """

    def __init__(self, dataset: str, settings: Mapping[str, str] | None = None) -> None:
        options = dict(settings or {})
        query = "&".join(f"{key}={text}" for key, text in options.items())
        self.dataset = dataset
        self.name = f"reasoning-gym:{dataset}" + (f"?{query}" if query else "")
        cls, config_class = _classes(dataset)
        self.instruct: bool = leaf(_json(options.pop("instruct", "false")), bool, f"task {self.name}: instruct")
        self.strict: bool = leaf(_json(options.pop("strict", "false")), bool, f"task {self.name}: strict")
        self.extract = checked_extraction(self.name, options.pop("extract", "answer-tag"))
        self._data = _built(cls, configured(dataset, config_class, options), self.name)
        prepare(dataset, self._data)
        if dataset in PARTIAL and not self.strict:
            most, what = PARTIAL[dataset]
            words = f"pays up to {most} for {what}; its setting strict=true pays for right answers alone"
            self.remarks = (f"task {self.name} {words}",)
        self._key = Key.of(0).derive("reasoning-gym", dataset)
        self._items: OrderedDict[int, dict[str, Any]] = OrderedDict()
        self._eval: list[int] = []
        self._unseen = self._evaluation()

    @property
    def config(self) -> Any:
        """The dataset's configuration."""
        return self._data.config

    def scenario(self, split: Split, number: int) -> Scenario:
        check_number(self.name, split, number)
        if split == "eval":
            index = self._unseen_index(number)
        else:
            index = self._train(number)
        entry = self._entry(index)
        metadata = {key: value for key, value in entry["metadata"].items() if _is_plain(value)}
        return Scenario(
            id=f"{self.dataset}/{split}/{number}",
            prompt=instructed(entry["question"], self.instruct),
            answer=entry["answer"],
            metadata={**metadata, "index": index},
            seed=number,
        )

    def verify(self, text: str, scenario: Scenario) -> float:
        """The dataset's score in [0, 1]; 0 without an answer, or where its verifier raises or does not end."""
        answer = self.extracted(text)
        if answer is None or len(answer) > _LONGEST_ANSWER:
            return 0.0
        entry = self._entry(int(scenario.metadata["index"]))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                value = score(self.dataset, self._data, answer.strip(), entry)
        except (Exception, SystemExit):  # verifiers trip over answers of a shape they did not expect
            return 0.0
        if self.strict:
            return float(value >= 1.0)
        return min(max(value, 0.0), 1.0) if math.isfinite(value) else 0.0

    # ------------------------------------------------------------ problems

    def _entry(self, index: int) -> dict[str, Any]:
        if index in self._items:
            self._items.move_to_end(index)
        else:
            self._items[index] = item(self._data, index)
            if len(self._items) > _KEPT:
                self._items.popitem(last=False)
        return self._items[index]

    def _candidates(self, key: Key) -> Iterator[tuple[int, str]]:
        """Index and question of random problems of any split, those left out that cannot be generated."""
        for attempt in range(2**31):
            index = key.derive(attempt).word % 2**31
            try:
                yield index, self._entry(index)["question"]
            except Exception as error:
                if attempt >= _ATTEMPTS and not self._items:
                    raise ConfigurationError(
                        f"task {self.name} cannot generate a problem: {type(error).__name__}: {error}"
                    ) from error

    def _train(self, number: int) -> int:
        for attempt, (index, question) in enumerate(self._candidates(self._key.derive("train", number))):
            if split_of(question) == "train":
                return index
            if attempt >= _ATTEMPTS:
                break
        raise ConfigurationError(f"task {self.name} has too few problems to train on; widen its settings")

    def _unseen_index(self, number: int) -> int:
        while len(self._eval) <= number:
            index = next(self._unseen, None)
            if index is None:
                raise ConfigurationError(
                    f"task {self.name} has only {len(self._eval)} evaluation problems; set eval.n to at most that, or "
                    "widen its settings"
                )
            self._eval.append(index)
        return self._eval[number]

    def _evaluation(self) -> Iterator[int]:
        """Indices of distinct evaluation problems, until draws bring nothing new."""
        taken: set[str] = set()
        fruitless = 0
        for index, question in self._candidates(self._key.derive("eval")):
            fruitless += 1
            if split_of(question) == "eval" and normalise(question) not in taken:
                taken.add(normalise(question))
                fruitless = 0
                yield index
            if fruitless >= _FRUITLESS:
                return


# ---------------------------------------------------------------- configuration


def configured(dataset: str, config_class: Any, settings: Mapping[str, str]) -> Any:
    """The dataset's configuration: its defaults or a level of its curriculum, then the settings.

    Raises:
        ConfigurationError: for unknown settings or values of the wrong type, naming them.
    """
    options = dict(settings)
    level = options.pop("level", None)
    base = {"seed": 0, **DEFAULTS.get(dataset, {})} if level is None else levelled(dataset, level)
    fields = {field.name: field for field in dataclasses.fields(config_class)}
    known = typing.get_type_hints(config_class)
    hints = {name: known[name] for name in fields}
    values = checked(
        f"reasoning-gym:{dataset}",
        options,
        {**hints, "level": int, "instruct": bool, "strict": bool},
        _defaults(config_class),
    )
    return config_class(**{**base, **values})


def levelled(dataset: str, level: str) -> dict[str, Any]:
    """The configuration's fields with every attribute of the dataset's curriculum at `level` (or its own highest)."""
    factory = _factory()
    if not factory.has_curriculum(dataset):
        raise ConfigurationError(f"task reasoning-gym:{dataset} has no curriculum; drop the setting level")
    number: int = leaf(_json(level), int, f"task reasoning-gym:{dataset}: level")
    curriculum = factory.create_curriculum(dataset)
    highest = max((len(attribute.levels) - 1 for attribute in curriculum.attributes.values()), default=0)
    if not 0 <= number <= highest:
        raise ConfigurationError(f"task reasoning-gym:{dataset}: level = {number}: it has the levels 0 to {highest}")
    curriculum.set_global_level(number)
    config = curriculum.generate_configuration({"seed": 0})
    return {field.name: getattr(config, field.name) for field in dataclasses.fields(config)}


def _defaults(config_class: Any) -> dict[str, Any]:
    defaults = {}
    for field in dataclasses.fields(config_class):
        if field.default is not dataclasses.MISSING:
            defaults[field.name] = field.default
        elif field.default_factory is not dataclasses.MISSING:
            defaults[field.name] = field.default_factory()
    return defaults


def _built(cls: Any, config: Any, name: str) -> Any:
    try:
        if hasattr(config, "validate"):
            config.validate()
        return cls(config=config)
    except Exception as error:
        words = " ".join(str(error).split()) or type(error).__name__
        raise ConfigurationError(f"task {name}: {words}") from error


# ---------------------------------------------------------------- the library


@functools.cache
def _factory() -> Any:
    try:
        return importlib.import_module("reasoning_gym.factory")
    except ImportError as error:
        raise ConfigurationError(
            f"reasoning-gym tasks need it installed ({error}): pip install 'hocket[tasks]'"
        ) from None


def _classes(dataset: str) -> tuple[Any, Any]:
    tables = _factory().DATASETS
    if dataset in REFUSED:
        raise ConfigurationError(f"task reasoning-gym:{dataset} is left out: {REFUSED[dataset]}")
    if dataset not in tables:
        hint = nearest(dataset, set(tables) - set(REFUSED))
        listed = "; `hocket tasks --all` lists them" if not hint.startswith("; did") else hint
        raise ConfigurationError(f"reasoning-gym has no dataset {dataset!r}{listed}")
    cls, config_class = tables[dataset]
    return cls, config_class


def datasets() -> dict[str, str]:
    """Every dataset that is a task, and what it is in a line. Imports reasoning-gym."""
    names = {}
    for name, (cls, _) in sorted(_factory().DATASETS.items()):
        if name not in REFUSED:
            lines = (cls.__doc__ or "").strip().splitlines()
            names[name] = lines[0].strip() if lines else name.replace("_", " ")
    return names


def dataset_files() -> list[str]:
    """Names of reasoning-gym's dataset files, most of which are names of datasets, seen without importing it."""
    spec = importlib.util.find_spec("reasoning_gym")
    root = Path(spec.origin).parent if spec and spec.origin else None
    return sorted(path.stem for path in root.glob("*/*.py") if path.stem != "__init__") if root else []


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _is_plain(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return all(_is_plain(item) for item in value)
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_plain(item) for key, item in value.items())
    return value is None or type(value) in (str, int, float, bool)


def from_settings(name: str, settings: Mapping[str, str]) -> ReasoningGym:
    """The task with these settings."""
    return ReasoningGym(name.removeprefix("reasoning-gym:"), settings)


DATASET = TaskForm(
    name="reasoning-gym:NAME",
    description="a generated dataset of reasoning-gym, e.g. reasoning-gym:chain_sum?max_terms=4",
    family="packages",
    make=from_settings,
)
