"""Pages of keys and values that rows share, and the prefix tree that finds pages by the tokens of a context."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

PAGE = 16
"""Positions per page."""
NEVER = 2**62
"""The number of the pass of pages that no pass has been planned for."""

Pages = NDArray[np.int32]
Tokens = tuple[int, ...]


class PagePool:
    """Pages of keys and values for every layer, with a count of holders for each page.

    Layer n has keys `[pages, S, D, 16]` and values `[pages, S, 16, D]`. A page without holders is free.

    Attributes:
        record: each token's position in the policy's activation cache, `[pages, 16]`; -1 if it has none.

    Args:
        shapes: of each layer, key/value heads S and their size D.
        most: the largest number of pages.
        dtype: of keys and values. device: where they are.
    """

    def __init__(
        self,
        shapes: Sequence[tuple[int, int]],
        *,
        most: int,
        dtype: torch.dtype,
        device: torch.device | None = None,
    ) -> None:
        self.most = most
        self._device = device or torch.device("cpu")
        like: dict[str, Any] = {"dtype": dtype, "device": self._device}
        self.keys = [torch.zeros(0, shared, size, PAGE, **like) for shared, size in shapes]
        self.values = [torch.zeros(0, shared, PAGE, size, **like) for shared, size in shapes]
        self.record = np.full((0, PAGE), -1, np.int64)
        self._holders = np.zeros(0, np.int32)
        self._free = np.zeros(0, np.int32)
        self._left = 0

    @staticmethod
    def bytes_per_page(shapes: Sequence[tuple[int, int]], dtype: torch.dtype) -> int:
        """The memory of one page in all layers."""
        return 2 * sum(shared * size for shared, size in shapes) * PAGE * dtype.itemsize

    @property
    def size(self) -> int:
        """The current number of pages."""
        return len(self._holders)

    @property
    def available(self) -> int:
        """The number of pages that can be taken, including those by growing."""
        return self._left + self.most - self.size

    @property
    def free(self) -> int:
        """The number of pages that can be taken without growing."""
        return self._left

    @property
    def used(self) -> int:
        """The number of pages with holders."""
        return self.size - self._left

    def holders(self, page: int) -> int:
        """The number of holders of a page."""
        return int(self._holders[page])

    def take(self, count: int) -> Pages:
        """Takes free pages; each gets one holder.

        Raises:
            ValueError: when fewer are `available`.
        """
        if count > self.available:
            raise ValueError(f"{count} pages requested, and {self.available} are available")
        if count > self._left:
            self._grow(count - self._left)
        self._left -= count
        pages = self._free[self._left : self._left + count].copy()
        self._holders[pages] = 1
        return pages

    def hold(self, pages: Sequence[int] | Pages) -> None:
        """Adds one holder to each page; the pages are distinct."""
        self._holders[pages] += 1

    def release(self, pages: Sequence[int] | Pages) -> None:
        """Removes one holder from each page; the pages are distinct. Pages without holders become free."""
        chosen = np.asarray(pages, np.int32)
        self._holders[chosen] -= 1
        freed = chosen[self._holders[chosen] == 0]
        self._free[self._left : self._left + len(freed)] = freed
        self._left += len(freed)

    def clear(self) -> None:
        """Frees every page."""
        self._holders[:] = 0
        self._free = np.arange(self.size - 1, -1, -1, dtype=np.int32)
        self._left = self.size

    def copy(self, sources: Sequence[int], targets: Sequence[int]) -> None:
        """Copies pages in all layers."""
        source, target = (torch.tensor(pages, device=self._device) for pages in (sources, targets))
        for part in (*self.keys, *self.values):
            part[target] = part[source]
        self.record[targets] = self.record[sources]

    def _grow(self, least: int) -> None:
        """Adds `least` pages or more, up to `most` in all."""
        before = self.size
        size = min(self.most, before + max(least, before // 2, 64))
        for parts in (self.keys, self.values):
            for number, old in enumerate(parts):
                # Zeros, because every entry must be finite: an attention weight of zero does not hide infinity.
                parts[number] = new = old.new_zeros(size, *old.shape[1:])
                new[:before] = old
        self.record = np.concatenate([self.record, np.full((size - before, PAGE), -1, np.int64)])
        free = np.zeros(size, np.int32)
        free[: self._left] = self._free[: self._left]
        # Low numbers come first.
        free[self._left : self._left + size - before] = np.arange(size - 1, before - 1, -1)
        self._free, self._left = free, self._left + size - before
        self._holders = np.concatenate([self._holders, np.zeros(size - before, np.int32)])


@dataclass(eq=False)
class PageNode:
    """A page of the tree, which holds tokens that follow those of its ancestors.

    Attributes:
        tokens: at most 16; only a node with 16 has children. end: the number of tokens from the root to its last one.
        ready: the number of the pass that writes the page. used: the number of the pass that used it last.
        pins: the number of conversations that may continue here. over: whether conversations that did have ended.
        order: the children's tokens, sorted, so that similar ones are adjacent.
    """

    tokens: Tokens
    page: int
    parent: PageNode | None
    end: int
    ready: int
    used: int = 0
    pins: int = 0
    over: bool = False
    children: dict[Tokens, PageNode] = field(default_factory=dict)
    order: list[Tokens] = field(default_factory=list)

    def adopt(self, child: PageNode) -> None:
        self.children[child.tokens] = child
        insort(self.order, child.tokens)

    def drop(self, child: PageNode) -> None:
        del self.children[child.tokens]
        del self.order[bisect_left(self.order, child.tokens)]


@dataclass(frozen=True)
class KnownPrefix:
    """The part of a context that is in the tree.

    Attributes:
        pages: full pages that can be shared. usable: the number of tokens in these and in `source`.
        source: a page whose first `usable % 16` tokens follow, to be copied; -1 for none.
        promised: the number of tokens that will be in the tree after all planned passes; at least `usable`.
    """

    pages: list[int]
    usable: int
    source: int
    promised: int


class PageTree:
    """The prefix tree: finds pages by their tokens and those before. It is one holder of each of its pages.

    A page is a node. Full pages are shared, and the first tokens of any page can be copied. Pages without other holders
    can be evicted, least recently used first. Pages of ended conversations are freed before the pool grows. Owners
    (policies) share no pages: each has a root.
    """

    def __init__(self, pool: PagePool) -> None:
        self._pool = pool
        self._roots: dict[int, PageNode] = {}
        self._clock = 0
        self._over: deque[PageNode] = deque()
        self.size = 0

    def _root(self, owner: int) -> PageNode:
        return self._roots.setdefault(owner, PageNode((), -1, None, 0, -1))

    def find(self, tokens: Tokens, now: int, owner: int = 0) -> KnownPrefix:
        """The longest prefix of `tokens` in the tree, in pass number `now`.

        Pages that this pass writes can be shared, but not yet copied.
        """
        self._clock += 1
        node, pages, depth, open_yet = self._root(owner), list[int](), 0, True
        while (child := node.children.get(tokens[depth : depth + PAGE])) is not None and len(child.tokens) == PAGE:
            open_yet = open_yet and child.ready <= now
            if open_yet:
                pages.append(child.page)
            child.used = self._clock
            node, depth = child, depth + PAGE
        usable, source, promised = PAGE * len(pages), -1, depth
        for common, near in self._near(node, tokens[depth : depth + PAGE], now):
            promised = max(promised, depth + common)
            if open_yet and near.ready < now and depth + common > usable:
                usable, source = depth + common, near.page
                near.used = self._clock
        return KnownPrefix(pages, usable, source, promised)

    def _near(self, node: PageNode, tokens: Tokens, now: int) -> Iterator[tuple[int, PageNode]]:
        """Children near `tokens` with the number of common tokens; on either side up to the first written one."""
        place = bisect_left(node.order, tokens)
        for side in (range(place, len(node.order)), range(place - 1, -1, -1)):
            for number in side:
                child = node.children[node.order[number]]
                common = common_length(child.tokens, tokens)
                if not common:
                    break
                yield common, child
                if child.ready < now:
                    break

    def insert(self, tokens: Tokens, pages: Sequence[int] | Pages, ready: int, owner: int = 0) -> list[PageNode]:
        """Inserts the pages that hold `tokens`, of which the last may be partial; returns the new nodes.

        Existing nodes stay. A page with more tokens replaces a partial page with a prefix of these.
        """
        self._clock += 1
        node, new = self._root(owner), list[PageNode]()
        for number, page in enumerate(pages):
            part = tokens[PAGE * number : PAGE * (number + 1)]
            child = node.children.get(part)
            if child is None:
                if len(part) < PAGE and self._extended(node, part):
                    break
                child = PageNode(part, int(page), node, node.end + len(part), ready)
                if ready < NEVER:
                    self._replace(node, part)
                node.adopt(child)
                self._pool.hold([child.page])
                self.size += 1
                new.append(child)
            child.used = self._clock
            node = child
        return new

    def pin(self, tokens: Tokens, owner: int = 0) -> PageNode:
        """Pins the node where `tokens` end in the tree, because a conversation may continue there."""
        node, depth = self._root(owner), 0
        while (child := node.children.get(tokens[depth : depth + PAGE])) is not None:
            node, depth = child, depth + PAGE
        node.pins += 1
        return node

    def unpin(self, node: PageNode) -> None:
        """Removes a pin: the conversation has ended."""
        node.pins -= 1
        if not node.pins:
            node.over = True
            self._over.append(node)

    def prune(self, count: int) -> int:
        """Frees up to `count` pages of ended conversations, in the order of their ends; returns the number."""
        freed = 0
        while self._over and freed < count:
            node = self._over.popleft()
            # From its end upwards, until another conversation needs the page.
            while freed < count and node.parent is not None and self._given_up(node):
                parent = node.parent
                self._remove(node)
                freed += 1
                node = parent
            if node.parent is not None and self._given_up(node):
                self._over.appendleft(node)
        return freed

    def _given_up(self, node: PageNode) -> bool:
        known = node.parent is not None and node.parent.children.get(node.tokens) is node
        return known and not node.pins and not node.children and self._idle(node)

    def _extended(self, node: PageNode, part: Tokens) -> bool:
        """Whether some child begins with `part`."""
        place = bisect_left(node.order, part)
        return place < len(node.order) and node.order[place][: len(part)] == part

    def _replace(self, node: PageNode, part: Tokens) -> None:
        """Drops children that hold only a prefix of `part`."""
        for length in range(1, len(part)):
            child = node.children.get(part[:length])
            if child is not None:
                self._remove(child)

    def _remove(self, node: PageNode) -> None:
        assert node.parent is not None
        node.parent.drop(node)
        self._pool.release([node.page])
        self.size -= 1

    def evict(self, count: int) -> int:
        """Frees up to `count` pages that only the tree holds, least recently used first; returns the number."""
        nodes = (node for node in self._nodes(self._roots.values()) if not node.children)
        leaves = [(leaf.used, number, leaf) for number, leaf in enumerate(nodes) if self._idle(leaf)]
        heapify(leaves)
        freed, fresh = 0, self.size
        while leaves and freed < count:
            _, _, leaf = heappop(leaves)
            self._remove(leaf)
            freed += 1
            parent = leaf.parent
            # Roots have neither a parent nor a page.
            if parent is not None and parent.parent is not None and not parent.children and self._idle(parent):
                fresh += 1
                heappush(leaves, (parent.used, fresh, parent))
        return freed

    def _idle(self, node: PageNode) -> bool:
        return self._pool.holders(node.page) == 1

    def forget(self, owner: int) -> None:
        """Drops all pages of an owner."""
        root = self._roots.pop(owner, None)
        for node in [] if root is None else list(self._nodes([root])):
            self._pool.release([node.page])
            node.parent = None
            self.size -= 1

    def _nodes(self, roots: Iterable[PageNode]) -> Iterator[PageNode]:
        waiting = [child for root in roots for child in root.children.values()]
        while waiting:
            node = waiting.pop()
            yield node
            waiting.extend(node.children.values())


def common_length(left: Iterable[int], other: Iterable[int]) -> int:
    """The length of the common prefix of two sequences."""
    length = 0
    for a, b in zip(left, other, strict=False):
        if a != b:
            break
        length += 1
    return length
