"""Kinds of decider: what a run asks when something depends on what its decisions are."""

from __future__ import annotations

import importlib

from hocket.core.errors import ConfigurationError, nearest
from hocket.core.user_files import load_object
from hocket.stages import Task
from hocket.train.kinds.control import CONTROL
from hocket.train.kinds.kind import ACCURACY, MEASURES, RETURN, Kind, Measure, held_out_of, is_share, measure_of
from hocket.train.kinds.mask_filler import MASKED
from hocket.train.kinds.network import Network
from hocket.train.kinds.pictures import PICTURES
from hocket.train.kinds.text import TEXT
from hocket.train.settings import Config

__all__ = [
    "ACCURACY",
    "CONTROL",
    "MASKED",
    "MEASURES",
    "PICTURES",
    "RETURN",
    "TEXT",
    "Kind",
    "Measure",
    "Network",
    "held_out_of",
    "is_share",
    "kind_of",
    "measure_of",
]

_BY_NAME = {kind.name: kind for kind in (TEXT, CONTROL, PICTURES)}


def kind_of(task: Task, config: Config | None = None) -> Kind:
    """The kind of decider that plays a task: the one that it names, or with a `config` what its model makes of that.

    A task names a `Kind`, `text`, `control`, `pictures`, or what `FILE.py:NAME` or `MODULE:NAME` is. For a task in
    words a rollout may name one as well, as its `kind`, whose policies are made of the run's model.

    Raises:
        ConfigurationError: when it is none of these, or the model cannot play such a task.
    """
    named = task.kind
    rollouts = () if config is None or named != TEXT.name else (recipe.rollout for recipe, _ in config.phases)
    named = next((kind for rollout in rollouts if (kind := getattr(rollout, "kind", None))), named)
    if isinstance(named, str):
        kind = _BY_NAME[named] if named in _BY_NAME else _loaded(named, task)
    else:
        kind = named
    if not isinstance(kind, Kind):
        raise ConfigurationError(f"task {task.name}: its kind {named!r} is no hocket.train.kinds.Kind; make it one")
    return kind if config is None else kind.played_by(config, task)


def _loaded(reference: str, task: Task) -> object:
    where = f"task {task.name}: kind"
    if ".py:" in reference:
        return load_object(reference, where)
    module, _, name = reference.partition(":")
    if not name:
        raise ConfigurationError(f"{where} = {reference!r}{nearest(reference, _BY_NAME)}")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ConfigurationError(f"{where} = {reference!r} cannot be imported: {error}; correct the name") from error
