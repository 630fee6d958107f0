"""DMOSpeech 2: how long an utterance is to be is learnt from what a recogniser hears (arXiv:2507.14988).

A speech synthesiser that is trained end to end on metrics leaves out its duration predictor, as no gradient passes a
number of frames. The predictor becomes a policy of one decision, a categorical over durations. Several durations of an
utterance are drawn, the frozen synthesiser speaks each, and the reward is -(L_ctc + 3 L_sim): a recogniser's loss and
the distance from the voice asked for. Groups whose rewards are nearly equal are skipped.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from hocket.core.segments import segment_count, segment_sum
from hocket.credit.weights import Compared, Weight
from hocket.methods.base.grpo import GRPO_KL
from hocket.methods.generative.dmospeech_2.task import Recognition, VoiceLikeness


@dataclass(frozen=True)
class SpreadWeight(Weight):
    """A factor on credit: 0 in groups whose returns deviate by less than `least` (divisor G - 1), else 1."""

    least: float = 0.05

    def __post_init__(self) -> None:
        if self.least < 0:
            raise ValueError(f"least must be at least 0, not {self.least}")

    def __call__(self, seen: Compared) -> Tensor:
        """Factors `[M]` float64 of the members."""
        count = segment_count(seen.group, seen.size).double()
        off = seen.value - seen.mean()
        variance = segment_sum(off.square(), seen.group, seen.size) / (count - 1).clamp(min=1)
        return (variance.sqrt() >= self.least)[seen.group].double()


DMOSPEECH_2 = GRPO_KL.but(
    name="dmospeech-2",
    title="DMOSpeech 2: reinforcement learning for duration prediction",
    source="arXiv:2507.14988; code of yl4579/DMOSpeech2",
    catalogue_ids=("dmospeech-2",),
    axes=("policy", "reward", "rollout"),
    formula="A_i = (R_i - mean_g R)/(std_g R + eps),  R = -(L_ctc + 3 L_sim),  "
    "L = -mean min(r A, clip(r) A) + 0.04 (e^d - d - 1),  d = log pi_ref - log pi, of the one decision of an utterance",
    conventions={
        **GRPO_KL.conventions,
        "durations": "61, of 0 to 120 frames by two; the paper's are 301, by ten",
        "recognition loss": "a symbol, at most 10 nats",
        "nearly equal": "a deviation below 0.05: advantage 0",
        "KL": "k3 in the loss, coefficient 0.04, from the head that was fitted to recordings",
    },
    note="teacher-guided sampling, by which a distilled synthesiser regains diversity, is not there",
    task="spoken-symbols",
    rewards=(Recognition(), VoiceLikeness()),
    **{"credit.weigh": (SpreadWeight(),)},
)
