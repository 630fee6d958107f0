"""A scorer: a causal language model whose head gives K numbers in place of the next token; it judges, and never writes.

What it says of a decision is read at the decision's own token, so that it knows what was decided. On disk it is a
`transformers` model for sequence classification, which gives the same numbers after the last token of a sequence.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from hocket.core.batch import Batch
from hocket.core.errors import ConfigurationError, HocketError
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.policies.copies import without_gradients
from hocket.policies.family import Precision
from hocket.policies.heads import rowwise
from hocket.policies.language_model import LanguageModel
from hocket.policies.loading import (
    check_tokens,
    is_classifier,
    read_classifier,
    read_config,
    read_model,
    read_tokenizer,
    without_progress_bars,
)
from hocket.policies.lora import add_adapter, load_adapter, merged_state, save_adapter
from hocket.policies.sequences import Row, rows_after, targets
from hocket.policies.settings import LoraSettings
from hocket.policies.templates import TemplateSettings
from hocket.policies.vision import vision_of
from hocket.stages import Policy
from hocket.types import Evaluation, Quantity, Trajectory


class Scorer(LanguageModel):
    """K scores over a causal trunk, `Quantity.SCORE` alone; implements `hocket.stages.Policy`.

    Its `model` is one for sequence classification: trunk and `score`, a linear head without the next token's logits.

    Attributes:
        decides: it takes no decisions, so it has no log-probs.
    """

    decides: ClassVar[bool] = False

    @classmethod
    def from_pretrained(
        cls,
        path_or_name: str | Path,
        *,
        name: str = "policy",
        outputs: int = 1,
        lora: LoraSettings | None = None,
        dtype: torch.dtype = torch.float32,
        precision: Precision = "fp32",
        chat_template: str | TemplateSettings | None = None,
        key: Key,
    ) -> Scorer:
        """A saved scorer, or a new one over the trunk of a language model.

        A new head is drawn from N(0, 1/(H + 1)) (Stiennon et al. 2020, arXiv 2009.01325, appendix), so that scores
        differ from the start and the trunk learns from the first step.

        Args:
            path_or_name: a local folder, or a hub name, looked up in the local cache first.
            name: the policy's name in records.
            outputs: K of a new head; a saved scorer keeps its own, which must be at least as many.
            lora: trains an adapter and the head instead of all weights.
            dtype: of the weights.
            precision: what layers multiply in.
            chat_template: text or file that replaces the tokenizer's own template, or settings of it.
            key: what a new head and the adapter's first weights are drawn from; nothing else is drawn.

        Raises:
            ConfigurationError: when the model or its tokenizer is missing or unfit; the message says what to do.
        """
        where = str(path_or_name)
        tokenizer = read_tokenizer(where, chat_template)
        check_tokens(read_config(where), tokenizer, where)
        if saved(where):
            model = read_classifier(where, dtype)
            if model.config.num_labels < outputs:
                raise ConfigurationError(
                    f"scorer {where!r} has {model.config.num_labels} outputs, and {outputs} are read; choose another"
                )
        else:
            model = read_model(where, dtype)
            if vision_of(model) is not None:
                raise ConfigurationError(
                    f"model {where!r} reads pictures or sounds, and scorers words alone; choose another"
                )
            model = over_trunk(model, outputs, key.derive("score"))
        if lora is not None:
            add_adapter(model.base_model, lora, key)
            model.peft_config = model.base_model.peft_config
        return cls(model, tokenizer, name=name, precision=precision)

    @property
    def outputs(self) -> int:
        """K."""
        return int(self.model.score.out_features)

    @property
    def _plain(self) -> bool:
        return True  # Of every architecture the head reads the trunk's last states.

    def _for_head(self, states: Tensor) -> Tensor:
        return states

    @property
    def default_lr(self) -> float:
        """Five times that of a policy of its size: what it learns from are labels, not noisy credit."""
        return 5 * super().default_lr

    def parameter_groups(self) -> dict[str, list[nn.Parameter]]:
        """Trainable parameters by part: `policy`, the trunk, and `score`, the head."""
        trunk = [parameter for parameter in self.model.base_model.parameters() if parameter.requires_grad]
        return {"policy": trunk, "score": list(self.model.score.parameters())}

    # ------------------------------------------------------------ what it says

    def require(self, needs: frozenset[Quantity]) -> None:
        """Nothing to add.

        Raises:
            ConfigurationError: for anything but scores.
        """
        other = sorted(needs - {Quantity.SCORE})
        if other:
            raise ConfigurationError(
                f"policy {self.name!r} is a scorer and gives no {other[0]}; train a language model"
            )

    def chunks(self, batch: Batch, decisions: Tensor) -> list[Tensor]:
        """Splits decisions `[K]` so that what each part reads stays within `token_budget`."""
        return [targets(part) for part in self.parts(rows_after(batch, decisions))]

    def evaluate(
        self,
        batch: Batch,
        needs: Iterable[Quantity],
        decisions: Tensor | None = None,
        *,
        reference: Policy | None = None,
    ) -> Evaluation:
        """Scores `[T, K]` read after `decisions` (all when None), 0 elsewhere; log-probs are 0.

        Raises:
            HocketError: for anything but scores, or when a sequence is longer than the model's context.
        """
        other = sorted(frozenset(needs) - {Quantity.SCORE})
        if other:
            raise HocketError(f"policy {self.name!r} is a scorer and gives no {other[0]}")
        rows = rows_after(batch, torch.arange(batch.decisions) if decisions is None else decisions)
        score = torch.zeros(batch.decisions, self.outputs)
        if rows:
            self.check_lengths(rows)
            parts = self.parts(rows)
            scores = torch.cat([self._scored(part) for part in parts])
            score = score.index_copy(0, torch.cat([targets(part) for part in parts]), scores.to(score.device))
        return Evaluation(logp=torch.zeros(batch.decisions), score=score)

    def _scored(self, rows: list[Row]) -> Tensor:
        with self.residence.around():
            with self.applied():
                states, _ = self.features(rows)
            return rowwise(self.model.score, states).float()

    def scores(self, trajectories: Sequence[Trajectory]) -> Tensor:
        """Scores after the last decision of each trajectory, `[N, K]`, without gradient; NaN where nothing was decided.

        Token ids are read as recorded, and what trajectories have in common is computed once.
        """
        scores = torch.full((len(trajectories), self.outputs), torch.nan)
        if not trajectories:
            return scores
        batch = pack(trajectories)
        last = batch.last()
        ended = last >= 0
        decisions = batch.occurrences.decision[last[ended]]
        with torch.no_grad():
            for chunk in self.chunks(batch, torch.unique(decisions)):
                score = self.evaluate(batch, {Quantity.SCORE}, chunk).get(Quantity.SCORE)
                in_chunk = torch.isin(decisions, chunk)
                scores[torch.nonzero(ended).flatten()[in_chunk]] = score[decisions[in_chunk]]
        return scores

    def final_values(self, batch: Batch) -> Tensor:
        """None: a scorer has no value function."""
        raise HocketError(f"policy {self.name!r} is a scorer and gives no value")

    # ------------------------------------------------------------ copies on disk and in memory

    def frozen_copy(self) -> Scorer:
        """A copy of the weights that is never trained."""
        with self.residence.whole(), without_gradients(self.module):
            model = copy.deepcopy(self.model).requires_grad_(False)
        clone = Scorer(model, self.tokenizer, name=self.name, adapted=self.adapted, precision=self.precision)
        clone.version, clone.token_budget, clone.share_prefixes = self.version, self.token_budget, self.share_prefixes
        clone.checkpointing, clone.end_of_turn = self.checkpointing, self.end_of_turn
        return clone

    def save(self, folder: Path) -> None:
        """Writes an HF model folder for sequence classification, with tokenizer; the adapter alone under `adapter/`.

        `transformers` scores the last token that is not padding, so the folder names a padding token that no turn ends
        with, in the configuration and in the tokenizer.
        """
        folder.mkdir(parents=True, exist_ok=True)
        tokenizer = copy.deepcopy(self.tokenizer)
        tokenizer.pad_token = padding(tokenizer, self.stop_ids)
        self.model.config.pad_token_id = tokenizer.pad_token_id
        with without_progress_bars():
            self.model.save_pretrained(str(folder), state_dict=merged_state(self.model) if self.lora else None)
        if self.lora:
            save_adapter(self.model, folder / "adapter")
        tokenizer.save_pretrained(str(folder))

    def load(self, folder: Path) -> None:
        """Restores exactly what `save` wrote: all weights, or with LoRA the adapter and the head.

        Raises:
            ConfigurationError: when the folder is missing, incomplete, or of another model.
        """
        stored = read_classifier(str(folder), next(self.model.parameters()).dtype)
        try:
            if self.lora:
                load_adapter(self.model, folder / "adapter")
                self.model.score.load_state_dict(stored.score.state_dict())
            else:
                self.model.load_state_dict(stored.state_dict())
        except RuntimeError as error:
            raise ConfigurationError(
                f"the model in {str(folder)!r} has another shape than policy {self.name!r}; load one saved by it"
            ) from error


def saved(where: str) -> bool:
    """Whether a scorer is at a local folder or of a hub name; errors as `read_config`."""
    return is_classifier(read_config(where))


def over_trunk(model: Any, outputs: int, key: Key) -> Any:
    """A model for sequence classification on the trunk of a causal language model, its head drawn from `key`.

    Raises:
        ConfigurationError: when `transformers` has none of this architecture.
    """
    from transformers import AutoModelForSequenceClassification

    config = copy.deepcopy(model.config)
    config.num_labels = outputs
    try:
        with torch.device("meta"):  # Of no weight is a value made: the trunk is the model's own.
            scorer = AutoModelForSequenceClassification.from_config(config)
    except ValueError as error:
        raise ConfigurationError(
            f"transformers has no scorer of {config.model_type} models; use a Llama or Qwen"
        ) from error
    if not isinstance(getattr(scorer, "score", None), nn.Linear):
        raise ConfigurationError(f"the scorer of {config.model_type} models has no linear head; use a Llama or Qwen")
    setattr(scorer, scorer.base_model_prefix, model.base_model)
    width = scorer.score.in_features
    weight = torch.randn(outputs, width, generator=key.torch()) * (width + 1) ** -0.5
    scorer.score = nn.Linear(width, outputs, bias=False, device="meta").to_empty(device="cpu").to(model.dtype)
    with torch.no_grad():
        scorer.score.weight.copy_(weight)
    scorer.score.to(model.device)
    return scorer.eval()


def padding(tokenizer: Any, ends: Collection[int]) -> str | None:
    """A padding token that no turn ends with: the tokenizer's own, else a special token that its template never writes.

    None where there is none; then `transformers` refuses to score several sequences at once, and no score is wrong.
    """
    if tokenizer.pad_token_id is not None and tokenizer.pad_token_id not in ends:
        return str(tokenizer.pad_token)
    template = str(tokenizer.chat_template)
    for number, token in sorted(tokenizer.added_tokens_decoder.items()):
        if token.special and number not in ends and str(token) not in template:
            return str(token)
    return None
