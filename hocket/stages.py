"""The base classes of the stages. A stage is a frozen dataclass: its fields are its configuration.

    Curriculum -> [ Rollout <-> Reward ] -> Annotate -> Credit -> Objective -> Update -> weights

Data flows one way: a stage imports the shared types and never another stage's room. Every stage derives from the base
class of its kind, which derives from `Stage`; `Stage` declares what a stage may need and what it may provide. A stage
with memory has a *state*: a tree of numbers and tensors that `init()` makes and the loop passes from call to call, so
that a checkpoint is one tree (see `Stateful`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from hocket.core.batch import Batch, Level, Occurrences
from hocket.core.columns import Column
from hocket.core.errors import ConfigurationError
from hocket.core.examples import Example
from hocket.core.keys import Key
from hocket.core.outcomes import StepResult
from hocket.core.policy_parts import PolicyPart
from hocket.core.posterior import Outcomes
from hocket.core.statistics import SampleStatistic
from hocket.types import Assignment, Evaluation, Experience, Quantity, Scenario, Terms, Trajectory, Turn

Play = Callable[[Sequence[Assignment]], Awaitable[list[Trajectory]]]
"""Plays every sample of every assignment; trajectories come back in assignment order, then sample order."""


@runtime_checkable
class Tokenizer(Protocol):
    """Text to token ids and back. Players of language models have one; rollouts that cut or continue text use it."""

    def encode(self, text: str, after: Sequence[int] = ()) -> tuple[int, ...]:
        """Ids of a piece of a response, without any special token around it.

        Args:
            after: the ids of the response before this piece; empty when the piece begins the response.
        """

    def decode(self, tokens: Sequence[int]) -> str:
        """Token ids as text, special tokens included."""


def tokenizer_of(play: Play) -> Tokenizer | None:
    """The tokenizer of the player behind `play`; None if decisions are not tokens of text."""
    tokenizer = getattr(play, "tokenizer", None)
    return tokenizer if isinstance(tokenizer, Tokenizer) else None


@runtime_checkable
class LogProbScorer(Protocol):
    """A player that computes log-probs of a given response to a recorded turn under the current policy."""

    async def likelihood(self, asked: Sequence[tuple[Turn, Sequence[int]]]) -> list[NDArray[np.float32] | None]:
        """Log-probs `[L]` of the given tokens in place of each turn's response; None where they are unknown."""


def log_prob_scorer_of(play: Play) -> LogProbScorer | None:
    """The player behind `play` if it computes log-probs of given responses, else None."""
    player = getattr(play, "player", None)
    return player if isinstance(player, LogProbScorer) else None


Grade = Callable[[Sequence[Trajectory]], Awaitable[None]]
"""Scores trajectories in place."""

More = Callable[[int], Sequence[Assignment]]
"""The curriculum's next n assignments."""

State = dict[str, Any]
"""The memory of a stage: numbers, strings, tensors, and lists and dicts of these."""

Split = Literal["train", "eval"]

Metrics = dict[str, float]


@runtime_checkable
class Stateful(Protocol):
    """A stage with memory. Its call takes the state and returns `(result, new state)` instead of the result alone."""

    def init(self) -> State:
        """The state before the first step."""


class Task(Protocol):
    """A source of scenarios, with verifiers for their answers.

    Scenarios are numbered, so the order of a run is a function of its key alone. `train` and `eval` scenarios are
    disjoint by content.
    """

    @property
    def name(self) -> str: ...

    @property
    def kind(self) -> Any:
        """The kind of policy: `text`, `control`, `FILE.py:NAME`, `MODULE:NAME`, or a `hocket.train.kinds.Kind`."""

    def size(self, split: Split) -> int | None:
        """The number of scenarios; None when they are generated without end."""

    def scenario(self, split: Split, number: int) -> Scenario:
        """Scenario `number` of a split."""

    @property
    def rewards(self) -> Sequence[Reward]:
        """The task's own verifiers; empty when its player scores trajectories itself."""

    def suggest(self, recipe: Any) -> Mapping[str, Any]:
        """Settings of run and recipe for this task, by dotted key. Flags override them; unknown keys are skipped."""

    def describe(self, trajectory: Trajectory) -> Mapping[str, float]:
        """Metrics of an answer besides its reward, such as `format` or `working`, each in [0, 1]."""

    def success(self, trajectory: Trajectory) -> float:
        """The number that evaluation averages: 1 for a right answer and 0 for a wrong one, or an episode's return."""


