"""Names that are not settings of a run: those of other libraries, and last parts of dotted keys.

    resolved([("recipe", "dpo"), ("beta", 0.2)])     # [("recipe", "dpo"), ("objective.beta", 0.2)]

What means the same in the same unit is taken, and a notice says so. All else is refused, with what to write instead.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hocket.core.components import field_types, has_path, is_component, value_at
from hocket.core.errors import ConfigurationError, near_hint, near_names
from hocket.core.notices import say
from hocket.policies.settings import LoraSettings
from hocket.recipe import ROOMS, Recipe
from hocket.train.examples import replayed
from hocket.train.known_settings import KNOWN, KnownSetting
from hocket.train.settings import Config, as_recipe

Pairs = Sequence[tuple[str, Any]]

EVAL_TASK, COLUMNS = "eval_task", "columns."
"""The setting that names the task to evaluate on, and the beginning of those that name columns of data."""

OTHER_KEYS = ("recipe", "lag", "tools", "lessons", EVAL_TASK)
"""Keys of a run that are neither a field of `Config` nor a slot of a recipe."""


def resolved(pairs: Pairs, *, prefix: str = "") -> list[tuple[str, Any]]:
    """The pairs with the library's own keys.

    Args:
        prefix: `--` where keys are flags, for messages.

    Raises:
        ConfigurationError: for a name of another library that means something else here, a last part that several keys
            have, two names of one setting, and unknown names, with the nearest.
    """
    if all(_is_key(key) for key, _ in pairs):
        return list(pairs)
    names = _Names(_recipes(pairs), prefix)
    answers = [_Answer(((key, value),)) if _is_key(key) else names.answer(key, value) for key, value in pairs]
    _check_once(answers, [key for key, _ in pairs], prefix)
    places = {place for answer in answers for place, _ in answer.pairs}
    result: list[tuple[str, Any]] = []
    for (key, value), answer in zip(pairs, answers, strict=True):
        taken = [*answer.pairs, *((place, item) for place, item in answer.further if place not in places)]
        result += taken
        if not _is_key(key):
            written = " ".join(f"{prefix}{place} {as_text(item)}" for place, item in taken)
            note = f" ({answer.note})" if answer.note else ""
            say(f"{prefix}{key} {as_text(value)}: taken as {written}{note}")
    return result


def meaning(key: str) -> str:
    """What a name of another library is here, as the end of a message; empty for other names."""
    answers = {f"here {described(entry)}" for entry in _entries(key)}
    return f"; {'; '.join(sorted(answers))} (docs/known-flags.md)" if answers else ""


def settings_of(config: Config, *recipes: Recipe) -> dict[str, Any]:
    """Every single setting of a run with these recipes, by its dotted key; adapters' settings as if there were any."""
    fields = {**vars(config), "lora": config.lora or LoraSettings()}
    values = dict(_leaves({name: value for name, value in fields.items() if name not in ("recipe", "plan", "roles")}))
    for recipe in recipes:
        values |= dict(_leaves({slot: getattr(recipe, slot) for slot in ROOMS}))
    return values


def described(entry: KnownSetting) -> str:
    """What a setting of another library is here, whatever the recipe, in Markdown."""
    if entry.places:
        shown = " or ".join(f"`--{_shown(place)}`" for place in entry.places)
        also = "".join(f" and `--{_shown(place)}`" for place in entry.also)
        return f"{shown}{also}"
    return f"`{entry.instead.format(recipe='NAME', value='VALUE')}`" if entry.instead else "none"


