"""PS-GRPO: GRPO that rewards giving the same answer to paraphrases of a question (arXiv:2510.04392).

`Families` asks paraphrases in one step; `GroupSimilarity` pays a text its mean similarity to what was answered to the
other paraphrases, in place of a verdict. Advantages are taken within one paraphrase.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from hocket.core.batch import Batch, GroupBy
from hocket.core.columns import ORIGIN, TEXT, info_column
from hocket.core.errors import nearest
from hocket.core.keys import Key
from hocket.core.signals import returns
from hocket.curriculum.random_order import Shuffled, permutation
from hocket.methods.base.grpo import GRPO
from hocket.rewards.members import groups_of, with_return
from hocket.rewards.similarity import SIMILARITIES
from hocket.stages import LedgerView, Shaping, Task
from hocket.types import Scenario


@dataclass(frozen=True)
class Families(Shuffled):
    """Families of `family` scenarios of consecutive numbers, such as paraphrases of one question, one after another.

    Families come in random order, each once per pass over the data; a number of `prompts` that is no multiple of
    `family` splits one. With `family` 1 it is `Shuffled`. A last family may be smaller.
    """

    family: int = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.family < 1:
            raise ValueError(f"family must be at least 1, not {self.family}")

    def __call__(self, task: Task, asked: int, count: int, ledger: LedgerView, key: Key) -> list[Scenario]:
        return [task.scenario("train", self._member(asked + place, task, key)) for place in range(count)]

    def _member(self, position: int, task: Task, key: Key) -> int:
        size = task.size("train")
        if size is None:
            start = key.derive("offset").word % 2**31 // self.family * self.family
            return start + position
        families = -(-size // self.family)
        epoch, place = divmod(position, size)
        for number in permutation(key.derive("pass", epoch), families).tolist():
            here = min(self.family, size - number * self.family)
            if place < here:
                return int(number) * self.family + place
            place -= here
        raise AssertionError("a place within the pass belongs to some family")


@dataclass(frozen=True)
class GroupSimilarity(Shaping):
    """`r_ij = mean_{u != i} mean_m sim(o_ij, o_um)` over the other paraphrases u and their rollouts m.

    PS-GRPO (arXiv 2510.04392). Scenarios with one `origin` (column of `batch.info`) are paraphrases of one question;
    texts are compared. With `others` and `rollouts` set, only so many paraphrases, and so many rollouts of each, are
    drawn without replacement for every sample: an unbiased estimate, equal to the whole where they cover everything.
    A question without paraphrases is compared with its own other samples (chosen here). It replaces the reward, and
    no label is used unless `accuracy` is; experience without any words (a controller's) keeps its own.

    Attributes:
        similarity: `bleu` (by sacrebleu, effective order), `rouge-l`, `rouge-1` or `exact`.
        others: kappa, paraphrases drawn; None takes all. rollouts: s, drawn of each; None takes all.
        accuracy: the weight at which the reward as it was is added.
        column: what is compared, `text` or `label`.
        seed: of the draws, which depend on it, the step, the question and the sample alone.
    """

    similarity: Similarity = "bleu"
    others: int | None = None
    rollouts: int | None = None
    accuracy: float = 0.0
    column: str = TEXT.name
    seed: int = 0

    def __post_init__(self) -> None:
        if self.similarity not in SIMILARITIES:
            raise ValueError(f"similarity {self.similarity!r} is unknown{nearest(self.similarity, SIMILARITIES)}")
        if any(number is not None and number < 1 for number in (self.others, self.rollouts)):
            raise ValueError("others and rollouts must be at least 1, or null for all")

    def __call__(self, batch: Batch) -> Batch:
        texts = [text or "" for text in info_column(batch, self.column, "GroupSimilarity")]
        if not any(texts) and not any(TEXT.rows(batch)):
            return batch
        value = self.accuracy * returns(batch)
        for paraphrases in self._families(batch):
            for mine in paraphrases:
                for row in mine:
                    compared = self._compared(batch, row, mine, [one for one in paraphrases if one is not mine])
                    value[row] += self._mean(texts, row, compared)
        return with_return(batch, value)

    def _families(self, batch: Batch) -> list[list[list[int]]]:
        """Per question its paraphrases, each as its counted rollouts."""
        origins = ORIGIN.or_metadata(batch)
        found: dict[object, list[list[int]]] = {}
        for number, members in enumerate(groups_of(batch, GroupBy("scenario"))):
            if members:
                origin = origins[members[0]]
                found.setdefault(("alone", number) if origin is None else ("origin", origin), []).append(members)
        return [sorted(family, key=lambda members: int(batch.order[members[0]])) for family in found.values()]

    def _compared(self, batch: Batch, row: int, mine: list[int], rest: list[list[int]]) -> list[list[int]]:
        """The rollouts that a sample is compared with, by paraphrase."""
        if not rest:
            return [[other for other in mine if other != row]] if len(mine) > 1 else []
        if (self.others or len(rest)) >= len(rest) and self.rollouts is None:
            return rest
        name = batch.names["scenario"][int(batch.scenario[row])]
        place = mine.index(row)
        draw = Key.of(self.seed).derive("group-similarity", batch.step, name, place).numpy()
        chosen = draw.choice(len(rest), size=min(self.others or len(rest), len(rest)), replace=False)
        return [
            [one[at] for at in draw.choice(len(one), size=min(self.rollouts or len(one), len(one)), replace=False)]
            for one in (rest[number] for number in chosen)
        ]

    def _mean(self, texts: Sequence[str], row: int, compared: list[list[int]]) -> float:
        measure = SIMILARITIES[self.similarity]
        means = [sum(measure(texts[row], texts[m]) for m in rollouts) / len(rollouts) for rollouts in compared]
        return sum(means) / len(means) if means else 0.0


Similarity = Literal["bleu", "rouge-l", "rouge-1", "exact"]


PS_GRPO = GRPO.but(
    name="ps-grpo",
    title="Paraphrased Set GRPO: group similarity rewards",
    source="Improving Consistency in Retrieval-Augmented Systems with Group Similarity Rewards, arXiv:2510.04392",
    catalogue_ids=("ps-grpo",),
    axes=("reward", "data"),
    formula="r_ij = mean_{u != i} mean_m sim(o_ij, o_um),  A_ij = (r_ij - mean_j r_ij)/(std_j r_ij + eps)",
    conventions={
        **GRPO.conventions,
        "paraphrases": "scenarios with one origin; families of curriculum.family = 4 consecutive scenarios in one step",
        "no paraphrases": "compared with the other samples of the same scenario",
        "no words": "where nothing was written at all (a controller), rewards stay",
        "similarity": "sentence BLEU with effective order (sacrebleu); rouge-l, rouge-1, exact by shaping.0.similarity",
        "sub-sampling": "off; shaping.0.others and shaping.0.rollouts draw without replacement, for every sample anew",
        "accuracy": "not rewarded; shaping.0.accuracy adds the verifiers' reward",
        "advantages": "within the samples of one paraphrase",
    },
    task="worked-sums?wordings=2",
    curriculum=Families(),
    shaping=(GroupSimilarity(),),
)
