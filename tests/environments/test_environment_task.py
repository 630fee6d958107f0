"""Environments as tasks by name: settings, seeds, what success and traits say."""

from __future__ import annotations

from pathlib import Path

import players
import pytest

pytest.importorskip("pyspiel")

from hocket.agents.environments.legal import IllegalMoves
from hocket.agents.environments.openspiel import OpenSpiel
from hocket.agents.environments.reading import Tagged
from hocket.agents.workflows.environment import PlayEnvironment
from hocket.agents.workflows.episode import Limits
from hocket.core.errors import ConfigurationError
from hocket.tasks import find
from hocket.tasks.environment import EnvironmentTask
from hocket.testing import rehearse
from hocket.types import Scenario, Trajectory


def played(task: EnvironmentTask, returns: dict[str, float], illegal: int = 0) -> Trajectory:
    found = Trajectory(task.scenario("train", 0), [])
    found.info.update(returns=returns, illegal=dict.fromkeys(returns, illegal))
    return found


def test_a_name_makes_the_task_with_its_workflow() -> None:
    task = find("openspiel:kuhn_poker")
    assert isinstance(task, EnvironmentTask)
    assert (task.name, task.kind, task.size("train"), tuple(task.rewards)) == ("openspiel:kuhn_poker", "text", None, ())
    assert task.workflow.roles == ("player_0", "player_1")
    assert task.workflow.scores
    assert task.workflow.limits == Limits(turns=200)
    (found,) = rehearse(task.workflow, task.scenario("train", 3), players.reply)
    assert found.failure is None
    assert sum(found.info["returns"].values()) == 0.0


def test_settings_belong_to_the_play_the_rule_or_the_world() -> None:
    task = find("openspiel:goofspiel?num_cards=4&tries=2&penalty=0.5&memory=false&reading=answer&turns=9&roles=one")
    assert isinstance(task, EnvironmentTask)
    flow = task.workflow
    assert isinstance(flow.world, OpenSpiel)
    assert flow.world.loaded.num_distinct_actions() == 4
    assert flow.world.rule == IllegalMoves(tries=2, penalty=0.5)
    assert (flow.memory, flow.reading, flow.turns, flow.roles) == (False, Tagged("answer"), 9, ("policy",))


def test_train_and_eval_seeds_are_disjoint() -> None:
    task = find("openspiel:kuhn_poker")
    seeds = {split: {task.scenario(split, n).seed for n in range(50)} for split in ("train", "eval")}  # type: ignore[arg-type]
    assert seeds["train"].isdisjoint(seeds["eval"])
    assert len({task.scenario("train", n).id for n in range(50)}) == 50


def test_success_is_the_share_of_the_win_and_traits_say_what_was_earned() -> None:
    task = EnvironmentTask(PlayEnvironment(OpenSpiel("kuhn_poker")))
    won = played(task, {"player_0": 2.0, "player_1": -2.0})
    assert task.success(won) == 1.0
    assert EnvironmentTask(task.workflow, seat="player_1").success(won) == 0.0
    assert task.success(played(task, {"player_0": 0.0, "player_1": 0.0})) == 0.5
    assert task.describe(won) == {
        "reward/player_0": 2.0,
        "reward/player_1": -2.0,
        "win/player_0": 1.0,
        "win/player_1": 0.0,
        "illegal": 0.0,
    }
    assert task.success(Trajectory(Scenario("failed"), [])) == 0.0
    assert task.describe(Trajectory(Scenario("failed"), [])) == {"illegal": 0.0}


def test_with_one_seat_or_one_interest_success_is_the_return_within_bounds() -> None:
    alone = EnvironmentTask(PlayEnvironment(players.Counting(agents=("me",))))
    assert alone.success(played(alone, {"me": 0.5})) == 0.5
    assert alone.success(played(alone, {"me": 7.0})) == 1.0
    assert alone.success(played(alone, {"me": -1.0})) == 0.0
    together = EnvironmentTask(PlayEnvironment(OpenSpiel("tiny_hanabi")))
    assert together.success(played(together, {"player_0": 0.25, "player_1": 0.25})) == 0.25
    own = EnvironmentTask(alone.workflow, measure=lambda trajectory: 0.75)
    assert own.success(played(own, {"me": 0.0})) == 0.75


def test_illegal_is_the_share_of_moves() -> None:
    task = EnvironmentTask(PlayEnvironment(players.Counting(rule=IllegalMoves(tries=1))))
    (found,) = rehearse(task.workflow, Scenario("s"), {"a": ["jump", "up"], "b": ["end"]})
    assert task.describe(found)["illegal"] == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("openspiel:kuhn_poker?reading=loud", "reading is 'loud'; choose from line, answer, move, whole"),
        ("openspiel:kuhn_poker?roles=two", "roles is one"),
        ("openspiel:kuhn_poker?seat=player_2", "its seats are player_0, player_1"),
        ("openspiel:kuhn_poker?tries=x", "tries"),
        ("openspiel:kuhn_poker?penalty=-1", "neither may be negative"),
        ("openspiel:kuhn", "did you mean 'kuhn_poker'"),
        ("openenv:here", "is no address"),
        ("openenv:http://localhost:8000?door=3", "no setting 'door'"),
    ],
)
def test_mistakes_are_named(name: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        find(name)


def test_a_world_of_ones_own_is_a_task_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "from hocket.agents.environments.openspiel import OpenSpiel\n"
        "from hocket.tasks.environment import EnvironmentTask\n"
        "from hocket.agents.workflows.environment import PlayEnvironment\n"
        "task = EnvironmentTask(PlayEnvironment(OpenSpiel('tic_tac_toe')))\n"
    )
    assert find(f"{file}:task").name == "openspiel:tic_tac_toe"
