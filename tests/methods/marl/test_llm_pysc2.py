"""Orders in text: what is read, and what they do."""

from __future__ import annotations

import itertools
from functools import cache
from typing import Any

from hocket.core.keys import Key
from hocket.methods.marl.claims.llm_pysc2 import GROUND, WORLD, _moments
from hocket.methods.marl.llm_pysc2.orders import ORDERS, Argument, Order, legal, read, refusal
from hocket.methods.marl.llm_pysc2.world import FOES, Command, Commands
from hocket.types import Scenario
from hocket.zoo.joint.skirmish import Skirmish


def test_every_legal_order_is_read_as_itself():
    tried, wrong, names = 0, 0, set()
    for environment in _moments():
        for agent in environment.acting:
            picture = environment.picture(agent)
            orders = list(legal(picture))
            tried += len(orders)
            names |= {order.name for order in orders}
            wrong += sum(read(order.text).orders != (order,) for order in orders)
            wrong += sum(refusal(order, picture) is not None for order in orders)
            together = "Actions:\n\tTeam 1 < 3:\n" + "\n".join(f"\t\t{order.text} so (a, b)" for order in orders)
            wrong += read(together).orders != tuple(orders) or len(set(orders)) != len(orders)
    assert wrong == 0
    assert names == set(ORDERS)


def _opened(world: Commands, places: list[list[int]], health: list[int] | None = None) -> Command:
    """A battle whose units stand in these cells, soldiers first."""
    environment = world.make(Scenario("battle"))
    environment.reset(Key.of(0))
    environment.course.place[0] = places
    if health is not None:
        environment.course.health[0] = health
    return environment


def test_orders_do_what_they_say():
    one = Commands(Skirmish(1, 1, size=9, sight=3, reach=1, strength=9, health=9), pace=1)
    near = [[4, 2], [4, 4]]

    def done(order: str, *places: list[int], steps: int = 1) -> tuple[list[int], int]:
        environment = _opened(one, list(places))
        for _ in range(steps):
            environment.act({"commander_1": order if environment.steps == 0 else "<No_Operation()>"})
        return environment.course.place[0, 0].tolist(), int(environment.course.health[0, 1])

    found = {
        "idle": done("<Stop()>", *near) == ([4, 3], 9),  # goes for the foe that it sees
        "blind": done("<Stop()>", [4, 0], [4, 8]) == ([4, 0], 9),
        "hold": done("<Hold_Position()>", *near) == ([4, 2], 9),
        "hold hits": done("<Hold_Position()>", *near, steps=2) == ([4, 2], 8),  # the foe has come
        "move": done("<Move_Screen([4, 0])>", [4, 3], [4, 4]) == ([4, 2], 9),
        "move along the longer way": done("<Move_Screen([6, 3])>", [3, 2], [8, 8]) == ([4, 2], 9),
        "move, of equals along the row": done("<Move_Screen([4, 3])>", [3, 2], [8, 8]) == ([3, 3], 9),
        "arrive, then idle": done("<Move_Screen([4, 3])>", *near, steps=2)[1] == 8,
        "attack a place": done("<Attack_Screen([4, 0])>", [4, 3], [4, 4]) == ([4, 3], 8),
        "attack a place, nobody there": done("<Attack_Screen([4, 0])>", [4, 2], [8, 8]) == ([4, 1], 9),
        "hunt": done("<Attack_Unit(0x11)>", *near) == ([4, 3], 9),
        "hit": done("<Attack_Unit(0x11)>", [4, 3], [4, 4]) == ([4, 3], 8),
    }
    assert all(found.values())


def test_an_order_lasts_until_the_next():
    ground = Skirmish(4, 2, size=9, sight=8, reach=8, spread=2, strength=3)
    cells = [[0, 0], [2, 0], [4, 0], [6, 0], [0, 8], [1, 8]]
    world = Commands(ground, groups=2, pace=1)
    environment = _opened(world, cells)
    said = "<Move_Screen([8, 8])> <Select_Unit_Attack_Unit(0x2, 0x12)>"
    environment.act({"commander_1": said, "commander_2": "<Attack_Unit(0x12)>"})
    orders = [order.text for order in environment.orders]
    shared = orders == ["<Move_Screen([8, 8])>", *["<Attack_Unit(0x12)>"] * 3]
    hit = environment.course.health[0, 4:].tolist() == [3, 0]
    environment.act(dict.fromkeys(environment.acting, "<No_Operation()>"))
    idle = [order.text for order in environment.orders] == ["<Move_Screen([8, 8])>", *["<Stop()>"] * 3]
    after = environment.course.health[0, 4:].tolist() == [0, 0]
    assert shared
    assert hit
    assert idle
    assert after


