"""What mua-rl claims."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

import numpy as np

from hocket.core.canonical import database_hash
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.environments.order_desk import (
    ADDRESSES,
    HANDLERS,
    NOTES,
    WISHES,
    Database,
    DeskTool,
    Goal,
    Manner,
    OrderDesk,
    ceiling,
    draw_database,
    goals,
)
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.talk import TalkBench
from hocket.lab.toys.rewarded import SEEDS, line
from hocket.methods.agents.mua_rl import MUA_RL
from hocket.rewards.database_hash import DatabaseMatch
from hocket.testing import rehearse
from hocket.types import Message, Scenario, Trajectory
from hocket.workflows.simulated_user import SimulatedUser

claim = Claims("mua-rl", "catalogue; Zhao et al., arXiv 2508.18669, and its released score")


SOLVED = DatabaseMatch()


def reordered(value: Any, rng: np.random.Generator) -> Any:
    """The same value with the keys of all dicts in another order."""
    if isinstance(value, dict):
        keys = list(value)
        return {keys[place]: reordered(value[keys[place]], rng) for place in rng.permutation(len(keys)).tolist()}
    return [reordered(one, rng) for one in value] if isinstance(value, list) else value


def altered(value: Any) -> Any:
    """Another value of the same type."""
    if isinstance(value, list):
        return [*value, "x"]
    return value + 1 if isinstance(value, int) else f"{value}."


@claim("the hash is invariant to the order of dict keys")
def order_of_keys() -> Finding:
    """The hash does not depend on the order of dict keys; it does on every value."""
    rng = Key.of(0).derive("order of keys").numpy()
    same = tries = changed = values = 0
    for number in range(20):
        database = draw_database(5, Key.of(number))
        tries += 1
        same += database_hash(database) == database_hash(reordered(database, rng))
        for order, fields in database["orders"].items():
            for name, value in fields.items():
                other = copy.deepcopy(database)
                other["orders"][order][name] = altered(value)
                values += 1
                changed += database_hash(other) != database_hash(database)
    holds = same == tries and changed == values
    return Finding(holds, f"{same} of {tries} hashes stay when keys move, {changed} of {values} change with one value")


def cases(count: int = 2) -> list[tuple[Database, Goal, Scenario]]:
    """Every goal of a few databases."""
    desk, found = OrderDesk(), []
    for number in range(count):
        database = draw_database(4, Key.of(number))
        found += [
            (database, goal, desk.scenario(f"{number}/{place}", database, goal))
            for place, goal in enumerate(goals(database, WISHES))
        ]
    return found


def bit(scenario: Scenario, database: Database, said: Sequence[str]) -> float:
    """The reward of an episode that ends with `database`, in which the agent said so."""
    trajectory = Trajectory(scenario, [], info={"database": database, "said": list(said)})
    (value,) = asyncio.run(SOLVED([trajectory], key=Key.of(0)))
    return float(value or 0.0)


@claim("the reward is invariant to detours that restore the state")
def detours_are_free() -> Finding:
    """A detour that restores the state changes nothing: looking up, and an address changed to and fro."""
    known = cases()
    kept = tried = 0
    for database, goal, scenario in known:
        for number, order in database["orders"].items():
            after = copy.deepcopy(database)
            DeskTool("look_up", after).call({"order": number})
            if order["state"] == "open":
                for address in (*ADDRESSES, order["address"]):
                    DeskTool("change_address", after).call({"order": number, "address": address})
            after = goal.done(after)
            DeskTool("cancel", after).call({"order": "no such order"})
            tried += 1
            kept += bit(scenario, after, goal.outputs(database)) == 1.0
    return Finding(kept == tried, f"reward 1 in {kept} of {tried} episodes with a detour, over {len(known)} goals")


def every_write(database: Database) -> list[tuple[str, Mapping[str, str]]]:
    """Every call of a writing tool that could be made."""
    values = {"address": ADDRESSES, "text": NOTES}
    found: list[tuple[str, Mapping[str, str]]] = []
    for name, (_, given) in HANDLERS.items():
        for number in database["orders"] if name != "look_up" else ():
            others = values[given[1]] if len(given) > 1 else ("",)
            found += [(name, {"order": number, **({given[1]: value} if len(given) > 1 else {})}) for value in others]
    return found


@claim("the reward is 0 after any extra write")
def extra_writes_fail() -> Finding:
    """Any write beyond the right ones gives 0, and so do the right ones left out and an output left unsaid."""
    extra = spoilt = 0
    bare = unsaid = wanted = told = 0
    for database, goal, scenario in cases():
        outputs, right = goal.outputs(database), goal.done(database)
        for name, arguments in every_write(right):
            after = copy.deepcopy(right)
            DeskTool(name, after).call(arguments)
            if after != right:
                extra += 1
                spoilt += bit(scenario, after, outputs) == 0.0
        if goal.actions:
            wanted += 1
            bare += bit(scenario, database, outputs) == 0.0
        if outputs:
            told += 1
            unsaid += bit(scenario, right, ["Done."]) == 0.0
    return Finding(
        spoilt == extra and bare == wanted and unsaid == told,
        f"0 after {spoilt} of {extra} extra writes, in {bare} of {wanted} episodes without the right one, and in "
        f"{unsaid} of {told} where an output was not said",
    )


def call(name: str, **arguments: str) -> str:
    """A call as the agent writes it."""
    return f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"


@claim("the loss covers agent tokens only; the user closes the episode")
def only_the_agent_learns() -> Finding:
    """Decisions are the agent's tokens alone; what a call says is not said to the user; the user closes the talk."""
    desk = OrderDesk()
    database: Database = TOY_DATABASE
    goal = Goal("refund", {"order": "13"})
    replies = ["Which order?", call("refund", order="13"), "It is 20."]
    (played,) = rehearse(SimulatedUser(desk), desk.scenario("s", database, goal), replies)
    batch = pack([played])
    spoken = sum(len(turn) for turn in played.turns)
    heard = [message["content"] for message in played.turns[-1].prompt if message["role"] in ("user", "tool")]
    holds = (
        batch.decisions == spoken
        and bool((batch.occurrences.weight != 0).all())
        and played.info["said"] == ["Which order?", "It is 20."]
        and heard == ["I want my money back for an order. How much is it?", "It is order 13.", "refunded 20"]
        and played.terminated
        and SOLVED.judge(played) == 1.0
    )
    return Finding(holds, f"{batch.decisions} decisions for {spoken} tokens of the agent; it heard {heard}")


