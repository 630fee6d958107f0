"""EFRame: explore what is hard, filter what says little, replay what was rare (Wang et al., arXiv:2506.22200).

GRPO in three further steps. `ExploreAndReplay` samples a question of which all answers fail again at a higher
temperature; these hot samples are a group of their own. `Filtered` drops samples of small advantage, and of the hot
ones all but those of large advantage; what had a large advantage of either sign is kept with its log-probs and learnt
from again every few steps, with the advantage it had.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from hocket.core.batch import Batch, GroupBy, Occurrences
from hocket.core.columns import InfoColumn
from hocket.core.keys import Key
from hocket.core.signals import RIGHT
from hocket.credit.formulas import centred, scaled
from hocket.credit.group import GroupRelative
from hocket.credit.refinement import Refined
from hocket.methods.base.grpo import GRPO
from hocket.objectives.replay_surrogate import ReplayedSurrogate
from hocket.rollout.groups import groups
from hocket.rollout.remembering import RememberingRollout
from hocket.rollout.replay_store import ReplayStore, ages, worth
from hocket.stages import Grade, LedgerView, More, Play, State
from hocket.types import Assignment, Experience, Scenario, Trajectory

HOT = InfoColumn("hot", "Whether the sample is one of those drawn at a higher temperature; absent where it is not.")
EARNED = InfoColumn("earned_advantage", "Of a replayed sample, the advantage that it had among its group.")


def advantages(group: Sequence[Trajectory]) -> list[float]:
    """GRPO's advantages of one group by the sums of the scores; 0 throughout a group of equal ones."""
    value, one = torch.tensor([worth(t) for t in group], dtype=torch.float64), torch.zeros(len(group), dtype=torch.long)
    middle = centred(value, one, 1)
    found: list[float] = scaled(middle, middle, one, 1, ddof=1, epsilon=1e-6).tolist() if len(group) > 1 else [0.0]
    return found


@dataclass(frozen=True)
class ExploreAndReplay(RememberingRollout):
    """`samples` per scenario; where at most a share `hard` succeeds, `extra` at `hot` times the run's temperature.

    EFRame (arXiv 2506.22200, and the released code). Samples whose advantage in their group is larger than `keep` in
    size, failures included, go to a store of the latest `store` of them, whichever question they answer; hot samples
    are a group of their own. Every `every` steps `replayed` of it, drawn at random without replacement, are learnt from
    besides (0 for none), with the log-probs and the advantage they had.

    Attributes:
        metrics: `rollout/hard` scenarios, of these `rollout/explored` in which a hot sample succeeded; `replay/...`.
    """

    samples: int = 8
    extra: int = 8
    hot: float = 1.2
    hard: float = 0.0
    keep: float = 1.0
    every: int = 5
    replayed: int = 8
    store: int = 64

    def __post_init__(self) -> None:
        if self.samples < 1 or self.extra < 0 or self.every < 1 or self.replayed < 0 or self.store < 1:
            raise ValueError(
                "samples, every and store must be at least 1, extra and replayed at least 0, not "
                f"{self.samples}, {self.every}, {self.store}, {self.extra} and {self.replayed}"
            )
        if self.hot <= 0 or not 0 <= self.hard <= 1:
            raise ValueError(f"hot must be positive and hard a share in [0, 1], not {self.hot} and {self.hard}")

    @property
    def _kept(self) -> ReplayStore:
        return ReplayStore(size=self.store, scenarios=1)

    def init(self) -> State:
        return {"store": self._kept.init(), "asked": []}

    async def collect_with(
        self,
        state: State,
        asked: Sequence[Assignment],
        *,
        play: Play,
        score: Grade,
        ledger: LedgerView,
        key: Key,
        more: More | None = None,
    ) -> tuple[Experience, State]:
        """Per scenario the samples and the hot ones, then what is replayed."""
        found = await groups(play, [replace(asking, samples=self.samples) for asking in asked])
        await score([one for group in found for one in group])
        hard = [number for number, group in enumerate(found) if self._share(group) <= self.hard]
        explored = await self._explored({number: asked[number] for number in hard if self.extra}, play, score)
        for number, group in explored.items():
            found[number] += group
        step, again = int(state["store"]["step"]) + 1, list[Trajectory]()
        if step % self.every == 0:
            again = self._drawn(state, key.derive("replay"))
        metrics = {
            "rollout/hard": float(len(hard)),
            "rollout/explored": float(sum(self._share(group) > 0 for group in explored.values())),
            **ages(again),
        }
        experience = Experience([*(one for group in found for one in group), *again], metrics=metrics)
        return experience, self._after(state, found)

    def _share(self, group: Sequence[Trajectory]) -> float:
        return sum(one.failure is None and worth(one) >= RIGHT for one in group) / len(group)

    async def _explored(self, asked: dict[int, Assignment], play: Play, score: Grade) -> dict[int, list[Trajectory]]:
        """Hot samples, scored, by number of the scenario."""
        wanted = [
            replace(
                one,
                samples=self.extra,
                first=one.first + self.samples,
                decoding=replace(one.decoding, temperature=one.decoding.temperature * self.hot),
            )
            for one in asked.values()
        ]
        found = dict(zip(asked, await groups(play, wanted), strict=True))
        everything = [one for group in found.values() for one in group]
        for one in everything:
            HOT.write(one, True)
        if everything:
            await score(everything)
        return found

    def _after(self, state: State, found: Sequence[Sequence[Trajectory]]) -> State:
        """The state with what had a large advantage; the store keeps it under one name, with its question beside."""
        good, questions = list[Trajectory](), list[State]()
        for group in found:
            for hot in (False, True):
                whole = [one for one in group if one.failure is None and one.length and HOT.present(one) == hot]
                for one, advantage in zip(whole, advantages(whole) if whole else (), strict=True):
                    if self.replayed and abs(advantage) > self.keep:
                        good.append(replace(one, scenario=Scenario("kept"), info={**one.info, EARNED.name: advantage}))
                        questions.append(_question(one.scenario))
        return {"store": self._kept.add(state["store"], good), "asked": [*state["asked"], *questions][-self.store :]}

    def _drawn(self, state: State, key: Key) -> list[Trajectory]:
        """Some of what is kept, as answers to the questions they were given to."""
        size = self._kept.count(state["store"], "kept")
        every = self._kept.draw(state["store"], Scenario("kept"), size, "all", key)
        for one, told in zip(every, state["asked"], strict=True):
            one.scenario = Scenario(**{**told, "prompt": _messages(told["prompt"])})
        places = sorted(key.numpy().permutation(size)[: self.replayed].tolist())
        return [every[place] for place in places]


