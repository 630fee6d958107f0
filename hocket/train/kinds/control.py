"""Control: small networks that act in environments, alone or together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from hocket.core.casting import Shared
from hocket.core.errors import ConfigurationError, nearest
from hocket.core.keys import Key
from hocket.policies.settings import NetworkSettings
from hocket.stages import Player, Policy, Task
from hocket.train.checkpoint import Checkpoints, weights_in
from hocket.train.journal import Journal
from hocket.train.kinds.network import Network, place
from hocket.train.roles import POLICY, policy_of
from hocket.train.runfolder import run_named
from hocket.train.settings import Config, RoleSettings

if TYPE_CHECKING:
    from hocket.policies.family import Precision
    from hocket.tasks.gym import GymTask
    from hocket.tasks.joint import JointTask
    from hocket.tasks.torch_worlds import TorchTask


_PICTURE = 8
"""Sides from which a grid is worth reading as a picture."""


class Control(Network):
    """Vectors of observations in, actions out; tasks are those of `hocket.tasks.gym` and `hocket.tasks.joint`, or have
    their members.

    Of a joint task every agent is a role, played by the policy that settings and cast give it; one policy plays all by
    default.
    """

    name = "control"
    takes_run = True

    def policy(self, task: Task, name: str, key: Key, network: NetworkSettings | None = None) -> Policy:
        from hocket.policies.control import ControlPolicy

        return ControlPolicy.for_task(cast("GymTask", task), name=name, key=key, network=network)

    def remarks(self, config: Config, task: Task, workflow: Any) -> Sequence[str]:
        """What the task says of itself, and numbers that networks do not read as they are."""
        remarks = (*getattr(task, "remarks", ()), *_pictures(config, task))
        seats = getattr(getattr(task, "world", task), "seats", (task,))
        ends = {run[1:] for seat in seats for run in getattr(seat, "ranges", ())} - {(0.0, 1.0)}
        if not ends or config.network.normalise:
            return remarks
        words = ", ".join(f"{low:g} to {high:g}" for low, high in sorted(ends))
        scaled = f"what task {task.name} shows in {words} is read as 0 to 1 (its policy's config.json says scaled)"
        return (*remarks, scaled)

    def player(self, task: Task, policy: Any) -> Player:
        from hocket.rollout.pieces import PiecewisePlayer
        from hocket.rollout.torch_vector import TorchVectorPlayer

        if hasattr(task, "vector"):
            return TorchVectorPlayer(cast("TorchTask", task).on(policy.device), policy)
        return PiecewisePlayer(cast("GymTask", task), policy)

    def build(
        self, config: Config, task: Task, *, workflow: Any, journal: Journal | None, precision: Precision
    ) -> tuple[Mapping[str, Policy], Player]:
        from hocket.tasks.joint import JointTask

        self.check_words(config, task)
        _check_sequences(config)
        if not isinstance(task, JointTask):
            if type(config.phases[0][0].cast) is not Shared:
                raise ConfigurationError(
                    f"cast: task {task.name} has one agent, and {config.phases[0][0].name} seats a cast of several; "
                    "choose a task of several agents, such as mpe:spread, or a recipe for one, such as ppo or a2c"
                )
            self.check(config, task)
            policy = self.policy(task, POLICY, Key.of(config.seed).derive("policy", POLICY), config.network)
            place(config, [policy])
            return {POLICY: policy}, self.player(task, policy)
        return _team(config, task)

    def begins(self, config: Config, policies: Mapping[str, Policy]) -> Mapping[str, Path]:
        """Those of the run that `--model` names, each policy its own."""
        if config.model == Config.model:
            return {}
        if config.behind or config.learners > 1:
            raise ConfigurationError(
                f"model = {config.model!r}: a controller begins with a run's weights in one process; drop overlap, "
                "samplers and learners"
            )
        run = run_named(config.model, config.runs)
        folders = weights_in(None if run is None else Checkpoints(run / "checkpoints").latest())
        if set(folders) != set(policies):
            there = f"has weights of {', '.join(sorted(folders))}" if folders else "is no run with a checkpoint"
            raise ConfigurationError(
                f"model = {config.model!r} {there}; a controller begins with those of a run of {', '.join(policies)}"
            )
        return folders

    def with_references(self, config: Config, player: Any, references: Mapping[str, Policy]) -> Player:
        from hocket.rollout.joint import JointPlayer

        if not isinstance(player, JointPlayer):
            return super().with_references(config, player, references)
        player.references = cast(Any, references)
        return player


def _pictures(config: Config, task: Task) -> Sequence[str]:
    """Advice for a task that shows a picture, where a perceptron reads it."""
    shape = tuple(getattr(task, "shape", ()))
    if config.network.body != "perceptron" or len(shape) < 2 or min(shape[:2]) < _PICTURE:
        return ()
    sides = " x ".join(map(str, shape))
    return (f"task {task.name} shows a grid of {sides}; --network.body convolution reads it as a picture",)


def _check_sequences(config: Config) -> None:
    """Refuses mini-batches that cut the episodes of a recurrent policy."""
    for recipe, _ in config.phases if config.network.remembers else ():
        episodes = recipe.curriculum.prompts * (recipe.rollout.samples or 1)
        if recipe.update.minibatches > episodes:
            raise ConfigurationError(
                f"update.minibatches = {recipe.update.minibatches}: this policy learns from whole episodes, "
                f"of which a step of {recipe.name} has {episodes}; set it to {episodes} at most"
            )


def _team(config: Config, task: JointTask) -> tuple[Mapping[str, Policy], Player]:
    """The policies of a joint task by name, and the player with each in its seats."""
    from hocket.policies.control import ControlPolicy
    from hocket.rollout.joint import JointPlayer

    agents = task.world.agents
    for role, settings in config.roles.items():
        if role not in agents:
            raise ConfigurationError(f"roles.{role}: task {task.name} has no such agent{nearest(role, agents)}")
        if settings.model or settings.endpoint:
            raise ConfigurationError(f"roles.{role}.model and endpoint are for language models; {task.name} is control")
    usual = config.phases[0][0].cast
    seats = {agent: policy_of(agent, config.roles.get(agent, RoleSettings()), usual) for agent in agents}
    members = {name: [agent for agent in agents if seats[agent] == name] for name in dict.fromkeys(seats.values())}
    acts = {
        (seat.actions if not seat.discrete else 0, getattr(seat.action_form, "draws", len(seat.choices)))
        for seat in task.world.seats
    }
    if len(acts) > 1:
        raise ConfigurationError(
            f"task {task.name}: some agents choose discrete actions and others vectors, or vectors of unequal size, "
            "which one batch cannot hold; wrap it so that all act alike"
        )
    key = Key.of(config.seed)
    policies = {
        name: ControlPolicy(task.spaces(member), name=name, key=key.derive("policy", name), network=config.network)
        for name, member in members.items()
    }
    if type(usual).seats is not Shared.seats:
        task.spaces(agents)  # Who swaps seats must fit in all of them.
    place(config, policies.values())
    player = JointPlayer(task.world, policies, seats, identified=task.identified)
    return cast(Mapping[str, Policy], policies), player


CONTROL = Control()
