"""Messages for the user about problems in a training step."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence

import torch

from hocket.agents.workflows.episode import CLOCKS
from hocket.core.columns import LIMIT
from hocket.core.outcomes import all_trajectories, total_reward, usable
from hocket.stages import Player
from hocket.train.learner import Learner
from hocket.types import Experience

LARGEST_REWARD = float(torch.finfo(torch.float32).max)
"""The largest reward that advantages, which are float32, can hold."""

AGREEMENT_THRESHOLD = 0.05
"""In nats. Twice the 99.9th percentile of bf16 numerics, far above fp32's 1e-5."""

FAULT_KINDS = 8
"""How many kinds of faults of one step get a message each."""


def messages(
    experience: Experience, learners: Mapping[str, Learner], weights: Mapping[str, float], *, overlap: int
) -> list[str]:
    """Messages about a step's samples and update; `overlap` is how many updates old the samples are."""
    return [
        *faults(experience),
        *_reward_faults(experience, weights),
        *_empty_episodes(experience),
        *_disagreements(learners.values(), overlap),
    ]


def first_step_messages(experience: Experience, learners: Mapping[str, Learner], player: Player) -> list[str]:
    """Messages about the run that the first step's samples reveal."""
    return [*_unmet_requirements(experience, learners.values()), *_idle_roles(experience, player)]


def faults(experience: Experience) -> list[str]:
    """How many episodes failed or timed out, per reason; reasons that differ only in numbers are counted together."""
    episodes, kinds = len(experience.trajectories), dict[tuple[str, str], list[str]]()
    for trajectory in experience.trajectories:
        limit = str(LIMIT.get(trajectory) or "")
        reasons = [("failed", trajectory.failure)] if trajectory.failure is not None else []
        reasons += [("were cut short", limit)] if any(name in limit for name in CLOCKS) else []
        for event, reason in reasons:
            kinds.setdefault((event, re.sub(r"\d+", "0", reason)), []).append(reason)
    most = sorted(kinds.items(), key=lambda kind: -len(kind[1]))
    sentences = [
        f"{len(reasons)} of {episodes} episodes {event}: {reasons[0]}" for (event, _), reasons in most[:FAULT_KINDS]
    ]
    others = sum(len(reasons) for _, reasons in most[FAULT_KINDS:])
    if others:
        sentences.append(f"{others} of {episodes} episodes failed or were cut short for other reasons")
    return sentences


def _reward_faults(experience: Experience, weights: Mapping[str, float]) -> Iterable[str]:
    judged = [trajectory for trajectory in all_trajectories(experience) if trajectory.scores and not trajectory.failure]
    if judged and not any(usable(trajectory) for trajectory in judged):
        yield "no reward had an opinion on any sample, so there was nothing to learn from"
    sizes = [abs(total_reward(trajectory, weights)) for trajectory in judged]
    largest = max((size for size in sizes if not math.isnan(size)), default=0.0)
    if largest > LARGEST_REWARD:
        yield (
            f"a reward of {largest:g} exceeds the largest advantage ({LARGEST_REWARD:.2g}), so the step may teach "
            "nothing; scale the reward down"
        )


def _empty_episodes(experience: Experience) -> Iterable[str]:
    empty = [trajectory for trajectory in experience.trajectories if not trajectory.length and LIMIT.get(trajectory)]
    if empty:
        yield f"{len(empty)} of {len(experience.trajectories)} episodes are empty: {LIMIT.get(empty[0])}"


def _disagreements(learners: Iterable[Learner], overlap: int) -> Iterable[str]:
    """Where sampler and learner, with the same weights, disagree about log-probs."""
    for learner in learners:
        agreement = learner.agreement
        if agreement is None or (overlap and agreement.stale):
            continue  # The samples are of older weights, so a gap says nothing about numerics.
        if cause := agreement.cause(AGREEMENT_THRESHOLD):
            yield cause


def _unmet_requirements(experience: Experience, learners: Iterable[Learner]) -> Iterable[str]:
    """The requirements of recipes that the experience does not meet, and the method to which each recipe reduces."""
    for recipe in {learner.recipe.name: learner.recipe for learner in learners}.values():
        lacking = [item.value for item in recipe.requires if not item.met(experience.trajectories)]
        if lacking:
            left = (
                f"without them it reduces to {recipe.parent}" if recipe.parent else "without them it is another method"
            )
            example = f"; it is for `--task {shlex.quote(recipe.task)}`" if recipe.task else ""
            yield f"{recipe.name} requires {' and '.join(lacking)}, and there are none: {left}{example}"


def _idle_roles(experience: Experience, player: Player) -> Iterable[str]:
    """Roles of the workflow that were called in no episode; none if all episodes failed."""
    episodes = [trajectory for trajectory in experience.trajectories if trajectory.failure is None]
    called = {turn.role or turn.agent for trajectory in episodes for turn in trajectory.turns}
    roles: Sequence[str] = getattr(getattr(player, "workflow", None), "roles", ())
    idle = [role for role in roles if role not in called]
    if called and idle:
        named = f"role {idle[0]} was" if len(idle) == 1 else f"roles {', '.join(idle)} were"
        yield (
            f"{named} called in none of {len(episodes)} episodes, so it learns nothing; ask `team.{idle[0]}` in "
            "`play`, or leave it out of `roles`"
        )
