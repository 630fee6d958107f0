"""Meta policy optimisation: the judge's rubric is revised while the policy trains (Kim et al., arXiv:2504.20157).

A judge grades answers by a rubric, and the policy learns from the grades by PPO. Every K steps a meta-reward model
looks at recent prompts, answers and grades: it picks those whose grading looks wrong or too coarse, says what is wrong,
writes a refined rubric for each, and merges these into the rubric that replaces the old one. So the reward changes on
purpose, and what a policy has learnt to exploit stops paying (`EvolvingRubric`). Steps and defaults were read from the
authors' code; the words of the questions are ours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar

import torch
from torch import Tensor

from hocket.core import sums
from hocket.core.batch import Batch, Level
from hocket.core.columns import PROMPT, TEXT
from hocket.core.errors import ConfigurationError
from hocket.core.requirements import Requirement
from hocket.core.signals import counted_trajectories, returns
from hocket.methods.base.ppo import PPO_RLHF
from hocket.rewards.judging import Judge, grades, said, verdicts
from hocket.rewards.members import with_return
from hocket.stages import Shaping, State

GRADE = "Grade an answer by this rubric.\n{rubric}\n\nQuestion:\n{prompt}\n\nAnswer:\n{text}\n"
PRESCREEN = (
    "{case}\n\nIs this grade wrong, has the answer gamed the rubric, or should the rubric be finer to tell such "
    "answers apart?"
)
ANALYSE = "{case}\n\nSay where the rubric is too coarse for this answer or is being gamed."
REFINE = "{case}\n\nWhat is wrong:\n{analysis}\n\nWrite a better rubric, and nothing else."
MERGE = "Merge these rubrics into one, and write nothing else.\n\n{rubrics}"
CASE = "Rubric:\n{rubric}\n\nQuestion:\n{prompt}\n\nAnswer:\n{text}\n\nGrade: {grade:.2f} of 1"

START = "Grade how right, how well founded and how clear the answer is."
"""The first rubric in words."""

SHOWN = 400
"""Characters of a question, an answer or a rubric that the meta-reward model is shown."""

Checklist = Mapping[str, float]
"""The weight of each feature that a rubric lists; features are scores of the answer."""

FEATURES: Checklist = MappingProxyType({"form": 1.0, "model": 1.0})
"""Those that `worked-sums?form=1&model=1` scores."""


@dataclass(frozen=True)
class EvolvingRubric(Shaping):
    """The return becomes the judge's grade in [0, 1] by a rubric that is revised after every `every` steps.

    With a judge the rubric is words, the judge grades by it, and the meta-reward model is the same judge; a question
    that it does not answer leaves the rubric, or the grade at 0. Without, the rubric is a checklist: the grade is
    sum_k w_k s_k / sum_k w_k over the answer's scores in `checklist`, and the revision is a rule (`revised`) that
    compares how features and a held-out score, `truth`, moved. Other scores are not learnt from; under the
    checklist as shipped, answers with none of these keep their return.

    Stateful: the rubric, how many steps it has graded, and what was seen since it was revised. The grade of a step is
    by the rubric as the step began.

    Attributes:
        every: K; 0 never revises, which is learning from a fixed judge. sample: the newest graded answers that the
            meta-reward model is shown. prescreen: whether it picks some of them first; merge: whether what it writes
            is merged, else its last rubric is taken (the paper's mathematics has neither).
        checklist: of the rule. truth: the name of the held-out score. factor: what the weight of an exploited feature
            is multiplied with. least: by how much a mean must have risen to count as rising.
        rubric: the first, in words. scale: of the judge's grades.

    Raises:
        ConfigurationError: on a call without a judge, for a batch that lacks one of these scores; with the checklist as
            shipped only for one that has some of them.
    """

    every: int = 10
    sample: int = 20
    prescreen: bool = True
    merge: bool = True
    checklist: Checklist = field(default_factory=lambda: dict(FEATURES))
    truth: str = "correct"
    factor: float = 0.5
    least: float = 0.01
    rubric: str = START
    scale: int = 10
    judge: Judge | None = None

    asks_judge: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.every < 0 or self.sample < 1 or self.scale < 1:
            raise ValueError(
                f"every must be at least 0, sample and scale at least 1, not {self.every}, {self.sample}, {self.scale}"
            )
        if not self.checklist or min(self.checklist.values()) <= 0:
            raise ValueError(f"checklist needs features with positive weights, not {dict(self.checklist)}")
        if not 0 < self.factor < 1 or self.least < 0:
            raise ValueError(f"factor must lie in (0, 1) and least be at least 0, not {self.factor} and {self.least}")

    def init(self) -> State:
        """The first rubric, nothing seen."""
        return {"steps": 0, "rubric": self.rubric, "weights": dict(self.checklist), "means": [], "cases": []}

    def __call__(self, batch: Batch, state: State) -> tuple[Batch, State]:  # type: ignore[override]
        state = {**state, "steps": state["steps"] + 1}
        if self.judge is None:
            grade, state["means"] = self._listed(batch, state)
        else:
            grade, state["cases"] = self._judged(self.judge, batch, state)
        if self.every and state["steps"] % self.every == 0:
            state |= self._revision(state)
        return with_return(batch, grade), state

    # ------------------------------------------------------------ by a checklist

    def _listed(self, batch: Batch, state: State) -> tuple[Tensor, list[dict[str, float]]]:
        """The grades `[N]`, and the means of features and truth step by step, this one's last."""
        weights, counted = state["weights"], counted_trajectories(batch)
        # The checklist as shipped is of one task, and a run of another keeps its rewards; one that is set is meant.
        if self.checklist == FEATURES and not batch.scores.keys() & weights.keys():
            return returns(batch), state["means"]
        scores = {name: self._score(batch, name) for name in (*weights, self.truth)}
        whole = sum(weights.values())
        grade = torch.stack([weight * scores[name] for name, weight in weights.items()]).sum(0) / whole
        if not bool(counted.any()) or not self.every:
            return grade, state["means"]
        return grade, [*state["means"], {name: float(score[counted].mean()) for name, score in scores.items()}]

    def _score(self, batch: Batch, name: str) -> Tensor:
        found = batch.scores.get(name)
        if found is None or found.level is not Level.TRAJECTORY:
            raise ConfigurationError(
                f"EvolvingRubric reads a score {name!r} of trajectories, and there is none; set shaping.0.checklist "
                "and shaping.0.truth to names of rewards (truth's own weight is not read), or name a --judge"
            )
        return torch.nan_to_num(found.values.double())

    def revised(self, weights: Checklist, means: Sequence[Mapping[str, float]]) -> dict[str, float]:
        """The weights after a revision: those of features that rose while the truth did not, times `factor`.

        Rising is by the means of the later half of the steps against those of the earlier half, by more than `least`.
        """
        half = len(means) // 2
        if half == 0:
            return dict(weights)

        def rises(name: str) -> bool:
            early, late = ([one[name] for one in part] for part in (means[:half], means[-half:]))
            return sums.mean(late) - sums.mean(early) > self.least

        gamed = not rises(self.truth)
        return {name: weight * (self.factor if gamed and rises(name) else 1.0) for name, weight in weights.items()}

    # ------------------------------------------------------------ by a judge

    def _judged(self, judge: Judge, batch: Batch, state: State) -> tuple[Tensor, list[list[Any]]]:
        """The grades `[N]`, and the newest cases: prompt, answer, grade."""
        texts, prompts = TEXT.read(batch, "EvolvingRubric"), PROMPT.rows(batch)
        pairs = [(prompt or "", text or "") for prompt, text in zip(prompts, texts, strict=True)]
        asked = [GRADE.format(rubric=state["rubric"], prompt=prompt, text=text) for prompt, text in pairs]
        found = [grade or 0.0 for grade in grades(judge, asked, self.scale)]
        used = counted_trajectories(batch).tolist()
        new = [[*pair, grade] for pair, grade, counted in zip(pairs, found, used, strict=True) if counted]
        return torch.tensor(found, dtype=torch.float64), [*state["cases"], *new][-self.sample :]

    def _revision(self, state: State) -> State:
        """What changes in the state with a revision."""
        if self.judge is None:
            return {"weights": self.revised(state["weights"], state["means"]), "means": []}
        return {"rubric": self.rewritten(self.judge, state["rubric"], state["cases"]), "cases": []}

    def rewritten(self, judge: Judge, rubric: str, seen: Sequence[Sequence[Any]]) -> str:
        """The rubric after a revision: prescreen, analyse, refine, merge."""
        cases = [
            CASE.format(rubric=rubric[:SHOWN], prompt=prompt[:SHOWN], text=text[:SHOWN], grade=grade)
            for prompt, text, grade in seen
        ]
        if self.prescreen:
            doubtful = verdicts(judge, [PRESCREEN.format(case=case) for case in cases])
            cases = [case for case, doubt in zip(cases, doubtful, strict=True) if doubt]
        analyses = said(judge, [ANALYSE.format(case=case) for case in cases])
        told = [(case, analysis) for case, analysis in zip(cases, analyses, strict=True) if analysis]
        asked = [REFINE.format(case=case, analysis=analysis[:SHOWN]) for case, analysis in told]
        refined = [one[:SHOWN] for one in said(judge, asked) if one]
        if not refined:
            return rubric
        if not self.merge or len(refined) == 1:
            return refined[-1]
        # As many as a small model can be shown at once; the newest.
        merged = said(judge, [MERGE.format(rubrics="\n\n".join(refined[-4:]))])[0]
        return merged[:SHOWN] if merged else rubric


MPO_META_REWARD = PPO_RLHF.but(
    name="mpo-meta-reward",
    title="Meta policy optimisation: PPO on a rubric that is revised as it is gamed",
    source="Kim et al., arXiv:2504.20157; minnesotanlp/mpo",
    family="preference",
    catalogue_ids=("mpo-meta-reward",),
    axes=("reward", "search", "team"),
    formula="r_t(x, y) = judge(x, y; rubric_t),  every K steps rubric <- merge(refine(analyse(prescreen(recent))))",
    conventions={
        **PPO_RLHF.conventions,
        "KL": "k1 in the reward at every decision not imposed, coefficient 0.05 (the authors')",
        "revision": "after every K = 10 steps, from the newest 20 graded answers; in a small world one that came late, "
        "at a fast learning rate, no longer turned the policy back",
        "judge": "--judge X grades from 0 to 10 and revises, in its own words; both are frozen",
        "without a judge": "a checklist of scores of the answer; a feature that rose while the score `correct`, which "
        "is not learnt from, did not rise has its weight halved",
        "merge": "of the newest four refined rubrics",
        "mathematics": "shaping.0.prescreen = shaping.0.merge = false",
    },
    task="worked-sums?form=1&model=1",
    requires=(Requirement.SCORES,),
    shaping=(EvolvingRubric(), *PPO_RLHF.shaping),
).but({"shaping.1.coefficient": 0.05})
