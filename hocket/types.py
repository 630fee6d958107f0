"""The data types that all stages share.

Experience is a set of sequences of *decisions*: a token, a joystick move, a denoising step. The curriculum draws
scenarios, the rollout records turns and groups them into trajectories, and rewards score the trajectories. `pack`
(`hocket.core.packing`) turns them into a `Batch`, the learner's padding-free view. After the rollout, no stage depends
on the kind of decision.

Axis letters used throughout: T decisions, U turns, N trajectories, E occurrences (a decision as seen by one
trajectory), K terms of a loss. Log-probabilities are natural logarithms (nats).
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from hocket.core.batch import Batch as Batch
from hocket.core.batch import GroupBy as GroupBy
from hocket.core.batch import Groups as Groups
from hocket.core.batch import Level as Level
from hocket.core.batch import LevelScores as LevelScores
from hocket.core.batch import Occurrences as Occurrences
from hocket.core.batch import Parts as Parts
from hocket.core.batch import RecordedNumbers as RecordedNumbers
from hocket.core.batch import trajectory_of_turn as trajectory_of_turn
from hocket.core.columns import ANSWER
from hocket.core.columns import Column as Column

Option = TypeVar("Option")

Message = Mapping[str, Any]
"""One chat message: `role`, `content`, and whatever else the template reads."""


# ---------------------------------------------------------------- what is sampled


@dataclass(frozen=True)
class Scenario:
    """One problem. `prompt` is text or chat messages for language models, else anything that the player understands."""

    id: str
    prompt: str | tuple[Message, ...] | None = None
    answer: Any = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    origin: str | None = None

    @property
    def messages(self) -> tuple[Message, ...]:
        """The prompt as chat messages."""
        if self.prompt is None:
            return ()
        return ({"role": "user", "content": self.prompt},) if isinstance(self.prompt, str) else self.prompt


@runtime_checkable
class ActionMask(Protocol):
    """A component that restricts the actions of every decision of a turn.

    The allowed actions are recorded with the turn and applied again when learning (`Batch.allowed`).
    """

    @property
    def copy(self) -> str | None:
        """The policy copy whose log-probs are read (see `hocket.policies.copies`); None reads the policy itself."""
        ...

    def allowed(self, logp: Tensor) -> Tensor:
        """The allowed actions, `[R, V]` bool, from log-probs `[R, V]` at temperature 1.

        Every row allows at least one action, and depends on the log-probs of that row alone.
        """
        ...


@dataclass(frozen=True)
class Decoding:
    """How a turn is sampled. It is part of the policy: log-probs are those of the distribution described here.

    `temperature` 0 means greedy (log-probs are then those at temperature 1). `max_tokens` counts response tokens.
    A response ends after a `stop` string. `mask` restricts the actions, and the allowed sets are recorded. The local
    engine records the entropy of the first `entropies` sampled decisions, and the `alternatives` likeliest actions of
    every decision, in the turn's columns of these names. `guidance` is the scale of classifier-free guidance: a sampler
    that reads prompts predicts p0 + guidance (p - p0), p0 without a prompt, in sampler and learner alike.
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float = 1.0
    min_p: float = 0.0
    max_tokens: int = 128
    stop: tuple[str, ...] = ()
    banned: tuple[int, ...] = ()
    mask: ActionMask | None = None
    entropies: int = 0
    alternatives: int = 0
    guidance: float = 1.0

    def __post_init__(self) -> None:
        if self.mask is not None and not isinstance(self.mask, ActionMask):
            raise ValueError(f"mask must be an action mask such as {{type: hocket.rollout.NAME}}, not {self.mask!r}")
        if not 0 <= self.temperature < math.inf:
            raise ValueError(f"temperature must be at least 0 and finite, not {self.temperature}")
        if not (0 < self.top_p <= 1 and 0 <= self.min_p <= 1):
            raise ValueError(f"top_p and min_p must be probabilities, not {self.top_p} and {self.min_p}")
        if self.top_k is not None and self.top_k < 1:
            raise ValueError(f"top_k must be at least 1, or None for all tokens, not {self.top_k}")
        if "" in self.stop:
            raise ValueError("a stop string is empty; leave it out")

    @property
    def greedy(self) -> bool:
        return self.temperature == 0.0

    @property
    def truncates(self) -> bool:
        """Whether sampling excludes part of the vocabulary, so that its log-probs differ from the plain ones."""
        return not self.greedy and (self.top_k is not None or self.top_p < 1.0 or self.min_p > 0.0 or bool(self.banned))


