"""A tree's paths as the kernels of processors read them: pieces of consecutive tokens."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from hocket.policies.kernels import TreePaths
from hocket.policies.prefix_tree import TokenRun


def paths_of(nodes: Sequence[TokenRun]) -> TreePaths:
    """The nodes' paths as pieces of consecutive tokens."""
    counts = np.array([node.own for node in nodes], np.int32)
    piece, begin, length = [0], [], []
    for node in nodes:
        cuts = np.flatnonzero(np.diff(node.path) != 1) + 1
        first = np.concatenate([[0], cuts])
        begin.append(node.path[first])
        length.append(np.diff(np.append(first, len(node.path))))
        piece.append(piece[-1] + len(first))
    columns = (np.cumsum(counts) - counts, counts, piece, np.concatenate(begin), np.concatenate(length))
    return TreePaths(*(torch.from_numpy(np.asarray(column, np.int32)) for column in columns))
