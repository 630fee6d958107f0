"""The cases of `device.py`: models, the arithmetic and memory that they need, and what others have published."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

GIB = 2**30
DEVICES = {"H100": (9.9e14, 3.35e12), "H200": (9.9e14, 4.8e12), "A100": (3.12e14, 2.0e12)}
"""Dense bf16 operations and bytes of memory a second, by what a device's name contains (their makers' data sheets)."""
REFERENCE = "H100"
"""The device that times are predicted for where none is there."""
SHARE = 0.4
"""Of the rate, what a learner's pass is predicted to reach, and of the bandwidth, what sampling is."""


@dataclass(frozen=True)
class Model:
    """A decoder of Qwen's form with random weights."""

    name: str
    kind: str
    hidden: int
    layers: int
    heads: int
    shared: int
    size: int
    inner: int
    words: int

    def config(self) -> Any:
        """Its configuration."""
        from transformers import Qwen2Config, Qwen3Config

        return {"qwen2": Qwen2Config, "qwen3": Qwen3Config}[self.kind](
            vocab_size=self.words,
            hidden_size=self.hidden,
            intermediate_size=self.inner,
            num_hidden_layers=self.layers,
            num_attention_heads=self.heads,
            num_key_value_heads=self.shared,
            head_dim=self.size,
            max_position_embeddings=131_072,
            tie_word_embeddings=True,
            pad_token_id=0,
            eos_token_id=1,
            bos_token_id=None,
        )

    @property
    def matrices(self) -> int:
        """Weights of the layers' matrices."""
        attention = self.hidden * self.size * (2 * self.heads + 2 * self.shared)
        return self.layers * (attention + 3 * self.hidden * self.inner)

    @property
    def head(self) -> int:
        """Weights of the head, which are the embedding's."""
        return self.hidden * self.words

    def attention(self, tokens: float, context: float) -> float:
        """Operations of attention forward when `tokens` tokens each see `context` others."""
        return 4.0 * self.layers * self.heads * self.size * tokens * context

    def cached(self, tokens: float) -> float:
        """Bytes of keys and values in bf16."""
        return 2.0 * 2 * self.layers * self.shared * self.size * tokens


SMALL = Model("Qwen3-0.6B", "qwen3", 1024, 28, 16, 8, 128, 3072, 151_936)
MIDDLE = Model("Qwen2.5-1.5B", "qwen2", 1536, 28, 12, 2, 128, 8960, 151_936)
LARGE = Model("Qwen3-4B", "qwen3", 2560, 36, 32, 8, 128, 9728, 151_936)
TINY = Model("tiny", "qwen3", 64, 2, 4, 2, 16, 96, 128)


@dataclass(frozen=True)
class Count:
    """What a case needs at least.

    Attributes:
        operations: of products, attention included. traffic: bytes that pass through memory at least.
        seconds: predicted on the reference device. memory: bytes held at the peak.
    """

    operations: float
    traffic: float
    seconds: float
    memory: float


@dataclass(frozen=True)
class TrainerCase:
    """Steps of the learner alone on one sequence.

    Attributes:
        lora: the rank of an adapter, which alone is trained; 0 trains all weights. published: figures of prime-rl.
    """

    model: Model
    tokens: int
    lora: int = 0
    published: str = ""

    def small(self) -> TrainerCase:
        """The same on the twin."""
        return replace(self, model=TINY, tokens=96, lora=min(self.lora, 2))

    def count(self, rates: tuple[float, float]) -> Count:
        """Products forward once and backward twice (once where weights stand still), causal attention thrice."""
        model, passes = self.model, 2 if self.lora else 3
        products = 2.0 * self.tokens * (model.matrices + model.head) * passes
        operations = products + 3 * model.attention(self.tokens, self.tokens / 2)
        weights = model.matrices + model.head
        # Weights and gradients are read and written, Adam's moments as well; states cross memory some 40 times a layer.
        states = 40.0 * 2 * self.tokens * model.hidden * model.layers
        traffic = weights * (6.0 if self.lora else 34.0) + states
        seconds = max(operations / (SHARE * rates[0]), traffic / rates[1])
        return Count(operations, traffic, seconds, self._memory())

    def _memory(self) -> float:
        from hocket.policies.settings import LoraSettings
        from hocket.train.footprint import TrainingPlan, footprint, outlined

        settings = LoraSettings(rank=self.lora) if self.lora else None
        plan = TrainingPlan(
            lora=settings,
            precision="bf16",
            weights="bf16" if self.lora else "fp32",
            prompts=1,
            samples=1,
            context=self.tokens,
            prompt=1,
            checkpointing=True,
            rows=0,
            device="cuda",
        )
        return footprint(outlined(self.model.config(), settings), plan).total


@dataclass(frozen=True)
class SamplingCase:
    """Answers of `new` tokens to an eighth as many prompts of `prompt` tokens."""

    model: Model
    rows: int
    prompt: int = 512
    new: int = 256

    def small(self) -> SamplingCase:
        """The same on the twin."""
        return replace(self, model=TINY, rows=max(2, self.rows // 64), prompt=20, new=6)

    def count(self, rates: tuple[float, float]) -> Count:
        """Weights are read once a token step in bf16, keys and values of all rows as well; the head is fp32."""
        model = self.model
        context = self.prompt + self.new / 2
        drawn = float(self.rows * self.new)
        read = self.prompt * max(1, self.rows // 8)
        operations = 2.0 * (drawn + read) * model.matrices + 2.0 * drawn * model.head
        operations += model.attention(drawn, context) + model.attention(read, self.prompt / 2)
        traffic = self.new * (2.0 * model.matrices + 4.0 * model.head + model.cached(self.rows * context))
        seconds = max(operations / (SHARE * rates[0]), traffic / (SHARE * rates[1]))
        weights = 6.0 * model.matrices + 4.0 * model.head
        return Count(
            operations, traffic, seconds, weights + model.cached(drawn + read) + 12.0 * self.rows * model.words
        )


PRIME = "prime-rl: {} tokens/s, {} %"
TRAINER = {
    "trainer 0.6B 16k": TrainerCase(SMALL, 16_384, published=PRIME.format("11,896", "11.1") + ", 12.5 GiB"),
    "trainer 0.6B 65k": TrainerCase(SMALL, 65_536, published=PRIME.format("10,147", "26.8") + ", 19.6 GiB"),
    "trainer 4B LoRA 16k": TrainerCase(LARGE, 16_384, 16, PRIME.format("6,229", "21.7")),
    "trainer 4B LoRA 65k": TrainerCase(LARGE, 65_536, 16, PRIME.format("4,164", "37.4")),
}
SAMPLING = {f"sampling 1.5B {rows} rows": SamplingCase(MIDDLE, rows) for rows in (64, 256, 1024)}
DEPTHS = (512, 4096, 16_384, 32_768)
"""Tokens of the contexts after which sampler and learner are compared."""


def rates_of(name: str) -> tuple[float, float]:
    """Operations and bytes a second of a device; those of the reference where it is not known."""
    return next((rates for part, rates in DEVICES.items() if part in name), DEVICES[REFERENCE])


def table(rows: Sequence[Sequence[str]]) -> str:
    """Rows as Markdown, the first of them the heads."""
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]])
