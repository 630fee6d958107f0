"""The run's embedder, from what `--embedder` names: the policy's own states, a sentence model, an own function."""

from __future__ import annotations

import functools
import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from hocket.core.batch import Batch
from hocket.core.columns import EMBEDDING, TURN_EMBEDDINGS
from hocket.core.errors import ConfigurationError, nearest
from hocket.core.signals import turn_visits
from hocket.core.user_files import load_object
from hocket.core.waits import waiting_for
from hocket.rewards.outside_calls import call_outside
from hocket.rewards.score import RewardJournal
from hocket.stages import Policy
from hocket.train.aio import run_async
from hocket.train.settings import Config
from hocket.types import Trajectory

POLICY, NGRAMS, SENTENCES = "policy", "ngrams", "sentence-transformers:"

Vectors = list[list[list[float] | None]]
"""Per trajectory, a vector of each of its turns that decided something; None where there is none."""


class Embedder(ABC):
    """Gives texts their vectors; fills the columns `embedding` and `turn_embeddings`."""

    def fill(self, batch: Batch, trajectories: Sequence[Trajectory], policies: Sequence[Policy]) -> Batch:
        """The batch of these trajectories with a vector of every turn's text, and of the last one's."""
        told = self.vectors(batch, trajectories, policies)
        columns = {TURN_EMBEDDINGS.name: told, EMBEDDING.name: [row[-1] if row else None for row in told]}
        return batch.but(info=columns | dict(batch.info))

    @abstractmethod
    def vectors(self, batch: Batch, trajectories: Sequence[Trajectory], policies: Sequence[Policy]) -> Vectors:
        """What is filled in."""


@runtime_checkable
class HasStates(Protocol):
    """A policy with hidden states."""

    def mean_states(self, batch: Batch) -> Tensor:
        """Of each of its turns in the batch, the mean over its tokens, `[U, H]`; NaN for turns of others."""
        ...


class PolicyEmbedder(Embedder):
    """The mean of the acting policy's last hidden states over a turn's tokens, by the weights that are to learn.

    A policy without hidden states gives no vectors; texts are then compared by n-grams.
    """

    def vectors(self, batch: Batch, trajectories: Sequence[Trajectory], policies: Sequence[Policy]) -> Vectors:
        found: list[list[float] | None] = [None] * batch.turns
        for policy in policies:
            if isinstance(policy, HasStates):
                states = policy.mean_states(batch)
                for turn in torch.nonzero(~states.isnan().any(-1)).flatten().tolist():
                    found[turn] = states[turn].tolist()
        occurrences, (_, starts) = batch.occurrences, turn_visits(batch)
        rows: Vectors = [[] for _ in range(batch.trajectories)]
        turns = batch.turn[occurrences.decision[starts]].tolist()
        for trajectory, turn in zip(occurrences.trajectory[starts].tolist(), turns, strict=True):
            rows[trajectory].append(found[turn])
        return rows


class TextEmbedder(Embedder):
    """A function of texts, called once per text and step.

    Args:
        name: told in messages. embed: texts to vectors of one length.
    """

    def __init__(self, name: str, embed: Callable[[list[str]], Any]) -> None:
        self.name = name
        self._embed = embed

    def vectors(self, batch: Batch, trajectories: Sequence[Trajectory], policies: Sequence[Policy]) -> Vectors:
        said = [[turn.text or "" for turn in trajectory.turns if len(turn)] for trajectory in trajectories]
        texts = list(dict.fromkeys(text for row in said for text in row))
        vector = dict(zip(texts, checked_vectors(self.name, self._embed, texts).tolist(), strict=True))
        return [[vector[text] for text in row] for row in said]


