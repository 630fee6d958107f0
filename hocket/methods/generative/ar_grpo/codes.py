"""Pictures of two digits as tokens of a codebook: patches row by row, or maps of growing resolution.

A picture is a map of `ROWS` x `COLUMNS` patches of 2 x 2 pixels. In the order `raster` a token is the nearest code of a
patch. In the order `scales` (VAR, arXiv:2404.02905) a token is the nearest code of what the coarser maps leave of the
picture, averaged over the area of the token; all tokens of a scale are drawn at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

import torch
from torch import Tensor
from torch.nn import functional

from hocket.core.keys import Key

Order = Literal["raster", "scales"]
ORDERS: tuple[Order, ...] = get_args(Order)

ROWS, COLUMNS, PATCH = 4, 8, 2
CHANNELS = PATCH * PATCH
SIDE = ROWS * PATCH
"""Pixels along a side of a digit; a picture has two digits side by side."""
CODES = 32
"""Codes of a book; every scale has a book of its own."""
SCALES = ((1, 2), (2, 4), (4, 8))
_ROUNDS = 15


@dataclass(frozen=True)
class Layout:
    """Which tokens a picture consists of, and which of them are drawn together."""

    order: Order

    @cached_property
    def blocks(self) -> tuple[int, ...]:
        """How many tokens are drawn at once, block by block."""
        return (1,) * (ROWS * COLUMNS) if self.order == "raster" else tuple(rows * wide for rows, wide in SCALES)

    @cached_property
    def length(self) -> int:
        """Tokens of a picture."""
        return sum(self.blocks)

    @cached_property
    def block(self) -> Tensor:
        """The block of every token, `[L]`."""
        return torch.repeat_interleave(torch.arange(len(self.blocks)), torch.tensor(self.blocks))

    @cached_property
    def book(self) -> Tensor:
        """The book of every token, `[L]`."""
        return torch.zeros_like(self.block) if self.order == "raster" else self.block

    @property
    def books(self) -> int:
        """How many books there are."""
        return 1 if self.order == "raster" else len(SCALES)

    @cached_property
    def side(self) -> Tensor:
        """Which digit a token belongs to, `[L]`: 0 is left, 1 is right."""
        grids = [(ROWS, COLUMNS)] if self.order == "raster" else list(SCALES)
        return torch.cat([(torch.arange(wide) >= wide / 2).long().repeat(rows) for rows, wide in grids])

    def encode(self, pictures: Tensor, books: Tensor) -> Tensor:
        """The tokens `[B, L]` of pictures `[B, 8, 16]`, by books `[S, K, C]`."""
        rest, parts = patches(pictures), []
        if self.order == "raster":
            return nearest(rest.flatten(1, 2), books[0])
        for scale, grid in enumerate(SCALES):
            token = nearest(_averaged(rest, grid).flatten(1, 2), books[scale])
            rest = rest - _enlarged(books[scale][token], grid)
            parts.append(token)
        return torch.cat(parts, 1)

    def decode(self, tokens: Tensor, books: Tensor) -> Tensor:
        """The pictures `[B, 8, 16]` of tokens `[B, L]`."""
        return pixels(self._summed(self._vectors(tokens, books), len(SCALES)))

    def context(self, tokens: Tensor, books: Tensor) -> Tensor:
        """What a token's place shows of the blocks before, `[B, L, C]`: the code before it, or the picture so far."""
        vectors = self._vectors(tokens, books)
        if self.order == "raster":
            return functional.pad(vectors[:, :-1], (0, 0, 1, 0))
        shown = [_averaged(self._summed(vectors, scale), grid).flatten(1, 2) for scale, grid in enumerate(SCALES)]
        return torch.cat(shown, 1)

    def _vectors(self, tokens: Tensor, books: Tensor) -> Tensor:
        return books[self.book, tokens]

    def _summed(self, vectors: Tensor, scales: int) -> Tensor:
        """The map `[B, ROWS, COLUMNS, C]` that the first scales make."""
        if self.order == "raster":
            return vectors.reshape(-1, ROWS, COLUMNS, CHANNELS)
        result, start = vectors.new_zeros(len(vectors), ROWS, COLUMNS, CHANNELS), 0
        for rows, wide in SCALES[:scales]:
            result = result + _enlarged(vectors[:, start : start + rows * wide], (rows, wide))
            start += rows * wide
        return result


def patches(pictures: Tensor) -> Tensor:
    """The map `[B, ROWS, COLUMNS, C]` of pictures `[B, 8, 16]`."""
    grid = pictures.reshape(len(pictures), ROWS, PATCH, COLUMNS, PATCH)
    return grid.transpose(2, 3).reshape(len(pictures), ROWS, COLUMNS, CHANNELS)


def pixels(grid: Tensor) -> Tensor:
    """The inverse of `patches`."""
    rows = grid.reshape(len(grid), ROWS, COLUMNS, PATCH, PATCH).transpose(2, 3)
    return rows.reshape(len(grid), ROWS * PATCH, COLUMNS * PATCH)


def nearest(vectors: Tensor, book: Tensor) -> Tensor:
    """The nearest code of vectors `[..., C]` in a book `[K, C]`."""
    return (vectors.unsqueeze(-2) - book).square().sum(-1).argmin(-1)


def books_of(order: Order, pictures: Tensor, key: Key) -> Tensor:
    """The books `[S, K, C]` of pictures `[B, 8, 16]`, by k-means."""
    rest, layout = patches(pictures), Layout(order)
    if order == "raster":
        return _means(rest.reshape(-1, CHANNELS), key)[None]
    books: list[Tensor] = []
    for scale, grid in enumerate(SCALES):
        coarse = _averaged(rest, grid)
        books.append(_means(coarse.reshape(-1, CHANNELS), key.derive(scale)))
        rest = rest - _enlarged(books[-1][nearest(coarse.flatten(1, 2), books[-1])], grid)
    assert len(books) == layout.books
    return torch.stack(books)


def _means(vectors: Tensor, key: Key) -> Tensor:
    """`CODES` means of vectors `[N, C]`; one that nothing is nearest to stays where it is."""
    chosen = key.numpy().permutation(len(torch.unique(vectors, dim=0)))[:CODES]
    means: Tensor = torch.unique(vectors, dim=0)[torch.from_numpy(chosen)]
    for _ in range(_ROUNDS):
        label = nearest(vectors, means)
        count = torch.bincount(label, minlength=CODES)
        total = torch.zeros_like(means).index_add(0, label, vectors)
        means = torch.where(count[:, None] > 0, total / count.clamp(min=1)[:, None], means)
    return means


def _averaged(grid: Tensor, size: Sequence[int]) -> Tensor:
    """A map `[B, R, W, C]` at another resolution, by means of areas."""
    rows, wide = size
    shaped = grid.reshape(len(grid), rows, grid.shape[1] // rows, wide, grid.shape[2] // wide, grid.shape[3])
    result: Tensor = shaped.mean((2, 4))
    return result


def _enlarged(vectors: Tensor, size: Sequence[int]) -> Tensor:
    """Vectors `[B, rows * wide, C]` as a map of full resolution."""
    rows, wide = size
    grid = vectors.reshape(-1, rows, wide, vectors.shape[-1])
    return grid.repeat_interleave(ROWS // rows, 1).repeat_interleave(COLUMNS // wide, 2)
