"""Rewards that scorers pay: `--reward model:RUN_OR_PATH`, one or several together."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import torch

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.names import parse_name
from hocket.core.options import checked
from hocket.rewards.functions import load_rewards
from hocket.rewards.score import RewardJournal
from hocket.stages import Policy, Reward
from hocket.train.model_reward import FORM, ScorerReward
from hocket.train.models import model_folder
from hocket.train.settings import Config

if TYPE_CHECKING:
    from hocket.policies.family import Precision
    from hocket.policies.scorer import Scorer

PREFIX = "model:"

REFITS = {"every": int, "old": float, "keep": int, "batch": int, "gold": str}
"""Settings of a scorer that is refitted in the run."""


class _Named(NamedTuple):
    """What a flag says: where the members are, their settings as text, and the weight."""

    places: tuple[str, ...]
    settings: Mapping[str, Any]
    weight: float


def is_scorer(reference: str) -> bool:
    """Whether a `--reward` flag names scorers."""
    return reference.strip().startswith(PREFIX)


def scorer_reward(
    reference: str,
    config: Config,
    precision: Precision = "fp32",
    journal: RewardJournal | None = None,
    task_rewards: Sequence[Reward] = (),
) -> ScorerReward:
    """The reward that a flag names: `model:RUN_OR_PATH=WEIGHT`.

    Several members are joined by `+`, settings follow a question mark: `model:A+B+C?by=min&output=1=0.5`, and
    `?deviations=2` is the mean less two deviations. A member is a run (its newest checkpoint counts), a model folder or
    a hub name. The score goes by the members' names. A run keeps a digest of the weights in its journal, so that a
    resume does not go on with others.

    With `?every=10`, and `old`, `keep` and `batch` of `hocket.train.scorer_refits.RefittedScorer`, the scorer is
    refitted in the run by what the task's `own` rewards say of its answers, or a function that `gold` names.

    Raises:
        ConfigurationError: naming the flag, when there is no such scorer, it is none, or it has changed since.
    """
    from hocket.policies.scorer import Scorer, saved
    from hocket.train.machine import device_of

    named = _parsed(reference)
    members = []
    try:
        for place in named.places:
            where = model_folder(place, config.runs)
            if not saved(where):
                raise ConfigurationError(
                    f"{place!r} is no scorer, it writes text; train one, for example with --recipe reward-model"
                )
            member = Scorer.from_pretrained(where, name=place, precision=precision, key=Key.of(0))
            member.module.requires_grad_(False).to(device_of(config))
            members.append(member)
        name = "+".join(Path(place).name for place in named.places)
        name += f".{named.settings['output']}" if named.settings.get("output") else ""
        _check_unchanged(name, members, journal)
        refits = {key: value for key, value in named.settings.items() if key in REFITS}
        plain = {key: value for key, value in named.settings.items() if key not in REFITS}
        if not refits:
            return ScorerReward(tuple(members), name=name, weight=named.weight, **plain)
        return _refitted(
            ScorerReward(tuple(members), name=name, weight=named.weight, **plain), refits, config, journal, task_rewards
        )
    except ConfigurationError as error:
        raise ConfigurationError(f"reward = {reference!r}: {error}") from error


def _refitted(
    reward: ScorerReward,
    settings: Mapping[str, Any],
    config: Config,
    journal: RewardJournal | None,
    task_rewards: Sequence[Reward],
) -> ScorerReward:
    from hocket.train.scorer_refits import RefittedScorer

    if "every" not in settings:
        raise ConfigurationError(f"{next(iter(settings))} is a setting of refitting; say how often with every=STEPS")
    settings = dict(settings)
    gold = load_rewards([settings.pop("gold")]) if "gold" in settings else task_rewards
    plain = {item.name: getattr(reward, item.name) for item in fields(ScorerReward)}
    return RefittedScorer(**plain, gold=tuple(gold), total=config.total_steps, journal=journal, **settings)


def with_words_of(reward: Reward, policies: Iterable[Policy]) -> Reward:
    """`reward`, its scorers given the policies whose words they read; any other as it is."""
    return reward.beside(policies) if isinstance(reward, ScorerReward) else reward


def _parsed(reference: str) -> _Named:
    text = reference.strip().removeprefix(PREFIX)
    places, separator, query = text.partition("?")
    weight = ""
    if separator and query.rpartition("&")[2].count("=") > 1:
        query, _, weight = query.rpartition("=")
    elif not separator and "=" in places and not Path(places).exists():
        places, _, weight = places.rpartition("=")
        weight = weight or "nothing"
    members = tuple(places.split("+"))
    if not all(members):
        raise ConfigurationError(f"reward = {reference!r}: a scorer has no name; {FORM}")
    _, options = parse_name(f"{places}?{query}" if query else places, "reward")
    hints = {"by": str, "deviations": float, "output": int, **REFITS}
    return _Named(members, checked(places, options, hints, kind="reward"), _weight(weight, reference))


def _weight(text: str, reference: str) -> float:
    try:
        value = float(text) if text else 1.0
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ConfigurationError(f"reward = {reference!r}: the weight {text!r} is no number; {FORM}")
    return value


def _check_unchanged(name: str, members: Sequence[Scorer], journal: RewardJournal | None) -> None:
    """Keeps a digest of the members' weights in the journal, and compares with what is kept.

    Raises:
        ConfigurationError: when they are others than those that the run began with.
    """
    if journal is None:
        return
    digest = hashlib.blake2b(digest_size=16)
    for member in members:
        for weight in member.module.state_dict().values():
            digest.update(cast(Any, weight.detach().cpu().contiguous().view(torch.uint8).numpy()))
    entry, digest_now = f"reward/{name}/weights", digest.hexdigest()
    recorded = journal.get(entry)
    if recorded and recorded != digest_now:
        raise ConfigurationError(
            "the scorer's weights have changed since the run began; begin a new run with these weights"
        )
    if not recorded:
        journal.put(entry, digest_now)
