"""Worlds without networks, and agents that share none."""

import pytest

from hocket import tasks
from hocket.core.casting import Separate
from hocket.core.errors import ConfigurationError
from hocket.methods.marl.claims.bayesian_network_actor_critic import _parts


@pytest.mark.parametrize(
    ("name", "given", "why"),
    [
        ("mpe:spread?agents=2", {}, "add networked=true to the settings of a joint world"),
        ("mpe:spread?agents=2&networked=true", {"cast": Separate()}, "drop --cast and roles"),
    ],
)
def test_what_has_no_network_is_refused(name, given, why):
    with pytest.raises(ConfigurationError, match=why):
        _parts(tasks.find(name), 1, **given)