def checked_vectors(name: str, embed: Callable[[list[str]], Any], texts: Sequence[str]) -> Tensor:
    """What an embedder gives for texts, `[M, D]` float64.

    Raises:
        ConfigurationError: when it is anything but a vector of finite numbers for each.
    """
    try:
        with waiting_for(f"embedder {name}"):
            told = torch.as_tensor(embed(list(texts)), dtype=torch.float64)
    except (TypeError, ValueError):
        told = torch.empty(0)
    if told.ndim != 2 or len(told) != len(texts) or not bool(told.isfinite().all()):
        raise ConfigurationError(
            f"embedder {name} gave {tuple(told.shape)} numbers for {len(texts)} texts; return a list with one "
            "vector of finite numbers for each"
        )
    return told


def embedder_of(config: Config, journal: RewardJournal | None) -> Embedder | None:
    """The run's embedder; None where texts have n-grams, or no stage compares any.

    Raises:
        ConfigurationError: when there is no such embedder.
    """
    named = config.embedder
    if named is None:
        return PolicyEmbedder() if any(EMBEDDING in recipe.reads for recipe, _ in config.phases) else None
    if not compares_texts(config):
        return None
    if named == POLICY:
        return PolicyEmbedder()
    function = text_function(named, journal)
    return None if function is None else TextEmbedder(named, function)


def compares_texts(config: Config) -> bool:
    """Whether a stage reads vectors of texts, or takes them where there are some."""
    recipes = [recipe for recipe, _ in config.phases]
    taking = any(getattr(stage, "takes_embeddings", False) for recipe in recipes for stage in recipe.stages)
    return taking or any(EMBEDDING in recipe.reads for recipe in recipes)


def text_function(named: str, journal: RewardJournal | None) -> Callable[[list[str]], Any] | None:
    """What a sentence model, or an own function whose answers the journal keeps, makes of texts; None for n-grams.

    Raises:
        ConfigurationError: when there is no such embedder.
    """
    if named.startswith(SENTENCES):
        return _sentences(named.removeprefix(SENTENCES))
    if ".py:" in named:
        return functools.partial(_called, named, load_object(named, "embedder"), journal)
    if named != NGRAMS:
        forms = (POLICY, NGRAMS, f"{SENTENCES}NAME", "FILE.py:FUNCTION")
        raise ConfigurationError(f"embedder = {named!r}{nearest(named, forms)}")
    return None


def _sentences(model: str) -> Callable[[list[str]], Any]:
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError:
        raise ConfigurationError(
            f"embedder = {SENTENCES}{model} needs sentence-transformers; install hocket[sentences]"
        ) from None
    _check_modules(Path(model))  # Code from the hub is off unless it is asked for.
    return SentenceTransformer(model).encode  # type: ignore[no-any-return]


def _check_modules(folder: Path) -> None:
    """Raises an error for a model's folder with code: sentence-transformers runs it even with code disabled."""
    try:
        told = json.loads((folder / "modules.json").read_bytes())
        kinds = [str(one["type"]) for one in told]
    except FileNotFoundError:
        return
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise ConfigurationError(f"{folder / 'modules.json'} cannot be read: {error}") from error
    if foreign := next((kind for kind in kinds if not kind.startswith("sentence_transformers.")), None):
        raise ConfigurationError(
            f"{folder / 'modules.json'} names {foreign}, code of its own, which is never run; choose a model made of "
            "sentence_transformers' own parts"
        )


def _called(name: str, function: Callable[..., Any], journal: RewardJournal | None, texts: list[str]) -> Any:
    """What an own function gives, journalled by the texts."""
    entry = f"embedder/{hashlib.blake2b(repr(texts).encode('utf-8', 'surrogatepass'), digest_size=16).hexdigest()}"
    kept = journal.get(entry) if journal is not None else None
    if kept:
        return kept
    outcome = run_async(call_outside(functools.partial(function, texts), {}, 600.0))
    if outcome.error is not None or outcome.timed_out:
        why = (
            "took longer than 600 s" if outcome.timed_out else f"raised {type(outcome.error).__name__}: {outcome.error}"
        )
        raise ConfigurationError(f"embedder {name} {why}; correct it")
    told = outcome.value.tolist() if hasattr(outcome.value, "tolist") else outcome.value
    return told if journal is None else journal.put(entry, told)
