"""What the stages are. A stage is a frozen dataclass: its fields are its configuration.

    Curriculum -> [ Rollout <-> Reward ] -> Annotate -> Credit -> Objective -> Update -> weights

Data flows one way; a stage imports the vocabulary and never its neighbours. Each derives from the base of its kind,
below `Stage`, which says what a stage may need and promise. What a stage remembers is a *state*, a tree of numbers and
tensors made by `init()` and threaded by the loop, so that a checkpoint is one tree (see `Stateful`).
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
    """Text to token ids and back. Players of language models have it; a rollout that cuts or continues text asks it."""

    def encode(self, text: str, after: Sequence[int] = ()) -> tuple[int, ...]:
        """Ids of a piece of a response, without any special token around it.

        Args:
            after: the response's ids before it; without any the piece begins the response.
        """

    def decode(self, tokens: Sequence[int]) -> str:
        """Token ids as text, special tokens included."""


def tokenizer_of(play: Play) -> Tokenizer | None:
    """What turns text into tokens for the player behind `play`; None where decisions are no words."""
    found = getattr(play, "tokenizer", None)
    return found if isinstance(found, Tokenizer) else None


@runtime_checkable
class LogProbScorer(Protocol):
    """A player that can say how likely a given response to a recorded turn is under the policy as it is now."""

    async def likelihood(self, asked: Sequence[tuple[Turn, Sequence[int]]]) -> list[NDArray[np.float32] | None]:
        """Log-probs `[L]` of the imposed tokens in place of each turn's response; None where they cannot be told."""


def log_prob_scorer_of(play: Play) -> LogProbScorer | None:
    """What tells likelihoods for the player behind `play`; None where nothing does."""
    found = getattr(play, "player", None)
    return found if isinstance(found, LogProbScorer) else None


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

    def size(self, split: Split) -> int | None:
        """How many scenarios there are; None when they are generated without end."""

    def scenario(self, split: Split, number: int) -> Scenario:
        """Scenario `number` of a split."""

    @property
    def rewards(self) -> Sequence[Reward]:
        """The task's own verifiers; empty when its player scores trajectories itself."""

    def suggest(self, recipe: Any) -> Mapping[str, Any]:
        """Dotted settings of run and recipe that suit this task; applied where the recipe has the key, before flags."""

    def describe(self, trajectory: Trajectory) -> Mapping[str, float]:
        """Traits of an answer worth following besides its reward, such as `format` or `working`, each in [0, 1]."""

    def success(self, trajectory: Trajectory) -> float:
        """What evaluation averages: 1 for a right answer and 0 for a wrong one, or an episode's return."""


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
        """The scenarios of the records after that revision; of no other has anything changed."""


# ---------------------------------------------------------------- stages

if TYPE_CHECKING:
    fact = property
else:

    class fact:
        """A property that a subclass may state as a class variable or a field, also one without default."""

        def __init__(self, usual: Callable[[Any], Any]) -> None:
            self.usual = usual
            self.__doc__ = usual.__doc__

        def __get__(self, stage: Any, owner: Any = None) -> Any:
            if stage is None:
                raise AttributeError("what a class does not state is known of its instances alone")
            return self.usual(stage)


