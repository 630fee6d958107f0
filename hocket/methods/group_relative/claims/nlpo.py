"""What nlpo claims."""

from __future__ import annotations

import functools
import math
import statistics

import numpy as np
import torch
from torch import Tensor

from hocket.core.batch import Batch
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.engine.local import LocalEngine
from hocket.engine.requests import Request
from hocket.lab.bench import Bench
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.policy import Tabular
from hocket.lab.world import World
from hocket.nano import BASE
from hocket.policies.causal_lm import CausalLM
from hocket.policies.heads import read_head
from hocket.recipe import Recipe
from hocket.recipes import find
from hocket.rollout.nucleus import DELAYED, NucleusMask
from hocket.types import Decoding, Quantity, Scenario, Trajectory, Turn

claim = Claims("nlpo", "arXiv 2210.01241")


SEEDS = (0, 1, 2, 3, 4)


def _words() -> World:
    """Sentences of three words out of ten, of which four are liked; the reward is their share."""
    return World(
        questions=2,
        tokens=10,
        horizon=3,
        reward=lambda question, answer: sum(word % 3 == 0 for word in answer) / len(answer),
        context="last",
    )


def _like_language(policy: Tabular) -> None:
    """A starting model that expects few words after each."""
    noise = Key.of(11).numpy().normal(size=tuple(policy.logits.shape))
    policy.logits.data = torch.from_numpy(1.5 * noise)


def _nlpo(**changes: object) -> Recipe:
    return find("nlpo").but({name.replace("__", "."): value for name, value in changes.items()})


@claim("With p = 1 losses and weights are PPO's.")
def _same_as_ppo() -> Finding:
    charge = {"shaping.0.coefficient": 0.02, "shaping.0.target": None}
    whole = _nlpo(rollout__samples=8, rollout__mass=1.0, update__every=2).but(charge)
    ppo = find("ppo-rlhf").but({"rollout.samples": 8})
    runs = [Bench(_small(), recipe, seed=1, start=_like_language).run(6) for recipe in (whole, ppo)]
    ours, theirs = (run.policy.logits.detach() for run in runs)
    gap = float((ours - theirs).abs().max())
    losses = max(abs(a["loss"] - b["loss"]) for a, b in zip(runs[0].history, runs[1].history, strict=True))
    return Finding(
        gap == 0 and losses == 0, f"p = 1, six steps: weights off PPO's by {gap:.1g}, losses by {losses:.1g}"
    )


def _small() -> World:
    return World(questions=2, tokens=5, horizon=3, reward=lambda question, answer: float(sum(answer) % 5 == question))


@claim("Masked tokens have probability and gradient exactly 0.")
def _masked_is_nothing() -> Finding:
    bench = Bench(_words(), _nlpo(rollout__samples=8, rollout__mass=0.6), seed=0, start=_like_language)
    batch = bench.step().batch
    assert batch is not None
    sizes = [int(mask.sum()) for turn in batch.allowed if turn is not None for mask in turn]
    gradient = _slope(bench.policy, batch)
    rows = np.concatenate([np.asarray(seen) for seen in batch.observation])
    ever = torch.zeros(tuple(bench.policy.logits.shape), dtype=torch.bool)
    masks = np.concatenate([turn for turn in batch.allowed if turn is not None])
    for row, mask in zip(rows.tolist(), masks, strict=True):
        ever[row] |= torch.from_numpy(mask)
    leaked, felt = float(gradient[~ever].abs().max()), float(gradient[ever].abs().max())
    chance = torch.softmax(bench.policy.logits.detach().masked_fill(~ever, -torch.inf), -1)[~ever]
    return Finding(
        leaked == 0 and felt > 0 and float(chance.nan_to_num().max()) == 0 and max(sizes) < 10,
        f"nuclei of {min(sizes)} to {max(sizes)} of 10 words: largest gradient on a masked one {leaked:.1g}, on others "
        f"{felt:.2g}; probability 0",
    )


def _slope(policy: Tabular, batch: Batch) -> Tensor:
    """d (log-probs and entropies) / d logits."""
    now = policy.evaluate(batch, {Quantity.LOGP, Quantity.ENTROPY})
    noise = torch.from_numpy(Key.of(5).numpy().normal(size=batch.decisions))
    ((now.logp + now.get(Quantity.ENTROPY)) * noise).sum().backward()  # type: ignore[no-untyped-call]
    found = policy.logits.grad
    assert found is not None
    return found


@claim("So they have in a language model's head.", "derived")
def _masked_head() -> Finding:
    noise = Key.of(7).torch()
    features = torch.randn(6, 16, generator=noise).requires_grad_()
    weight = torch.randn(40, 16, generator=noise) / 4
    logits: list[Tensor] = []

    def watched(inputs: Tensor) -> Tensor:
        found: Tensor = inputs @ weight.T
        if found.requires_grad:
            found.retain_grad()
            logits.append(found)
        return found

    allowed = torch.rand(6, 40, generator=noise) < 0.3
    action = allowed.double().argmax(1)
    reading = read_head(watched, features, action, torch.full((6,), 0.7), entropy=True, allowed=allowed)
    assert reading.entropy is not None
    (reading.logp + reading.entropy).sum().backward()  # type: ignore[no-untyped-call]
    slope = logits[-1].grad
    assert slope is not None
    slope = slope[:6]
    expected = torch.log_softmax((features @ weight.T / 0.7).masked_fill(~allowed, -torch.inf), 1)
    gap = float((reading.logp - expected.gather(1, action[:, None])[:, 0]).detach().abs().max())
    leaked = float(slope[~allowed].abs().max())
    return Finding(
        leaked == 0 and gap < 1e-6 and float(slope[allowed].abs().max()) > 0,
        f"a language model's head, 6 places of 40 tokens: log-probs off by {gap:.1g}, gradient on masked logits "
        f"{leaked:.1g}",
    )


