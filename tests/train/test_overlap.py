"""Sampling in a second process beside learning: what is sampled from which weights, and that no clock decides it.

Most tests run the second process's code in this one, by the same messages; `test_overlap_process.py` has real ones.
"""

from __future__ import annotations

import json
import pickle
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from one_process import Inside, one_process
from tiny_runs import REWARDS, TINY, assert_same, call, resume, rows, train

from hocket import tasks
from hocket.apps.cli.parser import split_settings
from hocket.core.errors import ConfigurationError, HocketError
from hocket.core.evaluating import evaluate_detached
from hocket.core.keys import Key
from hocket.core.outcomes import StepResult
from hocket.core.packing import pack
from hocket.curriculum.random_order import Shuffled
from hocket.engine.local import LocalEngine
from hocket.engine.requests import ContextFull, Request, Sample
from hocket.methods.base.grpo import GRPO
from hocket.nano import BASE
from hocket.policies.causal_lm import CausalLM
from hocket.rewards.functions import FunctionReward
from hocket.stages import LedgerView, Task
from hocket.train import overlap as module
from hocket.train.assemble import build_parts
from hocket.train.config import configure
from hocket.train.loop import RunContext
from hocket.train.overlap import Overlap, advice
from hocket.train.settings import Config
from hocket.train.shared_weights import SharedWeights
from hocket.train.trainer import Trainer
from hocket.types import Decoding, Quantity, Scenario

OVERLAP = ["--overlap", "1"]
HIGH = 0.02
"""A learning rate at which one update changes log-probs far beyond rounding."""


@pytest.fixture(autouse=True)
def inside() -> Iterator[None]:
    with one_process():
        yield


def spread(completions: Sequence[str], **columns: Any) -> list[float]:
    return [float(sum(map(ord, text)) % 7) for text in completions]


@pytest.fixture(scope="module")
def reward(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("rewards") / "mine.py"
    file.write_text(REWARDS)
    return file


def configured(*more: str) -> tuple[Config, Task]:
    task = tasks.find("sums")
    words = [*TINY, *OVERLAP, "--steps", "5", "--update.lr", str(HIGH), *more]
    return configure(split_settings(words, set())[1], task), task


@dataclass
class Watched:
    """What happened in each step, and the weights after it; `weights[0]` are the first ones."""

    results: list[StepResult]
    weights: list[dict[str, torch.Tensor]]
    parts: RunContext


def watched(config: Config, task: Task, slow: Callable[[int], None] = lambda step: None, **objects: Any) -> Watched:
    parts = build_parts(config, task, rewards=[FunctionReward(spread)], **objects)
    parts.overlap = config.overlap
    learning = Overlap(config, parts)
    found = Watched([], [copied(parts)], parts)
    for step in range(1, config.total_steps + 1):
        slow(step)
        found.results.append(learning.step(step, phase_end=step + 1, last=config.total_steps))
        found.weights.append(copied(parts))
    learning.close()
    return found


def copied(parts: RunContext) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in parts.lead.policy.module.state_dict().items()}


def versions(result: StepResult) -> set[int]:
    return {int(v) for t in result.trajectories for turn in t.turns for v in turn.version}


def gap(policy: CausalLM, weights: dict[str, torch.Tensor], result: StepResult) -> float:
    """The largest distance of recorded log-probs from those that `weights` give, nats."""
    policy.module.load_state_dict(weights)
    batch = pack(result.trajectories)
    now = evaluate_detached(policy, batch, {Quantity.LOGP}, torch.arange(batch.decisions))
    return float((batch.logp["behaviour"].values - now.logp).abs().max())


# ---------------------------------------------------------------- which weights sample


def test_every_batch_comes_from_the_weights_of_one_step_before() -> None:
    found = watched(*configured())
    policy = CausalLM.from_pretrained(BASE, key=Key.of(0))
    for number, result in enumerate(found.results):
        step = number + 1
        source = max(0, step - 2)
        assert versions(result) == {source}
        assert gap(policy, found.weights[source], result) < 1e-4
        assert result.metrics["agreement/stale"] == float(step > 1)
        if step > 1:
            assert gap(policy, found.weights[step - 1], result) > 1e-3, "newer weights would not show"