class Stage:
    """What a stage may need and promise, and what holds where it says nothing.

    A class states what is true of itself, as a class variable, a field or a property. What it does not state, its parts
    (the stages in its fields) say together; so a stage that wraps another passes nothing on. Besides, a recipe gathers
    every need over all its stages and their parts, and no wrapper can hide one.
    """

    room: ClassVar[str] = ""
    """The package where the library keeps stages of this kind."""

    lengths: ClassVar[tuple[str, ...]] = ()
    """Settings that are lengths of a response in decisions: in a run they follow the longest that may be sampled."""

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
        """Numbers per sample whose summaries it reads in the ledger; training measures them."""
        return frozenset[SampleStatistic]().union(*(part.statistics for part in self.parts()))

    @fact
    def needs(self) -> frozenset[Quantity]:
        """What it needs from the current policy, differentiable."""
        return frozenset[Quantity]().union(*(part.needs for part in self.parts()))

    @fact
    def couples(self) -> Level:
        """The smallest unit that must not be split when gradients are accumulated."""
        return coarsest(part.couples for part in self.parts())

    @fact
    def outputs(self) -> int:
        """How many outputs of a scorer it reads; 0 where it reads no scores."""
        return max((part.outputs for part in self.parts()), default=0)

    @fact
    def least_samples(self) -> int:
        """How many samples of a scenario it compares at least."""
        return max((part.least_samples for part in self.parts()), default=1)

    @fact
    def needs_baseline(self) -> bool:
        """Whether it reads trajectories of source `baseline`, which the rollout must give."""
        return any(part.needs_baseline for part in self.parts())

    @fact
    def plays_reference(self) -> bool:
        """Whether it samples from the policy as it was before training."""
        return any(part.plays_reference for part in self.parts())

    @fact
    def needs_text(self) -> bool:
        """Whether its scenarios are words."""
        return any(part.needs_text for part in self.parts())

    @fact
    def policy_parts(self) -> tuple[PolicyPart, ...]:
        """Parts that its policy must have, each once."""
        return tuple(dict.fromkeys(one for part in self.parts() for one in part.policy_parts))

    @fact
    def on_policy_only(self) -> bool:
        """Whether it is right for the first update from a batch alone."""
        return any(part.on_policy_only for part in self.parts())

    @fact
    def compares_pairs(self) -> bool:
        """Whether it reads preference pairs, which credit must give."""
        return self.couples is Level.PAIR or any(part.compares_pairs for part in self.parts())

    @fact
    def reads_metadata(self) -> frozenset[str]:
        """What it reads of a scenario's metadata; a task that tells none of it, by name, is refused."""
        return frozenset[str]().union(*(part.reads_metadata for part in self.parts()))

    # ------------------------------------------------------------ promises

    @fact
    def pairs(self) -> bool:
        """Whether it yields preference pairs instead of advantages."""
        return any(part.pairs for part in self.parts())

    @fact
    def gives_targets(self) -> bool:
        """Whether it yields targets of a value function."""
        parts = self.parts()
        return bool(parts) and all(part.gives_targets for part in parts)

    @fact
    def gives_baseline(self) -> bool:
        """Whether it yields trajectories of source `baseline`."""
        parts = self.parts()
        return bool(parts) and all(part.gives_baseline for part in parts)

    @fact
    def idle_without_advantage(self) -> bool:
        """Whether an occurrence of advantage 0 has zero gradient, so that the learner may skip it."""
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
    """A stage, its parts, theirs, and so on: depth first."""
    yield stage
    for part in stage.parts():
        yield from walk(part)


def coarsest(levels: Iterable[Level]) -> Level:
    """The largest of several units; a decision where there are none."""
    return max(levels, key=list(Level).index, default=Level.DECISION)


class Curriculum(Stage):
    """What is asked, and how often."""

    room = "curriculum"

    @fact
    def prompts(self) -> int:
        """Scenarios per step."""
        raise NotImplementedError

    def __call__(self, task: Task, asked: int, count: int, ledger: LedgerView, key: Key) -> list[Scenario]:
        """The next `count` scenarios, `asked` having been asked for in the run so far. The key is the run's."""
        raise NotImplementedError

    def again(self, task: Task, first: int, position: int) -> int:
        """How often the scenario at `position` may have been asked before in a step that began at position `first`.

        It is asked where a step's scenarios are asked one by one, by samplers that do not see each other's. Positions
        that may ask the same have different numbers.
        """
        return position - first


