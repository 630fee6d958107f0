"""Weights of which every rank keeps a share: a layer's come together just before use, go after it, and come back.

A share is a run of a weight's numbers, flat, that begins at a multiple of `PIECE`; optimisers change the shares. The
memory of the whole weights comes and goes, the tensors in the module stay, so that kernels, layers and autograd know
nothing of it: what autograd keeps for the backward pass is the tensor, whose memory is filled again before it is read.

Ranks need not know what others compute. They meet in rounds, in each of which a rank asks for a unit's weights, gives
a gradient, or only serves the others; a layer is a unit, and so is all that is outside the layers. On accelerators a
round for the next layer goes on in a thread while one is computed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.autograd import Function

from hocket.core.errors import HocketError
from hocket.distributed.cluster.fetch import Fetch
from hocket.distributed.cluster.leaves import Exchange
from hocket.policies.family import Layer, Precision, Run, Visit, layer_of
from hocket.policies.residence import Residence

PIECE = 64
"""Shares begin at multiples of it: optimisers round what is left over at the end of a tensor in another way."""

SERVE, FETCH, GIVE = range(3)
"""What a rank does in a round."""


@dataclass(frozen=True)
class Lend:
    """Asks another rank for its shares of units, by number. Answered by a list of tensors for each."""

    units: Sequence[int]


class ShardedWeight:
    """A weight of which every rank keeps a share.

    Attributes:
        weight: in its module; its memory is there while there are `users`. share: `[K]`, what optimisers change.
        bounds: where the ranks' shares begin, and where the last one ends.
    """

    def __init__(self, weight: nn.Parameter, rank: int, size: int) -> None:
        self.weight, self.users = weight, 0
        self.bounds = bounds(weight.numel(), size)
        mine = weight.detach().reshape(-1)[self.bounds[rank] : self.bounds[rank + 1]].clone()
        self.share = nn.Parameter(mine, requires_grad=weight.requires_grad)
        weight.data = torch.empty(weight.shape, dtype=weight.dtype, device=weight.device)  # Memory of its own.
        self.empty()

    @property
    def nbytes(self) -> int:
        return self.weight.numel() * self.weight.element_size()

    def size(self, rank: int) -> int:
        """Of a rank's share, bytes."""
        return (self.bounds[rank + 1] - self.bounds[rank]) * self.weight.element_size()

    def fill(self) -> None:
        """Makes room for the whole."""
        self.weight.untyped_storage().resize_(self.nbytes)

    def empty(self) -> None:
        self.weight.untyped_storage().resize_(0)

    def part(self, rank: int) -> Tensor:
        """The place of a rank's share, as bytes; autograd does not see what is written there."""
        part = torch.empty(0, dtype=torch.uint8, device=self.weight.device)
        start = self.bounds[rank] * self.weight.element_size()
        return part.set_(self.weight.untyped_storage(), start, (self.size(rank),), (1,))

    def cut(self, tensor: Tensor, rank: int) -> Tensor:
        """A rank's share of a tensor of the weight's shape, flat."""
        return tensor.detach().reshape(-1)[self.bounds[rank] : self.bounds[rank + 1]]


