"""GHPO's claims."""

from __future__ import annotations

import math

import numpy as np

from hocket.core.components import value_at
from hocket.core.signals import RIGHT
from hocket.lab.bench import Bench
from hocket.lab.claims.harness import Claims, Finding, runs, say
from hocket.lab.toys.hard_half import HARD_HALF, LENGTH, hard, on_hard, solution
from hocket.lab.toys.recorded_answers import lines, said, shaped
from hocket.methods.base.grpo import GRPO
from hocket.methods.data_and_rollout.ghpo import GHPO, GHPO_PROMPT, SHARES
from hocket.rollout.rescue import HELPED, HintAsPrefix, HintInPrompt
from hocket.types import Assignment
from hocket.zoo.tasks.worked_sums import WorkedSums

claim = Claims("ghpo", "arXiv:2507.10628; hkgc-1/GHPO")
VERDICTS = GHPO.but({"shaping": ()})
"""The world's answers have no tags."""


@claim("A scenario with a success is asked and answered as without help; a failed one begins with floor(w n) tokens.")
def a_scenario_with_a_success_is_asked_and_answered_as_without_help() -> Finding:
    plain, helped = (Bench(HARD_HALF, recipe, lr=0.1).step() for recipe in (GRPO, VERDICTS))
    alike, begun, wrong = 0, list[int](), 0
    theirs = {(one.scenario.id, one.sample): one for one in plain.trajectories}
    for one in helped.trajectories:
        turn, rung = one.turns[0], HELPED.get(one)
        if rung is None:
            other = theirs[one.scenario.id, one.sample].turns[0]
            assert turn.logp is not None
            assert other.logp is not None
            alike += np.array_equal(turn.action, other.action) and np.array_equal(turn.logp, other.logp)
            continue
        length, question = math.floor(SHARES[rung - 1] * LENGTH), int(one.scenario.metadata["question"])
        imposed = turn.forced if turn.forced is not None else np.zeros(0)
        wrong += (
            not hard(question) or imposed.sum() != length or tuple(turn.action[:length]) != solution(question)[:length]
        )
        begun.append(length)
    left = len(helped.trajectories) - len(begun)
    return Finding(
        alike == left > 0 and wrong == 0 < len(begun), say(unhelped_alike=alike, of=left, imposed=sorted(set(begun)))
    )


@claim("Rungs are tried in order, and a whole group with the least hint that brings a success replaces the failed one.")
def rungs_are_tried_in_order_and_a_whole_group_with_the_least_hint() -> Finding:
    result = Bench(HARD_HALF, VERDICTS, lr=0.1).step()
    groups: dict[str, list[int]] = {}
    for one in result.trajectories:
        groups.setdefault(one.scenario.id, []).append(HELPED.get(one, 0))
    sound = all(len(rungs) == 8 and len(set(rungs)) == 1 for rungs in groups.values())
    lower = {(one.scenario.id, HELPED.get(one, 0)) for one in result.discarded}
    tried = {name: range(rungs[0]) if rungs[0] else range(1, len(SHARES) + 1) for name, rungs in groups.items()}
    wanted = {(name, rung) for name, rungs in tried.items() if hard(int(name[-1])) for rung in rungs}
    return Finding(sound and lower == wanted, say(rungs=str([rungs[0] for rungs in groups.values()])))


@claim("Hint tokens get no gradient: what is imposed is not learnt, what follows it is.")
def hint_tokens_get_no_gradient_what_is_imposed_is_not_learnt_what() -> Finding:
    bench = Bench(HARD_HALF, VERDICTS, lr=0.1)
    result = bench.step()
    batch = result.batch
    assert batch is not None
    imposed = batch.forced[batch.occurrences.decision]
    weights = batch.occurrences.weight
    return Finding(
        bool(imposed.any()) and not bool((weights[imposed] != 0).any()) and bool((weights[~imposed] != 0).all()),
        say(imposed=int(imposed.sum()), of=len(imposed)),
    )


@claim("Fewer groups are without signal, and without hints hard questions are learnt; GRPO with twice the samples not.")
def fewer_groups_are_without_signal_and_without_hints_hard() -> Finding:
    more = GRPO.but({"rollout.samples": 16})
    made = runs(HARD_HALF, VERDICTS, more, steps=40, every=50, seeds=range(3), lr=0.1)
    found = {name: [on_hard(bench) for bench in group] for name, group in made.items()}
    signal = {
        name: [sum(row["groups/with_signal"] for row in bench.history[:10]) / 10 for bench in group]
        for name, group in made.items()
    }
    holds = min(found["ghpo"]) > 0.5 and max(found["grpo"]) < 0.05 and min(signal["ghpo"]) > max(signal["grpo"]) + 1
    return Finding(holds, lines(hard_without_hints=found, groups_with_signal_of_6_in_10_steps=signal))


@claim("In a prompt the hint is a line below it with floor(w n) characters of the solution; the question stays.")
def in_a_prompt_the_hint_is_a_line_below_it_with_floor_characters() -> Finding:
    asking = Assignment(WorkedSums().scenario("train", 0))
    told = str(asking.scenario.metadata["demonstration"])
    ladder = GHPO_PROMPT.rollout.ladder  # type: ignore[attr-defined]
    hints = [help_.asked(asking, None) for help_ in ladder]
    sizes = [len(one.hint or "") - len(help_.lead) for one, help_ in zip(hints, ladder, strict=True) if one is not None]
    kinds = {type(one) for one in GHPO.rollout.ladder} | {type(one) for one in ladder}  # type: ignore[attr-defined]
    holds = sizes == [math.floor(share * len(told)) for share in SHARES] and kinds == {HintAsPrefix, HintInPrompt}
    holds &= all(one is not None and one.scenario is asking.scenario and one.source == "helped" for one in hints)
    return Finding(holds, say(characters=str(sizes), of=len(told)))


@claim(
    "As shipped 8 samples, any right one of which is success; help from the first step by whole groups that keep their "
    "hint; half a point for form.",
    "hkgc-1/GHPO",
)
def as_shipped_8_samples_any_right_one_of_which_is_success_help() -> Finding:
    names = ("samples", "success", "take", "tries", "beside", "after")
    found = [value_at(GHPO, f"rollout.{name}") for name in names]
    rungs = [(one.share, one.bare) for recipe in (GHPO, GHPO_PROMPT) for one in value_at(recipe, "rollout.ladder")]
    texts = ("<think>2</think><answer>6</answer>", "<answer>6</answer>", "<think>2</think> so 6", "6")
    paid = shaped(GHPO, [said("q", text, 1.0) for text in texts])
    holds = found == [8, RIGHT, None, None, False, 0] and paid == [1.5, 1.5, 1.0, 1.0]
    return Finding(holds and rungs == [(0.25, False), (0.5, False), (0.75, False)] * 2, say(paid=str(paid)))


claim.shipped(
    GHPO, "rollout", sees=lambda run: {"failed": run.mean("rollout/failed"), "rescued": run.mean("rollout/rescued")}
)
claim.shipped(GHPO, "shaping")
