"""`hocket.Engine`: a language model as four calls, for training loops of one's own.

`sample`, `forward_backward`, `step` and `save` are what `hocket train` does in every step, over the same engine, the
same `Problem` (its gradient and its clip) and optimiser. So the log-probs of samples and of learning are the same bits
here too, and the weights after a step are those of `hocket train` from the same samples. A recipe's update calls
`Problem` itself, since it decides how many gradients there are and whether a step is kept, as in a trust region.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from hocket.agents.workflows.chat import Chat
from hocket.core.batch import Batch, Level
from hocket.core.errors import ConfigurationError
from hocket.core.evaluating import evaluate_detached
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.engine.local import LocalEngine
from hocket.engine.requests import Request, Sample
from hocket.policies.lora import save_adapter
from hocket.policies.shapes import text_config
from hocket.train.oom_retry import MemoryRetry, RetryingProblem
from hocket.train.token_losses import SequenceLoss, TokenLoss
from hocket.train.tree import TreeEncoder, load_tree, safetensors_chunks, structure_bytes
from hocket.types import Decoding, Evaluation, Quantity, Scenario, Terms, Trajectory, Turn
from hocket.update.gradient import GradientStep
from hocket.update.problem import Problem

if TYPE_CHECKING:
    from hocket.policies.causal_lm import CausalLM
    from hocket.policies.settings import LoraSettings

STATE, TENSORS = "optimiser.json", "optimiser.safetensors"


@dataclass(frozen=True)
class TokenExample:
    """A sequence to learn from.

    Attributes:
        tokens: the ids that are read, `[L]`. targets: the id that each of them is to predict, `[L]`.
        columns: what the loss reads of each target, `[L]` by name: `weights`; `logprobs` and `advantages`. `weights`
            multiply the other losses, too, if there are any.
        prompt: how many tokens are a prompt, whose own log-probs are not computed.

    Raises:
        ConfigurationError: when lengths differ, or a number is not finite.
    """

    tokens: NDArray[np.int64]
    targets: NDArray[np.int64]
    columns: Mapping[str, NDArray[np.float32]] = field(default_factory=dict)
    prompt: int = 1

    def __post_init__(self) -> None:
        if not len(self.tokens):
            raise ConfigurationError("an example has no tokens")
        if not 1 <= self.prompt <= len(self.tokens):
            raise ConfigurationError(
                f"an example of {len(self.tokens) + 1} tokens has a prompt of {self.prompt}; prompt and answer have at "
                "least one each"
            )
        named: dict[str, NDArray[Any]] = {"targets": self.targets, **self.columns}
        for name, column in named.items():
            if column.shape != (len(self.tokens),):
                raise ConfigurationError(
                    f"an example has {len(self.tokens)} tokens, but {name} is of shape {list(column.shape)}"
                )
        broken = next((name for name, column in self.columns.items() if not np.isfinite(column).all()), None)
        if broken is not None:
            raise ConfigurationError(f"{broken} of an example holds a number that is not finite")

    @staticmethod
    def of(
        prompt: Sequence[int], answer: Sequence[int] | NDArray[np.int64], **columns: ArrayLike | None
    ) -> TokenExample:
        """An answer to a prompt. A column has a number for each token of the answer, or one for all of them.

        Raises:
            ConfigurationError: also when a column is None, as the log-probs of an engine that does not know them.
        """
        absent = next((name for name, column in columns.items() if column is None), None)
        if absent is not None:
            raise ConfigurationError(f"the column {absent!r} is None; sample with an engine that returns log-probs")
        ids = np.asarray([*prompt, *answer], np.int64)
        before = len(prompt) - 1
        filled = {name: np.zeros(len(ids) - 1, np.float32) for name in columns}
        for name, column in columns.items():
            filled[name][before:] = np.asarray(column)
        return TokenExample(ids[:-1], ids[1:], filled, len(prompt))

    @property
    def shifted(self) -> NDArray[np.bool_]:
        """Which targets are the next token that is read, `[L]`; the last is always."""
        return np.append(self.targets[:-1] == self.tokens[1:], True)

    @property
    def counted(self) -> NDArray[np.bool_]:
        """Which targets have a weight or an advantage, or enter the ratio of their example, `[L]`."""
        names = ("weights", "advantages", "sequence_ratio_mask")
        nonzero = [self.columns[name] != 0 for name in names if name in self.columns]
        return np.any(nonzero, axis=0) if nonzero else np.zeros(len(self.tokens), np.bool_)


class PassOutcome(NamedTuple):
    """Of a pass over examples.

    Attributes:
        loss: the sum. logp: the log-prob of every target, `[L]` per example, in nats; 0 where it was not computed, as
            on a prompt.
    """

    loss: float
    logp: list[NDArray[np.float32]]


class TrainingEngine:
    """One language model that samples and learns.

    Attributes:
        policy: the model and its tokenizer. engine: what samples. optimiser: AdamW over the trained weights.
    """

    policy: CausalLM
    engine: LocalEngine

    def __init__(self, policy: CausalLM, *, max_rows: int = 256, beside: TrainingEngine | None = None) -> None:
        """`beside` is an engine whose policy has an adapter on the same base: both then sample in one batch."""
        from hocket.policies.batching import batch_together

        together = beside is not None and batch_together(beside.policy, policy)
        self.policy = policy
        self.engine = LocalEngine(
            policy, max_rows=max_rows, beside=beside.engine if beside is not None and together else None
        )
        self.optimiser = GradientStep().optimiser(policy)
        self._calls = 0
        self._gathered: Problem | None = None
        self._retry = MemoryRetry([policy])

    @staticmethod
    def open(model: str = "nano", *, lora: LoraSettings | None = None, seed: int = 0) -> TrainingEngine:
        """The engine of `nano`, `smollm2`, a GGUF file, a model folder or a hub name; `lora` trains an adapter.

        Raises:
            ConfigurationError: when the model is missing or unfit.
        """
        from hocket.policies.causal_lm import CausalLM
        from hocket.train.models import model_path

        policy = CausalLM.from_pretrained(model_path(model), lora=lora, key=Key.of(seed).derive("policy", "policy"))
        policy.end_of_turn = Chat(policy.tokenizer).stops
        return TrainingEngine(policy)

    @property
    def tokenizer(self) -> Any:
        """The tokenizer of `transformers`."""
        return self.policy.tokenizer

    @cached_property
    def chat(self) -> Chat:
        """The chat template: `chat.opening(messages)` is a prompt, `chat.reply_text(tokens)` an answer's text."""
        return Chat(self.tokenizer)

    # ------------------------------------------------------------ the four verbs

    def sample(
        self,
        prompts: Sequence[Sequence[int]],
        n: int = 1,
        *,
        decoding: Decoding | None = None,
        key: Key | None = None,
    ) -> list[list[Sample]]:
        """`n` answers to each prompt of token ids, all in one batch.

        The same `key` gives the same answers for the same weights. Without one every call draws others.

        Raises:
            ContextFull: when a prompt leaves no room for an answer.
            ConfigurationError: when an id of a prompt is no token.
        """
        for prompt in prompts:
            check_tokens(prompt, self._words)
        if key is None:
            self._calls += 1
            key = Key.of(0).derive("call", self._calls)
        settings = decoding or Decoding()
        requests = [
            Request(tuple(prompt), settings, key.derive(place, number))
            for place, prompt in enumerate(prompts)
            for number in range(n)
        ]
        samples = self.engine.sample(requests)
        return [samples[place * n : (place + 1) * n] for place in range(len(prompts))]

    def forward(self, examples: Sequence[TokenExample], loss: TokenLoss | SequenceLoss | None = None) -> PassOutcome:
        """The loss and the log-probs of all targets, without a gradient."""
        problem = self._problem(examples, loss)
        batch = problem.batch
        live = problem.live(batch)
        current = self._retry(lambda: evaluate_detached(self.policy, batch, {Quantity.LOGP}, live))
        with torch.no_grad():
            terms = problem.loss_terms(current, batch)
        total = float(sum(float(term.total()) for term in terms))
        return PassOutcome(total, _split(current.logp, examples))

    def forward_backward(self, examples: Sequence[TokenExample], loss: TokenLoss | SequenceLoss) -> PassOutcome:
        """Adds the gradient of a loss to what earlier calls have gathered since the last `step`.

        A loss of whole examples is computed once; a pass then goes over the examples in parts that fit into memory. A
        call that fails adds nothing.

        Raises:
            ConfigurationError: when an example lacks a column, or a counted target is not the next token.
        """
        problem = self._problem(examples, loss)
        earlier = [(weight, weight.grad) for weight in self._weights()]
        try:
            metrics = problem.gradient()
        except BaseException:
            for weight, gathered in earlier:
                weight.grad = gathered
            raise
        for weight, gathered in earlier:
            if gathered is not None:
                weight.grad = gathered if weight.grad is None else gathered + weight.grad
        self._gathered = problem
        assert problem.first is not None
        decisions, current = problem.first
        logp = torch.zeros(problem.batch.decisions)
        logp[decisions] = current.logp.detach()[decisions].float()
        return PassOutcome(metrics["loss"], _split(logp, examples))

    def step(
        self,
        lr: float | None = None,
        *,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        clip_norm: float | None = 1.0,
    ) -> dict[str, float]:
        """One step of AdamW from the gathered gradient, which is then dropped; `lr` None is the model's own.

        Returns:
            `gradient/norm` before clipping, and `update/skipped`: 1 where it was not finite and nothing changed.

        Raises:
            ConfigurationError: when no gradient was gathered, or a setting is out of range.
        """
        chosen = self.policy.default_lr if lr is None else lr
        if not all(0 <= value < math.inf for value in (chosen, eps, weight_decay)) or not all(
            0 <= b < 1 for b in betas
        ):
            raise ConfigurationError(
                f"lr = {chosen}, eps = {eps} and weight_decay = {weight_decay} must be at least 0, and betas = {betas} "
                "at least 0 and below 1"
            )
        if self._gathered is None or all(weight.grad is None for weight in self._weights()):
            raise ConfigurationError("there is no gradient to step with; call forward_backward first")
        norm = self._gathered.clip(clip_norm)
        finite = math.isfinite(norm)
        if finite:
            self.optimiser.param_groups[0].update(lr=chosen, betas=betas, eps=eps, weight_decay=weight_decay)
            self.optimiser.step()
            self.policy.version += 1
        self._drop_gradient()
        return {"gradient/norm": norm, "update/skipped": float(not finite)}

    def save(self, folder: str | Path) -> Path:
        """Writes what training changes: the adapter or the model, and the optimiser's state beside it."""
        place = Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        if self.policy.lora:
            save_adapter(self.policy.model, place / "adapter")
        else:
            self.policy.save(place)
        encoder = TreeEncoder()
        (place / STATE).write_bytes(structure_bytes(encoder.encode(self.optimiser.state_dict())))
        with (place / TENSORS).open("wb") as file:
            for chunk in safetensors_chunks(encoder.tensors):
                file.write(chunk)
        return place

    # ------------------------------------------------------------ beside them

    def load(self, folder: str | Path, *, optimiser: bool = True) -> None:
        """Reads back what `save` wrote, with the optimiser's state or without.

        Raises:
            ConfigurationError: when the folder is missing, incomplete or of another model.
        """
        place = Path(folder)
        self.policy.load(place)
        self.policy.version += 1
        self._drop_gradient()
        if optimiser:
            if not (place / STATE).is_file():
                raise ConfigurationError(f"{place} holds weights but no state of an optimiser; load it without")
            self.optimiser.load_state_dict(load_tree(place / STATE, place / TENSORS))
        else:
            self.optimiser = GradientStep().optimiser(self.policy)

    def export(self, folder: str | Path) -> Path:
        """Writes a model folder of `transformers`, an adapter merged into its base."""
        self.policy.save(Path(folder))
        return Path(folder)

    def logp(self, sequences: Sequence[Sequence[int]]) -> list[NDArray[np.float32]]:
        """The log-prob of every token of a sequence after its first, `[L - 1]` each, in nats."""
        examples = [TokenExample(np.asarray(ids[:-1], np.int64), np.asarray(ids[1:], np.int64)) for ids in sequences]
        return self.forward(examples).logp

    @property
    def _words(self) -> int:
        """Tokens that the model can read and write; a tokenizer may name fewer."""
        return int(text_config(self.policy.model.config).vocab_size)

    def _weights(self) -> list[Tensor]:
        return [weight for group in self.optimiser.param_groups for weight in group["params"]]

    def _drop_gradient(self) -> None:
        self.optimiser.zero_grad(set_to_none=True)
        self._gathered = None

    def _problem(self, examples: Sequence[TokenExample], loss: TokenLoss | SequenceLoss | None) -> Problem:
        if not examples:
            raise ConfigurationError("there are no examples to learn from")
        reads: tuple[str, ...] = getattr(loss, "reads", ())
        for example in examples:
            _check(example, reads, self._words, self.policy.context_length)
        batch = pack([_trajectory(example, self.policy.name, n) for n, example in enumerate(examples)])
        columns = {name: _joined([e.columns[name][e.prompt - 1 :] for e in examples]) for name in reads}
        counts = [len(example.tokens) - example.prompt + 1 for example in examples]
        columns["example"] = torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts))
        weights = [e.columns.get("weights", np.ones_like(e.tokens, np.float32))[e.prompt - 1 :] for e in examples]
        weight = torch.ones(1) if "weights" in reads else _joined(weights)

        def terms(current: Evaluation, batch: Batch) -> list[Terms]:
            if loss is None:
                return []
            if reads:
                per_token = cast(TokenLoss, loss)(current.logp, columns)
                return [Terms(per_token, (batch.occurrences.weight * weight).to(per_token.dtype), couples)]
            total = cast(SequenceLoss, loss)(_parts(current.logp, examples))
            return [Terms(total.reshape(1), torch.ones(1), Level.BATCH)]

        couples = cast(TokenLoss, loss).couples if reads else Level.BATCH
        return RetryingProblem(
            batch=batch,
            policy=self.policy,
            optimiser=self.optimiser,
            loss_terms=terms,
            needs=frozenset({Quantity.LOGP}),
            couples=couples,
            idle_without_advantage=False,
            retry=self._retry,
        )


