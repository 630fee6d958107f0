"""Distillation: credit by hand, exact gradients by enumeration, whose text is learnt from, and language models."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from hocket.core.divergences import JensenShannon, SkewedForward, TopActions
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.lab.bench import Bench
from hocket.lab.claims.harness import inspect_rows
from hocket.lab.claims.lesson_data import begin
from hocket.lab.policy import Tabular
from hocket.lab.world import World
from hocket.methods.base.distillation import (
    DISTILLM,
    GKD,
    IW_OPD,
    KD_SFT,
    MINILLM,
    ON_POLICY_DISTILLATION,
    ON_POLICY_DISTILLATION_EXACT,
    SEQ_KD,
    Distillation,
    DistillationText,
    PrefixWeightedLogRatio,
    TeacherLogRatio,
)
from hocket.methods.base.self_distillation import PRIVILEGED_PROMPT, SDFT, PrivilegedLogRatio
from hocket.policies import heads
from hocket.policies.heads import read_head
from hocket.rollout.demonstrations import demonstrated
from hocket.train.aio import run_async
from hocket.types import Assignment, Decoding, Quantity, Scenario, Trajectory, Turn

PAIRS = World(
    questions=2,
    tokens=3,
    horizon=3,
    reward=lambda _, answer: 0.0,
    end=2,
    metadata=lambda _: {"demonstration": "0 1 2"},
)


def table(seed: int) -> Tabular:
    policy = Tabular(PAIRS)
    with torch.no_grad():
        policy.logits.copy_(torch.randn(policy.logits.shape, generator=torch.Generator().manual_seed(seed)))
    return policy


def bench(recipe, seed: int = 0) -> Bench:
    made = Bench(PAIRS, recipe, seed, start=lambda policy: policy.logits.copy_(table(1).logits))
    made.learner.reference = made.parts.player.policies["reference"] = table(2)
    return made


def whole_kl(policy: Tabular, reference: Tabular) -> Tensor:
    """KL(policy || reference) over whole answers, mean over questions."""
    parts = []
    for question in range(PAIRS.questions):
        own, other = policy.logp(question), reference.logp(question).detach()
        parts.append((own.exp() * (own - other)).sum())
    return torch.stack(parts).mean()


# ------------------------------------------------------------ credit


ROW = {"logp": [-1.0, -2.0, -3.0, -0.5], "logp_ref": [-1.5, -1.0, -3.25, -0.25], "scores": {"reward": 0.0}}
RATIOS = [-0.5, 1.0, -0.25, 0.25]


@pytest.mark.parametrize(
    ("credit", "expected"),
    [
        (TeacherLogRatio(), RATIOS),
        (TeacherLogRatio(gamma=1.0), [0.5, 1.0, 0.0, 0.25]),
        (TeacherLogRatio(gamma=0.5), [-0.03125, 0.9375, -0.125, 0.25]),
        (TeacherLogRatio(gamma=1.0, later=True), [1.0, 0.0, 0.25, 0.0]),
        (TeacherLogRatio(gamma=1.0, later=True, mean=True), [1 / 3, 0.0, 0.25, 0.0]),
        (PrefixWeightedLogRatio(), [-0.5 * 1.5, 1.0 * 1.375, -0.25 * 1.125, 0.25 * 1.0625]),
        (PrefixWeightedLogRatio(amplify=0.0), RATIOS),
    ],
    ids=str,
)
def test_credit_by_hand(credit, expected):
    recipe = ON_POLICY_DISTILLATION.but(credit=credit)
    other = {**ROW, "logp_ref": ROW["logp"]}
    shown = inspect_rows(recipe, [{"group": "a", **ROW}, {"group": "a", **other}])["advantages"]
    assert shown[0] == pytest.approx(expected)
    assert shown[1] == pytest.approx([0.0] * 4)


def test_imposed_tokens_are_neither_paid_nor_counted():
    imposed = {**ROW, "trained": [True, False, True, True]}
    shown = inspect_rows(ON_POLICY_DISTILLATION.but(credit=TeacherLogRatio(gamma=1.0)), [{"group": "a", **imposed}])
    assert [shown["advantages"][0][place] for place in (0, 2, 3)] == pytest.approx([-0.5, 0.0, 0.25])


# ------------------------------------------------------------ gradients


def expected_gradient(recipe) -> Tensor:
    """The gradient of the recipe's losses, aggregated by sums, over all answers with their probabilities."""
    made = bench(recipe)
    policy, learner = made.policy, made.learner
    played, shares = [], []
    for question in range(PAIRS.questions):
        scenario = PAIRS.scenario("train", question)
        for answer, logp in zip(PAIRS.answers(), policy.logp(question).exp().tolist(), strict=True):
            rows = policy.path(question, answer)
            own = torch.log_softmax(policy.logits.detach(), -1)[rows, list(answer)]
            turn = Turn(
                agent="agent",
                policy="policy",
                observation=np.array(rows, np.int64),
                action=np.array(answer, np.int64),
                logp=own.numpy().astype(np.float32),
                version=np.zeros(len(rows), np.int64),
                finish="stop",
                decoding=Decoding(max_tokens=3),
            )
            played.append(Trajectory(scenario, [turn], sample=len(played)))
            shares.append(logp / PAIRS.questions)
    batch = learner.compute_credit(learner.annotate(pack(played)), {}, 1)
    now = policy.evaluate(batch, recipe.needs | {Quantity.LOGP}, reference=learner.reference)
    weight = torch.tensor(shares, dtype=torch.float64)[batch.occurrences.trajectory]
    total = sum((weight * loss(now, batch).value).sum() for loss in recipe.losses)
    return torch.autograd.grad(total, policy.logits)[0]


