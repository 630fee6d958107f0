"""The policy of a masked-diffusion language model: log-probs of tokens that a state with masks is filled with.

A turn is one look at a state, and its decisions are the tokens committed there; its observation is a `MaskedState`.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from hocket.core.batch import Batch, Level
from hocket.core.errors import ConfigurationError
from hocket.core.masked_states import MaskedState
from hocket.policies.loading import without_progress_bars
from hocket.policies.turns import of_whole_turns
from hocket.stages import Policy
from hocket.types import Evaluation, Quantity

BLOCK = 32
"""States in every pass, the last one filled up, and `WIDTH`: the step in which their length is rounded up. Products of
one shape give a row the same bits in whatever company."""
WIDTH = 16

_CHUNK = 256
"""Decisions in one forward and backward pass."""

GIVES = frozenset({Quantity.LOGP, Quantity.ENTROPY, Quantity.KL_EXACT})


class MaskedLM:
    """A `*ForMaskedLM` of transformers as a policy.

    Attributes:
        model, tokenizer: transformers' own_logp. mask, end: ids of the mask and of the end of an answer.
        length: tokens of an answer at most. unprompted: whether it was trained with masked prompts too.
    """

    granularity = Level.TRAJECTORY
    default_lr = 3e-4

    def __init__(self, model: Any, tokenizer: Any, name: str = "policy") -> None:
        self.name, self.version, self.model, self.tokenizer = name, 0, model.eval(), tokenizer
        self.mask, self.end = int(tokenizer.mask_token_id), tokenizer.eos_token_id
        self.end = int(tokenizer.sep_token_id if self.end is None else self.end)
        self.positions = int(getattr(model.config, "max_position_embeddings", 512))
        self.length = int(getattr(model.config, "answer_length", self.positions))
        self.unprompted = bool(getattr(model.config, "unprompted", False))

    @classmethod
    def from_folder(cls, folder: str | Path, name: str = "policy") -> Self:
        """Reads a folder in Hugging Face format.

        Raises:
            ConfigurationError: when it holds no masked language model, or its tokenizer has no mask.
        """
        from transformers import AutoModelForMaskedLM, AutoTokenizer

        try:
            with without_progress_bars():
                model = AutoModelForMaskedLM.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32)
            tokenizer = AutoTokenizer.from_pretrained(folder)
        except (OSError, ValueError, KeyError) as error:
            first = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise ConfigurationError(
                f"model = {str(folder)!r}: no masked language model can be read: {first}"
            ) from error
        if tokenizer.mask_token_id is None:
            raise ConfigurationError(f"model = {str(folder)!r}: its tokenizer has no mask token; add one")
        return cls(model, tokenizer, name)

    @property
    def module(self) -> nn.Module:
        module: nn.Module = self.model
        return module

    def require(self, needs: frozenset[Quantity]) -> None:
        """Raises `ConfigurationError` for what a masked language model does not give, such as values."""
        if missing := sorted(quantity.value for quantity in needs - GIVES):
            raise ConfigurationError(
                f"policy {self.name!r} is a masked language model, which gives no {missing[0]}; use cj-grpo, "
                "diffu-grpo, coupled-grpo or grpo"
            )

    # ------------------------------------------------------------ distributions

    def logits(self, states: Sequence[MaskedState]) -> Tensor:
        """Logits at the places of states, one after the other, `[sum K, V]`; the mask itself has none.

        The rows of a state have the same bits whatever the other states are.
        """
        result = self._passed(states)
        guided = [number for number, state in enumerate(states) if state.guidance != 1.0]
        if guided:
            free = self._passed([self._unprompted(states[number]) for number in guided])
            for number, other in zip(guided, free, strict=True):
                result[number] = other + states[number].guidance * (result[number] - other)
        rows = torch.cat(result) if result else torch.zeros(0, int(self.model.config.vocab_size))
        banned = torch.zeros(rows.shape[-1], dtype=torch.bool)
        banned[self.mask] = True
        return rows.masked_fill(banned, -torch.inf)

    def _unprompted(self, state: MaskedState) -> MaskedState:
        """The state with its prompt masked."""
        tokens = state.tokens.copy()
        tokens[: state.prompt] = self.mask
        return MaskedState(tokens, state.prompt, state.places)

    def _passed(self, states: Sequence[MaskedState]) -> list[Tensor]:
        device = next(self.model.parameters()).device
        widths: dict[int, list[int]] = {}
        for number, state in enumerate(states):
            widths.setdefault(-(-len(state.tokens) // WIDTH) * WIDTH, []).append(number)
        result: list[Tensor] = [torch.zeros(0)] * len(states)
        for width, members in widths.items():
            for start in range(0, len(members), BLOCK):
                chosen = members[start : start + BLOCK]
                tokens, attended = np.zeros((BLOCK, width), np.int64), np.zeros((BLOCK, width), np.int64)
                for row in range(BLOCK):
                    held = states[chosen[row if row < len(chosen) else 0]].tokens
                    tokens[row, : len(held)], attended[row, : len(held)] = held, 1
                read = {"input_ids": torch.from_numpy(tokens), "attention_mask": torch.from_numpy(attended)}
                logits = self.model(**{name: rows.to(device) for name, rows in read.items()}).logits
                for row, number in enumerate(chosen):
                    result[number] = logits[row, torch.from_numpy(states[number].places)].cpu()
        return result

    # ------------------------------------------------------------ learning

    def chunks(self, batch: Batch, decisions: Tensor) -> list[Tensor]:
        return of_whole_turns(batch.turn[decisions], decisions, _CHUNK) if len(decisions) else []

    def evaluate(
        self,
        batch: Batch,
        needs: Iterable[Quantity],
        decisions: Tensor | None = None,
        *,
        reference: Policy | None = None,
    ) -> Evaluation:
        """See `Policy.evaluate`.

        Raises:
            ValueError: for `KL_EXACT` without a `MaskedLM` as reference.
        """
        wanted, size = frozenset(needs), batch.decisions
        places = torch.arange(size) if decisions is None else decisions
        states = _states(batch, places)
        temperature = torch.ones(len(places)) if batch.temperature is None else batch.temperature[batch.turn[places]]
        logp = torch.log_softmax(self.logits(states) / temperature[:, None], -1)

        def scattered(values: Tensor) -> Tensor:
            return values.new_zeros(size).index_put((places,), values)

        entropy = kl = None
        finite = torch.where(logp.isinf(), 0.0, logp)
        if Quantity.ENTROPY in wanted:
            entropy = scattered(-(finite.exp() * finite * ~logp.isinf()).sum(-1))
        if Quantity.KL_EXACT in wanted:
            if not isinstance(reference, MaskedLM):
                raise ValueError("an exact KL needs a masked language model as reference")
            with torch.no_grad():
                other = torch.log_softmax(reference.logits(states) / temperature[:, None], -1)
            kl = scattered((logp.exp() * (finite - torch.where(other.isinf(), 0.0, other))).sum(-1))
        own_logp = logp.gather(1, batch.action[places].long()[:, None])[:, 0]
        return Evaluation(scattered(own_logp), entropy=entropy, kl_exact=kl)

    def final_values(self, batch: Batch) -> Tensor:
        return torch.zeros(batch.trajectories)

    def frozen_copy(self) -> Self:
        other = copy.copy(self)
        other.model = copy.deepcopy(self.model).requires_grad_(False)
        return other

    def save(self, folder: Path) -> None:
        with without_progress_bars():
            self.model.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)

    def load(self, folder: Path) -> None:
        from transformers import AutoModelForMaskedLM

        with without_progress_bars():
            read = AutoModelForMaskedLM.from_pretrained(folder, dtype=torch.float32)
        self.model.load_state_dict(read.state_dict())


def _states(batch: Batch, places: Tensor) -> list[MaskedState]:
    """The states at which decisions (increasing) were made, each at the places of these alone."""
    turns = batch.turn[places]
    lengths = torch.bincount(batch.turn, minlength=batch.turns)
    starts = torch.cumsum(lengths, 0) - lengths
    result = []
    for turn in torch.unique_consecutive(turns).tolist():
        state = MaskedState.read(np.asarray(batch.observation[turn], np.int64))
        offsets = (places[turns == turn] - starts[turn]).numpy()
        result.append(MaskedState(state.tokens, state.prompt, state.places[offsets], state.guidance))
    return result
