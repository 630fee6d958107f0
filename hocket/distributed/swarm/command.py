"""`hocket swarm`: nodes that train on one machine, each a run of its own in a folder of its own."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hocket import tasks
from hocket.core.components import has_path
from hocket.core.compression import Bits, Blocks
from hocket.core.errors import ConfigurationError, nearest
from hocket.distributed.swarm.averaging import Averaging
from hocket.distributed.swarm.node import NodeSharing, NodeTrainer
from hocket.distributed.swarm.swarm import Swarm
from hocket.recipes import find
from hocket.stages import Metrics
from hocket.train.config import configure
from hocket.train.disk import json_ready, write_atomic
from hocket.update.outer import OuterStep

Pairs = Sequence[tuple[str, Any]]

DEFENCES = {
    "none": "sapo-swarm",
    "likelihood": "hail-to-the-thief",
    "judge": "hail-to-the-thief-judge",
}
"""The recipe of honest nodes by defence."""

AVERAGED = "grpo"
"""The recipe of nodes that share weights."""

NUMBER = "{node}"
"""In a task's name, each node's number."""

COMPRESSIONS: Mapping[str, Bits | None] = {"int8": 8, "int4": 4, "none": None}
"""Bits of a weight's change."""

ATTACKER = "hail-to-the-thief-attacker"
ATTACKS = {"trigger": ("Banana! ", 1), "long": ("Let me think. ", 10)}
"""What attackers put into right answers, and how many times over."""


@dataclass(frozen=True)
class SwarmSettings:
    """What `hocket swarm` is asked for.

    Attributes:
        nodes: how many there are; the last `attackers` of them attack.
        own, shared: groups of a step that a node samples, and takes from others (4 where None).
        attack: what attackers publish. text: the foreign text in it; None is the attack's own.
        defence: what honest nodes do about it. recipe: of honest nodes instead; None is the defence's.
        trust: believe the questions and right answers that others send; else only one's own task's.
        task: as in `hocket train`; `{node}` in it stands for a node's number, so that each may have data of its own.
        average: after how many steps the nodes' weights become their mean; 0 is never. Then nodes begin with equal
            weights, and by default take no groups of each other.
        outer_lr, outer_momentum: of the step that the shared weights make (`hocket.update.outer`).
        compress: how changes of weights travel.
        out: where the nodes' folders are made.
    """

    nodes: int = 8
    own: int = 4
    shared: int | None = None
    attackers: int = 0
    attack: str = "trigger"
    text: str | None = None
    defence: str = "none"
    recipe: str | None = None
    trust: bool = False
    average: int = 0
    outer_lr: float = 1.0
    outer_momentum: float = 0.0
    compress: str = "int8"
    task: str = "sums"
    seed: int = 0
    out: str | None = None

    def __post_init__(self) -> None:
        if self.nodes < 2:
            raise ConfigurationError(f"nodes = {self.nodes}: a swarm has at least 2; `hocket train` trains one alone")
        if self.own < 0 or self.taken < 0:
            raise ConfigurationError(f"own = {self.own}, shared = {self.taken}: neither may be below 0")
        if self.own + self.taken == 0:
            raise ConfigurationError(
                "own + shared = 0: a step would have nothing to learn from; set --own 4 --shared 4"
            )
        if self.own == 0:
            raise ConfigurationError("own = 0: nodes that sample nothing have nothing to share; set --own to 1 or more")
        if not 0 <= self.attackers < self.nodes:
            raise ConfigurationError(
                f"attackers = {self.attackers}: they must be fewer than the {self.nodes} nodes, and not below 0"
            )
        for name, value, known in (
            ("defence", self.defence, DEFENCES),
            ("attack", self.attack, ATTACKS),
            ("compress", self.compress, COMPRESSIONS),
        ):
            if value not in known:
                raise ConfigurationError(f"{name} {value!r} is unknown{nearest(value, known)}")
        if self.recipe is not None and self.defence != "none":
            raise ConfigurationError(f"recipe = {self.recipe} and defence = {self.defence}: the defence is a recipe")
        if self.text is not None and not self.attackers:
            raise ConfigurationError("text is what attackers put into answers: add --attackers 1, or drop it")
        self._check_averaging()

    def _check_averaging(self) -> None:
        if self.average < 0:
            raise ConfigurationError(
                f"average = {self.average}: after how many steps weights are averaged, 0 for never"
            )
        if not self.average and (self.outer_lr, self.outer_momentum) != (1.0, 0.0):
            raise ConfigurationError("outer_lr and outer_momentum belong to averaged weights: add --average 10")
        if self.average and (self.attackers or self.defence != "none"):
            raise ConfigurationError("averaging believes what nodes send: leave out --attackers and --defence")
        try:
            OuterStep(self.outer_lr, self.outer_momentum)
        except ValueError as error:
            raise ConfigurationError(f"outer step: {error}") from error

    @property
    def taken(self) -> int:
        """Groups of others in a step."""
        if self.shared is not None:
            return self.shared
        return 0 if self.average else 4

    @property
    def honest_recipe(self) -> str:
        """The recipe of nodes that do not attack."""
        if self.recipe is not None:
            return self.recipe
        return AVERAGED if self.average and not self.taken else DEFENCES[self.defence]

    @property
    def trigger(self) -> str:
        """The foreign text."""
        return ATTACKS[self.attack][0] if self.text is None else self.text

    def is_attacker(self, number: int) -> bool:
        """Whether a node attacks; nodes are numbered from 0."""
        return number >= self.nodes - self.attackers


