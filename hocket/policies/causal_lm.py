"""A causal language model of `transformers` as a policy: every token it writes is a decision."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, get_args

import torch
from torch import Tensor, nn

from hocket import kernels
from hocket.errors import ConfigurationError, HocketError
from hocket.keys import Key
from hocket.policies.copies import ModelCopies, without_gradients
from hocket.policies.family import FAMILY, Precision, head_size, supports
from hocket.policies.heads import Head, Reading, ValueHead, read_head, rowwise
from hocket.policies.loading import read_model, read_tokenizer, without_progress_bars
from hocket.policies.lora import (
    adapted_layers,
    add_adapter,
    is_adapters,
    load_adapter,
    merged_state,
    save_adapter,
    without_adapter,
)
from hocket.policies.masking import allowed_at
from hocket.policies.prefix_tree import PrefixTree, tree_of, tree_parts
from hocket.policies.sequences import TOKEN_BUDGET, Row, blocks_of, final_rows, padded, rows_of, targets
from hocket.policies.settings import LoraSettings
from hocket.policies.shared import Bases, twin
from hocket.policies.tape import Replay, Tape, worth
from hocket.policies.tree_forward import tree_states
from hocket.stages import Policy
from hocket.types import Batch, Evaluation, Level, Quantity

PLAIN_HEAD = frozenset({"gpt2", "llama", "mistral", "qwen2", "qwen3"})
"""Architectures whose logits are exactly `lm_head(last hidden state)`; of any other the model's own logits are used."""

VALUE_FILE = "value_head.safetensors"


