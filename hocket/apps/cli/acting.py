"""`hocket act`."""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from typing import Any

from hocket.apps.cli.command import Command
from hocket.apps.cli.output import Pairs, emit, err, out
from hocket.core.errors import ConfigurationError
from hocket.train.runfolder import find_source

DETAILS = """Plays unseen episodes with a trained controller, or a team of them, as `hocket eval` plays them, and shows
every action and reward. See docs/using.md.

  hocket act RUN                                     one episode, step by step
  hocket act RUN --episodes 20 --quiet               the returns of twenty
  hocket act RUN --render ansi                       drawn as text, where the environment can
  hocket act RUN --video run.gif                     an animated picture, where the environment can"""


def flags(parser: argparse.ArgumentParser) -> None:
    """Adds the flags of `hocket act`."""
    parser.add_argument("run", metavar="RUN", help="a run folder or its name")
    parser.add_argument("--runs", default="runs", metavar="DIR")
    parser.add_argument("--task", metavar="NAME", help="another task than the run's")
    parser.add_argument("--episodes", type=int, default=1, metavar="N", help="unseen episodes to play (1)")
    parser.add_argument(
        "--seed", type=int, default=0, metavar="N", help="number of the first episode, as `hocket eval` counts (0)"
    )
    parser.add_argument("--sampled", action="store_true", help="draw actions as in training instead of the likeliest")
    parser.add_argument("--render", choices=("human", "ansi"), help="draw every step: in a window, or as text")
    parser.add_argument("--video", metavar="FILE.gif", help="write the episodes as an animated picture")
    parser.add_argument("--checkpoint", choices=("last", "best"), default="last")
    parser.add_argument("--quiet", action="store_true", help="show the outcome of each episode alone")


def act(options: argparse.Namespace, pairs: Pairs) -> int:
    """`hocket act`."""
    from hocket import tasks
    from hocket.apps.report.evaluation import load
    from hocket.apps.use import episode_view
    from hocket.apps.use.loading import task_at

    if options.video and options.render:
        raise ConfigurationError("--video and --render draw in two ways; choose one")
    which: dict[str, Any] = {"task": options.task, "which": options.checkpoint, "trust": options.trust}
    source = find_source(options.run, options.runs)
    task = tasks.find(options.task) if options.task else task_at(source, trust=options.trust)
    episode_view.check_control(task)
    subject = load(source, pairs, **which)
    console = err() if options.json else out()
    film = None
    player = subject.parts.player
    if options.video:
        film = episode_view.Film(options.video, rate=_rate(subject.task))
        player = episode_view.viewed_player(subject, film.add, "rgb_array")
    elif options.render:

        def view(drawing: Any, reward: float | None) -> None:
            if drawing is not None:
                console.print(str(drawing).rstrip("\n"), markup=False, highlight=False)
            if reward is not None:
                console.print(f"reward {reward:g}")

        player = episode_view.viewed_player(subject, view, options.render)
    episodes = []
    with ExitStack() as stack:
        stack.callback(getattr(player, "close", lambda: None))
        for number in range(options.seed, options.seed + options.episodes):
            trajectory = episode_view.play_episode(subject, player, number, greedy=not options.sampled)
            steps = episode_view.steps_of(trajectory)
            if not (options.quiet or options.render or options.video or options.json):
                for step in steps:
                    console.print(episode_view.in_words(step), highlight=False)
            returns = episode_view.returns_of(steps)
            episodes.append(_outcome(number, trajectory, steps, returns))
            console.print(f"[bold]{_line(episodes[-1])}[/]", highlight=False)
    if film is not None:
        console.print(f"{film.write()}")
    if options.json:
        checkpoint = subject.checkpoint
        emit({"task": subject.name, "checkpoint": str(checkpoint or ""), "episodes": episodes})
    return 0


def _rate(task: Any) -> float:
    """Pictures a second that the environment draws."""
    if not hasattr(task, "rendered"):
        raise ConfigurationError(f"task {task.name} draws nothing; leave --video out")
    environment = task.make()
    environment.close()
    return float(environment.world.metadata.get("render_fps") or 30.0)


def _outcome(number: int, trajectory: Any, steps: Any, returns: Any) -> dict[str, Any]:
    agents = list(returns)
    return {
        "episode": number,
        "scenario": trajectory.scenario.id,
        "steps": len(steps),
        "returns": returns,
        "truncated": trajectory.truncated,
        "actions": {agent: [step.actions[agent] for step in steps if agent in step.actions] for agent in agents},
        "rewards": {agent: [step.rewards[agent] for step in steps if agent in step.rewards] for agent in agents},
    }


def _line(episode: dict[str, Any]) -> str:
    returns = episode["returns"]
    alone = len(returns) == 1
    words = ", ".join(f"{'return' if alone else agent} {value:.4g}" for agent, value in returns.items())
    end = ", cut off at the limit" if episode["truncated"] else ""
    return f"episode {episode['episode']} ({episode['scenario']}): {episode['steps']} steps, {words}{end}"


ACT = Command(
    name="act",
    description="play a controller in its environment and show it",
    details=DETAILS,
    flags=flags,
    run=act,
    trust=True,
)
