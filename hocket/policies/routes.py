"""Which experts tokens were sent to in sampling, recorded with the tokens, and sent to again in learning.

Where sampler and learner differ by rounding, or the weights have moved since, a router may send a token elsewhere, and
its log-prob jumps. With the routes of sampling the learner's log-probs are those of the same experts (router replay:
Ma et al. 2025, arXiv 2510.11370), while the routers' own weights go on learning.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hocket.policies.experts import Routing
from hocket.policies.family import LayerSteps
from hocket.policies.form_reading import form_of
from hocket.policies.forms import ExpertsForm, routing_weights
from hocket.policies.prefix_tree import PrefixTree
from hocket.policies.sequences import Row
from hocket.stages import Metrics

Places = NDArray[np.int64]
UNKNOWN = -1


def columns_of(model: Any) -> dict[int, int]:
    """By number of each layer that routes, its place among these."""
    form = form_of(model)
    feeds = [] if form is None else [layer.feed for layer in form.layers]
    numbers = [number for number, feed in enumerate(feeds) if _routes(feed)]
    return {number: place for place, number in enumerate(numbers)}


def _routes(feed: object) -> bool:
    return isinstance(feed, ExpertsForm) and feed.scores is not None


class RecordingRoutes(LayerSteps):
    """A pass whose routes are recorded."""

    def __init__(self) -> None:
        self.chosen: dict[int, Tensor] = {}

    def routed(self, number: int, routing: Routing, form: ExpertsForm) -> Routing:
        self.chosen[number] = routing.chosen.to(torch.int16)
        return routing


class RouteRecord:
    """Everything recorded since sampling for a step began; what `hocket.policies.activation_cache` is to activations.

    Attributes:
        full: always False; routes are small.
        counts: of choices in learning: made, known from sampling, and known to differ from the learner's own.
    """

    full = False

    def __init__(self, model: Any) -> None:
        self._columns = columns_of(model)
        self._chunks: list[Tensor] = []
        self._rows = 0
        self._traces: dict[bytes, Places] = {}
        self.counts = [0, 0, 0]

    def recording(self) -> RecordingRoutes:
        """For one pass of the sampler."""
        return RecordingRoutes()

    def add(self, recording: LayerSteps, wanted: Tensor | None) -> int:
        """Appends a pass; the number of its first token."""
        assert isinstance(recording, RecordingRoutes)
        chosen = [recording.chosen[number] for number in self._columns]
        rows, most = max(map(len, chosen)), max(part.shape[1] for part in chosen)
        routes = torch.full((rows, len(chosen), most), UNKNOWN, dtype=torch.int16)
        for place, part in enumerate(chosen):
            # Behind the last layer's attention only those rows are computed whose states are wanted.
            where = slice(None) if len(part) == rows or wanted is None else wanted
            routes[where, place, : part.shape[1]] = part.cpu()
        self._chunks.append(routes)
        first, self._rows = self._rows, self._rows + rows
        return first

    def remember(self, tokens: Sequence[int], trace: Places) -> None:
        """Says where each of a sequence's tokens is recorded, -1 where it is not."""
        self._traces[np.asarray(tokens, np.int64).tobytes()] = trace

    def find(self, rows: Sequence[Row], tree: PrefixTree) -> Tensor:
        """Experts `[M, layers, K]` of a tree's tokens, -1 where unknown."""
        place = np.full(len(tree.token), UNKNOWN, np.int64)
        for row, path in zip(rows, tree.paths, strict=True):
            trace = self._traces.get(row.tokens.tobytes())
            if trace is not None:
                place[path] = np.where(trace >= 0, trace, place[path])
        if len(self._chunks) > 1:
            self._chunks = [torch.cat(self._chunks)]
        shape = self._chunks[0].shape[1:] if self._chunks else (len(self._columns), 1)
        routes = torch.full((len(place), *shape), UNKNOWN, dtype=torch.int16)
        known = torch.from_numpy(place >= 0)
        if self._chunks:
            routes[known] = self._chunks[0][torch.from_numpy(place)[known]]
        return routes

    def metrics(self) -> Metrics:
        """Of choices made in learning: the share known from sampling, and of these the share that would differ."""
        made, known, differing = self.counts
        return {"routes/known": known / made, "routes/differing": differing / max(known, 1)} if made else {}


class ReplayedRoutes(LayerSteps):
    """A pass of the learner that sends tokens where they were sent in sampling.

    Args:
        columns: see `columns_of`. experts: those of the pass's tokens `[M, layers, K]`, -1 where unknown.
        wanted: the rows that the last layer has. counts: where choices are counted.
    """

    def __init__(self, columns: Mapping[int, int], experts: Tensor, wanted: Tensor, counts: list[int]) -> None:
        self._columns, self._given, self._wanted, self._counts = columns, experts, wanted, counts

    def routed(self, number: int, routing: Routing, form: ExpertsForm) -> Routing:
        if number not in self._columns:
            return routing
        drawn = routing.chosen
        before = self._given[:, self._columns[number], : drawn.shape[1]].to(drawn.device, drawn.dtype)
        if len(before) != len(drawn):
            before = before.index_select(0, self._wanted.to(drawn.device))
        known = (before >= 0).all(-1)
        differing = known & (before != drawn).any(-1)
        for place, count in enumerate((len(drawn), int(known.sum()), int(differing.sum()))):
            self._counts[place] += count
        if not differing.any():
            return routing
        chosen = torch.where(differing[:, None], before, drawn)
        again = routing_weights(form, routing.logits, chosen).to(routing.weight.dtype)
        weight = torch.where(differing[:, None], again, routing.weight)
        return Routing(routing.logits, weight, chosen)


class Balance(LayerSteps):
    """Measures in a pass of the learner how unevenly experts are used.

    Args:
        inner: how layers are computed.
    """

    def __init__(self, inner: LayerSteps) -> None:
        self._inner = inner
        self._found: dict[int, Tensor] = {}

    def routed(self, number: int, routing: Routing, form: ExpertsForm) -> Routing:
        routing = self._inner.routed(number, routing, form)
        self._found[number] = unevenness(routing, form)
        return routing

    def mean(self) -> Tensor:
        """Over the layers that route."""
        return torch.stack([*self._found.values()]).mean()


def unevenness(routing: Routing, form: ExpertsForm) -> Tensor:
    """`E sum_e f_e P_e`: of E experts, f is the share of choices and P the mean probability; 1 when both are even.

    The gradient is that of P (Fedus et al. 2021, arXiv 2101.03961, eq. 4). Sigmoid scores are divided by their sum.
    """
    logits = routing.logits.float() if routing.logits.dtype is not torch.float64 else routing.logits
    scores = torch.sigmoid(logits) if form.scores == "sigmoid" else torch.softmax(logits, -1)
    count = logits.shape[1]
    share = torch.bincount(routing.chosen.flatten(), minlength=count).to(scores.dtype) / routing.chosen.numel()
    return count * (share * (scores / scores.sum(-1, keepdim=True)).mean(0)).sum()
