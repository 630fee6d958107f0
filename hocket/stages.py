"""The protocols of the stages. A stage is a frozen dataclass: its fields are its configuration.

    Curriculum -> [ Rollout <-> Reward ] -> Annotate -> Credit -> Objective -> Update -> weights

Data flows one way; a stage imports the vocabulary and never its neighbours. What a stage remembers is a *state*, a tree
of numbers and tensors made by `init()` and threaded by the loop, so that a checkpoint is one tree (see `Stateful`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from hocket.keys import Key
from hocket.types import (
    Assignment,
    Batch,
    Column,
    Evaluation,
    Experience,
    Level,
    Occurrences,
    Quantity,
    Scenario,
    Terms,
    Trajectory,
    Turn,
)

if TYPE_CHECKING:
    from hocket.update.problem import Problem

Play = Callable[[Sequence[Assignment]], Awaitable[list[Trajectory]]]
"""Plays every sample of every assignment; trajectories come back in assignment order, then sample order."""


@runtime_checkable
class Words(Protocol):
    """Text to token ids and back. Players of language models have it; a rollout that cuts or continues text asks it."""

    def encode(self, text: str) -> tuple[int, ...]:
        """Ids of a piece of text, without any special token around it."""
        ...

    def decode(self, tokens: Sequence[int]) -> str:
        """Token ids as text, special tokens included."""
        ...


def words_of(play: Play) -> Words | None:
    """What turns text into tokens for the player behind `play`; None where decisions are no words."""
    found = getattr(play, "words", None)
    return found if isinstance(found, Words) else None


@runtime_checkable
class Forecaster(Protocol):
    """A player that can say how likely a given response to a recorded turn is under the policy as it is now."""

    async def likelihood(self, asked: Sequence[tuple[Turn, Sequence[int]]]) -> list[NDArray[np.float32] | None]:
        """Log-probs `[L]` of the imposed tokens in place of each turn's response; None where they cannot be told."""
        ...


def forecaster_of(play: Play) -> Forecaster | None:
    """What tells likelihoods for the player behind `play`; None where nothing does."""
    found = getattr(play, "player", None)
    return found if isinstance(found, Forecaster) else None


Grade = Callable[[Sequence[Trajectory]], Awaitable[None]]
"""Scores trajectories in place."""

More = Callable[[int], Sequence[Assignment]]
"""The curriculum's next n assignments."""

State = dict[str, Any]
"""What a stage remembers: numbers, strings, tensors, and lists and dicts of these."""

Split = Literal["train", "eval"]

Metrics = dict[str, float]


@runtime_checkable
class Stateful(Protocol):
    """A stage with memory. Its call takes the state and returns `(result, new state)` instead of the result alone."""

    def init(self) -> State:
        """The state before the first step."""
        ...


class Task(Protocol):
    """Where scenarios come from and how they are verified.

    Scenarios are addressed by number, so the order of a run is a function of its key alone. `train` and `eval`
    scenarios are disjoint by content.
    """

    @property
    def name(self) -> str: ...

    @property
    def kind(self) -> Any:
        """Who decides: `text`, `control`, `FILE.py:NAME`, `MODULE:NAME`, or a `hocket.train.kinds.Kind` itself."""
        ...

    def size(self, split: Split) -> int | None:
        """How many scenarios there are; None when they are generated without end."""
        ...

    def scenario(self, split: Split, number: int) -> Scenario:
        """Scenario `number` of a split."""
        ...

    @property
    def rewards(self) -> Sequence[Reward]:
        """The task's own verifiers; empty when its player scores trajectories itself."""
        ...

    def suggest(self, recipe: Any) -> Mapping[str, Any]:
        """Dotted settings of run and recipe that suit this task; applied where the recipe has the key, before flags."""
        ...

    def describe(self, trajectory: Trajectory) -> Mapping[str, float]:
        """Traits of an answer worth following besides its reward, such as `format` or `working`, each in [0, 1]."""
        ...

    def success(self, trajectory: Trajectory) -> float:
        """What evaluation averages: 1 for a right answer and 0 for a wrong one, or an episode's return."""
        ...


@runtime_checkable
class LedgerView(Protocol):
    """Read-only history of scenarios, written by the loop alone in assignment order."""

    def history(self, scenario: str) -> Sequence[float]:
        """Mean rewards of the scenario's past groups, oldest first."""
        ...


class Curriculum(Protocol):
    """What is asked, and how often."""

    @property
    def prompts(self) -> int:
        """Scenarios per step."""
        ...

    def __call__(self, task: Task, asked: int, count: int, ledger: LedgerView, key: Key) -> list[Scenario]:
        """The next `count` scenarios, `asked` having been asked for in the run so far. The key is the run's."""
        ...