TOY_DATABASE: Database = {
    "orders": {
        number: {"item": item, "price": price, "address": address, "state": state, "notes": []}
        for number, item, price, address, state in (
            ("11", "lamp", 30, "Elm 4", "open"),
            ("12", "rug", 55, "Elm 4", "open"),
            ("15", "clock", 90, "Elm 4", "open"),
            ("13", "clock", 20, "Oak 7", "delivered"),
            ("14", "chair", 70, "Oak 7", "delivered"),
            ("16", "chair", 45, "Oak 7", "delivered"),
        )
    }
}
TOY_ADDRESSES = ("Ash 9", "Fir 2")
MANNER = Manner(volunteer=0.2, deaf=0.1)


def toy_goals() -> list[Goal]:
    """Cancelling, refunds, and two new addresses for each open order."""
    every = goals(TOY_DATABASE, ("cancel", "refund", "address"))
    return [goal for goal in every if goal.slots.get("address", TOY_ADDRESSES[0]) in TOY_ADDRESSES]


def vocabulary() -> list[str]:
    """Whole replies: questions, calls of the five tools, and statements."""
    orders = TOY_DATABASE["orders"]
    words = ["Which order?", "Which address?", "Anything else?", "Done."]
    words += [f"Done. {order['price']}" for order in orders.values() if order["state"] == "delivered"]
    for number, order in orders.items():
        words += [call(name, order=number) for name in ("cancel", "refund", "look_up")]
        if order["state"] == "open":
            words += [call("change_address", order=number, address=address) for address in TOY_ADDRESSES]
    return [*words, call("add_note", order="11", text="gift")]


WORDS = vocabulary()
_FITTING = {"cancel": "cancel", "refund": "money back", "change_address": "change the address"}


def heard(messages: Sequence[Message]) -> tuple[str, ...]:
    """What the agent was told so far, each thing once: all that its next reply depends on."""
    return tuple(dict.fromkeys(m["content"] for m in messages if m["role"] in ("user", "tool")))


