"""TON: SFT with half of the thoughts emptied, then GRPO (Think or Not?, Wang et al., arXiv:2505.16854).

`ton-sft` learns demonstrations with and without their thoughts (`DroppedThoughts`), so that both forms have
probability; `ton` is GRPO with a form check that accepts an empty thought, and finds out when thinking pays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hocket.core.keys import Key
from hocket.core.markup import THOUGHT
from hocket.methods.base.grpo import GRPO
from hocket.methods.base.sft import SFT
from hocket.rewards.tags import TagFormat
from hocket.rollout.demonstrations import Demonstrations, demonstrated
from hocket.stages import Grade, LedgerView, More, Play
from hocket.types import Assignment, Experience, Scenario


def without_thought(text: str) -> str:
    """The text with every thought emptied: `<think></think>` stays."""
    return THOUGHT.sub("<think></think>", text)


@dataclass(frozen=True)
class DroppedThoughts(Demonstrations):
    """Demonstrations whose thoughts are emptied with probability `share`: thought dropout, TON (arXiv 2505.16854).

    So both forms, an empty thought and a full one, have probability before reinforcement begins. A demonstration
    given as a list of messages is left as it is.
    """

    share: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.share <= 1:
            raise ValueError(f"share must lie in [0, 1], not {self.share}")

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
        """The demonstrations as trajectories, each sample's thought kept or dropped by a draw of its own."""
        asking = []
        for one in asked:
            for number in range(one.first, one.first + self.samples):
                drawn = key.derive("dropout", one.scenario.id, number).numpy().random()
                shown = self.shown(demonstrated(one.scenario), drop=bool(drawn < self.share))
                asking.append(replace(one, scenario=shown, samples=1, first=number, source="expert"))
        trajectories = await play(asking)
        await score(trajectories)
        return Experience(trajectories)

    def shown(self, scenario: Scenario, *, drop: bool) -> Scenario:
        """The scenario with its demonstration as it is to be learnt."""
        said = scenario.metadata["demonstration"]
        if not drop or not isinstance(said, str):
            return scenario
        return replace(scenario, metadata={**scenario.metadata, "demonstration": without_thought(said)})


TON_SFT = SFT.but(
    name="ton-sft",
    title="Think or not, first stage: thought dropout",
    source="Wang et al., Think or Not?, arXiv:2505.16854",
    formula="SFT on demonstrations whose thought is emptied with probability 1/2",
    task="worked-sums",
    rollout=DroppedThoughts(share=0.5),
)


TON = GRPO.but(
    name="ton",
    title="Think or not, second stage: GRPO that accepts empty thoughts",
    source=TON_SFT.source,
    catalogue_ids=("ton",),
    axes=("policy", "data", "reward"),
    formula=GRPO.formula + " with R_i = verdict_i + tags_i, an empty thought being well-formed",
    conventions={
        **GRPO.conventions,
        "tags": "weight 0.5; <think></think> passes, no tags at all do not",
        "stages": "a plan: ton-sft on demonstrations, then ton",
    },
    note="shown on text; the paper's vision-language model comes later",
    shaping=(TagFormat(weight=0.5),),
)
