"""Credit agent by agent: what belongs to whom, and equality with the credit alone."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from hocket.core.batch import Batch, Level, LevelScores
from hocket.core.packing import pack
from hocket.core.signals import REWARD
from hocket.credit.each_agent import EachAgent
from hocket.credit.gae import GAE
from hocket.credit.group import GroupRelative
from hocket.credit.pairs import AllPairs
from hocket.credit.reinforce import RunningMean
from hocket.types import Scenario, Score, Trajectory, Turn


def turn(agent: str, length: int = 2) -> Turn:
    tokens = np.arange(length)
    return Turn(agent, agent, np.zeros(1, np.int64), tokens, np.zeros(length, np.float32), role=agent)


def batch(plays: list[tuple[str, float, list[float]]]) -> Batch:
    """Trajectories of one scenario: agents in order, the reward of the whole, and that of each turn."""
    made = [
        Trajectory(
            Scenario("s"),
            [turn(agent) for agent in agents],
            sample=number,
            scores={"team": Score(whole), "own": Score(turns, Level.TURN)},
        )
        for number, (agents, whole, turns) in enumerate(plays)
    ]
    packed = pack(made)
    scores = {REWARD[Level.TRAJECTORY]: packed.scores["team"], REWARD[Level.TURN]: packed.scores["own"]}
    return packed.but(scores=scores)


PLAYS = [("ab", 1.0, [0.5, 4.0]), ("ab", 0.0, [0.1, 2.0]), ("aba", 2.0, [0.2, 1.0, 0.3])]


def test_each_is_compared_with_its_own_returns() -> None:
    packed = batch(PLAYS)
    given = EachAgent(GroupRelative(scale=None))(packed)
    agent = packed.agent[packed.turn[given.decision]]
    returns = {0: [1.5, 0.1, 2.5], 1: [5.0, 2.0, 3.0]}
    for code, of in returns.items():
        mean = sum(of) / 3
        for number, value in enumerate(of):
            mine = (agent == code) & (given.trajectory == number)
            assert given.advantage[mine].tolist() == pytest.approx([value - mean] * int(mine.sum()))


def test_one_agent_alone_has_the_credit_itself() -> None:
    packed = batch([("aa", 1.0, [0.5, 4.0]), ("a", 0.0, [0.1]), ("aa", 2.0, [0.2, 1.0])])
    for credit in (GroupRelative(), GroupRelative(scale=None, leave_one_out=True)):
        torch.testing.assert_close(EachAgent(credit)(packed).advantage, credit(packed).advantage)


def test_values_and_whitening_are_each_agents_own() -> None:
    packed = batch(PLAYS)
    value = torch.linspace(-1, 1, packed.decisions).double()
    packed = packed.but(value=value, final_value=torch.zeros(packed.trajectories).double())
    credit = GAE(gamma=0.9, lam=0.8, whiten=True)
    given = EachAgent(credit)(packed)
    agent = packed.agent[packed.turn[given.decision]]
    for code in (0, 1):
        alone = credit(packed.restricted(agent == code))
        torch.testing.assert_close(given.advantage[agent == code], alone.advantage)
        assert given.target is not None
        torch.testing.assert_close(given.target[agent == code], alone.target)
        assert float(given.advantage[agent == code].mean()) == pytest.approx(0.0, abs=1e-9)


def test_what_does_not_count_enters_no_statistic() -> None:
    packed = batch(PLAYS)
    weight = packed.occurrences.weight.clone()
    weight[packed.occurrences.trajectory == 2] = 0.0
    given = EachAgent(GroupRelative(scale=None))(packed.credited(weight=weight))
    other = EachAgent(GroupRelative(scale=None))(batch(PLAYS[:2]))
    torch.testing.assert_close(given.advantage[given.trajectory < 2], other.advantage)
    assert bool((given.advantage[given.trajectory == 2] == 0).all())


def test_order_of_trajectories_does_not_matter() -> None:
    there, back = (EachAgent()(batch(plays)) for plays in (PLAYS, PLAYS[::-1]))
    flipped = torch.cat([back.advantage[back.trajectory == number] for number in (2, 1, 0)])
    torch.testing.assert_close(there.advantage, flipped)


@pytest.mark.parametrize("credit", [AllPairs(), RunningMean()])
def test_pairs_and_memories_are_refused(credit: object) -> None:
    with pytest.raises(ValueError, match="pairs or remembers"):
        EachAgent(credit)  # type: ignore[arg-type]


def test_scores_of_decisions_go_with_their_decisions() -> None:
    packed = batch(PLAYS)
    each = LevelScores(Level.DECISION, torch.arange(len(packed.occurrences)).double())
    packed = packed.but(scores={REWARD[Level.DECISION]: each})
    given = EachAgent(GroupRelative(scale=None))(packed)
    agent = packed.agent[packed.turn[given.decision]]
    sums = [float(each.values[(agent == 1) & (given.trajectory == number)].sum()) for number in range(3)]
    first = (agent == 1) & (given.trajectory == 0)
    assert float(given.advantage[first][0]) == pytest.approx(sums[0] - sum(sums) / 3)
