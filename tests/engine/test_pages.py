"""Pages and the prefix tree against a dictionary that knows every beginning of every context."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hocket.engine.pages import NEVER, PAGE, PagePool, PageTree, common_length


def pool(most=1000):
    return PagePool([(1, 2)] * 2, most=most, dtype=torch.float32)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 40)), max_size=40))
@settings(max_examples=60, deadline=None)
def test_pages_are_free_again_when_nobody_holds_them(moves):
    """Any order of taking, holding and releasing, against plain counts."""
    pages, held = pool(most=150), {}
    for kind, number in moves:
        if kind == 0:
            count = number % 9
            if count > pages.available:
                with pytest.raises(ValueError, match="pages asked"):
                    pages.take(count)
                continue
            taken = pages.take(count).tolist()
            assert not set(taken) & set(held)
            held |= dict.fromkeys(taken, 1)
        elif held:
            chosen = sorted(held)[:: 1 + number]
            (pages.hold if kind == 1 else pages.release)(chosen)
            for page in chosen:
                held[page] += 1 if kind == 1 else -1
            held = {page: count for page, count in held.items() if count}
        assert {page: pages.holders(page) for page in held} == held
        assert pages.used == len(held)
        assert pages.available == 150 - len(held)
    for page, count in held.items():
        for _ in range(count):
            pages.release([page])
    assert pages.used == 0


def test_growing_keeps_what_is_stored_and_copies_copy_every_layer():
    pages = pool()
    first = pages.take(3)
    for part in (*pages.keys, *pages.values):
        part[torch.from_numpy(first)] = torch.arange(3.0)[:, None, None, None].expand(3, *part.shape[1:])
    more = pages.take(500)
    assert not set(first) & set(more)
    pages.copy([int(first[2])], [int(more[7])])
    for part in (*pages.keys, *pages.values):
        assert part[torch.from_numpy(first)].mean((1, 2, 3)).tolist() == [0, 1, 2]
        assert (part[int(more[7])] == 2).all()
        assert part.isfinite().all()


# Few tokens, so that contexts share beginnings of any length, within pages and across.
CONTEXT = st.builds(
    lambda stem, cut, tail: tuple((stem * 60)[:cut] + tail),
    st.lists(st.integers(0, 1), min_size=1, max_size=2),
    st.integers(0, 50),
    st.lists(st.integers(0, 1), min_size=0, max_size=4),
).filter(bool)


class Naive:
    """What a page holds, by page; and what contexts were stored."""

    def __init__(self):
        self.content = {}

    def write(self, tokens, pages):
        for number, page in enumerate(pages):
            stop = min(len(tokens), PAGE * (number + 1))
            self.content[page] = tokens[:stop]


@given(st.lists(st.tuples(st.sampled_from(["store", "find", "evict"]), CONTEXT, st.integers(1, 5)), max_size=40))
@settings(max_examples=150, deadline=None)
def test_the_tree_finds_the_longest_beginning_and_leaks_no_page(moves):
    pages, naive = pool(), Naive()
    tree = PageTree(pages)
    stored = set()
    intact = True
    for now, (kind, tokens, count) in enumerate(moves):
        if kind == "evict":
            before = tree.size
            assert tree.evict(count) == min(count, before) == before - tree.size
            intact = intact and not before
            continue
        found = tree.find(tokens, now)
        assert (
            len(found.pages) == found.usable // PAGE if found.source >= 0 else PAGE * len(found.pages) == found.usable
        )
        assert found.promised == found.usable <= len(tokens)
        for number, page in enumerate(found.pages):
            assert naive.content[page] == tokens[: PAGE * (number + 1)]
        if found.source >= 0:
            assert naive.content[found.source][: found.usable] == tokens[: found.usable]
        if intact:
            assert found.usable == max((common_length(tokens, other) for other in stored), default=0)
        if kind == "store":
            # As the engine does: full pages shared, a part copied, the rest new.
            own = pages.take(-(-len(tokens) // PAGE) - len(found.pages))
            pages.hold(found.pages)
            row = [*found.pages, *own.tolist()]
            naive.write(tokens, row)
            tree.insert(tokens, row, now)
            pages.release(row)
            stored.add(tokens)
        assert pages.used == tree.size
    tree.evict(10**6)
    assert tree.size == pages.used == 0


def test_pages_of_rows_are_not_evicted_and_the_longest_unused_go_first():
    pages = pool()
    tree = PageTree(pages)
    rows = {}
    for first in range(3):
        tokens = (first,) * 40
        row = pages.take(3)
        tree.insert(tokens, row, 0)
        rows[first] = row
    pages.release(rows[0])
    pages.release(rows[2])
    tree.find((0,) * 40, 1)
    assert tree.evict(4) == 4  # all of 2, then the leaf of 0
    assert tree.find((2,) * 40, 1).usable == 0
    assert tree.find((0,) * 40, 1).usable == 32
    assert tree.find((1,) * 40, 1).usable == 40
    assert tree.evict(100) == 2
    assert sorted(int(page) for page in rows[1]) == sorted(
        page for page in range(pages.size) if pages.holders(page) == 2
    )


def test_promised_pages_are_shared_once_planned_and_copied_once_written():
    pages = pool()
    tree = PageTree(pages)
    tokens = tuple(range(40))
    nodes = tree.insert(tokens, pages.take(3), NEVER)
    assert [node.end for node in nodes] == [16, 32, 40]
    found = tree.find(tokens, 1)
    assert (found.usable, found.promised) == (0, 40)
    nodes[0].ready = nodes[1].ready = 1
    found = tree.find((*tokens[:30], 99), 1)
    assert (found.usable, found.promised, found.source) == (16, 30, -1)
    found = tree.find((*tokens[:30], 99), 2)
    assert (found.usable, found.source) == (30, nodes[1].page)
    nodes[2].ready = 2
    assert tree.find(tokens, 2).usable == 32
    assert tree.find(tokens, 3).usable == 40
    assert tree.find((*tokens, 7), 3).usable == 40


def test_a_part_gives_way_to_a_fuller_page():
    pages = pool()
    tree = PageTree(pages)
    first, second = pages.take(1), pages.take(1)
    tree.insert((1, 2, 3), first, 0)
    tree.insert((1, 2, 3, 4), second, 1)
    pages.release(np.concatenate([first, second]))
    assert (tree.size, pages.used) == (1, 1)
    third = pages.take(1)
    tree.insert((1, 2), third, 2)
    pages.release(third)
    assert tree.find((1, 2, 3, 4, 5), 3).source == second[0]
    assert (tree.size, pages.used) == (1, 1)


def test_a_page_that_holds_more_now_is_in_one_node_whatever_stands_between():
    pages = PagePool([(1, 16)], most=4, dtype=torch.float32)
    tree = PageTree(pages)
    mine, other = pages.take(1), pages.take(1)
    tree.insert((5, 6), mine, 0)
    tree.insert((5, 6, 1), other, NEVER)  # Still being read, so that it replaces nothing.
    tree.insert((5, 6, 7, 8), mine, 1)
    pages.release(mine)
    pages.release(other)
    assert pages.used == tree.size == 2
    assert tree.evict(2) == 2
    assert pages.used == 0


def test_owners_share_no_pages():
    pages = PagePool([(1, 16)], most=8, dtype=torch.float32)
    tree, tokens = PageTree(pages), tuple(range(20))
    for owner in (0, 3):
        taken = pages.take(2)
        tree.insert(tokens, taken, 0, owner)
        pages.release(taken)
    found = [tree.find(tokens, 1, owner) for owner in (0, 3, 1)]
    assert [one.usable for one in found] == [20, 20, 0]
    assert not {*found[0].pages, found[0].source} & {*found[1].pages, found[1].source}
    tree.forget(0)
    assert pages.used == tree.size == 2
    assert tree.find(tokens, 1, 0).usable == 0
    assert tree.find(tokens, 1, 3).usable == 20
    tree.forget(1)
    assert tree.evict(9) == 2
