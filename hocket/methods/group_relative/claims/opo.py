"""OPO's claims."""

from typing import Any

from hocket.core.keys import Key
from hocket.lab.claims.harness import EXACT, Claims, Finding, batches, below, gap, inspect_rows, say
from hocket.methods.base.grpo import GRPO
from hocket.methods.group_relative.opo import OPO

claim = Claims("opo", "arXiv:2505.23585")


def group(seed: int, size: int = 5) -> list[dict[str, Any]]:
    """Answers of random lengths and rewards to one question."""
    rng = Key.of(seed).numpy()
    rewards, lengths = rng.random(size), rng.integers(1, 9, size)
    return [
        {"group": "g", "scores": {"reward": float(reward)}, "logp": [-1.0] * int(length)}
        for reward, length in zip(rewards, lengths, strict=True)
    ]


@claim("The baseline is the mean return weighted by lengths, and every decision counts alike.")
def the_baseline_is_the_mean_return_weighted_by_lengths_and_every() -> Finding:
    off = 0.0
    for seed in range(20):
        rows = group(seed)
        pairs = [(len(row["logp"]), row["scores"]["reward"]) for row in rows]
        baseline = sum(length * reward for length, reward in pairs) / sum(length for length, _ in pairs)
        wanted = [[reward - baseline] * length for length, reward in pairs]
        made, count = inspect_rows(OPO, rows), sum(length for length, _ in pairs)
        off = max(
            off, gap(made["advantages"], wanted), gap(made["gradient"], [[-a / count for a in own] for own in wanted])
        )
    return below(EXACT, off_the_formula=off)


@claim(
    "Of all baselines of a group it has the least variance where squared gradients grow with length.",
    "derived: sum_i l_i (R_i - b)^2 is least at b",
)
def of_all_baselines_of_a_group_it_has_the_least_variance_where() -> Finding:
    least = []
    for seed in range(20):
        rows = group(seed)
        advantages = [(len(row), row[0]) for row in inspect_rows(OPO, rows)["advantages"]]
        spread = {shift: sum(n * (a - shift) ** 2 for n, a in advantages) for shift in (-0.1, -0.01, 0.0, 0.01, 0.1)}
        least.append(min(spread, key=spread.__getitem__) == 0.0)
    return Finding(all(least), say(groups=len(least), least_at_the_baseline=sum(least)))


@claim("With answers of one length it is GRPO without the deviation, and a constant group gives 0.", "derived")
def with_answers_of_one_length_it_is_grpo_without_the_deviation_and() -> Finding:
    plain, off = GRPO.but({"credit.scale": None}), 0.0
    for seed in range(20):
        rows = [{**row, "logp": [-1.0] * 3} for row in group(seed)]
        off = max(off, gap(inspect_rows(OPO, rows)["advantages"], inspect_rows(plain, rows)["advantages"]))
    same = inspect_rows(OPO, [{**row, "scores": {"reward": 0.3}} for row in group(0)])["advantages"]
    return below(EXACT, not any(map(any, same)), off_the_plain_mean=off)


@claim("Advantages of a group, counted by token, sum to 0.", "derived")
def advantages_of_a_group_counted_by_token_sum_to_0() -> Finding:
    off = 0.0
    for document in batches(20, "opo"):
        sums: dict[str, float] = {}
        rows = document["trajectories"]
        weights = [row.get("weight", 1.0) for row in rows]
        for row, one, weight in zip(rows, inspect_rows(OPO, rows)["advantages"], weights, strict=True):
            sums[row["group"]] = sums.get(row["group"], 0.0) + (sum(one) if weight else 0.0)
        off = max(off, *map(abs, sums.values()))
    return below(1e-9, largest_sum=off)


claim.shipped(OPO, "credit")
