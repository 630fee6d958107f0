"""A campaign in two scenarios: what is refused, what is not seen ahead, and what a run changes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from hocket import tasks
from hocket.core.errors import ConfigurationError
from hocket.methods.applications.mardpg_ads.method import MARDPG_ADS
from hocket.methods.applications.mardpg_ads.scenarios import Campaign, Sessions
from hocket.methods.applications.mardpg_ads.session import SessionLog
from hocket.methods.applications.mardpg_ads.values import SessionValues
from hocket.train.aio import run_async
from hocket.train.assemble import build_parts
from hocket.train.config import configure
from hocket.train.loop import RunContext, train_step


def parts_of(task: str, recipe: object = MARDPG_ADS, **settings: object) -> RunContext:
    form = tasks.find(task)
    return build_parts(configure([("task", task), ("recipe", recipe), *settings.items()], form), form)


@pytest.mark.parametrize("wrong", ["interaction=2", "budget=0", "length=0"])
def test_numbers_of_a_campaign_are_refused(wrong: str) -> None:
    with pytest.raises(ConfigurationError, match=r"interaction in \[0, 1\]"):
        tasks.find(f"campaign?{wrong}")


def test_a_task_without_logs_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="reads logs of sessions"):
        parts_of("mpe:spread?length=5")


def test_a_second_critic_is_refused() -> None:
    with pytest.raises(ValueError, match="ensemble must be 1"):
        SessionValues(ensemble=2)


def test_other_bodies_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="an LSTM and a perceptron of their own"):
        parts_of("campaign", "ippo", **{"network.body": "recurrent"})


def test_nothing_is_seen_ahead() -> None:
    sights = []
    for later in (False, True):
        book = Campaign().open(1)
        assert isinstance(book, Sessions)
        book.reset([0], [5])
        book.rates[0, 3:] += later
        for _ in range(2):
            book.step([np.zeros((1, 1))] * 2, np.ones(1, bool))
        sights.append(np.concatenate(book.seen(), 1))
    assert (sights[0] == sights[1]).all()


def test_a_log_without_messages_has_what_is_its_own() -> None:
    log = SessionLog(1, 2, 4, 2)
    rows = torch.arange(20.0).reshape(2, 2, 5)
    assert torch.equal(log.entries(rows), rows)
    silent = replace(log, messages=False).entries(rows)
    assert torch.equal(silent[..., :3], rows[..., :3])
    assert not silent[..., 3:].any()


def test_both_agents_learn_once_enough_is_kept() -> None:
    parts = parts_of("campaign", MARDPG_ADS.but(**{"store.begin": 24, "store.rows": 16}))
    before = {
        name: [weight.detach().clone() for weight in learner.policy.module.parameters()]
        for name, learner in parts.learners.items()
    }
    run_async(train_step(parts, 1))
    for name, learner in parts.learners.items():
        pairs = zip(before[name], learner.policy.module.parameters(), strict=True)
        assert any(not torch.equal(old, new) for old, new in pairs)
        assert all(bool(torch.isfinite(weight).all()) for weight in learner.policy.module.parameters())


def test_another_recipe_learns_there_too() -> None:
    parts = parts_of("campaign", "ippo", **{"curriculum.prompts": 4})
    assert np.isfinite(run_async(train_step(parts, 1)).metrics["loss"])