@dataclass(frozen=True)
class Replay:
    """The beginning of an earlier episode, from which a new episode continues.

    The recorded `turns` answer the first calls, so nothing is sampled twice and episodes share the same `Turn` objects.
    A workflow must make the same calls after the same answers. Its own random draws repeat those of sample `sample`.

    Attributes:
        turns: the recorded turns, in the order of the calls. sample: the sample whose workflow draws are repeated.
        more: how many new messages may follow before the episode is paused with `info["limit"]` = `PAUSED`; None plays
            to the end.
    """

    turns: tuple[Turn, ...] = ()
    sample: int = 0
    more: int | None = None


PAUSED = "put aside before its end, as was asked"
"""The `limit` of an episode that a replay has paused."""


@dataclass(frozen=True)
class Assignment:
    """A scenario and how to sample it: `samples` times, numbered from `first` (so that later rounds draw anew).

    `actor` selects the current policies, or the reference: the policies as they were before training. `replay` is the
    beginning of the episode, for players of workflows. `turns` and `budget` limit the turns and decisions of an
    episode, within the limits of the run. `options` are further settings that a rollout passes to the workflow, at
    most one of each class.
    """

    scenario: Scenario
    samples: int = 1
    decoding: Decoding = field(default_factory=Decoding)
    first: int = 0
    hint: str | None = None
    prefix: tuple[int, ...] = ()
    budget: int | None = None
    turns: int | None = None
    source: Source = "own"
    actor: Literal["policy", "reference"] = "policy"
    replay: Replay | None = None
    options: tuple[object, ...] = ()

    def option(self, kind: type[Option]) -> Option | None:
        """The option of this class; None where the rollout sets none."""
        return next((option for option in self.options if isinstance(option, kind)), None)


def before_training(policy: str) -> str:
    """The policy name recorded for decisions of a policy's reference, which the policy itself did not make."""
    return f"{policy} before training"


Source = Literal["own", "helped", "baseline", "replay", "expert", "imported", "branch"]
"""Where a trajectory came from. `helped`: sampled by the policy with help that a plain prompt lacks. `baseline`: read
by credit and never learnt from. `branch`: one alternative turn, tried beside the turn with which an episode continued;
its context is that episode's."""


# ---------------------------------------------------------------- what is recorded


@dataclass(frozen=True, eq=False)
class End:
    """How one agent's part of a joint episode ended, independently of the other agents.

    Attributes:
        terminated: whether the task itself ended for this agent. truncated: whether a limit cut its part short.
        state: the agent's last observation, `[O]`, whose value is bootstrapped after truncation.
        joint: the joint state at that moment, `[S]`, if the environment has one.
    """

    terminated: bool
    truncated: bool
    state: NDArray[Any] | None = None
    joint: NDArray[Any] | None = None


