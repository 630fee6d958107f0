"""A node of a swarm: a training run of its own whose player also hears what others sampled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import torch

from hocket.agents.workflows.player import TextPlayer
from hocket.core.batch import Batch
from hocket.core.outcomes import StepResult
from hocket.distributed.swarm.messages import Malformed, Oversized, encoded
from hocket.distributed.swarm.pool import NodeInbox
from hocket.rollout.sharing import TOLD_LOGP, SharedGroup, Sharing
from hocket.stages import Metrics, Player
from hocket.train.loop import RunContext
from hocket.train.trainer import Trainer
from hocket.types import Trajectory

Send = Callable[[bytes], None]
"""Sends a message to all others; it may arrive late, twice or never."""


class NodeSharing:
    """A node's way to the others (`hocket.rollout.sharing.Sharing`): groups become messages, messages groups.

    Attributes:
        pool: what was received. sent: groups published, or the reason why not, counted.
    """

    def __init__(self, node: str, pool: NodeInbox, send: Send) -> None:
        self.node, self.pool = node, pool
        self.sent: Counter[str] = Counter()
        self._send, self._step = send, 0

    def begin(self) -> None:
        """The node begins its next step."""
        self._step += 1
        self.pool.begin()

    def publish(self, groups: Sequence[SharedGroup]) -> None:
        """Sends every group that is plain data and not too large."""
        for group in groups:
            try:
                data = encoded(group, self.node, self._step)
            except Oversized:
                self.sent["oversized"] += 1
            except Malformed:
                self.sent["unsendable"] += 1
            else:
                self.sent["sent"] += 1
                self.sent["bytes"] += len(data)
                self._send(data)

    def received(self) -> Sequence[SharedGroup]:
        """What is held now."""
        return self.pool.groups()


# ---------------------------------------------------------------- players


def joined(player: Player, sharing: Sharing) -> Player:
    """The player that rollouts find the swarm behind."""
    if isinstance(player, TextPlayer):
        plain = {part.name: getattr(player, part.name) for part in fields(TextPlayer)}
        return SharingText(**plain, sharing=sharing)
    return SharingPlayer(player, sharing)


@dataclass(frozen=True)
class SharingText(TextPlayer):
    """Plays workflows, as a member of a swarm."""

    sharing: Sharing = field(kw_only=True)


class SharingPlayer:
    """Plays as another player does, as a member of a swarm."""

    def __init__(self, player: Player, sharing: Sharing) -> None:
        self._here, self.sharing = player, sharing
        self.play = player.play

    def __getattr__(self, name: str) -> Any:
        return getattr(self._here, name)


# ---------------------------------------------------------------- what is measured


def off_policy(result: StepResult) -> Metrics:
    """How far received answers are from the node's own, where their senders told log-probs.

    With d = log pi(answer) - log pi_sender(answer) before the update, in nats: `shared/log_ratio` is the mean of d,
    `shared/ratio` e to the mean of d per token, `shared/log_ratio_least` the least d. All of it rests on what senders
    say, and nothing is learnt from it.
    """
    batch, known = result.batch, [TOLD_LOGP.get(trajectory) for trajectory in result.trajectories]
    if batch is None or all(logp is None for logp in known):
        return {}
    learnt = summed_logp(batch).tolist()
    answers = zip(learnt, known, result.trajectories, strict=True)
    gaps = [(ours - theirs, trajectory.length) for ours, theirs, trajectory in answers if theirs is not None]
    per_token = sum(gap for gap, _ in gaps) / sum(length for _, length in gaps)
    return {
        "shared/log_ratio": sum(gap for gap, _ in gaps) / len(gaps),
        "shared/log_ratio_least": min(gap for gap, _ in gaps),
        "shared/ratio": float(torch.tensor(per_token, dtype=torch.float64).exp()),
    }


def summed_logp(batch: Batch) -> torch.Tensor:
    """The log-prob of each trajectory's decisions under the policy as the step began, `[N]` float64."""
    occurrences = batch.occurrences
    recorded = batch.logp["proximal"] if "proximal" in batch.logp else batch.logp["behaviour"]
    each = torch.where(recorded.present, recorded.values.double(), 0.0)[occurrences.decision]
    return torch.zeros(batch.trajectories, dtype=torch.float64).index_add(0, occurrences.trajectory, each)


def emitted(trajectories: Sequence[Trajectory], trigger: str) -> float:
    """The share of a node's own samples that hold a text; NaN of none."""
    samples = [trajectory for trajectory in trajectories if trajectory.source == "own" and trajectory.failure is None]
    return sum(trigger in trajectory.text for trajectory in samples) / len(samples) if samples else float("nan")


class NodeTrainer(Trainer):
    """A run of its own whose steps also tell how it fares in the swarm.

    Attributes:
        watch: a text whose share among the node's own samples is followed as `swarm/emitted`; None follows none.
    """

    watch: str | None = None
    _learnt = 0

    def examples(self) -> int:
        """How many examples the weights rest on since this was last asked.

        The size of the task's training split where it ends, as in federated averaging, else the trajectories seen.
        """
        size = self.task.size("train")
        learnt, self._learnt = self._learnt, 0
        return learnt if size is None or not learnt else size

    def measure_again(self) -> None:
        """Measures and keeps the weights as they are after the last step, which others have changed since."""
        step = self.progress.step
        self._log(step, self._evaluate(step))
        self.save(best=self.progress.best.get("step") == step)

    def join(self, line: NodeSharing) -> None:
        """Makes it a member, before its first step."""
        self._line = line
        join(self.parts, line)

    def _train(self, step: int) -> StepResult:
        result = super()._train(step)
        self._learnt += len(result.trajectories)
        result.metrics |= off_policy(result)
        if self.watch is not None and result.experience is not None:
            result.metrics["swarm/emitted"] = emitted(result.experience.trajectories, self.watch)
        return result


def join(parts: RunContext, line: NodeSharing) -> None:
    """Makes a run a member of the swarm that `line` leads to."""
    parts.player = joined(parts.player, line)
