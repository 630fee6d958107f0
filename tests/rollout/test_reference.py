"""Samples of the policy as it was before training, beside its own: the rollout, the players and the trainer."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from hocket import recipes, tasks
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.lab.bench import Bench
from hocket.lab.world import World
from hocket.nano import BASE
from hocket.rollout.reference import WithReference
from hocket.train.aio import run_async
from hocket.train.assemble import build_parts, seat_references
from hocket.train.config import configure
from hocket.train.ledger import Ledger
from hocket.train.loop import collect, train_step
from hocket.train.settings import EngineSettings
from hocket.train.trainer import Trainer
from hocket.types import Assignment, Scenario, Score, Trajectory, Turn

NANO = pytest.mark.skipif(not (BASE / "config.json").is_file(), reason="the base has not been pretrained here")


def played(rollout: WithReference, rewards: dict[str, float], visited: dict[str, list[float]] | None = None):
    """The assignments a rollout played, and its experience. `rewards` are per scenario and actor."""
    asked = [
        Assignment(Scenario(name, metadata={"demonstration": "so"} if name == "taught" else {}))
        for name in dict.fromkeys(key.split("/")[0] for key in rewards)
    ]
    seen: list[Assignment] = []
    ledger = Ledger()
    for name, means in (visited or {}).items():
        for step, mean in enumerate(means):
            ledger.record(name, step + 1, mean)

    async def play(assignments):
        seen.extend(assignments)
        return [
            Trajectory(one.scenario, [Turn("a", "p", np.arange(1), np.arange(1))], sample=n, source=one.source)
            for one in assignments
            for n in range(one.samples)
        ]

    async def score(trajectories):
        for one in trajectories:
            actor = "reference" if one.source == "baseline" else "policy"
            one.scores["r"] = Score(rewards[f"{one.scenario.id}/{actor}"])

    work = rollout.collect(asked, play=play, score=score, ledger=ledger, key=Key.of(0))
    return seen, run_async(work)


def test_the_reference_plays_baselines_and_the_policy_its_own():
    seen, found = played(WithReference(samples=2, references=3), {"s/policy": 1.0, "s/reference": 0.5})
    assert [(one.actor, one.source, one.samples) for one in seen] == [
        ("reference", "baseline", 3),
        ("policy", "own", 2),
    ]
    assert [one.source for one in found.trajectories] == ["baseline"] * 3 + ["own"] * 2


def test_a_scenario_is_measured_once_when_asked_to():
    rewards = {"new/policy": 1.0, "new/reference": 0.5, "old/policy": 1.0, "old/reference": 0.5}
    seen, _ = played(WithReference(once=True), rewards, {"old": [0.5]})
    assert [one.scenario.id for one in seen if one.actor == "reference"] == ["new"]
    again, _ = played(WithReference(once=False), rewards, {"old": [0.5]})
    assert [one.scenario.id for one in again if one.actor == "reference"] == ["new", "old"]


def test_solved_scenarios_are_dropped():
    rewards = {"easy/policy": 1.0, "easy/reference": 1.0, "hard/policy": 0.0, "hard/reference": 0.0}
    seen, found = played(WithReference(samples=2, references=2, solved=1.0), rewards)
    assert [one.scenario.id for one in seen if one.actor == "policy"] == ["hard"]
    assert {one.scenario.id for one in found.discarded} == {"easy"}
    assert {one.scenario.id for one in found.trajectories} == {"hard"}
    assert found.metrics["rollout/dropped"] == 1


@pytest.mark.parametrize(("earned", "sources"), [(0.0, ["own", "expert"]), (0.5, ["own"])])
def test_a_demonstration_takes_a_place_where_nobody_earned_anything(earned, sources):
    rewards = {"taught/policy": 0.0, "taught/reference": earned}
    seen, found = played(WithReference(samples=3, references=2, inject=True), rewards)
    assert [one.source for one in seen if one.actor == "policy"] == sources
    assert sum(one.source != "baseline" for one in found.trajectories) == 3
    later, _ = played(WithReference(samples=3, once=True, inject=True), rewards, {"taught": [0.0, earned]})
    assert [one.source for one in later] == sources


def test_without_a_demonstration_nothing_is_injected():
    seen, _ = played(WithReference(samples=3, inject=True), {"s/policy": 0.0, "s/reference": 0.0})
    assert [one.source for one in seen] == ["baseline", "own"]


def test_settings_are_checked():
    for name in ("samples", "references"):
        with pytest.raises(ValueError, match=f"{name} must be at least 1"):
            WithReference(**{name: 0})


def test_a_recipe_whose_rollout_plays_it_wants_a_reference():
    assert recipes.find("aapo").wants_reference
    assert recipes.find("pvpo").wants_reference
    assert not recipes.find("grpo").wants_reference


def test_in_the_lab_the_reference_stays_what_the_policy_was():
    world = World(1, 3, 1, lambda question, answer: float(answer[0] == 2))
    bench = Bench(world, recipes.find("aapo"), lr=0.5)
    before = bench.policy.logits.detach().clone()
    bench.run(5)
    assert torch.equal(bench.reference.logits, before)
    assert not torch.equal(bench.policy.logits, before)


# ---------------------------------------------------------------- the trainer


def parts_of(recipe: str, tmp_path: Path, *more: tuple[str, object], task: str = "sums"):
    pairs = [("recipe", recipe), ("steps", 3), ("runs", str(tmp_path)), ("threads", 1), ("curriculum.prompts", 2)]
    pairs += [("evaluation.n", 2), ("decoding.max_tokens", 8), ("update.lr", 1e-2), ("rollout.samples", 2)]
    source = tasks.find(task)
    config = configure([*pairs, *more], source)
    return config, build_parts(config, source)


def shaken(module: torch.nn.Module) -> None:
    with torch.no_grad():
        for weight in module.parameters():
            weight.mul_(1.5)


@NANO
def test_text_is_sampled_from_the_weights_before_training(tmp_path):
    _, parts = parts_of("aapo", tmp_path)
    before, _ = run_async(collect(parts, Key.of(5)))
    parts.asked = 0
    shaken(parts.lead.policy.module)
    after, _ = run_async(collect(parts, Key.of(5)))

    def tokens(experience, source):
        return [t.turns[0].action.tolist() for t in experience.trajectories if t.source == source]

    def logps(experience, source):
        return [t.turns[0].logp.tolist() for t in experience.trajectories if t.source == source]

    assert tokens(before, "baseline") == tokens(after, "baseline")
    assert logps(before, "baseline") == logps(after, "baseline")
    assert logps(before, "own") != logps(after, "own")
    assert {t.turns[0].policy for t in after.trajectories if t.source == "baseline"} == {"policy before training"}


@NANO
def test_what_the_reference_said_is_not_held_against_the_policy(tmp_path):
    """Sampler and learner are compared on the policy's own decisions, and only those are learnt from."""
    _, parts = parts_of("aapo", tmp_path)
    shaken(parts.lead.policy.module)
    result = run_async(train_step(parts, 1))
    assert result.metrics["agreement/largest"] < 1e-3
    assert result.batch is not None
    seen = result.batch.occurrences
    theirs = result.batch.source[seen.trajectory] == result.batch.names["source"].index("baseline")
    assert theirs.any()
    assert (seen.weight[theirs] == 0).all()


