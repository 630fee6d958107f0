"""What a language model says about the decisions of a batch: log-probs, entropies, values, divergences.

Contexts are rebuilt from the chain of turns, each decision is computed once, and the result does not depend on padding,
order or chunks beyond float rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from hocket.core.batch import Batch
from hocket.core.divergences import Divergence
from hocket.core.errors import ConfigurationError, HocketError
from hocket.policies.heads import Head, TokenScores, read_head, rowwise
from hocket.policies.language_model import LanguageModel
from hocket.policies.masking import allowed_at
from hocket.policies.sequences import Row, final_rows, rows_after, rows_of, targets
from hocket.policies.shapes import text_config
from hocket.policies.value_head import ValueHead
from hocket.types import Evaluation, Quantity


@runtime_checkable
class ReadsDecisions(Protocol):
    """A reference that is no language model of this process, but gives distributions over the policy's tokens."""

    def reading(self, batch: Batch, decisions: Tensor) -> tuple[Head, Tensor]:
        """A head, and what it reads at `decisions` `[K]`, `[K, F]`; the head makes logits `[K, V]` of it."""
        ...


@runtime_checkable
class ReadsSpans(Protocol):
    """A reference with another vocabulary, which is compared over spans of text."""

    def check(self, divergence: Divergence | None) -> None:
        """Raises `ConfigurationError` for a divergence that needs one vocabulary."""
        ...

    def apart(
        self, divergence: Divergence, reading: tuple[Head, Tensor], logp: Tensor, batch: Batch, decisions: Tensor
    ) -> Tensor:
        """The divergence `[K]` at `decisions` `[K]`, from the policy's head with its features, and their log-probs."""
        ...


Reference = LanguageModel | ReadsDecisions | ReadsSpans
"""What a language model is compared with."""


def evaluate(
    model: LanguageModel, batch: Batch, wanted: frozenset[Quantity], asked: Tensor, other: Reference | None
) -> Evaluation:
    """Quantities of the decisions `asked` `[K]`, each scattered into `[T]`; exact KL and divergence are from `other`.

    Raises:
        HocketError: when values are asked without a value head, or a sequence is longer than the model's context.
    """
    if Quantity.VALUE in wanted:
        _value_head(model)
    rows = rows_of(batch, asked) if len(asked) else []
    model.check_lengths(rows)
    parts = model.parts(rows, other if isinstance(other, LanguageModel) else None)
    readings = [_evaluated(model, batch, part, wanted, other) for part in parts]
    target = torch.cat([targets(part) for part in parts]) if parts else torch.zeros(0, dtype=torch.long)

    def scattered(column: Sequence[Tensor | None]) -> Tensor:
        values = torch.cat([part for part in column if part is not None]) if column else torch.zeros(0)
        # A number per decision is little: losses are computed where the batch is.
        return torch.zeros(batch.decisions).index_copy(0, target, values.to(batch.action.device))

    return Evaluation(
        logp=scattered([reading.logp for reading, _, _ in readings]),
        entropy=scattered([reading.entropy for reading, _, _ in readings]) if Quantity.ENTROPY in wanted else None,
        value=scattered([value for _, value, _ in readings]) if Quantity.VALUE in wanted else None,
        kl_exact=scattered([reading.kl for reading, _, _ in readings]) if Quantity.KL_EXACT in wanted else None,
        balance=scattered([balance for _, _, balance in readings]) if Quantity.BALANCE in wanted else None,
        divergence=scattered([r.divergence for r, _, _ in readings]) if Quantity.DIVERGENCE in wanted else None,
    )


def _evaluated(
    model: LanguageModel,
    batch: Batch,
    part: list[Row],
    wanted: frozenset[Quantity],
    other: Reference | None,
) -> tuple[TokenScores, Tensor | None, Tensor | None]:
    """What the head says at the places of rows read together, the values there, and how unevenly experts are used."""
    target = targets(part)
    action = batch.action[target].long().to(model.device)
    temperature = _temperatures(batch)[batch.turn[target]].float().to(model.device)
    against: tuple[Head, Tensor] | None = None
    with model.residence.around(), other.residence.around() if isinstance(other, LanguageModel) else nullcontext():
        if isinstance(other, LanguageModel):
            with torch.no_grad(), other.applied():
                against = (other.head, _viewed(model, other, batch, part))
        elif isinstance(other, ReadsDecisions):
            their_head, read = other.reading(batch, target)
            against = their_head, read.to(model.device)
        with model.applied():
            balances: list[Tensor] | None = [] if Quantity.BALANCE in wanted else None
            features, hidden = model.features(part, hidden=Quantity.VALUE in wanted, balances=balances)
        entropy = Quantity.ENTROPY in wanted
        only = allowed_at(batch, target, text_config(model.model.config).vocab_size)
        allowed = None if only is None else only.to(model.device)
        compare = model.divergence if Quantity.DIVERGENCE in wanted else None
        reading = read_head(
            model.head,
            features,
            action,
            temperature,
            entropy=entropy,
            reference=against,
            kl=Quantity.KL_EXACT in wanted,
            divergence=compare,
            allowed=allowed,
        )
        if isinstance(other, ReadsSpans) and compare is not None:
            apart = other.apart(compare, (model.head, features), reading.logp, batch, target)
            reading = reading._replace(divergence=apart)
        head = model.value_head
        balance = balances[0].expand(len(target)) if balances else None
        return reading, None if hidden is None or head is None else head(hidden), balance