def pairs_of(settings: SwarmSettings, number: int, name: str, folder: Path, pairs: Pairs) -> list[tuple[str, Any]]:
    """The settings of one node's run, which is in a folder."""
    if settings.is_attacker(number):
        recipe = ATTACKER
        node_settings = [
            ("rollout.publish.insert", settings.trigger),
            ("rollout.publish.times", ATTACKS[settings.attack][1]),
        ]
        pairs = [pair for pair in pairs if pair[0] not in ("judge", "update.lr")]
    else:
        recipe = settings.honest_recipe
        if not has_path(find(recipe), "curriculum.prompts"):
            raise ConfigurationError(f"recipe {recipe} does not say how many groups a step has; use another")
        if has_path(find(recipe), "rollout.shared"):
            node_settings = [("rollout.shared", settings.taken)]
        elif settings.average and not settings.taken:
            node_settings = []
        else:
            raise ConfigurationError(f"recipe {recipe} takes no shared groups; use one made from sapo-swarm")
    quick = [("evaluation.n", 200), ("evaluation.every", 0)]
    fixed = [("seed", settings.seed + number), ("runs", str(folder)), ("run", name)]
    return [("recipe", recipe), *quick, ("curriculum.prompts", settings.own), *node_settings, *pairs, *fixed]


def node_run(
    settings: SwarmSettings,
    number: int,
    name: str,
    folder: Path,
    pairs: Pairs,
    report: Callable[[Path], object] | None,
) -> NodeTrainer:
    """A node's run, ready for its first step and yet to be joined."""
    task_name = settings.task.replace(NUMBER, str(number))
    task = tasks.find(task_name)
    config = configure([("task", task_name), *pairs_of(settings, number, name, folder, pairs)], task)
    trainer = NodeTrainer(config, task=task, report=report)
    trainer.watch = settings.trigger if settings.attackers else None
    return trainer


