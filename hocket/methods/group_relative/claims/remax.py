"""ReMax's claims."""

import math
from collections.abc import Sequence

import torch

from hocket.lab.claims.harness import EXACT, Claims, Finding, gradient, inspect_rows, runs, say
from hocket.lab.claims.harness import gap as difference
from hocket.lab.groups import Document, EnumeratedGroups, Row, document, first_advantages, gap, recorded
from hocket.lab.hand_formulas import CountedAnswer, off, stale_rows
from hocket.lab.toys.enumerable_groups import bandit, sentences
from hocket.lab.toys.quick_worlds import guessing
from hocket.methods.base.reinforce import REINFORCE
from hocket.methods.group_relative.remax import REMAX
from hocket.rollout.baseline import WithGreedyBaseline

claim = Claims("remax", "arXiv:2310.10505")


def greedy_row(group: EnumeratedGroups) -> Row:
    """The most likely answer as the baseline."""
    return group.row(max(range(len(group.answers)), key=group.chances.__getitem__), source="baseline")


@claim("Its expected gradient is the true one")
def its_expected_gradient_is_the_true_one() -> Finding:
    group = sentences({(1, 0): 1.0, (0,): 0.25})
    gaps = [gap(group.gradient(REMAX, size, [greedy_row(group)]), group.true_gradient()) for size in (1, 2, 3)]
    return Finding(max(gaps) < EXACT, f"1, 2, 3 samples: {max(gaps):.1e} from the true gradient")


@claim("Advantages, loss and gradient are those counted by hand; one sample, one greedy answer")
def advantages_loss_and_gradient_are_those_counted_by_hand_one() -> Finding:
    def loss(answers: Sequence[CountedAnswer]) -> tuple[torch.Tensor, dict[str, float]]:
        return -torch.stack([(one.logp * one.advantage).sum() for one in answers]).mean(), {}

    kept = ("id", "group", "scores", "logp", "logp_behaviour", "trained")
    gaps, greedy = list[float](), {f"group {n}": 0.25 * n for n in range(3)}
    for rows in stale_rows("remax"):
        beside = {"source": "baseline", "logp": [-1.0], "logp_behaviour": [-1.0], "trained": [False]}
        more = [{"group": name, "id": name, "scores": {"reward": value}, **beside} for name, value in greedy.items()]
        seen = [{name: value for name, value in row.items() if name in kept} for row in rows]
        gaps.append(off(REMAX, [*seen, *more], loss, lambda some: [o.reward - greedy[o.row["group"]] for o in some]))
    shared = REMAX.update == REINFORCE.update and REMAX.curriculum == REINFORCE.curriculum
    holds = max(gaps) < EXACT and REMAX.rollout == WithGreedyBaseline(samples=1) and shared
    return Finding(holds, say(off_by_hand=max(gaps)))


@claim("It does not change when a constant of the prompt is added to the reward")
def it_does_not_change_when_a_constant_of_the_prompt_is_added_to() -> Finding:
    def prompts(*offsets: float) -> Document:
        own, greedy = ([[one + offset for one in some] for offset in offsets] for some in ((1.0, 0.5), (0.25,)))
        rows = recorded(own, lengths=2)["trajectories"]
        return document([*rows, *recorded(greedy, lengths=2, source="baseline")["trajectories"]])

    same = torch.equal(gradient(REMAX, prompts(0.0, 8.0)), gradient(REMAX, prompts(0.0, 0.0)))
    return Finding(same, f"gradients with offsets 0 and 8, and with none, are bit-equal: {same}")


@claim("Its variance is below REINFORCE's when rewards have offsets", "arXiv:2310.10505, section 4")
def its_variance_is_below_reinforces_when_rewards_have_offsets() -> Finding:
    offsets, variance = (0.0, 2.0, 5.0), {"ReMax": list[float](), "REINFORCE": list[float]()}
    for offset in offsets:
        group = bandit(0.4)
        group.rewards = [reward + offset for reward in group.rewards]
        variance["ReMax"].append(group.moments(REMAX, 1, [greedy_row(group)])[1])
        variance["REINFORCE"].append(group.moments(REINFORCE, 1)[1])
    remax, reinforce = variance.values()
    holds = max(remax) - min(remax) < EXACT and math.fsum(remax) < math.fsum(reinforce) / 5
    sizes = {name: str([round(one, 4) for one in some]) for name, some in variance.items()}
    return Finding(holds, f"offsets {offsets}: {say(**sizes)} (without an offset, the smaller)")


@claim("The advantage fades as the policy becomes deterministic")
def the_advantage_fades_as_the_policy_becomes_deterministic() -> Finding:
    sizes = []
    for success in (0.6, 0.9, 0.99, 0.9999):
        group = bandit(success)
        documents = [(chance, document([group.row(n), greedy_row(group)])) for chance, (n,) in group.samples(1)]
        sizes.append(sum(chance * abs(first_advantages(REMAX, one)[0]) for chance, one in documents))
    holds = sizes == sorted(sizes, reverse=True) and sizes[-1] < 1e-3
    return Finding(holds, f"E|A| at p = 0.6, 0.9, 0.99, 0.9999: {[round(one, 5) for one in sizes]}")


@claim("With rewards per token it is the return-to-go minus the baseline", "verl, compute_remax_outcome_advantage")
def with_rewards_per_token_it_is_the_return_to_go_minus_the() -> Finding:
    rows = [
        {"group": "0", "scores": {"r": 1.0}, "logp": [-1.0] * 3, "token_scores": {"kl": [-0.1, -0.2, -0.3]}},
        {"group": "0", "scores": {"r": 0.5}, "logp": [-1.0], "source": "baseline", "token_scores": {"kl": [0.0]}},
    ]
    ours = inspect_rows(REMAX.but({"credit.to_go": True}), rows)["advantages"][0]
    off = difference(ours, [1 - 0.6 - 0.5, 1 - 0.5 - 0.5, 1 - 0.3 - 0.5])
    plain = difference(inspect_rows(REMAX, rows)["advantages"][0], [1 - 0.6 - 0.5] * 3)
    return Finding(max(off, plain) < EXACT, f"advantages {[round(one, 3) for one in ours]}")


@claim("It learns with one sample per prompt", slow=True)
def it_learns_with_one_sample_per_prompt() -> Finding:
    (benches,) = runs(guessing(4, 3), REMAX, steps=150, every=150, lr=0.1).values()
    before, after = benches[0].readings[0].success, [bench.success() for bench in benches]
    figures = say(success_at_first=before, after_150_steps=after)
    return Finding(min(after) > 0.9, f"with one sample per prompt: {figures}")


claim.spares("remax: objective.horizon = 5120", "no length divides a sum")

claim.shipped(REMAX, without={"credit": REINFORCE.credit})