def bounds(count: int, size: int) -> list[int]:
    """Where the shares of `count` numbers begin on `size` ranks, and where the last one ends."""
    each = -(-count // (size * PIECE)) * PIECE
    return [min(rank * each, count) for rank in range(size + 1)]


def as_bytes(flat: Tensor) -> Tensor:
    """The same numbers, as bytes."""
    return flat.detach().contiguous().view(torch.uint8)


@dataclass(frozen=True)
class Unit:
    """Weights that come and go together; the same `number` on all ranks."""

    number: int
    weights: Sequence[ShardedWeight]


class GradientSums(Protocol):
    """Where gradients go."""

    def received(self, unit: Unit, giver: int, parts: Mapping[int, Tensor]) -> None:
        """This rank's share of what a rank gives for some weights of a unit, by their place in it."""
        ...


class Meeting:
    """Where ranks lend each other weights and give each other gradients.

    Outside of what all do `jointly`, one rank may ask the others for their shares, who wait for questions.

    Args:
        ranks: who meets. ask: has the others answer a question; None where others ask.

    Attributes:
        held: the weights by identity. shards: of all modules, in one order on all ranks.
        sums: where gradients go; None leaves them where they are. touched: weights that were given some.
        gathered, peak: bytes of whole weights that are here now, and the most there were.
        lock: of whoever has weights come, as rollouts may do in another thread.
        prefetches: whether units come `ahead`; on a processor it gains nothing, as ranks share its cores.
    """

    def __init__(self, ranks: Exchange, ask: Callable[[Any], list[Any]] | None = None) -> None:
        self.ranks, self._ask = ranks, ask
        self.held: dict[int, ShardedWeight] = {}
        self.shards: list[Shards] = []
        self.units: list[Unit] = []
        self.sums: GradientSums | None = None
        self.touched: set[int] = set()
        self.gathered = self.peak = 0
        self.lock = threading.RLock()
        self._joint = self.prefetches = False
        self._coming: tuple[Unit, Fetch] | None = None

    def unit(self, weights: Iterable[nn.Parameter]) -> Unit:
        """A new unit of weights, which from now on are held in shares."""
        weights_held = []
        for weight in weights:
            if id(weight) not in self.held:
                self.held[id(weight)] = ShardedWeight(weight, self.ranks.rank, self.ranks.size)
            weights_held.append(self.held[id(weight)])
        self.units.append(Unit(len(self.units), weights_held))
        return self.units[-1]

    def asked(self, question: Any) -> list[Any]:
        """What the other ranks answer.

        Raises:
            HocketError: where this rank may not ask, or one is gone.
        """
        if self._ask is None:
            raise HocketError("this learner has a share of the weights and was not told to compute with the whole")
        with self.lock:
            return self._ask(question)

    # ------------------------------------------------------------ weights

    def come(self, *units: Unit) -> None:
        """Has the weights of units here until they `go`."""
        self._wait()
        missing = [unit for unit in units if not all(held.users for held in unit.weights)]
        for held in (held for unit in missing for held in unit.weights if not held.users):
            held.fill()
        if self._joint:
            for unit in missing:
                self._round(FETCH, unit)
        elif missing:
            self._borrow(missing)
        self._use(*units)
        self._release_coming()

    def ahead(self, unit: Unit) -> None:
        """Has the weights of the unit that is needed next come while something is computed; `come` waits for them."""
        if (
            not (self.prefetches and self._joint)
            or self._coming is not None
            or any(held.users for held in unit.weights)
        ):
            return
        for held in unit.weights:
            held.fill()
        self._use(unit)
        self._coming = unit, Fetch(partial(self._round, FETCH, unit), unit.weights[0].share.device)

    def _wait(self) -> None:
        """Waits for what comes; ranks meet in one round at a time."""
        if self._coming is not None:
            self._coming[1].wait()

    def _release_coming(self) -> None:
        """Leaves what came ahead to those who use it now."""
        coming, self._coming = self._coming, None
        if coming is not None:
            self.go(coming[0])

    def _use(self, *units: Unit) -> None:
        for held in (held for unit in units for held in unit.weights):
            self.gathered += 0 if held.users else held.nbytes
            held.users += 1
        self.peak = max(self.peak, self.gathered)

    def go(self, *units: Unit) -> None:
        """Lets go of them, where nobody else needs them."""
        for held in (held for unit in units for held in unit.weights):
            held.users -= 1
            if not held.users:
                self.gathered -= held.nbytes
                held.empty()

    @contextmanager
    def undone(self) -> Iterator[None]:
        """Where something fails within, what came meanwhile goes: weights that stayed would soon be old ones."""
        before = [(held, held.users) for held in self.held.values()]
        try:
            yield
        except BaseException:
            with suppress(HocketError):  # What fails within says more than a round that fails with it.
                self._wait()
            self._coming = None
            for held, users in before:
                if not users:
                    self.gathered -= held.nbytes if held.users else 0
                    held.empty()
                held.users = users
            raise

    def lent(self, question: Lend) -> list[list[Tensor]]:
        """The answer to a question."""
        return [[held.share.detach().cpu() for held in self.units[number].weights] for number in question.units]

    def _borrow(self, units: Sequence[Unit]) -> None:
        answers = self.asked(Lend([unit.number for unit in units]))
        for place, unit in enumerate(units):
            shares_by_rank = [[held.share for held in unit.weights], *(answer[place] for answer in answers)]
            for rank, shares in enumerate(shares_by_rank):
                for held, share in zip(unit.weights, shares, strict=True):
                    held.part(rank).copy_(as_bytes(share))

    # ------------------------------------------------------------ rounds

    @contextmanager
    def jointly(self) -> Iterator[None]:
        """What all ranks do within, each its own; at the end they serve each other until all are done."""
        with self.lock:
            self._joint = True
            try:
                yield
                self.serve()
            finally:
                self._joint = False

    def serve(self) -> None:
        """Serves the others until nobody wants anything."""
        self._wait()
        self._release_coming()
        while self._round(SERVE):
            pass

    def give(self, unit: Unit) -> None:
        """Gives away the gradients of a unit's weights, where they are summed."""
        if self.sums is None:
            return
        gradients = {place: held.weight.grad for place, held in enumerate(unit.weights) if held.weight.grad is not None}
        for held in unit.weights:
            held.weight.grad = None
        if gradients:
            self._wait()
            self._round(GIVE, unit, gradients)

    def settle(self) -> None:
        """After a forward and backward pass: gives away what is left of gradients, and serves the others."""
        for shards in self.shards:
            self.give(shards.outside)
            shards.release()
        self.serve()

    def _round(self, kind: int, unit: Unit | None = None, gradients: Mapping[int, Tensor] | None = None) -> bool:
        """Says what this rank wants, and does what all want; whether anybody wanted anything."""
        rank, size = self.ranks.rank, self.ranks.size
        places = set(gradients or ())
        row = [kind, 0 if unit is None else unit.number]
        row += [int(place in places) for place in range(max(len(each.weights) for each in self.units))]
        rows = [numbers.tolist() for numbers in self.ranks.gathered(torch.tensor(row))]
        messages = [self._message(rows, other, gradients) for other in range(size)]
        sizes = [self._size(rows, other, rank) for other in range(size)]
        received = self.ranks.swapped(messages, sizes)
        for giver in range(size):
            self._received(rows, giver, received[giver], gradients)
        return any(kind != SERVE for kind, *_ in rows)

    def _lent(self, rows: Sequence[Sequence[int]], taker: int) -> Sequence[ShardedWeight]:
        """Whose shares a rank wants."""
        kind, number = rows[taker][:2]
        return self.units[number].weights if kind == FETCH else ()

    def _given(self, rows: Sequence[Sequence[int]], giver: int) -> list[tuple[int, ShardedWeight]]:
        """Of which weights a rank gives gradients, with their places."""
        kind, number, *present = rows[giver]
        pairs = enumerate(self.units[number].weights) if kind == GIVE else ()
        return [(place, held) for place, held in pairs if present[place]]

    def _size(self, rows: Sequence[Sequence[int]], giver: int, taker: int) -> int:
        """Bytes from one rank to another."""
        if giver == taker:
            return 0
        lent = sum(held.size(giver) for held in self._lent(rows, taker))
        return lent + sum(held.size(taker) for _, held in self._given(rows, giver))

    def _message(self, rows: Sequence[Sequence[int]], taker: int, gradients: Mapping[int, Tensor] | None) -> Tensor:
        """What this rank gives another, in the order of `_size`."""
        device = self.units[0].weights[0].share.device
        if taker == self.ranks.rank:
            return torch.empty(0, dtype=torch.uint8, device=device)
        parts = [held.share for held in self._lent(rows, taker)]
        local = {} if gradients is None else gradients
        cuts = [held.cut(local[place], taker) for place, held in self._given(rows, self.ranks.rank)]
        all_parts = [as_bytes(part) for part in (*parts, *cuts)]
        return torch.cat(all_parts) if all_parts else torch.empty(0, dtype=torch.uint8, device=device)

    def _received(
        self, rows: Sequence[Sequence[int]], giver: int, data: Tensor, gradients: Mapping[int, Tensor] | None
    ) -> None:
        """Puts what a rank gave into its place; what this rank has itself too."""
        rank, start = self.ranks.rank, 0
        for held in self._lent(rows, rank):
            end = start + held.size(giver)
            held.part(giver).copy_(as_bytes(held.share) if giver == rank else data[start:end])
            start = end if giver != rank else 0
        parts = {}
        for place, held in self._given(rows, giver):
            self.touched.add(id(held))
            if giver == rank and gradients is not None:
                parts[place] = held.cut(gradients[place], rank).clone()
                continue
            end = start + held.size(rank)
            parts[place] = data[start:end].clone().view(held.weight.dtype)
            start = end
        if parts and self.sums is not None:
            self.sums.received(self.units[rows[giver][1]], giver, parts)


# ---------------------------------------------------------------- a module


class Shards(Residence):
    """The weights of a language model, of which every rank keeps a share.

    Attributes:
        outside: the unit of all that is outside the layers: embeddings, last norm, heads. inner: a unit for each layer.
    """

    here = False

    def __init__(self, module: nn.Module, meeting: Meeting) -> None:
        self._meeting, self._blocks = meeting, blocks_of(module)
        inside = {id(weight) for block in self._blocks for weight in block.parameters()}
        device = next(module.parameters()).device
        self.outside = meeting.unit(weight for weight in module.parameters() if id(weight) not in inside)
        self.inner = [meeting.unit(block.parameters()) for block in self._blocks]
        self._anchor = torch.zeros((), device=device, requires_grad=True)
        self._lingering = 0
        meeting.shards.append(self)
        meeting.prefetches |= device.type == "cuda"

    @contextmanager
    def whole(self) -> Iterator[None]:
        units = (self.outside, *self.inner)
        with self._meeting.lock:
            self._meeting.come(*units)
            try:
                yield
            finally:
                self._meeting.go(*units)

    @contextmanager
    def around(self) -> Iterator[None]:
        """Where gradients are wanted what is outside the layers stays until `release`: the backward pass reads it."""
        with self._meeting.lock:
            if self._meeting.sums is None:
                self.release()
            with self._meeting.undone():
                self._meeting.come(self.outside)
                yield
            if torch.is_grad_enabled():
                self._lingering += 1
            else:
                self._meeting.go(self.outside)

    def release(self) -> None:
        """Lets go of what stayed for a backward pass."""
        for _ in range(self._lingering):
            self._meeting.go(self.outside)
        self._lingering = 0

    def restore(self, *, filled: bool) -> None:
        """Has all weights in the module again, for good; what they are is left open unless they are to be `filled`."""
        units = (self.outside, *self.inner)
        if filled:
            self._meeting.come(*units)
            return
        for held in (held for unit in units for held in unit.weights):
            held.users += 1
            held.fill()

    def held(self, weights: Iterable[Tensor]) -> list[Tensor]:
        return [self._meeting.held[id(weight)].share for weight in weights]

    def layers(self, model: Any, precision: Precision) -> tuple[Sequence[Layer], Visit]:
        made = _Layers(lambda number: layer_of(model, precision, number), len(self.inner))

        def visit(number: int, run: Run, x: Tensor, delta: Tensor | None) -> tuple[Tensor, Tensor]:
            passing = _Visit(self._meeting, self.inner, self._anchor, number, made)
            begun, more = passing.begun(x, delta)
            assert begun is not None
            hidden, added = passing.ended(*run(begun, more))
            assert hidden is not None
            assert added is not None
            return hidden, added

        return made, visit

    @contextmanager
    def called(self) -> Iterator[None]:
        hooks: list[Any] = []
        for number, block in enumerate(self._blocks):
            passing = _Visit(self._meeting, self.inner, self._anchor, number)
            hooks += [
                block.register_forward_pre_hook(_before(passing), with_kwargs=True),
                block.register_forward_hook(_after(passing)),
            ]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()


def blocks_of(module: nn.Module) -> list[nn.Module]:
    """The layers of a model: its largest list of modules."""
    lists = [layers for layers in module.modules() if isinstance(layers, nn.ModuleList)]
    sizes = [sum(weight.numel() for weight in layers.parameters()) for layers in lists]
    return list(lists[sizes.index(max(sizes))]) if lists else []


def strays(module: nn.Module) -> list[str]:
    """What is in the way of holding a model in shares: weights that several layers use, numbers that are no weights."""
    blocks = blocks_of(module)
    inside = [id(inner) for block in blocks for inner in block.modules()]
    ids = [id(weight) for block in blocks for weight in block.parameters()]
    outer = [other for other in module.modules() if id(other) not in inside]
    beyond = {id(weight) for other in outer for weight in other.parameters(recurse=False)}
    twice = {weight for weight in ids if ids.count(weight) > 1 or weight in beyond}
    named = dict(module.named_parameters(remove_duplicate=False))
    return [*(name for name, weight in named.items() if id(weight) in twice), *(module.state_dict().keys() - named)]


def _before(passing: _Visit) -> Callable[..., Any]:
    def hook(block: nn.Module, arguments: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        if arguments:
            return (*passing.begun(arguments[0]), *arguments[1:]), named
        if "hidden_states" not in named:
            raise HocketError(
                f"a {type(block).__name__} is called in a way that weights in shares do not know: leave shard out"
            )
        return arguments, {**named, "hidden_states": passing.begun(named["hidden_states"])[0]}

    return hook


def _after(passing: _Visit) -> Callable[..., Any]:
    def hook(_: nn.Module, arguments: tuple[Any, ...], outputs: Any) -> Any:
        if isinstance(outputs, Tensor):
            return passing.ended(outputs)[0]
        return (*passing.ended(outputs[0]), *outputs[1:])

    return hook


class _Layers(Sequence[Layer]):
    """Layers that are made when they are first visited."""

    def __init__(self, make: Callable[[int], Layer], count: int) -> None:
        self.make, self._count = make, count
        self._made: dict[int, Layer] = {}

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, number: Any) -> Any:
        if number not in self._made:
            self._made[number] = self.make(number)
        return self._made[number]

    def copies(self, number: int) -> list[Tensor]:
        """Of the weights of a layer that was made."""
        return self._made[number].copies if number in self._made else []

    def drop(self, number: int) -> None:
        self._made.pop(number, None)


class _Visit:
    """One pass through a layer: its weights come, go, come back for the backward pass, and go.

    Copies that the layer made of its weights go with them and are made again.
    """

    def __init__(
        self, meeting: Meeting, units: Sequence[Unit], anchor: Tensor, number: int, layers: _Layers | None = None
    ) -> None:
        self._meeting, self._units, self._anchor = meeting, units, anchor
        self._unit, self._layers, self._number = units[number], layers, number

    def begun(self, *tensors: Tensor | None) -> tuple[Tensor | None, ...]:
        self._meeting.come(self._unit)
        if self._number + 1 < len(self._units):
            self._meeting.ahead(self._units[self._number + 1])
        if not torch.is_grad_enabled():
            return tensors
        # The anchor wants a gradient, so that the end of the backward pass is noticed whatever else does.
        entered: tuple[Tensor | None, ...] = _Enter.apply(self, self._anchor, *tensors)  # type: ignore[no-untyped-call]
        return entered

    def ended(self, *tensors: Tensor | None) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():
            tensors = _Leave.apply(self, *tensors)  # type: ignore[no-untyped-call]
        elif self._layers is not None:
            self._layers.drop(self._number)
        self._away()
        return tensors

    def back(self) -> None:
        """Before the backward pass through the layer."""
        self._meeting.come(self._unit)
        if self._number:
            self._meeting.ahead(self._units[self._number - 1])
        if self._layers is not None:
            with torch.no_grad():
                again = self._layers.make(self._number).copies
            for copy, new in zip(self._copies, again, strict=True):
                copy.untyped_storage().resize_(new.nbytes)
                copy.untyped_storage().copy_(new.untyped_storage())

    def done(self) -> None:
        """After it."""
        self._meeting.give(self._unit)
        self._away()

    @property
    def _copies(self) -> list[Tensor]:
        return [] if self._layers is None else self._layers.copies(self._number)

    def _away(self) -> None:
        for copy in self._copies:
            copy.untyped_storage().resize_(0)
        self._meeting.go(self._unit)


def _passed(tensors: Sequence[Tensor | None]) -> tuple[Tensor | None, ...]:
    return tuple(None if tensor is None else tensor.view_as(tensor) for tensor in tensors)


class _Enter(Function):
    """Nothing, at the beginning of a layer; in the backward pass, its end."""

    @staticmethod
    def forward(ctx: Any, visit: _Visit, anchor: Tensor, *tensors: Tensor | None) -> tuple[Tensor | None, ...]:
        ctx.visit = visit
        ctx.set_materialize_grads(False)
        return _passed(tensors)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        ctx.visit.done()
        return None, None, *gradients


class _Leave(Function):
    """Nothing, at the end of a layer; in the backward pass, its beginning."""

    @staticmethod
    def forward(ctx: Any, visit: _Visit, *tensors: Tensor | None) -> tuple[Tensor | None, ...]:
        ctx.visit = visit
        ctx.set_materialize_grads(False)
        return _passed(tensors)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        ctx.visit.back()
        return None, *gradients