class Rollout(Stage):
    """Who is asked how many times; may look at scores and ask again."""

    room = "rollout"

    @fact
    def samples(self) -> int | None:
        """Samples of one scenario; None where that is no fixed number."""
        return None

    @fact
    def replays(self) -> Example | None:
        """Which responses it takes from the scenarios instead of sampling them; None where it samples."""
        return next((part.replays for part in self.parts() if isinstance(part, Rollout)), None)

    def unfit(self, prompts: int) -> str | None:
        """Why it cannot sample so many scenarios a step, as a sentence with the mend; None where it can."""
        return next((why for one in self.parts() if isinstance(one, Rollout) and (why := one.unfit(prompts))), None)

    def at(self, step: int) -> Rollout:
        """The rollout of `step` (from 1)."""
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
        """Experience for one step. `asked` has one assignment per scenario, with the run's decoding.

        `more(n)` asks the curriculum for n further ones; None where it has none to give.
        """
        raise NotImplementedError


class Reward(Stage):
    """How good a trajectory is."""

    room = "rewards"

    @fact
    def name(self) -> str:
        """Names its score."""
        raise NotImplementedError

    @fact
    def weight(self) -> float:
        """The factor on its score in a weighted sum."""
        raise NotImplementedError

    @fact
    def outside(self) -> bool:
        """Whether its answers come from outside the library, so that they must be journalled."""
        rewards = [part for part in self.parts() if isinstance(part, Reward)]
        return not rewards or any(reward.outside for reward in rewards)

    async def __call__(self, trajectories: Sequence[Trajectory], *, key: Key) -> Sequence[float | None]:
        """One number per trajectory; None is no opinion."""
        raise NotImplementedError


class Shaping(Stage):
    """Group-aware edits of scores: length penalties, KL in the reward, virtual samples."""

    room = "rewards"

    def __call__(self, batch: Batch) -> Batch:
        """A batch with changed or added scores, or changed weights. Pure."""
        raise NotImplementedError


class Combine(Stage):
    """From several scores to the one named `reward` (and, per decision, `reward/decision`)."""

    room = "rewards"

    def __call__(self, batch: Batch, weights: Mapping[str, float]) -> Batch:
        """The batch with its rewards; `weights` are those of the named scores."""
        raise NotImplementedError


class Credit(Stage):
    """Who gets how much: fills advantages (and value targets, or pairs) of a batch's occurrences. Pure."""

    room = "credit"

    def __call__(self, batch: Batch) -> Occurrences:
        """The batch's occurrences, credited."""
        raise NotImplementedError


class Correction(Stage):
    """Weights for experience that is not from the current policy."""

    room = "credit"

    def __call__(self, batch: Batch) -> Batch:
        """The batch with other weights."""
        raise NotImplementedError


class Objective(Stage):
    """What is minimised. A regulariser is an objective too; terms add."""

    room = "objectives"

    @fact
    def held_out(self) -> str | None:
        """Which metric of its terms held-out data are measured by, where a policy answers nothing; else None."""
        return None

    def __call__(self, now: Evaluation, batch: Batch) -> Terms:
        """Value and weight of every term; the weights contain the denominators."""
        raise NotImplementedError


class Player(Protocol):
    """Acts out assignments with the current policies and records what happened."""

    async def play(self, assignments: Sequence[Assignment], *, key: Key) -> list[Trajectory]:
        """Every sample of every assignment, in assignment order, then sample order.

        Sample i of an assignment draws from `key.derive(scenario.id, assignment.source, assignment.first + i)`, so a
        trajectory does not depend on what is played beside it. An attempt that fails is returned with its `failure`.
        """


