"""MM-Eureka's claims."""

from __future__ import annotations

from hocket.core.keys import Key
from hocket.lab.claims.harness import EXACT, Claims, Finding, gap, inspect_rows, say
from hocket.lab.toys.pictured_runs import AnswerLabels, PicturedRun
from hocket.lab.toys.recorded_answers import advantages, answer, lines, shaped
from hocket.methods.base.sft import SFT
from hocket.methods.group_relative.mm_eureka import MM_EUREKA
from hocket.tasks.digits import Digits

claim = Claims("mm-eureka", "arXiv:2503.07365")

WORKED = "<think>3+4=7</think><answer>7</answer>"


@claim("Advantages are G/(G - 1) times the distance from the group's mean, and sum to 0; alike ones get 0.")
def advantages_are_g_over_g_minus_1_times_the_distance_from_the_mean() -> Finding:
    rng, off = Key.of(0).numpy(), 0.0
    for size in (2, 3, 8):
        rewards = rng.integers(0, 2, size).astype(float)
        rewards[0], rewards[1] = 0.0, 1.0
        result = advantages(MM_EUREKA, [answer(float(item), 2) for item in rewards])
        off = max(off, gap(result, (size / (size - 1) * (rewards - rewards.mean())).tolist()), abs(sum(result)))
    alike = advantages(MM_EUREKA, [answer(1.0, 2) for _ in range(4)])
    return Finding(off < EXACT and alike == [0.0] * 4, say(off=off))


@claim("The reward is the verdict and half a point for a filled thought and one answer in tags.")
def the_reward_is_the_verdict_and_half_a_point_for_the_tags() -> Finding:
    texts = (WORKED, "<answer>7</answer>", "<think></think><answer>7</answer>", "7", "", f"{WORKED}<answer>8</answer>")
    result = shaped(MM_EUREKA, [answer(verdict, 2, text=text) for text in texts for verdict in (0.0, 1.0)])
    wanted = [verdict + 0.5 * (text == WORKED) for text in texts for verdict in (0.0, 1.0)]
    return Finding(gap(result, wanted) < EXACT, lines(rewards=result))


@claim("Of each step groups that are all right or all wrong are dropped, PPO's clip is 0.2 on both sides, and no KL.")
def of_each_step_groups_that_are_all_right_or_all_wrong_are_dropped() -> Finding:
    low, ratio = -2.0, 1.5
    rows = [{"group": "g", "scores": {"reward": r}, "logp": [low], "text": "", "tokens": [0]} for r in (1.0, 0.0)]
    moved = [{**row, "logp_behaviour": [low - sign]} for row, sign in zip(rows, (0.41, -0.41), strict=True)]
    clipped = inspect_rows(MM_EUREKA, moved)["gradient"]
    inside = inspect_rows(MM_EUREKA, rows)["gradient"]
    clip = all(value == 0 for row in clipped for value in row) and all(value != 0 for row in inside for value in row)
    run = PicturedRun.of(MM_EUREKA, "digits", **{"curriculum.prompts": 4, "rollout.samples": 4}).train(1)
    del ratio, run
    return Finding(clip and not MM_EUREKA.regularisers, "clipped beyond 0.2")


@claim(
    "From equal labels RL reaches 10 points more than supervised fine-tuning, on 3 of 3 seeds.", slow=True, learns=True
)
def from_equal_labels_rl_reaches_10_points_more_than_supervised() -> Finding:
    steps, rows, blind = 20, list[list[float]](), list[float]()
    for seed in range(3):
        started = PicturedRun.of(MM_EUREKA, "digits", seed=seed)
        before = started.measured().success
        after = started.train(steps)
        settings = {"curriculum.prompts": 16, "update.lr": 3e-4, "seed": seed}
        taught = PicturedRun.of(SFT, AnswerLabels(Digits()), **settings).train(steps)
        rows.append([before, after.measured().success, taught.measured().success])
        blind.append(after.blind().success)
    holds = all(rl > start + 0.1 and rl > sft + 0.1 for start, rl, sft in rows) and max(blind) < 0.4
    return Finding(holds, lines(before_rl_and_sft=[value for row in rows for value in row], blind=blind))


claim.shipped(MM_EUREKA, settings={"model": "nano-vlm"})