def test_the_first_step_equals_one_without_overlap(tmp_path: Path, reward: Path) -> None:
    more = ["--reward", f"{reward}:spread"]
    train(tmp_path, "without", *more, steps=1)
    train(tmp_path, "overlapped", *more, *OVERLAP, steps=1)
    without, overlapped = rows(tmp_path / "without"), rows(tmp_path / "overlapped")
    assert overlapped[1].pop("agreement/stale") == 0
    assert overlapped == without


@pytest.mark.slow
def test_results_do_not_depend_on_which_side_is_slower(monkeypatch: pytest.MonkeyPatch) -> None:
    config, task = configured()
    plain = watched(config, task)
    slow_learner = watched(config, task, slow=lambda step: time.sleep(0.15))
    monkeypatch.setattr(Inside, "delay", 0.15)
    slow_sampler = watched(config, task)
    for other in (slow_learner, slow_sampler):
        for left, right in zip(plain.results, other.results, strict=True):
            assert timeless(left) == timeless(right)
        for left, right in zip(plain.weights, other.weights, strict=True):
            assert all(torch.equal(left[name], right[name]) for name in left)


def timeless(result: StepResult) -> dict[str, float]:
    return {n: v for n, v in result.metrics.items() if not n.startswith(("time/", "throughput/", "memory/"))}