class SwarmRun:
    """Nodes of one process, ready for their first round.

    Args:
        settings: see there.
        pairs: further settings of every node's run, by dotted path, as `hocket train` takes them.
        report: writes what people read of a node's finished run, given its folder.

    Attributes:
        folder: with a folder per node. nodes: their runs by name. swarm: takes the turns.
    """

    def __init__(
        self, settings: SwarmSettings, pairs: Pairs = (), *, report: Callable[[Path], object] | None = None
    ) -> None:
        self.settings = settings
        self.folder = _free(settings.out)
        self.swarm = Swarm(recompute=not settings.trust)
        self.nodes: dict[str, NodeTrainer] = {}
        self._rows: dict[str, list[Metrics]] = {}
        self._averaged = 0
        try:
            for number in range(settings.nodes):
                self._add(number, pairs, report)
            self.averaging = self._averaging() if settings.average else None
        except BaseException:
            for trainer in self.nodes.values():
                trainer.folder.abandon(new=True)
            raise

    def _averaging(self) -> Averaging:
        """What brings the nodes' weights together, which are equal from here on."""
        settings = self.settings
        policies = {
            name: {role: learner.policy for role, learner in trainer.parts.learners.items() if not learner.frozen}
            for name, trainer in self.nodes.items()
        }
        outer = OuterStep(settings.outer_lr, settings.outer_momentum)
        return Averaging(policies, outer=outer, blocks=Blocks(COMPRESSIONS[settings.compress]))

    def _add(self, number: int, pairs: Pairs, report: Callable[[Path], object] | None) -> None:
        name = f"node-{number}"
        self.nodes[name] = trainer = node_run(self.settings, number, name, self.folder, pairs, report)
        line = self.swarm.line(name, trainer.task)
        trainer.join(line)
        self._rows[name] = []
        self.swarm.add(line, lambda: self._rows[name].append(trainer.step()))

    @property
    def rounds(self) -> int:
        """Rounds made."""
        return self.swarm.rounds

    @property
    def total_steps(self) -> int:
        """Rounds to make."""
        return max(trainer.total_steps for trainer in self.nodes.values())

    def begin(self) -> None:
        """Measures every node before training."""
        for trainer in self.nodes.values():
            trainer.step()

    def round(self) -> Metrics:
        """One step of every node that lives; means over the honest ones."""
        self.swarm.round()
        due = self.averaging is not None and self.swarm.rounds % self.settings.average == 0
        averaged = self._average(self.averaging) if self.averaging is not None and due else {}
        honest = [member.name for member in self.swarm.alive if not self._attacks(member.name)]
        rows = [self._rows[name][-1] for name in honest]
        names = ("reward/own", "reward/shared", "shared/groups", "shared/ratio", "swarm/emitted", "length/mean")
        metrics = {name: value for name in names if not math.isnan(value := _mean(rows, name))}
        if "reward/own" not in metrics:
            metrics["reward/mean"] = _mean(rows, "reward/mean")
        return metrics | averaged

    def _average(self, averaging: Averaging) -> Metrics:
        """The nodes' weights become one."""
        self._averaged = self.swarm.rounds
        return averaging.exchange({member.name: self.nodes[member.name].examples() for member in self.swarm.alive})

    def finish(self, reason: str) -> dict[str, Any]:
        """Ends the runs of nodes that live, and writes and returns what came of all."""
        if self.averaging is not None and self.swarm.rounds:
            self._end_together(self.averaging)
        for member in self.swarm.alive:
            self.nodes[member.name].finish(reason)
        summary = {
            "settings": asdict(self.settings),
            "rounds": self.swarm.rounds,
            "reason": reason,
            "nodes": {name: self._report(name) for name in self.nodes},
            **({} if self.averaging is None else {"averaging": self._told_of_weights(self.averaging)}),
        }
        write_atomic(self.folder / "swarm.json", json.dumps(json_ready(summary), indent=2, ensure_ascii=False) + "\n")
        return {**summary, "path": str(self.folder)}

    def _end_together(self, averaging: Averaging) -> None:
        """All end with the shared weights, which are measured and kept."""
        if self._averaged < self.swarm.rounds:
            self._average(averaging)
        for member in self.swarm.alive:
            self.nodes[member.name].measure_again()

    def _report(self, name: str) -> dict[str, Any]:
        """What came of one node."""
        member = self.swarm.members[name]
        report = report_of(self.nodes[name], self._rows[name], member.line)
        return {**report, "attacker": self._attacks(name), "fault": member.fault}

    def _told_of_weights(self, averaging: Averaging) -> dict[str, Any]:
        """What the exchange of weights cost; `bytes_each_step` is what one of float32 gradients at every step costs."""
        weights = sum(map(len, averaging.shared.values.values()))
        return {
            "weights": weights,
            "messages": {name: count for name, count in averaging.counts.items() if name != "bytes"},
            "bytes": averaging.counts["bytes"],
            "bytes_each_step": 4 * weights * sum(trainer.progress.step for trainer in self.nodes.values()),
        }

    def _attacks(self, name: str) -> bool:
        return self.settings.is_attacker(list(self.nodes).index(name))


def report_of(trainer: NodeTrainer, rows: Sequence[Metrics], line: NodeSharing) -> dict[str, Any]:
    """What came of a node's run, and of its messages."""
    measure = trainer.measure.name
    emitted = [row["swarm/emitted"] for row in rows if "swarm/emitted" in row]
    return {
        "recipe": trainer.config.method,
        "attacker": False,
        "steps": trainer.progress.step,
        "fault": None,
        "before": trainer.progress.before.get(measure),
        "after": trainer.progress.after.get(measure) if rows else None,
        "cumulative_reward": sum(row.get("reward/own", row.get("reward/mean", 0.0)) for row in rows),
        "off_policy_ratio": _finite(_mean(rows, "shared/ratio")),
        "off_policy_log_ratio": _finite(_mean(rows, "shared/log_ratio")),
        "emitted": [emitted[0], emitted[-1]] if emitted else None,
        "shared_groups": sum(row.get("shared/groups", 0.0) for row in rows),
        "sent": dict(line.sent),
        "messages": dict(line.pool.counts),
    }


def _mean(rows: Sequence[Mapping[str, Any]], name: str) -> float:
    values = [float(row[name]) for row in rows if name in row and not math.isnan(row[name])]
    return sum(values) / len(values) if values else math.nan


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _free(out: str | None) -> Path:
    """A new folder: the one asked for, else the first free `runs/swarm-N`.

    Raises:
        ConfigurationError: when it holds something already.
    """
    if out is None:
        number = 1
        while (folder := Path("runs") / f"swarm-{number}").exists():
            number += 1
        return folder
    folder = Path(out)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigurationError(f"{folder} is not empty; a swarm begins in a folder of its own, give --out another")
    return folder
