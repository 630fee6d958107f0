"""Rewards that scorers pay: `--reward model:RUN_OR_PATH`, one or several together."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, cast, get_args

import numpy as np
import torch
from torch import Tensor

from hocket.agents.workflows.chat import Chat
from hocket.core.errors import ConfigurationError, HocketError
from hocket.core.keys import Key
from hocket.core.options import checked, parse_name
from hocket.rewards.functions import load_rewards
from hocket.rewards.opinions import Opinions, opinions_of
from hocket.rewards.score import Journal
from hocket.stages import Policy, Reward
from hocket.train.models import model_folder
from hocket.train.settings import Config
from hocket.types import Trajectory, Turn

if TYPE_CHECKING:
    from hocket.policies.family import Precision
    from hocket.policies.scorer import Scorer

PREFIX = "model:"

By = Literal["mean", "min"]

REFITS = {"every": int, "old": float, "keep": int, "batch": int, "gold": str}
"""Settings of a scorer that is refitted in the run."""

FORM = "write model:RUN_OR_PATH=WEIGHT, or model:A+B+C?by=min=WEIGHT"


@dataclass(frozen=True)
class ScorerReward(Reward):
    """What scorers that are not trained give a trajectory after its last decision; None where nothing was decided.

    Token ids are read as they were recorded, and what trajectories have in common is computed once. A member whose
    tokenizer or chat template is another than the policy's reads the last turn's messages by its own instead, see
    `beside`. Nothing is drawn, so an interrupted run hears the same again.

    Attributes:
        members: the scorers. name: of the score. weight: in the sum of rewards.
        by: `mean` or `min` over the members. deviations: so many standard deviations (of the members, divided by their
            number) are taken from the mean. output: which of the scores counts, from 0.
        retold: which members read messages instead of the recorded ids; all that are not named read the ids.

    Raises:
        ConfigurationError: at construction, for settings that do not fit the members, or weights that are not finite.
    """

    members: tuple[Scorer, ...] = field(repr=False, compare=False)
    name: str = "model"
    weight: float = 1.0
    by: By = "mean"
    deviations: float = 0.0
    output: int = 0
    retold: tuple[int, ...] = ()

    outside: ClassVar[bool] = False

    def __post_init__(self) -> None:
        where = f"reward {self.name}"
        if not self.members:
            raise ConfigurationError(f"{where} has no scorer; {FORM}")
        if self.by not in get_args(By):
            raise ConfigurationError(f"{where}: by = {self.by!r}; choose from {', '.join(get_args(By))}")
        if self.deviations < 0 or (self.deviations > 0 and (self.by != "mean" or len(self.members) < 2)):
            raise ConfigurationError(f"{where}: deviations, at least 0, are those of several members from their mean")
        least = min(member.outputs for member in self.members)
        if not 0 <= self.output < least:
            raise ConfigurationError(f"{where}: output = {self.output}, but outputs are numbered from 0 to {least - 1}")
        if not all(torch.isfinite(one).all() for member in self.members for one in member.module.parameters()):
            raise ConfigurationError(f"{where}: some weights of the scorer are not finite; train it again")

    def beside(self, policies: Iterable[Policy]) -> ScorerReward:
        """The same, where every member whose words are not those of all `policies` reads messages instead of ids."""
        spoken = [words for policy in policies if (words := getattr(policy, "tokenizer", None)) is not None]
        apart = (n for n, member in enumerate(self.members) if not all(_alike(member.tokenizer, one) for one in spoken))
        return replace(self, retold=tuple(apart))

    async def __call__(self, trajectories: Sequence[Trajectory], *, key: Key) -> Opinions:
        """One opinion per trajectory, a problem in words where a score is not finite."""
        each = torch.stack([self._of(number, trajectories) for number in range(len(self.members))])
        told = self._together(each.double()).tolist()
        known = [None if not trajectory.length else value for trajectory, value in zip(trajectories, told, strict=True)]
        return opinions_of(known, len(trajectories), self.name)

    def _together(self, each: Tensor) -> Tensor:
        """From the members' scores `[M, N]` to the reward `[N]`."""
        if self.by == "min":
            return each.min(0).values
        return each.mean(0) - (self.deviations * each.std(0, unbiased=False) if self.deviations else 0.0)

    def _of(self, number: int, trajectories: Sequence[Trajectory]) -> Tensor:
        return self.members[number].scores(self.told(number, trajectories))[:, self.output]

    def told(self, number: int, trajectories: Sequence[Trajectory]) -> Sequence[Trajectory]:
        """Trajectories as the member of this number reads them."""
        if number not in self.retold:
            return trajectories
        chat = Chat(self.members[number].tokenizer)
        return [_retold(trajectory, chat, self.name) for trajectory in trajectories]


