"""What salt claims."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.talk import TalkBench, last_message
from hocket.lab.toys.turn_toys import SEEDS, by_turn, episode, random_episodes, seen, worst
from hocket.methods.agents.salt import SALT
from hocket.methods.base.grpo import GRPO
from hocket.recipe import Recipe
from hocket.types import Message, Quantity, Scenario
from hocket.workflows.team import Team
from hocket.workflows.workflow import Outcome, Workflow

claim = Claims("salt", "arXiv:2510.20022")


@claim("If no steps are shared it equals GRPO.")
def without_shared_steps_it_is_grpo() -> Finding:
    gap = 0.0
    for number in range(20):
        rows = random_episodes(Key.of(number))
        for place, row in enumerate(rows):
            row["state"] = [f"{place}/{turn}" for turn in range(len(row["state"]))]
        left, right = seen(SALT, rows), seen(GRPO, rows)
        gap = max(gap, worst(left["advantages"], right["advantages"]), worst(left["gradient"], right["gradient"]))
    return Finding(gap < 1e-15, f"no shared steps, 20 random batches: largest difference from GRPO {gap:.1e}")


@claim("A step that every trajectory takes once gets advantage 0.")
def what_all_do_once_gets_nothing() -> Finding:
    """All begin alike and then part."""
    rows = [
        episode("g", reward, [{"tokens": [1], "state": "start"}, {"tokens": [n], "state": "fork"}])
        for n, reward in enumerate((1.0, 0.0, 0.0, 0.5))
    ]
    found = [by_turn(row, values) for row, values in zip(rows, seen(SALT, rows)["advantages"], strict=True)]
    grpo = seen(GRPO, rows)["advantages"]
    common = max(abs(one[0][0]) for one in found)
    apart = max(abs(one[1][0] - own[0]) for one, own in zip(found, grpo, strict=True))
    return Finding(
        common < 1e-15 and apart < 1e-15,
        f"common step: largest |A| {common:.1e}; after the fork GRPO's, {apart:.1e} off",
    )


def crossings(rows: Sequence[Any]) -> list[list[tuple[Any, ...]]]:
    """The edge of each turn, from the recorded rows."""
    found = []
    for row in rows:
        said = by_turn(row, row["tokens"])
        after = [*row["state"][1:], "the end"]
        found.append([(row["group"], s, tuple(a), n) for s, a, n in zip(row["state"], said, after, strict=True)])
    return found


@claim("The sum of advantages over the occurrences of a merged edge is preserved, each getting the mean.")
def sums_are_preserved() -> Finding:
    """Over the occurrences of every edge, those crossed twice by one trajectory included."""
    gap, merged, twice = 0.0, 0, 0
    for number in range(20):
        rows = random_episodes(Key.of(number), groups=2, samples=6, states=2, turns=5)
        edges = crossings(rows)
        before = [by_turn(row, values) for row, values in zip(rows, seen(GRPO, rows)["advantages"], strict=True)]
        after = [by_turn(row, values) for row, values in zip(rows, seen(SALT, rows)["advantages"], strict=True)]
        for edge in {one for path in edges for one in path}:
            places = [(n, t) for n, path in enumerate(edges) for t, one in enumerate(path) if one == edge]
            gap = max(gap, abs(sum(before[n][t][0] - after[n][t][0] for n, t in places)))
            gap = max(gap, *(abs(after[n][t][0] - fmean(before[m][u][0] for m, u in places)) for n, t in places))
            merged += len(places) > 1
            twice += len({n for n, _ in places}) < len(places)
    return Finding(
        gap < 1e-12 and merged > 50 and twice > 5,
        f"20 random batches, {merged} merged edges, {twice} of them crossed twice by one trajectory: off by {gap:.1e}",
    )


@claim("Edges are told apart by what was done, not by how it was said.")
def what_was_done_may_be_named() -> Finding:
    """Agents that think aloud cross one edge when the column `actions` names one move."""
    rows = [
        episode("g", reward, [{"tokens": [n, 3], "state": "start"}], info={"actions": [move]})
        for n, (reward, move) in enumerate(((1.0, "go"), (0.0, "go"), (0.0, "wait")))
    ]
    named = [row[0] for row in seen(SALT, rows)["advantages"]]
    grpo = [row[0] for row in seen(GRPO, rows)["advantages"]]
    wanted = [fmean(grpo[:2]), fmean(grpo[:2]), grpo[2]]
    return Finding(worst(named, wanted) < 1e-12, f"A by named moves {[round(a, 3) for a in named]}")


DOORS = 10


def right(policy: Any, place: str, move: str) -> float:
    """The exact chance of a move at a place, over all thoughts."""
    words = (*THOUGHTS, *MOVES)
    thoughts = policy.probabilities(place)
    return sum(
        float(thoughts[n]) * float(policy.probabilities(place, said=(thought,))[words.index(move)])
        for n, thought in enumerate(THOUGHTS)
    )


MOVES, THOUGHTS = ("left", "right", "up", "down"), ("hm", "so", "well", "now")


class LongWay(Workflow):
    """`DOORS` doors, each with a move of its own, then a fork where one move of four leads to the prize.

    An answer is a thought, which says nothing, and a move. A wrong move at a door ends the episode with nothing.
    """

    roles = ("walker",)

    async def play(self, scenario: Scenario, team: Team) -> Outcome:
        places = [f"door {number}" for number in range(DOORS)]
        done: list[str] = []
        for number, place in enumerate(places):
            done.append(_move(await team.walker.fresh()(place, state=place)))
            if done[-1] != MOVES[number % len(MOVES)]:
                return Outcome(rewards={"prize": 0.0}, info={"final_state": "lost", "actions": done})
        done.append(_move(await team.walker.fresh()("fork", state="fork")))
        won = done[-1] == scenario.answer
        return Outcome(rewards={"prize": float(won)}, info={"final_state": "over", "actions": done})


def _move(reply: object) -> str:
    return str(reply).split()[-1]


def practised(messages: tuple[Message, ...], said: tuple[str, ...]) -> dict[str, float]:
    """Thinks anything, knows the doors well and the fork not at all; a move follows a thought and nothing else."""
    if not said:
        return dict.fromkeys(MOVES, -30.0)
    told = str(messages[-1]["content"])
    known = {MOVES[int(told.split()[1]) % len(MOVES)]: 4.0} if told.startswith("door") else {}
    return {**dict.fromkeys(THOUGHTS, -30.0), **known}


def bench(recipe: Recipe, seed: int) -> TalkBench:
    return TalkBench(
        LongWay(),
        [Scenario("way", "way", "up")],
        (*THOUGHTS, *MOVES),
        recipe,
        length=2,
        view=last_message,
        prior=practised,
        seed=seed,
        lr=0.1,
    )


def success(trained: TalkBench) -> float:
    """The exact chance of the prize."""
    (policy,) = trained.policies.values()
    chance = right(policy, "fork", "up")
    for number in range(DOORS):
        chance *= right(policy, f"door {number}", MOVES[number % len(MOVES)])
    return chance


@claim("On a task with a long common prefix it succeeds more than GRPO at equal steps.", slow=True)
def it_succeeds_earlier() -> Finding:
    at = {recipe.name: [success(bench(recipe, seed).run(20)) for seed in SEEDS] for recipe in (GRPO, SALT)}
    plain, ours = at["grpo"], at["salt"]
    return Finding(
        min(ours) > max(plain) and fmean(ours) > fmean(plain) + 0.05,
        f"chance of the prize behind {DOORS} doors after 20 steps, from 0.15, 5 seeds: GRPO {_shown(plain)}, SALT "
        f"{_shown(ours)}",
    )


def gradients(recipe: Recipe, groups: int) -> Tensor:
    """The gradient of the first step for each of many groups, on the rows of the doors, `[groups, rows, words]`."""
    made = bench(recipe, 0)
    (policy,) = made.policies.values()
    fork = policy.rows.chat.opening([{"role": "user", "content": "fork"}])[-1]
    at_fork = {policy.rows.row(fork, said) for said in ((), *((n,) for n in range(len(THOUGHTS))))}
    found = []
    for seed in range(groups):
        batch, _ = recipe.assess(pack(made.play(8, seed=seed)), recipe.init(), {})
        now = policy.evaluate(batch, {Quantity.LOGP})
        loss = torch.stack([term.total() for term in recipe.loss(now, batch)]).sum()
        (slope,) = torch.autograd.grad(loss, [policy.module.logits])
        found.append(slope)
    doors = [row for row in range(len(policy.rows)) if row not in at_fork]
    return torch.stack(found)[:, doors]


@claim("The gradient on a shared prefix has less variance than GRPO's.", slow=True)
def shared_steps_are_quieter() -> Finding:
    """The total variance of the first gradient on the doors, which nearly everyone passes alike."""
    variance = {recipe.name: float(gradients(recipe, 120).var(0).sum()) for recipe in (GRPO, SALT)}
    ratio = variance["salt"] / variance["grpo"]
    return Finding(
        ratio < 0.5,
        f"variance of the gradient on {DOORS} doors over 120 groups of 8: GRPO {variance['grpo']:.2e}, SALT "
        f"{variance['salt']:.2e}, ratio {ratio:.2f}",
    )


@claim("For a policy that knows the state alone, and sums over decisions, the step is GRPO's.", "derived")
def on_a_table_of_states_it_is_grpo() -> Finding:
    """Where the same edge is the same decision with the same gradient, preserved sums leave the step as it was."""
    gap = 0.0
    for number in range(20):
        rows = random_episodes(Key.of(number), groups=2, samples=6, states=2, turns=5)
        found = []
        for recipe in (GRPO, SALT):
            step: dict[Any, float] = {}
            slopes = seen(recipe.but({"objective.aggregate": "sequence-sum"}), rows)["gradient"]
            for path, row, values in zip(crossings(rows), rows, slopes, strict=True):
                for edge, parts in zip(path, by_turn(row, values), strict=True):
                    for place, value in enumerate(parts):
                        step[edge, place] = step.get((edge, place), 0.0) + value
            found.append(step)
        gap = max(gap, *(abs(found[0][key] - found[1][key]) for key in found[0]))
    return Finding(
        gap < 1e-12,
        f"summed over decisions, per edge and place, 20 random batches: SALT's step differs from GRPO's by {gap:.1e}; "
        "so merging matters where contexts differ or lengths weigh",
    )


def _shown(numbers: Sequence[float]) -> str:
    return " ".join(f"{number:.2f}" for number in numbers)
