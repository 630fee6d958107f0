"""A language model of `transformers` with its tokenizer: what it is, and its hidden states where decisions stand."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, cast, get_args

import numpy as np
import torch
from torch import Tensor, nn

from hocket.core.batch import Batch, Level
from hocket.core.divergences import Divergence
from hocket.core.errors import ConfigurationError, HocketError
from hocket.core.media import reader_of
from hocket.policies.activation_cache import ActivationCache, ReplaySteps, activation_cache_for
from hocket.policies.copies import ModelCopies
from hocket.policies.family import STEPS, Checkpointing, LayerSteps, Precision, head_of, logit_states
from hocket.policies.form_reading import form_of
from hocket.policies.heads import Head, finished
from hocket.policies.lora import acting_parameters, adapted_layers, without_adapter
from hocket.policies.media_reader import MediaReader
from hocket.policies.native_pass import native_head, native_logits, native_states, steady_length
from hocket.policies.prefix_tree import PrefixTree, tree_of, tree_parts
from hocket.policies.residence import HERE, Residence
from hocket.policies.routes import Balance, ReplayedRoutes, RouteRecord, columns_of
from hocket.policies.sequences import TOKEN_BUDGET, Row, blocks_of, padded
from hocket.policies.shapes import context_length
from hocket.policies.stored_weights import WideHead, weight_count
from hocket.policies.support import supports, trusted
from hocket.policies.tree_forward import tree_states
from hocket.policies.value_head import ValueHead
from hocket.policies.vision import vision_of


class LanguageModule(nn.Module):
    """All weights of a policy: the language model, its tower if that may change, and the value head once required."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        vision = vision_of(model)
        self.tower: nn.ModuleDict | None = None if vision is None else vision.tower
        self.value_head: ValueHead | None = None


