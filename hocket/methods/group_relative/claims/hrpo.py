"""HRPO's claims."""

import asyncio
from functools import partial
from statistics import fmean

import numpy as np
import torch
from transformers import Qwen3Config

from hocket.core.batch import Batch
from hocket.core.columns import InfoColumn
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.lab.claims.harness import SEEDS, Claims, Finding, below, gap, say
from hocket.lab.claims.shipped_check import ShippedRun
from hocket.lab.hand_formulas import clipped, off, stale_rows
from hocket.lab.toys.quick_worlds import lead
from hocket.lab.world import World
from hocket.methods.group_relative.hrpo.latent import LATENTS, THINKING, LatentLM, LatentPlayer
from hocket.methods.group_relative.hrpo.method import HRPO, Latents, LatentThoughts
from hocket.nano.model import new_model
from hocket.recipes import find
from hocket.train.learner import Learner
from hocket.train.ledger import Ledger
from hocket.train.loop import RunContext, train_step
from hocket.types import Assignment, Decoding, Quantity, Scenario

claim = Claims("hrpo", "arXiv 2505.18454")


@claim("loss and gradient are GRPO's with 0.005 of KL, counted by hand, for policies that think in latents alone")
def loss_and_gradient_are_grpos_with_0_005_of_kl_counted_by_hand() -> Finding:
    gaps = [off(HRPO, rows, partial(clipped, kl=0.005)) for rows in stale_rows("hrpo")]
    return below(
        1e-12, HRPO.rollout == LatentThoughts(samples=8), HRPO.policy_parts == (Latents(),), off_by_hand=max(gaps)
    )


SYMBOLS, HOPS, THOUGHTS = 3, 2, 2


def _policy(seed: int, thoughts: int, *, marker: int | None = None, least: float = 0.99, lr: float = 3e-3) -> LatentLM:
    """A new model of two layers; its first weights depend on the seed alone."""
    config = Qwen3Config(
        vocab_size=SYMBOLS + HOPS + 1, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=2, head_dim=16, max_position_embeddings=32, tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "rope_theta": 10_000.0}, dtype="float32",
    )  # fmt: skip
    model = new_model(config, Key.of(seed).derive("model").torch())
    return LatentLM(model, key=Key.of(seed).derive("gate"), thoughts=thoughts, marker=marker, least=least, lr=lr)


