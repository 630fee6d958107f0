"""A walker in mazes learns from one reward at the goal, each move credited against others from the same cell (GiGPO).

    python examples/maze_walker.py [SEED]

First it is shown single moves: one in five the best, the others at random. Then it walks.
"""

import sys

import hocket
from hocket.agents.workflows.environment import PlayEnvironment
from hocket.core.keys import Key
from hocket.recipes import GIGPO, SFT
from hocket.train.config import configure
from hocket.types import Scenario
from hocket.zoo.maze import DIRECTIONS, Mazes
from hocket.zoo.tasks.maze import MazeTask

LESSONS = SFT.but({"update.lr": 1e-3, "curriculum.prompts": 48})
WALKS = GIGPO.but({"update.lr": 3e-4, "curriculum.prompts": 8, "rollout.samples": 8})
MAZES = Mazes(width=4, height=4, loops=5, steps=12, brief=True)


class Walker(MazeTask):
    """Each scenario also shows a move from some cell of its maze, for the first phase."""

    def __init__(self):
        super().__init__(PlayEnvironment(MAZES, memory=False, turns=MAZES.steps, instruct=False))

    def scenario(self, split, number):
        found, rng = super().scenario(split, number), Key.of(number).derive("shown", split).numpy()
        maze = MAZES.make(found)
        far, goal = maze.layout.distances, maze.layout.goal
        maze.cell = int(rng.choice([cell for cell in range(len(far)) if cell != goal]))
        ways = maze.layout.open(maze.cell)
        best = min(ways, key=lambda way: far[maze.layout.ways[maze.cell][way]])
        shown = {"demonstration": DIRECTIONS[best if rng.random() < 0.2 else rng.choice(ways)][0]}
        question = self.workflow.question(maze.observe("player"), first=True)
        return Scenario(found.id, question, metadata={**found.metadata, **shown}, seed=number)


def main(seed=0, lessons=80, steps=40):
    """Prints how many of the walks of each step arrive."""
    plan = [{"recipe": f"{__file__}:LESSONS", "steps": lessons}, {"recipe": f"{__file__}:WALKS", "steps": steps}]
    settings = {"plan": plan, "seed": seed, "decoding.max_tokens": 4, "evaluation.n": 50, "evaluation.every": 0}
    trainer = hocket.Trainer(configure(list(settings.items()), Walker()), task=Walker())
    while not trainer.done:
        row = trainer.step()
        if row["step"] > lessons:
            print(f"step {row['step'] - lessons}: {row['reward/mean']:.0%} arrive", flush=True)
    trainer.finish("finished")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
