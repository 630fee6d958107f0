"""The forward pass of a decoder of known form over pages of keys and values, and the cache of these pages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hocket.engine.fixed_step import FixedStep
from hocket.engine.pages import PAGE, PagePool, PageTree
from hocket.engine.states import SHARE, PassHistories, StatePool
from hocket.policies.family import (
    STEPS,
    Adapters,
    LayerSteps,
    Precision,
    embedded,
    head_of,
    last_states,
    layers_of,
    logit_states,
    mixed_layers,
    run_layers,
    stack_of,
)
from hocket.policies.form_reading import known_form
from hocket.policies.layer_inputs import LayerInputs
from hocket.policies.lowrank import Owners
from hocket.policies.operations import COMPILED, Functions
from hocket.policies.shaping import Angles, angle_tables
from hocket.policies.vision import vision_of

BUCKET = 16
"""Matrix products have a multiple of this many rows: results are then equal to the last bit, and shapes are few."""
_COARSE = 512
"""From this many rows on, the multiple is four times as large."""

Ints = NDArray[np.int32]


class PassRecord(Protocol):
    """What keeps of a pass what a learner wants: an activation cache, or a record of routes.

    Attributes:
        full: whether nothing is kept any more.
    """

    full: bool

    def recording(self) -> LayerSteps: ...

    def add(self, recording: LayerSteps, wanted: Tensor | None) -> int: ...

    def remember(self, tokens: Sequence[int], trace: NDArray[np.int64]) -> None: ...


def bucket(rows: int) -> int:
    """The number of rows to which `rows` is padded."""
    step = BUCKET if rows < _COARSE else 4 * BUCKET
    return -(-max(rows, 1) // step) * step


class ForwardBatch:
    """The tokens of one forward pass, as arrays that are filled in place.

    Attributes:
        token, position, slot: of each token. table: pages of each row. run_start, run_row: see
            `hocket.policies.kernels.paged_attention`. owner: the number of the policy each token is for.
        state: the slot of each row's state.
        rows, tokens: the current number of runs and tokens.

    Args:
        most_tokens, most_rows: the capacity. width: pages of the longest row.
    """

    def __init__(self, most_tokens: int, most_rows: int, width: int) -> None:
        room = bucket(most_tokens)
        self.token = np.zeros(room, np.int64)
        self.position = np.zeros(room, np.int32)
        self.slot = np.zeros(room, np.int32)
        self.owner = np.zeros(room, np.int32)
        self.table = np.zeros((most_rows, width), np.int32)
        self.state = np.zeros(most_rows, np.int32)
        self.run_start = np.zeros(most_rows + 1, np.int32)
        self.run_row = np.arange(most_rows, dtype=np.int32)
        self.rows = self.tokens = 0
        arrays = (self.token, self.position, self.slot, self.table, self.run_start, self.run_row)
        self._tensors = [torch.from_numpy(array) for array in arrays]
        self._step = np.arange(most_rows + 1, dtype=np.int32)

    def begin(
        self, token: NDArray[np.int64], position: Ints, owner: Ints, state: Ints, drafts: Sequence[list[int]] = ()
    ) -> None:
        """One token for each of the first rows of `table`, or a token and its draft for each."""
        rows = self.rows = self.tokens = len(token)
        self.state[:rows] = state
        if any(drafts):
            self._begin_runs(token, position, owner, drafts)
            return
        self.token[:rows] = token
        self.owner[:rows] = owner
        self.position[:rows] = position
        pages = self.table[self._step[:rows], position // PAGE]
        self.slot[:rows] = pages * PAGE + position % PAGE
        self.run_start[: rows + 1] = self._step[: rows + 1]

    def _begin_runs(self, token: NDArray[np.int64], position: Ints, owner: Ints, drafts: Sequence[list[int]]) -> None:
        lengths = np.array([1 + len(draft) for draft in drafts])
        row = np.repeat(np.arange(self.rows), lengths)
        self.run_start[1 : self.rows + 1] = np.cumsum(lengths)
        last = self.tokens = len(row)
        self.token[:last] = [
            each for first, draft in zip(token.tolist(), drafts, strict=True) for each in (first, *draft)
        ]
        self.owner[:last] = owner[row]
        self.position[:last] = position[row] + np.arange(last) - self.run_start[row]
        self.slot[:last] = self.table[row, self.position[:last] // PAGE] * PAGE + self.position[:last] % PAGE

    def add(self, tokens: tuple[int, ...], start: int, pages: list[int], owner: int, state: int) -> None:
        """Adds a row: `tokens` from position `start` on, in `pages` (all pages of the row, from its first position)."""
        first, last = self.tokens, self.tokens + len(tokens)
        self.token[first:last] = tokens
        self.owner[first:last] = owner
        position = np.arange(start, start + len(tokens), dtype=np.int32)
        self.position[first:last] = position
        self.slot[first:last] = np.array(pages, np.int32)[position // PAGE] * PAGE + position % PAGE
        self.table[self.rows, : len(pages)] = pages
        self.state[self.rows] = state
        self.rows += 1
        self.tokens = self.run_start[self.rows] = last

    def end(self) -> tuple[Tensor, ...]:
        """Pads to a bucket; returns token, position, slot, table, run_start, run_row as tensors."""
        last = bucket(self.tokens)
        self.token[self.tokens : last] = 0
        self.slot[self.tokens : last] = -1
        self.owner[self.tokens : last] = self.owner[self.tokens - 1]  # Any owner would do; this keeps rows together.
        token, position, slot, table, run_start, run_row = self._tensors
        return token[:last], position[:last], slot[:last], table, run_start[: self.rows + 1], run_row[: self.rows]


class PagedModel:
    """The forward pass with the current weights; it is valid until they change.

    Attributes:
        vocabulary: number of tokens. dtype: of keys and values. device: where it computes.

    Args:
        kernels: a column of operations, see `hocket.policies.operations`.
        adapters: the adapters of several policies, which `ForwardBatch.owner` selects and which are their only
            difference from `model`; without adapters there is a single policy, `model` itself.
    """

    def __init__(
        self, model: Any, precision: Precision, kernels: Functions, adapters: Sequence[Adapters] | None = None
    ) -> None:
        form = known_form(model)
        self._model, self._head, self.device = model, head_of(model), torch.device(model.device)
        self.vocabulary = int(model.lm_head.out_features)
        self._owners = None if adapters is None else Owners()
        if adapters is None or self._owners is None:
            self._layers = layers_of(model, precision)
        else:
            self._layers = mixed_layers(model, precision, adapters, self._owners)
        self._kernels = kernels
        self._stack = stack_of(model, self._layers) if kernels is COMPILED.functions() else None
        self._inputs = LayerInputs(model, precision)
        self._shapes = [layer.attention.shape for layer in form.layers]
        holders = list(dict.fromkeys(form.holders.values()))
        self._place = {number: holders.index(holder) for number, holder in form.holders.items()}
        self._tables: dict[str | None, Angles] = {}
        self._reached = 0
        self._steps: dict[int, FixedStep] = {}
        self._recorded_for = (0, 0, 0)
        self.reach(1)
        self.dtype = self._layers[0].dtype

    def reach(self, positions: int) -> None:
        """Prepares for positions below `positions`."""
        if positions > self._reached:
            tables = angle_tables(self._model, positions)
            self._tables = {name: (cosine.contiguous(), sine.contiguous()) for name, (cosine, sine) in tables.items()}
            self._reached = positions

    def logits(
        self,
        batch: ForwardBatch,
        pool: PagePool,
        wanted: Tensor | None,
        activations: PassRecord | None = None,
        states: StatePool | None = None,
    ) -> Tensor:
        """Logits after the `wanted` tokens `[K]`, or after all; `[K', V]`, where rows beyond K are padding.

        The `activations` record intermediate results unless they are full; recurrent layers have their `states`.
        """
        recording = None if activations is None or activations.full else activations.recording()
        token, position, slot, table, run_start, run_row = batch.end()
        if batch.rows == batch.tokens and wanted is None and recording is None and self._recordable():
            return self._recorded(pool, (token, position, slot), table, batch.rows)
        heads, shared, _ = self._shapes[0]
        table, run_start, run_row = self._kernels.placed(
            table, run_start, run_row, position[: batch.tokens], self.device, heads // shared
        )
        if self.device.type != "cpu":
            token, position, slot = (column.to(self.device) for column in (token, position, slot))
        owner = batch.owner[: len(token)]
        columns = (token, position, slot, table, run_start, run_row)
        histories = None
        if states is not None:
            runs = batch.run_start[: batch.rows + 1]
            histories = PassHistories(states, runs, batch.position, batch.state[: batch.rows], len(token))
        steps = LayerSteps() if recording is None else recording
        steps.live = batch.tokens
        logits = self._logits_of(pool, *columns, owner=owner, wanted=wanted, steps=steps, histories=histories)
        if activations is not None and recording is not None:
            first, slots = activations.add(recording, wanted), batch.slot[: batch.tokens]
            pool.record.reshape(-1)[slots] = first + np.arange(len(slots)) if first >= 0 else -1
        return logits

    def _logits_of(
        self,
        pool: PagePool,
        token: Tensor,
        position: Tensor,
        slot: Tensor,
        table: Tensor,
        run_start: Tensor,
        run_row: Tensor,
        *,
        owner: Ints | None = None,
        wanted: Tensor | None = None,
        steps: LayerSteps = STEPS,
        histories: PassHistories | None = None,
    ) -> Tensor:
        """The pass itself, of what is on the device."""
        last = len(self._layers) - 1
        self._say(owner)

        def attend(number: int, qkv: Tensor) -> Tensor:
            layer = self._layers[number]
            if layer.recurrence is not None and histories is not None:
                mixed = layer.recurrence(qkv, number, histories)
                if number == last and wanted is not None:
                    self._say(None if owner is None else owner[wanted.numpy()])
                return mixed
            if layer.shaping is not None:
                qkv = layer.shaping(qkv, lambda: self._turn(layer.late, position))
            cosine, sine = self._tables[layer.rotary]
            if number == last and wanted is not None:  # After its attention the last layer computes only these rows.
                self._say(None if owner is None else owner[wanted.numpy()])
            heads, shared, _ = self._shapes[number]
            sums = torch.empty(len(qkv), heads, device=self.device) if steps.sums else None
            mixed = self._kernels.paged_attention(
                qkv,
                pool.keys[self._place[number]],
                pool.values[self._place[number]],
                position=position,
                slot=slot,
                table=table,
                run_start=run_start,
                run_row=run_row,
                weight=layer.turn,
                epsilon=layer.turn_epsilon,
                cosine=cosine,
                sine=sine,
                scale=layer.scale,
                heads=heads,
                shared=shared,
                bounds=layer.bounds,
                sums=sums,
            )
            if sums is not None:
                steps.attended(mixed, sums)
            return mixed

        x = embedded(self._model, token)
        chosen = None if wanted is None else wanted.to(self.device)
        if self._stack is not None and steps.fused:
            where = {"position": position, "slot": slot, "table": table, "run_start": run_start, "run_row": run_row}

            def feed(number: int, normal: Tensor) -> Tensor:
                return self._layers[number].feed(number, normal, steps)

            normal = self._stack(x, pool.keys, pool.values, self._tables, wanted=chosen, feed=feed, **where)
            hidden = last_states(self._model, normal)
        else:
            inputs = self._inputs(token, x)
            hidden = run_layers(self._model, self._layers, x, attend, wanted=chosen, steps=steps, inputs=inputs)
        return self._head(logit_states(self._model, hidden))

    def _recordable(self) -> bool:
        """Whether passes of one token a row can be recorded: no operation waits for what the device has computed."""
        if self.device.type != "cuda" or not self._kernels.RECORDABLE or self._owners is not None:
            return False
        if vision_of(self._model) is not None:  # Whether there are pictures is seen on the processor.
            return False
        return all(layer.experts is None and layer.recurrence is None for layer in self._layers)

    def _recorded(self, pool: PagePool, columns: tuple[Tensor, Tensor, Tensor], table: Tensor, rows: int) -> Tensor:
        """A pass of one token a row, whose shapes depend on the number of rows as padded; see `FixedStep`."""
        places, shape = len(columns[0]), (pool.size, table.shape[1], self._reached)
        if shape != self._recorded_for:
            self._steps, self._recorded_for = {}, shape
        step = self._steps.setdefault(places, FixedStep(self.device))
        pages = torch.zeros(places, table.shape[1], dtype=torch.int32)
        pages[:rows] = table[:rows]
        # Rows that only fill a place have no token.
        run_start = torch.arange(places + 1, dtype=torch.int32).clamp_(max=rows)
        run_row = torch.arange(places, dtype=torch.int32)
        return step(partial(self._logits_of, pool), *columns, pages, run_start, run_row)

    def _turn(self, table: str | None, position: Tensor) -> Angles:
        """Tokens' own angles `[M, D]`."""
        cosine, sine = self._tables[table]
        return cosine[position], sine[position]

    def _say(self, owner: Ints | None) -> None:
        if self._owners is not None and owner is not None:
            self._owners.say(owner)


