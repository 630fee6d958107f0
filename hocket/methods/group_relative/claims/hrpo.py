"""What hrpo claims."""

from __future__ import annotations

import asyncio
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from transformers import Qwen3Config

from hocket.core.batch import Batch
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.world import World
from hocket.nano.model import new_model
from hocket.policies.latent import LATENTS, THINKING, LatentLM, LatentPlayer
from hocket.recipe import Recipe
from hocket.recipes import find
from hocket.train.learner import Learner
from hocket.train.ledger import Ledger
from hocket.train.loop import Parts, train_step
from hocket.types import Assignment, Decoding, Quantity, Scenario

claim = Claims("hrpo", "arXiv 2505.18454")


SEEDS = (0, 1, 2, 3, 4)
SYMBOLS, HOPS, THOUGHTS = 3, 2, 2
AFTER = (2, 0, 1)
"""Where a hop leads from each symbol."""


def _policy(seed: int, thoughts: int, *, marker: int | None = None, least: float = 0.99, lr: float = 3e-3) -> LatentLM:
    """A new model of two layers; its first weights depend on the seed alone."""
    config = Qwen3Config(
        vocab_size=SYMBOLS + HOPS + 1,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        head_dim=16,
        max_position_embeddings=32,
        tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "rope_theta": 10_000.0},
        dtype="float32",
    )
    key = Key.of(seed)
    model = new_model(config, key.derive("model").torch())
    return LatentLM(model, key=key.derive("gate"), thoughts=thoughts, marker=marker, least=least, lr=lr)


def _hops() -> World:
    """Which symbol is so many hops from this one? Two thoughts, then the answer."""
    return World(questions=SYMBOLS * HOPS, tokens=SYMBOLS + HOPS + 1, horizon=THOUGHTS + 1, reward=_right)


def _right(question: int, answer: Sequence[int]) -> float:
    symbol = question // HOPS
    for _ in range(question % HOPS + 1):
        symbol = AFTER[symbol]
    return float(answer[-1] == symbol)


