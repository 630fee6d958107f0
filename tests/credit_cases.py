"""Random experience for tests of credit, and the rewards of a trajectory computed by hand."""

from __future__ import annotations

import itertools

import numpy as np
import torch
from hypothesis import settings
from hypothesis import strategies as st

from hocket.core.batch import Batch, Level, RecordedNumbers
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.lab.microscope import RecordedBatch
from hocket.methods.group_relative.tw_grpo import DIVERGENCE
from hocket.rewards.combine import WeightedSum
from hocket.types import Scenario, Score, Trajectory, Turn

LAW = settings(max_examples=25, deadline=None, derandomize=True)

NUMBERS = st.sampled_from([0.0, 1.0, 1.0, -0.5, 0.1, 2.25, 1 / 3])
"""Few values, so that equal rewards are common."""


def make_turn(length, *, agent="solo", parent=None, state=None, forced=None, logp=None, observed=2):
    return Turn(
        agent=agent,
        policy=agent,
        observation=np.arange(observed),
        action=np.arange(length),
        logp=np.full(length, -1.0, np.float32) if logp is None else np.asarray(logp, np.float32),
        parent=parent,
        state=state,
        forced=None if forced is None else np.asarray(forced, bool),
    )


def make(group, reward, *, length=2, source="own", truncated=False, turns=None, sample=0):
    """A trajectory with one score, `verdict`."""
    return Trajectory(
        scenario=Scenario(str(group)),
        turns=[make_turn(length)] if turns is None else turns,
        sample=sample,
        scores={} if reward is None else {"verdict": Score(reward)},
        truncated=truncated,
        terminated=not truncated,
        source=source,
    )


def batch_of(trajectories) -> Batch:
    return WeightedSum()(pack(trajectories), {})


@st.composite
def experiences(draw, *, sources=("own",), least=1):
    """Trajectories of several scenarios: trees, several agents, forced decisions, rewards at every level."""
    trajectories = []
    kinds = draw(st.sets(st.sampled_from(["verdict", "turns", "steps"]), min_size=1))
    for scenario in range(draw(st.integers(1, 3))):
        siblings = []
        for sample in range(draw(st.integers(least, 4))):
            shared = []
            if siblings and draw(st.booleans()):
                other = draw(st.sampled_from(siblings)).turns
                shared = list(other[: draw(st.integers(0, len(other)))])
            own = draw(st.integers(0 if shared else 1, 2))
            turns = shared
            for _ in range(own):
                length = draw(st.integers(1, 3))
                forced = draw(st.lists(st.booleans(), min_size=length, max_size=length))
                turns = [
                    *turns,
                    make_turn(
                        length,
                        agent=draw(st.sampled_from("ab")),
                        parent=turns[-1] if turns else None,
                        state=draw(st.sampled_from(["x", "y", None])),
                        forced=forced if draw(st.integers(0, 3)) == 0 else None,
                    ),
                ]
            siblings.append(
                _scored(draw, Scenario(str(scenario)), turns, sample, kinds, draw(st.sampled_from(sources)))
            )
        trajectories += siblings
    for turn in {id(turn): turn for trajectory in trajectories for turn in trajectory.turns}.values():
        turn.extras["reward"] = draw(NUMBERS)
    for trajectory in trajectories:
        if "turns" in kinds:
            trajectory.scores["turns"] = Score([turn.extras["reward"] for turn in trajectory.turns], Level.TURN)
    return trajectories


def _scored(draw, scenario, turns, sample, kinds, source):
    truncated = draw(st.booleans())
    trajectory = Trajectory(scenario, turns, sample, terminated=not truncated, truncated=truncated, source=source)
    if "verdict" in kinds:
        trajectory.scores["verdict"] = Score(draw(NUMBERS))
    if "steps" in kinds:
        size = trajectory.length
        trajectory.scores["steps"] = Score(draw(st.lists(NUMBERS, min_size=size, max_size=size)), Level.DECISION)
    return trajectory


# ---------------------------------------------------------------- the same by hand, from trajectories


def rewards_by_hand(trajectory) -> list[float]:
    """The reward at each decision of a trajectory, from its recorded scores."""
    rewards = [0.0] * trajectory.length
    if "steps" in trajectory.scores:
        rewards = [float(x) for x in trajectory.scores["steps"].value]
    if "turns" in trajectory.scores:
        at = 0
        for turn, value in zip(trajectory.turns, trajectory.scores["turns"].value, strict=True):
            at += len(turn)
            rewards[at - 1] += value
    if "verdict" in trajectory.scores:
        rewards[-1] += trajectory.scores["verdict"].value
    return rewards


def weights_by_hand(trajectory) -> list[float]:
    forced = [
        bool(f) for turn in trajectory.turns for f in ([False] * len(turn) if turn.forced is None else turn.forced)
    ]
    return [0.0 if trajectory.source == "baseline" or f else 1.0 for f in forced]


def counts(trajectory) -> bool:
    return any(weights_by_hand(trajectory))


