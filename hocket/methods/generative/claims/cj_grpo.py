"""CJ-GRPO's claims, most of them on a masked language model small enough to enumerate: length 4, five tokens."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from hocket.core.keys import Key
from hocket.core.masked_states import MaskedState
from hocket.core.packing import pack
from hocket.lab.claims.harness import Claims, Finding, gap, gradient, say
from hocket.lab.toys.recorded_answers import sample
from hocket.methods.generative.cj_grpo import CJ_GRPO
from hocket.policies.masked_lm import MaskedLM
from hocket.rollout.mask_filling import Order, Unmasking
from hocket.rollout.unmasking import FilledAnswer, commit_first
from hocket.types import Assignment, Quantity, Scenario, Trajectory, Turn

claim = Claims("cj-grpo", "arXiv 2509.23924")
LENGTH, PAD, END, MASK, VOCABULARY = 4, 0, 1, 2, 6
TOKENS = tuple(token for token in range(VOCABULARY) if token != MASK)
PROMPT = 2


@dataclass
class _Tokenizer:
    """What a policy asks its tokenizer of tokens that are numbers."""

    mask_token_id: int = MASK
    eos_token_id: int = END
    sep_token_id: int = END


def policy_of(seed: int) -> MaskedLM:
    """A masked language model in float64 whose tokens depend on each other."""
    from transformers import BertConfig, BertForMaskedLM  # Seconds, which listing claims need not take.

    shape = BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=16,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        attn_implementation="eager",
    )
    with torch.random.fork_rng(devices=[]):
        model = BertForMaskedLM(shape).double()
    drawn = Key.of(seed).torch()
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(0.7 * torch.randn(weight.shape, generator=drawn, dtype=torch.float64))
    return MaskedLM(model, _Tokenizer())


def paths(policy: MaskedLM, order: Order) -> tuple[list[list[Turn]], torch.Tensor]:
    """Every answer's turns, and the log-probs of the paths `[625]` with gradient, by an order that states decide."""
    begin = np.array([3, 4, *[MASK] * LENGTH], np.int64)
    assignment = Assignment(Scenario("s"), options=(Unmasking(order),))
    level: list[tuple[np.ndarray, list[Turn], torch.Tensor]] = [(begin, [], torch.zeros((), dtype=torch.float64))]
    for step in range(LENGTH):
        places = [np.flatnonzero(tokens == MASK) for tokens, _, _ in level]
        states = [
            MaskedState(tokens, PROMPT, open_ones) for (tokens, _, _), open_ones in zip(level, places, strict=True)
        ]
        rows = torch.split(torch.log_softmax(policy.logits(states), -1), [len(open_ones) for open_ones in places])
        following = []
        for (tokens, turns, logp), state, row in zip(level, states, rows, strict=True):
            answer = FilledAnswer(assignment, 0, tokens, PROMPT, Key.of(0), [1] * LENGTH)
            chosen = int(commit_first(answer, row.detach(), row.argmax(-1), step, END)[0])
            look = MaskedState(tokens, PROMPT, state.places[chosen : chosen + 1])
            for token in TOKENS:
                filled = tokens.copy()
                filled[look.places[0]] = token
                value = row[chosen, token]
                recorded = np.array([float(value.detach())])
                turn = Turn("writer", "policy", look.row(), np.array([token]), logp=recorded)
                following.append((filled, [*turns, turn], logp + value))
        level = following
    return [turns for _, turns, _ in level], torch.stack([logp for _, _, logp in level])


def flat(policy: MaskedLM, loss: torch.Tensor) -> torch.Tensor:
    """The gradient of a loss in all weights."""
    weights = [weight for weight in policy.model.parameters() if weight.requires_grad]
    parts = torch.autograd.grad(loss, weights, allow_unused=True)
    return torch.cat(
        [torch.zeros_like(w).flatten() if g is None else g.flatten() for w, g in zip(weights, parts, strict=True)]
    )


def cosine(one: torch.Tensor, other: torch.Tensor) -> float:
    return float(one @ other / (one.norm() * other.norm()))


def rewards(seed: int) -> torch.Tensor:
    """A reward for each of the 625 answers."""
    return torch.from_numpy(Key.of(seed).derive("rewards").numpy().random(len(TOKENS) ** LENGTH))


