"""Hybrid latent reasoning: a language model whose inputs, while it thinks, mix a token with what it might have said.

HRPO (arXiv 2505.18454): after each thought the next input is x = a e + sqrt(1 - a^2) (i h), where e is the embedding of
the token drawn, h the embeddings averaged under the distribution it was drawn from, and a and i are gates. Tokens are
still drawn, so log-probs are those of tokens given the inputs; the h of the rollout are stored and read again when
learning. Continuous inputs do not fit an engine that knows tokens only, so the sampler is here: plain, and for small
models.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from hocket.core.batch import Batch, Level
from hocket.core.columns import InfoColumn
from hocket.core.errors import ConfigurationError, HocketError
from hocket.core.keys import Key, uniforms
from hocket.policies.loading import read_model, without_progress_bars
from hocket.stages import Policy
from hocket.types import Assignment, Evaluation, Quantity, Scenario, Trajectory, Turn

SHARPNESS = 8.0
"""c, the paper's."""

HASTE = 20.0
"""Lambda is stored divided by this, so that Adam moves it so many times faster; the paper gives it its own rate."""

LATENTS = InfoColumn("latents", "The summaries after each decision, [L, H].")
GATE_FILE = "gate.pt"
"""The file of a checkpoint that holds the gates."""

THINKING = InfoColumn("thinking", "Whether the input after each decision was mixed with its summary, [L].")


class LatentGate(nn.Module):
    """The gates: r = sigmoid(W_r e), i = sigmoid(W_i e), a = exp(-c softplus(-Lambda) r), per component.

    Lambda is drawn so that a lies in [`least`, 0.999] where r = 1: mostly tokens at first.
    """

    def __init__(self, width: int, *, key: Key, least: float = 0.99) -> None:
        super().__init__()
        noise = key.torch()
        self.reset, self.entry = (_undrawn(width) for _ in range(2))
        self.decay = nn.Parameter(torch.empty(width))
        with torch.no_grad():
            for layer in (self.reset, self.entry):
                layer.weight.normal_(0.0, width**-0.5, generator=noise)
                layer.bias.zero_()
            first = torch.empty(width).uniform_(least, 0.999, generator=noise)
            # a = first at r = 1: softplus(-Lambda) = -log(first) / c.
            self.decay.copy_(-torch.log(torch.expm1(-first.log() / SHARPNESS)) / HASTE)

    def log_share(self, embedding: Tensor) -> Tensor:
        """log a `[..., H]` of token embeddings `[..., H]`; at most 0."""
        return -SHARPNESS * F.softplus(-HASTE * self.decay) * torch.sigmoid(self.reset(embedding))

    def weights(self, embedding: Tensor) -> tuple[Tensor, Tensor]:
        """a and sqrt(1 - a^2), whose squares sum to 1; exactly 1 and 0 where log a is 0."""
        log_share = self.log_share(embedding)
        rest = -torch.expm1(2 * log_share)
        # The square root has no derivative at 0.
        root = torch.where(rest > 0, rest, torch.ones_like(rest)).sqrt()
        return log_share.exp(), torch.where(rest > 0, root, torch.zeros_like(rest))

    def forward(self, embedding: Tensor, summary: Tensor) -> Tensor:
        """The mixed input of token embeddings and summaries, all `[..., H]`."""
        share, rest = self.weights(embedding)
        return share * embedding + rest * (torch.sigmoid(self.entry(embedding)) * summary)


def _undrawn(width: int) -> nn.Linear:
    """A linear layer whose weights have not been drawn, as torch would from its global generator."""
    return nn.Linear(width, width, device="meta").to_empty(device="cpu")


class LatentModule(nn.Module):
    """All weights: the language model and its gates."""

    def __init__(self, model: nn.Module, gate: LatentGate) -> None:
        super().__init__()
        self.model, self.gate = model, gate


