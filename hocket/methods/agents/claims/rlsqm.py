"""RLSQM's claims."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Mapping
from typing import Any

import torch

import hocket
from hocket.core.keys import Key
from hocket.lab.bench import Bench
from hocket.lab.claims.harness import Claims, Finding, same_gradient, say
from hocket.lab.toys.instances import Instances, nothing
from hocket.lab.world import Answer
from hocket.methods.agents.rlsqm import (
    LONGEST,
    METRICS,
    RLSQM,
    RLSQM_REWARD,
    StaticQuality,
    UnitTests,
    examined,
    quality,
)
from hocket.methods.base.ppo import PPO_RLHF
from hocket.objectives.scores import RegressedScore
from hocket.rewards.judge import TextJudge, fit_scores
from hocket.stages import Reward

claim = Claims("rlsqm", "arXiv:2310.02368 (abstract); metrics in Python's terms")


@claim("Hand cases: what parses, asserts, calls, repeats an assertion or has conditional logic is told.")
def hand_cases_what_parses_asserts_calls_repeats_an_assertion_or() -> Finding:
    cases = {
        "def test_f():\n assert f(1)==2\n assert f(2)==4": "11111",
        "def test_f():\n assert f(1)==2\n assert f(1) == 2": "11101",
        "def test_f():\n f(1)\n f(1)": "10111",
        "def test_f():\n assert 1==1": "11011",
        "def test_f():\n assert g(1)==2": "11011",
        "def test_f():\n assert x.f(1)==2": "11011",
        "def test_f():\n if a:\n  assert f(1)==2": "11110",
        "def test_f():\n for a in b: assert f(a)": "11110",
        "def test_f():\n while f(1): pass": "10110",
        "def test_f():\n try: f(1)\n except E: pass": "10110",
        "def test_f():\n assert all(f(a) for a in b)": "11110",
        "def test_f():\n assert (1 if f(1) else 2)": "11110",
        "<think>easy</think>\ndef test_f():\n f(1)": "10111",
        "def test_f(:\n assert f(1)==2": "00000",
        "def f():\n assert f(1)==2": "00000",
        "assert f(1)==2": "00000",
        "def test_f():\n f(1)\nimport os": "00000",
        "def test_f():\n f(1)\n#" + "x" * LONGEST: "00000",
        "def test_f():\n f(1)\n" + "#" * (LONGEST - 21): "10111",
        "": "00000",
    }
    wrong = [text[:40] for text, marks in cases.items() if examined(text, "f") != _marks(marks)]
    return Finding(not wrong, say(cases=len(cases), wrong="; ".join(wrong) or 0))


def _marks(marks: str) -> dict[Any, bool]:
    return {name: mark == "1" for name, mark in zip(METRICS, marks, strict=True)}


@claim("The checkers pay 1 or 0 for one metric and the share for all; recipe and task begin with all.")
def the_checkers_pay_1_or_0_for_one_metric_and_the_share_for_all() -> Finding:
    text, scenario = "def test_f():\n if a:\n  f(1)", UnitTests().scenario("train", 0)
    paid = [quality(text, "f", one) for one in (*METRICS, "all")]
    (shipped,) = RLSQM.rewards
    named = UnitTests().name == "unit-tests" and UnitTests("calls").name == "unit-tests?metric=calls"
    same = shipped == StaticQuality("all", weight=1.0) and UnitTests().verify(text, scenario) in (0.4, 0.6)
    try:
        said = str(UnitTests("call"))
    except hocket.ConfigurationError as error:
        said = str(error)
    return Finding(paid == [1, 0, 1, 1, 0, 0.6] and same and named and "or all, not 'call'" in said, say(paid=paid))


@claim("What learns is PPO with a KL leash in the reward; the metrics are all that is added.")
def what_learns_is_ppo_with_a_kl_leash_in_the_reward_the_metrics() -> Finding:
    return same_gradient(RLSQM, PPO_RLHF, 10, "rlsqm")


FITTED: Mapping[str, tuple[int, float]] = {
    "asserts": (80, 3e-4),
    "straight": (80, 3e-4),
    "calls": (150, 3e-4),
    "parses": (150, 3e-4),
    "distinct": (500, 1e-3),
}
"""Steps of 32 labelled tests and learning rate: lines must be compared to tell `distinct`, which takes the longest."""


def fitted(metric: str) -> float:
    """The share of 500 unseen verdicts that a reward model tells right."""
    steps, rate = FITTED[metric]
    quiet: dict[str, Any] = {"evaluation.n": 500, "evaluation.every": 0, "threads": 1, "precision": "fp32"}
    with tempfile.TemporaryDirectory() as folder:
        quiet |= {"update.lr": rate, "curriculum.prompts": 32}
        name = f"unit-tests?metric={metric}"
        run = hocket.train(name, recipe=RLSQM_REWARD, steps=steps, runs=folder, **quiet)
        return float(run.summary["after"]["labels/accuracy"])


@claim("Reward models of asserting, calling and straight tests tell 95% or more of unseen verdicts right.", slow=True)
def reward_models_of_asserting_calling_and_straight_tests_tell_95() -> Finding:
    right = {metric: fitted(metric) for metric in ("asserts", "straight", "calls")}
    return Finding(min(right.values()) >= 0.95, say(right=right))


@claim("That of what parses does after 150 steps, that of repeated assertions after 500.", slow=True)
def that_of_what_parses_does_after_150_steps_that_of_repeated() -> Finding:
    right = {metric: fitted(metric) for metric in ("parses", "distinct")}
    return Finding(min(right.values()) >= 0.95, say(right=right))


# ---------------------------------------------------------------- what is learnt

LINES = (" assert f(1)==2", " assert f(3)==4", " f(5)", " if a: assert f(6)==7", " assert 8==9", " assert (")
"""Tests are three of these."""


def spelt(answer: Answer) -> str:
    """The test that an answer spells."""
    return "\n".join(["def test_f():", *(LINES[line] for line in answer)])


TESTS = [spelt(answer) for answer in itertools.product(range(len(LINES)), repeat=3)]
WORLD = Instances(
    *(1, len(LINES), 3, nothing),
    text=lambda question, answer: spelt(answer),
    count=32,
    about=lambda number: {"question": 0, "focal": "f"},
)


def reward_models(seed: int) -> dict[str, TextJudge]:
    """One fitted for each metric to the verdicts on 400 tests of the policy that begins, and one for their share."""
    rng = Key.of(seed).derive("drawn").numpy()
    texts = [TESTS[place] for place in rng.integers(len(TESTS), size=400).tolist()]
    names = (*METRICS, "all")
    verdicts = torch.tensor([[quality(text, "f", name) for name in names] for text in texts])
    model = fit_scores(texts, verdicts, ridge=0.1)
    return {name: TextJudge(model, head) for head, name in enumerate(names)}


STEPS = 30


def learnt(reward: Reward, seed: int) -> tuple[dict[str, float], dict[str, float]]:
    """How often each metric holds before and after `STEPS` steps, exactly."""
    bench = Bench(WORLD, RLSQM.but({"rewards": (reward,)}), seed=seed, steps=STEPS, prompts=32)
    before = held(bench)
    bench.run(STEPS, every=STEPS)
    return before, held(bench)


def held(bench: Bench) -> dict[str, float]:
    """How often each metric holds."""

    def share(metric: str) -> float:
        return bench.expected(lambda question, answer: quality(spelt(answer), "f", metric))

    return {name: share(name) for name in METRICS}


@claim(
    "One metric paid by its reward model is lifted; paid jointly all are, none falls, and nearly all tests parse. The "
    "checkers as reward do the same.",
    slow=True,
)
def one_metric_paid_by_its_reward_model_is_lifted_paid_jointly_all() -> Finding:
    alone, joint, valid = list[float](), dict[str, list[float]](), dict[str, list[float]]()
    for seed in (3,):
        models = reward_models(seed)
        for metric in METRICS:
            before, after = learnt(models[metric], seed)
            alone.append(after[metric] - before[metric])
        for name, reward in (("model", models["all"]), ("checkers", StaticQuality())):
            before, after = learnt(reward, seed)
            joint.setdefault(name, []).extend(after[one] - before[one] for one in METRICS)
            valid.setdefault(name, []).append(after["parses"])
    holds = min(alone) > 0.1 and min(map(min, joint.values())) > 0.05 and min(map(min, valid.values())) > 0.97
    return Finding(holds, say(one_metric_gains=alone, joint_gains=joint, parses=valid))


claim.spares("rng.random() < 0.5 -> rng.random() >= 0.5", "either way is as likely")
claim.shipped(RLSQM_REWARD, without={"objective": RegressedScore(of="label")})
claim.shipped(
    RLSQM,
    "rewards",
    without={"rewards": (StaticQuality("distinct"),)},
    first={"recipe": "sft", "steps": 40, "update.lr": 0.003},
)
