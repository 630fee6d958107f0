"""A world whose entities come and go, and worlds of which agents see a part."""

import numpy as np
import pytest

from hocket import tasks
from hocket.apps.cli.parser import main
from hocket.core.errors import ConfigurationError
from hocket.methods.marl.flickerfusion.open_team import Flickering
from hocket.zoo.joint.evasion import Flee


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("mpe:flee?pursuers=9", "room = 8"),
        ("mpe:flee?pursuers=0&come=0", "one at least"),
        ("mpe:flee?pursuers=3-1", "write 3 or 1-3"),
        ("mpe:flee?come=some", "write 3 or 1-3"),
        ("mpe:flee?agents=0", "an agent and 2 steps"),
        ("mpe:flee?flicker=0", "at least 1"),
        ("mpe:spread?flicker=2", "use mpe:flee"),
    ],
)
def test_what_cannot_be_is_refused(name, why, capsys):
    with pytest.raises(ConfigurationError, match=why):
        tasks.find(name)
    assert main(["train", "--task", name, "--recipe", "ippo", "--steps", "1"]) == 2
    assert why in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("world", [Flee(), Flickering(Flee(pursuers="4"), 2, 1)])
def test_an_episode_does_not_depend_on_what_is_played_beside_it(world):
    def played(slots, width):
        course = world.open(width)
        course.reset(slots, [7 + slot for slot in slots])
        found = []
        for step in range(30):
            moves = np.full(width, step % 5)
            found.append(np.concatenate(course.seen(), 1)[3])
            found.append(course.step([moves, (moves + 1) % 5], np.ones(width, bool)).rewards[3])
        return np.concatenate(found)

    np.testing.assert_array_equal(played([3], 4), played(range(9), 9))


def test_a_copy_that_waits_stays_as_it_is():
    course = Flee().open(2)
    course.reset([0, 1], [1, 2])
    live = np.array([True, False])
    course.step([np.zeros(2, int)] * 2, live)
    assert course.time.tolist() == [1, 0]


def test_a_state_tells_all_that_are_there():
    course = Flee(pursuers="2", come="0", go="0").open(3)
    course.reset(range(3), range(3))
    assert course.state().shape == (3, Flee().joint)
    assert (course.state()[:, 8::5] == [1, 1, 0, 0, 0, 0, 0, 0]).all()
