"""A pair in the particle world learns to cover two landmarks without bumping into each other: IPPO, then MAPPO.

    python examples/particle_pair.py [SEED]

Both share one network between the agents; MAPPO's critic sees the whole world while it learns. Half a minute each.
"""

import asyncio
import sys
import tempfile

import numpy as np

import hocket
from hocket import tasks
from hocket.core.keys import Key
from hocket.rollout.joint import JointPlayer
from hocket.types import Assignment, Decoding

TASK = "mpe:spread?agents=2"


def chance(episodes: int = 500) -> float:
    """The mean return of an agent whose moves are drawn at random."""
    world = tasks.find(TASK).world
    copies, rng = world.open(episodes), np.random.default_rng(0)
    copies.reset(range(episodes), range(episodes))
    steps = [copies.step(list(rng.integers(0, 5, (2, episodes))), np.ones(episodes, bool)) for _ in range(25)]
    return float(sum(step.rewards.mean() for step in steps))


def watched(policy, seed: int = 1) -> None:
    """One episode, told by how far each landmark is from the nearest agent."""
    task = tasks.find(TASK)
    player = JointPlayer(task.world, {"policy": policy}, dict.fromkeys(task.world.agents, "policy"))
    asked = Assignment(task.scenario("eval", seed), decoding=Decoding(temperature=0.0))
    episode = asyncio.run(player.play([asked], key=Key.of(seed)))[0]
    for time in (0, 8, 24):
        agents, marks = np.split(episode.turns[0].joint[time].reshape(6, 2)[[0, 1, 4, 5]], 2)
        nearest = np.linalg.norm(agents[:, None] - marks, axis=-1).min(0)
        print(f"  at time {time:2d} landmarks are {nearest[0]:.2f} and {nearest[1]:.2f} from the nearest agent")


def main(seed: int = 0, steps: int = 40) -> None:
    """Trains the pair by both methods and tells what came of it."""
    print(f"by chance an agent earns {chance():.1f} an episode")
    for method in ("ippo", "mappo"):
        with tempfile.TemporaryDirectory() as folder:
            run = hocket.train(task=TASK, recipe=method, steps=steps, seed=seed, runs=folder)
            print(f"{method}: {run.evaluate(200).success:.1f} after {steps} steps")
            watched(run.policy)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