@dataclass(eq=False, repr=False)
class Turn:
    """One agent's span of decisions, compared by identity: a shared turn is one object in several trajectories.

    Attributes:
        observation: only what is *new* since `parent`: token ids `[P]`, or for control the observations `[L, ...]`
            before each of the L decisions.
        action: token ids `[L]`, discrete actions `[L]` or vectors `[L, A]`.
        logp: behaviour log-probs `[L]` in nats, or None where unknown (imported text). They are packed as float64
            where an array of that type is among them, else as float32.
        version: weights version each decision was sampled with, `[L]`.
        forced: True where the decision was imposed (a hint, a guided prefix), `[L]`.
        parent: the turn whose context this one extends, None at a root.
        state: a key naming the state the turn started from, for grouping; None if not named.
        finish: why the turn ended: `stop`, `length`, `terminated`, `truncated`, `cancelled`.
        segment: number of each decision's segment, `[L]`, non-decreasing; one segment when None.
        prompt: all messages that the agent was shown, if it reads messages.
        time: time of each decision, `[L]`, increasing; simultaneous decisions of several agents share a time. None
            if turns are sequential.
        joint: the joint state before each decision, `[L, S]`, for central critics; None if there is none.
        end: how this agent's part of a joint episode ended; None if the trajectory ends for all its turns at once.
    """

    agent: str
    policy: str
    observation: NDArray[Any]
    action: NDArray[Any]
    logp: NDArray[np.floating[Any]] | None = None
    role: str = ""
    parent: Turn | None = None
    version: NDArray[np.int64] | None = None
    forced: NDArray[np.bool_] | None = None
    segment: NDArray[np.int64] | None = None
    state: str | None = None
    finish: str = "stop"
    text: str = ""
    prompt: Sequence[Message] = ()
    decoding: Decoding | None = None
    extras: dict[str, Any] = field(default_factory=dict)
    time: NDArray[np.int64] | None = None
    joint: NDArray[np.float32] | None = None
    end: End | None = None

    def __len__(self) -> int:
        return len(self.action)

    def __repr__(self) -> str:
        return f"Turn(agent={self.agent!r}, decisions={len(self)}, finish={self.finish!r}, text={self.text[:40]!r})"

    def context(self) -> list[Turn]:
        """The chain of turns from the root to this one, both included."""
        chain, turn = [self], self.parent
        while turn is not None:
            chain.append(turn)
            turn = turn.parent
        return chain[::-1]


@dataclass(frozen=True)
class Score:
    """A named number about a trajectory: one value, or one per turn or per decision. None means no opinion."""

    value: float | Sequence[float | None] | NDArray[np.floating[Any]] | None
    level: Level = Level.TRAJECTORY
    feedback: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "level", Level(self.level))


@dataclass(eq=False, repr=False)
class Trajectory:
    """One attempt at a scenario: its turns in time order, and its scores.

    Agents that act simultaneously, or in an order that the environment sets, have one turn each. `Turn.time` orders
    their decisions, and each such turn has its own `Turn.end`.

    `terminated` (the task itself ended) differs from `truncated` (a limit cut it short): after truncation the value of
    `final_state` is bootstrapped, after termination it is 0. `branches` hold the alternative turns with which the
    episode did not continue, one turn each.
    """

    scenario: Scenario
    turns: list[Turn]
    sample: int = 0
    scores: dict[str, Score] = field(default_factory=dict)
    terminated: bool = True
    truncated: bool = False
    final_state: NDArray[Any] | None = None
    source: Source = "own"
    info: dict[str, Any] = field(default_factory=dict)
    failure: str | None = None
    branches: list[Trajectory] = field(default_factory=list)

    def __repr__(self) -> str:
        return f"Trajectory({self.scenario.id!r}, sample={self.sample}, turns={len(self.turns)})"

    @property
    def text(self) -> str:
        """The last turn's text: what TRL calls the completion."""
        return self.turns[-1].text if self.turns else ""

    @property
    def answer(self) -> str:
        """The text that rewards judge: the workflow's answer if it is a string, else the last turn's text."""
        answer = ANSWER.get(self)
        return answer if isinstance(answer, str) else self.text

    @property
    def length(self) -> int:
        """The number of decisions in all turns."""
        return sum(len(turn) for turn in self.turns)


@dataclass
class Experience:
    """The result of a rollout. `discarded` trajectories were sampled and scored but are not learnt from."""

    trajectories: list[Trajectory]
    discarded: list[Trajectory] = field(default_factory=list)
    metrics: dict[str, float] = field(default_factory=dict)


# ---------------------------------------------------------------- input and output of objectives


class Quantity(enum.StrEnum):
    """A differentiable output of the current policy that an objective may need."""

    LOGP = "logp"
    ENTROPY = "entropy"
    VALUE = "value"
    KL_EXACT = "kl_exact"
    SCORE = "score"
    BELIEF = "belief"
    BALANCE = "balance"
    DIVERGENCE = "divergence"
    ACTION_VALUE = "action_value"
    BACKUP = "backup"
    PATHWISE = "pathwise"
    TEMPERATURE = "temperature"
    STATE_VALUE = "state_value"
    CONSERVATIVE = "conservative"
    DYNAMICS = "dynamics"
    DENOISING = "denoising"
    FEASIBILITY = "feasibility"
    DISTILLATION = "distillation"


