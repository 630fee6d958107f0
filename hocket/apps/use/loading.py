"""`hocket.load`: a trained policy, from where a run, a checkpoint or a model is."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict

from hocket import tasks
from hocket.agents.workflows.player import TextPlayer
from hocket.apps.report import evaluation
from hocket.apps.report.evaluation import EvaluationSubject
from hocket.apps.use.trained_policy import TrainedPolicy
from hocket.core.errors import ConfigurationError, nearest
from hocket.policies.scorer import Scorer
from hocket.rewards.functions import FunctionReward
from hocket.rollout.joint import JointPlayer
from hocket.rollout.vector import VectorPlayer
from hocket.stages import Reward, Task
from hocket.train.checkpoint import COMPLETE, checkpoint_of, objects_in
from hocket.train.config import task_of
from hocket.train.runfolder import find_source
from hocket.train.trust import run_pairs

Source = str | os.PathLike[str]
"""A run, the folder of a run, of a checkpoint or of a model, or the name of a run or model."""

Reader = Callable[[str | Task | None], EvaluationSubject]
"""Reads the same weights for a task; None is the run's own."""


def load(
    source: Source,
    role: str | None = None,
    *,
    task: str | Task | None = None,
    workflow: Any = None,
    rewards: Sequence[Reward] = (),
    checkpoint: str = "last",
    runs: str = "runs",
    seed: int = 0,
    trust: bool = False,
    **settings: Any,
) -> TrainedPolicy:
    """A trained policy, ready to act, answer or score.

    Args:
        source: a `Run`; the folder of a run, of one of its checkpoints, of a saved policy or of a model; the name of a
            run in `runs`; `nano`, `smollm2`, `FILE.gguf` or a hub name.
        role: which of several policies: the role or agent that it plays.
        task: another task than the run's, by name; or the `Task` of a run that was trained on an object.
        workflow, rewards: those of a run that was trained with objects, which its configuration cannot hold.
        checkpoint: `last` or `best`.
        seed: of all that the policy draws.
        trust: lets a run of others execute the code that it names (docs/sharing.md).
        settings: other settings of the run by dotted key, `**{"engine": "local"}`.

    Returns:
        A `TrainedController`, a `TrainedModel` or a `TrainedScorer`; for other kinds of decider a `TrainedPolicy`.

    Raises:
        ConfigurationError: when there is no such run or model, or it has several policies and no role is named.
        HocketError: when all its checkpoints are damaged.
    """
    objects: Objects = {"task": task, "workflow": workflow, "rewards": rewards}
    read = reader(source, objects, checkpoint=checkpoint, runs=runs, trust=trust, settings=settings)
    return policy_of(read(None), role, read, seed)


class Objects(TypedDict, total=False):
    """What a configuration cannot hold, or another task by name."""

    task: str | Task | None
    workflow: Any
    rewards: Sequence[Reward]


def reader(
    source: Source,
    objects: Objects,
    *,
    checkpoint: str = "last",
    runs: str = "runs",
    trust: bool = False,
    settings: Mapping[str, Any] | None = None,
) -> Reader:
    """What reads a run or model, for its task, the one in `objects`, or the one that it is called with; see `load`.

    Raises:
        ConfigurationError: when there is none, or objects that made it are missing.
    """
    folder, which = _place(os.fspath(source), runs, checkpoint)
    pairs = list((settings or {}).items())
    task, workflow, rewards = objects.get("task"), objects.get("workflow"), objects.get("rewards", ())
    absent: Sequence[Reward] = ()
    if which is not None:
        which = checkpoint_of(folder, which)
        absent = () if rewards else _absent(folder, objects_in(which), workflow)
        if task is None:
            task_at(folder, trust=trust)
    elif _classifies(folder):
        pairs = [("recipe", SCORER_RECIPE), *pairs]
        task = task or task_of(pairs)

    def read(other: str | Task | None = None) -> EvaluationSubject:
        common: dict[str, Any] = {"task": other or task, "which": which or checkpoint, "trust": trust}
        try:
            return evaluation.load(folder, pairs, rewards=rewards, workflow=workflow, **common)
        except ConfigurationError:
            if not absent:
                raise
        return evaluation.load(folder, pairs, rewards=absent, workflow=workflow, **common)

    return read


SCORER_RECIPE = "reward-model"
"""What a model folder of a scorer is opened with."""