@runtime_checkable
class LedgerView(Protocol):
    """Read-only history of scenarios, written by the loop alone in assignment order."""

    def history(self, scenario: str) -> Sequence[float]:
        """Mean rewards of the scenario's past groups, oldest first."""

    def outcomes(self, scenario: str) -> Outcomes:
        """How often the scenario was tried in the run, and how often it was solved."""

    @property
    def revision(self) -> int:
        """A count that grows with every record."""

    def changed_since(self, revision: int) -> Iterable[str]:
        """The scenarios recorded after that revision; all others are unchanged."""


# ---------------------------------------------------------------- stages

if TYPE_CHECKING:
    fact = property
else:

    class fact:
        """A property that a subclass may override by a class variable or a field, also one without default."""

        def __init__(self, usual: Callable[[Any], Any]) -> None:
            self.usual = usual
            self.__doc__ = usual.__doc__

        def __get__(self, stage: Any, owner: Any = None) -> Any:
            if stage is None:
                raise AttributeError("what a class does not state is known of its instances alone")
            return self.usual(stage)


class Stage:
    """The base of all stages. It declares what a stage may need and provide, with defaults.

    A class overrides these declarations by a class variable, a field or a property. The default of each is computed
    from the parts of the stage (the stages in its fields), so a wrapper needs no forwarding code. A recipe collects the
    needs of all its stages and their parts, so no wrapper can hide a need.
    """

    room: ClassVar[str] = ""
    """The subpackage of hocket that holds stages of this kind."""

    lengths: ClassVar[tuple[str, ...]] = ()
    """Fields that are response lengths in decisions: a run scales them to its longest response."""

    def parts(self) -> tuple[Stage, ...]:
        """The stages in its fields, also those in tuples and mappings."""
        return tuple(stage for value in vars(self).values() for stage in _stages_in(value))

    # ------------------------------------------------------------ needs

    @fact
    def reads(self) -> frozenset[Column]:
        """Recorded columns it reads; Annotate fills them."""
        return frozenset[Column]().union(*(part.reads for part in self.parts()))

    @fact
    def statistics(self) -> frozenset[SampleStatistic]:
        """Per-sample statistics whose summaries it reads from the ledger; training measures them."""
        return frozenset[SampleStatistic]().union(*(part.statistics for part in self.parts()))

    @fact
    def needs(self) -> frozenset[Quantity]:
        """Differentiable quantities that it needs from the current policy."""
        return frozenset[Quantity]().union(*(part.needs for part in self.parts()))

    @fact
    def couples(self) -> Level:
        """The smallest unit that must not be split when gradients are accumulated."""
        return coarsest(part.couples for part in self.parts())

    @fact
    def outputs(self) -> int:
        """How many outputs of a scorer it reads; 0 if it reads no scores."""
        return max((part.outputs for part in self.parts()), default=0)

    @fact
    def least_samples(self) -> int:
        """The minimum number of samples per scenario that it compares."""
        return max((part.least_samples for part in self.parts()), default=1)

    @fact
    def needs_baseline(self) -> bool:
        """Whether it reads trajectories of source `baseline`, which the rollout must provide."""
        return any(part.needs_baseline for part in self.parts())

    @fact
    def plays_reference(self) -> bool:
        """Whether it samples from the policy as it was before training."""
        return any(part.plays_reference for part in self.parts())

    @fact
    def needs_text(self) -> bool:
        """Whether its scenarios must be text."""
        return any(part.needs_text for part in self.parts())

    @fact
    def policy_parts(self) -> tuple[PolicyPart, ...]:
        """Parts that its policy must have, without duplicates."""
        return tuple(dict.fromkeys(needed for part in self.parts() for needed in part.policy_parts))

    @fact
    def on_policy_only(self) -> bool:
        """Whether it is correct only for the first update from a batch."""
        return any(part.on_policy_only for part in self.parts())

    @fact
    def compares_pairs(self) -> bool:
        """Whether it reads preference pairs, which credit must provide."""
        return self.couples is Level.PAIR or any(part.compares_pairs for part in self.parts())

    @fact
    def reads_metadata(self) -> frozenset[str]:
        """Metadata keys of scenarios that it reads; a task without any of them raises an error that names them."""
        return frozenset[str]().union(*(part.reads_metadata for part in self.parts()))

    # ------------------------------------------------------------ what it provides

    @fact
    def pairs(self) -> bool:
        """Whether it produces preference pairs instead of advantages."""
        return any(part.pairs for part in self.parts())

    @fact
    def gives_targets(self) -> bool:
        """Whether it produces targets of a value function."""
        parts = self.parts()
        return bool(parts) and all(part.gives_targets for part in parts)

    @fact
    def gives_baseline(self) -> bool:
        """Whether it produces trajectories of source `baseline`."""
        parts = self.parts()
        return bool(parts) and all(part.gives_baseline for part in parts)

    @fact
    def idle_without_advantage(self) -> bool:
        """Whether occurrences with advantage 0 have zero gradient, so that the learner may skip them."""
        parts = self.parts()
        return bool(parts) and all(part.idle_without_advantage for part in parts)


