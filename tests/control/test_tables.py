"""Games at a table for control policies."""

import numpy as np
import pytest

from hocket import tasks
from hocket.agents.environments.parallel_pettingzoo import ZooTeam
from hocket.core.columns import ALLOWED
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.policies.control import ControlPolicy
from hocket.rollout.joint import JointPlayer
from hocket.tasks.joint import JointTask
from hocket.train.aio import run_async
from hocket.types import Assignment


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("openspiel:tic_tac_toe?kind=robot", "text or control"),
        ("openspiel:tic_tac_toe?kind=control&against=chess", "random or mcts"),
        ("openspiel:tic_tac_toe?kind=control&against=mcts&searches=0", "at least 1"),
        ("openspiel:goofspiel?kind=control&against=mcts", "one moves after the other"),
        ("openspiel:kuhn_poker?kind=control&players=4-2", "2-4"),
        ("openspiel:kuhn_poker?kind=control&players=9-12", "kuhn_poker"),
        ("openspiel:chess_of_old?kind=control", "no game"),
        ("pettingzoo:classic.tictactoe_v3?kind=control&against=mcts", "choose random"),
    ],
)
def test_what_does_not_fit_is_refused(name, why):
    with pytest.raises(ConfigurationError, match=why):
        tasks.find(name)


def test_words_stay_the_default():
    assert not isinstance(tasks.find("openspiel:tic_tac_toe"), JointTask)
    assert isinstance(tasks.find("openspiel:tic_tac_toe?kind=control"), JointTask)


def test_moves_at_once_may_be_made_against_somebody():
    task = tasks.find("openspiel:goofspiel?kind=control&num_cards=3&against=random")
    policy = ControlPolicy.for_task(task.spaces(task.world.agents), key=Key.of(0))
    player = JointPlayer(task.world, {"policy": policy}, {"player": "policy"}, identified=False)
    (one,) = run_async(player.play([Assignment(task.scenario("train", 0))], key=Key.of(0)))
    assert [len(turn) for turn in one.turns] == [2]  # The last card is played by itself.


class Masked:
    """A parallel environment of one agent, whose step t allows action t alone."""

    possible_agents = ("only",)

    def __init__(self):
        self.agents = list(self.possible_agents)

    def observation_space(self, agent):
        from gymnasium.spaces import Box, Dict

        return Dict({"observation": Box(0, 1, (1,)), "action_mask": Box(0, 1, (3,), np.int8)})

    def action_space(self, agent):
        from gymnasium.spaces import Discrete

        return Discrete(3)

    def reset(self, seed=None):
        self.time = 0
        self.agents = list(self.possible_agents)
        return {"only": self._sight()}, {"only": {}}

    def _sight(self):
        return {"observation": np.zeros(1), "action_mask": np.eye(3, dtype=np.int8)[min(self.time, 2)]}

    def step(self, moves):
        assert moves["only"] == self.time
        self.time += 1
        over = self.time == 3
        return {"only": self._sight()}, {"only": 0.0}, {"only": over}, {"only": False}, {"only": {}}

    def close(self):
        return


def test_a_recorded_mask_is_what_was_allowed_before_the_move(monkeypatch):
    monkeypatch.setattr(ZooTeam, "new", lambda self: Masked())
    task = JointTask(ZooTeam("nowhere.masked_v0"))
    policy = ControlPolicy.for_task(task.spaces(task.world.agents), key=Key.of(0))
    player = JointPlayer(task.world, {"policy": policy}, {"only": "policy"}, width=2)
    for one in run_async(player.play([Assignment(task.scenario("train", n)) for n in range(3)], key=Key.of(0))):
        (turn,) = one.turns
        assert turn.action.tolist() == [0, 1, 2]
        assert np.array_equal(ALLOWED.get(turn), np.eye(3, dtype=bool))
