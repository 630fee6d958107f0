"""Claims of worlds in which anybody may sit."""

from __future__ import annotations

import io
import json
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import hocket
from hocket.apps.play.arena import ArenaEpisode, played, seated
from hocket.apps.play.screen import TerminalScreen
from hocket.core.errors import HocketError
from hocket.core.keys import Key
from hocket.lab.claims.harness import Claims, Finding

claim = Claims("mosaic-platform", "abstract")

TIT_FOR_TAT = """
class TitForTat:
    draws = 0

    def __init__(self, place):
        self.moves = place.seat.actions

    def act(self, seen, allowed, uniforms):
        return int(seen[self.moves + 1] > 0.5)


def late(seen, allowed, uniforms):
    late.asked = getattr(late, "asked", 0) + 1
    if late.asked == 3:
        raise RuntimeError("out of order")
    return 0
"""


def episodes(task: str, who: Mapping[str, str], count: int, workers: bool = False, **how: Any) -> list[ArenaEpisode]:
    """The first evaluation episodes of a lineup."""
    given = {"runs": "runs", "temperature": 1.0, **how}
    with seated(task, who, workers=workers, **given) as player:
        return [played(player, task, number, Key.of(0)) for number in range(count)]


@claim("Chance and a script play the same episodes, byte for byte, here and as processes of their own.", slow=True)
def chance_and_a_script_play_the_same_episodes_byte_for_byte_here() -> Finding:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "mine.py").write_text(TIT_FOR_TAT)
        who = {"row": "random", "column": f"{folder}/mine.py:TitForTat"}
        here = [one.to_json() for one in episodes("dilemma:prisoners", who, 6)]
        there = [one.to_json() for one in episodes("dilemma:prisoners", who, 6, workers=True)]
        # Vectors too, and three agents who see what the others do.
        team = dict.fromkeys(("agent_0", "agent_1", "agent_2"), "random")
        vectors = [[one.to_json() for one in episodes("mpe:spread", team, 2, workers=w)] for w in (False, True)]
    follows = all(
        column[0] == 0 and column[1:] == row[:-1]
        for one in map(_actions, here)
        for row, column in [(one["row"], one["column"])]
    )
    varied = len(set(here)) > 1
    return Finding(here == there and vectors[0] == vectors[1] and follows and varied, f"{here[0][:60]}...")


def _actions(line: str) -> dict[str, list[int]]:
    found: dict[str, list[int]] = json.loads(line)["actions"]
    return found


@claim(
    "A worker that fails, speaks another version, is no such program or answers what is no action: one sentence each."
)
def a_worker_that_fails_speaks_another_version_is_no_such_program() -> Finding:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "mine.py"
        file.write_text(TIT_FOR_TAT)
        old = Path(folder) / "old.py"
        ready = "import sys, hocket.apps.play.worker as w; w.write(sys.stdout.buffer, w.Ready({})); {}"
        old.write_text(ready.format(7, "sys.stdin.read()"))
        odd = Path(folder) / "odd.py"
        answers = "[w.write(sys.stdout.buffer, w.Acted(9)) for _ in range(3)]; sys.stdin.read()"
        odd.write_text(ready.format(1, answers))
        said = {}
        for name, who, workers in (
            ("fails", f"{file}:late", True),
            ("old", f"exec:{sys.executable} {old}", False),
            ("none", "exec:no-such-program", False),
            ("odd", f"exec:{sys.executable} {odd}", False),
        ):
            try:
                episodes("dilemma:prisoners", {"row": who, "column": "random"}, 1, workers)
                said[name] = "played on"
            except HocketError as error:
                said[name] = str(error)
    wanted = {"fails": "out of order", "old": "speaks version 7", "none": "does not start", "odd": "does 9"}
    heard = [name for name in wanted if wanted[name] in said[name] and "row" in said[name]]
    return Finding(heard == list(wanted), "; ".join(wanted[name] for name in heard))


@claim(
    "A trained policy, a language model, a script and a person at a pipe play a PettingZoo game to the end; a trained "
    "policy plays the same as a process.",
    slow=True,
)
def a_trained_policy_a_language_model_a_script_and_a_person_at_a() -> Finding:
    zoo = "pettingzoo:mpe2.simple_spread_v3?N=3"
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "mine.py").write_text("def still(seen, allowed, uniforms):\n    return 0\n")
        settings: dict[str, Any] = {"evaluation.n": 4}
        run = hocket.train(zoo, recipe="ippo", steps=2, runs=folder, run="zoo", **settings)
        team = {"agent_0": "run:zoo", "agent_1": "model:nano", "agent_2": f"{folder}/mine.py:still"}
        mixed = episodes(zoo, team, 2, runs=folder)
        again = episodes(zoo, team, 2, workers=True, runs=folder)
        typed = TerminalScreen(lines=io.StringIO("1\n" * 25 + "x\n"))
        with_person = episodes(zoo, {**team, "agent_1": "person"}, 1, runs=folder, screen=typed)
    whole = all(one.failure is None and one.length == 25 for one in (*mixed, *with_person))
    same = [one.to_json() for one in mixed] == [one.to_json() for one in again]
    person = with_person[0].actions["agent_1"] == [1] * 25
    return Finding(
        whole and same and person and mixed[0].actions["agent_2"] == [0] * 25 and run is not None,
        f"25 steps each; returns { ({agent: round(value, 1) for agent, value in mixed[0].returns.items()}) }",
    )
