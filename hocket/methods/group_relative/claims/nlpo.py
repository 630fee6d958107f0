"""NLPO's claims."""

import functools
import itertools
import math
from statistics import fmean
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hocket.core.batch import Batch, Level, RecordedNumbers
from hocket.core.components import value_at
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.core.signals import REWARD
from hocket.engine.local import LocalEngine
from hocket.engine.requests import Request
from hocket.lab.bench import Bench
from hocket.lab.claims.harness import EXACT, SEEDS, Claims, Finding, below, gap, say
from hocket.lab.hand_formulas import stale_rows
from hocket.lab.microscope import RecordedBatch
from hocket.lab.policy import Tabular
from hocket.lab.toys.quick_worlds import summing, uneven
from hocket.lab.toys.recorded_answers import document
from hocket.lab.world import World
from hocket.methods.group_relative.nlpo import adapted
from hocket.nano import BASE
from hocket.policies.causal_lm import CausalLM
from hocket.policies.heads import read_head
from hocket.recipe import Recipe
from hocket.recipes import NLPO, PPO_RLHF
from hocket.rollout.nucleus import DELAYED, NucleusMask
from hocket.types import Decoding, Quantity, Scenario, Trajectory, Turn

claim = Claims("nlpo", "arXiv 2210.01241")
CHARGE = {"shaping.0.coefficient": 0.02, "shaping.0.target": None}
NARROW = NLPO.but({"rollout.samples": 8, "rollout.mass": 0.6})
# Sentences of three words out of ten, of which four are liked; the reward is their share.
WORDS = World(2, 10, 3, lambda question, answer: sum(word % 3 == 0 for word in answer) / len(answer), context="last")


LIKE_LANGUAGE = uneven(Key.of(11), 1.5)
"""A starting model that expects few words after each."""


@claim("With p = 1 losses and weights are PPO's.")
def with_p_1_losses_and_weights_are_ppos() -> Finding:
    whole = NLPO.but({"rollout.samples": 8, "rollout.mass": 1.0, "update.every": 2, **CHARGE})
    recipes = (whole, PPO_RLHF.but({"rollout.samples": 8}))
    ours, theirs = (Bench(summing(2, 5, 3), recipe, seed=1, start=LIKE_LANGUAGE).run(6) for recipe in recipes)
    weights = gap(ours.policy.logits, theirs.policy.logits)
    losses = gap(*([row["loss"] for row in bench.history] for bench in (ours, theirs)))
    return Finding(weights == 0 == losses, say(weights_off_PPOs_after_six_steps=weights, losses=losses))


def nuclei(batch: Batch) -> NDArray[np.bool_]:
    """What may be said at every decision, `[T, tokens]`."""
    return np.concatenate([turn for turn in batch.allowed if turn is not None])


@claim("The charge is beta times the log-ratio of the whole distributions where both are known; beta follows the KL.")
def the_charge_is_beta_times_the_log_ratio_of_the_whole() -> Finding:
    gaps, charge = list[float](), cast(Any, NLPO.shaping[0])
    for rows, beta in itertools.product(stale_rows("nlpo", count=2), (0.1, 0.3)):
        batch = RecordedBatch(document(rows)).batch
        noise = torch.from_numpy(Key.of(1).numpy().random((4, batch.decisions)))
        part, ref, whole = batch.logp["behaviour"], batch.logp["reference"], RecordedNumbers(-noise[0], noise[1] < 0.5)
        part, ref = RecordedNumbers(part.values, noise[2] < 0.7), RecordedNumbers(ref.values, noise[3] < 0.8)
        batch = batch.but(logp={**batch.logp, "unmasked": whole, "behaviour": part, "reference": ref})
        paid, state = charge(batch, {"coefficient": beta})
        wanted, counted = [], []
        for place, known in enumerate((ref.present & ~batch.forced & (whole.present | part.present)).tolist()):
            own = whole.values[place] if whole.present[place] else part.values[place]
            apart = float(own.double() - ref.values[place].double()) if known else 0.0
            wanted.append(-beta * apart)
            counted += [apart] * known
        error = max(-0.2, min(0.2, fmean(counted) / 0.1 - 1))
        given = paid.scores[REWARD[Level.DECISION]].values
        gaps += [gap(given, wanted), abs(state["coefficient"] - beta * (1 + 0.1 * error))]
    moved = [adapted(0.5, divergence, 0.2, 0.3) for divergence in (0.0, 0.18, 0.22, 5.0)]
    gaps.append(gap(moved, [0.5 * (1 + 0.3 * error) for error in (-0.2, -0.1, 0.1, 0.2)]))
    return below(EXACT, charge.init() == {"coefficient": 0.1}, off_by_hand=max(gaps))