def test_with_later_ratios_it_is_the_gradient_of_the_reverse_kl_of_whole_answers():
    policy, reference = table(1), table(2)
    (exact,) = torch.autograd.grad(whole_kl(policy, reference), policy.logits)
    returns = ON_POLICY_DISTILLATION.but(credit=TeacherLogRatio(gamma=1.0))
    split = MINILLM.but({"credit.mean": False})
    assert torch.allclose(expected_gradient(returns), exact, atol=1e-6)
    assert torch.allclose(expected_gradient(split), exact, atol=1e-6)
    assert not torch.allclose(expected_gradient(ON_POLICY_DISTILLATION), exact, atol=1e-3)


def test_a_tokens_own_ratio_is_the_exact_divergence_at_each_decision_with_the_text_held_fixed():
    sampled = expected_gradient(ON_POLICY_DISTILLATION)
    assert torch.allclose(sampled, expected_gradient(ON_POLICY_DISTILLATION_EXACT), atol=1e-6)


def test_at_the_teacher_nothing_has_a_gradient():
    for recipe in (GKD, DISTILLM, KD_SFT, MINILLM, IW_OPD, ON_POLICY_DISTILLATION, ON_POLICY_DISTILLATION_EXACT):
        made = bench(recipe)
        made.learner.reference = made.policy.frozen_copy()
        made.parts.player.policies["reference"] = made.learner.reference
        before = made.policy.logits.detach().clone()
        result = made.step()
        assert result.metrics["gradient/norm"] < 1e-6, recipe.name
        assert torch.allclose(before, made.policy.logits, atol=0.06), recipe.name


@pytest.mark.parametrize("recipe", [ON_POLICY_DISTILLATION, MINILLM, SEQ_KD], ids=lambda one: one.name)
def test_a_student_comes_near_its_teacher(recipe):
    made = bench(recipe.but({"rollout.samples": 16}))
    before = float(whole_kl(made.policy, made.learner.reference).detach())
    made.run(40)
    assert float(whole_kl(made.policy, made.learner.reference).detach()) < 0.4 * before


# ------------------------------------------------------------ whose text


def collected(rollout, **changes):
    """What a rollout collects of 40 scenarios from a player that notes what it is asked."""
    asked = []

    async def play(assignments):
        asked.extend(assignments)
        made = []
        for one in assignments:
            for sample in range(one.first, one.first + one.samples):
                text = f"{one.actor} {sample}"
                turn = Turn("agent", "policy", np.zeros(1, np.int64), np.zeros(2, np.int64), text=text)
                trajectory = Trajectory(one.scenario, [turn], sample=sample, source=one.source, terminated=True)
                for name, value in changes.items():
                    setattr(trajectory, name, value)
                made.append(trajectory)
        return made

    async def score(trajectories):
        return None

    scenarios = [Scenario(f"s/{n}", "why?", metadata={"demonstration": f"shown {n}"}) for n in range(40)]
    assignments = [Assignment(scenario, decoding=Decoding()) for scenario in scenarios]
    experience = run_async(rollout.collect(assignments, play=play, score=score, ledger=None, key=Key.of(0)))
    return experience, asked


def test_a_share_of_scenarios_is_answered_by_the_student_and_the_rest_by_the_data():
    experience, asked = collected(DistillationText(samples=2, student=0.3))
    sources = [one.source for one in experience.trajectories]
    assert len(sources) == 80
    assert {"own", "expert"} == set(sources)
    assert 8 <= sources.count("own") / 2 <= 18
    assert experience.metrics["teacher/student"] == sources.count("own") / 80
    assert all(one.actor == "policy" for one in asked)
    assert not experience.discarded
    for own, source in ((1.0, "own"), (0.0, "expert")):
        assert {one.source for one in collected(DistillationText(student=own))[0].trajectories} == {source}


def test_what_the_teacher_wrote_is_imposed_once_and_its_own_samples_are_not_learnt_from():
    rollout = DistillationText(samples=3, student=0.0, other="teacher")
    assert rollout.plays_reference
    assert rollout.learns_from_teacher
    assert SEQ_KD.learns_from_teacher
    assert not DistillationText(student=0.5).learns_from_teacher
    experience, asked = collected(rollout)
    imposed = [one for one in asked if one.source == "expert"]
    assert {one.actor for one in asked if one.source == "baseline"} == {"reference"}
    assert len(imposed) == len(experience.trajectories) == len(experience.discarded) == 120
    assert {one.scenario.metadata["demonstration"] for one in imposed} == {f"reference {n}" for n in range(3)}
    assert len({(one.scenario.id, one.first) for one in imposed}) == 120
    assert experience.metrics["teacher/unfinished"] == 0