def _asked(scenario: Scenario) -> list[int]:
    question = int(scenario.metadata["question"])
    return [SYMBOLS + HOPS, question // HOPS, SYMBOLS + question % HOPS]


def _batch(policy: LatentLM, horizon: int = 6) -> Batch:
    world = _hops()
    asked = [Assignment(world.scenario("train", n), samples=3, decoding=Decoding(temperature=0.8)) for n in range(3)]
    return pack(asyncio.run(LatentPlayer(policy, _asked, horizon).play(asked, key=Key.of(5))))


@claim("a = 1 gives the ordinary language model's log-probs exactly.")
def _plain_at_one() -> Finding:
    policy = _policy(0, 6)
    with torch.no_grad():
        policy.gate.decay.fill_(1e4)
    batch = _batch(policy)
    with torch.no_grad():
        latent = policy.evaluate(batch, {Quantity.ENTROPY})
    policy.thoughts = 0
    mixed = [np.zeros_like(column) for column in batch.info[THINKING.name]]
    plain = policy.evaluate(batch.but(info={**batch.info, THINKING.name: mixed}), {Quantity.ENTROPY})
    tokens = torch.cat([torch.from_numpy(np.asarray(batch.observation[0])), batch.action[:6]])[None]
    direct = torch.log_softmax(policy.model(input_ids=tokens).logits[0, 2:-1] / 0.8, -1)
    direct = direct.gather(1, batch.action[:6, None])[:, 0]
    gaps = [
        float((latent.logp - plain.logp).detach().abs().max()),
        float((latent.get(Quantity.ENTROPY) - plain.get(Quantity.ENTROPY)).detach().abs().max()),
        float((latent.logp[:6] - direct).detach().abs().max()),
    ]
    thought = sum(int(np.asarray(column).sum()) for column in batch.info[THINKING.name])
    return Finding(
        max(gaps[:2]) == 0 and gaps[2] < 1e-5,
        f"a = 1, {thought} thoughts: log-probs and entropies off the ordinary model's by {max(gaps[:2]):.1g}, off its "
        f"own forward pass by {gaps[2]:.1e}",
    )


@claim("The squared mix weights sum to 1.")
def _squares() -> Finding:
    policy, gaps, shares = _policy(1, 4, least=0.9), [], []
    noise = Key.of(6).torch()
    for scale in (0.0, 1.0, 30.0):
        share, rest = policy.gate.weights(scale * torch.randn(64, 32, generator=noise))
        gaps.append(float((share.double().square() + rest.double().square() - 1).detach().abs().max()))
        shares += [float(share.detach().min()), float(share.detach().max())]
    return Finding(
        max(gaps) < 1e-6 and min(shares) >= 0.9 - 1e-6 and max(shares) <= 1,
        f"a^2 + (1 - a^2) off 1 by {max(gaps):.1e} at most; a between {min(shares):.3f} and {max(shares):.3f} at first",
    )


@claim("Log-probs from stored latents match the rollout's to 1e-5.")
def _recomputed() -> Finding:
    gaps, moved = [], math.inf
    for seed, marker in ((0, None), (1, 2)):
        policy = _policy(seed, 5, marker=marker, least=0.5)
        batch = _batch(policy)
        now = policy.evaluate(batch, {Quantity.LOGP})
        gaps.append(float((now.logp - batch.logp["behaviour"].values).detach().abs().max()))
        zeros = [np.zeros_like(column) for column in batch.info[LATENTS.name]]
        without = policy.evaluate(batch.but(info={**batch.info, LATENTS.name: zeros}), {Quantity.LOGP})
        moved = min(moved, float((without.logp - now.logp).detach().abs().max()))
    return Finding(
        max(gaps) < 1e-5 and moved > 1e-3,
        f"log-probs from stored summaries off the rollout's by {max(gaps):.1e}; with zeros instead by {moved:.3f}",
    )


@claim("After the answer marker inputs are plain.")
def _plain_after_the_marker() -> Finding:
    policy = _policy(2, 6, marker=2)
    batch, right, seen = _batch(policy), True, 0
    tokens = batch.action.reshape(-1, 6).numpy()
    for row, column in zip(tokens, batch.info[THINKING.name], strict=True):
        at = int(np.argmax(row == 2)) if (row == 2).any() else 6
        right &= np.asarray(column).tolist() == [place < at for place in range(6)]
        seen += at < 6
    return Finding(right and seen > 0, f"{seen} of {len(tokens)} responses have a marker; inputs from it on are plain")


@dataclass
class _Trained:
    """A run's exact-match rate at its end (mean over its last steps), and the mean of a before and after."""

    success: float
    curve: float
    before: float
    after: float


def _trained(seed: int, thoughts: int, steps: int = 40) -> _Trained:
    policy, world = _policy(seed, thoughts, least=0.9, lr=6e-3), _hops()
    recipe: Recipe = find("hrpo").but({"curriculum.prompts": world.questions, "rollout.samples": 8})
    learner = Learner(policy, recipe, total_steps=steps)
    parts = Parts(
        task=world,
        player=LatentPlayer(policy, _asked, THOUGHTS + 1),
        rewards=world.rewards,
        learners={"policy": learner},
        decoding=Decoding(max_tokens=THOUGHTS + 1),
        key=Key.of(seed),
        ledger=Ledger(),
    )
    before = _openness(policy)
    rewards = [asyncio.run(train_step(parts, step + 1)).metrics["reward/mean"] for step in range(steps)]
    return _Trained(statistics.mean(rewards[-10:]), statistics.mean(rewards), before, _openness(policy))


def _openness(policy: LatentLM) -> float:
    """The mean of a over tokens and components."""
    with torch.no_grad():
        return float(policy.gate.weights(policy.embedded(torch.arange(SYMBOLS + HOPS + 1)))[0].mean())


@claim("On multi-hop questions it matches token-only GRPO within noise, and the mean of a moves.", slow=True)
def _toy() -> Finding:
    hybrid = [_trained(seed, THOUGHTS) for seed in SEEDS]
    tokens = [_trained(seed, 0) for seed in SEEDS]
    ours, theirs = ([run.success for run in runs] for runs in (hybrid, tokens))
    gains = [left - right for left, right in zip(ours, theirs, strict=True)]
    error = statistics.stdev(gains) / math.sqrt(len(SEEDS))
    moved = [abs(run.after - run.before) for run in hybrid]
    still = max(abs(run.after - run.before) for run in tokens)
    return Finding(
        statistics.mean(gains) > -2 * error and min(moved) > 5 * still and statistics.mean(ours) > 0.45,
        f"up to {HOPS} hops, {THOUGHTS} thoughts, {len(SEEDS)} seeds (chance is 0.17): success "
        f"{statistics.mean(ours):.2f} ({min(ours):.2f} to {max(ours):.2f}) against token-only GRPO's "
        f"{statistics.mean(theirs):.2f} ({min(theirs):.2f} to {max(theirs):.2f}), gain {statistics.mean(gains):+.2f} "
        f"with a standard error of {error:.2f}; mean of a moved by {min(moved):.5f} or more (token-only: {still:.5f})",
    )
