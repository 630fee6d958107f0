"""SPO's claims."""

import math
from statistics import mean

import numpy as np

from hocket.core.keys import Key
from hocket.lab.bench import Bench
from hocket.lab.claims.harness import EXACT, SEEDS, Claims, Finding, below, gap, inspect_rows, say
from hocket.lab.toys.control import ADVANTAGES, LONGEST, cart_pole, slope
from hocket.lab.toys.quick_worlds import summing
from hocket.methods.base.grpo import GRPO
from hocket.methods.base.ppo import PPO
from hocket.methods.group_relative.spo import SPO, QuadraticDrift
from hocket.objectives.drift import DriftSurrogate

claim = Claims("spo", "arXiv 2401.16025")


@claim("The slope is zero at r = 1 + eps sign(A) for every A.")
def the_slope_is_zero_at_r_1_eps_sign_for_every_a() -> Finding:
    return below(EXACT, largest_slope=max(abs(slope(SPO, 1 + 0.2 * math.copysign(1, a), a)) for a in ADVANTAGES))


@claim("At r = 1 the slope is the policy gradient's.")
def at_r_1_the_slope_is_the_policy_gradients() -> Finding:
    return below(EXACT, slope_minus_A=gap([slope(SPO, 1.0, a) for a in ADVANTAGES], ADVANTAGES))


@claim("Outside the range the slope has the opposite sign, where PPO's is 0.")
def outside_the_range_the_slope_has_the_opposite_sign_where_ppos_is() -> Finding:
    beyond = [(1 + math.copysign(far, a), a) for a in ADVANTAGES for far in (0.21, 0.4, 0.8)]
    back, silent = all(slope(SPO, r, a) * a < 0 for r, a in beyond), all(slope(PPO, r, a) == 0 for r, a in beyond)
    return Finding(back and silent, say(places=len(beyond), SPO_points_back=back, PPO_is_0=silent))


claim.spares("spo: objective.horizon = 5120", "no length divides this aggregate")


@claim("The same term stands in for the clip of a token policy.", "derived", slow=True)
def the_same_term_stands_in_for_the_clip_of_a_token_policy() -> Finding:
    objective = DriftSurrogate(drift=QuadraticDrift(0.2), aggregate="sequence-mean")
    recipe = GRPO.but(name="grpo-spo", objective=objective)
    noise, rows, logs, gaps = Key.of(1).numpy(), [], [], []
    for number, length in enumerate((3, 1, 5, 2)):
        old = -noise.uniform(0.1, 2.0, length)
        logs.append(noise.normal(scale=0.3, size=length))
        row = {"logp": (old + logs[-1]).tolist(), "logp_behaviour": old.tolist()}
        rows.append({**row, "group": "g", "scores": {"reward": float(number % 2)}})
    made = inspect_rows(recipe, rows)
    for log, advantages, gradients in zip(logs, made["advantages"], made["gradient"], strict=True):
        ratio, a = np.exp(log), np.array(advantages)
        gaps.append(gap((-ratio * (a - np.abs(a) * (ratio - 1) / 0.2) / len(ratio) / 4).tolist(), gradients))
    bench = Bench(summing(4, 5, 3), recipe.but({"update.epochs": 4}), seed=0)
    start, end = bench.success(), bench.run(40).success()
    return Finding(max(gaps) < EXACT and end > start + 0.3, say(gradient_off_by=max(gaps), success=f"{start} -> {end}"))


@claim(
    "With many epochs per batch |r - 1| stays near eps while PPO's grows; the return is within a tenth of PPO's.",
    slow=True,
)
def with_many_epochs_per_batch_r_1_stays_near_eps_while_ppos_grows() -> Finding:
    made = {name: [cart_pole(name, seed, 5, 16) for seed in SEEDS] for name in ("spo", "ppo")}
    last = {name: mean(run.furthest[-1] for run in some) for name, some in made.items()}
    most = max(value for run in made["spo"] for value in run.furthest)
    returns = {name: [run.score for run in some] for name, some in made.items()}
    holds = most < 0.4 and last["spo"] < last["ppo"] / 2 and mean(returns["spo"]) > mean(returns["ppo"]) - 0.1 * LONGEST
    return Finding(holds, say(largest_distance_of_r_from_1_in_the_last_step=last, ever=most, returns=returns))


claim.shipped(SPO, "objective")
