"""The run's embedder, as `--embedder` names it: the policy's hidden states, a sentence model, or a function."""

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
"""For each trajectory, a vector of each turn with decisions; None where there is none."""


class Embedder(ABC):
    """Computes vectors of texts and fills the columns `embedding` and `turn_embeddings`."""

    def fill(self, batch: Batch, trajectories: Sequence[Trajectory], policies: Sequence[Policy]) -> Batch:
        """The batch with vectors of the text of every turn, and of the last turn."""
        vectors = self.vectors(batch, trajectories, policies)
        columns = {TURN_EMBEDDINGS.name: vectors, EMBEDDING.name: [row[-1] if row else None for row in vectors]}
        return batch.but(info=columns | dict(batch.info))

    @abstractmethod
    def vectors(self, batch: Batch, trajectories: Sequence[Trajectory], policies: Sequence[Policy]) -> Vectors:
        """The vectors to fill in."""


@runtime_checkable
class HasStates(Protocol):
    """A policy with hidden states."""

    def mean_states(self, batch: Batch) -> Tensor:
        """The mean hidden state over the tokens of each turn, `[U, H]`; NaN for turns of other policies."""
        ...


class PolicyEmbedder(Embedder):
    """The mean of the acting policy's last hidden states over a turn's tokens, from the weights before the update.

    Without hidden states there are no vectors, and texts are compared by n-grams.
    """

    def vectors(self, batch: Batch, trajectories: Sequence[Trajectory], policies: Sequence[Policy]) -> Vectors:
        vectors: list[list[float] | None] = [None] * batch.turns
        for policy in policies:
            if isinstance(policy, HasStates):
                states = policy.mean_states(batch)
                for turn in torch.nonzero(~states.isnan().any(-1)).flatten().tolist():
                    vectors[turn] = states[turn].tolist()
        occurrences, (_, starts) = batch.occurrences, turn_visits(batch)
        rows: Vectors = [[] for _ in range(batch.trajectories)]
        turns = batch.turn[occurrences.decision[starts]].tolist()
        for trajectory, turn in zip(occurrences.trajectory[starts].tolist(), turns, strict=True):
            rows[trajectory].append(vectors[turn])
        return rows


class TextEmbedder(Embedder):
    """A function of texts, called once per text and step.

    Args:
        name: its name in messages. embed: maps texts to vectors of equal length.
    """

    def __init__(self, name: str, embed: Callable[[list[str]], Any]) -> None:
        self.name = name
        self._embed = embed

    def vectors(self, batch: Batch, trajectories: Sequence[Trajectory], policies: Sequence[Policy]) -> Vectors:
        rows = [[turn.text or "" for turn in trajectory.turns if len(turn)] for trajectory in trajectories]
        texts = list(dict.fromkeys(text for row in rows for text in row))
        vector = dict(zip(texts, checked_vectors(self.name, self._embed, texts).tolist(), strict=True))
        return [[vector[text] for text in row] for row in rows]


def checked_vectors(name: str, embed: Callable[[list[str]], Any], texts: Sequence[str]) -> Tensor:
    """An embedder's vectors of texts, `[M, D]` float64.

    Raises:
        ConfigurationError: unless it returns a vector of finite numbers for each.
    """
    try:
        with waiting_for(f"embedder {name}"):
            vectors = torch.as_tensor(embed(list(texts)), dtype=torch.float64)
    except (TypeError, ValueError):
        vectors = torch.empty(0)
    if vectors.ndim != 2 or len(vectors) != len(texts) or not bool(vectors.isfinite().all()):
        raise ConfigurationError(
            f"embedder {name} gave {tuple(vectors.shape)} numbers for {len(texts)} texts; return a list with one "
            "vector of finite numbers for each"
        )
    return vectors


def embedder_of(config: Config, journal: RewardJournal | None) -> Embedder | None:
    """The run's embedder; None if texts are compared by n-grams, or no stage compares texts.

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
    """Whether a stage reads vectors of texts, or uses them if they exist."""
    recipes = [recipe for recipe, _ in config.phases]
    taking = any(getattr(stage, "takes_embeddings", False) for recipe in recipes for stage in recipe.stages)
    return taking or any(EMBEDDING in recipe.reads for recipe in recipes)


def text_function(named: str, journal: RewardJournal | None) -> Callable[[list[str]], Any] | None:
    """The function of a sentence model, or a user's function with journalled answers; None for n-grams.

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
    _check_modules(Path(model))  # Code from the hub is disabled unless requested.
    return SentenceTransformer(model).encode  # type: ignore[no-any-return]


def _check_modules(folder: Path) -> None:
    """Raises an error for a model's folder with code: sentence-transformers runs it even with code disabled."""
    try:
        modules = json.loads((folder / "modules.json").read_bytes())
        kinds = [str(module["type"]) for module in modules]
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
    """The vectors of a user's function, journalled by the texts."""
    entry = f"embedder/{hashlib.blake2b(repr(texts).encode('utf-8', 'surrogatepass'), digest_size=16).hexdigest()}"
    recorded = journal.get(entry) if journal is not None else None
    if recorded:
        return recorded
    outcome = run_async(call_outside(functools.partial(function, texts), {}, 600.0))
    if outcome.error is not None or outcome.timed_out:
        why = (
            "took longer than 600 s" if outcome.timed_out else f"raised {type(outcome.error).__name__}: {outcome.error}"
        )
        raise ConfigurationError(f"embedder {name} {why}; correct it")
    numbers = outcome.value.tolist() if hasattr(outcome.value, "tolist") else outcome.value
    return numbers if journal is None else journal.put(entry, numbers)