@dataclass
class SamplingCounts:
    """Counters of sampling since the start.

    Attributes:
        computed: context tokens that were read. reused: context tokens taken from the cache.
        decoded: tokens drawn. passes: forward passes.
        rows: rows decoded, summed over passes; `rows / passes` is the mean batch size.
        places: the same with padding; `rows / places` is the occupancy.
        evicted: pages evicted for others. preempted: rows that had to wait for pages after they had begun.
        drafted: tokens of drafts that were read. accepted: those of them that were drawn.
    """

    computed: int = 0
    reused: int = 0
    decoded: int = 0
    passes: int = 0
    rows: int = 0
    places: int = 0
    evicted: int = 0
    preempted: int = 0
    drafted: int = 0
    accepted: int = 0


class PagedCache:
    """A model with its cache of keys and values.

    Attributes:
        model: the forward pass. pool: the pages. tree: finds pages by tokens. page_bytes: memory of a page.
        states: of layers that have one in place of keys and values, if there are any.
        activations: the cache that records passes for the learner, if there is one.
        now: the number of the current or last pass.

    Args:
        model, precision, kernels, adapters: see `PagedModel`.
        most: the largest number of bytes of keys and values, and of states.
    """

    def __init__(
        self,
        model: Any,
        precision: Precision,
        kernels: Functions,
        most: int,
        adapters: Sequence[Adapters] | None = None,
    ) -> None:
        self.model = PagedModel(model, precision, kernels, adapters)
        self.kernels = kernels
        form = known_form(model)
        self.states = StatePool(form.recurrent, most // SHARE) if form.recurrent else None
        most -= most // SHARE if form.recurrent else 0
        shapes = [form.layers[number].attention.shape[1:] for number in dict.fromkeys(form.holders.values())]
        page = PagePool.bytes_per_page(shapes, self.model.dtype)
        self.page_bytes = page
        self.pool = PagePool(shapes, most=most // page, dtype=self.model.dtype, device=self.model.device)
        self.tree = PageTree(self.pool)
        self.now = 0
        self.activations: PassRecord | None = None

    def record(self, activations: PassRecord | None) -> None:
        """Records further passes on `activations`. A new one begins with an empty cache, so that it is complete."""
        if activations is not None and activations is not self.activations:
            self.forget()
        self.activations = activations

    def renew(
        self, model: Any, precision: Precision, adapters: Sequence[Adapters] | None, changed: Iterable[int]
    ) -> None:
        """Adopts changed weights and drops what was computed with the old ones.

        The memory stays allocated.
        """
        self.model = PagedModel(model, precision, self.kernels, adapters)
        for owner in changed:
            self.tree.forget(owner)
            if self.states is not None:
                self.states.forget(owner)

    def forget(self) -> None:
        """Frees all pages."""
        self.pool.clear()
        self.pool.record[:] = -1
        self.tree = PageTree(self.pool)
        if self.states is not None:
            self.states.clear()
