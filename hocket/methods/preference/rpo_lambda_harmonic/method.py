"""RPO: one subject learnt from a few pictures, kept to prompts by preferences (Miao et al., arXiv:2407.12164).

Fine-tuning a sampler on four pictures of a subject makes it copy them, whatever the prompt asks for. RPO's reward is
good on both counts: the lambda-harmonic mean of the likeness to the subject and of how well the prompt is followed.
By it a reference picture and a sample of the sampler before training are compared under the prompt of the sample
(Bradley and Terry), a preference loss on denoising errors is added to the similarity loss of the references under their
own prompts, and on unseen prompts it chooses the checkpoint.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from hocket.core.batch import Batch, Occurrences
from hocket.core.keys import Key
from hocket.core.signals import returns
from hocket.credit.pairs import Pairing, members_by_group, paired
from hocket.methods.base.diffusion_dpo import DIFFUSION_DPO
from hocket.methods.preference.rpo_lambda_harmonic.harmonic import Harmonic
from hocket.methods.preference.rpo_lambda_harmonic.task import SUBJECT, SubjectLikeness, references
from hocket.objectives.preference import Pairwise
from hocket.rollout.noisy_sampling import NoisySampling
from hocket.rollout.probing import Probes, Probing
from hocket.stages import Grade, LedgerView, More, Objective, Play
from hocket.tasks.drawn_digits import DrawingReward
from hocket.types import Assignment, Evaluation, Experience, Quantity, Scenario, Source, Terms

SHOWN: Source = "imported"
"""The source of references under their own prompts."""


@dataclass(frozen=True)
class SubjectProbing(Probing):
    """`Probing` of every prompt's samples, of a reference under the same prompt, and of all references under theirs.

    Samples are those of the policy before training, unless `base` is false. References under the prompts of samples
    have the source `expert` and take turns; under their own prompts it is `imported`.

    Attributes:
        samples: of a prompt, its reference among them. similar: probes of each reference under its own prompt.
    """

    reads_metadata: ClassVar[frozenset[str]] = frozenset({SUBJECT})

    samples: int = 2
    base: bool = True
    similar: int = 8

    def __post_init__(self) -> None:
        if self.similar < 1 or self.samples < 2:
            raise ValueError("similar must be at least 1 and samples, a reference among them, at least 2")
        super().__post_init__()

    def _options(self) -> tuple[NoisySampling, Probes]:
        sampling, probes = super()._options()
        return replace(sampling, samples=self.samples - 1), probes

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
        drawn = await super().collect(asked, play=play, score=score, ledger=ledger, key=key, more=more)
        option = self._options()[1]
        compared = [
            replace(item, samples=1, first=place, source="expert", options=(*item.options, option))
            for place, item in enumerate(asked)
        ]
        label = int(asked[0].scenario.metadata[SUBJECT])
        shown = [
            replace(asked[0], scenario=_own(label, place), samples=1, first=place, source=SHOWN, options=(many,))
            for place in range(len(references(label)))
            for many in (Probes(self.similar, self.least, self.most),)
        ]
        recorded = await play([*compared, *shown])
        await score(recorded)
        return Experience([*drawn.trajectories, *recorded])


def _own(label: int, place: int) -> Scenario:
    """A reference's own prompt."""
    reference = references(label)[place]
    metadata = {SUBJECT: label, "digits": list(reference.labels)}
    return Scenario(f"subject-digits/{label}/reference/{place}", reference.prompt, metadata=metadata)


@dataclass(frozen=True)
class LabelledPairs(Pairing):
    """Every sample of a prompt with every other one, with the probability sigma(r_a - r_b) that it is the better.

    The label of a pair is drawn in the paper; here the loss has its expectation. Trajectories without a pair keep their
    weight, for the similarity loss.
    """

    def __call__(self, batch: Batch) -> Occurrences:
        """The batch's occurrences with `pairs` `[P, 2]` and `pair_target` `[P]`; advantages are left as they are."""
        value, pairs = returns(batch), []
        for members in members_by_group(batch, self.by):
            for place, first in enumerate(members):
                pairs += [(first, other) for other in members[place + 1 :]]
        result = paired(batch, pairs)
        assert result.pairs is not None
        drift = value[result.pairs[:, 0]] - value[result.pairs[:, 1]]
        return replace(result, weight=batch.occurrences.weight, pair_target=torch.sigmoid(drift))


@dataclass(frozen=True)
class Similarity(Objective):
    """Minimises c times the mean squared error of a probe's velocity, over references under their own prompts.

    Errors are means over dimensions, as a denoiser is trained with.

    Attributes:
        coefficient: c. dimensions: of a picture.
    """

    coefficient: float = 1.0
    dimensions: int = 256

    needs: ClassVar[frozenset[Quantity]] = frozenset({Quantity.LOGP})
    idle_without_advantage: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.coefficient < 0 or self.dimensions < 1:
            raise ValueError("coefficient must be at least 0 and dimensions at least 1")

    def __call__(self, now: Evaluation, batch: Batch) -> Terms:
        occurrences = batch.occurrences
        used = (shown(batch) & (occurrences.weight != 0)).to(now.logp.dtype)
        value = -now.logp[occurrences.decision] / self.dimensions
        return Terms(value, self.coefficient * used / used.sum().clamp(min=1))


def shown(batch: Batch) -> Tensor:
    """Which occurrences are of references under their own prompts, `[E]` bool."""
    is_shown = torch.tensor([name == SHOWN for name in batch.names["source"]])
    return is_shown[batch.source[batch.occurrences.trajectory]]


RPO = DIFFUSION_DPO.but(
    name="rpo-lambda-harmonic",
    title="RPO: subject-driven pictures by the lambda-harmonic reward",
    source="Miao et al., arXiv:2407.12164",
    catalogue_ids=("rpo-lambda-harmonic",),
    axes=("reward", "objective", "policy", "analysis"),
    formula="L = |z - x0 - v(x_t, t)|^2/D of references + mean_pairs [p l(a, b) + (1 - p) l(b, a)],  l(a, b) = "
    "-log sigmoid(-beta sum_k [e_a,k - e_ref,a,k - (e_b,k - e_ref,b,k)]),  p = sigmoid(r_a - r_b),  "
    "r = 1/(lambda/s_img + (1 - lambda)/s_txt)",
    conventions={
        **DIFFUSION_DPO.conventions,
        "pairs": "a sample of the sampler before training and a reference, both under the prompt of the sample",
        "labels": "their probabilities weigh both orders of the loss; the paper draws them",
        "preference loss": "Diffusion-DPO's, with the sampler before training as its reference",
        "lambda": "0.5 in labels and in the choice of a checkpoint",
        "likeness": "the largest correlation of a quarter with the subject's digit",
        "aggregation": "similarity: mean over probes and dimensions; preference: mean over pairs",
    },
    note="pictures of four digits stand in for photographs, and a correlation and a judge of digits for CLIP",
    task="subject-digits",
    rollout=SubjectProbing(),
    rewards=(SubjectLikeness(), DrawingReward()),
    combine=Harmonic(),
    credit=LabelledPairs(),
    objective=Pairwise(beta=0.003),
    regularisers=(Similarity(),),
)