@claim(
    "The copy becomes the policy after every so many steps: 20 as shipped, of 4 epochs in 4 parts; its nucleus is 0.9."
)
def the_copy_becomes_the_policy_after_every_so_many_steps_20_as() -> Finding:
    often = NLPO.but({"rollout.samples": 2, "update.every": 3, "update.epochs": 1, "update.minibatches": 1})
    bench = Bench(summing(2, 5, 3), often, seed=1, start=LIKE_LANGUAGE)
    renewed = [bench.step().metrics["mask/refreshed"] for _ in range(7)]
    names = ("rollout.samples", "rollout.mass", "update.every", "update.epochs", "update.minibatches")
    settings = [value_at(NLPO, name) for name in names]
    norms = [value_at(one, "update.clip_norm") for one in (NLPO, PPO_RLHF)]
    holds = settings == [1, 0.9, 20, 4, 4] and norms[0] == norms[1]
    return Finding(holds and renewed == [0, 0, 1, 0, 0, 1, 0], say(renewed=str(renewed)))


@claim("Masked tokens have probability and gradient exactly 0.")
def masked_tokens_have_probability_and_gradient_exactly_0() -> Finding:
    bench = Bench(WORDS, NARROW, seed=0, start=LIKE_LANGUAGE)
    batch, policy = bench.step().batch, bench.policy
    assert batch is not None
    now, masks = policy.evaluate(batch, {Quantity.LOGP, Quantity.ENTROPY}), nuclei(batch)
    noise, sizes = torch.from_numpy(Key.of(5).numpy().normal(size=batch.decisions)), masks.sum(1).tolist()
    (slope,) = torch.autograd.grad(((now.logp + now.get(Quantity.ENTROPY)) * noise).sum(), policy.logits)
    ever = torch.zeros(tuple(policy.logits.shape), dtype=torch.bool)
    for row, mask in zip(np.concatenate(batch.observation).tolist(), masks, strict=True):
        ever[row] |= torch.from_numpy(mask)
    leaked, felt = gap(slope[~ever], 0.0), gap(slope[ever], 0.0)
    chance = gap(torch.softmax(policy.logits.masked_fill(~ever, -torch.inf), -1)[~ever].nan_to_num(), 0.0)
    saw = say(nuclei_of_10_words=sizes, gradient_on_masked=leaked, on_others=felt, probability=chance)
    return Finding(leaked == chance == 0 < felt and max(sizes) < 10, saw)


@claim("So they have in a language model's head.", "derived")
def so_they_have_in_a_language_models_head() -> Finding:
    noise, logits = Key.of(7).torch(), list[Tensor]()
    features = torch.randn(6, 16, generator=noise).requires_grad_()
    weight = torch.randn(40, 16, generator=noise) / 4

    def watched(inputs: Tensor) -> Tensor:
        logits.append(inputs @ weight.T)
        if logits[-1].requires_grad:
            logits[-1].retain_grad()
        return logits[-1]

    allowed = torch.rand(6, 40, generator=noise) < 0.3
    action = allowed.double().argmax(1)
    scores = read_head(watched, features, action, torch.full((6,), 0.7), entropy=True, allowed=allowed)
    assert scores.entropy is not None
    (scores.logp + scores.entropy).sum().backward()  # type: ignore[no-untyped-call]
    slope = next(one.grad for one in reversed(logits) if one.requires_grad)
    assert slope is not None
    expected = torch.log_softmax((features @ weight.T / 0.7).masked_fill(~allowed, -torch.inf), 1)
    off = gap(scores.logp, expected.gather(1, action[:, None])[:, 0])
    leaked, felt = gap(slope[:6][~allowed], 0.0), gap(slope[:6][allowed], 0.0)
    saw = say(log_probs_off_at_6_places_of_40_tokens=off, gradient_on_masked_logits=leaked, on_others=felt)
    return Finding(leaked == 0 < felt and off < 1e-6, saw)


