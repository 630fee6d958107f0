"""RL-PLUS's claims."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean, stdev
from typing import Any

import torch

from hocket.core.keys import Key
from hocket.lab.claims.harness import Claims, Finding, below, gap, inspect_rows, runs, say
from hocket.lab.toys.hard_half import HARD_HALF, on_hard
from hocket.lab.toys.recorded_answers import advantages, lines, sample
from hocket.methods.base.grpo import GRPO
from hocket.methods.data_and_rollout.rl_plus import RL_PLUS, mixture_ratio
from hocket.train.aio import run_async
from hocket.train.ledger import Ledger
from hocket.types import Assignment, Scenario, Trajectory

claim = Claims("rl-plus", "arXiv:2508.00222; YihongDong/RL-PLUS")


def mixed(number: int) -> list[dict[str, Any]]:
    """Three groups of four own answers of an older policy, and one of an expert in two of them."""
    rng, rows = Key.of(number).numpy(), list[dict[str, Any]]()
    for group in range(3):
        for place in range(5 if group else 4):
            size = int(rng.integers(1, 5))
            old = (-rng.exponential(size=size) - 0.01).tolist()
            now = [min(one + 0.4 * float(rng.normal()), -0.001) for one in old]
            expert = place == 4
            reward = 1.0 if expert else float(rng.integers(0, 2)) if group < 2 else 0.0
            source = "expert" if expert else "own"
            rows.append(sample(str(group), reward, now, logp_behaviour=old, source=source))
    return rows


def credit(rows: Sequence[Mapping[str, Any]]) -> list[float]:
    """Each answer's advantage as the paper has it, counted anew."""
    found = []
    for row in rows:
        own = [r["scores"]["reward"] for r in rows if r["group"] == row["group"] and r["source"] == "own"]
        spread = stdev(own)
        found.append((row["scores"]["reward"] - fmean(own)) / ((spread or 1.0) + 1e-6))
    return found


claim.reduces(
    "Without an expert's answers its gradient is GRPO's.", RL_PLUS, GRPO, "rl-plus", source="derived", gap=0.5
)


@claim("Where no source is an expert all are the policy's own, whatever their sources are called.", "derived")
def where_no_source_is_an_expert_all_are_the_policys_own_whatever() -> Finding:
    rewards = ((1.0, "first"), (0.0, "second"), (0.0, "first"), (0.0, "second"))
    rows = [sample("q", reward, [-1.0], source=source) for reward, source in rewards]
    return below(1e-9, off_those_of_GRPO=gap(advantages(RL_PLUS, rows), advantages(GRPO, rows)))


@claim("All are compared with the own samples' mean and deviation; where these are equal the deviation is 1.")
def all_are_compared_with_the_own_samples_mean_and_deviation_where() -> Finding:
    off = max(gap(advantages(RL_PLUS, rows), credit(rows)) for rows in map(mixed, range(20)))
    beside = advantages(
        RL_PLUS, [sample("q", float(n == 3), [-1.0], source="own" if n < 3 else "expert") for n in range(4)]
    )
    return Finding(off < 1e-9 and gap(beside, [0, 0, 0, 1]) < 1e-5, say(off_by_hand=off, beside_failures=str(beside)))


@claim(
    "Loss and gradient are the clipped surrogate on own samples and -2 pi/(w + pi_old) A (1 - pi)^(1/2) on others, "
    "w = (pi_old + 1)/2, the factor (1 - pi)^(1/2) a constant."
)
def loss_and_gradient_are_the_clipped_surrogate_on_own_samples_and() -> Finding:
    off = 0.0
    for rows in map(mixed, range(20)):
        parts, leaves = [], []
        for row, advantage in zip(rows, credit(rows), strict=True):
            logp = torch.tensor(row["logp"], dtype=torch.float64, requires_grad=True)
            old = torch.tensor(row["logp_behaviour"], dtype=torch.float64)
            ratio = (logp - old).exp()
            gain = torch.minimum(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage)
            if row["source"] == "expert":
                unlikely = (1 - logp.detach().exp()).sqrt()
                gain = 2 * logp.exp() / (0.5 * (old.exp() + 1) + old.exp()) * advantage * unlikely
            parts.append(-gain.mean())
            leaves.append(logp)
        loss = torch.stack(parts).mean()
        loss.backward()  # type: ignore[no-untyped-call]
        seen = inspect_rows(RL_PLUS, rows)
        own = [leaf.grad.tolist() for leaf in leaves if leaf.grad is not None]
        off = max(off, abs(seen["loss"] - float(loss.detach())), gap(seen["gradient"], own))
    return below(1e-9, loss_and_gradient_off=off)