def _alike(one: Any, other: Any) -> bool:
    """Whether two tokenizers give the same ids for the same messages."""
    if one is other:
        return True
    return bool(one.chat_template == other.chat_template and one.get_vocab() == other.get_vocab())


def _retold(trajectory: Trajectory, chat: Chat, name: str) -> Trajectory:
    """The last turn by another tokenizer and template: the messages that were shown, and what was said."""
    if not trajectory.turns or not trajectory.length:
        return trajectory
    turn = trajectory.turns[-1]
    if not turn.prompt:
        raise HocketError(
            f"reward {name}: its tokenizer is not the policy's, and trajectory {trajectory.scenario.id!r} kept no "
            "messages that it could read instead; use a scorer with the policy's tokenizer"
        )
    said = chat.demonstration(turn.text, turn.prompt)
    action = said[:-1] if turn.finish == "length" and len(said) > 1 else said
    told = Turn(
        agent=turn.agent,
        policy=turn.policy,
        observation=np.asarray(chat.opening(turn.prompt), np.int64),
        action=np.asarray(action, np.int64),
    )
    return replace(trajectory, turns=[told], branches=[])


# ---------------------------------------------------------------- from the command line


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
    journal: Journal | None = None,
    own: Sequence[Reward] = (),
) -> ScorerReward:
    """The reward that a flag names: `model:RUN_OR_PATH=WEIGHT`.

    Several members are joined by `+`, settings follow a question mark: `model:A+B+C?by=min&output=1=0.5`, and
    `?deviations=2` is the mean less two deviations. A member is a run (its newest checkpoint counts), a model folder or
    a hub name. The score goes by the members' names. A run keeps a digest of the weights in its journal, so that a
    resume does not go on with others.

    With `?every=10`, and `old`, `keep` and `batch` of `hocket.train.refitted.RefittedScorer`, the scorer is refitted in
    the run by what the task's `own` rewards say of its answers, or a function that `gold` names.

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
            ScorerReward(tuple(members), name=name, weight=named.weight, **plain), refits, config, journal, own
        )
    except ConfigurationError as error:
        raise ConfigurationError(f"reward = {reference!r}: {error}") from error


def _refitted(
    reward: ScorerReward, settings: Mapping[str, Any], config: Config, journal: Journal | None, own: Sequence[Reward]
) -> ScorerReward:
    from hocket.train.refitted import RefittedScorer

    if "every" not in settings:
        raise ConfigurationError(f"{next(iter(settings))} is about refitting; say how often by every=STEPS")
    settings = dict(settings)
    gold = load_rewards([settings.pop("gold")]) if "gold" in settings else own
    plain = {one.name: getattr(reward, one.name) for one in fields(ScorerReward)}
    return RefittedScorer(**plain, gold=tuple(gold), total=config.total_steps, journal=journal, **settings)


def with_words_of(reward: Reward, policies: Iterable[Policy]) -> Reward:
    """`reward`, its scorers told whose words they read; any other as it is."""
    return reward.beside(policies) if isinstance(reward, ScorerReward) else reward


def _parsed(reference: str) -> _Named:
    text = reference.strip().removeprefix(PREFIX)
    places, asked, query = text.partition("?")
    weight = ""
    if asked and query.rpartition("&")[2].count("=") > 1:
        query, _, weight = query.rpartition("=")
    elif not asked and "=" in places and not Path(places).exists():
        places, _, weight = places.rpartition("=")
        weight = weight or "nothing"
    members = tuple(places.split("+"))
    if not all(members):
        raise ConfigurationError(f"reward = {reference!r}: a scorer has no name; {FORM}")
    _, given = parse_name(f"{places}?{query}" if query else places, "reward")
    hints = {"by": str, "deviations": float, "output": int, **REFITS}
    return _Named(members, checked(places, given, hints, kind="reward"), _weight(weight, reference))


def _weight(text: str, reference: str) -> float:
    try:
        found = float(text) if text else 1.0
    except ValueError:
        found = math.nan
    if not math.isfinite(found):
        raise ConfigurationError(f"reward = {reference!r}: the weight {text!r} is no number; {FORM}")
    return found


def _check_unchanged(name: str, members: Sequence[Scorer], journal: Journal | None) -> None:
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
    entry, found = f"reward/{name}/weights", digest.hexdigest()
    kept = journal.get(entry)
    if kept and kept != found:
        raise ConfigurationError("the scorer has other weights than when the run began; begin a new run with these")
    if not kept:
        journal.put(entry, found)