class Rollout(Protocol):
    """Who is asked how many times; may look at scores and ask again."""

    async def collect(
        self,
        asked: Sequence[Assignment],
        *,
        play: Play,
        score: Grade,
        ledger: LedgerView,
        key: Key,
        more: More | None = None,
    ) -> Experience:
        """Experience for one step. `asked` has one assignment per scenario, with the run's decoding.

        `more(n)` asks the curriculum for n further ones; None where it has none to give.
        """
        ...


class Reward(Protocol):
    """How good a trajectory is. `name` names its score."""

    @property
    def name(self) -> str: ...

    @property
    def weight(self) -> float: ...

    async def __call__(self, trajectories: Sequence[Trajectory], *, key: Key) -> Sequence[float | None]:
        """One number per trajectory; None is no opinion."""
        ...


class Shaping(Protocol):
    """Group-aware edits of scores: length penalties, KL in the reward, virtual samples."""

    @property
    def reads(self) -> frozenset[Column]: ...

    def __call__(self, batch: Batch) -> Batch:
        """A batch with changed or added scores, or changed weights. Pure."""
        ...


class Combine(Protocol):
    """From several scores to the one named `reward` (and, per decision, `reward/decision`)."""

    def __call__(self, batch: Batch, weights: Mapping[str, float]) -> Batch: ...


class Credit(Protocol):
    """Who gets how much: fills advantages (and value targets, or pairs) of a batch's occurrences. Pure."""

    @property
    def reads(self) -> frozenset[Column]: ...

    @property
    def pairs(self) -> bool:
        """Whether it yields preference pairs instead of advantages."""
        ...

    def __call__(self, batch: Batch) -> Occurrences: ...


class Correction(Protocol):
    """Weights for experience that is not from the current policy."""

    @property
    def reads(self) -> frozenset[Column]: ...

    def __call__(self, batch: Batch) -> Batch: ...


class Objective(Protocol):
    """What is minimised. A regulariser is an objective too; terms add."""

    @property
    def needs(self) -> frozenset[Quantity]:
        """What it needs from the current policy, differentiable."""
        ...

    @property
    def reads(self) -> frozenset[Column]:
        """Recorded columns it reads."""
        ...

    @property
    def couples(self) -> Level:
        """The smallest unit that must not be split when gradients are accumulated."""
        ...

    @property
    def idle_without_advantage(self) -> bool:
        """Whether an occurrence of advantage 0 has zero gradient, so that the learner may skip it."""
        ...

    def __call__(self, now: Evaluation, batch: Batch) -> Terms: ...


class Update(Protocol):
    """How a step is made from gradients."""

    def optimiser(self, policy: Policy) -> torch.optim.Optimizer:
        """A fresh optimiser over the policy's trainable weights."""
        ...

    def lr_factor(self, step: int, total: int) -> float:
        """The schedule: what the learning rate is multiplied with at `step` (from 1) of `total`."""
        ...

    def step(self, problem: Problem, key: Key) -> Metrics:
        """Changes the weights; returns metrics, `loss` among them."""
        ...


class Player(Protocol):
    """Acts out assignments with the current policies and records what happened."""

    async def play(self, assignments: Sequence[Assignment], *, key: Key) -> list[Trajectory]:
        """Every sample of every assignment, in assignment order, then sample order.

        Sample i of an assignment draws from `key.derive(scenario.id, assignment.source, assignment.first + i)`, so a
        trajectory does not depend on what is played beside it. An attempt that fails is returned with its `failure`.
        """
        ...


class Policy(Protocol):
    """Who decides. Implementations: `hocket.policies`."""

    name: str
    version: int

    @property
    def module(self) -> nn.Module:
        """All trainable and frozen weights, value head included."""
        ...

    @property
    def granularity(self) -> Level:
        """The smallest part it evaluates at no extra cost: `DECISION` without context, else `TRAJECTORY`."""
        ...

    @property
    def default_lr(self) -> float:
        """A learning rate that suits a network of this size, for recipes that leave it open."""
        ...

    def require(self, needs: frozenset[Quantity]) -> None:
        """Adds what objectives need (a value head) before training starts."""
        ...

    def chunks(self, batch: Batch, decisions: Tensor) -> list[Tensor]:
        """Splits decision indices into parts small enough for one forward and backward pass."""
        ...

    def evaluate(
        self,
        batch: Batch,
        needs: Iterable[Quantity],
        decisions: Tensor | None = None,
        *,
        reference: Policy | None = None,
    ) -> Evaluation:
        """Log-probs and the like of `decisions` (all when None), scattered into `[T]` tensors.

        Log-probs are at each turn's sampling temperature. `reference` is needed for `KL_EXACT` only.
        """
        ...

    def final_values(self, batch: Batch) -> Tensor:
        """Values of final states where truncated, `[N]`, 0 elsewhere; needs a value head."""
        ...

    def frozen_copy(self) -> Policy:
        """An independent copy that is never trained: a reference."""
        ...

    def save(self, folder: Path) -> None:
        """Writes the weights in their standard format (HF for language models)."""
        ...

    def load(self, folder: Path) -> None:
        """Reads weights written by `save` into this policy."""
        ...
