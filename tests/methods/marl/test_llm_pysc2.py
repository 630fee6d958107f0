"""Orders in text: what is read, and what they do."""

from __future__ import annotations

from hocket.core.keys import Key
from hocket.methods.marl.claims.llm_pysc2 import _moments
from hocket.methods.marl.llm_pysc2.orders import ORDERS, legal, read, refusal
from hocket.methods.marl.llm_pysc2.world import Command, Commands
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