def _stages_in(value: object) -> Iterator[Stage]:
    if isinstance(value, Stage):
        yield value
    elif isinstance(value, (tuple, list)):
        for member in value:
            yield from _stages_in(member)
    elif isinstance(value, Mapping):
        yield from _stages_in(tuple(value.values()))


def walk(stage: Stage) -> Iterator[Stage]:
    """A stage and all stages nested in it, depth first."""
    yield stage
    for part in stage.parts():
        yield from walk(part)


def coarsest(levels: Iterable[Level]) -> Level:
    """The largest of several units; `DECISION` if there are none."""
    return max(levels, key=list(Level).index, default=Level.DECISION)


class Curriculum(Stage):
    """Selects the scenarios of each step."""

    room = "curriculum"

    @fact
    def prompts(self) -> int:
        """The number of scenarios per step."""
        raise NotImplementedError

    def __call__(self, task: Task, asked: int, count: int, ledger: LedgerView, key: Key) -> list[Scenario]:
        """The next `count` scenarios; `asked` counts those that the run has drawn so far. `key` is the run's."""
        raise NotImplementedError

    def again(self, task: Task, first: int, position: int) -> int:
        """How often the scenario at `position` may have been drawn before in a step that began at position `first`.

        Samplers that draw the scenarios of a step one by one, independently of each other, number repeated scenarios
        by it. Positions that may draw the same scenario have different numbers.
        """
        return position - first


class Rollout(Stage):
    """Samples trajectories for the scenarios of a step; it may read scores and sample more."""

    room = "rollout"
    retrospective: ClassVar[bool] = False  # Whether its decisions probe finished samples, which tell no KL.

    @fact
    def samples(self) -> int | None:
        """The number of samples per scenario; None if it is not fixed."""
        return None

    @fact
    def replays(self) -> Example | None:
        """The responses that it takes from the scenarios instead of sampling; None if it samples."""
        return next((part.replays for part in self.parts() if isinstance(part, Rollout)), None)

    def unfit(self, prompts: int) -> str | None:
        """Why it cannot sample `prompts` scenarios per step, with the correction, as one sentence; None if it can."""
        rollouts = (part for part in self.parts() if isinstance(part, Rollout))
        return next((reason for rollout in rollouts if (reason := rollout.unfit(prompts))), None)

    def at(self, step: int) -> Rollout:
        """The rollout for `step` (counted from 1)."""
        return self

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
        """The experience of one step. `asked` has one assignment per scenario, with the run's decoding.

        `more(n)` draws n further assignments from the curriculum; it is None if there are none.
        """
        raise NotImplementedError


