"""MUA-RL's claims."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, ClassVar

from hocket.agents.workflows.simulated_user import CLOSED, SimulatedUser
from hocket.core.casting import Separate
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.lab.claims.harness import EXACT, SEEDS, Claims, Finding, say
from hocket.lab.claims.shipped_check import ShippedRun
from hocket.lab.talk import TalkBench
from hocket.lab.toys.recorded_answers import line
from hocket.methods.agents.mua_rl import world as order_desk
from hocket.methods.agents.mua_rl.method import MUA_RL
from hocket.methods.agents.mua_rl.reward import DatabaseMatch
from hocket.methods.agents.mua_rl.world import ADDRESSES, HANDLERS, NOTES, WISHES, Database, DeskTool, Goal, OrderDesk
from hocket.stages import Reward
from hocket.testing import rehearse
from hocket.types import Message, Scenario, Trajectory

claim = Claims("mua-rl", "catalogue; Zhao et al., arXiv 2508.18669, and its released score")
SOLVED = DatabaseMatch()


def shares(held: Sequence[bool]) -> str:
    return f"{sum(held)} of {len(held)}"


def cases() -> Iterator[tuple[Database, Goal, Scenario]]:
    """Every goal of two databases."""
    for number in range(2):
        database = order_desk.draw_database(4, Key.of(number))
        for place, goal in enumerate(order_desk.goals(database, WISHES)):
            yield database, goal, OrderDesk().scenario(f"{number}/{place}", database, goal)


def bit(scenario: Scenario, database: Database, said: Sequence[str]) -> float:
    """The reward of an episode that ends with `database`, in which the agent said so."""
    trajectory = Trajectory(scenario, [], info={"database": database, "said": list(said)})
    return paid(trajectory)


def paid(trajectory: Trajectory) -> float:
    """What the recipe's own rewards add up to."""
    values = [(one.weight, asyncio.run(one([trajectory], key=Key.of(0)))[0]) for one in MUA_RL.rewards]
    return sum(weight * float(value or 0.0) for weight, value in values)


@claim("the reward is invariant to detours that restore the state")
def the_reward_is_invariant_to_detours_that_restore_the_state() -> Finding:
    kept = []
    for database, goal, scenario in cases():
        for number, order in database["orders"].items():
            after = copy.deepcopy(database)
            DeskTool("look_up", after).call({"order": number})
            for address in (*ADDRESSES, order["address"]) if order["state"] == "open" else ():
                DeskTool("change_address", after).call({"order": number, "address": address})
            after = goal.done(after)
            DeskTool("cancel", after).call({"order": "no such order"})
            kept.append(bit(scenario, after, goal.outputs(database)) == 1.0)
    return Finding(all(kept), f"reward 1 in {shares(kept)} episodes with a detour, over {len(list(cases()))} goals")


