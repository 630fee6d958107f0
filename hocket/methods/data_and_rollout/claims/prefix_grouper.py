"""Prefix Grouper's claims."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hocket.core.batch import Batch, RecordedNumbers
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.lab.claims.harness import EXACT, Claims, Finding, below, gap, say
from hocket.methods.base.grpo import GRPO
from hocket.nano import BASE
from hocket.policies.causal_lm import CausalLM
from hocket.policies.prefix_tree import tree_of
from hocket.policies.sequences import rows_of, targets
from hocket.types import Evaluation, Quantity, Scenario, Score, Trajectory, Turn

claim = Claims("prefix-grouper", "arXiv:2506.05433, and the released code's README")


def grouped(groups: int, samples: int, prompt: int, answer: int, seed: int = 0, *, equal: bool = False) -> Batch:
    """Groups of random answers to random prompts; lengths are drawn up to those given unless `equal`."""
    draw = Key.of(seed).derive("grouped").numpy()

    def tokens(most: int) -> NDArray[np.int64]:
        return draw.integers(5, 90, most if equal else int(draw.integers(1, most + 1)))

    found = []
    for number in range(groups):
        asked = tokens(prompt)
        for sample in range(samples):
            turn = Turn("policy", "policy", asked, tokens(answer))
            score = {"reward": Score(float(draw.integers(0, 2)))}
            found.append(Trajectory(Scenario(str(number)), [turn], sample=sample, scores=score))
    return pack(found)


def model(*, shared: bool) -> CausalLM:
    """The shipped base in float64."""
    policy = CausalLM.from_pretrained(BASE, dtype=torch.float64, key=Key.of(0))
    policy.share_prefixes = shared
    return policy


@dataclass(frozen=True)
class Learnt:
    """What one update computes: log-probs of all decisions, the loss, and the gradient of all weights."""

    logp: Tensor
    loss: float
    gradient: dict[str, Tensor]


def learnt(batch: Batch, *, shared: bool, budget: float = 1e9) -> Learnt:
    """From the hidden states on, all in float64; `budget` bounds the tokens of a pass."""
    policy = model(shared=shared)
    policy.token_budget = budget
    rows, logp = rows_of(batch, torch.arange(batch.decisions)), torch.zeros(batch.decisions, dtype=torch.float64)
    for part in policy.parts(rows):
        states, _ = policy.features(part)
        chosen = targets(part)
        now = torch.log_softmax(policy.head(states), -1).gather(1, batch.action[chosen].long()[:, None])[:, 0]
        logp = logp.index_put((chosen,), now)
    credited = replace(GRPO.credit(batch), weight=batch.occurrences.weight)
    held = batch.but(
        occurrences=credited, logp={"behaviour": RecordedNumbers(logp.detach().round(decimals=1), batch.forced | True)}
    )
    loss = sum(terms.total() for terms in GRPO.loss(Evaluation(logp=logp), held))
    assert isinstance(loss, Tensor)
    torch.autograd.backward(loss)
    found = {name: one.grad.clone() for name, one in policy.module.named_parameters() if one.grad is not None}
    return Learnt(logp.detach(), float(loss.detach()), found)


def apart(one: Learnt, other: Learnt) -> dict[str, float]:
    largest = max(float(grad.abs().max()) for grad in one.gradient.values())
    gradient = max(gap(grad, other.gradient[name]) for name, grad in one.gradient.items())
    return {
        "log_probs": gap(one.logp, other.logp),
        "loss": abs(one.loss - other.loss),
        "gradient_over_its_largest": gradient / largest,
    }


@claim(
    "Log-probs, loss and the gradient of every weight are those of the batch in which each answer has a prompt of its "
    "own, in float64, for unequal lengths and several prompts, however it is cut into passes."
)
def log_probs_loss_and_the_gradient_of_every_weight_are_those_of() -> Finding:
    batch = grouped(3, 4, 20, 9)
    alone = learnt(batch, shared=True, budget=1)  # Every sequence in a pass of its own.
    figures = apart(alone, learnt(batch, shared=True))
    cut = apart(alone, learnt(batch, shared=True, budget=60))
    moved = min(float(grad.abs().max()) for grad in alone.gradient.values())
    finding = below(1e-10, moved > 0, **figures, **{f"{name}_in_small_passes": value for name, value in cut.items()})
    return Finding(finding.holds, finding.saw + ", " + say(weights_with_a_gradient=len(alone.gradient)))


@claim("They are those of the public implementation's own padded pass, as far as that rounds (its norms are in fp32).")
def they_are_those_of_the_public_implementations_own_padded_pass_as() -> Finding:
    batch = grouped(3, 4, 20, 9)
    return below(1e-5, **apart(learnt(batch, shared=False), learnt(batch, shared=True)))


def computed(batch: Batch) -> tuple[int, int]:
    """Tokens that a pass reads when each sequence stands alone, and when shared ones stand once."""
    rows = rows_of(batch, torch.arange(batch.decisions))
    return sum(len(row.tokens) for row in rows), len(tree_of(rows).token)


@claim(
    "A pass reads P + sum (L_i - 1) tokens of a group, its prompt once, in place of G P + sum (L_i - 1), but for "
    "prompts that save fewer than 8 tokens."
)
def a_pass_reads_p_sum_tokens_of_a_group_its_prompt_once_in_place() -> Finding:
    worst, ratios = 0, []
    for seed in range(20):
        batch = grouped(1, 8, 64, 12, seed)
        alone, once = computed(batch)
        prompt = len(batch.observation[0])
        # Two answers that begin alike share that too, so it may be less by what they have in common.
        due = prompt + batch.decisions - batch.trajectories
        worst = max(worst, once - due, due - once - batch.decisions // 2)
        assert alone == batch.trajectories * prompt + batch.decisions - batch.trajectories
        ratios.append(once / alone)
    return Finding(worst < 8, say(groups=20, tokens_above_the_formula=worst, share_of_tokens_read=ratios))


@claim("Positions of every answer go on from the prompt's end, and an answer never sees another's tokens.")
def positions_of_every_answer_go_on_from_the_prompts_end_and_an() -> Finding:
    batch = grouped(2, 4, 20, 9, seed=3)
    rows = rows_of(batch, torch.arange(batch.decisions))
    tree = tree_of(rows)
    right = [
        tree.token[path].tolist() == row.tokens.tolist() and tree.depth[path].tolist() == list(range(len(row.tokens)))
        for row, path in zip(rows, tree.paths, strict=True)
    ]
    base, other = model(shared=True), batch.action.clone()
    last = batch.occurrences.trajectory == batch.trajectories - 1
    other[batch.occurrences.decision[last]] = 4
    with torch.no_grad():
        before = base.evaluate(batch, {Quantity.LOGP}).logp
        after = base.evaluate(batch.but(action=other), {Quantity.LOGP}).logp
    rest = batch.occurrences.decision[~last]
    changed, moved = gap(before[rest], after[rest]), gap(before, after)
    return Finding(all(right) and changed < EXACT < moved, say(rows=len(rows), others_moved=changed, own=moved))


def seconds(batch: Batch, *, shared: bool) -> float:
    """Of one forward and backward pass over all decisions, the shortest of three."""
    policy = model(shared=shared)
    policy.token_budget = 1e9
    taken = []
    for _ in range(3):
        begun = time.process_time()
        torch.autograd.backward(policy.evaluate(batch, {Quantity.LOGP}).logp.sum())
        taken.append(time.process_time() - begun)
    return min(taken)


def ratio(prompt: int) -> tuple[float, float]:
    """Time with shared prefixes over time without, and the same of tokens."""
    batch = grouped(2, 8, prompt, 24, equal=True)
    alone, once = computed(batch)
    return median(seconds(batch, shared=True) / seconds(batch, shared=False) for _ in range(3)), once / alone


@claim(
    "The time of a pass falls with the prompt's length as the number of tokens does: P + sum L_i against G P + sum "
    "L_i.",
    slow=True,
)
def the_time_of_a_pass_falls_with_the_prompts_length_as_the_number() -> Finding:
    found = {prompt: ratio(prompt) for prompt in (8, 64, 256)}
    times: Sequence[float] = [one[0] for one in found.values()]
    holds = times[0] > times[1] > times[2] and all(time < 1.5 * tokens for time, tokens in found.values())
    said = "; ".join(f"prompt {prompt}: time {one:.2f}, tokens {of:.2f}" for prompt, (one, of) in found.items())
    return Finding(holds, f"processor time with over without, 2 groups of 8 answers of 24 tokens: {said}")