WORLD = World(
    *(SYMBOLS * HOPS, SYMBOLS + HOPS + 1, THOUGHTS + 1),
    reward=lambda question, answer: float(answer[-1] == (question // HOPS - question % HOPS - 1) % SYMBOLS),
)
"""Which symbol is so many hops from this one, if a hop leads to the one before? Two thoughts, then the answer."""


def _asked(scenario: Scenario) -> list[int]:
    question = int(scenario.metadata["question"])
    return [SYMBOLS + HOPS, question // HOPS, SYMBOLS + question % HOPS]


def _batch(policy: LatentLM, horizon: int = 6) -> Batch:
    asked = [Assignment(WORLD.scenario("train", n), samples=3, decoding=Decoding(temperature=0.8)) for n in range(3)]
    return pack(asyncio.run(LatentPlayer(policy, _asked, horizon).play(asked, key=Key.of(5))))


def _without(batch: Batch, column: InfoColumn) -> Batch:
    """The batch with zeros in a column."""
    return batch.but(info={**batch.info, column.name: [np.zeros_like(one) for one in batch.info[column.name]]})


@claim("a = 1 gives the ordinary language model's log-probs exactly.")
def a_1_gives_the_ordinary_language_models_log_probs_exactly() -> Finding:
    policy = _policy(0, 6)
    with torch.no_grad():
        policy.gate.decay.fill_(1e4)
    batch = _batch(policy)
    latent = policy.evaluate(batch, {Quantity.ENTROPY})
    policy.thoughts = 0
    plain = policy.evaluate(_without(batch, THINKING), {Quantity.ENTROPY})
    tokens = torch.cat([torch.from_numpy(np.asarray(batch.observation[0])), batch.action[:6]])[None]
    direct = torch.log_softmax(policy.model(input_ids=tokens).logits[0, 2:-1] / 0.8, -1)
    apart = [gap(latent.logp, plain.logp), gap(latent.get(Quantity.ENTROPY), plain.get(Quantity.ENTROPY))]
    own = gap(latent.logp[:6], direct.gather(1, batch.action[:6, None])[:, 0])
    thoughts = sum(int(np.asarray(column).sum()) for column in batch.info[THINKING.name])
    figures = say(thoughts=thoughts, logprobs_and_entropies_off_the_plain_model=max(apart), off_its_forward_pass=own)
    return Finding(max(apart) == 0 and own < 1e-5, figures)


@claim("The squared mix weights sum to 1.")
def the_squared_mix_weights_sum_to_1() -> Finding:
    policy, gaps, shares, noise = _policy(1, 4, least=0.9), [], [], Key.of(6).torch()
    for scale in (0.0, 1.0, 30.0):
        weights = policy.gate.weights(scale * torch.randn(64, 32, generator=noise))
        share, rest = (one.double().detach() for one in weights)
        gaps.append(gap(share.square() + rest.square(), torch.ones_like(share)))
        shares += [float(share.min()), float(share.max())]
    holds = max(gaps) < 1e-6 and min(shares) >= 0.9 - 1e-6 and max(shares) <= 1
    return Finding(holds, say(sum_of_squares_off_1=max(gaps), a=shares))


@claim("Log-probs from stored latents match the rollout's to 1e-5.")
def log_probs_from_stored_latents_match_the_rollouts_to_1e_5() -> Finding:
    gaps, moved = [], []
    for seed, marker in ((0, None), (1, 2)):
        batch = _batch(policy := _policy(seed, 5, marker=marker, least=0.5))
        now = policy.evaluate(batch, {Quantity.LOGP}).logp
        gaps.append(gap(now, batch.logp["behaviour"].values))
        moved.append(gap(policy.evaluate(_without(batch, LATENTS), {Quantity.LOGP}).logp, now))
    figures = say(off_the_rollout_with_stored_summaries=max(gaps), with_zeros_instead=min(moved))
    return Finding(max(gaps) < 1e-5 and min(moved) > 1e-3, figures)


@claim("After the answer marker inputs are plain.")
def after_the_answer_marker_inputs_are_plain() -> Finding:
    batch, right, marked = _batch(_policy(2, 6, marker=2)), True, 0
    tokens = batch.action.reshape(-1, 6).tolist()
    for row, column in zip(tokens, batch.info[THINKING.name], strict=True):
        at = [*row, 2].index(2)
        right &= np.asarray(column).tolist() == [place < at for place in range(6)]
        marked += at < 6
    return Finding(right and marked > 0, say(responses=len(tokens), with_a_marker=marked, plain_from_it_on=right))


def _trained(seed: int, thoughts: int, steps: int = 40) -> tuple[float, float]:
    """The exact-match rate of a run's last ten steps, and how far it moved the mean of a over tokens and components."""
    policy = _policy(seed, thoughts, least=0.9, lr=6e-3)
    recipe = find("hrpo").but({"curriculum.prompts": WORLD.questions, "rollout.samples": 8})
    parts = RunContext(
        task=WORLD, player=LatentPlayer(policy, _asked, THOUGHTS + 1), rewards=WORLD.rewards,
        learners={"policy": Learner(policy, recipe, total_steps=steps)}, decoding=Decoding(max_tokens=THOUGHTS + 1),
        key=Key.of(seed), ledger=Ledger(),
    )  # fmt: skip

    def openness() -> float:
        return float(policy.gate.weights(policy.embedded(torch.arange(SYMBOLS + HOPS + 1)))[0].detach().mean())

    before = openness()
    rewards = [asyncio.run(train_step(parts, step + 1)).metrics["reward/mean"] for step in range(steps)]
    return fmean(rewards[-10:]), abs(openness() - before)


@claim("On multi-hop questions it matches token-only GRPO within noise, and the mean of a moves.", slow=True)
def on_multi_hop_questions_it_matches_token_only_grpo_within_noise() -> Finding:
    (ours, moved), (theirs, still) = (zip(*(_trained(s, n) for s in SEEDS), strict=True) for n in (THOUGHTS, 0))
    gain, error = lead(ours, theirs)
    holds = gain > -2 * error and min(moved) > 5 * max(still) and fmean(ours) > 0.45
    figures = say(chance=1 / 6, success=ours, of_token_only_GRPO=theirs, gain=gain, standard_error=error)
    return Finding(holds, f"{figures}, {say(least_move_of_a=min(moved), largest_of_token_only=max(still))}")


def _mixed(run: ShippedRun) -> dict[str, float]:
    """The share of decisions whose next input was mixed."""
    rows = [np.asarray(THINKING.get(trajectory)) for result in run.results for trajectory in result.trajectories]
    return {"mixed": float(np.concatenate(rows).mean())}


claim.shipped(HRPO, without={"rollout.thoughts": 0}, sees=_mixed, small="gates begin nearly closed, as in the paper")
