"""Which rewards, roles and judge of a run have given values, and messages about those that gave none.

Kept by name is the last step with a value; 0 for none yet.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from hocket.core.batch import Level
from hocket.core.outcomes import StepResult
from hocket.train.progress import Progress
from hocket.types import Score, Trajectory, Turn

EPISODE, JUDGE = "episode", "judge"
FEW, MANY = 3, 10
"""Steps without a value after which a message reports it."""


def note(heard: dict[str, int], result: StepResult, step: int, trained: Collection[str]) -> None:
    """Enters what gave a value in a step; `trained` are the policies whose roles count."""
    experience = result.experience
    sampled = [] if experience is None else [*experience.trajectories, *experience.discarded]
    present: set[str] = {EPISODE}
    spoke = {EPISODE} if any(trajectory.failure is None and trajectory.length for trajectory in sampled) else set[str]()
    if not sampled and any(name.endswith("update/gradients") for name in result.metrics):
        spoke = {EPISODE}  # Nothing was to be sampled: the step learnt from what a store holds.
    for trajectory in sampled:
        if trajectory.failure is None:
            named, opinions = _opinions(trajectory, trained)
            present |= named
            spoke |= opinions
    questions, *without = (result.metrics.get(f"judge/{name}", 0.0) for name in ("questions", "failed", "unclear"))
    present |= {JUDGE} if questions else set()
    spoke |= {JUDGE} if questions > sum(without) else set()
    for name in sorted(present):
        heard.setdefault(name, 0)
    heard.update(dict.fromkeys(sorted(spoke), step))


def _opinions(trajectory: Trajectory, trained: Collection[str]) -> tuple[set[str], set[str]]:
    """The rewards and roles of an episode, and those that gave or received a value."""
    present, spoke = set[str](), set[str]()
    for name, score in trajectory.scores.items():
        present.add(f"reward {name}")
        if any(_about(score, place) for place in range(max(1, len(trajectory.turns)))):
            spoke.add(f"reward {name}")
    for place, turn in enumerate(trajectory.turns if trajectory.scores else ()):
        if turn.policy in trained and _role(turn):
            present.add(f"role {_role(turn)}")
            if any(_about(score, place) for score in trajectory.scores.values()):
                spoke.add(f"role {_role(turn)}")
    return present, spoke


def _role(turn: Turn) -> str:
    return str(turn.role or turn.agent)


def _about(score: Score, place: int) -> bool:
    """Whether a score says something about turn number `place`."""
    if score.value is None or score.level is not Level.TURN:
        return score.value is not None
    values: Sequence[float | None] = score.value  # type: ignore[assignment]
    return place < len(values) and values[place] is not None


def begun(heard: Mapping[str, int], step: int) -> list[str]:
    """The messages after `step` about rewards, roles and judges without a value for a while."""
    late = {name: last for name, last in _silent(heard, step).items() if step - last == (MANY if last else FEW)}
    return [_sentence(name, last, step) for name, last in late.items()]


def notes(progress: Progress) -> list[str]:
    """The messages at the end of a run about rewards, roles and judges without a value, ever or for a while."""
    silent = _silent(progress.heard, progress.step)
    return [
        _sentence(name, last, progress.step)
        for name, last in silent.items()
        if not last or progress.step - last >= min(FEW, progress.step)
    ]


def _silent(heard: Mapping[str, int], step: int) -> dict[str, int]:
    """Those without a value in the last step; roles only if there are several and some reward gave a value."""
    silent = {name: last for name, last in heard.items() if last < step}
    roles = sum(name.startswith("role ") for name in heard)
    rewards = [last for name, last in heard.items() if name.startswith("reward ")]
    if len(rewards) == 1 or (rewards and max(rewards) < step) or EPISODE in silent:
        silent = {name: last for name, last in silent.items() if not name.startswith("reward ")}
    if roles < 2 or EPISODE in silent or (rewards and max(rewards) < step):
        silent = {name: last for name, last in silent.items() if not name.startswith("role ")}
    return silent


def _sentence(name: str, last: int, step: int) -> str:
    since = f"since step {last}" if last else f"in any of {step} steps"
    if name == EPISODE:
        return f"every episode has failed or ended early {since}"
    if name == JUDGE:
        return f"the judge has given no verdict {since}; ask a simpler question, or choose another judge"
    if name.startswith("role "):
        return f"no reward has scored {name} {since}"
    return f"{name} has given no value {since}"


def failure(progress: Progress) -> str | None:
    """Why a run that has come to its end has failed, in a sentence; None where it has not."""
    if not progress.step or not progress.heard:
        return None
    rewards = [last for name, last in progress.heard.items() if name.startswith("reward ")]
    if rewards and not max(rewards):
        return (
            f"no sample had a reward in {progress.step} steps, so nothing was learnt: correct the reward; the messages "
            "show what it returned"
        )
    if not progress.heard.get(EPISODE, progress.step):
        return (
            f"every episode of {progress.step} steps failed or ended early, so nothing was learnt; the messages say why"
        )
    if not progress.heard.get(JUDGE, progress.step):
        return (
            f"the judge gave no verdict in {progress.step} steps, so nothing was judged: ask a plainer question, or "
            "another judge; the messages show its answers"
        )
    return None
