"""Agreement across paraphrases of one question as a reward."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hocket.core.columns import ORIGIN, TEXT, info_column
from hocket.errors import nearest
from hocket.keys import Key
from hocket.rewards.members import groups_of, with_return
from hocket.rewards.similarity import SIMILARITIES, Similarity
from hocket.signals import returns
from hocket.stages import Shaping
from hocket.types import Batch, GroupBy


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
