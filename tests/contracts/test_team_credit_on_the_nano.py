"""Candidates, and critics along a chain of agents, with the shipped model: what was sampled is what is learnt from."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from tiny_runs import TINY

from hocket import tasks
from hocket.apps.cli.parser import split_settings
from hocket.train.config import configure
from hocket.train.trainer import Trainer

FLOW = """
from hocket.agents.workflows import Outcome, Workflow


def spread(reply):
    return {"team": float(sum(map(ord, str(reply))) % 7), "own": 0.25 * (len(str(reply)) % 3)}


class Branching(Workflow):
    roles = ("planner", "checker")

    async def play(self, scenario, team):
        plan = await team.planner.candidates(scenario.prompt, score=spread)
        checked = await team.checker.candidates([scenario.prompt, plan], score=spread)
        again = await team.planner.candidates(str(checked), score=spread)
        return Outcome(answer=str(again), rewards={"team": float(len(str(again)) % 2)})


class Hints(Workflow):
    roles = ("hinter", "solver")

    async def play(self, scenario, team):
        hint = await team.hinter(scenario.prompt)
        answer = await team.solver(str(hint))
        return Outcome(answer=str(answer), rewards={"team": float(sum(map(ord, str(answer))) % 7)})
"""


def trainer(tmp_path: Path, flow: str, *more: str) -> Trainer:
    (tmp_path / "flow.py").write_text(FLOW)
    named = ["--workflow", f"{tmp_path / 'flow.py'}:{flow}", "--runs", str(tmp_path)]
    task = tasks.find("sums")
    words = [*TINY, *named, *more]
    if "at-grpo" in more:  # It draws candidates, not samples.
        place = words.index("--rollout.samples")
        words[place : place + 2] = []
    return Trainer(configure(split_settings(words, set())[1], task), task=task)


@pytest.mark.parametrize("roles", ["shared", "separate"])
def test_branches_are_learnt_from_with_the_log_probs_they_were_sampled_with(tmp_path: Path, roles: str) -> None:
    own = [] if roles == "shared" else ["--roles.planner.policy", "planner", "--roles.checker.policy", "checker"]
    found = trainer(tmp_path, "Branching", "--recipe", "at-grpo", "--update.lr", "1e-3", *own)
    learners = found.parts.learners
    before = {name: [w.detach().clone() for w in one.policy.module.parameters()] for name, one in learners.items()}
    found.step()  # The evaluation before training, where nothing branches.
    for _ in range(2):
        row = found.step()
        prompts = row["groups/total"]
        assert row["branches"] == 3 * 3 * prompts
        assert row["groups/with_signal" if roles == "shared" else "planner/groups/with_signal"] > 0
        gaps = [value for name, value in row.items() if name.endswith("kl/behaviour")]
        assert gaps
        assert all(abs(gap) < 1e-6 for gap in gaps)
    found.folder.release()
    for name, one in learners.items():
        after = one.policy.module.parameters()
        assert any(not torch.equal(old, new) for old, new in zip(before[name], after, strict=True))


def test_two_adapters_on_one_base_each_have_a_critic(tmp_path: Path) -> None:
    own = ["--roles.hinter.policy", "hinter", "--roles.solver.policy", "solver", "--lora.rank", "2"]
    found = trainer(tmp_path, "Hints", "--recipe", "marft", "--update.lr", "1e-2", *own)
    hinter, solver = (found.parts.learners[name].policy.module for name in ("hinter", "solver"))
    frozen = {n: w for n, w in hinter.named_parameters() if not w.requires_grad}
    shared = [n for n, w in solver.named_parameters() if n in frozen and w.data_ptr() == frozen[n].data_ptr()]
    assert len(shared) == len(frozen) > 0
    moving = [{n: w.detach().clone() for n, w in m.named_parameters() if w.requires_grad} for m in (hinter, solver)]
    found.step()
    row = found.step()
    found.folder.release()
    for name, module, old in zip(("hinter", "solver"), (hinter, solver), moving, strict=True):
        assert math.isfinite(row[f"{name}/loss"])
        changed = [n for n, w in module.named_parameters() if n in old and not torch.equal(w, old[n])]
        assert any("lora" in n for n in changed)
        assert any("value" in n for n in changed)