def as_text(value: Any) -> str:
    """A value as it is typed."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, (list, tuple)):
        return f"[{','.join(map(as_text, value))}]"
    return type(value).__name__ if is_component(value) else str(value)


# ---------------------------------------------------------------- answers


@dataclass(frozen=True)
class _Answer:
    """What a name is here: settings, or why there is none.

    Attributes:
        pairs: keys and values. further: of keys that other settings may set. note: what to know.
        refusal: what to write instead, if nothing is taken. lacking: the recipe alone lacks the setting.
    """

    pairs: tuple[tuple[str, Any], ...] = ()
    further: tuple[tuple[str, Any], ...] = ()
    note: str = ""
    refusal: str = ""
    lacking: bool = False


@dataclass(frozen=True)
class _Names:
    """Names in a run with these recipes."""

    recipes: Sequence[Recipe]
    prefix: str
    paths: Mapping[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "paths", settings_of(Config(), *self.recipes))

    def answer(self, key: str, value: Any) -> _Answer:
        """What a key is here."""
        paths = [path for path in self.paths if path.rpartition(".")[2] == key.replace("-", "_")]
        paths = [path for path in paths if not path.startswith("tower.")] or paths  # `--lr` is the recipe's.
        entries = [entry for entry in _entries(key, by_end=not paths) if self._counts(entry)]
        if entries:
            # Of several entries of a library, the first is for the recipe.
            first: dict[str, KnownSetting] = {}
            for entry in entries:
                first.setdefault(entry.library, entry)
            return self._agreed(key, value, {library: self._of_entry(entry, value) for library, entry in first.items()})
        if len(paths) == 1:
            return _Answer(((paths[0], value),))
        if paths:
            listed = ", ".join(f"{self.prefix}{path}" for path in paths)
            raise ConfigurationError(f"{self.prefix}{key} is several settings of {self._named}: write one of {listed}")
        raise self._unknown(key)

    def _agreed(self, key: str, value: Any, answers: Mapping[str, _Answer]) -> _Answer:
        """The answer of all libraries that have a name, if they agree.

        Raises:
            ConfigurationError: with what each says, if they do not.
        """
        taken = [answer for answer in answers.values() if answer.pairs]
        if taken and all(answer.pairs == taken[0].pairs or answer.lacking for answer in answers.values()):
            return taken[0]
        by_text: dict[str, list[str]] = {}
        for library, answer in answers.items():
            written = " ".join(f"{self.prefix}{place} {as_text(item)}" for place, item in answer.pairs)
            by_text.setdefault(answer.refusal or f"here {written}", []).append(library)
        reasons = "; ".join(f"of {' or '.join(libraries)}, {text}" for text, libraries in by_text.items())
        raise ConfigurationError(f"{self.prefix}{key} {as_text(value)}: {reasons}")

    def _of_entry(self, entry: KnownSetting, value: Any) -> _Answer:
        text = "none" if value is None else as_text(value)
        words = {"recipe": self._named, "value": text}
        if text in entry.choices:
            return _Answer(refusal=f"here {entry.choices[text].format(**words)}")
        places = [path for place in entry.places for path in self._found(place)]
        if places:
            item = entry.values.get(text, value)
            item = entry.form.format(item) if entry.form != "{}" else item
            further = tuple((path, item) for place in entry.also for path in self._found(place))
            return _Answer(((places[0], item),), further, entry.note)
        why = f" ({entry.why.format(**words)})" if entry.why else ""
        if entry.instead:
            return _Answer(refusal=f"here {entry.instead.format(**words)}{why}", lacking=bool(entry.places))
        if entry.places:
            shown = " or ".join(f"{self.prefix}{_shown(place)}" for place in entry.places)
            return _Answer(refusal=f"here {shown}, which {self._named} lacks", lacking=True)
        return _Answer(refusal=f"none here: drop it{why}")

    def _counts(self, entry: KnownSetting) -> bool:
        """Whether a recipe has what an entry is only for."""
        if entry.only == "recorded":
            return any(replayed(recipe) is not None for recipe in self.recipes)
        stages = [type(stage).__name__ for recipe in self.recipes for stage in recipe.stages]
        return not entry.only or entry.only in stages

    def _found(self, place: str) -> Iterator[str]:
        """The dotted keys that a place stands for, as the first recipe with any has them."""
        slot, colon, rest = place.partition(":")
        if not colon:
            if place in self.paths or "." not in place or place.startswith(COLUMNS):
                yield place
            return
        classes, _, name = rest.partition(".")
        for recipe in self.recipes:
            paths = [
                f"{slot}.{number}.{name}"
                for number, stage in enumerate(getattr(recipe, slot))
                if classes == "*" or type(stage).__name__ in classes.split("|")
            ]
            if matching := [path for path in paths if has_path(recipe, path)]:
                yield from matching
                return

    @property
    def _named(self) -> str:
        return " and ".join(f"recipe {recipe.name}" for recipe in self.recipes)

    def _unknown(self, key: str) -> ConfigurationError:
        keys = {*_heads(), *self.paths, *(path.rpartition(".")[2] for path in self.paths)}
        others = {name for entry in KNOWN for name in entry.names if "." not in name}
        near = near_names(key, keys)
        # A misspelled name of another library, but no name that is only somewhat alike.
        near = [*difflib.get_close_matches(key, others - keys, n=1, cutoff=0.85), *near][:3]
        place = "`hocket train --list-flags` lists all settings, docs/known-flags.md names of other libraries"
        return ConfigurationError(f"there is no setting {key!r}{near_hint(near, place)}")


def _entries(key: str, *, by_end: bool = True) -> list[KnownSetting]:
    """The entries of a name; `by_end`: or the one that ends in it, as `actor.optim.lr` and `loss_agg_mode`."""
    name = key.replace("-", "_").lstrip("+")
    exact = [entry for entry in KNOWN if name in entry.names]
    if exact or not (by_end or "." in name):
        return exact
    ending = [entry for entry in KNOWN if any(known.endswith(f".{name}") for known in entry.names)]
    return ending if len(ending) == 1 else []


def _heads() -> set[str]:
    return {*field_types(Config), *ROOMS, *OTHER_KEYS}


def _is_key(key: str) -> bool:
    return key.split(".")[0] in _heads() or key.startswith(COLUMNS)


def _recipes(pairs: Pairs) -> list[Recipe]:
    """The recipe of a run, with the stages that the pairs set, or those of the phases of its plan."""
    settings = dict(pairs)
    plan = settings.get("plan")
    if isinstance(plan, Sequence) and not isinstance(plan, str):
        return [as_recipe(phase["recipe"]) for phase in plan if isinstance(phase, Mapping) and "recipe" in phase]
    recipe = as_recipe(settings.get("recipe", "grpo"))
    stages = {key: value for key, value in pairs if key in ROOMS and not isinstance(value, str)}
    try:
        return [recipe.but(stages)]
    except ConfigurationError:  # It is refused again, with all settings, when the run is configured.
        return [recipe]


def _leaves(parts: Mapping[str, Any], where: str = "") -> Iterator[tuple[str, Any]]:
    """Settings without settings of their own, by dotted path."""
    for name, value in parts.items():
        path = f"{where}{name}"
        if isinstance(value, tuple) and value and all(map(is_component, value)):
            yield from _leaves({str(number): member for number, member in enumerate(value)}, f"{path}.")
        elif is_component(value) and dataclasses.fields(value):
            below = {item.name: value_at(value, item.name) for item in dataclasses.fields(value) if item.init}
            yield from _leaves(below, f"{path}.")
        else:
            yield path, value


def _check_once(answers: Sequence[_Answer], keys: Sequence[str], prefix: str) -> None:
    """Refuses two names of other libraries for one setting with different values."""
    taken: dict[str, tuple[str, Any]] = {}
    for key, answer in zip(keys, answers, strict=True):
        if _is_key(key):
            continue
        for place, value in answer.pairs:
            other, before = taken.setdefault(place, (key, value))
            if other != key and before != value:
                raise ConfigurationError(f"{prefix}{other} and {prefix}{key} both set {prefix}{place}; write that once")


def _shown(place: str) -> str:
    """A place as it is typed: `regularisers:KLToReference.coefficient` is `regularisers.N.coefficient`."""
    slot, colon, rest = place.partition(":")
    return f"{slot}.N.{rest.partition('.')[2]}" if colon else place
