"""SALT's claims."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

from hocket.agents.workflows.team import Team
from hocket.agents.workflows.workflow import Outcome
from hocket.core.packing import pack
from hocket.lab.claims.harness import SEEDS, Claims, Finding, below, gap, inspect_rows, say
from hocket.lab.talk import TalkBench, last_message
from hocket.lab.toys.episodes import by_turn, difference, episode, random_batches
from hocket.lab.toys.recorded_answers import lines
from hocket.lab.toys.talks import played_by
from hocket.methods.agents.salt import SALT
from hocket.methods.base.grpo import GRPO
from hocket.recipe import Recipe
from hocket.types import Message, Quantity, Scenario

claim = Claims("salt", "arXiv:2510.20022")
# Batches in which many steps are shared.
SHARED = random_batches(groups=2, samples=6, states=2, turns=5)


@claim("If no steps are shared it equals GRPO.")
def if_no_steps_are_shared_it_equals_grpo() -> Finding:
    batches = random_batches()
    for place, row in ((place, row) for rows in batches for place, row in enumerate(rows)):
        row["state"] = [f"{place}/{turn}" for turn in range(len(row["state"]))]
    return below(1e-15, largest_difference_from_GRPO_on_20_batches=difference(SALT, GRPO, batches))


@claim("A step that every trajectory takes once gets advantage 0.")
def a_step_that_every_trajectory_takes_once_gets_advantage_0() -> Finding:
    rows = [
        episode("g", reward, [{"tokens": [1], "state": "start"}, {"tokens": [n], "state": "fork"}])
        for n, reward in enumerate((1.0, 0.0, 0.0, 0.5))
    ]
    ours, grpo = inspect_rows(SALT, rows)["advantages"], inspect_rows(GRPO, rows)["advantages"]
    fork = gap([row[1] for row in ours], [row[0] for row in grpo])
    return below(1e-15, common_step=max(abs(row[0]) for row in ours), after_the_fork_off_GRPOs=fork)


def crossings(rows: Sequence[Any]) -> list[list[tuple[Any, ...]]]:
    """The edge of each turn, from the recorded rows."""
    paths = []
    for row in rows:
        steps = zip(row["state"], by_turn(row, row["tokens"]), [*row["state"][1:], "the end"], strict=True)
        paths.append([(row["group"], state, tuple(tokens), after) for state, tokens, after in steps])
    return paths


@claim("The sum of advantages over the occurrences of a merged edge is preserved, each getting the mean.")
def the_sum_of_advantages_over_the_occurrences_of_a_merged_edge_is() -> Finding:
    off, merged, twice = 0.0, 0, 0
    for rows in SHARED:
        before, after = (list(map(by_turn, rows, inspect_rows(recipe, rows)["advantages"])) for recipe in (GRPO, SALT))
        places: dict[Any, list[tuple[int, int]]] = {}
        for n, path in enumerate(crossings(rows)):
            for t, edge in enumerate(path):
                places.setdefault(edge, []).append((n, t))
        for at in places.values():
            middle = fmean(before[m][u][0] for m, u in at)
            off = max(off, abs(sum(before[n][t][0] - after[n][t][0] for n, t in at)))
            off = max(off, *(abs(after[n][t][0] - middle) for n, t in at))
            merged += len(at) > 1
            twice += len({n for n, _ in at}) < len(at)
    holds = off < 1e-12 and merged > 50 and twice > 5
    return Finding(holds, say(batches=20, merged_edges=merged, crossed_twice_by_one_trajectory=twice, off=off))


@claim("Edges are told apart by what was done, not by how it was said.")
def edges_are_told_apart_by_what_was_done_not_by_how_it_was_said() -> Finding:
    """Agents that think aloud cross one edge when the column `actions` names one move."""
    rows = [
        episode("g", reward, [{"tokens": [n, 3], "state": "start"}], info={"actions": [move], "final_state": "over"})
        for n, (reward, move) in enumerate(((1.0, "go"), (0.0, "go"), (0.0, "wait")))
    ]
    rows = [row | {"final_state": f"not asked {n}"} for n, row in enumerate(rows)]
    named, grpo = ([row[0] for row in inspect_rows(recipe, rows)["advantages"]] for recipe in (SALT, GRPO))
    off = gap(named, [fmean(grpo[:2]), fmean(grpo[:2]), grpo[2]])
    return Finding(off < 1e-12, lines(advantages_by_named_moves=named))


DOORS = 10
MOVES, THOUGHTS = ("left", "right", "up", "down"), ("hm", "so", "well", "now")
WORDS = (*THOUGHTS, *MOVES)


@played_by("walker")
async def long_way(scenario: Scenario, team: Team) -> Outcome:
    """`DOORS` doors, each with a move of its own, then a fork where one move of four leads to the prize. An answer is a
    thought, which says nothing, and a move. A wrong move at a door ends the episode with nothing."""
    done: list[str] = []
    for place in (*(f"door {number}" for number in range(DOORS)), "fork"):
        done.append(str(await team.walker.fresh()(place, state=place)).split()[-1])
        if place != "fork" and done[-1] != MOVES[(len(done) - 1) % len(MOVES)]:
            return Outcome(rewards={"prize": 0.0}, info={"final_state": "lost", "actions": done})
    won = float(done[-1] == scenario.answer)
    return Outcome(rewards={"prize": won}, info={"final_state": "over", "actions": done})


def practised(messages: tuple[Message, ...], said: tuple[str, ...]) -> dict[str, float]:
    """Thinks anything, knows the doors well and the fork not at all; a move follows a thought and nothing else."""
    if not said:
        return dict.fromkeys(MOVES, -30.0)
    place = str(messages[-1]["content"])
    known = {MOVES[int(place.split()[1]) % len(MOVES)]: 4.0} if place.startswith("door") else {}
    return {**dict.fromkeys(THOUGHTS, -30.0), **known}


def bench(recipe: Recipe, seed: int) -> TalkBench:
    way, looks = [Scenario("way", "way", "up")], {"view": last_message, "prior": practised}
    return TalkBench(long_way, way, WORDS, recipe, length=2, seed=seed, lr=0.1, **looks)  # type: ignore[arg-type]


def success(trained: TalkBench) -> float:
    """The exact chance of the prize."""
    (policy,), chance = trained.policies.values(), 1.0
    for place, move in (("fork", "up"), *((f"door {number}", MOVES[number % len(MOVES)]) for number in range(DOORS))):
        moves = [policy.probabilities(place, said=(thought,))[WORDS.index(move)] for thought in THOUGHTS]
        chance *= sum(float(p) * float(q) for p, q in zip(policy.probabilities(place), moves, strict=False))
    return chance


@claim("On a task with a long common prefix it succeeds more than GRPO at equal steps.", slow=True)
def on_a_task_with_a_long_common_prefix_it_succeeds_more_than_grpo() -> Finding:
    plain, ours = ([success(bench(recipe, seed).run(20)) for seed in SEEDS] for recipe in (GRPO, SALT))
    holds = min(ours) > max(plain) and fmean(ours) > fmean(plain) + 0.05
    return Finding(holds, lines(doors=DOORS, steps=20, prize_from=0.15, to_with_GRPO=plain, SALT=ours))


def gradients(recipe: Recipe, groups: int) -> Tensor:
    """The gradient of the first step for each of many groups, on the rows of the doors, `[groups, rows, words]`."""
    made, slopes = bench(recipe, 0), list[Tensor]()
    (policy,) = made.policies.values()
    fork = policy.rows.chat.opening([{"role": "user", "content": "fork"}])[-1]
    at_fork = {policy.rows.row(fork, said) for said in ((), *((n,) for n in range(len(THOUGHTS))))}
    for seed in range(groups):
        batch, _ = recipe.compute_credit(pack(made.play(8, seed=seed)), recipe.init(), {})
        now = policy.evaluate(batch, {Quantity.LOGP})
        loss = torch.stack([term.total() for term in recipe.loss(now, batch)]).sum()
        slopes += torch.autograd.grad(loss, [policy.module.logits])
    return torch.stack(slopes)[:, [row for row in range(len(policy.rows)) if row not in at_fork]]


@claim("The gradient on a shared prefix has less variance than GRPO's.", slow=True)
def the_gradient_on_a_shared_prefix_has_less_variance_than_grpos() -> Finding:
    plain, ours = (float(gradients(recipe, 120).var(0).sum()) for recipe in (GRPO, SALT))
    ratio = ours / plain
    return Finding(ratio < 0.5, say(doors=DOORS, groups_of_8=120, variance_GRPO=plain, SALT=ours, ratio=ratio))


@claim("For a policy that knows the state alone, and sums over decisions, the step is GRPO's.", "derived")
def for_a_policy_that_knows_the_state_alone_and_sums_over_decisions() -> Finding:
    """Merging matters where contexts differ or lengths weigh: preserved sums leave such a step as it was."""
    off = 0.0
    for rows in SHARED:
        steps: list[dict[Any, float]] = [{}, {}]
        for recipe, step in zip((GRPO, SALT), steps, strict=True):
            slopes = inspect_rows(recipe.but({"objective.aggregate": "sequence-sum"}), rows)["gradient"]
            for path, row, values in zip(crossings(rows), rows, slopes, strict=True):
                for edge, parts in zip(path, by_turn(row, values), strict=True):
                    for place, value in enumerate(parts):
                        step[edge, place] = step.get((edge, place), 0.0) + value
        off = max(off, *(abs(steps[0][key] - steps[1][key]) for key in steps[0]))
    return below(1e-12, steps_per_edge_and_place_on_20_batches_off_GRPOs=off)


claim.shipped(SALT, "credit", settings={"curriculum.prompts": 4})