COMPARED = frozenset({Quantity.KL_EXACT, Quantity.DIVERGENCE})
"""Quantities that are evaluated against a reference."""


@dataclass(frozen=True)
class Evaluation:
    """Outputs of the current policy for a batch's decisions; each `[T]`, zero where it was not evaluated.

    `kl_exact` is KL(policy || reference) over all actions at each decision, in nats. `score` `[T, K]` are the outputs
    of a scorer: K numbers that depend on the decision itself, unlike `value`, which depends on the state before it.
    A scorer has no log-probs: its `logp` is 0. `belief` `[T, D]` is the output of a belief model for the loss that
    trains it (see `hocket.policies.beliefs`). `balance` is how unevenly a mixture of experts is used where a decision
    was read, 1 when evenly (see `hocket.policies.routes`). `divergence` is the one that a stage chose
    (`hocket.core.divergences.DivergencePart`), from the reference, over all actions at each decision, in nats.

    Of policies with action values (see `hocket.policies.action_values`): `action_value` `[T, K]` is Q of the recorded
    action by each of K critics; `backup` `[T]` what it should be, without gradient; `pathwise` `[T]` the actor's loss
    at an action drawn anew, whose gradient reaches the actor alone; `temperature` `[T]` the loss of the temperature.
    `state_value` `[T, 2]` is V of the state, and the smallest slow Q of the recorded action, without gradient.
    `conservative` `[T, K]` is the soft maximum of Q over actions, less Q of the recorded one. `dynamics` `[T, K]` is
    -log p of what followed and was paid, by each of K models that learn from the row, 0 by others. `denoising` `[T]` is
    the squared error of a denoiser at the recorded action, summed over its dimensions. `feasibility` `[T, 3 + K]` is
    the danger of the state, of the recorded action and what it should be, both without gradient, and by K critics.
    `distillation` `[T]` is the squared distance of a policy's action from its teacher's, summed over its dimensions.
    """

    logp: Tensor
    entropy: Tensor | None = None
    value: Tensor | None = None
    kl_exact: Tensor | None = None
    score: Tensor | None = None
    belief: Tensor | None = None
    balance: Tensor | None = None
    divergence: Tensor | None = None
    action_value: Tensor | None = None
    backup: Tensor | None = None
    pathwise: Tensor | None = None
    temperature: Tensor | None = None
    state_value: Tensor | None = None
    conservative: Tensor | None = None
    dynamics: Tensor | None = None
    denoising: Tensor | None = None
    feasibility: Tensor | None = None
    distillation: Tensor | None = None

    def get(self, quantity: Quantity) -> Tensor:
        """The tensor of one quantity; raises `ValueError` when it was not evaluated."""
        tensor = getattr(self, quantity.value)
        if tensor is None:
            raise ValueError(f"the policy was not asked for {quantity.value}: add it to the objective's needs")
        return tensor  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Terms:
    """A loss as a weighted sum: loss = sum_k weight_k * value_k, minimised.

    Weights include the global denominators, so the sums over any split of the terms add up to the loss. With `unit`
    `DECISION`, term k belongs to occurrence k (K = E) and depends on that decision alone; with any other unit a term
    may couple decisions.
    """

    value: Tensor
    weight: Tensor
    unit: Level = Level.DECISION
    metrics: Mapping[str, float | Tensor] = field(default_factory=dict)

    def total(self) -> Tensor:
        """The loss, a scalar. Terms of weight 0 contribute exactly 0, whatever their value."""
        nonzero = self.weight != 0
        if nonzero.shape == self.value.shape and bool(nonzero.all()):  # The usual case; indexing is the main cost.
            return (self.value * self.weight).sum()
        return (self.value[nonzero] * self.weight[nonzero]).sum()


LossFunction = Callable[[Evaluation, Batch], list[Terms]]
"""All terms of a recipe: the objective's and each regulariser's."""