def scored(policy: MaskedLM, turns: Sequence[Sequence[Turn]], weight: torch.Tensor) -> torch.Tensor:
    """sum_i weight_i sum_t log pi of recorded trajectories, as learners evaluate them."""
    batch = pack([Trajectory(Scenario(f"s{number}"), list(each)) for number, each in enumerate(turns)])
    logp = policy.evaluate(batch, {Quantity.LOGP}).logp
    occurrences = batch.occurrences
    return (weight[occurrences.trajectory] * logp[occurrences.decision]).sum()


@claim("The recorded log-probs sum to the path's, all paths to 1, and the gradient is that of the enumerated reward.")
def the_recorded_path_is_exact() -> Finding:
    worst, masses, nearest = 0.0, [], 1.0
    for seed, order in enumerate(("distribution", "left")):
        policy, reward = policy_of(seed), rewards(seed)
        turns, logp = paths(policy, order)  # type: ignore[arg-type]
        sums = [sum(float(turn.logp[0]) for turn in each if turn.logp is not None) for each in turns]
        worst = max(worst, gap(sums, logp.detach()))
        masses.append(float(logp.detach().exp().sum()))
        enumerated = flat(policy, (logp.exp() * reward).sum())
        path = flat(policy, scored(policy, turns, logp.detach().exp() * reward))
        nearest = min(nearest, cosine(path, enumerated), float(path.norm() / enumerated.norm()))
    holds = worst < 1e-12 and max(abs(mass - 1) for mass in masses) < 1e-12 and nearest > 1 - 1e-10
    return Finding(holds, say(log_probs_off_by=worst, masses=masses, cosine_and_size=nearest))


def final(tokens: np.ndarray, places: Sequence[int]) -> Turn:
    """A look at a final answer with these places masked."""
    hidden = tokens.copy()
    hidden[list(places)] = MASK
    look = MaskedState(hidden, PROMPT, np.array(places, np.int64))
    return Turn("writer", "policy", look.row(), tokens[list(places)])


@claim("Nearer to the gradient of the enumerated reward: the path, then pairs of complementary masks, then one look.")
def the_path_is_nearer_than_estimates() -> Finding:
    places = list(range(PROMPT, PROMPT + LENGTH))
    splits = list(itertools.combinations(places, 2))
    policy, reward = policy_of(0), rewards(0)
    turns, logp = paths(policy, "distribution")
    weight = logp.detach().exp() * reward
    exact = flat(policy, (logp.exp() * reward).sum())
    answers = []
    for each in turns:
        tokens = np.array([3, 4, *[MASK] * LENGTH], np.int64)
        for turn in each:
            tokens[MaskedState.read(turn.observation).places] = turn.action
        answers.append(tokens)
    looks = {
        "path": turns,
        "coupled": [[final(tokens, part) for part in splits] for tokens in answers],
        "one look": [[final(tokens, places)] for tokens in answers],
    }
    near = {name: cosine(flat(policy, scored(policy, each, weight)), exact) for name, each in looks.items()}
    return Finding(near["path"] > 1 - 1e-10 > near["coupled"] > near["one look"], say(cosines=near))


@claim("By the confidence of sampled tokens the product is no probability: masses (.9, .1) and (.6, .4) claim 1.9.")
def the_order_of_sampled_tokens_claims_too_much() -> Finding:
    rows = torch.tensor([[0.9, 0.1], [0.6, 0.4]], dtype=torch.float64).log()
    sums = {}
    for order in ("distribution", "sampled"):
        answer = FilledAnswer(
            Assignment(Scenario("s"), options=(Unmasking(order),)),
            0,
            np.zeros(2, np.int64),
            0,
            Key.of(0),
            [1, 1],
        )
        ways = set()
        for token in itertools.product(range(2), repeat=2):
            first = int(commit_first(answer, rows, torch.tensor(token), 0, -1)[0])
            ways |= {(first, token[first], other) for other in range(2)}
        sums[order] = sum(float((rows[f, t] + rows[1 - f, o]).exp()) for f, t, o in ways)
    exact = math.isclose(sums["distribution"], 1.0) and math.isclose(sums["sampled"], 1.9)
    return Finding(exact, say(claimed=sums))