def chatty(messages: tuple[Message, ...], said: tuple[str, ...]) -> dict[str, float]:
    """The agent before training: it knows what tools are for, repeats what it heard, and asks at times."""
    asked = " ".join(m["content"] for m in messages if m["role"] == "user")
    answers = [m["content"] for m in messages if m["role"] == "tool" and not m["content"].startswith("error")]
    logits = {}
    for word in WORDS:
        if word.startswith("<tool_call>"):
            made = json.loads(word[len("<tool_call>") : -len("</tool_call>")])
            fits = _FITTING.get(made["name"], "~") in asked
            logits[word] = 2.0 * fits + sum(1.5 for value in made["arguments"].values() if value in asked)
        elif word.endswith("?"):
            logits[word] = 3.0
        else:
            repeated = word.removeprefix("Done. ") in " ".join(answers).split()
            logits[word] = (1.5 if answers else -1.0) + 2.0 * repeated
    return logits


def desk_bench(seed: int, steps: int) -> TalkBench:
    """The toy desk with one scenario per goal."""
    desk = OrderDesk(MANNER)
    scenarios = [desk.scenario(f"goal {n}", TOY_DATABASE, goal) for n, goal in enumerate(toy_goals())]
    return TalkBench(
        SimulatedUser(desk, turns=6),
        scenarios,
        WORDS,
        MUA_RL,
        view=heard,
        prior=chatty,
        measure=lambda trajectory: SOLVED.judge(trajectory) or 0.0,
        seed=seed,
        lr=0.1,
        steps=steps,
        prompts=6,
    )


def asks_where_needed(played: Sequence[Trajectory]) -> float:
    """Of the talks whose opening left the order open, the share in which the agent asked before it wrote anything."""
    asked = []
    for trajectory in played:
        if "It is order" in trajectory.turns[0].prompt[-1]["content"]:
            continue
        writes = [
            n for n, t in enumerate(trajectory.turns) if t.text.startswith("<tool_call>") and "look_up" not in t.text
        ]
        before = trajectory.turns[: writes[0]] if writes else trajectory.turns
        asked.append(float(any("order?" in turn.text for turn in before)))
    return fmean(asked)


STEPS = 140


@claim("the trained agent asks for missing slots and exceeds that ceiling", slow=True)
def asks_and_exceeds() -> Finding:
    """The trained agent asks for missing slots and exceeds the ceiling of an agent that never asks."""
    most = ceiling([(TOY_DATABASE, goal) for goal in toy_goals()], MANNER)
    before, after, asked = [], [], []
    for seed in SEEDS:
        bench = desk_bench(seed, STEPS)
        before.append(bench.success(5))
        bench.run(STEPS)
        played = bench.play(25)
        after.append(fmean(SOLVED.judge(one) or 0.0 for one in played))
        asked.append(asks_where_needed(played))
    return Finding(
        min(after) > most + 0.2 and min(asked) > 0.8,
        f"{STEPS} steps, 5 seeds, 300 talks each: solved {line(after)} from {line(before)}, ceiling without asking "
        f"{most:.3f}; asked before writing where the order was left open: {line(asked)}",
    )


@claim("the ceiling without dialogue is computable from slot entropy")
def ceiling_is_a_bound() -> Finding:
    """The ceiling is that of counting, and of playing one fixed call for each opening."""
    known = [(TOY_DATABASE, goal) for goal in toy_goals()]
    # What an opening leaves open: 3 orders, times 2 addresses for a change; told the order, only the address.
    by_hand = 0.8 * (3 * (1 / 3) + 3 * (1 / 3) + 6 * (1 / 6)) / 12 + 0.2 * (3 + 3 + 6 * (1 / 2)) / 12
    found = ceiling(known, MANNER)
    desk = OrderDesk(Manner(volunteer=0.0))
    best: dict[str, float] = {}
    for guess in {goal.wish: goal for goal in toy_goals()}.values():
        ((name, arguments),) = guess.actions
        right = 0.0
        for n, goal in enumerate(toy_goals()):
            scenario = desk.scenario(f"goal {n}", TOY_DATABASE, goal)
            replies = [call(name, **dict(arguments)), "Done. 20 70 45"]
            (played,) = rehearse(SimulatedUser(desk), scenario, replies)
            right += (SOLVED.judge(played) or 0.0) / 12
        best[guess.wish] = right
    silent = ceiling(known, Manner())
    holds = abs(found - by_hand) < 1e-12 and abs(sum(best.values()) - silent) < 1e-12
    return Finding(
        holds,
        f"{found:.4f} ({by_hand:.4f} by hand); with silent openings {silent:.4f}, played {sum(best.values()):.4f}",
    )
