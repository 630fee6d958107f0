"""Named columns: further data of a batch, a trajectory or a turn beside its fields. Each is declared once.

A column is a value with a name and a description. It is declared in the file that writes it, or here if training writes
it or several subpackages share it. Writers and readers import the value, so its name is spelled once. A stage lists in
`reads` the columns that must be filled before it acts: the learner fills general columns and annotators (see
`hocket.core.annotators`), the loop fills token texts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from hocket.core.errors import ConfigurationError


@dataclass(frozen=True)
class Column:
    """A column that stages read: its name, and a sentence about its content.

    The general columns, class variables here, are those that the learner fills from evaluations of any policy.
    """

    name: str
    holds: str = field(compare=False)

    BEHAVIOUR: ClassVar[Column]
    PROXIMAL: ClassVar[Column]
    REFERENCE: ClassVar[Column]
    VALUE: ClassVar[Column]
    ENTROPY: ClassVar[Column]


Column.BEHAVIOUR = Column("behaviour", "Log-probs under the policy that sampled, [T] in nats: `Batch.logp`.")
Column.PROXIMAL = Column("proximal", "Log-probs under the learner as the step began, [T] in nats: `Batch.logp`.")
Column.REFERENCE = Column("reference", "Log-probs under the policy before training, [T] in nats: `Batch.logp`.")
Column.VALUE = Column("value", "Values of the states before decisions, [T], and of final states: `Batch.value`.")
Column.ENTROPY = Column("entropy", "Entropies of the policy, [T] in nats: `Batch.entropy`.")


class HasInfo(Protocol):
    """A batch, whose columns are lists of length N, or one trajectory."""

    @property
    def info(self) -> Mapping[str, Any]: ...


class WritableInfo(Protocol):
    """A trajectory."""

    @property
    def info(self) -> dict[str, Any]: ...


class InfoBatch(HasInfo, Protocol):
    """A batch."""

    @property
    def trajectories(self) -> int: ...


class HasExtras(Protocol):
    """A turn."""

    @property
    def extras(self) -> dict[str, Any]: ...


@dataclass(frozen=True)
class InfoColumn(Column):
    """A value per trajectory: `Trajectory.info`, and packed `Batch.info`, None where a trajectory has none."""

    def read(self, batch: HasInfo, reader: str) -> Sequence[Any]:
        """The column of a batch, `[N]`; raises `ConfigurationError` naming `reader` when the batch has none."""
        return info_column(batch, self.name, reader)

    def rows(self, batch: InfoBatch) -> Sequence[Any]:
        """The column of a batch, `[N]`; None throughout when the batch has none."""
        values: Sequence[Any] = batch.info.get(self.name) or [None] * batch.trajectories
        return values

    def or_metadata(self, batch: InfoBatch) -> Sequence[Any]:
        """The column of a batch, `[N]`, or else the scenarios' metadata of its name; None where both are missing."""
        return info_or_metadata(batch, self.name)

    def present(self, holder: HasInfo) -> bool:
        """Whether the batch or trajectory has it."""
        return self.name in holder.info

    def get(self, trajectory: HasInfo, default: Any = None) -> Any:
        """A trajectory's value, or the default."""
        return trajectory.info.get(self.name, default)

    def write(self, trajectory: WritableInfo, value: Any) -> None:
        """Sets a trajectory's value."""
        trajectory.info[self.name] = value


@dataclass(frozen=True)
class TurnColumn(Column):
    """A value per turn: `Turn.extras`."""

    def present(self, turn: HasExtras) -> bool:
        """Whether the turn has it."""
        return self.name in turn.extras

    def get(self, turn: HasExtras, default: Any = None) -> Any:
        """A turn's value, or the default."""
        return turn.extras.get(self.name, default)

    def write(self, turn: HasExtras, value: Any) -> None:
        """Sets a turn's value."""
        turn.extras[self.name] = value


def info_column(batch: HasInfo, name: str, reader: str) -> Sequence[Any]:
    """A column by a name from a setting, one value per trajectory. For declared columns use `InfoColumn.read`.

    Raises:
        ConfigurationError: when there is none; the message names `reader`.
    """
    if name not in batch.info:
        raise ConfigurationError(
            f"{reader} reads {name!r} of every trajectory, which this experience does not hold; in a recorded batch it "
            "stands in the trajectory or in its info"
        )
    values: Sequence[Any] = batch.info[name]
    return values


