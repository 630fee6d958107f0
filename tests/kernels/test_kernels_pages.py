"""Attention over pages, and that it is the tree's to the last bit, whatever the calls."""

from dataclasses import dataclass, field

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_oracle import (
    TYPES,
    Forest,
    Heads,
    assert_close,
    attention,
    drawn,
    forest,
    rotary_tables,
    same,
    threads,
    turned,
    whole_numbers,
)

from hocket.core.keys import Key
from hocket.policies import kernels

torch.set_num_threads(1)
pytestmark = pytest.mark.skipif(not kernels.available(), reason="no kernels here")
SEEDS = st.integers(0, 10**6)
HEADS = st.builds(Heads, st.sampled_from([1, 2, 3, 4, 8, 12]), st.sampled_from([1, 2, 3]), st.sampled_from([16, 32]))
PAGE = kernels.PAGE
EPSILON = 1e-5
POSITIONS = 400


@dataclass
class Store:
    """Pages full of garbage, and rows that read them. Page 0 belongs to nobody: -1 in a table points there."""

    heads: Heads
    dtype: torch.dtype
    weight: torch.Tensor | None
    draw: object
    pages: int = 200
    table: list[list[int]] = field(default_factory=list)

    def __post_init__(self):
        shape = self.heads.shared, self.heads.size, PAGE
        garbage = torch.tensor([torch.nan, torch.inf, -torch.inf, 1e30])
        pick = torch.from_numpy(self.draw.integers(0, 4, (2, self.pages + 1, *shape)))
        both = garbage[pick].to(self.dtype)
        self.keys, self.values = both[0][1:], both[1].transpose(-1, -2).contiguous()[1:]
        self.free = self.draw.permutation(self.pages).tolist()
        self.cosine, self.sine = rotary_tables(POSITIONS, self.heads.size)

    def open(self, row, length):
        """Pages for so many positions of a row."""
        while len(self.table[row]) * PAGE < length:
            self.table[row].append(self.free.pop())

    def slot(self, row, position):
        return self.table[row][position // PAGE] * PAGE + position % PAGE

    def call(self, qkv, runs, *, before=0, after=0):
        """One call. `runs`: row, first position and number of tokens; `qkv` holds theirs in order.

        `before` and `after` tokens of garbage stand around them.
        """
        tokens = len(qkv)
        garbage = torch.full((max(before, after), self.heads.width), torch.nan, dtype=self.dtype)
        position = [first + i for _, first, count in runs for i in range(count)]
        slot = [self.slot(row, first + i) for row, first, count in runs for i in range(count)]
        starts = [before]
        for row, first, count in runs:
            self.open(row, first + count)
            starts.append(starts[-1] + count)
        width = max(map(len, self.table))
        table = whole_numbers([pages + [-1] * (width - len(pages)) for pages in self.table])
        out = kernels.paged_attention(
            torch.cat((garbage[:before], qkv, garbage[:after])),
            self.keys,
            self.values,
            position=whole_numbers([0] * before + position + [0] * after),
            slot=whole_numbers([-1] * before + slot + [-1] * after),
            table=table,
            run_start=whole_numbers(starts),
            run_row=whole_numbers([row for row, _, _ in runs]),
            weight=self.weight,
            epsilon=EPSILON,
            cosine=self.cosine,
            sine=self.sine,
            scale=self.heads.size**-0.5,
            heads=self.heads.count,
            shared=self.heads.shared,
        )
        return out[before : before + tokens]


def weights(seed, heads, normed):
    return 1 + drawn(seed, heads.count + heads.shared, heads.size, scale=0.3) if normed else None


def along_tree(qkv, trees, heads, weight):
    """The learner's way: rotary embedding, then attention along the tree."""
    cosine, sine = rotary_tables(POSITIONS, heads.size)
    turn, _ = kernels.apply_rope(qkv, weight, cosine, sine, trees.depth(), EPSILON, heads.shared)
    out, _ = kernels.tree_attention(turn, qkv, trees.paths(), heads.size**-0.5, heads.size, heads.shared)
    return out


def by_pages(qkv, trees, heads, weight, seed, *, longest, sharing, busy=1.0):
    """The sampler's way: every leaf's path is a row; in random calls of random runs. Yields places and results.

    With `sharing` a row reads whole pages that it has in common with an earlier row in the earlier row's store, also
    while that row is still writing them.
    """
    draw = Key.of(seed).derive("calls").numpy()
    store = Store(heads, qkv.dtype, weight, draw)
    rows = [trees.path(leaf) for leaf in trees.leaves]
    done, needs = [], []
    for row, path in enumerate(rows):
        common = [sum(1 for a, b in zip(path, other, strict=False) if a == b) for other in rows[:row]]
        best = max(range(row), key=lambda n: common[n], default=None) if sharing else None
        # The last position is always the row's own, so that it has something to say.
        shared = 0 if best is None else min(common[best], len(path) - 1) // PAGE
        store.table.append([])
        if shared:
            store.open(best, shared * PAGE)
            store.table[row] = store.table[best][:shared]
        done.append(shared * PAGE)
        needs.append((best, shared * PAGE))

    def written(row, until, ends):
        """Whether the first `until` positions of a row are in the store; a shared one may itself share."""
        source, common = needs[row]
        own = ends[row] >= until
        return own and (not common or written(source, min(until, common), ends))

    while any(at < len(path) for at, path in zip(done, rows, strict=True)):
        runs, ends = [], list(done)
        for row in draw.permutation(len(rows)).tolist():
            left = len(rows[row]) - done[row]
            source, until = needs[row]
            if not left or draw.random() > busy or (until and not written(source, until, ends)):
                continue
            count = int(draw.integers(1, min(left, longest) + 1))
            runs.append((row, done[row], count))
            ends[row] += count
            if draw.random() < 0.2 and ends[row] < len(rows[row]):  # A second run of the same row.
                runs.append((row, ends[row], 1))
                ends[row] += 1
        if not runs:
            continue
        for row, first, count in runs:
            store.open(row, first + count)
        done = ends
        order = draw.permutation(len(runs)).tolist()
        runs = [runs[n] for n in order]
        places = [rows[row][first + i] for row, first, count in runs for i in range(count)]
        yield places, store.call(qkv[places], runs, before=int(draw.integers(3)), after=int(draw.integers(4)))


@settings(max_examples=40, deadline=None)
@given(
    seed=SEEDS,
    nodes=st.integers(1, 10),
    own=st.sampled_from([1, 5, 20, 60]),
    deep=st.booleans(),
    heads=HEADS,
    dtype=st.sampled_from(TYPES),
    normed=st.booleans(),
    longest=st.sampled_from([1, 3, 20, 300]),
    sharing=st.booleans(),
    busy=st.sampled_from([0.3, 1.0]),
    crew=st.sampled_from([1, 1, 2]),
)
def test_pages_are_the_tree_to_the_last_bit(seed, nodes, own, deep, heads, dtype, normed, longest, sharing, busy, crew):
    trees = forest(seed, nodes, own, deep=deep)
    qkv, weight = drawn(seed, trees.tokens, heads.width, dtype=dtype), weights(seed + 1, heads, normed)
    due = along_tree(qkv, trees, heads, weight)
    assert due.isfinite().all()
    seen = torch.zeros(trees.tokens, dtype=torch.bool)
    with threads(crew):
        for places, out in by_pages(qkv, trees, heads, weight, seed, longest=longest, sharing=sharing, busy=busy):
            assert same(out, due[places])
            seen[places] = True
    assert seen.all()


@settings(max_examples=25, deadline=None)
@given(seed=SEEDS, heads=HEADS, dtype=st.sampled_from(TYPES), normed=st.booleans(), length=st.integers(1, 130))
def test_one_row_against_float64(seed, heads, dtype, normed, length):
    qkv, weight = drawn(seed, length, heads.width, dtype=dtype), weights(seed + 1, heads, normed)
    trees = Forest([-1], [0], [length])
    cosine, sine = rotary_tables(POSITIONS, heads.size)
    qk, _ = turned(qkv, weight, cosine, sine, trees.depth(), EPSILON, heads.shared)
    noise = 2e-6
    if dtype is torch.bfloat16:
        # Queries and keys are rounded to bf16 once turned, as pages hold them. Looked at apart: see below.
        rounded, _ = kernels.apply_rope(qkv, weight, cosine, sine, trees.depth(), EPSILON, heads.shared)
        assert_close(rounded, qk.flatten(1), 4.0)
        qk = rounded.double().unflatten(1, (-1, heads.size))
    values = heads.parts(qkv.double())[1]
    due, _ = attention(qk, values, trees.visible(), heads.size**-0.5, heads.shared)
    for places, out in by_pages(qkv, trees, heads, weight, seed, longest=20, sharing=False):
        assert_close(out, due.flatten(1)[places], 6.0, noise)


@pytest.mark.parametrize("dtype", TYPES)
def test_only_own_slots_are_written(dtype):
    heads = Heads(2, 2, 16)
    store = Store(heads, dtype, weights(1, heads, True), Key.of(3).numpy())
    store.table = [[], []]
    store.open(0, 20)
    store.open(1, 5)
    qkv = drawn(2, 25, heads.width, dtype=dtype)
    before = store.keys.clone(), store.values.clone()
    given_qkv = qkv.clone()
    store.call(qkv, [(0, 0, 20), (1, 0, 5)], before=2, after=3)
    assert same(qkv, given_qkv)
    depth = torch.tensor([*range(20), *range(5)], dtype=torch.int32)
    turn, _ = kernels.apply_rope(qkv, store.weight, store.cosine, store.sine, depth, EPSILON, 2)
    slots = [store.slot(0, p) for p in range(20)] + [store.slot(1, p) for p in range(5)]
    for number, slot in enumerate(slots):
        page, offset = divmod(slot, PAGE)
        assert same(store.keys[page, :, :, offset], turn[number, 64:].view(2, 16))
        assert same(store.values[page, :, offset], qkv[number, 96:].view(2, 16))
        before[0][page, :, :, offset] = store.keys[page, :, :, offset]
        before[1][page, :, offset] = store.values[page, :, offset]
    assert same(store.keys, before[0])
    assert same(store.values, before[1])


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("length", [1, 15, 16, 17, 48, 100])
def test_a_copied_page_goes_on_as_the_original(dtype, length):
    """A fork within a page: its pages are copied up to there, and both rows go on."""
    heads = Heads(3, 1, 32)
    trees = Forest([-1, 0, 0], [0, length, length + 9], [length, 9, 30])
    qkv, weight = drawn(1, trees.tokens, heads.width, dtype=dtype), weights(2, heads, True)
    due = along_tree(qkv, trees, heads, weight)
    store = Store(heads, dtype, weight, Key.of(4).numpy())
    store.table = [[], []]
    store.open(0, length + 9)
    store.open(1, length + 30)
    assert same(store.call(qkv[:length], [(0, 0, length)]), due[:length])
    for old, new in list(zip(store.table[0], store.table[1], strict=False))[: -(-length // PAGE)]:
        store.keys[new], store.values[new] = store.keys[old], store.values[old]
    for step in range(9):
        places = [length + step, length + 9 + step]
        assert same(store.call(qkv[places], [(0, length + step, 1), (1, length + step, 1)]), due[places])
    assert same(store.call(qkv[-21:], [(1, length + 9, 21)]), due[-21:])


@pytest.mark.parametrize("dtype", TYPES)
def test_garbage_of_other_rows_stays_there(dtype):
    """A row whose numbers are not finite beside rows of numbers."""
    heads = Heads(2, 1, 16)
    trees = Forest([-1, -1], [0, 30], [30, 30])
    qkv, weight = drawn(1, 60, heads.width, dtype=dtype), weights(2, heads, True)
    due = along_tree(qkv, trees, heads, weight)
    qkv[30:] = torch.nan
    store = Store(heads, dtype, weight, Key.of(4).numpy())
    store.table = [[], []]
    store.open(0, 30)
    store.open(1, 30)
    assert same(store.call(qkv[:29].contiguous(), [(0, 0, 29)]), due[:29])
    store.call(qkv[30:59], [(1, 0, 29)])
    assert same(store.call(qkv[[59, 29]], [(1, 29, 1), (0, 29, 1)])[1], due[29])


def test_no_run_at_all():
    heads = Heads(2, 1, 16)
    store = Store(heads, torch.float32, None, Key.of(4).numpy())
    store.table = [[3]]
    before = store.keys.clone()
    store.call(torch.zeros(0, heads.width), [], before=4)
    assert same(store.keys, before)


@pytest.mark.slow
@pytest.mark.parametrize("size", [48, 64, 80, 128])
@pytest.mark.parametrize("dtype", TYPES)
def test_other_sizes(size, dtype):
    if not kernels.available(size):
        pytest.skip(str(kernels.reason(size)))
    for repeat in (1, 2, 3, 4, 8, 12):
        heads, trees = Heads(repeat, 2, size), forest(repeat, 7, 30)
        qkv, weight = drawn(repeat, trees.tokens, heads.width, dtype=dtype), weights(2, heads, True)
        due = along_tree(qkv, trees, heads, weight)
        for places, out in by_pages(qkv, trees, heads, weight, repeat, longest=20, sharing=True):
            assert same(out, due[places])
