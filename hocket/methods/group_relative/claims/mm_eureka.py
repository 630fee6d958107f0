"""MM-Eureka's claims."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from hocket.core.keys import Key
from hocket.lab.claims.harness import EXACT, Claims, Finding, gap, inspect_rows, say
from hocket.lab.toys.pictured_runs import AnswerLabels, PicturedRun
from hocket.lab.toys.recorded_answers import advantages, answer, lines, shaped
from hocket.methods.base.sft import SFT
from hocket.methods.group_relative.mm_eureka import MM_EUREKA
from hocket.rollout.dynamic import DynamicSampling, has_signal
from hocket.tasks.digits import Digits
from hocket.types import Scenario, Score, Trajectory, Turn

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


@claim("A ratio beyond 0.2 on its side has no gradient, as in PPO, and there is no KL.")
def a_ratio_beyond_0_2_on_its_side_has_no_gradient() -> Finding:
    def gradients(*moved: float) -> list[float]:
        pairs = zip((1.0, 0.0), moved, strict=True)
        rows = [{**answer(verdict, 1), "logp_behaviour": [-1.0 - by]} for verdict, by in pairs]
        return [row[0] for row in inspect_rows(MM_EUREKA, rows)["gradient"]]

    beyond, within = gradients(math.log(1.21), math.log(0.79)), gradients(math.log(1.19), math.log(0.81))
    other = gradients(math.log(0.79), math.log(1.21))  # On the other side nothing is clipped.
    holds = beyond == [0.0, 0.0] and 0.0 not in (*within, *other) and not MM_EUREKA.regularisers
    return Finding(holds, lines(within=within, other_side=other))


@claim("Groups whose verdicts are all equal are dropped, their tags aside, and others are sampled in their place.")
def groups_whose_verdicts_are_all_equal_are_dropped() -> Finding:
    rollout = MM_EUREKA.rollout
    assert isinstance(rollout, DynamicSampling)
    texts, counts = (WORKED, "<answer>7</answer>"), []
    for verdicts in ((1.0, 1.0), (0.0, 0.0), (1.0, 0.0)):
        turns = [Turn("p", "p", np.zeros(1), np.zeros(1), text=text) for text in texts]
        scores = [{"correct": Score(verdict)} for verdict in verdicts]
        pairs = zip(turns, scores, strict=True)
        counts.append(has_signal([Trajectory(Scenario("s", "?"), [turn], scores=score) for turn, score in pairs]))
    constants = (rollout.samples, rollout.max_rounds, rollout.score, rollout.enough)
    return Finding(counts == [False, False, True] and constants == (8, 3, None, 1.0), say(with_signal=str(counts)))


def more_than_from_supervised_fine_tuning(seed: int) -> Finding:
    steps, n = 20, 100
    run = PicturedRun.of(MM_EUREKA, "digits", seed=seed)
    before = run.measured(n).success
    after, blind = run.train(steps).measured(n).success, run.blind(n).success
    settings = {"curriculum.prompts": 16, "update.lr": 3e-4, "seed": seed}
    taught = PicturedRun.of(SFT, AnswerLabels(Digits()), **settings).train(steps).measured(n).success
    holds = after > before + 0.1 and after > taught + 0.1 and blind < 0.4
    return Finding(holds, lines(before=before, after_rl=after, after_sft=taught, blind=blind))


for _seed in range(3):
    claim(
        f"As shipped it ends 10 points above supervised fine-tuning on equal labels, seed {_seed}; blind not.",
        slow=True,
        learns=True,
    )(partial(more_than_from_supervised_fine_tuning, _seed))


claim.shipped(MM_EUREKA, settings={"model": "nano-vlm"})