class Reward(Stage):
    """Scores trajectories."""

    room = "rewards"

    @fact
    def name(self) -> str:
        """The name of its score."""
        raise NotImplementedError

    @fact
    def weight(self) -> float:
        """The factor of its score in the weighted sum."""
        raise NotImplementedError

    @fact
    def outside(self) -> bool:
        """Whether its results come from outside the library, so that the journal must record them."""
        rewards = [part for part in self.parts() if isinstance(part, Reward)]
        return not rewards or any(reward.outside for reward in rewards)

    async def __call__(self, trajectories: Sequence[Trajectory], *, key: Key) -> Sequence[float | None]:
        """One number per trajectory; None if the reward has no opinion."""
        raise NotImplementedError


class Shaping(Stage):
    """Changes scores with a view of the whole group: length penalties, KL in the reward, virtual samples."""

    room = "rewards"

    def __call__(self, batch: Batch) -> Batch:
        """A batch with changed or added scores, or changed weights. Pure."""
        raise NotImplementedError


class Combine(Stage):
    """Combines all scores into the score `reward` (and, per decision, `reward/decision`)."""

    room = "rewards"

    def __call__(self, batch: Batch, weights: Mapping[str, float]) -> Batch:
        """The batch with its rewards; `weights` are those of the named scores."""
        raise NotImplementedError


class Credit(Stage):
    """Computes the advantages (and value targets, or pairs) of a batch's occurrences. Pure."""

    room = "credit"

    def __call__(self, batch: Batch) -> Occurrences:
        """The batch's occurrences with advantages."""
        raise NotImplementedError


class Correction(Stage):
    """Reweights experience that was not sampled from the current policy."""

    room = "credit"

    def __call__(self, batch: Batch) -> Batch:
        """The batch with other weights."""
        raise NotImplementedError


class Objective(Stage):
    """A loss. Regularisers are objectives too; the terms of all add up."""

    room = "objectives"

    @fact
    def held_out(self) -> str | None:
        """The metric of its terms that evaluates held-out data for a model that generates no answers; else None."""
        return None

    def __call__(self, now: Evaluation, batch: Batch) -> Terms:
        """Value and weight of every term; the weights include the denominators."""
        raise NotImplementedError


class Player(Protocol):
    """Samples trajectories for assignments with the current policies."""

    async def play(self, assignments: Sequence[Assignment], *, key: Key) -> list[Trajectory]:
        """Every sample of every assignment, in assignment order, then sample order.

        Sample i of an assignment draws from `key.derive(scenario.id, assignment.source, assignment.first + i)`, so a
        trajectory does not depend on the other assignments. A failed attempt is returned with its `failure`.
        """


class HookContext(Protocol):
    """The interface of a run for its hooks: what they may read, and the operations they may call."""

    @property
    def method(self) -> str:
        """The name of the recipe that selects the scenarios."""

    @property
    def task(self) -> Task: ...

    @property
    def player(self) -> Player:
        """The player of the run, before any hook replaces it for a step."""

    @property
    def trained(self) -> Mapping[str, Policy]:
        """The policies in training by name, without frozen ones."""

    @property
    def weights(self) -> Mapping[str, float]:
        """The weight of each named score."""

    @property
    def key(self) -> Key:
        """The run's root key."""

    @property
    def overlap(self) -> int:
        """How many updates old the samples are."""

    async def evaluate(self, n: int, *, key: Key, split: Split = "eval") -> float:
        """The mean success on the first `n` scenarios of a split, one greedy sample each."""

    def learn(
        self, result: StepResult, trajectories: Sequence[Trajectory], policy: str, *, step: int, key: Key
    ) -> None:
        """Updates `policy` alone from trajectories, after the regular updates; adds metrics and credit to `result`."""