@functools.cache
def sampled() -> tuple[CausalLM, Batch]:
    """Responses of the shipped model under the masks of a copy that it has moved away from, packed."""
    policy, noise, played = CausalLM.from_pretrained(BASE, key=Key.of(0)), Key.of(3).torch(), list[Trajectory]()
    policy.refresh_copy(DELAYED)
    with torch.no_grad():
        for weight in policy.module.parameters():
            weight.add_(0.02 * weight.abs().mean() * torch.randn(weight.shape, generator=noise))
    prompts = ["What is 3 + 4?", "What is 12 + 7?", "What is 3 + 4?", "Say it again."]
    way = Decoding(temperature=0.9, max_tokens=12, mask=NucleusMask(0.7))
    contexts = [tuple(policy.tokenizer(text)["input_ids"]) for text in prompts]
    asked = [Request(context, way, Key.of(20 + number)) for number, context in enumerate(contexts)]
    for number, one in enumerate(LocalEngine(policy).sample(asked)):
        known: Any = {"logp": one.logp, "decoding": way, "extras": dict(one.extras)}
        turn = Turn("agent", "policy", np.array(contexts[number], np.int64), one.tokens, **known)
        played.append(Trajectory(Scenario(f"s{number}"), [turn]))
    return policy, pack(played)


def logps(policy: Tabular | CausalLM, batch: Batch) -> Tensor:
    with torch.no_grad():
        return policy.evaluate(batch, {Quantity.LOGP}).logp


@claim("At unchanged weights every ratio is 1, even after the copy was refreshed.", slow=True)
def at_unchanged_weights_every_ratio_is_1_even_after_the_copy_was() -> Finding:
    bench = Bench(WORDS, NARROW, seed=0, start=LIKE_LANGUAGE).run(3)
    batch = bench.step().batch
    assert batch is not None
    before = logps(bench.policy, batch)
    bench.policy.refresh_copy(DELAYED)
    gaps = [gap(logps(bench.policy, batch), before), *(row["agreement/largest"] for row in bench.history)]
    policy, text = sampled()
    recorded = text.logp["behaviour"].values
    for _ in range(2):
        gaps.append(gap(logps(policy, text), recorded))
        policy.refresh_copy(DELAYED)
    whole = logps(policy, text.but(allowed=()))
    bare, apart = gap(whole, text.logp["unmasked"].values), gap(whole, recorded)
    saw = say(largest_log_ratio=max(gaps), without_masks=apart, log_probs_of_the_whole_distribution_off_by=bare)
    return Finding(max(gaps) < 1e-5 and bare < 1e-5 and apart > 0.01, saw)


@claim("Every sampled token is in the nucleus recorded for it.", slow=True)
def every_sampled_token_is_in_the_nucleus_recorded_for_it() -> Finding:
    policy, batch = sampled()
    masks = nuclei(batch)
    inside = bool(masks[np.arange(batch.decisions), batch.action.numpy()].all())
    sizes, vocabulary = masks.sum(1).tolist(), policy.model.config.vocab_size
    saw = say(tokens=batch.decisions, inside=inside, nuclei=sizes, of=vocabulary)
    return Finding(inside and max(sizes) < vocabulary and batch.turns == len(batch.allowed) == 4, saw)


def reached(recipe: Recipe, seed: int) -> tuple[float, float]:
    """Once the sampled reward reaches 0.8: that reward, and the samples' perplexity under the starting model."""
    bench = Bench(WORDS, recipe.but({"rollout.samples": 64}), seed=seed, lr=0.02, start=LIKE_LANGUAGE)
    for result in (bench.step() for _ in range(80)):
        reward, batch = result.metrics["reward/mean"], result.batch
        if reward >= 0.8 and batch is not None:
            return reward, float((-batch.logp["reference"].values.double().mean()).exp())
    return reward, math.nan


@claim("NLPO reaches PPO's reward with lower perplexity under the starting model.", slow=True)
def nlpo_reaches_ppos_reward_with_lower_perplexity_under_the() -> Finding:
    sides = {"nlpo": NLPO.but(CHARGE), "ppo": PPO_RLHF}
    ends = {name: [reached(recipe, seed) for seed in SEEDS] for name, recipe in sides.items()}
    odd = {name: [perplexity for _, perplexity in some] for name, some in ends.items()}
    rewards = {name: fmean(reward for reward, _ in some) for name, some in ends.items()}
    ahead = all(one < other for one, other in zip(odd["nlpo"], odd["ppo"], strict=True))
    holds = ahead and min(min(some)[0] for some in ends.values()) >= 0.8
    return Finding(holds, say(reward_at_equal_KL_charge=rewards, perplexity_under_the_starting_model=odd))


claim.spares(
    "int(problem.memory.get('steps', 0)) + 1 -> int(problem.memory.get('steps', 0)) - 1",
    "counted downwards, every so many steps as well",
)

claim.shipped(NLPO, "rollout", "update")
claim.shipped(NLPO, "shaping", steps=2)