class LanguageModule(nn.Module):
    """All weights of a policy: the language model, and the value head once one is required."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.value_head: ValueHead | None = None


class CausalLM:
    """A language model and its tokenizer; implements `hocket.stages.Policy`.

    The model stays in evaluation mode, so that sampler and learner compute the same function.

    Attributes:
        name: the policy's name in records.
        version: counts updates of the weights; the learner increases it after each step.
        tokenizer: the model's own.
        token_budget: tokens per forward and backward pass, padding included.
        tape: what the sampler has computed with these weights, between `begin_tape` and `end_tape`.
        checkpointing: whether the backward pass makes layers' activations again instead of holding them.
        share_prefixes: whether the learner computes prefixes that sequences share once, where the architecture is one
            that `hocket.policies.family` knows; False pads every sequence and uses the model's own forward pass.
        precision: what layers multiply in, for sampler and learner alike; see `hocket.policies.family.Precision`.
        lora: whether there is an adapter. adapted: whether it takes part; a reference's does not.
        end_of_turn: tokens that end a turn by the chat template, where the model itself does not name them.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        name: str = "policy",
        adapted: bool | None = None,
        precision: Precision = "fp32",
    ) -> None:
        """Wraps a loaded model. `adapted` says whether its adapter, if it has one, takes part.

        Raises:
            ConfigurationError: when `precision` is not one this architecture and its weights can be computed in.
        """
        self.name = name
        self.version = 0
        self.tokenizer = tokenizer
        self.token_budget: float = TOKEN_BUDGET
        self.checkpointing = False
        self.tape: Tape | None = None
        self._copies = ModelCopies()
        self.share_prefixes = True
        self.precision = precision
        self.end_of_turn: tuple[int, ...] = ()
        self.lora = bool(adapted_layers(model))
        self.adapted = self.lora if adapted is None else adapted
        self._module = LanguageModule(model.eval())
        self._check_precision()

    @classmethod
    def from_pretrained(
        cls,
        path_or_name: str | Path,
        *,
        name: str = "policy",
        lora: LoraSettings | None = None,
        dtype: torch.dtype = torch.float32,
        precision: Precision = "fp32",
        chat_template: str | None = None,
        bases: Bases | None = None,
        key: Key,
    ) -> CausalLM:
        """Loads a model folder or hub name; a folder written by `save` brings its value head with it.

        Args:
            path_or_name: a local folder, or a hub name, looked up in the local cache first.
            name: the policy's name in records.
            lora: trains an adapter instead of the weights.
            dtype: of the weights.
            precision: what layers multiply in, see the attribute.
            chat_template: text or file that replaces the tokenizer's own template.
            bases: models read before, whose weights a policy with an adapter shares.
            key: what the adapter's first weights are drawn from; nothing else is drawn.

        Raises:
            ConfigurationError: when the model or its tokenizer is missing or unfit; the message says what to do.
        """
        where = str(path_or_name)
        if lora is None or bases is None:
            model, tokenizer = read_model(where, dtype), read_tokenizer(where, chat_template)
        else:
            model, tokenizer = bases.model(where, dtype), bases.tokenizer(where, chat_template)
        if lora is not None:
            add_adapter(model, lora, key)
        policy = cls(model, tokenizer, name=name, precision=precision)
        policy._load_value_head(Path(where).expanduser())
        return policy

    # ------------------------------------------------------------ what it is

    @property
    def module(self) -> nn.Module:
        return self._module

    @property
    def model(self) -> Any:
        """The `transformers` model."""
        return self._module.model

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next(self._module.parameters()).device

    @property
    def context_length(self) -> int | None:
        """The most tokens a sequence may have; None when the architecture sets no limit."""
        return getattr(self.model.config, "max_position_embeddings", None)

    @property
    def stop_ids(self) -> tuple[int, ...]:
        """Tokens that end a response: the tokenizer's end of text, the model's and the template's ends of turn."""
        found: set[int] = {*self.end_of_turn}
        if self.tokenizer.eos_token_id is not None:
            found.add(self.tokenizer.eos_token_id)
        for config in (getattr(self.model, "generation_config", None), self.model.config):
            ends = getattr(config, "eos_token_id", None)
            found.update(ends if isinstance(ends, (list, tuple)) else [] if ends is None else [ends])
        return tuple(sorted(found))

    @property
    def granularity(self) -> Level:
        """A trajectory: one token costs as much as the whole sequence."""
        return Level.TRAJECTORY

    @property
    def default_lr(self) -> float:
        """1e-4 at a million parameters, falling with the square root of size (about 1e-6 at 7 billion); LoRA x 10."""
        size = sum(parameter.numel() for parameter in self.model.parameters())
        full: float = min(1e-3, 1e-4 * (1e6 / size) ** 0.5)
        return full * 10 if self.lora else full

    def parameter_groups(self) -> dict[str, list[nn.Parameter]]:
        """Trainable parameters by part: `policy`, and `value` when there is a value head."""
        groups = {"policy": [parameter for parameter in self.model.parameters() if parameter.requires_grad]}
        if self._module.value_head is not None:
            groups["value"] = list(self._module.value_head.parameters())
        return groups

    def acting_parameters(self) -> Iterator[nn.Parameter]:
        """The weights of the language model that `applied` computes with: all, or all but the adapter's."""
        for name, parameter in self.model.named_parameters():
            if self.adapted or not self.lora or not is_adapters(name):
                yield parameter

    def fingerprint(self) -> tuple[int, ...]:
        """Numbers that change with the weights: the version, and torch's own count of changes of each tensor."""
        parameters = list(self.acting_parameters())
        changes = (0 if parameter.is_inference() else parameter._version for parameter in parameters)
        return self.version, *(parameter.data_ptr() for parameter in parameters), *changes

    def begin_tape(self) -> None:
        """Keeps what the local engine computes from now on, so that the learner need not compute it again.

        Nothing happens where that cannot be, with adapters or activation checkpointing and without kernels, or where it
        does not pay, with small models.
        """
        fits = self.device.type == "cpu" and self.model.dtype is torch.float32 and supports(self.model, 1)
        if (
            fits
            and worth(self.model)
            and not self.lora
            and not self.checkpointing
            and kernels.available(head_size(self.model))
        ):
            self.tape = Tape(self.model.config.num_hidden_layers, self.fingerprint())

    def end_tape(self) -> None:
        """Lets go of what was kept."""
        self.tape = None

    def refresh_copy(self, name: str) -> None:
        """Makes the copy of this name equal to the model as it is now; see `hocket.policies.copies`."""
        self._copies.refresh(name, self.model)

    def model_copy(self, name: str) -> Any:
        """The copy of this name; asked for the first time, a copy of the model as it is now."""
        return self._copies.get(name, self.model)

    def applied(self) -> AbstractContextManager[None]:
        """Inside, the model computes this policy's function: a reference switches the shared model's adapter off."""
        return nullcontext() if self.adapted or not self.lora else without_adapter(self.model)

    # ------------------------------------------------------------ what it says about a batch

    def require(self, needs: frozenset[Quantity]) -> None:
        if Quantity.VALUE in needs and self._module.value_head is None:
            self._module.value_head = ValueHead(self._width).to(self.device)

    def chunks(self, batch: Batch, decisions: Tensor) -> list[Tensor]:
        """Splits decisions `[K]` so that what each part reads stays within `token_budget`.

        Decisions read in one sequence stay together.
        """
        return [targets(part) for part in self._parts(rows_of(batch, decisions))]

    def evaluate(
        self,
        batch: Batch,
        needs: Iterable[Quantity],
        decisions: Tensor | None = None,
        *,
        reference: Policy | None = None,
    ) -> Evaluation:
        """Log-probs, entropies, values and exact KL of `decisions` `[K]` (all when None), each scattered into `[T]`.

        Distributions are softmax(logits / temperature of the turn). Contexts are rebuilt from the turn chain, each
        decision is computed once, and the result does not depend on padding, order or chunks beyond float rounding.

        Raises:
            HocketError: when values are asked without a value head, exact KL without a reference, or a sequence is
                longer than the model's context.
        """
        wanted = frozenset(needs)
        other = self._reference(reference) if Quantity.KL_EXACT in wanted else None
        if Quantity.VALUE in wanted and self._module.value_head is None:
            raise HocketError(f"policy {self.name!r} has no value head; call require({{VALUE}}) before training")
        asked = torch.arange(batch.decisions) if decisions is None else decisions
        rows = rows_of(batch, asked) if len(asked) else []
        self._check_lengths(rows)
        parts = self._parts(rows, other)
        found = [self._evaluate_part(batch, part, wanted, other) for part in parts]
        target = torch.cat([targets(part) for part in parts]) if parts else torch.zeros(0, dtype=torch.long)

        def scattered(column: Sequence[Tensor | None]) -> Tensor:
            values = torch.cat([part for part in column if part is not None]) if column else torch.zeros(0)
            # A number per decision is little: losses are computed where the batch is.
            return torch.zeros(batch.decisions).index_copy(0, target, values.to(batch.action.device))

        return Evaluation(
            logp=scattered([reading.logp for reading, _ in found]),
            entropy=scattered([reading.entropy for reading, _ in found]) if Quantity.ENTROPY in wanted else None,
            value=scattered([value for _, value in found]) if Quantity.VALUE in wanted else None,
            kl_exact=scattered([reading.kl for reading, _ in found]) if Quantity.KL_EXACT in wanted else None,
        )

    def distributions(self, batch: Batch, decisions: Tensor) -> Callable[[Tensor], Tensor]:
        """Whole distributions at `decisions` `[K]`, without gradient: places in it `[M]` to log-probs `[M, V]`.

        Hidden states are kept for all, logits made for those asked.
        """
        with torch.no_grad(), self.applied():
            parts = self._parts(rows_of(batch, decisions))
            features = torch.cat([self._features(part)[0] for part in parts])
        place = torch.zeros(batch.decisions, dtype=torch.long)
        place[torch.cat([targets(part) for part in parts])] = torch.arange(len(features))
        heat = torch.ones(batch.turns) if batch.temperature is None else batch.temperature

        def logp(chosen: Tensor) -> Tensor:
            wanted = decisions[chosen]
            temperature = heat[batch.turn[wanted]].float().to(self.device)[:, None]
            with torch.no_grad(), self.applied():
                logits = rowwise(self._head, features[place[wanted].to(features.device)]).float()
            return torch.log_softmax(logits / temperature, -1).cpu()

        return logp

    def final_values(self, batch: Batch) -> Tensor:
        """The value after the last token of each truncated trajectory, `[N]`; 0 elsewhere. No gradient."""
        head = self._module.value_head
        if head is None:
            raise HocketError(f"policy {self.name!r} has no value head; call require({{VALUE}}) before training")
        values = torch.zeros(batch.trajectories)
        with torch.no_grad(), self.applied():
            for part in self._parts(final_rows(batch)):
                _, hidden = self._features(part, hidden=True)
                assert hidden is not None
                values[targets(part)] = head(hidden).to(values.device)
        return values

    def _parts(self, rows: list[Row], other: CausalLM | None = None) -> list[list[Row]]:
        """Rows read together, by this policy and by `other`; whether prefixes are shared decides what they cost."""
        shared = all(policy is None or policy._shares(rows) for policy in (self, other))
        return (tree_parts if shared else blocks_of)(rows, self.token_budget)

    def _shares(self, rows: Sequence[Row]) -> bool:
        if self.precision != "fp32":  # Checked at construction; the model's own forward pass would compute in fp32.
            return True
        longest = max((len(row.tokens) for row in rows), default=0)
        whole = self.model.dtype in (torch.float32, torch.float64)
        return self.share_prefixes and whole and supports(self.model, longest)

    def _evaluate_part(
        self, batch: Batch, part: list[Row], wanted: frozenset[Quantity], other: CausalLM | None
    ) -> tuple[Reading, Tensor | None]:
        target = targets(part)
        action = batch.action[target].long().to(self.device)
        heat = torch.ones(batch.turns) if batch.temperature is None else batch.temperature
        temperature = heat[batch.turn[target]].float().to(self.device)
        against: tuple[Head, Tensor] | None = None
        if other is not None:
            with torch.no_grad(), other.applied():
                against = (other._head, other._features(part)[0])
        with self.applied():
            features, hidden = self._features(part, hidden=Quantity.VALUE in wanted)
        entropy = Quantity.ENTROPY in wanted
        only = allowed_at(batch, target, self.model.config.vocab_size)
        allowed = None if only is None else only.to(self.device)
        reading = read_head(
            self._head, features, action, temperature, entropy=entropy, reference=against, allowed=allowed
        )
        head = self._module.value_head
        return reading, None if hidden is None or head is None else head(hidden)

    def _features(self, rows: list[Row], *, hidden: bool = False) -> tuple[Tensor, Tensor | None]:
        """What `_head` reads at the rows' K places: hidden states `[K, H]`, or finished logits `[K, V]`.

        Also the hidden states themselves when asked. Where prefixes are not shared, rows are padded on the right, where
        a causal model's earlier positions cannot see them, and start at position 0: neither a mask nor position numbers
        are needed.
        """
        if self._shares(rows):
            tree = tree_of(rows)
            replay = self._replay(rows, tree)
            read = tree_states(self.model, tree, self.precision, frugal=self.checkpointing, replay=replay)
            return read, read if hidden else None
        block = padded(rows)
        ids, place = block.ids.to(self.device), block.place.to(self.device)
        if self._plain:
            states = self.model.base_model(input_ids=ids, use_cache=False).last_hidden_state
            picked = states.flatten(0, 1)[place]
            return picked, picked if hidden else None
        out = self.model(input_ids=ids, use_cache=False, output_hidden_states=hidden)
        states = out.hidden_states[-1].flatten(0, 1)[place] if hidden else None
        return out.logits.flatten(0, 1)[place], states

    def _replay(self, rows: list[Row], tree: PrefixTree) -> Replay | None:
        """What the sampler has computed of `tree` with the weights as they are, where that saves a forward pass."""
        if self.tape is None or not torch.is_grad_enabled() or self.tape.weights != self.fingerprint():
            return None
        return self.tape.find(rows, tree)

    @property
    def _head(self) -> Head:
        head: Head = self.model.lm_head if self._plain else _unchanged
        return head

    @property
    def _plain(self) -> bool:
        return self.model.config.model_type in PLAIN_HEAD

    @property
    def _width(self) -> int:
        return int(self.model.config.hidden_size)

    def _reference(self, reference: Policy | None) -> CausalLM:
        if not isinstance(reference, CausalLM):
            raise HocketError(f"policy {self.name!r}: exact KL needs a reference that is a causal language model")
        sizes = self.model.config.vocab_size, reference.model.config.vocab_size
        if sizes[0] != sizes[1]:
            raise ConfigurationError(
                f"exact KL compares distributions over one vocabulary, but the policy has {sizes[0]} tokens and the "
                f"reference {sizes[1]}; choose a reference with the policy's tokenizer"
            )
        return reference

    def _check_precision(self) -> None:
        if self.precision not in get_args(Precision):
            raise ConfigurationError(f"precision = {self.precision!r}: choose one of {', '.join(get_args(Precision))}")
        if self.precision == "fp32":
            return
        known = supports(self.model, self.context_length or sys.maxsize)
        if not known or self.model.dtype is not torch.float32:
            raise ConfigurationError(
                f"precision = {self.precision!r} is for {', '.join(sorted(FAMILY))} models with fp32 weights and no "
                f"sliding window, not for a {self.model.config.model_type} model in {self.model.dtype}; use 'fp32'"
            )

    def _check_lengths(self, rows: Sequence[Row]) -> None:
        limit = self.context_length
        longest = max((len(row.tokens) for row in rows), default=0)
        if limit is not None and longest > limit:
            raise HocketError(
                f"a sequence of {longest} tokens exceeds the context of policy {self.name!r}, {limit} tokens; "
                "shorten its prompt or turns"
            )

    # ------------------------------------------------------------ copies on disk and in memory

    def frozen_copy(self) -> CausalLM:
        """A reference: a copy of the weights, or with LoRA the shared base with the adapter switched off."""
        if self.lora:
            twin = CausalLM(self.model, self.tokenizer, name=self.name, adapted=False, precision=self.precision)
        else:
            with without_gradients(self._module):
                model = copy.deepcopy(self.model)
            twin = CausalLM(model.requires_grad_(False), self.tokenizer, name=self.name, precision=self.precision)
        twin.version, twin.token_budget, twin.share_prefixes = self.version, self.token_budget, self.share_prefixes
        twin.checkpointing = self.checkpointing
        return twin

    def snapshot(self) -> CausalLM:
        """A copy that goes on acting as the policy does now and is never trained; of adapters, on the same base."""
        if not self.lora:
            copied = self.frozen_copy()
        else:
            with without_gradients(self._module):
                model = twin(self.model, adapters=False).requires_grad_(False)
            copied = CausalLM(model, self.tokenizer, name=self.name, adapted=self.adapted, precision=self.precision)
            copied.version = self.version
        copied.end_of_turn = self.end_of_turn
        return copied

    def save(self, folder: Path) -> None:
        """Writes an HF model folder with tokenizer, and the value head beside it.

        With LoRA the folder holds the merged model, and the adapter alone is under `adapter/`; where the adapter is
        off, the base alone.
        """
        from safetensors.torch import save_file

        folder.mkdir(parents=True, exist_ok=True)
        with without_progress_bars(), self.applied():
            merged = merged_state(self.model) if self.lora else None
            self.model.save_pretrained(str(folder), state_dict=merged)
        if self.lora and self.adapted:
            save_adapter(self.model, folder / "adapter")
        self.tokenizer.save_pretrained(str(folder))
        self._copies.save(folder)
        if self._module.value_head is not None:
            save_file(self._module.value_head.state_dict(), folder / VALUE_FILE)

    def load(self, folder: Path) -> None:
        """Restores exactly what `save` wrote: all weights, or with LoRA the adapter, where that is on.

        Raises:
            ConfigurationError: when the folder is missing, incomplete, or of another model.
        """
        if self.lora and self.adapted:
            load_adapter(self.model, folder / "adapter")
        elif not self.lora:
            stored = read_model(str(folder), next(self.model.parameters()).dtype)
            try:
                self.model.load_state_dict(stored.state_dict())
            except RuntimeError as error:
                raise ConfigurationError(
                    f"the model in {str(folder)!r} has another shape than policy {self.name!r}; load one saved by it"
                ) from error
        self._copies.load(folder, self.model)
        self._load_value_head(folder)

    def _load_value_head(self, folder: Path) -> None:
        from safetensors.torch import load_file

        if (folder / VALUE_FILE).is_file():
            self.require(frozenset({Quantity.VALUE}))
            assert self._module.value_head is not None
            self._module.value_head.load_state_dict(load_file(folder / VALUE_FILE))


def _unchanged(logits: Tensor) -> Tensor:
    return logits
