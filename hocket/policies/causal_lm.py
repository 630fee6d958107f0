"""A causal language model of `transformers` as a policy: every token it writes is a decision."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from hocket.core.batch import Batch
from hocket.core.errors import ConfigurationError
from hocket.core.evaluating import policy_decisions
from hocket.core.keys import Key
from hocket.policies.copies import without_gradients
from hocket.policies.evaluation import comparable, distributions, evaluate, final_values, mean_states
from hocket.policies.family import Precision
from hocket.policies.language_model import LanguageModel
from hocket.policies.loading import check_tokens, read_model, read_tokenizer, trainable_config, without_progress_bars
from hocket.policies.lora import add_adapter, load_adapter, merged_state, save_adapter
from hocket.policies.routed_teachers import RoutedTeachers, joined
from hocket.policies.routes import columns_of
from hocket.policies.sequences import rows_of, targets
from hocket.policies.settings import LoraSettings
from hocket.policies.shapes import text_config
from hocket.policies.shared_base import SharedBaseCache, read_frozen, shared_clone
from hocket.policies.stored_weights import Storage, train_in_half
from hocket.policies.templates import TemplateSettings
from hocket.policies.value_head import ValueHead, has_value_head
from hocket.policies.vision import copy_weights, save_model, vision_of
from hocket.stages import Policy
from hocket.types import COMPARED, Evaluation, Quantity


class CausalLM(LanguageModel):
    """A language model and its tokenizer as a policy; implements `hocket.stages.Policy`."""

    @classmethod
    def from_pretrained(
        cls,
        path_or_name: str | Path,
        *,
        name: str = "policy",
        lora: LoraSettings | None = None,
        dtype: torch.dtype = torch.float32,
        precision: Precision = "fp32",
        weights: Storage = "fp32",
        chat_template: str | TemplateSettings | None = None,
        base_cache: SharedBaseCache | None = None,
        key: Key,
    ) -> CausalLM:
        """Loads a model folder or hub name; a folder written by `save` brings its value head with it.

        Args:
            path_or_name: a local folder, or a hub name, looked up in the local cache first.
            name: the policy's name in records.
            lora: trains an adapter instead of the weights.
            dtype: of the weights.
            precision: what layers multiply in, see the attribute.
            weights: what they are stored in, see `hocket.policies.stored_weights`; fp32 leaves them in `dtype`.
            chat_template: text or file that replaces the tokenizer's own template, or settings of it.
            base_cache: models read before, whose weights a policy with an adapter shares.
            key: what the adapter's first weights are drawn from; nothing else is drawn.

        Raises:
            ConfigurationError: when the model or its tokenizer is missing or unfit; the message says what to do.
        """
        where = str(path_or_name)
        config = trainable_config(where)
        shared = None if lora is None else base_cache
        tokenizer = (read_tokenizer if shared is None else shared.tokenizer)(where, chat_template)
        check_tokens(config, tokenizer, where)  # Before weights are read.
        if lora is None:
            model = read_trained(where, dtype, weights)
        else:
            model = (read_frozen if shared is None else shared.model)(where, dtype, weights)
            add_adapter(model, lora, key)
        policy = cls(model, tokenizer, name=name, precision=precision)
        policy._load_value_head(Path(where).expanduser())
        return policy

    def parameter_groups(self) -> dict[str, list[nn.Parameter]]:
        """Trainable parameters by part: `policy`, `tower` where that is trained, `value` when there is a value head."""
        groups = {"policy": [parameter for parameter in self.model.parameters() if parameter.requires_grad]}
        if self.tower is not None:
            groups["tower"] = [weight for weight in self.tower.parameters() if weight.requires_grad]
        if self._module.value_head is not None:
            groups["value"] = list(self._module.value_head.parameters())
        return groups

    def train_tower(self, lr: float) -> None:
        """Has the tower that reads pictures or sounds learn as well, at a rate of its own.

        Raises:
            ConfigurationError: when the model has none, or has an adapter, with which a reference shares the tower.
        """
        vision = vision_of(self.model)
        if vision is None:
            raise ConfigurationError(
                f"tower.lr: the model of policy {self.name!r} reads words alone and has no tower; drop tower.lr, or "
                "choose a model that reads pictures or sounds, such as --model nano-vlm"
            )
        if self.lora:
            raise ConfigurationError("tower.lr: an adapter trains the language part alone; drop tower.lr or lora")
        if self.model.dtype is not torch.float32:
            raise ConfigurationError("tower.lr: a tower is trained in fp32; drop tower.lr or weights")
        self._module.tower, self.tower_lr = vision.train(), lr

    # ------------------------------------------------------------ what it says about a batch

    def require(self, needs: frozenset[Quantity]) -> None:
        if Quantity.SCORE in needs:
            raise ConfigurationError(
                f"policy {self.name!r} writes answers and gives no scores; a recipe that reads scores trains a scorer "
                "(hocket.policies.scorer.Scorer), in a run or a phase of its own"
            )
        if Quantity.BALANCE in needs and not columns_of(self.model):
            raise ConfigurationError(
                f"policy {self.name!r} routes nothing to balance: drop LoadBalance, or train a mixture of experts"
            )
        if Quantity.VALUE in needs and self._module.value_head is None:
            self._module.value_head = ValueHead(int(text_config(self.model.config).hidden_size)).to(self.device)

    def chunks(self, batch: Batch, decisions: Tensor) -> list[Tensor]:
        """Splits decisions `[K]` so that what each part reads stays within `token_budget`.

        Decisions read in one sequence stay together.
        """
        return [targets(part) for part in self.parts(rows_of(batch, decisions))]

    def evaluate(
        self,
        batch: Batch,
        needs: Iterable[Quantity],
        decisions: Tensor | None = None,
        *,
        reference: Policy | None = None,
    ) -> Evaluation:
        """The wanted quantities of `decisions` `[K]` (all when None), each as `[T]`.

        Distributions are softmax(logits / temperature of the turn); see `hocket.policies.evaluation`.

        Raises:
            HocketError: when values are asked without a value head, exact KL without a reference, or a sequence is
                longer than the model's context.
        """
        wanted = frozenset(needs)
        chosen = torch.arange(batch.decisions) if decisions is None else decisions
        if not wanted & COMPARED:
            return evaluate(self, batch, wanted, chosen, None)
        if not isinstance(reference, RoutedTeachers):
            return evaluate(self, batch, wanted, chosen, comparable(self, reference, wanted))
        routed = [(comparable(self, teacher, wanted), mine) for teacher, mine in reference.routed(batch, chosen)]
        return joined([evaluate(self, batch, wanted, mine, teacher) for teacher, mine in routed], batch)

    def distributions(self, batch: Batch, decisions: Tensor) -> Callable[[Tensor], Tensor]:
        """Whole distributions at `decisions` `[K]`, without gradient: places in it `[M]` to log-probs `[M, V]`."""
        return distributions(self, batch, decisions)

    def final_values(self, batch: Batch) -> Tensor:
        """The value after the last token of each truncated trajectory, `[N]`; 0 elsewhere. No gradient."""
        return final_values(self, batch)

    def mean_states(self, batch: Batch) -> Tensor:
        """Of each turn of this policy the mean of its last hidden states over its tokens, `[U, H]`; NaN for others."""
        return mean_states(self, batch, policy_decisions(batch, self.name))

    # ------------------------------------------------------------ copies on disk and in memory

    def frozen_copy(self) -> CausalLM:
        """A reference: a copy of the weights, or with LoRA the shared base with the adapter switched off."""
        if self.lora:
            clone = CausalLM(self.model, self.tokenizer, name=self.name, adapted=False, precision=self.precision)
            clone.residence = self.residence
        else:
            with self.residence.whole(), without_gradients(self._module):
                model = copy.deepcopy(self.model)
            clone = CausalLM(model.requires_grad_(False), self.tokenizer, name=self.name, precision=self.precision)
        clone.version, clone.token_budget, clone.share_prefixes = self.version, self.token_budget, self.share_prefixes
        clone.checkpointing = self.checkpointing
        return clone

    def snapshot(self) -> CausalLM:
        """A copy that goes on acting as the policy does now and is never trained; of adapters, on the same base."""
        if not self.lora:
            copied = self.frozen_copy()
        else:
            with self.residence.whole(), without_gradients(self._module):
                model = shared_clone(self.model, adapters=False).requires_grad_(False)
            copied = CausalLM(model, self.tokenizer, name=self.name, adapted=self.adapted, precision=self.precision)
            copied.version = self.version
        copied.end_of_turn = self.end_of_turn
        return copied

    def save(self, folder: Path) -> None:
        """Writes an HF model folder with tokenizer, and the value head beside it.

        With LoRA the folder holds the merged model, and the adapter alone is under `adapter/`; where the adapter is
        off, the base alone.
        """
        folder.mkdir(parents=True, exist_ok=True)
        with self.residence.whole():
            with without_progress_bars(), self.applied():
                save_model(self.model, folder, merged_state(self.model) if self.lora else None)
            if self.lora and self.adapted:
                save_adapter(self.model, folder / "adapter")
            if self.value_head is not None:
                self.value_head.save(folder)
        self.tokenizer.save_pretrained(str(folder))
        self._copies.save(folder)

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
                copy_weights(self.model, stored)
            except RuntimeError as error:
                raise ConfigurationError(
                    f"the model in {str(folder)!r} has another shape than policy {self.name!r}; load one saved by it"
                ) from error
        self._copies.load(folder, self.model)
        self._load_value_head(folder)

    def _load_value_head(self, folder: Path) -> None:
        if has_value_head(folder):
            self.require(frozenset({Quantity.VALUE}))
            assert self.value_head is not None
            self.value_head.load(folder)


def read_trained(where: str, dtype: torch.dtype, weights: Storage) -> Any:
    """A model whose weights are trained, stored in `weights`; errors as `read_model`.

    Raises:
        ConfigurationError: also when the weights would be codes.
    """
    if weights == "fp32":
        return read_model(where, dtype)
    if weights != "bf16":
        raise ConfigurationError(
            f"weights = {weights!r} are codes and cannot be trained; add an adapter, or choose bf16"
        )
    model = read_model(where, torch.bfloat16)
    train_in_half(model)
    return model