def policy_of(subject: EvaluationSubject, role: str | None, reload: Reader, seed: int = 0) -> TrainedPolicy:
    """The policy of a role.

    Raises:
        ConfigurationError: for a role that there is not, or none where there are several policies.
    """
    player: Any = subject.parts.player
    policies = {name: learner.policy for name, learner in subject.parts.learners.items()}
    name = _role(subject, role)
    policy = policies[roles_of(subject).get(name, name)]
    common: tuple[Any, ...] = (subject, policy, name, reload, seed)
    if isinstance(policy, Scorer):
        from hocket.apps.use.language import TrainedScorer

        return TrainedScorer(*common)
    if isinstance(player, TextPlayer):
        from hocket.apps.use.language import TrainedModel

        return TrainedModel(*common, actor=player.actors[name], system=player.workflow.prompts.get(name))
    if isinstance(player, (VectorPlayer, JointPlayer)):
        from hocket.apps.use.controller import TrainedController
        from hocket.apps.use.environment_form import form_of

        seats = player.seats if isinstance(player, JointPlayer) else {name: policy.name}
        members = sum(seat == policy.name for seat in seats.values())
        form = form_of(subject.task, player, name)
        return TrainedController(*common, form=form, width=player.width * members)
    return TrainedPolicy(*common)


def roles_of(subject: EvaluationSubject) -> dict[str, str]:
    """The policy of each role that the run's policies play, by role."""
    player: Any = subject.parts.player
    policies = list(subject.parts.learners)
    if isinstance(player, JointPlayer):
        return dict(player.seats)
    if isinstance(player, TextPlayer):
        return {role: actor.policy for role, actor in player.actors.items() if actor.learns}
    if isinstance(player, VectorPlayer):
        return dict.fromkeys([player.agent], policies[0])
    return {name: name for name in policies}


def _role(subject: EvaluationSubject, role: str | None) -> str:
    """The role that is meant: itself, or the one that the policy of this name plays."""
    player = subject.parts.player
    roles = roles_of(subject)
    if role in roles:
        return role
    meant = [name for name, policy in roles.items() if role in (None, policy)]
    one_for_all = len({roles[name] for name in meant}) == 1
    if meant and (len(meant) == 1 or (one_for_all and not isinstance(player, JointPlayer))):
        return meant[0]
    names = ", ".join(meant or roles)
    what = "agents" if isinstance(player, JointPlayer) else "roles"
    if role is not None and not meant:
        raise ConfigurationError(f"{subject.name} has no role {role!r}{nearest(role, roles)}")
    raise ConfigurationError(f"{subject.name} has the {what} {names}; choose one: role={meant[0]!r}")


# ---------------------------------------------------------------- places and objects


def _place(name: str, runs: str, checkpoint: str) -> tuple[Path, str | Path | None]:
    """The folder of a run and which of its checkpoints; of a model the second is None."""
    path = Path(name)
    for step in (path, path.parent):
        # A checkpoint, or the policy in it; a language model's folder is a model by itself.
        if (step / COMPLETE).is_file() and (step.parent.parent / "config.yaml").is_file():
            return step.parent.parent, step
    if (path / "adapter_config.json").is_file() and not (path / "config.json").is_file():
        raise ConfigurationError(
            f"{path} is an adapter without its model; load the run, or write both with hocket export RUN --merge"
        )
    if not path.exists() and name.count("/") == 1 and not path.parent.exists():
        return path, None  # A name on the hub.
    folder = find_source(name, runs)
    return folder, checkpoint if (folder / "config.yaml").is_file() else None


def _classifies(folder: Path) -> bool:
    """Whether a model folder is a scorer's."""
    file = folder / "config.json"
    if not file.is_file():
        return False
    try:
        names = json.loads(file.read_bytes()).get("architectures") or ()
    except (ValueError, AttributeError):
        return False
    return any("SequenceClassification" in str(name) for name in names)


def task_at(folder: Path, *, trust: bool = False) -> Task:
    """The task of a run, or the one that a model is opened with; no weights are read.

    Raises:
        ConfigurationError: when the run's task is not there, saying how to pass it.
    """
    is_run = (folder / "config.yaml").is_file()
    name = task_of(run_pairs(folder, trust=trust) if is_run else [])
    try:
        return tasks.find(name)
    except ConfigurationError as error:
        raise ConfigurationError(
            f"{folder} was trained on {name!r}: {error}; if the task was a Python object, pass it: "
            "hocket.load(RUN, task=TASK)"
        ) from error


def _absent(folder: Path, objects: Sequence[str], workflow: Any) -> tuple[Reward, ...]:
    """Rewards without an opinion in place of the Python objects that made a run.

    Raises:
        ConfigurationError: for a workflow, without which nobody knows who plays.
    """
    flow = next((name for name in objects if name.startswith("workflow ")), None)
    if flow is not None and workflow is None:
        raise ConfigurationError(
            f"{folder} was made in Python with the {flow}, which its configuration cannot hold; pass it: "
            "hocket.load(RUN, workflow=WORKFLOW)"
        )
    names = [name.removeprefix("reward ") for name in objects if name.startswith("reward ")]
    return tuple(FunctionReward(_no_opinion, name=name) for name in names)


def _no_opinion(completions: Sequence[Any], **columns: Any) -> list[None]:
    """The reward of a function that is not here."""
    return [None] * len(completions)