def test_controllers_have_a_reference_too(tmp_path):
    _, parts = parts_of("aapo", tmp_path, task="gym:CartPole-v1?max_episode_steps=30")
    before, _ = run_async(collect(parts, Key.of(5)))
    parts.asked = 0
    shaken(parts.lead.policy.module)
    after, _ = run_async(collect(parts, Key.of(5)))

    def logps(experience, source):
        return [t.turns[0].logp.tolist() for t in experience.trajectories if t.source == source]

    assert logps(before, "baseline") == logps(after, "baseline")
    assert logps(before, "own") != logps(after, "own")


@NANO
def test_a_new_phase_has_a_new_reference(tmp_path):
    plan = [{"recipe": "aapo", "steps": 1}, {"recipe": "aapo", "steps": 1}]
    source = tasks.find("sums")
    pairs = [("plan", plan), ("runs", str(tmp_path)), ("threads", 1), ("evaluation.n", 2)]
    pairs += [("decoding.max_tokens", 8), ("curriculum.prompts", 1)]
    trainer = Trainer(configure(pairs, source), task=source)
    trainer.step()
    trainer.step()
    first = trainer.parts.player.references["policy"].engine
    shaken(trainer.parts.lead.policy.module)
    trainer.step()
    trainer.folder.release()
    learner = trainer.parts.lead
    actor = trainer.parts.player.references["policy"]
    assert actor.engine is first
    assert actor.engine.policy is learner.reference


@NANO
@pytest.mark.parametrize("changed", [{"overlap": 1}, {"engine": EngineSettings(kind="vllm")}], ids=["overlap", "vllm"])
def test_samplers_elsewhere_are_refused_in_a_sentence(changed, tmp_path):
    config, parts = parts_of("aapo", tmp_path)
    with pytest.raises(ConfigurationError, match=r"does not hold; leave overlap at 0 and engine.kind local"):
        seat_references(replace(config, **changed), parts)


def test_a_player_without_references_says_so(tmp_path):
    _, parts = parts_of("grpo", tmp_path, task="gym:CartPole-v1?max_episode_steps=30")
    with pytest.raises(ConfigurationError, match="plays_reference"):
        run_async(parts.player.play([Assignment(Scenario("s"), actor="reference")], key=Key.of(0)))