class HookContext(Protocol):
    """A run as its hooks see it, and what they may have it do."""

    @property
    def method(self) -> str:
        """The name of the recipe that decides what is asked."""

    @property
    def task(self) -> Task: ...

    @property
    def player(self) -> Player:
        """As the run is set up, before anybody is seated for a step."""

    @property
    def trained(self) -> Mapping[str, Policy]:
        """The policies in training by name, frozen ones left out."""

    @property
    def weights(self) -> Mapping[str, float]:
        """The weight of each named score."""

    @property
    def key(self) -> Key:
        """The run's root key."""

    @property
    def overlap(self) -> int:
        """How many updates old samples are."""

    async def evaluate(self, n: int, *, key: Key, split: Split = "eval") -> float:
        """The success on the first `n` scenarios of a split of the task, greedily, once each."""

    def learn(
        self, result: StepResult, trajectories: Sequence[Trajectory], policy: str, *, step: int, key: Key
    ) -> None:
        """One update of `policy` alone from trajectories, after the others' one; metrics and credit join `result`."""


class Hook(Stage):
    """What a method does around a step, beside its stages. A frozen dataclass that overrides what it needs.

    Hooks stand in the recipe's slot `hooks`; a reward may be one as well. A step calls, in this order, `before` every
    hook, then `assign`, `seat` and, once the policies have learnt, `after`. What a hook remembers is made by `begin`
    and threaded by the loop: plain numbers and tensors, or anything that `state` and `restore` turn into such data.
    """

    room = "hooks"

    def check(self, run: HookContext) -> None:
        """Looks at a run that is set up, before its first step.

        Raises:
            ConfigurationError: when the run cannot honour the hook. By default, with overlap: there `before` and
                `after` are not called.
        """
        own = type(self)
        if run.overlap and (own.before is not Hook.before or own.after is not Hook.after):
            raise ConfigurationError(
                f"overlap = {run.overlap} learns while it samples, and {own.__name__} of recipe {run.method} acts "
                "between the two; drop it"
            )

    def begin(self, run: HookContext, earlier: State | None) -> Any:
        """The memory at the beginning of a phase; `earlier` is the state that one before left, if one had this hook."""
        return {}

    async def before(self, run: HookContext, step: int, memory: Any) -> Any:
        """Acts before `step` (from 1) is collected; returns what is remembered from then on."""
        return memory

    def assign(self, assignment: Assignment, step: int) -> Assignment:
        """How a scenario is sampled at `step`."""
        return assignment

    def seat(self, player: Player, run: HookContext, step: int, memory: Any) -> Player:
        """Who plays at `step`."""
        return player

    def withheld(self, run: HookContext) -> frozenset[str]:
        """Policies that do not learn with the others; `after` may let them."""
        return frozenset()

    async def after(self, run: HookContext, step: int, result: StepResult, memory: Any) -> Any:
        """Acts when the policies have learnt; returns what is remembered from then on."""
        return memory

    def state(self, memory: Any, run: HookContext) -> State:
        """What a checkpoint keeps of the memory; nothing when it is empty."""
        return dict(memory)

    def restore(self, state: State, run: HookContext) -> Any:
        """The inverse of `state`."""
        return state


class Policy(Protocol):
    """Who decides. Implementations: `hocket.policies`."""

    name: str
    version: int

    @property
    def module(self) -> nn.Module:
        """All trainable and frozen weights, value head included."""

    @property
    def granularity(self) -> Level:
        """The smallest part it evaluates at no extra cost: `DECISION` without context, else `TRAJECTORY`.

        Of a policy of the first kind mini-batches are made by `Batch.take`: `evaluate` reads turns where those were
        taken from.
        """

    @property
    def default_lr(self) -> float:
        """A learning rate that suits a network of this size, for recipes that leave it open."""

    def require(self, needs: frozenset[Quantity]) -> None:
        """Adds what objectives need (a value head) before training starts."""

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

        Log-probs are at each turn's sampling temperature. `reference` is needed for `KL_EXACT` only.
        """

    def final_values(self, batch: Batch) -> Tensor:
        """Values of final states where truncated, `[N]`, 0 elsewhere; needs a value head."""

    def frozen_copy(self) -> Policy:
        """An independent copy that is never trained: a reference."""

    def save(self, folder: Path) -> None:
        """Writes the weights in their standard format (HF for language models)."""

    def load(self, folder: Path) -> None:
        """Reads weights written by `save` into this policy."""