def test_it_really_overlaps(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next batch is under way while a step learns, and the learner waits for none of it."""
    monkeypatch.setattr(Inside, "delay", 0.3)
    during: list[bool] = []
    learn_from = module.learn_from

    def learning(*arguments: Any, **settings: Any) -> StepResult:
        during.append(any(thread.name == "hocket-overlap" for thread in threading.enumerate()))
        time.sleep(0.5)
        return learn_from(*arguments, **settings)

    monkeypatch.setattr(module, "learn_from", learning)
    found = watched(*configured("--steps", "3"))
    assert during == [True, True, False], "nothing is sampled for a step that never comes"
    for result in found.results[1:]:
        assert result.metrics["time/rollout"] > 0.3
        assert result.metrics["time/wait"] < 0.2


# ---------------------------------------------------------------- what must stay in order


@dataclass(frozen=True)
class Spying(Shuffled):
    """Notes how many scenarios the ledger knows, and the position asked for, at every call."""

    seen: Any = None

    def __call__(self, task: Task, asked: int, count: int, ledger: LedgerView, key: Key) -> list[Scenario]:
        time.sleep(0.1)  # Long enough for a learner that does not wait to write the ledger.
        self.seen.append((asked, len(ledger)))  # type: ignore[arg-type]
        return super().__call__(task, asked, count, ledger, key)


def test_a_collection_sees_the_ledger_as_it_was_before_the_step_beside_it() -> None:
    config, task = configured()
    seen: list[tuple[int, int]] = []
    config = replace(config, recipe=config.recipe.but(curriculum=Spying(prompts=2, seen=seen)))
    found = watched(config, task)
    assert seen == [(2 * n, 2 * max(0, n - 1)) for n in range(5)]
    assert found.parts.asked == 10


# ---------------------------------------------------------------- stopping and going on

CASES: dict[str, list[str]] = {
    "grpo": [],
    "tis": ["--recipe", "grpo-tis"],
    "kl": ["--recipe", "grpo-kl", "--update.epochs", "2", "--update.minibatches", "2"],
    "dapo": ["--recipe", "dapo"],
    "critic": ["--recipe", "ppo", "--rollout.samples", "2"],
    "running mean": ["--recipe", "reinforce-baseline"],
    "lora": ["--lora.rank", "2"],
}


def stopped(runs: Path, name: str, *more: str, stop: int, steps: int) -> None:
    """A run that stops without a word after step `stop`, as if its process were gone."""
    words = [*TINY, *OVERLAP, *more, "--steps", str(steps), "--runs", str(runs), "--run", name]
    pairs = [(key, (value,) if key == "reward" else value) for key, value in split_settings(words, set())[1]]
    task = tasks.find("sums")
    trainer = Trainer(configure(pairs, task), task=task)
    while trainer.progress.step < stop or not trainer.progress.before:
        trainer.step()
    assert trainer.overlap is not None
    trainer.overlap.pause()  # A process that is gone collects nothing any more.
    trainer.folder.release()


QUICK = ("lora",)


@pytest.mark.parametrize("name", [*QUICK, *(pytest.param(n, marks=pytest.mark.slow) for n in CASES if n not in QUICK)])
def test_a_stopped_run_ends_equal(name: str, tmp_path: Path, reward: Path) -> None:
    more = [*CASES[name], "--update.lr", "1e-3", "--reward", f"{reward}:spread", "--checkpoint.steps", "2"]
    train(tmp_path, "whole", *more, *OVERLAP, steps=4)
    stopped(tmp_path, "parts", *more, stop=3, steps=4)
    resume(tmp_path, "parts")
    assert_same(tmp_path / "whole", tmp_path / "parts")
    assert all(row["loss"] is not None for row in rows(tmp_path / "whole")[1:]), "nothing was learnt, nothing proved"


def test_the_journal_replays_what_was_asked_for_a_batch_in_flight(tmp_path: Path, reward: Path) -> None:
    """The reward never says the same twice, and was asked about step 4 before the run stopped after step 3."""
    stopped(tmp_path, "parts", "--reward", f"{reward}:moody", "--checkpoint.steps", "2", stop=3, steps=4)
    before = rows(tmp_path / "parts")
    journal = [json.loads(line) for line in (tmp_path / "parts" / "journal.jsonl").read_text().splitlines()]
    assert len(journal) == 5, "the evaluation before training, and four batches"
    resume(tmp_path, "parts")
    after = rows(tmp_path / "parts")
    assert after[:4] == before
    assert after[4]["reward/mean"] == pytest.approx(np.mean(journal[4]["value"]["values"]), abs=1e-12)


def test_a_finished_run_goes_on_as_if_it_had_not_ended(tmp_path: Path, reward: Path) -> None:
    more = ["--reward", f"{reward}:spread", "--update.lr", "1e-3", *OVERLAP]
    train(tmp_path, "whole", *more, steps=4)
    train(tmp_path, "parts", *more, steps=2)
    resume(tmp_path, "parts", "--steps", "4")
    assert rows(tmp_path / "whole")[3:] == rows(tmp_path / "parts")[3:]


@pytest.mark.parametrize("stop", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_a_phase_begins_from_its_own_weights(stop: int, tmp_path: Path, reward: Path) -> None:
    file = tmp_path / "plan.yaml"
    file.write_text("plan:\n  - {recipe: grpo, steps: 2}\n  - {recipe: grpo-kl, steps: 3}\n")
    more = ["--reward", f"{reward}:spread", "--update.lr", "1e-3", "--checkpoint.steps", "1"]
    train(tmp_path, "whole", file, *more, *OVERLAP)
    stale = [row["agreement/stale"] for row in rows(tmp_path / "whole")[1:]]
    assert stale == [0, 1, 0, 1, 1]
    from hocket.train.config import read_pairs

    words = [*TINY, *OVERLAP, *more, "--runs", str(tmp_path), "--run", "parts"]
    pairs = [*read_pairs(file), *split_settings(words, set())[1]]
    pairs = [(key, (value,) if key == "reward" else value) for key, value in pairs]
    task = tasks.find("sums")
    trainer = Trainer(configure(pairs, task), task=task)
    while trainer.progress.step < stop:
        trainer.step()
    trainer.folder.release()
    resume(tmp_path, "parts")
    assert_same(tmp_path / "whole", tmp_path / "parts")


FLOW = """
from hocket.agents.workflows import Outcome, Workflow


class Pair(Workflow):
    roles = ("planner", "worker")

    async def play(self, scenario, team):
        plan = await team.planner(scenario.prompt)
        answer = await team.worker([scenario.prompt, plan])
        return Outcome(answer=str(answer), rewards={"team": float(sum(map(ord, str(plan) + str(answer))) % 7)})
"""


def test_two_policies_learn_and_are_sampled_apart(tmp_path: Path) -> None:
    (tmp_path / "flow.py").write_text(FLOW)
    flags = ["--workflow", f"{tmp_path / 'flow.py'}:Pair", "--checkpoint.steps", "2", "--update.lr", "1e-3"]
    flags += ["--roles.planner.policy", "planner", "--roles.worker.policy", "worker"]
    train(tmp_path, "whole", *flags, *OVERLAP, steps=4)
    found = rows(tmp_path / "whole")
    assert [row["planner/agreement/stale"] for row in found[1:]] == [0, 1, 1, 1]
    assert [row["worker/agreement/stale"] for row in found[1:]] == [0, 1, 1, 1]
    stopped(tmp_path, "parts", *flags, stop=3, steps=4)
    resume(tmp_path, "parts")
    assert_same(tmp_path / "whole", tmp_path / "parts")


# ---------------------------------------------------------------- what goes wrong


def test_a_reward_that_never_works_stops_the_run_with_its_sentence(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("def bad(completions, **columns):\n    return [1.0]\n")
    said = call("train", *TINY, *OVERLAP, "--reward", f"{tmp_path / 'bad.py'}:bad", "--runs", tmp_path, "--run", "x")
    assert said.code == 1
    assert "bad" in said.err.splitlines()[-1]


def test_an_error_that_concerns_one_request_stands_in_its_place() -> None:
    config, task = configured()
    parts = build_parts(config, task)
    learning = Overlap(config, parts)
    learning.start()
    learning._publish(1)
    engine = learning._player.actors["policy"].engine
    good = Request((5, 6, 7), Decoding(max_tokens=4), Key.of(1))
    long = Request((5,) * 10_000, Decoding(max_tokens=4), Key.of(2))
    first, second, third = learning.process.sample("policy", [good, long, replace(good, key=Key.of(3))])
    assert isinstance(first, Sample)
    assert isinstance(third, Sample)
    assert isinstance(second, ContextFull)
    with pytest.raises(ContextFull):
        engine.sample([good, long])


def test_samples_come_back_bit_for_bit() -> None:
    config, task = configured()
    parts = build_parts(config, task)
    learning = Overlap(config, parts)
    learning.start()
    policy = parts.lead.policy
    assert isinstance(policy, CausalLM)
    with torch.no_grad():  # Not the weights on disk: they must have gone over.
        for weight in policy.module.parameters():
            weight.mul_(0.9)
    policy.version = 7
    learning._publish(1)
    requests = [Request((5, 6, 7 + n % 3), Decoding(max_tokens=6), Key.of(n)) for n in range(8)]
    for here, there in zip(
        LocalEngine(policy).sample(requests), learning._player.actors["policy"].engine.sample(requests), strict=True
    ):
        assert np.array_equal(here.tokens, there.tokens)
        assert here.logp is not None
        assert there.logp is not None
        assert here.logp.tobytes() == there.logp.tobytes()
        assert (here.finish, here.version) == (there.finish, there.version) == (there.finish, 7)


def test_a_model_that_changed_on_disk_is_noticed() -> None:
    config, task = configured()
    learning = Overlap(config, build_parts(config, task))
    learning.process.weights.layout  # as it is
    shapes = [("policy/other", (1,), "torch.float32")]

    class Changed(SharedWeights):
        layout = shapes  # type: ignore[assignment]

    learning.process.weights.__class__ = Changed
    learning.start()
    with pytest.raises(HocketError, match="model on disk"):
        learning._publish(1)


def test_more_than_one_takes_samplers(tmp_path: Path) -> None:
    said = call("train", *TINY, "--overlap", "2", "--runs", tmp_path)
    assert said.code == 2
    assert "overlap = 2: beyond 1 it takes --cluster local --samplers" in " ".join(said.err.split())


def test_control_tasks_are_refused(tmp_path: Path) -> None:
    said = call("train", "--task", "gym:CartPole-v1", *OVERLAP, "--runs", tmp_path, "--threads", "1")
    assert said.code == 2
    assert "overlap = 1 is for language models" in said.err
    assert not any(tmp_path.iterdir()), "the name stays free"


def test_a_recipe_without_correction_gets_advice() -> None:
    plain, _ = configured()
    corrected, _ = configured("--recipe", "grpo-tis")
    recorded, _ = configured("--recipe", "sft")
    assert "grpo-tis" in str(advice(plain))
    assert advice(corrected) is None
    assert advice(recorded) is None


def test_stale_samples_are_no_news_every_step(tmp_path: Path, reward: Path) -> None:
    train(tmp_path, "run", "--reward", f"{reward}:spread", "--update.lr", str(HIGH), *OVERLAP, steps=3)
    assert max(row["agreement/largest"] for row in rows(tmp_path / "run")[1:]) > 0.05
    assert "older weights" not in (tmp_path / "run" / "messages.txt").read_text()


# ---------------------------------------------------------------- memory that two processes see


@pytest.fixture
def two() -> tuple[CausalLM, CausalLM]:
    return CausalLM.from_pretrained(BASE, key=Key.of(0)), CausalLM.from_pretrained(BASE, key=Key.of(0))


def test_weights_cross_exactly_and_values_stay_at_home(two: tuple[CausalLM, CausalLM]) -> None:
    here, there = two
    here.require(frozenset({Quantity.VALUE}))
    ours = SharedWeights({"policy": here})
    theirs = SharedWeights({"policy": there}, ours.handle)
    assert ours.layout == theirs.layout
    generator = Key.of(3).torch()
    with torch.no_grad():
        for weight in here.module.parameters():
            weight.copy_(torch.randn(weight.shape, generator=generator))
        next(iter(here.model.parameters()))[0, :3] = torch.tensor([float("nan"), float("inf"), -0.0])
    ours.put()
    theirs.take()
    for left, right in zip(here.model.parameters(), there.model.parameters(), strict=True):
        assert left.detach().numpy().tobytes() == right.detach().numpy().tobytes()


def test_a_checkpoint_of_shared_weights_comes_back(two: tuple[CausalLM, CausalLM]) -> None:
    here, there = two
    ours = SharedWeights({"policy": here})
    ours.put()
    kept = {name: value.clone() for name, value in ours.state().items()}
    with torch.no_grad():
        for weight in here.module.parameters():
            weight.zero_()
    ours.put()
    ours.restore(kept)
    SharedWeights({"policy": there}, ours.handle).take()
    fresh = CausalLM.from_pretrained(BASE, key=Key.of(0))
    for left, right in zip(fresh.model.parameters(), there.model.parameters(), strict=True):
        assert torch.equal(left, right)


def test_too_little_memory_is_a_sentence(two: tuple[CausalLM, CausalLM], monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*arguments: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.posix_fallocate", refused)
    with pytest.raises(HocketError, match=r"overlap = 1 needs \d+ MiB of shared memory"):
        SharedWeights({"policy": two[0]})


def test_a_recipe_of_ones_own_needs_nothing_in_the_second_process() -> None:
    """Stages, rewards and workflows may be of classes that no other process could import."""

    @dataclass(frozen=True)
    class Mine(Shuffled):
        pass

    config, task = configured("--steps", "2")
    config = replace(config, recipe=GRPO.but(curriculum=Mine(prompts=2), **{"rollout.samples": 4}))
    with pytest.raises((pickle.PicklingError, AttributeError)):
        pickle.dumps(config)
    assert len(watched(config, task).results) == 2


def test_settings_are_checked_by_the_configuration() -> None:
    with pytest.raises((ConfigurationError, ValueError), match="overlap must be at least 0"):
        Config(overlap=-1)
