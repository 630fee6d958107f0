"""The optimisation problem of a step: a batch with credit, a policy, and gradients that do not depend on splits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor

from hocket.core.batch import Batch, GroupBy, Level
from hocket.core.evaluating import evaluate_detached, evaluation
from hocket.core.keys import Key
from hocket.stages import Metrics, Policy, Stage, State, fact
from hocket.types import Evaluation, LossFunction, Quantity, Terms
from hocket.update.pair_chunks import chunks_of_pairs


@dataclass
class Problem:
    """One step's optimisation problem.

    Attributes:
        batch: experience of this policy, with credit.
        policy, optimiser: the trained policy and its optimiser.
        loss_terms: computes all terms of the recipe from an evaluation.
        needs: quantities that the terms read. couples: the smallest unit that must not be split when gradients are
            accumulated.
        idle_without_advantage: every term is 0 at advantage 0, so such decisions are not evaluated.
        reference: the policy against which exact KL is computed.
        lr_factor: the schedule's factor of the learning rate at this step.
        memory: the memory of the update, which may replace it.
        first: the decisions and the result of the first evaluation with a gradient (before any change of the weights),
            for agreement checks; no decisions if there was no signal.
        dealt: into how many mini-batches the batch is cut, where a store says so. watch: receives every mini-batch with
            its evaluation.
    """

    batch: Batch
    policy: Policy
    optimiser: torch.optim.Optimizer
    loss_terms: LossFunction
    needs: frozenset[Quantity]
    couples: Level
    idle_without_advantage: bool
    reference: Policy | None = None
    lr_factor: float = 1.0
    memory: State = field(default_factory=dict)
    first: tuple[Tensor, Evaluation] | None = None
    dealt: int | None = None
    watch: Callable[[Batch, Evaluation], None] | None = None

    # ------------------------------------------------------------ splits

    def batches(self, epochs: int, minibatches: int, key: Key) -> Iterator[Batch]:
        """`epochs` passes over the batch, each in `minibatches` random parts of whole units.

        A unit is a decision for policies without context, else a trajectory, or a larger unit if the loss couples it.
        """
        minibatches = self.dealt or minibatches
        for epoch in range(epochs):
            if minibatches == 1:
                yield self.batch
                continue
            owner, units = self._units()
            order = torch.from_numpy(key.derive("epoch", epoch).numpy().permutation(units))
            if self._unit() is Level.DECISION:
                yield from self.batch.deal([part.sort().values for part in torch.chunk(order, minibatches)])
                continue
            for part in torch.chunk(order, minibatches):
                chosen = torch.zeros(units, dtype=torch.bool)
                chosen[part] = True
                yield self.batch.select(torch.nonzero(chosen[owner]).flatten())

    def _unit(self) -> Level:
        order = list(Level)
        return max(self.couples, self.policy.granularity, key=order.index)

    def _units(self) -> tuple[Tensor, int]:
        """The unit of each trajectory, `[N]`, and the number of units."""
        if self._unit() is Level.DECISION:
            return torch.zeros(0, dtype=torch.long), len(self.batch.occurrences)
        # Losses that couple the whole batch see a mini-batch as their batch. Pairs are not split.
        if self._unit() in (Level.PAIR, Level.GROUP) or self.batch.occurrences.pairs is not None:
            groups = GroupBy("scenario")(self.batch)
            return groups.index, groups.size
        return torch.arange(self.batch.trajectories), self.batch.trajectories

    def live(self, batch: Batch) -> Tensor:
        """Decisions whose log-probs can have a gradient, increasing indices in 0..T-1."""
        occurrences = batch.occurrences
        used = occurrences.weight != 0
        if self.idle_without_advantage:
            used &= occurrences.advantage != 0
        if bool(used.all()) and torch.equal(occurrences.decision, everything := torch.arange(batch.decisions)):
            return everything
        live: Tensor = torch.unique(occurrences.decision[used])
        return live

    # ------------------------------------------------------------ losses and gradients

    def loss(self, batch: Batch | None = None) -> float:
        """The total loss at the current weights, without gradient."""
        return self.measured(batch)["loss"]

    def measured(self, batch: Batch | None = None) -> Metrics:
        """`loss` and the terms' metrics at the current weights, without gradient."""
        batch = self.batch if batch is None else batch
        decisions = self.live(batch)
        outputs = evaluate_detached(self.policy, batch, self.needs, decisions, reference=self.reference)
        return self._report(outputs, batch, decisions)

    def _report(self, now: Evaluation, batch: Batch, decisions: Tensor) -> Metrics:
        with torch.no_grad():
            terms = self.loss_terms(self._filled(now, batch, decisions), batch)
            return _metrics(_total(terms), terms)

    def gradient(self, batch: Batch | None = None) -> Metrics:
        """Sets `.grad` to d loss / d weights, and returns `loss` and the terms' metrics.

        The gradient is exact under any split. Decision-local losses take one pass over the chunks, because their
        weights include the global denominators. So do losses of pairs, in chunks that do not split pairs. Other coupled
        losses are computed once on detached numbers, and their cotangent dL/dlogp is pulled back through each chunk.
        """
        batch = self.batch if batch is None else batch
        self.optimiser.zero_grad(set_to_none=True)
        decisions = self.live(batch)
        chunks = self.policy.chunks(batch, decisions)
        local = self.couples is Level.DECISION
        if len(chunks) > 1 and self.couples is Level.PAIR:
            pair_chunks = chunks_of_pairs(self.policy, batch, chunks)
            chunks, local = (chunks, False) if pair_chunks is None else (pair_chunks, True)
        metrics: Metrics | None = None
        if len(chunks) <= 1 or local:
            outputs, metrics = self._direct(batch, chunks)
        else:
            outputs = self._by_cotangent(batch, chunks, decisions)
        if self.first is None or not len(self.first[0]):  # A mini-batch without signal changes nothing.
            self.first = _in_whole(batch, decisions, outputs)
        if self.watch is not None:
            self.watch(batch, outputs)
        return self._report(outputs, batch, decisions) if metrics is None else metrics

    def _direct(self, batch: Batch, chunks: list[Tensor]) -> tuple[Evaluation, Metrics | None]:
        """One pass over the chunks: the evaluation, and the metrics if there is only one chunk, else None."""
        columns = {} if len(chunks) == 1 else self._blank(batch)
        for chunk in chunks:
            outputs = self.policy.evaluate(batch, self.needs, chunk, reference=self.reference)
            inside = None if len(chunks) == 1 else _mask(chunk, batch.decisions)
            terms = self.loss_terms(self._filled(outputs, batch, chunk), batch)
            part = torch.stack([_restricted(term, batch, inside) for term in terms]).sum()
            if part.requires_grad:
                part.backward()  # type: ignore[no-untyped-call]
            if inside is None:
                values = {quantity: outputs.get(quantity).detach() for quantity in self.needs | {Quantity.LOGP}}
                return evaluation(values), _metrics(part, terms)
            store(columns, outputs, chunk)
        return evaluation(columns), None

    def _by_cotangent(self, batch: Batch, chunks: list[Tensor], decisions: Tensor) -> Evaluation:
        outputs = evaluate_detached(self.policy, batch, self.needs, decisions, reference=self.reference)
        cotangents = self._cotangents(outputs, batch, decisions)
        for chunk in chunks:
            self._pull(batch, chunk, cotangents)
        return outputs

    def _cotangents(self, now: Evaluation, batch: Batch, decisions: Tensor) -> dict[Quantity, Tensor]:
        """The derivatives of the loss with respect to the evaluated quantities."""
        quantities = sorted(self.needs | {Quantity.LOGP})
        leaves = {quantity: now.get(quantity).clone().requires_grad_() for quantity in quantities}
        loss = _total(self.loss_terms(self._filled(evaluation(leaves), batch, decisions), batch))
        gradients = torch.autograd.grad(loss, list(leaves.values()), allow_unused=True)
        return {q: g for q, g in zip(quantities, gradients, strict=True) if g is not None}

    def _pull(self, batch: Batch, chunk: Tensor, cotangents: dict[Quantity, Tensor]) -> None:
        """Adds the contribution of a chunk's decisions to `.grad`."""
        moved = [(cotangent[chunk] != 0).reshape(len(chunk), -1).any(1) for cotangent in cotangents.values()]
        part = chunk[torch.stack(moved).any(0)]
        if not len(part):
            return
        current = self.policy.evaluate(batch, self.needs, part, reference=self.reference)
        pulled = [(current.get(q)[part] * cotangent[part]).sum() for q, cotangent in cotangents.items()]
        torch.stack(pulled).sum().backward()  # type: ignore[no-untyped-call]

    def _blank(self, batch: Batch) -> dict[Quantity, Tensor]:
        return {quantity: torch.zeros(batch.decisions) for quantity in self.needs | {Quantity.LOGP}}

    def _filled(self, now: Evaluation, batch: Batch, decisions: Tensor) -> Evaluation:
        """`now` with recorded log-probs for decisions that were not evaluated, so that their ratios are 1."""
        parts = {q: now.get(q) for q in self.needs | {Quantity.LOGP}}
        if len(decisions) < batch.decisions:
            anchor = batch.logp.get("proximal", batch.logp["behaviour"])
            inside = _mask(decisions, batch.decisions)
            parts[Quantity.LOGP] = torch.where(inside, now.logp, anchor.values.to(now.logp.dtype))
        return evaluation(parts)

    # ------------------------------------------------------------ steps

    def clip(self, limit: float | None) -> float:
        """Scales the gradient to norm `limit` at most (None leaves it); returns the norm before."""
        weights = [p for group in self.optimiser.param_groups for p in group["params"] if p.grad is not None]
        if not weights:
            return 0.0
        gradients = [p.grad for p in weights]
        if len({(gradient.dtype, gradient.device) for gradient in gradients}) > 1 or type(gradients[0]) is not Tensor:
            return float(torch.nn.utils.clip_grad_norm_(weights, torch.inf if limit is None else limit))
        # The same as `clip_grad_norm_` for equal types and devices, in half the time for a small network.
        norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients)))
        if limit is not None:
            torch._foreach_mul_(gradients, (limit / (norm + 1e-6)).clamp(max=1.0))
        return float(norm)

    def counted(self) -> Tensor:
        """Counted decisions, whatever their advantage, in increasing order."""
        occurrences = self.batch.occurrences
        counted: Tensor = torch.unique(occurrences.decision[occurrences.weight != 0])
        return counted

    def kl(self) -> float:
        """KL(before || now) in nats, the k3 estimate over the decisions first evaluated."""
        if self.first is None or not len(self.first[0]):
            return 0.0
        decisions, before = self.first
        outputs = evaluate_detached(self.policy, self.batch, {Quantity.LOGP}, decisions)
        gap = (outputs.logp - before.logp)[decisions]
        return float((gap.exp() - 1 - gap).mean())