def by_trajectory(batch, column):
    """`[E]` numbers as one list per trajectory."""
    lists = [[] for _ in range(batch.trajectories)]
    for trajectory, number in zip(batch.occurrences.trajectory.tolist(), column.tolist(), strict=True):
        lists[trajectory].append(number)
    return lists


def mean(numbers):
    return sum(numbers) / len(numbers)


def deviation(numbers, ddof):
    if len(numbers) <= ddof:
        return 0.0
    centre = mean(numbers)
    return (sum((x - centre) ** 2 for x in numbers) / (len(numbers) - ddof)) ** 0.5


def recorded(values):
    return RecordedNumbers(values, values == values)


# ---------------------------------------------------------------- groups of answers


def credit_of(credit, *groups, **columns):
    """The advantage of each trajectory of groups given by rewards."""
    batch = batch_of([make(number, reward, length=1) for number, group in enumerate(groups) for reward in group])
    return credit(batch.but(info=columns)).advantage.tolist()


def answers_of(rewards, *, groups=None, lengths=None, scores=None):
    """A batch of one answer per reward, combined."""
    rows = [
        {
            "id": f"{n}",
            "group": "g" if groups is None else str(groups[n]),
            "scores": {"reward": reward, **({} if scores is None else scores[n])},
            "logp": [-1.0] * (1 if lengths is None else lengths[n]),
        }
        for n, reward in enumerate(rewards)
    ]
    return WeightedSum()(RecordedBatch({"version": 1, "trajectories": rows}).batch, {})


def pairs_of(seen):
    return sorted(map(tuple, seen.pairs.tolist()))


# ---------------------------------------------------------------- turns of teams


def valued(batch, seed=0):
    """Random values of decisions, and of final states where cut off."""
    draw = Key.of(seed).torch()
    value = torch.randn(batch.decisions, generator=draw, dtype=torch.float64)
    final = torch.randn(batch.trajectories, generator=draw, dtype=torch.float64)
    return batch.but(value=value, final_value=torch.where(batch.truncated, final, 0.0))


def counted_turns(trajectory):
    """For each turn whether any of its decisions counts."""
    weights = weights_by_hand(trajectory)
    ends = list(itertools.accumulate(len(turn) for turn in trajectory.turns))
    return [any(weights[end - len(turn) : end]) for turn, end in zip(trajectory.turns, ends, strict=True)]


def normalised(values, epsilon):
    """(x - mean) / (std + epsilon), 0 where all are equal."""
    if len(set(values)) < 2:
        return [0.0] * len(values)
    return [(x - mean(values)) / (deviation(values, 1) + epsilon) for x in values]


# ---------------------------------------------------------------- entropies and divergences


def annotated(trajectories, seed=0):
    """A batch with entropies and divergences that belong to decisions, whatever the order of trajectories."""
    batch = batch_of(trajectories)
    turns = {id(turn): turn for trajectory in trajectories for turn in trajectory.turns}
    for number, turn in enumerate(turns.values()):
        turn.extras.setdefault("noise", Key.of(seed).derive(number).numpy().exponential(size=len(turn)))
    noise = torch.tensor([float(x) for t in turns.values() for x in t.extras["noise"]], dtype=torch.float64)
    assert len(noise) == batch.decisions
    return batch.but(entropy=noise, annotations={DIVERGENCE.name: noise.square()}, progress=0.0)


# ---------------------------------------------------------------- trees of dialogues

PATHS = st.lists(
    st.tuples(
        st.lists(st.integers(0, 2), min_size=1, max_size=3).map(tuple),
        st.integers(0, 8).map(lambda n: n / 8),
        st.sampled_from("ab"),
        st.booleans(),
    ),
    min_size=1,
    max_size=10,
)
"""What is said, the reward, the scenario, whether it counts."""


def dialogues_of(rows: list[tuple[tuple[int, ...], float, str, bool]]) -> Batch:
    """Dialogues of two speakers as a batch; equal beginnings are one object. Message n has n + 1 decisions."""
    known: dict[tuple[object, ...], Turn] = {}
    found = []
    for path, reward, scenario, counts in rows:
        turns = []
        for length in range(1, len(path) + 1):
            name = (scenario, path[:length], counts)
            if name not in known:
                size = path[length - 1] + 1
                logp = np.array([-0.1 * (length + place + 1) for place in range(size)], np.float32)
                known[name] = Turn(
                    "ab"[length % 2], "p", np.zeros(1, np.int64), np.full(size, path[length - 1]), logp=logp
                )
            turns.append(known[name])
        source = "own" if counts else "baseline"
        found.append(Trajectory(Scenario(scenario), turns, scores={"r": Score(reward)}, source=source))
    batch = WeightedSum()(pack(found), {})
    values = torch.linspace(-2, -0.1, batch.decisions, dtype=torch.float64)
    known_everywhere = torch.ones(batch.decisions, dtype=torch.bool)
    return batch.but(logp={**batch.logp, "reference": RecordedNumbers(values, known_everywhere)})