class LatentLM:
    """A causal language model with latent thoughts; implements `hocket.stages.Policy`.

    Attributes:
        marker: the token after which answers are plain; None for none.
        thoughts: decisions at most after which the next input is mixed; 0 is the ordinary language model.
        stops: tokens that end a response. tokenizer: the model's; None where decisions are no words.
    """

    granularity = Level.TRAJECTORY
    latents = True

    def __init__(
        self,
        model: Any,
        *,
        key: Key,
        thoughts: int,
        marker: int | None = None,
        least: float = 0.99,
        lr: float = 1e-3,
        name: str = "policy",
        stops: Sequence[int] = (),
        tokenizer: Any = None,
    ) -> None:
        self.name, self.version, self.default_lr = name, 0, lr
        self.marker, self.thoughts = marker, thoughts
        self.stops, self.tokenizer = tuple(stops), tokenizer
        gate = LatentGate(int(model.config.hidden_size), key=key, least=least)
        self._module = LatentModule(model.eval(), gate)

    @property
    def module(self) -> LatentModule:
        return self._module

    @property
    def gate(self) -> LatentGate:
        """The gates."""
        return self._module.gate

    @property
    def model(self) -> Any:
        """The `transformers` model."""
        return self._module.model

    # ------------------------------------------------------------ inputs

    def embedded(self, tokens: Tensor) -> Tensor:
        """Token embeddings `[..., H]`."""
        found: Tensor = self.model.get_input_embeddings()(tokens)
        return found

    def summarised(self, logp: Tensor) -> Tensor:
        """Embeddings averaged under `logp` `[..., V]` and divided by the norm of the probabilities: `[..., H]`.

        The norm, the released code's, gives the average the length that embeddings have.
        """
        chance = logp.exp()
        table: Tensor = self.model.get_input_embeddings().weight
        return chance @ table / chance.square().sum(-1, keepdim=True).sqrt()

    def thinking(self, tokens: NDArray[np.int64]) -> NDArray[np.bool_]:
        """After which tokens `[..., L]` of a response the next input is mixed: before the marker, and not too late."""
        early = np.broadcast_to(np.arange(tokens.shape[-1]) < self.thoughts, tokens.shape)
        if self.marker is None:
            return early.copy()
        before: NDArray[np.bool_] = np.cumsum(tokens == self.marker, -1) == 0
        return early & before

    def _inputs(self, tokens: Tensor, summary: Tensor, mixed: Tensor) -> Tensor:
        """Inputs `[..., H]`: of tokens alone, or mixed with a summary where `mixed`."""
        plain = self.embedded(tokens)
        return torch.where(mixed[..., None], self.gate(plain, summary), plain)

    # ------------------------------------------------------------ sampling

    def sample(
        self, contexts: Sequence[Sequence[int]], words: NDArray[np.uint64], horizon: int, temperature: float
    ) -> tuple[NDArray[np.int64], NDArray[np.float32], NDArray[np.float32]]:
        """At most `horizon` tokens after R contexts: tokens, log-probs `[R, L]`, summaries `[R, L, H]`.

        Token t of row i is drawn with uniform t of stream `words[i]`; temperature 0 takes the likeliest. Rows go on
        until all have drawn one of `stops`.
        """
        drawn: list[Tensor] = []
        logps: list[Tensor] = []
        summaries: list[Tensor] = []
        lengths = torch.tensor([len(context) for context in contexts])
        before = [[0] * (int(lengths.max()) - len(context)) for context in contexts]
        known = torch.arange(int(lengths.max())) >= (lengths.max() - lengths)[:, None]
        ended = torch.zeros(len(contexts), dtype=torch.bool)
        with torch.inference_mode():
            padded = [[*none, *context] for none, context in zip(before, contexts, strict=True)]
            inputs, cache = self.embedded(torch.tensor(padded)), None
            places = (known.cumsum(-1) - 1).clamp(min=0)
            for place in range(horizon):
                reads = {} if known.all() else {"attention_mask": known.long(), "position_ids": places}
                out = self.model(inputs_embeds=inputs, past_key_values=cache, use_cache=True, **reads)
                cache = out.past_key_values
                logp = torch.log_softmax(out.logits[:, -1].double() / (temperature or 1.0), -1)
                threshold = torch.from_numpy(uniforms(words, np.full(len(words), place, np.uint64)))[:, None]
                mass = logp.exp().cumsum(-1)
                token = (mass < threshold * mass[:, -1:]).sum(-1).clamp(max=logp.shape[-1] - 1)
                token = logp.argmax(-1) if temperature == 0 else token
                drawn.append(token)
                logps.append(logp.gather(1, token[:, None])[:, 0].float())
                summaries.append(self.summarised(logp.float()))
                ended |= torch.isin(token, torch.tensor(self.stops, dtype=torch.long))
                if ended.all():
                    break
                mixed = torch.from_numpy(self.thinking(torch.stack(drawn, 1).numpy())[:, -1])
                inputs = self._inputs(token, summaries[-1], mixed)[:, None]
                known, places = F.pad(known, (0, 1), value=True), (lengths + place)[:, None]
        return torch.stack(drawn, 1).numpy(), torch.stack(logps, 1).numpy(), torch.stack(summaries, 1).numpy()

    # ------------------------------------------------------------ learning

    def require(self, needs: frozenset[Quantity]) -> None:
        if Quantity.VALUE in needs or Quantity.KL_EXACT in needs:
            raise HocketError(
                "a latent policy gives log-probs and entropies; use a recipe without a critic or exact KL"
            )

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
        """Log-probs and entropies given the stored summaries, which get no gradient; see `Policy.evaluate`."""
        chosen = torch.arange(batch.decisions) if decisions is None else decisions
        logits, temperature = self._logits(batch, chosen)
        logp = torch.log_softmax(logits / temperature, -1)

        def scattered(values: Tensor) -> Tensor:
            return torch.zeros(batch.decisions, dtype=values.dtype).index_put((chosen,), values)

        entropy = scattered(-(logp.exp() * logp).sum(-1)) if Quantity.ENTROPY in frozenset(needs) else None
        return Evaluation(logp=scattered(logp.gather(1, batch.action[chosen].long()[:, None])[:, 0]), entropy=entropy)

    def _logits(self, batch: Batch, chosen: Tensor) -> tuple[Tensor, Tensor]:
        """Logits `[K, V]` and temperatures `[K, 1]` of decisions; each trajectory is read once, padded on the right."""
        seen = batch.occurrences
        owner = torch.full((batch.decisions,), -1, dtype=torch.long)
        owner[seen.decision] = seen.trajectory
        turns, index = torch.unique(batch.turn[chosen], return_inverse=True)
        starts = torch.searchsorted(batch.turn, torch.arange(batch.turns))
        lengths = torch.bincount(batch.turn, minlength=batch.turns)
        rows = []
        for turn in turns.tolist():
            first, length = int(starts[turn]), int(lengths[turn])
            prompt = torch.from_numpy(np.asarray(batch.observation[turn], np.int64))
            tokens = batch.action[first : first + length].long()
            trajectory = int(owner[first])
            summary = torch.from_numpy(np.asarray(batch.info[LATENTS.name][trajectory], np.float32))
            mixed = torch.from_numpy(np.asarray(batch.info[THINKING.name][trajectory]))
            rows.append(torch.cat([self.embedded(prompt), self._inputs(tokens, summary, mixed)]))
        width = max(len(row) for row in rows)
        padded = torch.stack([F.pad(row, (0, 0, 0, width - len(row))) for row in rows])
        out = self.model(inputs_embeds=padded, use_cache=False).logits
        prompts = torch.tensor([len(batch.observation[turn]) for turn in turns.tolist()])
        place = prompts[index] - 1 + chosen - starts[batch.turn[chosen]]
        temperature = torch.ones(batch.turns) if batch.temperature is None else batch.temperature
        return out[index, place].float(), temperature[batch.turn[chosen]][:, None]

    def final_values(self, batch: Batch) -> Tensor:
        return torch.zeros(batch.trajectories)

    def frozen_copy(self) -> LatentLM:
        clone = copy.copy(self)
        clone._module = copy.deepcopy(self._module)
        clone._module.requires_grad_(False)
        return clone

    def save(self, folder: Path) -> None:
        """Writes the model as an HF folder, its tokenizer and the gates beside it."""
        folder.mkdir(parents=True, exist_ok=True)
        with without_progress_bars():
            self.model.save_pretrained(str(folder))
        if self.tokenizer is not None:
            self.tokenizer.save_pretrained(str(folder))
        torch.save(self.gate.state_dict(), folder / GATE_FILE)

    def load(self, folder: Path) -> None:
        self.model.load_state_dict(read_model(str(folder), self.model.dtype).state_dict())
        self.load_gate(folder)

    def load_gate(self, folder: Path) -> None:
        """Reads the gates alone."""
        self.gate.load_state_dict(torch.load(folder / GATE_FILE, weights_only=True))