class Update(Stage):
    """Changes the weights by gradients of the loss."""

    room = "update"

    @fact
    def epochs(self) -> int:
        """The number of passes over a batch."""
        return 1

    @fact
    def minibatches(self) -> int:
        """The number of sequential mini-batches of a batch."""
        return 1

    def optimiser(self, policy: Policy) -> torch.optim.Optimizer:
        """A fresh optimiser over the policy's trainable weights."""
        raise NotImplementedError

    def lr_factor(self, step: int, total: int) -> float:
        """The schedule: the factor of the learning rate at `step` (counted from 1) of `total`."""
        raise NotImplementedError

    def step(self, problem: Problem, key: Key) -> Metrics:
        """Changes the weights; returns metrics, including `loss`."""
        raise NotImplementedError


def _mask(chosen: Tensor, size: int) -> Tensor:
    mask = torch.zeros(size, dtype=torch.bool)
    mask[chosen] = True
    return mask


def _in_whole(batch: Batch, decisions: Tensor, now: Evaluation) -> tuple[Tensor, Evaluation]:
    """Decisions and their evaluation, with the indices of the batch that this one was taken from."""
    if batch.taken is None:
        return decisions, now
    origin = batch.taken
    parts = {
        quantity: column.new_zeros(origin.whole.decisions, *column.shape[1:]).index_copy(0, origin.decision, column)
        for quantity in Quantity
        if (column := getattr(now, quantity.value)) is not None
    }
    return origin.decision[decisions], evaluation(parts)