def every_write(database: Database) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Every call of a writing tool that could be made."""
    values = {"address": ADDRESSES, "text": NOTES}
    for name, (_, given) in HANDLERS.items():
        for number in database["orders"] if name != "look_up" else ():
            more = [{given[1]: value} for value in values[given[1]]] if len(given) > 1 else [{}]
            yield from ((name, {"order": number, **one}) for one in more)


@claim("the reward is 0 after any extra write")
def the_reward_is_0_after_any_extra_write() -> Finding:
    extra, bare, unsaid = [], [], []
    for database, goal, scenario in cases():
        outputs, right = goal.outputs(database), goal.done(database)
        for name, arguments in every_write(right):
            after = copy.deepcopy(right)
            DeskTool(name, after).call(arguments)
            if after != right:
                extra.append(bit(scenario, after, outputs) == 0.0)
        bare += [bit(scenario, database, outputs) == 0.0] if goal.actions else []
        unsaid += [bit(scenario, right, ["Done."]) == 0.0] if outputs else []
    saw = f"0 after {shares(extra)} extra writes, in {shares(bare)} episodes without the right one, and in "
    return Finding(all(extra + bare + unsaid), f"{saw}{shares(unsaid)} where an output was not said")


def call(name: str, **arguments: str) -> str:
    """A call as the agent writes it."""
    return f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"


@claim("the loss covers agent tokens only; the user closes the episode")
def the_loss_covers_agent_tokens_only_the_user_closes_the_episode() -> Finding:
    replies = ["Which order?", call("refund", order="13"), "It is 20."]
    scenario = OrderDesk().scenario("s", TOY_DATABASE, Goal("refund", {"order": "13"}))
    (played,) = rehearse(SimulatedUser(OrderDesk()), scenario, replies)
    batch, spoken = pack([played]), sum(len(turn) for turn in played.turns)
    told = [message["content"] for message in played.turns[-1].prompt if message["role"] in ("user", "tool")]
    holds = batch.decisions == spoken and bool((batch.occurrences.weight != 0).all()) and played.terminated
    holds &= played.info["said"] == ["Which order?", "It is 20."] and SOLVED.judge(played) == 1.0
    holds &= told == ["I want my money back for an order. How much is it?", "It is order 13.", "refunded 20"]
    return Finding(holds, say(decisions=batch.decisions, tokens_of_the_agent=spoken, it_heard=str(told)))


@claim("the bit is the recipe's own: it is that of the final state, however it came about and whatever was said")
def the_bit_is_the_recipes_own_it_is_that_of_the_final_state() -> Finding:
    """Two episodes with the same words, one of which left the database as it was."""
    right, wrong, replaced = [], [], []
    for database, goal, scenario in cases():
        said, after = goal.outputs(database), goal.done(database)
        right.append(bit(scenario, after, said) == 1.0)
        if goal.actions:
            wrong.append(bit(scenario, database, said) == 0.0)
            other = Scenario(scenario.id, scenario.prompt, metadata={**scenario.metadata, "final_hash": "another"})
            replaced.append(bit(other, after, said) == 0.0)
    saw = f"1 in {shares(right)} right final states, 0 in {shares(wrong)} with the same words and nothing done, and in "
    return Finding(all(right + wrong + replaced), f"{saw}{shares(replaced)} where another state was wanted")


@claim("where a policy plays the user, the agent alone learns")
def where_a_policy_plays_the_user_the_agent_alone_learns() -> Finding:
    """Rewards of both recipes are drawn, so that there is something to learn from; `Shared` shows that it would be."""
    moved = {}
    for recipe in (MUA_RL, MUA_RL.but(name="each learns", cast=Separate())):
        desk = SimulatedUser(OrderDesk(), turns=3, played=True, closing="bye")
        bench = TalkBench(desk, toy(OrderDesk())[:2], ("hello", "what?", "bye"), recipe, rewards=(Drawn(),), lr=0.1)
        tables = bench.run(3).policies
        moved[recipe.name] = {name: float(one.module.logits.detach().abs().max()) for name, one in tables.items()}
    ours, both = moved["mua-rl"], moved["each learns"]
    holds = set(ours) == {"agent", "user"} and ours["user"] == 0.0 < ours["agent"] and min(both.values()) > 0
    return Finding(holds, say(moved_by=ours, with_both_learning=both))


@dataclass(frozen=True)
class Drawn(Reward):
    """A number from the number of the agent's words."""

    name: str = "drawn"
    weight: float = 1.0
    outside: ClassVar[bool] = False

    async def __call__(self, trajectories: Sequence[Trajectory], *, key: Key) -> list[float | None]:
        return [float(sum(len(turn.text) for turn in one.turns) % 5) for one in trajectories]


STOCK = "11 lamp 30 open, 12 rug 55 open, 15 clock 90 open, 13 clock 20 delivered, 14 chair 70 delivered"
HOMES = {"open": "Elm 4", "delivered": "Oak 7"}
TOY_DATABASE: Database = {
    "orders": {
        number: {"item": item, "price": int(price), "address": HOMES[state], "state": state, "notes": []}
        for number, item, price, state in map(str.split, f"{STOCK}, 16 chair 45 delivered".split(", "))
    }
}
TOY_ADDRESSES, MANNER, STEPS = ("Ash 9", "Fir 2"), order_desk.Manner(volunteer=0.2, deaf=0.1), 140
# Cancelling, refunds, and two new addresses for each open order.
EVERY_GOAL = order_desk.goals(TOY_DATABASE, ("cancel", "refund", "address"))
GOALS = [goal for goal in EVERY_GOAL if goal.slots.get("address", TOY_ADDRESSES[0]) in TOY_ADDRESSES]


def toy(desk: OrderDesk) -> list[Scenario]:
    """A scenario per goal."""
    return [desk.scenario(f"goal {n}", TOY_DATABASE, goal) for n, goal in enumerate(GOALS)]