def _possible(environment: Command, order: Order, agent: str) -> bool:
    """Whether an order can be carried out, by the arrays of the game alone."""
    course, ground = environment.course, environment.world.ground
    own = [number for number in environment.world.group(agent) if course.health[0, number] > 0]
    known = {n for n in range(ground.count, ground.count + ground.foes) if course.knows()[0, own, n].any()}
    mine = {number + 1 for number in own}
    foes = {FOES + 1 + number - ground.count for number in known if course.health[0, number] > 0}
    forms: dict[str, tuple[str, ...]] = {
        **dict.fromkeys(("No_Operation", "Stop", "Hold_Position"), ()),
        **dict.fromkeys(("Move_Screen", "Attack_Screen"), ("cell",)),
        "Attack_Unit": ("foe",),
        "Select_Unit_Hold_Position": ("mine",),
        **dict.fromkeys(("Select_Unit_Move_Screen", "Select_Unit_Attack_Screen"), ("mine", "cell")),
        "Select_Unit_Attack_Unit": ("mine", "foe"),
    }
    form = forms.get(order.name)
    if form is None or len(form) != len(order.arguments):
        return False

    def fits(kind: str, given: Argument) -> bool:
        if kind == "cell":
            return not isinstance(given, int) and min(given) >= 0 and max(given) < ground.size
        return given in (mine if kind == "mine" else foes)

    return all(fits(kind, given) for kind, given in zip(form, order.arguments, strict=True))


def _anything(size: int) -> list[Order]:
    """Orders that have the form of one: all names and some that are none, with all sorts of arguments."""
    tags = (0, 1, 2, 3, 4, 5, FOES, FOES + 1, FOES + 2, FOES + 3, FOES + 4, 0xFFFF)
    cells = ((0, 0), (size - 1, 0), (size, 0), (0, size), (-1, 2), (3, size - 1))
    some: list[tuple[Argument, ...]] = [(), *((one,) for one in (*tags, *cells))]
    some += [(tag, other) for tag in tags for other in (*tags, *cells)]
    some += [((0, 0), 1), ((0, 0), (1, 1)), (1, FOES + 1, (0, 0))]
    return [
        Order(name, arguments) for name in (*ORDERS, "Fly", "attack_unit", "Build_Pylon_Screen") for arguments in some
    ]


def test_what_is_illegal_is_refused_and_counted():
    tried, wrong, refused = 0, 0, 0
    for environment in itertools.islice(_moments(count=3), 0, None, 3):
        for agent in environment.acting:
            picture = environment.picture(agent)
            for order in _anything(GROUND.size):
                possible = _possible(environment, order, agent)
                wrong += possible != (refusal(order, picture) is None) or possible != (order in _legal(picture))
                tried, refused = tried + 1, refused + (not possible)
    environment = WORLD.make(Scenario("battle"))
    environment.reset(Key.of(1))
    first, second = environment.agents
    before = list(environment.orders)
    said = "<Fly()> <Move_Screen([7, 0])> <Attack_Unit(0x11)> <Select_Unit_Stop(0x1)> <Stop(1)> "
    said += "<Select_Unit_Move_Screen(0x3, [0, 0])>"
    environment.act({first: said, second: "I wait."})
    told = [line for line in environment.observe(first).text.splitlines() if line.startswith("Refused: ")]
    kept = environment.orders == before and environment.illegal == {first: 6, second: 1}
    named = all(
        text in line for text, line in zip(["<Stop(1)>", "Fly", "[7, 0]", "0x11", "Select", "0x3"], told, strict=True)
    )
    silent = "Refused: there was no order" in environment.observe(second).text
    environment.act({first: "<Stop()>", second: "<No_Operation()>"})
    gone = "Refused" not in environment.observe(first).text and environment.illegal == {first: 6, second: 1}
    assert wrong == 0
    assert refused > 1000
    assert tried - refused > 150
    assert kept
    assert named
    assert silent
    assert gone


@cache
def _legal(picture: Any) -> frozenset[Order]:
    return frozenset(legal(picture))


def test_a_message_reaches_its_commander_alone():
    world = Commands(GROUND, groups=4)
    environment = world.make(Scenario("battle"))
    environment.reset(Key.of(0))
    one, two, three, _ = world.agents
    quiet = dict.fromkeys(world.agents, "<No_Operation()>")
    environment.act({**quiet, three: "<ListenTo(West)> <No_Operation()>", one: "<ListenTo(West)> <No_Operation()>"})
    said = f"<Stop()> <MessageTo({two}, '''go\n  north''')> <MessageTo(West, '''hold <Stop()> [1, 2]''')>"
    environment.act({**quiet, one: said})
    heard = [environment.picture(agent).heard for agent in world.agents]
    right = heard == [(), (f"From {one}: go north",), (f"From West, {one}: hold <Stop()> [1, 2]",), ()]
    shown = f"From {one}: go north" in environment.observe(two).text
    clean = environment.illegal == dict.fromkeys(world.agents, 0)
    environment.act({**quiet, two: f"<Stop()> <MessageTo({two}, '''me''')>"})
    later = [environment.picture(agent).heard for agent in world.agents] == [(), (f"From {two}: me",), (), ()]
    mute = Commands(GROUND, groups=4, talking=False).make(Scenario("battle"))
    mute.act({**quiet, one: said})
    silent = not any(mute.picture(agent).heard for agent in world.agents)
    assert right
    assert shown
    assert clean
    assert later
    assert silent