def store(whole: dict[Quantity, Tensor], now: Evaluation, chunk: Tensor) -> None:
    """Copies the evaluation of a chunk's decisions into the `[T]` tensors of `whole`."""
    for quantity in whole if len(chunk) else ():
        values = now.get(quantity).detach()
        target = whole[quantity] if whole[quantity].shape == values.shape else torch.zeros_like(values)
        whole[quantity] = target.to(values.dtype).index_copy(0, chunk, values[chunk])


def _restricted(term: Terms, batch: Batch, inside: Tensor | None) -> Tensor:
    """The part of a decision-local term for the decisions `inside` `[T]`; the whole term if None.

    A coupled term is returned whole too, because other decisions enter it as constants without gradient.
    """
    if inside is None or term.unit is not Level.DECISION:
        return term.total()
    included = inside[batch.occurrences.decision] & (term.weight != 0)
    return (term.value[included] * term.weight[included]).sum()


def _total(terms: list[Terms]) -> Tensor:
    return torch.stack([term.total() for term in terms]).sum()


def _metrics(loss: Tensor, terms: list[Terms]) -> Metrics:
    metrics = {"loss": loss, **{name: value for term in terms for name, value in term.metrics.items()}}
    return {name: float(value.detach() if isinstance(value, Tensor) else value) for name, value in metrics.items()}