def _question(scenario: Scenario) -> State:
    """What is kept of a scenario: enough to name it and to show it. What it is verified by is not needed any more."""
    prompt: Any = scenario.prompt
    told = prompt if prompt is None or isinstance(prompt, str) else [dict(message) for message in prompt]
    return {"id": scenario.id, "prompt": told, "seed": scenario.seed, "origin": scenario.origin}


def _messages(prompt: Any) -> Any:
    return tuple(prompt) if isinstance(prompt, list) else prompt


@dataclass(frozen=True)
class Filtered(Refined):
    """Samples of small advantage get weight 0; what is replayed has the advantage that it had (EFRame, 2506.22200).

    Attributes:
        of: advantages; hot samples of a scenario are compared with each other, not with the ordinary ones.
        least: of the absolute advantage, for ordinary samples. hot: for those drawn hot. overlong: whether samples that
            a limit cut short are learnt from where their advantage is positive.
    """

    of: GroupRelative = GroupRelative(by=GroupBy("scenario", "source", "info/hot"))
    least: float = 0.05
    hot: float = 1.0
    overlong: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.least < 0 or self.hot < 0:
            raise ValueError(f"least and hot must be at least 0, not {self.least} and {self.hot}")

    def refine(self, batch: Batch) -> Occurrences:
        seen, earned, hot = batch.occurrences, EARNED.rows(batch), HOT.rows(batch)
        old = torch.tensor([one is not None for one in earned], dtype=torch.bool)
        given = torch.tensor([one or 0.0 for one in earned], dtype=torch.float64)
        advantage = torch.where(old[seen.trajectory], given[seen.trajectory], seen.advantage.double())
        least = torch.tensor([self.hot if one else self.least for one in hot], dtype=torch.float64)
        gone = (advantage.abs() < least[seen.trajectory]) & ~old[seen.trajectory]
        if not self.overlong:
            gone |= batch.truncated[seen.trajectory] & (advantage > 0) & ~old[seen.trajectory]
        return replace(seen, advantage=advantage, weight=torch.where(gone, torch.zeros_like(seen.weight), seen.weight))


EFRAME = GRPO.but(
    name="eframe",
    title="EFRame: exploration, filter, replay",
    source="Wang et al., EFRame: Exploration-Filter-Replay, arXiv:2506.22200, and the released code",
    family="data-and-rollout",
    catalogue_ids=("eframe",),
    axes=("data", "rollout", "credit"),
    formula="A_i = (R_i - mean R)/(std R + eps) over a question's samples, and over its hot ones, dropped where "
    "|A_i| < 0.05 (hot: 1);  every 5 steps also kept samples with |A| > 1, with the A and the log-probs they had",
    conventions={
        **GRPO.conventions,
        "hard": "no sample right, as in the release; then 8 more at 1.2 times the temperature (both chosen here)",
        "what is kept": "the latest 64 samples whose advantage is larger than 1 in size, failures included; 8 of them, "
        "at random, at every fifth step",
        "hot samples": "a group of their own; learnt from under the hot distribution they were drawn from",
        "overlong": "samples that a limit cut short are dropped where their advantage is positive",
    },
    task="sums",
    rollout=ExploreAndReplay(),
    credit=Filtered(),
    objective=ReplayedSurrogate(),
)