class LanguageModel:
    """A causal language model and its tokenizer.

    The model stays in evaluation mode, so that sampler and learner compute the same function.

    Attributes:
        name: the policy's name in records.
        version: counts updates of the weights; the learner increases it after each step.
        tokenizer: the model's own.
        token_budget: tokens per forward and backward pass, padding included.
        activations: what the sampler has computed with these weights, between `begin_activation_cache` and
            `end_activation_cache`.
        replay_routes: whether tokens go to the experts in learning that they went to in sampling.
        routes: where these were, as long as `activations` would be kept.
        checkpointing: whether the backward pass makes layers' activations again instead of holding them; with `host`
            the host's memory holds the states between layers that it begins from.
        share_prefixes: whether the learner computes prefixes that sequences share once, where the architecture is one
            with a form, see `hocket.policies.forms`; False pads every sequence and uses the model's own forward pass.
        precision: what layers multiply in, for sampler and learner alike; see `hocket.policies.family.Precision`.
        lora: whether there is an adapter. adapted: whether it takes part; a reference's does not.
        residence: where the weights are.
        tower_lr: the learning rate of the tower that reads pictures or sounds; None where that is not trained.
        end_of_turn: tokens that end a turn by the chat template, where the model itself does not name them.
        divergence: what is evaluated as `Quantity.DIVERGENCE`. reference_view: the batch as the reference reads it for
            that, where its prompts are others.
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
            ConfigurationError: when `precision` is not one that the weights can be computed in.
        """
        self.name = name
        self.version = 0
        self.tokenizer = tokenizer
        self.token_budget: float = TOKEN_BUDGET
        self.checkpointing: Checkpointing = False
        self.activations: ActivationCache | None = None
        self.replay_routes = False
        self.routes: RouteRecord | None = None
        self._copies = ModelCopies()
        self.share_prefixes = True
        self.precision = precision
        self.end_of_turn: tuple[int, ...] = ()
        self.divergence: Divergence | None = None
        self.reference_view: Callable[[Batch], Batch] | None = None
        self.residence: Residence = HERE
        self.tower_lr: float | None = None
        self.lora = bool(adapted_layers(model))
        self.adapted = self.lora if adapted is None else adapted
        self._module = LanguageModule(model.eval())
        if (vision := vision_of(model)) is not None:
            # One that has processed the prompts already.
            vision.reader = cast(MediaReader, reader_of(tokenizer) or vision.reader)
        form_of(model)  # Read while all weights are here.
        self._check_precision()

    # ------------------------------------------------------------ what it is

    @property
    def module(self) -> nn.Module:
        return self._module

    @property
    def model(self) -> Any:
        """The `transformers` model."""
        return self._module.model

    @property
    def tower(self) -> nn.ModuleDict | None:
        """What reads pictures or sounds, by parts, where it may change."""
        return self._module.tower

    @property
    def value_head(self) -> ValueHead | None:
        """The value head, once one is required."""
        return self._module.value_head

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next(self._module.parameters()).device

    @property
    def granularity(self) -> Level:
        """A trajectory: one token costs as much as the whole sequence."""
        return Level.TRAJECTORY

    @property
    def default_lr(self) -> float:
        """1e-4 at a million parameters, falling with the square root of size (about 1e-6 at 7 billion); LoRA x 10."""
        size = weight_count(self.model)
        full: float = min(1e-3, 1e-4 * (1e6 / size) ** 0.5)
        return full * 10 if self.lora else full

    @property
    def context_length(self) -> int | None:
        """The most tokens a sequence may have; None when the architecture sets no limit."""
        return context_length(self.model.config)

    @property
    def stop_ids(self) -> tuple[int, ...]:
        """Tokens that end a response: the tokenizer's end of text, the model's and the template's ends of turn."""
        ids: set[int] = {*self.end_of_turn}
        if self.tokenizer.eos_token_id is not None:
            ids.add(self.tokenizer.eos_token_id)
        for config in (getattr(self.model, "generation_config", None), self.model.config):
            ends = getattr(config, "eos_token_id", None)
            ids.update(ends if isinstance(ends, (list, tuple)) else [] if ends is None else [ends])
        return tuple(sorted(ids))

    def acting_parameters(self) -> Iterator[nn.Parameter]:
        """The weights of the language model that `applied` computes with: all, or all but the adapter's."""
        return acting_parameters(self.model, self.adapted or not self.lora)

    def fingerprint(self) -> tuple[int, ...]:
        """Numbers that change with the weights: the version, and torch's own count of changes of each tensor."""
        parameters = self.residence.held(self.acting_parameters())
        changes = (0 if parameter.is_inference() else parameter._version for parameter in parameters)
        return self.version, *(parameter.data_ptr() for parameter in parameters), *changes

    def applied(self) -> AbstractContextManager[None]:
        """Inside, the model computes this policy's function: a reference switches the shared model's adapter off."""
        return nullcontext() if self.adapted or not self.lora else without_adapter(self.model)

    # ------------------------------------------------------------ what is kept

    def begin_activation_cache(self) -> None:
        """Keeps what the local engine computes from now on, so that the learner need not compute it again.

        Nothing happens where that cannot be, with adapters or activation checkpointing and without kernels, or where it
        does not pay, with small models. With `replay_routes` a mixture of experts keeps its routes in its place.
        """
        if self.replay_routes and self.residence.here and supports(self.model, 1) and columns_of(self.model):
            self.routes = RouteRecord(self.model)
        if not self.lora and not self.checkpointing and self.residence.here and supports(self.model, 1):
            self.activations = activation_cache_for(self.model, self.fingerprint())

    def end_activation_cache(self) -> None:
        """Lets go of what was kept."""
        self.activations = self.routes = None

    def refresh_copy(self, name: str) -> None:
        """Makes the copy of this name equal to the model as it is now; see `hocket.policies.copies`."""
        with self.residence.whole():
            self._copies.refresh(name, self.model)

    def model_copy(self, name: str) -> Any:
        """The copy of this name; asked for the first time, a copy of the model as it is now."""
        with self.residence.whole():
            return self._copies.get(name, self.model)

    # ------------------------------------------------------------ hidden states

    def parts(self, rows: list[Row], other: LanguageModel | None = None) -> list[list[Row]]:
        """Rows read together, by this policy and by `other`; whether prefixes are shared decides what they cost."""
        policies = [self] if other is None else [self, other]
        if all(policy._shares(rows) for policy in policies):
            return tree_parts(rows, self.token_budget)
        steady = [length for policy in policies if (length := steady_length(policy.model)) is not None]
        return blocks_of(rows, self.token_budget, min(steady, default=None))

    def _shares(self, rows: Sequence[Row]) -> bool:
        longest = max((len(row.tokens) for row in rows), default=0)
        full_precision = self.model.dtype in (torch.float32, torch.float64)
        return self.share_prefixes and full_precision and supports(self.model, longest)

    def features(
        self, rows: list[Row], *, hidden: bool = False, balances: list[Tensor] | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """What `head` reads at the rows' K places: hidden states `[K, H]`, or finished logits `[K, V]`.

        Also the hidden states themselves when asked; how unevenly experts are used is appended to `balances`. Where
        prefixes are not shared, rows are padded on the right, where a causal model's earlier positions cannot see them,
        and start at position 0: neither a mask nor position numbers are needed. The `residence` is to be `around`.
        """
        if self._shares(rows):
            tree = tree_of(rows)
            steps = self._steps(rows, tree)
            balance = None if balances is None else Balance(steps)
            read = tree_states(
                self.model,
                tree,
                self.precision,
                gradient_checkpointing=self.checkpointing,
                replay=self._replay(rows, tree),
                steps=steps if balance is None else balance,
                residence=self.residence,
            )
            if balances is not None and balance is not None:
                balances.append(balance.mean())
            return self._for_head(read), read if hidden else None
        if balances is not None:
            raise HocketError(f"policy {self.name!r} says nothing of its experts where prefixes are not shared")
        block = padded(rows)
        ids, place = block.ids.to(self.device), block.place.to(self.device)
        again = bool(self.checkpointing) and self.residence.here
        with self.residence.called(), self.narrowed():
            if self._plain:
                states = native_states(self.model, ids, gradient_checkpointing=again)
                picked = states.flatten(0, 1)[place].to(torch.float32 if self.precision == "bf16" else self.model.dtype)
                return self._for_head(picked), picked if hidden else None
            logits, last = native_logits(self.model, ids, hidden=hidden, gradient_checkpointing=again)
        return logits.flatten(0, 1)[place], None if last is None else last.flatten(0, 1)[place]

    def _steps(self, rows: list[Row], tree: PrefixTree) -> LayerSteps:
        """How layers are computed of what no activation cache knows."""
        if self.routes is None:
            return STEPS
        wanted = torch.from_numpy(np.unique(tree.place))
        return ReplayedRoutes(columns_of(self.model), self.routes.find(rows, tree), wanted, self.routes.counts)

    def _replay(self, rows: list[Row], tree: PrefixTree) -> ReplaySteps | None:
        """What the sampler has computed of `tree` with the weights as they are, where that saves a forward pass."""
        if self.activations is None or not torch.is_grad_enabled() or self.activations.weights != self.fingerprint():
            return None
        return self.activations.find(rows, tree)

    @property
    def head(self) -> Head:
        if trusted(self.model):
            return head_of(self.model)
        return native_head(self.model) or finished

    def _for_head(self, states: Tensor) -> Tensor:
        """Last hidden states as the head reads them."""
        return logit_states(self.model, states) if trusted(self.model) else states

    @property
    def _plain(self) -> bool:
        """Whether the head reads last hidden states; otherwise the model's own logits are used."""
        return trusted(self.model) or native_head(self.model) is not None

    def check_lengths(self, rows: Sequence[Row]) -> None:
        limit = self.context_length
        longest = max((len(row.tokens) for row in rows), default=0)
        if limit is not None and longest > limit:
            raise HocketError(
                f"a sequence of {longest} tokens exceeds the context of policy {self.name!r}, {limit} tokens; "
                "shorten its prompt or turns"
            )

    def _check_precision(self) -> None:
        if self.precision not in get_args(Precision):
            raise ConfigurationError(f"precision = {self.precision!r}: choose one of {', '.join(get_args(Precision))}")
        if self.precision == "fp32":
            stored = {weight.dtype for weight in self.model.parameters()}
            if self.lora and {torch.float32, torch.bfloat16} <= stored:
                raise ConfigurationError(
                    "precision = 'fp32': some of the model's weights are stored in bf16, and products need one type; "
                    "use precision = bf16"
                )
            return
        if not any(weight.dtype is torch.float32 for weight in self.model.parameters()):
            raise ConfigurationError(
                f"precision = {self.precision!r} needs a model read in fp32, and this is in {self.model.dtype}; use "
                "'fp32', which computes in the model's own type"
            )
        head = self.model.get_output_embeddings()
        if type(head) is nn.Linear and not supports(self.model, self.context_length or sys.maxsize):
            head.__class__ = WideHead

    def narrowed(self) -> AbstractContextManager[Any]:
        """Inside, the forward pass of `transformers` multiplies in the policy's precision."""
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.precision == "bf16")