Engine = TrainingEngine
"""The name under which `hocket` offers it."""


def check_tokens(ids: Sequence[int], vocabulary: int) -> None:
    """Raises `ConfigurationError` for an id that is none of the vocabulary's."""
    stray = next((token for token in ids if not 0 <= token < vocabulary), None)
    if stray is not None:
        raise ConfigurationError(f"{stray} is no token: the vocabulary has {vocabulary:,}")


def _check(example: TokenExample, reads: Sequence[str], vocabulary: int, context: int | None) -> None:
    missing = next((name for name in reads if name not in example.columns), None)
    if missing is not None:
        raise ConfigurationError(f"this loss reads the column {missing!r}, which an example lacks")
    if example.counted[: example.prompt - 1].any():
        raise ConfigurationError("a target inside the prompt of an example counts; shorten the prompt")
    stray = example.counted & ~example.shifted
    if stray.any():
        place = int(np.flatnonzero(stray)[0])
        raise ConfigurationError(
            f"target {int(example.targets[place])} at position {place} counts, but the next token that is read is "
            f"{int(example.tokens[place + 1])}; targets are the tokens moved by one"
        )
    for ids in (example.tokens, example.targets):
        check_tokens((int(ids.min()), int(ids.max())), vocabulary)
    if context is not None and len(example.tokens) > context:
        raise ConfigurationError(f"an example has {len(example.tokens)} tokens, and the context {context}")