def info_or_metadata(batch: InfoBatch, name: str) -> Sequence[Any]:
    """One value per trajectory by a name from a setting: a column of the batch, or else of the scenarios' metadata."""
    if name in batch.info:
        return list(batch.info[name])
    return [(metadata or {}).get(name) for metadata in METADATA.rows(batch)]


# ---------------------------------------------------------------- written by training for every trajectory

PROMPT = InfoColumn("prompt", "What was asked, as text; empty where it was no text.")
TEXT = InfoColumn("text", "The last turn's text.")
TRACE = InfoColumn("trace", "The texts of all turns, a line between; recorded batches may leave it at `text`.")
LABEL = InfoColumn("label", "The final answer as a word, as the task reads it; None without one.")
HISTORY = InfoColumn("history", "`rewards`: the mean rewards of the scenario's past groups, oldest first.")
METADATA = InfoColumn("metadata", "The scenario's own metadata.")
EMBEDDING = InfoColumn("embedding", "A vector of the last turn's text; filled when a stage's `reads` has it.")
TURN_EMBEDDINGS = InfoColumn("turn_embeddings", "A vector of each turn's text, a list; where the run has an embedder.")
ORIGIN = InfoColumn("origin", "The scenario that this one was made from; None if from none.")
FEEDBACK = InfoColumn("feedback", "The words that scores came with, by the score's name.")
TOKEN_TEXTS = InfoColumn("pieces", "The text of each decision, a list; filled when a stage's `reads` has it.")

# ---------------------------------------------------------------- known of recorded answers

PAIR_WEIGHT = InfoColumn("pair_weight", "How much the pair counts whose preferred member this is, at least 0; else 1.")
PAIR_MARGIN = InfoColumn("pair_margin", "By how much its preferred member is to win at least, in reward; else 0.")
PAIR_TARGET = InfoColumn("pair_target", "The probability that its preferred member is the better one; else 1.")
WINS = InfoColumn("wins", "With which probability it beats each other of its group, by their places in order.")
MISMATCHED = InfoColumn("mismatched", "Whether the answer is another prompt's, there to estimate a divergence by.")

# ---------------------------------------------------------------- written by players

ANSWER = InfoColumn("answer", "What the workflow gave as its answer, which rewards judge instead of the last text.")
LIMIT = InfoColumn("limit", "The limit that cut the episode short, in words; absent where none did.")
TOOL_CALLS = InfoColumn("tool_calls", "How many calls of tools were made.")
CALLS = InfoColumn("calls", "The calls of tools, each a mapping with its `name`, arguments and result.")
MESSAGES = InfoColumn("messages", "How many messages the dialogue had.")
DATABASE = InfoColumn("database", "The database as the episode left it.")
SAID = InfoColumn("said", "Messages of an episode that others were shown, in order.")
GUESTS = InfoColumn("guests", "Who plays the roles that guests took, by role; absent where there were none.")
RETURNS = InfoColumn("returns", "What each seat of an environment earned in all, by seat.")
ILLEGAL = InfoColumn("illegal", "Moves of each seat that were illegal or unreadable, by seat.")
SENDER = InfoColumn("sender", "Of an answer that another node of a swarm shared, that node.")
ACTIONS = InfoColumn("actions", "What each turn did, in the environment's words, a list in call order.")

CONVERSATION = TurnColumn("conversation", "The number of the conversation that the turn belongs to.")
CALL = TurnColumn("call", "The number of the turn's call among those of its role in that conversation.")
ALLOWED = TurnColumn("allowed", "The actions that each decision was kept to, [L, V] bool; absent if to none.")
ENTROPIES = TurnColumn("entropies", "The entropy in nats of the first decisions sampled, as many as were asked.")
ALTERNATIVES = TurnColumn(
    "alternatives",
    "Of each decision sampled the likeliest K actions, as many as were asked, and their log-probs: [L, K].",
)
UNMASKED = TurnColumn("logp_unmasked", "Log-probs under the whole distribution where `allowed` cut it, [L] in nats.")