@functools.cache
def _sampled() -> tuple[CausalLM, list[Request], Batch]:
    """Responses of the shipped model under the masks of a copy that it has moved away from, packed."""
    policy = CausalLM.from_pretrained(BASE, key=Key.of(0))
    policy.refresh_copy(DELAYED)
    noise = Key.of(3).torch()
    with torch.no_grad():
        for weight in policy.module.parameters():
            weight.add_(0.02 * weight.abs().mean() * torch.randn(weight.shape, generator=noise))
    prompts = ["What is 3 + 4?", "What is 12 + 7?", "What is 3 + 4?", "Say it again."]
    way = Decoding(temperature=0.9, max_tokens=12, mask=NucleusMask(0.7))
    tokens = [tuple(policy.tokenizer(text)["input_ids"]) for text in prompts]
    asked = [Request(context, way, Key.of(20 + number)) for number, context in enumerate(tokens)]
    samples = LocalEngine(policy).sample(asked)
    told: list[Trajectory] = []
    for request, sample in zip(asked, samples, strict=True):
        observation = np.array(request.tokens, np.int64)
        extras = dict(sample.extras)
        turn = Turn("agent", "policy", observation, sample.tokens, logp=sample.logp, decoding=way, extras=extras)
        told.append(Trajectory(Scenario(f"s{len(told)}"), [turn]))
    return policy, asked, pack(told)


@claim("At unchanged weights every ratio is 1, even after the copy was refreshed.", slow=True)
def _ratios_are_one() -> Finding:
    gaps = []
    bench = Bench(_words(), _nlpo(rollout__samples=8, rollout__mass=0.6), seed=0, start=_like_language)
    bench.run(3)
    batch = bench.step().batch
    assert batch is not None
    before = bench.policy.evaluate(batch, {Quantity.LOGP}).logp.detach()
    bench.policy.refresh_copy(DELAYED)
    gaps.append(float((bench.policy.evaluate(batch, {Quantity.LOGP}).logp.detach() - before).abs().max()))
    told = [row["agreement/largest"] for row in bench.history]
    policy, _, text = _sampled()
    recorded = text.logp["behaviour"].values
    for _ in range(2):
        with torch.no_grad():
            now = policy.evaluate(text, {Quantity.LOGP}).logp
        gaps.append(float((now - recorded).abs().max()))
        policy.refresh_copy(DELAYED)
    with torch.no_grad():
        whole = policy.evaluate(text.but(allowed=()), {Quantity.LOGP}).logp
    bare = float((whole - text.logp["unmasked"].values).abs().max())
    apart = float((whole - recorded).abs().max())
    return Finding(
        max(gaps) < 1e-5 and max(told) < 1e-5 and bare < 1e-5 and apart > 0.01,
        f"largest log-ratio at unchanged weights {max(*gaps, *told):.1e}, on a table and the shipped language model, "
        f"before and after the copy was refreshed (without masks they would be off by {apart:.2f}); log-probs of the "
        f"whole distribution off by {bare:.1e}",
    )


@claim("Every sampled token is in the nucleus recorded for it.", slow=True)
def _copies_allow() -> Finding:
    policy, asked, batch = _sampled()
    inside, sizes = True, []
    starts = torch.searchsorted(batch.turn, torch.arange(batch.turns)).tolist()
    for number, turn in enumerate(batch.allowed):
        assert turn is not None
        actions = batch.action[starts[number] : starts[number] + len(turn)].numpy()
        inside &= bool(turn[np.arange(len(turn)), actions].all())
        sizes += turn.sum(1).tolist()
    return Finding(
        inside and max(sizes) < policy.model.config.vocab_size and len(asked) == batch.turns,
        f"{batch.decisions} tokens of the shipped model, all within their nuclei of {min(sizes)} to {max(sizes)} of "
        f"{policy.model.config.vocab_size} tokens",
    )


def _reached(recipe: Recipe, seed: int, goal: float) -> tuple[float, float]:
    """Once the sampled reward reaches `goal`: that reward, and the samples' perplexity under the starting model."""
    bench = Bench(_words(), recipe, seed=seed, lr=0.02, start=_like_language)
    for _ in range(80):
        result = bench.step()
        if result.metrics["reward/mean"] >= goal and result.batch is not None:
            cost = float(-result.batch.logp["reference"].values.double().mean())
            return result.metrics["reward/mean"], math.exp(cost)
    return result.metrics["reward/mean"], math.nan


@claim("NLPO reaches PPO's reward with lower perplexity under the starting model.", slow=True)
def _closer_to_the_start() -> Finding:
    goal = 0.8
    ppo = find("ppo-rlhf").but({"rollout.samples": 64})
    nlpo = _nlpo(rollout__samples=64, shaping__0__coefficient=0.02, shaping__0__target=None)
    theirs = [_reached(ppo, seed, goal) for seed in SEEDS]
    ours = [_reached(nlpo, seed, goal) for seed in SEEDS]
    odd = [a[1] for a in ours], [b[1] for b in theirs]
    rewards = [statistics.mean(reward for reward, _ in runs) for runs in (ours, theirs)]
    holds = all(a < b for a, b in zip(*odd, strict=True)) and min(r for r, _ in [*ours, *theirs]) >= goal
    figures = [f"{statistics.mean(one):.2f} ({min(one):.2f} to {max(one):.2f})" for one in odd]
    return Finding(
        holds,
        f"{len(SEEDS)} seeds, equal KL charge, at a reward of {rewards[0]:.2f} against {rewards[1]:.2f}: perplexity "
        f"under the starting model {figures[0]} against PPO's {figures[1]}",
    )