def _viewed(model: LanguageModel, other: LanguageModel, batch: Batch, part: list[Row]) -> Tensor:
    """What the reference's head reads at the places of rows, in its own view of the batch where it has one."""
    if model.reference_view is None:
        return other.features(part)[0]
    target = targets(part)
    parts = other.parts(rows_of(model.reference_view(batch), target))
    decisions, features = torch.cat([targets(rows) for rows in parts]), [other.features(rows)[0] for rows in parts]
    place = torch.empty(batch.decisions, dtype=torch.long)
    place[decisions] = torch.arange(len(decisions))
    return torch.cat(features)[place[target].to(model.device)]


def distributions(model: LanguageModel, batch: Batch, decisions: Tensor) -> Callable[[Tensor], Tensor]:
    """Whole distributions at `decisions` `[K]`, without gradient: places in it `[M]` to log-probs `[M, V]`.

    Hidden states are kept for all, logits made for those asked.
    """
    with torch.no_grad(), model.applied(), model.residence.around():
        parts = model.parts(rows_of(batch, decisions))
        features = torch.cat([model.features(part)[0] for part in parts])
    place = torch.zeros(batch.decisions, dtype=torch.long)
    place[torch.cat([targets(part) for part in parts])] = torch.arange(len(features))
    temperatures = _temperatures(batch)

    def logp(chosen: Tensor) -> Tensor:
        wanted = decisions[chosen]
        temperature = temperatures[batch.turn[wanted]].float().to(model.device)[:, None]
        with torch.no_grad(), model.applied(), model.residence.around():
            logits = rowwise(model.head, features[place[wanted].to(features.device)]).float()
        return torch.log_softmax(logits / temperature, -1).cpu()

    return logp


def final_values(model: LanguageModel, batch: Batch) -> Tensor:
    """The value after the last token of each truncated trajectory, `[N]`; 0 elsewhere. No gradient."""
    head = _value_head(model)
    values = torch.zeros(batch.trajectories)
    with torch.no_grad(), model.applied(), model.residence.around():
        for part in model.parts(final_rows(batch)):
            _, hidden = model.features(part, hidden=True)
            assert hidden is not None
            values[targets(part)] = head(hidden).to(values.device)
    return values


def mean_states(model: LanguageModel, batch: Batch, decisions: Tensor) -> Tensor:
    """The mean of the last hidden states over the tokens of each turn among `decisions`, `[U, H]`; NaN for others.

    A state is read at the token itself, so that it knows the whole response. No gradient.
    """
    rows = rows_after(batch, decisions)
    total = torch.zeros(batch.turns, int(text_config(model.model.config).hidden_size), dtype=torch.float64)
    with torch.no_grad(), model.applied(), model.residence.around():
        for part in model.parts(rows):
            states = model.features(part, hidden=True)[1]
            assert states is not None
            total.index_add_(0, batch.turn[targets(part)], states.double().cpu())
    counted = torch.bincount(batch.turn[decisions], minlength=batch.turns)
    return torch.where(counted[:, None] > 0, total / counted[:, None], torch.nan)


def comparable(model: LanguageModel, reference: object, wanted: frozenset[Quantity]) -> Reference:
    """`reference`, where distributions can be compared with its own.

    Raises:
        HocketError: when it is none that shows distributions, or one with other tokens.
    """
    if isinstance(reference, ReadsSpans):
        reference.check(model.divergence if Quantity.DIVERGENCE in wanted else None)
        return reference
    if isinstance(reference, ReadsDecisions):
        if Quantity.KL_EXACT in wanted:
            raise ConfigurationError(
                f"policy {model.name!r}: its teacher is behind a server, which gives no whole distributions for an "
                "exact KL; use an estimate (estimator k3)"
            )
        return reference
    if not isinstance(reference, LanguageModel):
        raise HocketError(
            f"policy {model.name!r}: comparing distributions needs a reference that is a causal language model"
        )
    sizes = tuple(text_config(policy.model.config).vocab_size for policy in (model, reference))
    if sizes[0] != sizes[1]:
        raise ConfigurationError(
            f"distributions are compared over one vocabulary, but the policy has {sizes[0]} tokens and the "
            f"reference {sizes[1]}; choose a reference with the policy's tokenizer"
        )
    return reference


def _value_head(model: LanguageModel) -> ValueHead:
    if model.value_head is None:
        raise HocketError(f"policy {model.name!r} has no value head; call require({{VALUE}}) before training")
    return model.value_head


def _temperatures(batch: Batch) -> Tensor:
    """Of each turn, `[U]`."""
    return torch.ones(batch.turns) if batch.temperature is None else batch.temperature
