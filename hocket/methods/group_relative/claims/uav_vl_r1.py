"""UAV-VL-R1's claims."""

from __future__ import annotations

from statistics import fmean
from typing import Any, cast

from hocket.core.keys import Key
from hocket.lab.claims.harness import EXACT, Claims, Finding, gap, say
from hocket.lab.toys.pictured_runs import PicturedRun
from hocket.lab.toys.recorded_answers import answer, lines, shaped
from hocket.methods.group_relative.uav_vl_r1 import STAGES, UAV_VL_R1, KindStages
from hocket.train.ledger import Ledger
from hocket.types import Scenario

claim = Claims("uav-vl-r1", "arXiv:2508.11196")


class Endless:
    """Questions of eight kinds in turn."""

    def size(self, split: str) -> int | None:
        return None

    def scenario(self, split: str, number: int) -> Scenario:
        kinds = [kind for stage in STAGES for kind in stage]
        return Scenario(f"n{number}", "?", metadata={"kind": kinds[number % len(kinds)]})


def kinds(curriculum: KindStages, asked: int, count: int) -> list[str]:
    task: Any = Endless()
    drawn = curriculum(task, asked, count, cast(Any, Ledger()), Key.of(0))
    return [str(item.metadata["kind"]) for item in drawn]


@claim(
    "Each stage adds its kinds to those before, 320 scenarios a stage, the last for the rest; in any order of calls."
)
def each_stage_adds_its_kinds_to_those_before_it() -> Finding:
    curriculum = UAV_VL_R1.curriculum
    assert isinstance(curriculum, KindStages)
    first, second, third = ({*stage} for stage in STAGES)
    parts = [set(kinds(curriculum, at, 60)) for at in (0, 260, 320, 580, 640, 5000)]
    wanted = [first, first, first | second, first | second, first | second | third, first | second | third]
    edge = kinds(curriculum, 319, 1)[0] in first and curriculum.kinds_at(319) == first
    edge &= curriculum.kinds_at(320) == first | second and curriculum.prompts == 16
    one_by_one = [kinds(curriculum, place, 1)[0] for place in range(310, 330)]
    return Finding(parts == wanted and edge and one_by_one == kinds(curriculum, 310, 20), say(stages=len(STAGES)))


@claim("The reward is the verdict and a point for a filled thought and one answer in tags.")
def the_reward_is_the_verdict_and_a_point_for_the_tags() -> Finding:
    worked = "<think>rs gb</think><answer>2</answer>"
    texts = (worked, "<answer>2</answer>", "<think></think><answer>2</answer>", "")
    result = shaped(UAV_VL_R1, [answer(verdict, 2, text=text) for text in texts for verdict in (0.0, 1.0)])
    wanted = [verdict + (text == worked) for text in texts for verdict in (0.0, 1.0)]
    return Finding(gap(result, wanted) < EXACT, say(texts=len(texts)))


@claim(
    "With stages of 96 scenarios it is right 10 points more often than lessons alone; hardest first is no better.",
    slow=True,
)
def it_is_right_more_often_than_lessons_alone() -> Finding:
    steps, n, right = 18, 100, dict[str, float]()
    stages = {"curriculum.per_stage": 16 * steps // 3}
    run = PicturedRun.of(UAV_VL_R1.but(stages), "digits")
    right["lessons"] = run.measured(n).success
    result = run.train(steps).measured(n)
    right["staged"], right["blind"] = result.success, run.blind(n).success
    hard = PicturedRun.of(UAV_VL_R1.but({**stages, "curriculum.stages": STAGES[::-1]}), "digits").train(steps)
    right["hardest first"] = hard.measured(n).success
    verdicts: dict[str, list[float]] = {}
    for trajectory, verdict in zip(result.trajectories, result.each, strict=True):
        verdicts.setdefault(str(trajectory.scenario.metadata["kind"]), []).append(verdict)
    kinds = {kind: fmean(row) for kind, row in sorted(verdicts.items())}
    holds = right["staged"] > right["lessons"] + 0.1 and right["hardest first"] < right["staged"] + 0.05
    return Finding(holds and right["blind"] < 0.4, lines(right=right, by_kind=kinds))


claim.shipped(UAV_VL_R1, "curriculum", settings={"model": "nano-vlm"})