def test_answers_that_the_teacher_did_not_finish_are_left_out():
    experience, _ = collected(DistillationText(student=0.0, other="teacher"), terminated=False, truncated=True)
    assert experience.trajectories == []
    assert experience.metrics["teacher/unfinished"] == 160


def test_a_teacher_whose_answer_takes_turns_is_refused():
    turn = Turn("agent", "policy", np.zeros(1, np.int64), np.zeros(2, np.int64), text="a")
    with pytest.raises(ConfigurationError, match=r"has 2 turns.*rollout\.student = 1"):
        collected(DistillationText(student=0.0, other="teacher"), turns=[turn, turn])


def test_settings_out_of_range_are_refused():
    for make in (
        lambda: DistillationText(samples=0),
        lambda: DistillationText(student=1.5),
        lambda: DistillationText(other="nobody"),
        lambda: TeacherLogRatio(gamma=2.0),
        lambda: PrefixWeightedLogRatio(amplify=-1.0),
        lambda: Distillation(coefficient=-1.0),
    ):
        with pytest.raises(ValueError, match=r"must|choose"):
            make()


# ------------------------------------------------------------ language models


@pytest.mark.parametrize("form", [JensenShannon(0.3), SkewedForward(), TopActions(count=5)], ids=str)
@pytest.mark.parametrize("budget", [1, 2**23])
@pytest.mark.parametrize("barred", [False, True])
def test_the_head_computes_it_in_parts(form, budget, barred, monkeypatch):
    monkeypatch.setattr(heads, "LOGIT_BUDGET", budget)
    generator = torch.Generator().manual_seed(0)
    own, other = (torch.nn.utils.skip_init(torch.nn.Linear, 8, 11, bias=False) for _ in range(2))
    with torch.no_grad():
        for head in (own, other):
            head.weight.copy_(torch.randn(11, 8, generator=generator))
    features, read = (torch.randn(40, 8, generator=generator) for _ in range(2))
    features.requires_grad_()
    allowed = torch.rand(40, 11, generator=generator) < 0.7 if barred else None
    action = torch.zeros(40, dtype=torch.long)
    if allowed is not None:
        allowed[:, 0] = True
    temperature = torch.full((40,), 0.8)
    found = read_head(
        own, features, action, temperature, reference=(other, read), divergence=form, kl=False, allowed=allowed
    )
    assert found.kl is None
    bar = torch.zeros(40, 11, dtype=torch.float64)
    if allowed is not None:
        bar[~allowed] = -math.inf
    tables = [
        (inputs.double() @ head.weight.detach().double().T + bar).div(0.8).log_softmax(-1)
        for head, inputs in ((own, features), (other, read))
    ]
    exact = form(*tables)
    assert found.divergence is not None
    assert torch.allclose(found.divergence.double(), exact, atol=1e-5)
    sums = found.divergence.double().sum(), exact.sum()
    slopes = [torch.autograd.grad(one, features, retain_graph=True)[0] for one in sums]
    assert torch.allclose(*slopes, atol=1e-5)


# ------------------------------------------------------------ self-distillation


def test_the_teacher_reads_the_same_tokens_behind_the_prompt_that_tells_more():
    """On the shipped model: each token's credit is what it gains by the line, as one pass over both texts says."""
    pupil = begin("sdft", "sums", {"curriculum.prompts": 2, "rollout.samples": 2, "decoding.max_tokens": 12}).run(1)
    result, learner = pupil.results[0], begin("sdft", "sums").parts.lead
    credited = result.batch.occurrences.advantage
    words, found = learner.policy.tokenizer, []
    for trajectory in result.trajectories:
        (turn,) = trajectory.turns
        told = words.decode(PRIVILEGED_PROMPT.get(trajectory))
        line = f"\nAnswer: {demonstrated(trajectory.scenario).metadata['demonstration']}"
        assert line in told
        assert told.replace(line, "") == words.decode(turn.observation.tolist())
        for prompt in (PRIVILEGED_PROMPT.get(trajectory), turn.observation.tolist()):
            tokens = torch.tensor([[*prompt, *turn.action.tolist()]])
            with torch.no_grad():
                logp = learner.policy.model(tokens).logits.double().log_softmax(-1)[0, len(prompt) - 1 : -1]
            found.append(logp.gather(1, tokens[0, len(prompt) :, None])[:, 0])
    gains = torch.cat([behind - plain for behind, plain in zip(found[::2], found[1::2], strict=True)])
    assert torch.allclose(credited, gains, atol=1e-4)
    assert gains.abs().max() > 0.1
    assert SDFT.credit == PrivilegedLogRatio(gamma=0.0)
