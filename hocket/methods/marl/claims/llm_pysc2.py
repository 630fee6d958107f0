"""LLM-PySC2's claims."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from hocket.core.keys import Key
from hocket.lab.claims.harness import Claims, Finding, say
from hocket.lab.toys.teams import interval
from hocket.methods.marl.llm_pysc2.orders import Order
from hocket.methods.marl.llm_pysc2.task import CommandTask, beginner, from_name
from hocket.methods.marl.llm_pysc2.world import FOES, Command, Commands
from hocket.testing import Part, rehearse
from hocket.types import Message, Scenario
from hocket.zoo.joint.skirmish import Skirmish

claim = Claims("llm-pysc2", "arXiv:2411.05348")
GROUND = Skirmish(4, 3, size=7, radio=3, hops=1, spread=2, strength=3)
WORLD = Commands(GROUND, groups=2)


def _moments(world: Commands = WORLD, count: int = 4) -> Iterator[Command]:
    """Battles at moments of beginners' play, each to its end."""
    for seed in range(count):
        environment, rng = world.make(Scenario("battle")), Key.of(seed).numpy()
        environment.reset(Key.of(seed))
        while environment.acting:
            yield environment
            environment.act({agent: beginner(environment, agent, rng) for agent in environment.acting})


_SHOWN = re.compile(
    r"^(Own|Ally|Enemy): (\w+) (0x\w+) at \[(\d+), (\d+)\], health (\d+)/(\d+)(?:, distance (\d+))?(, told)?"
)


@claim("A commander is shown all units that its soldiers see or were told of, as they are, and nothing else.")
def a_commander_is_shown_all_units_that_its_soldiers_see_or_were() -> Finding:
    wrong, lines, told = 0, 0, 0
    for environment in _moments():
        course, n = environment.course, GROUND.count
        for agent in environment.acting:
            own = [number for number in environment.world.group(agent) if course.health[0, number] > 0]
            should = set()
            for unit in range(n + GROUND.foes):
                if course.health[0, unit] == 0 or not course.knows()[0, own, unit].any():
                    continue
                mine, seen = unit in own, bool(course.sees()[0, own, unit].any())
                row, column = course.place[0, unit].tolist()
                far = min(int(np.abs(course.place[0, one] - course.place[0, unit]).max()) for one in own)
                should.add((
                    "Own" if mine else "Ally" if unit < n else "Enemy",
                    "Soldier" if unit < n else "Foe",
                    hex(unit + 1 if unit < n else unit - n + FOES + 1),
                    str(row),
                    str(column),
                    str(course.health[0, unit]),
                    str(GROUND.health if unit < n else GROUND.strength),
                    None if mine else str(far),
                    None if seen else ", told",
                ))  # fmt: skip
            text = environment.observe(agent).text
            shown = {found.groups() for line in text.splitlines() if (found := _SHOWN.match(line))}
            wrong += shown != should or f"Time: {environment.steps}" not in text
            wrong += any(f"{environment.orders[one].text}" not in text for one in own)
            lines, told = lines + len(shown), told + sum(one[-1] is not None for one in shown)
    notes = Commands(GROUND, groups=2, knowledge=True).make(Scenario("battle"))
    kinds = all(
        f"\n{kind}: hits a unit within 2 cells" in notes.observe("commander_1").text for kind in ("Soldier", "Foe")
    )
    return Finding(wrong == 0 and told > 0 and kinds, say(wrong=wrong, units=lines, told=told, notes=kinds))


@claim("Commanders with a soldier left are asked side by side, in one round, and the game waits for all of them.")
def commanders_with_a_soldier_left_are_asked_side_by_side_in_one() -> Finding:
    world = Commands(GROUND, groups=3)
    task = from_name("command:4v3", {"groups": "3", "size": "7", "spread": "2", "length": "8"})
    rounds: list[int] = []
    waiting: list[asyncio.Event] = []

    async def asked(messages: tuple[Message, ...]) -> str:
        if not waiting:
            waiting.append(asyncio.Event())
            rounds.append(0)
            asyncio.get_running_loop().call_later(0.05, lambda: waiting.pop().set())
        rounds[-1] += 1
        await waiting[-1].wait()
        return "<Hold_Position()>"

    parts = dict.fromkeys(world.agents, Part(asked))
    (trajectory,) = rehearse(task.workflow, task.scenario("train", 0), parts)
    most = [3] * len(rounds)
    each = {agent: sum(turn.agent == agent for turn in trajectory.turns) for agent in world.agents}
    fair = rounds[0] == 3 and all(got <= full for got, full in zip(rounds, most, strict=True))
    return Finding(fair and sum(rounds) == len(trajectory.turns), say(rounds=rounds, turns=list(each.values())))


def _won(task: CommandTask, orders: Any, seeds: int = 100) -> list[float]:
    world = task.workflow.world
    found = []
    for seed in range(seeds):
        environment, rng = world.make(Scenario("battle")), Key.of(seed).numpy()
        assert isinstance(environment, Command)
        environment.reset(Key.of(seed))
        while environment.acting:
            environment.act({agent: orders(environment, agent, rng) for agent in environment.acting})
        found.append(float(environment.won))
    return found


@claim(
    "Orders decide the battle: gathering and then hitting the weakest wins more than no orders, and than a beginner."
)
def orders_decide_the_battle_gathering_and_then_hitting_the_weakest() -> Finding:
    def gather(environment: Command, agent: str, rng: Any) -> str:
        picture = environment.picture(agent)
        if picture.enemies:
            weakest = min(picture.enemies, key=lambda foe: (foe.health, foe.distance))
            return Order("Attack_Unit", (weakest.tag,)).text
        return Order("Move_Screen", (((picture.size[0] // 2), 0),)).text

    task = from_name("command:3v3", {})
    won = {
        "gathering": _won(task, gather),
        "no_orders": _won(task, lambda environment, agent, rng: Order("No_Operation").text),
        "beginner": _won(task, beginner),
    }
    lead = [interval(np.subtract(won["gathering"], won[other]).tolist())[0] for other in ("no_orders", "beginner")]
    return Finding(
        min(lead) > 0, say(**{name: float(np.mean(each)) for name, each in won.items()}, least_lead=min(lead))
    )
