"""Table2LaTeX-RL: tables in pictures as LaTeX, paid for their structure and for how they print (Ling et al.).

arXiv:2509.17589, after the authors' code. The structure reward is 1 where TEDS-Structure, one minus the distance of the
trees of rows and cells over the size of the larger one, exceeds 0.9. The visual reward prints answer and reference and
is 1 where their CW-SSIM exceeds 0.6: the mean similarity of four bands of a wavelet. Code that does not compile earns
neither.

Chosen here: one parser decides for both rewards what compiles, print is that of `tabular`, and the bands are computed
in float64, where the authors' bytes wrap around.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.pictures import pillow
from hocket.methods.base.grpo import GRPO, GRPO_KL
from hocket.methods.group_relative.table2latex_rl.tabular import Pixels, Table, printed, table_in
from hocket.rewards.opinions import Opinions
from hocket.stages import Reward
from hocket.types import Trajectory

Structure = tuple[tuple[int, ...], ...]

C1, C2 = (0.01 * 255) ** 2, (0.03 * 255) ** 2
"""The constants of SSIM for values up to 255."""


@lru_cache(4096)
def teds_structure(left: Structure, right: Structure) -> float:
    """TEDS without texts, in [0, 1]: `1 - distance / max(nodes)`, every edit of the trees at cost 1.

    Nodes are rows and cells; a table itself is not counted. Cells of different widths are different.

    Raises:
        ConfigurationError: without `apted`.
    """
    try:
        from apted import APTED
        from apted.helpers import Tree
    except ImportError as error:
        raise ConfigurationError("TEDS needs the package apted: pip install 'hocket[media]'") from error

    def tree(table: Structure) -> Any:
        return Tree("table", *(Tree("row", *(Tree(f"cell {columns}") for columns in row)) for row in table))

    nodes = max(sum(1 + len(row) for row in table) for table in (left, right))
    return 1 - float(APTED(tree(left), tree(right)).compute_edit_distance()) / nodes if nodes else 1.0


def bands(picture: NDArray[Any]) -> list[NDArray[np.float64]]:
    """The mean of each block of 2 x 2 pixels, and half its first pixel's difference to the one below, beside, across.

    A last odd row or column is left out. `[H, W]` becomes four of `[H // 2, W // 2]`.
    """
    even = picture[: len(picture) // 2 * 2, : picture.shape[1] // 2 * 2].astype(np.float64)
    first, beside, below, across = even[::2, ::2], even[::2, 1::2], even[1::2, ::2], even[1::2, 1::2]
    return [(first + beside + below + across) / 4, (first - below) / 2, (first - beside) / 2, (first - across) / 2]


def similarity(left: NDArray[np.float64], right: NDArray[np.float64]) -> float:
    """SSIM of two arrays as wholes, cut to [0, 1]; of two constant ones whether they are equal.

    Variances divide by n, the covariance by n - 1, as the authors do.
    """
    if left.std() < 1e-6 and right.std() < 1e-6:
        return float(left.mean() == right.mean())
    means = left.mean(), right.mean()
    together = float(((left - means[0]) * (right - means[1])).sum() / max(1, left.size - 1))
    above = (2 * means[0] * means[1] + C1) * (2 * together + C2)
    below = (means[0] ** 2 + means[1] ** 2 + C1) * (left.var() + right.var() + C2)
    return float(np.clip(above / below, 0.0, 1.0))


def cw_ssim(left: Pixels, right: Pixels) -> float:
    """The mean `similarity` of the bands of two pictures `[H, W]`; the first is resized to the second."""
    if left.shape != right.shape:
        left = np.asarray(pillow().fromarray(left).resize(right.shape[::-1]))
    pairs = zip(bands(left), bands(right), strict=True)
    return sum(similarity(mine, theirs) for mine, theirs in pairs) / 4


@lru_cache(4096)
def appearance(answer: Table, reference: Table) -> float:
    """`cw_ssim` of two tables in print."""
    return cw_ssim(printed(answer), printed(reference))


@dataclass(frozen=True)
class TableReward(Reward):
    """1 where the answer's table is near enough to that of the scenario's answer, else 0; without one no opinion.

    Attributes:
        above: what its nearness must exceed.
    """

    above: float = 0.9
    name: str = "structure"
    weight: float = 1.0
    outside: ClassVar[bool] = False

    async def __call__(self, trajectories: Sequence[Trajectory], *, key: Key) -> Opinions:
        return Opinions(self.grade(item.answer, item.scenario.answer) for item in trajectories)

    def grade(self, text: str, answer: Any) -> float | None:
        """The reward of one text."""
        table, reference = table_in(text), table_in(str(answer))
        if reference is None:
            return None
        return float(table is not None and self.nearness(table, reference) > self.above)

    def nearness(self, table: Table, reference: Table) -> float:
        """TEDS-Structure."""
        return teds_structure(table.structure, reference.structure)


@dataclass(frozen=True)
class PrintReward(TableReward):
    """The same by the pictures of both in print: CW-SSIM."""

    above: float = 0.6
    name: str = "visual"

    def nearness(self, table: Table, reference: Table) -> float:
        """CW-SSIM."""
        return appearance(table, reference)


TABLE2LATEX_RL = GRPO_KL.but(
    name="table2latex-rl",
    title="Table2LaTeX-RL: GRPO on the structure and the print of tables",
    source="Ling et al., Table2LaTeX-RL, arXiv:2509.17589, and the authors' code",
    catalogue_ids=("table2latex-rl",),
    axes=("reward", "policy"),
    task="tables",
    formula="R = [TEDS-S(y, y*) > 0.9] + [CW-SSIM(print y, print y*) > 0.6],  0 for code that does not compile;  "
    "A_i = (R_i - mean_g R)/(std_g R + eps),  clipped, KL k3 0.04",
    conventions={
        **GRPO.conventions,
        "KL": "k3 in the loss, coefficient 0.04",
        "rewards": "both 0 or 1, at thresholds that must be exceeded: rewards.0.above, rewards.1.above",
        "TEDS-S": "nodes are rows and cells, labelled with their widths; unit costs; over the larger number of nodes",
        "CW-SSIM": "blocks of 2 x 2; SSIM of each of four bands as a whole, k1 0.01, k2 0.03, L 255; their mean",
        "warm start": "`--lessons N`; the paper's is supervised fine-tuning on a million tables",
    },
    note="shown on tables of two rows and columns in handwriting, printed by a small compiler of our own",
    rewards=(TableReward(), PrintReward()),
)