@claim("The mixture ratio is at most 2 pi/(1/2 + 3/2 pi_old), so at most 4; pi/mu has no bound.", "derived")
def the_mixture_ratio_is_at_most_2_pi_so_at_most_4_pi_mu_has_no() -> Finding:
    grid = torch.logspace(-9, 0, 200, dtype=torch.float64)
    now, old = torch.meshgrid(grid, grid, indexing="ij")
    ratio = mixture_ratio(now, old, 1.0)
    off = gap(ratio, 2 * now / (0.5 + 1.5 * old))
    return Finding(
        off < 1e-12 and float(ratio.max()) <= 4.0,
        say(largest=float(ratio.max()), of_pi_over_mu=float((now / old).max())),
    )


@claim("An expert's token that the policy is sure of has weight 0; the less likely a token, the larger its weight.")
def an_experts_token_that_the_policy_is_sure_of_has_weight_0_the() -> Finding:
    chances = (0.01, 0.3, 0.9, 1.0)
    rows = [sample("q", float(n == 3), [-1.0] * 4, source="own") | {"scores": {"reward": 0.0}} for n in range(3)]
    rows.append(sample("q", 1.0, [math.log(one) for one in chances], source="expert"))
    plain = RL_PLUS.but({"objective.novelty": 0.0})
    slopes, bare = (inspect_rows(recipe, rows)["gradient"][-1] for recipe in (RL_PLUS, plain))
    factor = [one / other for one, other in zip(slopes, bare, strict=True)]
    return Finding(gap(factor, [math.sqrt(1 - one) for one in chances]) < 1e-7, say(factors=str(factor)))


@claim(
    "Told are the share of own decisions that the clip stops and the mean mixture ratio, of what is learnt from alone."
)
def told_are_the_share_of_own_decisions_that_the_clip_stops_and_the() -> Finding:
    def row(group: str, reward: float, source: str, drift: list[float], last: bool = True) -> dict[str, Any]:
        logp = [-1.0] * len(drift)
        old = [now - one for now, one in zip(logp, drift, strict=True)]
        trained = [True] * (len(drift) - 1) + [last]
        return sample(group, reward, logp, logp_behaviour=old, source=source, trained=trained)

    # Clipped are the first of each answer of q; none of z has an advantage, nor counts what is not learnt from.
    rows = [row("q", 1.0, "own", [0.3, 0.1]), row("q", 0.0, "own", [-0.3, -0.3], last=False)]
    rows += [row("q", 1.0, "expert", [0.2, -2.0], last=False), row("z", 0.0, "expert", [-3.0])]
    rows += [row("z", 0.0, "own", [0.5, 0.0]), row("z", 0.0, "own", [0.5, 0.0])]
    told, old = inspect_rows(RL_PLUS, rows)["metrics"], math.exp(-1.2)
    wanted = {"ratio/clipped": 2 / 3, "ratio/mixed": 2 * math.exp(-1) / (0.5 * (old + 1) + old)}
    return below(1e-9, **{name.replace("/", "_"): abs(told[name] - value) for name, value in wanted.items()})


@claim("As shipped one of eight answers to a question is an expert's.")
def as_shipped_one_of_eight_answers_to_a_question_is_an_experts() -> Finding:
    asked = list[Assignment]()

    async def play(asking: Sequence[Assignment]) -> list[Trajectory]:
        asked.extend(asking)
        return []

    async def score(played: Sequence[Trajectory]) -> None:
        pass

    one = Assignment(Scenario("q", "q", metadata={"demonstration": "so"}))
    run_async(RL_PLUS.rollout.collect([one], play=play, score=score, ledger=Ledger(), key=Key.of(0)))
    seen = [(one.source, one.samples) for one in asked]
    return Finding(seen == [("own", 7), ("expert", 1)], say(sources=str(seen)))


@claim("Hard questions that GRPO never learns are learnt from an expert's answers; easy ones are kept.", slow=True)
def hard_questions_that_grpo_never_learns_are_learnt_from_an() -> Finding:
    made = runs(HARD_HALF, RL_PLUS, GRPO, steps=40, every=50, seeds=range(3), lr=0.1)
    found = {name: [on_hard(bench) for bench in group] for name, group in made.items()}
    both = {name: [bench.success() for bench in group] for name, group in made.items()}
    easy = {name: [2 * b - h for b, h in zip(both[name], found[name], strict=True)] for name in found}
    holds = min(found["rl-plus"]) > 0.8 and max(found["grpo"]) < 0.05 and min(easy["rl-plus"]) > 0.9
    return Finding(holds, lines(hard=found, easy=easy))


claim.spares("rl-plus: objective.horizon = 5120", "no length divides a mean over sequences")
claim.shipped(RL_PLUS, "rollout", sees=lambda run: {"mixture ratio": run.mean("ratio/mixed")})
claim.shipped(RL_PLUS, "credit")
claim.shipped(RL_PLUS, "objective")
