"""A prefix tree as accelerators read it: flat tokens, and for each the last that sees it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hocket.policies.prefix_tree import TokenRun


@dataclass(frozen=True)
class FlatTree:
    """A tree whose nodes stand in the order of `hocket.policies.prefix_tree.tree_of`: a node, then all below it.

    A token q sees a token k if `k <= q < end[k]`: its ancestors and itself.

    Attributes:
        nodes: of the tree. start: the first flat place of each node.
        end: the flat place behind the last token that sees each token, `[M]` int64. depth: its position, `[M]` int64.
        shallow: `depth` on the processor.
    """

    nodes: Sequence[TokenRun]
    start: NDArray[np.int64]
    end: Tensor
    depth: Tensor
    shallow: NDArray[np.int64]

    @staticmethod
    def of(nodes: Sequence[TokenRun], device: torch.device) -> FlatTree:
        """The flat tree of nodes.

        Raises:
            ValueError: when the nodes stand in another order.
        """
        counts = np.array([node.own for node in nodes], np.int64)
        start = np.cumsum(counts) - counts
        ends = _ends(nodes, start, counts)
        depth = np.concatenate([np.arange(len(node.path) - node.own, len(node.path)) for node in nodes])
        return FlatTree(
            nodes,
            start,
            torch.from_numpy(np.repeat(ends, counts)).to(device),
            torch.from_numpy(depth).to(device),
            depth,
        )

    def visible(self, first: int, last: int, window: int) -> Tensor:
        """Flat places that some of the tokens first..last-1 see, in rising order; some more where a window is set."""
        node = self.nodes[int(np.searchsorted(self.start, first, side="right")) - 1]
        # Whatever stands above a later token of these, and before them all, stands above the first one as well.
        above = node.path[: self.shallow[first]]
        if window:
            above = above[max(0, int(self.shallow[first:last].min()) - window + 1) :]
        place = np.concatenate([above, np.arange(first, last)])
        return torch.from_numpy(place).to(self.end.device)

    def hidden(self, first: int, last: int, place: Tensor, window: int) -> Tensor:
        """Which of these places the tokens first..last-1 do not see, `[last - first, K]`."""
        query = torch.arange(first, last, device=place.device)[:, None]
        hidden = (place > query) | (query >= self.end[place])
        if window:
            hidden |= self.depth[place] <= self.depth[first:last, None] - window
        return hidden


def _ends(nodes: Sequence[TokenRun], start: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each node the flat place behind all tokens at and below it."""
    ends = start + counts
    open_nodes: list[int] = []
    for number, node in enumerate(nodes):
        above = int(node.path[-node.own - 1]) if len(node.path) > node.own else -1
        while open_nodes and start[open_nodes[-1]] + counts[open_nodes[-1]] - 1 != above:
            ends[open_nodes.pop()] = start[number]
        if above >= 0 and not open_nodes:
            raise ValueError("nodes of a flat tree stand in its order: a node, then all below it")
        open_nodes.append(number)
    for number in open_nodes:
        ends[number] = start[-1] + counts[-1]
    return ends