def _numbers(tokens: Sequence[int], context: Sequence[int]) -> str:
    return " ".join(map(str, tokens))


@dataclass(frozen=True)
class LatentPlayer:
    """Answers scenarios with a latent policy, after what `encode` makes of each; a `Player`.

    Responses of one temperature and length are read together. Summaries and where they were used go into the
    trajectory's `info`.

    Attributes:
        horizon: tokens of a response at most; None takes `decoding.max_tokens`. text: of response and context.
    """

    policy: LatentLM
    encode: Callable[[Scenario], Sequence[int]]
    horizon: int | None = None
    text: Callable[[Sequence[int], Sequence[int]], str] = _numbers

    async def play(self, assignments: Sequence[Assignment], *, key: Key) -> list[Trajectory]:
        """Every sample of every assignment, in assignment order, then sample order.

        Raises:
            ConfigurationError: for an answer that is begun already, and for hints.
        """
        rows = [
            (assignment, number)
            for assignment in assignments
            for number in range(assignment.first, assignment.first + assignment.samples)
        ]
        manners: dict[tuple[float, int], list[int]] = {}
        for place, (assignment, _) in enumerate(rows):
            self._check(assignment)
            length = self.horizon or assignment.decoding.max_tokens
            manners.setdefault((assignment.decoding.temperature, length), []).append(place)
        played: list[Trajectory | None] = [None] * len(rows)
        for (temperature, length), places in manners.items():
            for place, trajectory in zip(
                places, self._played([rows[place] for place in places], temperature, length, key), strict=True
            ):
                played[place] = trajectory
        return [trajectory for trajectory in played if trajectory is not None]

    def _check(self, assignment: Assignment) -> None:
        if assignment.prefix or assignment.hint:
            raise ConfigurationError(
                "latent thoughts begin with the question; use no rollout that begins answers or gives hints"
            )

    def _played(
        self, rows: Sequence[tuple[Assignment, int]], temperature: float, length: int, key: Key
    ) -> Iterator[Trajectory]:
        """A response for each assignment and sample number."""
        policy = self.policy
        words = np.array(
            [key.derive(assignment.scenario.id, assignment.source, number).word for assignment, number in rows],
            np.uint64,
        )
        contexts = [list(self.encode(assignment.scenario)) for assignment, _ in rows]
        tokens, logps, summaries = policy.sample(contexts, words, length, temperature)
        mixed = policy.thinking(tokens)
        for row, (assignment, number) in enumerate(rows):
            ends = np.flatnonzero(np.isin(tokens[row], policy.stops))
            places = slice(0, int(ends[0]) + 1 if len(ends) else tokens.shape[1])
            response = tokens[row, places]
            turn = Turn(
                agent="agent",
                policy=policy.name,
                observation=np.array(contexts[row], np.int64),
                action=response,
                logp=logps[row, places],
                version=np.full(len(response), policy.version, np.int64),
                text=self.text(response.tolist(), contexts[row]),
                prompt=assignment.scenario.messages,
                finish="length" if policy.stops and not len(ends) else "stop",
                decoding=assignment.decoding,
            )
            yield Trajectory(
                assignment.scenario,
                [turn],
                sample=number,
                source=assignment.source,
                terminated=turn.finish == "stop",
                truncated=turn.finish != "stop",
                info={LATENTS.name: summaries[row, places], THINKING.name: mixed[row, places]},
            )
