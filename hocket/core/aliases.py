"""What old configurations call things: classes that have moved, and settings that have another form now."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from hocket.core.names import task_spelling
from hocket.core.rooms import at_home, public

CLASSES: dict[str, str] = {
    "hocket.curriculum.TurnHorizon": "hocket.hooks.TurnHorizon",
    "hocket.casting.PastSelves": "hocket.hooks.PastSelves",
    "hocket.methods.LogRatioPenalty": "hocket.objectives.LogRatioPenalty",
    "hocket.methods.Selected": "hocket.rollout.Selected",
    "hocket.objectives.DPO": "hocket.objectives.Pairwise",
    "hocket.methods.agents.igpo.Separately": "hocket.methods.agents.igpo.GainRelative",
}
"""The present name of every class or function that configurations once named otherwise."""

ROOMS = {
    "hocket.casting": "hocket.core",
    "hocket.schedules": "hocket.core",
    "hocket.workflows": "hocket.agents.workflows",
    "hocket.tools": "hocket.agents.tools",
}
"""Rooms that were renamed."""

OLD_SLOTS = ("horizon",)
"""Slots that recipes once had."""

_PAST_SELVES = ("hocket.casting.PastSelves", "hocket.hooks.PastSelves")
_SHARED = {"type": "hocket.casting.Shared"}
_SENTENCES = {
    ".but(horizon=TurnHorizon(...))": ".but(hooks=(TurnHorizon(...),))",
    "horizon.turns = ": "hooks.0.turns = ",
}
"""Settings as recipes once spoke of them."""


def present_name(name: str) -> str:
    """The present name of a class or function; what left its room is found in the core, in a method or in the zoo."""
    room, _, last = CLASSES.get(name, name).rpartition(".")
    room = ROOMS.get(room, room)
    # `hocket.types` offers what the core defines.
    if room.startswith("hocket.") and room != "hocket.types" and last not in public(room):
        room = public("hocket.core").get(last) or at_home(last) or room
    return f"{room}.{last}"


def present(settings: Mapping[str, Any]) -> dict[str, Any]:
    """A recipe's or a run's settings as plain data, in the present form; what is in it already stays as it is."""
    return _hooked(_measured(_masked(settings)))


def _hooked(settings: Mapping[str, Any]) -> dict[str, Any]:
    """A horizon, and past selves among the casts, became hooks of a recipe; see `present_pairs` for parts of one.

    The task that it is for is spelled as it is now.
    """
    now = dict(settings)
    if isinstance(now.get("recipe"), Mapping):
        now["recipe"] = _hooked(now["recipe"])
    if isinstance(now.get("plan"), list):
        now["plan"] = [_hooked(phase) if isinstance(phase, Mapping) else phase for phase in now["plan"]]
    if "objective" not in now or "name" not in now:
        return now
    if isinstance(now.get("task"), str):
        now["task"] = task_spelling(now["task"])
    now["hooks"] = list(now.get("hooks", ()))
    horizon = now.pop("horizon", None)
    if horizon is not None:
        now["hooks"].append(_renamed(horizon))
    if _seats_past_selves(now.get("cast")):
        now["cast"], guests = _apart(now["cast"])
        now["hooks"].append(guests)
    if isinstance(now.get("conventions"), Mapping):
        now["conventions"] = {name: _reworded(text) for name, text in now["conventions"].items()}
    return now


def present_pairs(pairs: Iterable[tuple[str, Any]], recipe: Any) -> Iterator[tuple[str, str, Any]]:
    """Changes of `recipe` by dotted path in the present form: the path as it was given, the present one, the value."""
    hooks = list(recipe.hooks)
    for path, value in pairs:
        slot, _, rest = path.removeprefix("recipe.").partition(".")
        if slot == "hooks" and not rest and isinstance(value, Sequence):
            hooks = list(value)
        if slot == "horizon" and rest:
            yield path, _within("TurnHorizon", hooks, rest, path), value
        elif slot == "horizon":
            hooks = [hook for hook in hooks if _kind(hook) != "TurnHorizon"] + (
                [] if value is None else [_renamed(value)]
            )
            yield path, "hooks", hooks
        elif slot == "cast" and not rest and _seats_past_selves(value):
            usual, guests = _apart(value)
            hooks = [hook for hook in hooks if _kind(hook) != "PastSelves"] + [guests]
            yield path, "cast", usual
            yield path, "hooks", hooks
        elif slot == "cast" and rest and not hasattr(recipe.cast, rest.partition(".")[0]):
            old = "cast" + rest.removeprefix("usual")
            yield path, old if rest.startswith("usual") else _within("PastSelves", hooks, rest, path), value
        else:
            yield path, path, value


def present_state(state: Mapping[str, Any]) -> dict[str, Any]:
    """The tree of a checkpoint in the present form."""
    now = dict(state)
    if "hooks" not in now:
        past = now.pop("past", {})
        now["hooks"] = {"PastSelves": past} if past else {}
        for learner in now["learners"].values():
            for name in [name for name in learner["memory"] if name.startswith("later/")]:
                now["hooks"]["LearningProgress"] = learner["memory"].pop(name)
    return now


def _seats_past_selves(cast: Any) -> bool:
    return isinstance(cast, Mapping) and cast.get("type") in _PAST_SELVES


def _apart(cast: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Who plays usually, and the hook that seats past selves beside them."""
    return cast.get("usual", _SHARED), _renamed({name: value for name, value in cast.items() if name != "usual"})


def _renamed(component: Any) -> Any:
    if not isinstance(component, Mapping) or "type" not in component:
        return component
    return {**component, "type": present_name(component["type"])}


def _kind(component: Any) -> str:
    """The class of a component, as an object or in plain form."""
    if isinstance(component, Mapping):
        return str(component.get("type", "")).rpartition(".")[2]
    return type(component).__name__


def _within(kind: str, hooks: Sequence[Any], rest: str, path: str) -> str:
    """The path of a hook's setting; as it is where there is no such hook."""
    return next((f"hooks.{place}.{rest}" for place, hook in enumerate(hooks) if _kind(hook) == kind), path)


def _reworded(text: Any) -> Any:
    for old, now in _SENTENCES.items() if isinstance(text, str) else ():
        text = text.replace(old, now)
    return text


def _masked(value: Any, name: str = "") -> Any:
    """The mass of a nucleus, `decoding.nucleus`, became one of the masks that `decoding.mask` may be."""
    if isinstance(value, list):
        return [_masked(one) for one in value]
    if not isinstance(value, Mapping):
        return value
    settings = {key: _masked(one, key) for key, one in value.items()}
    if "nucleus" in settings and (name == "decoding" or settings.get("type") == "hocket.types.Decoding"):
        mass = float(settings.pop("nucleus"))
        settings["mask"] = {"type": "hocket.rollout.NucleusMask", "mass": mass} if mass < 1 else None
    return settings


def _measured(value: Any) -> Any:
    """Whether a pairwise loss averages log-ratios became a setting of what it compares."""
    if isinstance(value, (list, tuple)):
        return [_measured(one) for one in value]
    if not isinstance(value, Mapping):
        return value
    settings = {key: _measured(one) for key, one in value.items()}
    if settings.get("type") == "hocket.objectives.DPO" and "length_normalised" in settings:
        normalised = settings.pop("length_normalised")
        settings["measure"] = {"type": "hocket.objectives.LogRatio", "length_normalised": normalised}
    return settings
