"""UAV-VL-R1: after lessons, GRPO in stages that add kinds of question (Guan et al., arXiv:2508.11196).

`KindStages` draws scenarios of the kinds of a stage; each stage adds kinds to those before. The reward is a right
answer and the tags around thought and answer.
"""

from __future__ import annotations

from dataclasses import dataclass

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.curriculum.random_order import Shuffled, permutation
from hocket.methods.base.grpo import GRPO, GRPO_KL
from hocket.rewards.tags import TagFormat
from hocket.stages import Curriculum, LedgerView, Task
from hocket.types import Scenario

STAGES = (("count",), ("largest",), ("sum",))
"""Kinds of question of the task `digits`, from counting to adding."""

TRIES = 64
"""Scenarios that are looked at for one of the wanted kinds."""


@dataclass(frozen=True)
class KindStages(Curriculum):
    """Scenarios by the kind that their metadata name: those of a stage and of the stages before it.

    A stage lasts `per_stage` scenarios, the last for the rest of the run. A kind that no stage names is never drawn.

    Attributes:
        prompts: scenarios per step. stages: the kinds that each stage adds. key: the entry of the metadata.

    Raises:
        ConfigurationError: on a call, when `TRIES` scenarios in a row are of no wanted kind.
    """

    prompts: int = 16
    stages: tuple[tuple[str, ...], ...] = STAGES
    per_stage: int = 320
    key: str = "kind"

    def __post_init__(self) -> None:
        if self.prompts < 1 or self.per_stage < 1:
            raise ValueError("prompts and per_stage must be at least 1")
        if not self.stages or not all(self.stages):
            raise ValueError("stages must name at least one kind each")

    def kinds_at(self, position: int) -> frozenset[str]:
        """The kinds that may be drawn at a position of the run."""
        last = min(position // self.per_stage, len(self.stages) - 1)
        return frozenset(kind for stage in self.stages[: last + 1] for kind in stage)

    def __call__(self, task: Task, asked: int, count: int, ledger: LedgerView, key: Key) -> list[Scenario]:
        return [self._drawn(task, asked + place, ledger, key) for place in range(count)]

    def _drawn(self, task: Task, position: int, ledger: LedgerView, key: Key) -> Scenario:
        kinds = self.kinds_at(position)
        for place in permutation(key.derive("kinds", position), TRIES).tolist():
            (scenario,) = Shuffled(prompts=1)(task, position * TRIES + place, 1, ledger, key)
            if scenario.metadata.get(self.key) in kinds:
                return scenario
        raise ConfigurationError(
            f"curriculum: {TRIES} scenarios in a row are none of {', '.join(sorted(kinds))}; correct "
            "curriculum.stages, or take a task whose metadata name these kinds"
        )


UAV_VL_R1 = GRPO_KL.but(
    name="uav-vl-r1",
    title="UAV-VL-R1: GRPO in stages of question types",
    source="Guan et al., UAV-VL-R1, arXiv:2508.11196 (abstract)",
    catalogue_ids=("uav-vl-r1",),
    axes=("data", "reward", "policy"),
    task="digits",
    formula="stage s: GRPO with KL on the kinds of stages 1 to s,  R = [right] + [tags]",
    conventions={
        **GRPO.conventions,
        "KL": "k3 in the loss, coefficient 0.04",
        "stages": "curriculum.per_stage = 320 scenarios each, the last for the rest of the run; which kinds each adds "
        "is chosen here, from counting to adding",
        "warm start": "supervised fine-tuning before it: nano-vlm had lessons; for another model a plan",
        "tags": "shaping.0.weight = 1 for a filled thought and one answer in tags",
    },
    note="shown on three kinds of question about handwriting; the paper has eight about aerial pictures",
    curriculum=KindStages(),
    shaping=(TagFormat(weight=1.0, thought="filled"),),
)
