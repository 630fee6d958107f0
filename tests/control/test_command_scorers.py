"""Text worlds for networks that score commands: what is seen in numbers, bad settings, saving, learning alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from hocket import tasks
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.methods.agents.knowledge_injection_text_games.commands import words_of
from hocket.policies.control import ControlPolicy
from hocket.policies.settings import NetworkSettings
from hocket.train.assemble import build_parts
from hocket.train.config import configure
from hocket.types import Quantity


def test_words_are_small_letters_without_signs() -> None:
    assert words_of("The Desk-lamp 2 starts.  It's on!") == ["the", "desk", "lamp", "2", "starts", "it", "s", "on"]


def test_what_is_seen_are_numbers_of_words() -> None:
    task: Any = tasks.find("commands:devices?count=2&verbs=3&graph=true")
    made = task.make()
    row = made.reset(0)
    lexicon, commands = task.lexicon, task.sight_form
    words = ["", *lexicon.words]
    text, names, triples, illegal = np.split(row.astype(int), np.cumsum(commands.parts)[:-1])
    told = made.environment.observe("player").text
    assert [words[number] for number in text if number] == words_of(told)
    assert [words[number] for number in names] == ["push", "pull", "turn", *made.environment.shed.fits]
    assert triples.tolist() == [6, 1, 4, 6, 1, 5]
    assert illegal.tolist() == [0]
    assert (task.actions, task.observations, commands.nodes) == (6, len(row), 6)


def test_the_last_words_of_a_text_are_kept_and_strange_ones_share_a_number() -> None:
    lexicon = tasks.find("commands:devices?length=3").lexicon  # type: ignore[attr-defined]
    strange = len(lexicon.words) + 1
    number = lexicon.words.index("push") + 1
    assert lexicon.length == 3
    assert lexicon.spelt("push push the unheard", 2)[-1] == strange
    assert lexicon.spelt("an unheard push", 3) == [strange, strange, number]
    assert lexicon.spelt("push", 3) == [0, 0, number]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("commands:maze?width=3&height=3", "names no objects; take devices or household"),
        ("commands:openspiel:kuhn_poker", "has several"),
        ("commands:sums", "is no environment"),
        ("commands:devices?length=0", "at least 1"),
        ("commands:informed:devices?form=graph&graph=false", "drop it"),
        ("commands:informed:devices?form=grpah", "did you mean 'graph'"),
    ],
)
def test_worlds_and_settings_that_do_not_fit_are_refused(name: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        tasks.find(name)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"network.body": "recurrent"}, "network of their own"),
        ({"network.normalise": True}, "network of their own"),
        ({"network.hidden": (8,)}, "two at least"),
        ({"recipe": "contrabar"}, "a belief"),
        ({"recipe": "multi-agent-mdp-homomorphic-networks"}, "another body"),
    ],
)
def test_networks_that_cannot_score_commands_are_refused(settings: dict[str, Any], said: str) -> None:
    task = tasks.find("commands:devices")
    given = {"recipe": "ppo", "task": "commands:devices", **settings}
    with pytest.raises(ConfigurationError, match=said):
        build_parts(configure(list(given.items()), task), task)


def test_a_row_depends_on_itself_alone_and_blank_ones_are_finite() -> None:
    task: Any = tasks.find("commands:informed:household?brief=false&form=graph")
    rows = np.stack([task.make().reset(2 * number) for number in range(5)])
    policy = ControlPolicy.for_task(task, key=Key.of(1), network=NetworkSettings(hidden=(8, 8)))
    policy.require(frozenset({Quantity.VALUE}))
    with torch.no_grad():
        together = policy.module.actor(torch.from_numpy(rows))
        apart = torch.cat([policy.module.actor(torch.from_numpy(row[None])) for row in rows])
        assert torch.allclose(together, apart, atol=1e-6)
        blank = torch.zeros(2, task.observations)
        assert torch.isfinite(policy.module.actor(blank)).all()
        assert torch.isfinite(policy.module.critic(blank)).all()  # type: ignore[misc]


def test_it_is_saved_and_loaded(tmp_path: Path) -> None:
    task: Any = tasks.find("commands:informed:devices?form=graph")
    one, other = (ControlPolicy.for_task(task, key=Key.of(seed)) for seed in range(2))
    rows = torch.from_numpy(np.stack([task.make().reset(2 * number) for number in range(5)]))
    one.save(tmp_path)
    other.load(tmp_path)
    assert torch.equal(one.module.actor(rows), other.module.actor(rows))
    smaller = ControlPolicy.for_task(tasks.find("commands:devices?graph=true"), key=Key.of(0))  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="describes another network"):
        smaller.load(tmp_path)