@claim("Doubling commits fills L places in at most floor(log2 L) + 1 steps.")
def doubling_fills_in_logarithmically_many_steps() -> Finding:
    doubling = Unmasking(doubling=True)
    longest = [len(doubling.counts(length)) - math.floor(math.log2(length)) - 1 for length in range(1, 257)]
    complete = all(sum(doubling.counts(length)) == length for length in range(1, 257))
    plain = Unmasking(commits=3).counts(8) == [3, 3, 2]
    first = doubling.counts(15) == [1, 2, 4, 8]
    return Finding(max(longest) <= 0 and complete and plain and first, say(steps_beyond=max(longest)))


@claim("Held back, fewer ends are committed in the first half, and as many at the last step as without.")
def ends_that_are_held_back_come_later() -> Finding:
    draws, shares = Key.of(0).numpy(), {}
    rows = [torch.log_softmax(torch.from_numpy(draws.normal(0, 2, (6, 8))), -1) for _ in range(400)]
    for held in (1.0, CJ_GRPO.rollout.end_held):  # type: ignore[attr-defined]
        for step in (0, 2, 5):
            assignment = Assignment(Scenario("s"), options=(Unmasking(end_held=held),))
            answer = FilledAnswer(assignment, 0, np.zeros(6, np.int64), 0, Key.of(0), [1] * 6)
            firsts = [int(row.argmax(-1)[commit_first(answer, row, row.argmax(-1), step, END)[0]]) for row in rows]
            shares[held, step] = firsts.count(END) / len(firsts)
    held = CJ_GRPO.rollout.end_held  # type: ignore[attr-defined]
    falls = shares[held, 0] < shares[held, 2] < shares[1.0, 2] == shares[1.0, 0]
    return Finding(falls and shares[held, 5] == shares[1.0, 5], say(ends=list(shares.values())))


def recorded(seed: int) -> Mapping[str, Any]:
    """Six answers of two prompts in steps of 1, 2 and 4 tokens, at weights that have moved on."""
    draws = Key.of(seed).derive("steps").numpy()
    turn = [0, 1, 1, 2, 2, 2, 2]
    rows = []
    for number in range(6):
        logp = draws.normal(-2.0, 0.7, len(turn))
        more = {"turn": turn, "logp_behaviour": (logp + draws.normal(0, 0.4, 7)).tolist()}
        more["logp_ref"] = (logp + draws.normal(0, 0.4, 7)).tolist()
        rows.append(sample(f"g{number % 2}", float(draws.random()), logp.tolist(), **more))
    return {"version": 1, "trajectories": rows}


@claim(
    "The gradient is the formula's: means over a step's tokens, over steps, over samples; clip and k3 at each token."
)
def the_gradient_is_the_formulas() -> Finding:
    gaps = []
    for seed in range(8):
        document = recorded(seed)
        rows = document["trajectories"]
        logps = [torch.tensor(row["logp"], dtype=torch.float64, requires_grad=True) for row in rows]
        parts = []
        for row, logp in zip(rows, logps, strict=True):
            group = [other["scores"]["reward"] for other in rows if other["group"] == row["group"]]
            advantage = (row["scores"]["reward"] - np.mean(group)) / (np.std(group, ddof=1) + 1e-6)
            ratio = (logp - torch.tensor(row["logp_behaviour"], dtype=torch.float64)).exp()
            gain = torch.minimum(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage)
            difference = logp - torch.tensor(row["logp_ref"], dtype=torch.float64)
            terms = -gain + 0.01 * ((-difference).exp() - 1 + difference)
            turn = torch.tensor(row["turn"])
            parts.append(torch.stack([terms[turn == step].mean() for step in range(3)]).mean())
        by_hand = torch.cat(torch.autograd.grad(torch.stack(parts).mean(), logps))
        gaps.append(gap(gradient(CJ_GRPO, document), by_hand))
    return Finding(max(gaps) < 1e-9, say(batches=len(gaps), largest_difference=max(gaps)))


claim.shipped(
    CJ_GRPO,
    "rollout",
    "objective",
    task="sums",
    settings={"model": "nano-mdlm", "curriculum.prompts": 8},
    sees=lambda run: {"turns": float(run.results[0].batch.turns if run.results[0].batch is not None else 0)},
)
