"""What mapo claims."""

from __future__ import annotations

import math
import statistics

from hocket import recipes
from hocket.core.signals import returns
from hocket.lab.bench import Bench
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.groups import first_advantages, recorded
from hocket.lab.toys.group_statistics import EXACT, GRPO_EXACT, _binary_groups, finding
from hocket.lab.toys.group_statistics_training import SEEDS, guessing, mixed, recipe_of, spread

claim = Claims("mapo", "arXiv:2509.18849")


@claim("The table of binary groups: GRPO at p = 1/2, no mirror symmetry, rare successes up, rare failures down")
def _mapo_table() -> Finding:
    size = 8
    mapo = recipes.find("mapo").but({"credit.weigh.0.ddof": 0, "credit.weigh.0.epsilon": 0.0})
    plain = GRPO_EXACT.but({"credit.ddof": 0})
    groups = _binary_groups(size)
    mixed, normal = first_advantages(mapo, recorded(groups)), first_advantages(plain, recorded(groups))
    worst, mirrored, ordered = 0.0, True, True
    for right, group in enumerate(groups):
        own = dict(zip(group, mixed[right * size : right * size + size], strict=True))
        other = dict(zip(group, normal[right * size : right * size + size], strict=True))
        rate = right / size
        lam = 1 - 4 * rate * (1 - rate)
        for reward, advantage in own.items():
            if 0 < right < size:
                standard = (reward - rate) / math.sqrt(rate * (1 - rate))
                expected = (1 - lam) * standard + lam * (reward - rate) / rate
            else:
                expected = 0.0
            worst = max(worst, abs(advantage - expected))
        if 0 < right < size and right != size / 2:
            back = dict(zip(groups[size - right], mixed[(size - right) * size :][:size], strict=True))
            mirrored &= abs(own[1.0] + back[0.0]) < EXACT
            ordered &= abs(own[0.0]) < abs(other[0.0]) if rate > 0.5 else own[1.0] > other[1.0]
    one_right, one_wrong = mixed[size : 2 * size][0], mixed[(size - 1) * size : size * size][-1]
    half = mixed[4 * size : 5 * size] == normal[4 * size : 5 * size]
    return finding(
        f"table within {worst:.1e}; one right {one_right:.3f} (GRPO 2.646), one wrong {one_wrong:.3f} (GRPO -2.646); "
        f"mirror symmetric: {mirrored}; half right equals GRPO: {half}",
        worst < EXACT,
        not mirrored,
        ordered,
        half,
        round(one_right, 3) == 5.095,
        round(one_wrong, 3) == -1.720,
    )


def _near_solved_sizes(bench: Bench, steps: int) -> list[float]:
    """|advantage| in mixed groups of which more than half are right, over `steps` further steps."""
    sizes: list[float] = []
    for _ in range(steps):
        batch = bench.step().batch
        assert batch is not None
        seen, value = batch.occurrences, returns(batch)
        for scenario in set(batch.scenario.tolist()):
            members = batch.scenario == scenario
            rate = float(value[members].mean())
            if 0.5 < rate < 1:
                sizes += seen.advantage[members[seen.trajectory]].abs().tolist()
    return sizes


@claim("No worse than GRPO on mixed difficulty, with smaller advantages on nearly solved prompts", slow=True)
def _mapo_on_mixed_difficulty() -> Finding:
    world = guessing()
    final: dict[str, list[float]] = {}
    sizes: dict[str, list[float]] = {"grpo": [], "mapo": []}
    for name in sizes:
        final[name] = []
        for seed in SEEDS:
            bench = Bench(world, recipe_of(name), seed=seed, start=mixed)
            sizes[name] += _near_solved_sizes(bench, 100)
            final[name].append(bench.success())
    small, large = statistics.fmean(sizes["mapo"]), statistics.fmean(sizes["grpo"])
    return Finding(
        statistics.fmean(final["mapo"]) > statistics.fmean(final["grpo"]) - 0.03 and small < 0.8 * large,
        f"success MAPO {spread(final['mapo'])}, GRPO {spread(final['grpo'])}; mean |A| on prompts more than half "
        f"solved {small:.3f} and {large:.3f}",
    )