class Hook(Stage):
    """Actions of a method around a step. A frozen dataclass that overrides the methods it needs.

    Hooks are listed in the recipe's slot `hooks`; a reward may be a hook as well. A step calls `before` of every hook,
    then `assign`, `seat` and, after the updates, `after`. `begin` makes the memory of a hook, and the loop passes it
    from call to call: plain numbers and tensors, or anything that `state` and `restore` convert to such data.
    """

    room = "hooks"

    def check(self, run: HookContext) -> None:
        """Checks a run before its first step.

        Raises:
            ConfigurationError: when the run cannot support the hook. By default, when it has `before` or `after` and
                the run overlaps sampling with updates, because these are not called then.
        """
        kind = type(self)
        if run.overlap and (kind.before is not Hook.before or kind.after is not Hook.after):
            raise ConfigurationError(
                f"overlap = {run.overlap} learns while it samples, and {kind.__name__} of recipe {run.method} acts "
                "between the two; drop it"
            )

    def begin(self, run: HookContext, earlier: State | None) -> Any:
        """The memory at the beginning of a phase; `earlier` is the hook's state from an earlier phase, if any."""
        return {}

    async def before(self, run: HookContext, step: int, memory: Any) -> Any:
        """Acts before the rollout of `step` (counted from 1); returns the new memory."""
        return memory

    def assign(self, assignment: Assignment, step: int) -> Assignment:
        """The assignment with which a scenario is sampled at `step`."""
        return assignment

    def seat(self, player: Player, run: HookContext, step: int, memory: Any) -> Player:
        """The player of `step`."""
        return player

    def withheld(self, run: HookContext) -> frozenset[str]:
        """Policies that the regular updates skip; `after` may update them."""
        return frozenset()

    async def after(self, run: HookContext, step: int, result: StepResult, memory: Any) -> Any:
        """Acts after the updates; returns the new memory."""
        return memory

    def state(self, memory: Any, run: HookContext) -> State:
        """The part of the memory that a checkpoint saves; nothing when it is empty."""
        return dict(memory)

    def restore(self, state: State, run: HookContext) -> Any:
        """The inverse of `state`."""
        return state


class Policy(Protocol):
    """A policy. Implementations: `hocket.policies`."""

    name: str
    version: int

    @property
    def module(self) -> nn.Module:
        """All trainable and frozen weights, value head included."""

    @property
    def granularity(self) -> Level:
        """The smallest unit that it evaluates at no extra cost: `DECISION` without context, else `TRAJECTORY`.

        With `DECISION`, mini-batches are made by `Batch.take`, and `evaluate` reads turns of the original batch.
        """

    @property
    def default_lr(self) -> float:
        """The learning rate for recipes that state none; it depends on the size of the network."""

    def require(self, needs: frozenset[Quantity]) -> None:
        """Adds the outputs that objectives need (a value head) before training starts."""

    def chunks(self, batch: Batch, decisions: Tensor) -> list[Tensor]:
        """Splits decision indices into parts small enough for one forward and backward pass."""

    def evaluate(
        self,
        batch: Batch,
        needs: Iterable[Quantity],
        decisions: Tensor | None = None,
        *,
        reference: Policy | None = None,
    ) -> Evaluation:
        """Log-probs and the like of `decisions` (all when None), scattered into `[T]` tensors.

        Log-probs are at each turn's sampling temperature. `reference` is needed for `KL_EXACT` and `DIVERGENCE` only.
        """

    def final_values(self, batch: Batch) -> Tensor:
        """Values of final states, `[N]`, 0 where the trajectory was not truncated; requires a value head."""

    def frozen_copy(self) -> Policy:
        """An independent copy that is never trained: a reference."""

    def save(self, folder: Path) -> None:
        """Writes the weights in their standard format (HF for language models)."""

    def load(self, folder: Path) -> None:
        """Reads weights written by `save` into this policy."""