def vocabulary() -> Iterator[str]:
    """Whole replies: questions, calls of the five tools, and statements."""
    orders = TOY_DATABASE["orders"]
    yield from ("Which order?", "Which address?", "Anything else?", "Done.")
    yield from (f"Done. {order['price']}" for order in orders.values() if order["state"] == "delivered")
    for number, order in orders.items():
        yield from (call(name, order=number) for name in ("cancel", "refund", "look_up"))
        if order["state"] == "open":
            yield from (call("change_address", order=number, address=address) for address in TOY_ADDRESSES)
    yield call("add_note", order="11", text="gift")


WORDS = tuple(vocabulary())
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
        else:
            repeated = word.removeprefix("Done. ") in " ".join(answers).split()
            logits[word] = 3.0 if word.endswith("?") else (1.5 if answers else -1.0) + 2.0 * repeated
    return logits


def asks_where_needed(played: Sequence[Trajectory]) -> float:
    """Of the talks whose opening left the order open, the share in which the agent asked before it wrote anything."""
    asked = []
    for one in played:
        if "It is order" not in one.turns[0].prompt[-1]["content"]:
            texts = [turn.text for turn in one.turns]
            writes = [n for n, text in enumerate(texts) if text.startswith("<tool_call>") and "look_up" not in text]
            asked.append(float(any("order?" in text for text in texts[: min(writes, default=None)])))
    return fmean(asked)


@claim("the trained agent asks for missing slots and exceeds that ceiling", slow=True)
def the_trained_agent_asks_for_missing_slots_and_exceeds_that() -> Finding:
    most, desk = order_desk.ceiling([(TOY_DATABASE, goal) for goal in GOALS], MANNER), OrderDesk(MANNER)
    before, after, asked = [], [], []
    more: dict[str, Any] = {"view": heard, "prior": chatty, "lr": 0.1, "steps": STEPS, "prompts": 6}
    more["measure"] = lambda one: SOLVED.judge(one) or 0.0
    for seed in SEEDS:
        bench = TalkBench(SimulatedUser(desk, turns=6), toy(desk), WORDS, MUA_RL, seed=seed, **more)
        before.append(bench.success(5))
        played = bench.run(STEPS).play(25)
        after.append(fmean(SOLVED.judge(one) or 0.0 for one in played))
        asked.append(asks_where_needed(played))
    saw = say(steps=STEPS, talks_per_seed=300, before=line(before), after=line(after), ceiling_without_asking=most)
    saw += ", " + say(asked_before_writing_where_the_order_was_left_open=line(asked))
    return Finding(min(after) > most + 0.2 and min(asked) > 0.8, saw)


def talks(run: ShippedRun) -> dict[str, float]:
    """The shares of talks that were solved, and that the customer closed."""
    kept = [row.experience for row in run.results if row.experience is not None]
    played = [one for each in kept for one in each.trajectories]
    return {
        "solved": fmean(SOLVED.judge(one) or 0.0 for one in played),
        "closed": fmean(float(CLOSED.get(one)) for one in played),
    }


@claim("the ceiling without dialogue is computable from slot entropy")
def the_ceiling_without_dialogue_is_computable_from_slot_entropy() -> Finding:
    """The ceiling is that of counting, and of playing one fixed call for each opening."""
    known, desk = [(TOY_DATABASE, goal) for goal in GOALS], OrderDesk(order_desk.Manner(volunteer=0.0))
    # What an opening leaves open: 3 orders, times 2 addresses for a change; told the order, only the address.
    by_hand = 0.8 * (3 * (1 / 3) + 3 * (1 / 3) + 6 * (1 / 6)) / 12 + 0.2 * (3 + 3 + 6 * (1 / 2)) / 12
    noisy, silent = order_desk.ceiling(known, MANNER), order_desk.ceiling(known, order_desk.Manner())
    played = 0.0
    for guess in {goal.wish: goal for goal in GOALS}.values():
        ((name, arguments),) = guess.actions
        replies = [call(name, **dict(arguments)), "Done. 20 70 45"]
        for scenario in toy(desk):
            (one,) = rehearse(SimulatedUser(desk), scenario, replies)
            played += (SOLVED.judge(one) or 0.0) / 12
    holds = abs(noisy - by_hand) < EXACT and abs(played - silent) < EXACT
    return Finding(holds, say(ceiling=noisy, by_hand=by_hand, with_silent_openings=silent, played=played))


claim.shipped(
    MUA_RL,
    "cast",
    task="order_desk?played=true",
    trains=("agent",),
    first={"recipe": "sft", "steps": 100, "curriculum.prompts": 16, "task": "lessons:order_desk?played=true"},
    settings={"curriculum.prompts": 4},
    sees=talks,
)