def _trajectory(example: TokenExample, policy: str, number: int) -> Trajectory:
    """One turn that begins after the prompt. What is read but no target is forced, and not evaluated."""
    start = example.prompt
    turn = Turn(
        agent=policy,
        policy=policy,
        observation=example.tokens[:start],
        action=np.append(example.tokens[start:], example.targets[-1:]),
        logp=np.zeros(len(example.tokens) - start + 1, np.float32),
        forced=~example.shifted[start - 1 :],
    )
    return Trajectory(scenario=Scenario(str(number), ""), turns=[turn], scores={})


def _joined(columns: Sequence[NDArray[np.float32]]) -> Tensor:
    return torch.from_numpy(np.concatenate(columns))


def _parts(logp: Tensor, examples: Sequence[TokenExample]) -> list[Tensor]:
    """Log-probs of all targets, `[L]` per example; 0 on the prompts."""
    counts = [len(example.tokens) - example.prompt + 1 for example in examples]
    return [
        torch.nn.functional.pad(part, (example.prompt - 1, 0))
        for part, example in zip(torch.split(logp, counts), examples, strict=True)
    ]


def _split(logp: Tensor, examples: Sequence[TokenExample]) -> list[NDArray[np.float32]]:
    return [part.detach().numpy().astype(np.float32) for part in _parts(logp, examples)]
