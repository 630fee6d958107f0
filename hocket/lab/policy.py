"""A policy as a table of logits."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from hocket.core.batch import Batch, Level
from hocket.core.columns import ALLOWED, UNMASKED
from hocket.core.divergences import Divergence
from hocket.lab.world import Answer, World
from hocket.policies.masking import allowed_at, masked
from hocket.stages import Policy
from hocket.types import ActionMask, Evaluation, Quantity

Places = tuple[Tensor, Tensor, Tensor, int]
"""Contexts and tokens of answers, one after another `[K]`, whose they are `[K]`, and the number of answers."""


class LogitTable(nn.Module):
    """Logits `[rows, tokens]` and, once required, a value per row; float64."""

    def __init__(self, rows: int, tokens: int) -> None:
        super().__init__()
        self.logits = nn.Parameter(torch.zeros(rows, tokens, dtype=torch.float64))
        self.values: nn.Parameter | None = None
        self.copies: dict[str, Tensor] = {}


class Tabular:
    """A softmax over tokens in every context of a world; see `Policy`.

    A turn's `observation` `[L]` holds the number of the context before each decision.
    """

    granularity = Level.TRAJECTORY
    twice_differentiable = True

    def __init__(self, world: World, *, lr: float = 0.05, name: str = "policy") -> None:
        self.world = world
        self.divergence: Divergence | None = None
        self.name, self.version = name, 0
        self.default_lr = lr
        self._rows: dict[tuple[Any, ...], int] = {}
        self._known: dict[int, Places] = {}
        self._module = LogitTable(self._count(), world.tokens)

    @property
    def module(self) -> LogitTable:
        return self._module

    @property
    def logits(self) -> Tensor:
        """The table, `[rows, tokens]`; write to `.data` to set a starting policy."""
        return self._module.logits

    # ------------------------------------------------------------ contexts

    def _count(self) -> int:
        for question in range(self.world.questions):
            for answer in self.world.answers():
                for length in range(len(answer)):
                    self.row(question, answer[:length])
        return len(self._rows)

    def row(self, question: int, prefix: Sequence[int]) -> int:
        """The number of the context in which the token after `prefix` is chosen."""
        kind = self.world.context
        if callable(kind):
            key: tuple[Any, ...] = (kind(question, tuple(prefix)),)
        elif kind == "prefix":
            key = (question, tuple(prefix))
        elif kind == "last":
            key = (question, len(prefix), prefix[-1] if prefix else None)
        elif kind == "shared":
            key = tuple(prefix)
        else:
            key = (question, len(prefix))
        return self._rows.setdefault(key, len(self._rows))

    def path(self, question: int, answer: Sequence[int]) -> list[int]:
        """The context of each token of an answer."""
        return [self.row(question, tuple(answer[:length])) for length in range(len(answer))]

    # ------------------------------------------------------------ exact quantities

    def logp(self, question: int, answers: Sequence[Answer] | None = None, temperature: float = 1.0) -> Tensor:
        """Log-probability of each answer (all of them, in the world's order, when None), differentiable."""
        rows, tokens, owner, size = self._everything(question) if answers is None else self._places(question, answers)
        table = torch.log_softmax(self.logits / temperature, -1)
        return torch.zeros(size, dtype=torch.float64).index_add(0, owner, table[rows, tokens])

    def _everything(self, question: int) -> Places:
        """The places of all answers, found once per question."""
        if question not in self._known:
            self._known[question] = self._places(question, tuple(self.world.answers()))
        return self._known[question]

    def _places(self, question: int, answers: Sequence[Answer]) -> Places:
        rows = [row for answer in answers for row in self.path(question, answer)]
        tokens = [token for answer in answers for token in answer]
        owner = [number for number, answer in enumerate(answers) for _ in answer]
        return torch.tensor(rows), torch.tensor(tokens), torch.tensor(owner), len(answers)

    def expectation(self, question: int, values: Sequence[float] | Tensor, temperature: float = 1.0) -> Tensor:
        """The mean over answers of `values`, one per answer in the world's order, differentiable."""
        known = torch.as_tensor(values, dtype=torch.float64)
        return (self.logp(question, temperature=temperature).exp() * known).sum()

    # ------------------------------------------------------------ sampling

    def refresh_copy(self, name: str) -> None:
        """Makes the copy of this name equal to the table as it is now; see `hocket.policies.copies`."""
        self._module.copies[name] = self.logits.detach().clone()

    def allowed(self, rows: NDArray[np.int64], mask: ActionMask) -> NDArray[np.bool_]:
        """What `mask` allows in contexts `rows`: `[M, tokens]`."""
        if mask.copy is not None and mask.copy not in self._module.copies:
            self.refresh_copy(mask.copy)
        table = self.logits.detach() if mask.copy is None else self._module.copies[mask.copy]
        allowed: NDArray[np.bool_] = mask.allowed(torch.log_softmax(table[rows], -1)).numpy()
        return allowed

    def draw(
        self,
        question: NDArray[np.int64],
        prefixes: Sequence[Sequence[int]],
        uniforms: NDArray[np.float64],
        temperature: float,
        mask: ActionMask | None = None,
    ) -> tuple[NDArray[np.int64], NDArray[np.float32], NDArray[np.int64]]:
        """The next token of each of M answers: tokens, log-probs and contexts, `[M]` each; temperature 0 takes the
        mode.

        A `mask` keeps tokens to what it allows.
        """
        rows = np.array([self.row(int(q), prefix) for q, prefix in zip(question, prefixes, strict=True)], np.int64)
        only = None if mask is None else torch.from_numpy(self.allowed(rows, mask))
        with torch.no_grad():
            logp = torch.log_softmax(masked(self.logits[rows], only) / (temperature or 1.0), -1).numpy()
        if temperature == 0:
            tokens = logp.argmax(-1)
        else:
            tokens = (np.exp(logp).cumsum(-1) < uniforms[:, None]).sum(-1).clip(max=self.world.tokens - 1)
        return tokens, logp[np.arange(len(rows)), tokens].astype(np.float32), rows

    def masks(
        self,
        rows: Sequence[int],
        tokens: Sequence[int],
        forced: NDArray[np.bool_],
        temperature: float,
        mask: ActionMask,
    ) -> dict[str, NDArray[Any]]:
        """What a turn sampled under masks keeps in its `extras`; forced tokens are not masked."""
        at = np.array(rows, np.int64)
        return {
            ALLOWED.name: self.allowed(at, mask) | forced[:, None],
            UNMASKED.name: self.forced(at, np.array(tokens, np.int64), temperature),
        }

    def forced(self, rows: NDArray[np.int64], tokens: NDArray[np.int64], temperature: float) -> NDArray[np.float32]:
        """Log-probs of imposed tokens in contexts `rows`, `[M]`."""
        with torch.no_grad():
            logp = torch.log_softmax(self.logits[rows] / (temperature or 1.0), -1).numpy()
        log_probs: NDArray[np.float32] = logp[np.arange(len(rows)), tokens].astype(np.float32)
        return log_probs

    # ------------------------------------------------------------ learning

    def require(self, needs: frozenset[Quantity]) -> None:
        if Quantity.VALUE in needs and self._module.values is None:
            self._module.values = nn.Parameter(torch.zeros(len(self.logits), dtype=torch.float64))

    def chunks(self, batch: Batch, decisions: Tensor) -> list[Tensor]:
        return [decisions] if len(decisions) else []

    def evaluate(
        self,
        batch: Batch,
        needs: Iterable[Quantity],
        decisions: Tensor | None = None,
        *,
        reference: Policy | None = None,
    ) -> Evaluation:
        wanted = frozenset(needs)
        chosen = torch.arange(batch.decisions) if decisions is None else decisions
        rows = self._observed(batch)[chosen]
        temperature = torch.ones(batch.turns) if batch.temperature is None else batch.temperature
        temperature = temperature[batch.turn[chosen]].double()[:, None]
        only = allowed_at(batch, chosen, self.world.tokens)
        table = torch.log_softmax(masked(self.logits[rows], only) / temperature, -1)
        # What is not allowed has probability 0 and adds nothing.
        finite = table.masked_fill(torch.isneginf(table), 0.0)

        def scattered(values: Tensor) -> Tensor:
            return torch.zeros(batch.decisions, dtype=values.dtype).index_put((chosen,), values)

        value = kl = apart = None
        if Quantity.VALUE in wanted:
            assert self._module.values is not None, "call require first"
            value = scattered(self._module.values[rows])
        if Quantity.KL_EXACT in wanted:
            assert isinstance(reference, Tabular), "an exact KL needs a Tabular as reference"
            other = torch.log_softmax(reference.logits[rows].detach() / temperature, -1)
            kl = scattered((table.exp() * (finite - other)).sum(-1))
        if Quantity.DIVERGENCE in wanted:
            assert isinstance(reference, Tabular), "a divergence needs a Tabular as reference"
            assert self.divergence is not None, "install a DivergencePart first"
            logits = masked(reference.logits[rows].detach(), only)
            apart = scattered(self.divergence(table, torch.log_softmax(logits / temperature, -1)))
        return Evaluation(
            logp=scattered(table.gather(1, batch.action[chosen].long()[:, None])[:, 0]),
            entropy=scattered(-(table.exp() * finite).sum(-1)) if Quantity.ENTROPY in wanted else None,
            value=value,
            kl_exact=kl,
            divergence=apart,
        )

    def distributions(self, batch: Batch, decisions: Tensor) -> Callable[[Tensor], Tensor]:
        """Whole distributions at `decisions` `[K]`, without gradient: places in it `[M]` to log-probs `[M, V]`."""
        rows = self._observed(batch)[decisions]
        temperature = torch.ones(batch.turns) if batch.temperature is None else batch.temperature
        temperature = temperature[batch.turn[decisions]].double()[:, None]

        def logp(chosen: Tensor) -> Tensor:
            return torch.log_softmax(self.logits.detach()[rows[chosen]] / temperature[chosen], -1)

        return logp

    def _observed(self, batch: Batch) -> Tensor:
        return torch.from_numpy(np.concatenate([np.asarray(rows, np.int64) for rows in batch.observation]))

    def final_values(self, batch: Batch) -> Tensor:
        return torch.zeros(batch.trajectories, dtype=torch.float64)

    def frozen_copy(self) -> Tabular:
        clone = copy.copy(self)
        clone._module = copy.deepcopy(self._module)
        clone._module.requires_grad_(False)
        return clone

    def save(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        torch.save(self._module.state_dict() | {"copies": self._module.copies}, folder / "table.pt")

    def load(self, folder: Path) -> None:
        state = torch.load(folder / "table.pt", weights_only=True)
        self._module.copies = state.pop("copies", {})
        self._module.load_state_dict(state)
