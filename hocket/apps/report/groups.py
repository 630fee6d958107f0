"""The groups of one step as a table: what each sample earned, and why a group taught something or nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hocket.core import sums
from hocket.train.answers import advantage_of, reward_of

Episode = Mapping[str, Any]

APART = ("baseline", "branch")
"""Sources whose rewards are not those of whole attempts by the policies."""


@dataclass(frozen=True)
class SampleGroup:
    """The samples of one scenario in one step.

    Attributes:
        rewards: per sample, None without one. advantages: per sample, the mean over its decisions.
        mean, std: of the rewards; std with ddof 1, 0 for a single one. why: what became of the group, in words.
    """

    number: int
    scenario: str
    episodes: Sequence[Episode]
    rewards: Sequence[float | None]
    advantages: Sequence[float | None]
    mean: float | None
    std: float | None
    signal: bool
    why: str


def group_episodes(episodes: Sequence[Episode]) -> list[SampleGroup]:
    """The groups of a step, in order."""
    members: dict[Any, list[Episode]] = {}
    for episode in episodes:
        members.setdefault(episode.get("group"), []).append(episode)
    return [_group(number, group) for number, group in enumerate(members.values())]


def _group(number: int, episodes: Sequence[Episode]) -> SampleGroup:
    rewards = [reward_of(episode) for episode in episodes]
    compared = [r for r, e in zip(rewards, episodes, strict=True) if r is not None and e.get("source") not in APART]
    mean = sums.mean(compared) if compared else None
    std = None
    if mean is not None:
        std = sums.deviation(compared, mean, max(len(compared) - 1, 1))
    signal = any(_learns(episode) for episode in episodes)
    return SampleGroup(
        number=number,
        scenario=str((episodes[0].get("scenario") or {}).get("id", number)),
        episodes=episodes,
        rewards=rewards,
        advantages=[advantage_of(episode) for episode in episodes],
        mean=mean,
        std=std,
        signal=signal,
        why=_why(episodes, compared, signal),
    )


def _learns(episode: Episode) -> bool:
    """Whether some decision has both weight and advantage; of a pair a weight is enough."""
    if episode.get("paired"):
        return bool(episode.get("kept"))
    for turn in episode.get("turns", ()):
        advantages = turn.get("advantage") or ()
        weights = turn.get("weight") or [1.0] * len(advantages)
        if any(a and w for a, w in zip(advantages, weights, strict=False)):
            return True
    return False


def _why(episodes: Sequence[Episode], rewards: Sequence[float], signal: bool) -> str:
    if not rewards and not signal and all(episode.get("failure") is None for episode in episodes):
        return "no reward"
    if all(episode.get("discarded") for episode in episodes):
        return "discarded by the rollout" + (" (all rewards equal)" if _equal(rewards) else "")
    left_out = [e for e in episodes if not e.get("kept", True) and e.get("source") != "baseline"]
    failed = sum(episode.get("failure") is not None for episode in episodes)
    if failed == len(episodes):
        return "every attempt failed"
    if signal:
        parts = [f"{len(left_out)} of {len(episodes)} left out"] if left_out else []
        parts += [f"{failed} failed"] if failed else []
        return "learnt from" + (f" ({', '.join(parts)})" if parts else "")
    if len(left_out) == len(episodes):
        return "every sample was left out" + (
            ", all were cut off" if all(episode.get("truncated") for episode in episodes) else " (weight 0)"
        )
    if len(rewards) > 1 and _equal(rewards):
        return f"no signal: all rewards are {rewards[0]:g}"
    return "no signal: all advantages are 0"


def _equal(rewards: Sequence[float]) -> bool:
    return len(rewards) > 0 and max(rewards) - min(rewards) < 1e-9
