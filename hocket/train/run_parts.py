"""The parts of a run: everything that a training step reads or changes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hocket.core.keys import Key
from hocket.core.outcomes import StepResult
from hocket.rewards import remembering
from hocket.rewards.judging import Judge
from hocket.stages import Hook, Player, Policy, Reward, Split, State, Task
from hocket.train.embedders import Embedder
from hocket.train.evaluate import evaluate
from hocket.train.hooks import Hooks, named
from hocket.train.journal import Journal
from hocket.train.kinds import Measure, kind_of, measure_of
from hocket.train.learner import Learner
from hocket.train.ledger import Ledger
from hocket.types import Decoding, Trajectory


@dataclass
class RunParts(ABC):
    """Everything that a training step reads or changes, and the interface of a run for its hooks.

    The learners, the ledger, `asked` and the memory of hooks and rewards change from step to step; a checkpoint holds
    exactly these.

    Attributes:
        task: the source of scenarios. player: samples trajectories. rewards: score them; those with memory hold their
            current memory.
        learners: the trained policies by name; the first one's recipe selects scenarios and samples them.
        decoding: how training samples are drawn. key: the run's root key.
        ledger: history per scenario. journal: results from outside the library, by key. asked: the number of scenarios
            drawn so far.
        rewards_by_phase: the rewards of each phase of the run; `rewards` are those of the current phase.
        overlap: how many updates the sampling weights lag behind the learner's; see `hocket.train.overlap`.
        hooks: calls the hooks and holds their memory.
        judge: a model that stages question. embedder: computes embeddings of texts, if a stage reads them.
        store: the memory of the recipe's store; None before it has one.
        needs_reward: whether the task cannot verify answers, so that only rewards tell right from wrong.
    """

    task: Task
    player: Player
    rewards: Sequence[Reward]
    learners: Mapping[str, Learner]
    decoding: Decoding
    key: Key
    ledger: Ledger
    journal: Journal | None = None
    asked: int = 0
    rewards_by_phase: Sequence[Sequence[Reward]] = ()
    overlap: int = 0
    hooks: Hooks = field(default_factory=Hooks)
    judge: Judge | None = None
    embedder: Embedder | None = None
    store: State | None = None
    needs_reward: bool = False

    def __post_init__(self) -> None:
        self.rewards = remembering.recalled(self.rewards)

    @property
    def lead(self) -> Learner:
        return next(iter(self.learners.values()))

    @property
    def measure(self) -> Measure:
        """The number that evaluation averages in the current phase."""
        judged = bool(self.rewards) or not self.needs_reward
        return measure_of(self.lead.recipe, kind_of(self.task), judged=judged)

    @property
    def largest(self) -> int:
        """The number of parameters of the largest policy."""
        modules = [learner.policy.module for learner in self.learners.values()]
        return max(sum(tensor.numel() for tensor in module.parameters()) for module in modules)

    @property
    def weights(self) -> dict[str, float]:
        """The weight of each named score."""
        return {reward.name: reward.weight for reward in self.rewards}

    # ------------------------------------------------------------ phases

    def begin_phase(self, number: int, learners: Mapping[str, Learner]) -> None:
        """Ends the current phase and enters another one (numbered from 0) with its learners and rewards."""
        self.hooks.end_phase(self)
        self.enter_phase(number, learners)

    def enter_phase(self, number: int, learners: Mapping[str, Learner]) -> None:
        """Sets the learners and rewards of a phase, also after a resume."""
        self.learners = learners
        if self.rewards_by_phase:
            self.rewards = remembering.recalled(self.rewards_by_phase[number], self.rewards)

    # ------------------------------------------------------------ interface for hooks

    @property
    def active(self) -> dict[str, Hook]:
        """The hooks of the first learner's recipe, then the rewards that are hooks, by name."""
        return named([*self.lead.recipe.hooks, *(reward for reward in self.rewards if isinstance(reward, Hook))])

    @property
    def method(self) -> str:
        return self.lead.recipe.name

    @property
    def trained(self) -> dict[str, Policy]:
        return {name: learner.policy for name, learner in self.learners.items() if not learner.frozen}

    async def evaluate(self, n: int, *, key: Key, split: Split = "eval") -> float:
        """The mean success on the first `n` scenarios of a split, one greedy sample each."""
        measured = await evaluate(self.task, self.player, (), n=n, decoding=self.decoding, key=key, split=split)
        return measured.success

    @abstractmethod
    def learn(
        self, result: StepResult, trajectories: Sequence[Trajectory], policy: str, *, step: int, key: Key
    ) -> None:
        """Updates `policy` alone from trajectories, after the regular updates; adds metrics and credit to `result`."""
