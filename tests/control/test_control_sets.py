"""Networks that read others row by row, and such as turn with their world."""

import json

import pytest
import torch
from control_cases import Line

from hocket import tasks
from hocket.apps.cli.parser import main
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.methods.marl.multi_agent_mdp_homomorphic_networks import EquivariantNetworks
from hocket.policies.control import ControlPolicy
from hocket.policies.control_sets import Turning, in_fours, turned_moves, unturned
from hocket.policies.settings import NetworkSettings
from hocket.tasks.joint import JointTask
from hocket.types import Quantity
from hocket.zoo.joint.particles import Spread

GRAPH = JointTask(Spread(count=3, graph=True))
SPACES = GRAPH.spaces(GRAPH.world.agents)


def made(body, spaces=SPACES, **settings) -> ControlPolicy:
    return ControlPolicy.for_task(spaces, key=Key.of(1), network=NetworkSettings(body=body, **settings))


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: made("sets", Line()), "others row by row"),
        (lambda: made("equivariant", Line()), "that may be turned"),
        (lambda: made("sets", hidden=()), "network.hidden is empty"),
        (lambda: made("equivariant", hidden=(30,)), "write 32"),
        (lambda: made("equivariant", normalise=True), "drop network.normalise"),
        (lambda: turned_moves([(0, 0), (1, 0)]), "give it all directions"),
    ],
)
def test_what_cannot_be_read_is_refused(make, why):
    with pytest.raises(ConfigurationError, match=why):
        make()


@pytest.mark.parametrize(
    ("settings", "why"),
    [("graph=true&agents=1", "2 agents"), ("reach=0.5", "needs graph=true"), ("graph=true&reach=-1", "at least 0")],
)
def test_worlds_that_cannot_be_are_refused(settings, why):
    with pytest.raises(ConfigurationError, match=why):
        tasks.find(f"mpe:spread?{settings}")


def test_a_central_critic_reads_sets_but_does_not_turn():
    plain, turning = made("sets"), made("equivariant")
    for policy in (plain, turning):
        policy.centralise()
    plain.require(frozenset({Quantity.VALUE}))
    with pytest.raises(ConfigurationError, match="use ippo"):
        turning.require(frozenset({Quantity.VALUE}))


def test_a_central_critic_reads_the_joint_state_as_its_own_numbers():
    policy = made("sets")
    policy.centralise()
    policy.require(frozenset({Quantity.VALUE}))
    rows = torch.randn(5, SPACES.joint + SPACES.observations, generator=Key.of(6).torch())
    slots = SPACES.slots
    start = SPACES.joint + slots.own
    rows[:, start :: slots.size] = 1.0
    flipped = rows.clone()
    flipped[:, start : start + 2 * slots.size] = (
        rows[:, start : start + 2 * slots.size].reshape(5, 2, slots.size).flip(1).flatten(1)
    )
    other = rows.clone()
    other[:, 0] += 1
    with torch.no_grad():
        value, same, changed = (policy.module.critic(one) for one in (rows, flipped, other))
    assert torch.allclose(value, same, atol=1e-6)
    assert not torch.allclose(value, changed)


def test_a_body_is_asked_for_once():
    policy, other = made("perceptron"), made("sets")
    EquivariantNetworks().install(policy)
    kept = policy.module.actor
    EquivariantNetworks().install(policy)
    assert policy.module.actor is kept
    other.require(frozenset({Quantity.VALUE}))
    with pytest.raises(ConfigurationError, match="train it anew"):
        EquivariantNetworks().install(other)


def test_a_file_holds_the_weights_and_not_the_turns(tmp_path):
    policy = made("equivariant")
    policy.require(frozenset({Quantity.VALUE}))
    policy.save(tmp_path)
    assert json.loads((tmp_path / "config.json").read_text())["body"] == "equivariant"
    other = ControlPolicy.for_task(SPACES, key=Key.of(2), network=NetworkSettings(body="equivariant"))
    other.load(tmp_path)
    rows = torch.randn(4, SPACES.observations, generator=Key.of(7).torch())
    assert torch.equal(policy.module.actor(rows), other.module.actor(rows))
    assert set(policy.module.state_dict()) == {name for name, _ in policy.module.named_parameters()}


def test_what_no_equivariant_weight_reaches_begins_at_zero():
    layer = Turning(in_fours(4), unturned(3), gain=1.0, key=Key.of(5))
    assert layer.free == 6  # To a number that does not turn, the same weight from each of the four, and a bias.
    assert torch.linalg.matrix_rank(layer.weight, atol=1e-5) == 1


def test_the_command_refuses_a_world_without_rows(capsys):
    given = ["train", "--recipe", "multi-agent-mdp-homomorphic-networks", "--task", "mpe:spread", "--steps", "1"]
    assert main(given) == 2
    assert "mpe:spread?graph=true" in " ".join(capsys.readouterr().err.split())
