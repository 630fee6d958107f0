"""Annotate: the learner's pass that fills exactly the columns that later stages declare."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import torch
from torch import Tensor

from hocket.core.annotators import Annotator
from hocket.core.batch import Batch, RecordedNumbers
from hocket.core.columns import Column
from hocket.core.evaluating import evaluate_detached, policy_decisions
from hocket.core.joint import apart
from hocket.stages import Policy
from hocket.train.reference_cache import ReferenceCache
from hocket.types import Quantity


def annotate(
    batch: Batch,
    reads: frozenset[Column],
    policy: Policy,
    reference: Policy | None,
    cache: ReferenceCache | None = None,
    *,
    later: bool = False,
) -> Batch:
    """Fills `reads` for the decisions of `policy`, without gradient.

    Behaviour log-probs come from the sampler. Those of imported text, which has none, are evaluated here, unless they
    are filled `later` from the update's first evaluation (`with_behaviour`). Proximal log-probs are the learner's at
    the current weights, so that corrections can compare the two. `cache` stores the reference's log-probs of imported
    text. A scorer makes no decisions, so nothing is filled for it.
    """
    if not getattr(policy, "decides", True):
        return batch
    decisions = policy_decisions(batch, policy.name)
    imported = decisions[~batch.logp["behaviour"].present[decisions]]
    batch = _own(batch, reads, policy, decisions, later=later)
    if Column.REFERENCE in reads:
        if reference is None:
            raise ValueError(f"the recipe reads reference log-probs, but policy {policy.name!r} has no reference")
        # A mask belongs to the policy's sampling; the reference's distribution is unmasked.
        recorded = ReferenceCache(limit=0) if cache is None else cache
        logp = recorded.logp(batch.but(allowed=()), reference, decisions, imported)
        batch = _with_logp(batch, "reference", logp, decisions)
    return annotated(batch, [column for column in reads if isinstance(column, Annotator)], policy)


def annotated(batch: Batch, columns: Iterable[Annotator], policy: Policy) -> Batch:
    """`batch` with these columns at the decisions of a policy, from its current weights."""
    decisions = policy_decisions(batch, policy.name)
    for column in sorted(columns, key=lambda column: column.name):
        filled = _into(batch.annotations.get(column.name), column.compute(batch, policy, decisions), decisions)
        batch = batch.but(annotations={**batch.annotations, column.name: filled})
    return batch


def with_behaviour(batch: Batch, logp: Tensor, evaluated: Tensor) -> Batch:
    """`batch` with missing behaviour log-probs filled from `logp` `[T]` at the `evaluated` decisions `[K]`.

    `logp` is that of the policy before the update: imported text counts as the policy's own, as in `annotate`.
    """
    missing = evaluated[~batch.logp["behaviour"].present[evaluated]]
    return _with_logp(batch, "behaviour", logp.detach(), missing) if len(missing) else batch


def with_credit(batch: Batch, credited: Batch, policy: str) -> Batch:
    """`batch` with the credit of one policy's decisions from `credited`."""
    names = batch.names["policy"]
    if len(names) == 1:
        return credited
    old, new = batch.occurrences, credited.occurrences
    of_policy = batch.policy[batch.turn[old.decision]] == (names.index(policy) if policy in names else -1)
    return batch.but(scores=credited.scores).credited(
        advantage=torch.where(of_policy, new.advantage, old.advantage.to(new.advantage.dtype)),
        weight=torch.where(of_policy, new.weight, old.weight.to(new.weight.dtype)),
    )


def _own(batch: Batch, reads: frozenset[Column], policy: Policy, decisions: Tensor, *, later: bool) -> Batch:
    """The columns that one pass of the policy provides."""
    unknown = decisions[~batch.logp["behaviour"].present[decisions]]
    if not getattr(policy, "densities", True):
        unknown = unknown[:0]
    needs = {Quantity.VALUE} if Column.VALUE in reads else set()
    if Column.ENTROPY in reads:
        needs.add(Quantity.ENTROPY)
    evaluated = decisions if needs or Column.PROXIMAL in reads else unknown[: 0 if later else None]
    if not len(evaluated):
        return batch
    current = evaluate_detached(policy, batch, {Quantity.LOGP, *needs}, evaluated)
    batch = _with_logp(batch, "behaviour", current.logp, unknown)
    if Column.PROXIMAL in reads:
        batch = _with_logp(batch, "proximal", current.logp, decisions)
    if Column.VALUE in reads:
        batch = _with_values(batch, current.get(Quantity.VALUE), policy, decisions)
    if Column.ENTROPY in reads:
        batch = batch.but(entropy=_into(batch.entropy, current.get(Quantity.ENTROPY), decisions))
    return batch


def _with_values(batch: Batch, value: Tensor, policy: Policy, decisions: Tensor) -> Batch:
    """`batch` with the values of one policy's decisions, and of final states after its last decisions.

    Values of other policies stay, so after all learners have annotated, a chain of agents has every value.
    """
    valued = torch.zeros(batch.decisions, dtype=torch.bool) if batch.valued is None else batch.valued.clone()
    valued[decisions] = True
    mine = torch.zeros(batch.decisions, dtype=torch.bool)
    mine[decisions] = True
    value = _into(batch.value, value, decisions)
    if batch.parts is None:
        return batch.but(value=value, valued=valued, final_value=_final(batch, policy, mine))
    parts = replace(batch.parts, final_value=_final(apart(batch), policy, mine))
    return batch.but(value=value, valued=valued, parts=parts)


def _final(batch: Batch, policy: Policy, mine: Tensor) -> Tensor:
    """Values of final states `[N]`; those after a decision in `mine` `[T]` are new."""
    last = batch.last()
    ended = last >= 0
    ended[ended.clone()] = mine[batch.occurrences.decision[last[ended]]]
    final = policy.final_values(batch).detach()
    return torch.where(ended, final, torch.zeros_like(final) if batch.final_value is None else batch.final_value)


def _with_logp(batch: Batch, name: str, logp: Tensor, decisions: Tensor) -> Batch:
    """`batch` with `logp` written at `decisions` of the column `name`; other decisions keep their entries."""
    old = batch.logp.get(name)
    present = torch.zeros(batch.decisions, dtype=torch.bool) if old is None else old.present.clone()
    present[decisions] = True
    column = RecordedNumbers(_into(None if old is None else old.values, logp, decisions), present)
    return batch.but(logp={**batch.logp, name: column})


def _into(old: Tensor | None, new: Tensor, decisions: Tensor) -> Tensor:
    column = torch.zeros_like(new) if old is None else old.to(new.dtype).clone()
    column[decisions] = new[decisions]
    return column
