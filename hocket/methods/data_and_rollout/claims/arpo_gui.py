"""ARPO's claims (experience replay for agents)."""

from __future__ import annotations

from statistics import fmean
from typing import Any

import torch

from hocket.core.batch import Batch
from hocket.core.components import value_at
from hocket.curriculum.random_order import Shuffled
from hocket.curriculum.scenario_worth import Weighted
from hocket.lab.claims.harness import SEEDS, Claims, Finding, gap, inspect_rows, say
from hocket.lab.talk import TalkBench, total
from hocket.lab.toys.hops import ASKED, WAYS, Hops, last
from hocket.lab.toys.recorded_answers import line, sample
from hocket.methods.base.grpo import GRPO
from hocket.methods.data_and_rollout.arpo_gui import ARPO_GUI
from hocket.recipe import Recipe
from hocket.rollout.independent import Independent
from hocket.rollout.replay import ReusedSuccess
from hocket.rollout.replay_store import ReplayStore
from hocket.types import Quantity, Scenario, Trajectory

claim = Claims("arpo-gui", "arXiv:2505.16282")
OURS = ARPO_GUI.but({"curriculum": Shuffled(prompts=2), "rollout.samples": 6})
PLAIN = GRPO.but({"rollout.samples": 6})
THREE = [Scenario(one.id, "", answer=" ".join(one.answer.split()[:3])) for one in ASKED]


def bench(recipe: Recipe, seed: int = 0, lr: float = 0.1) -> TalkBench:
    """Three steps, of which one episode in 64 takes all rightly at first."""
    return TalkBench(Hops(), THREE, WAYS, recipe, view=last, seed=seed, lr=lr)


def watched(seed: int, steps: int, **how: float) -> list[tuple[Batch, list[Trajectory]]]:
    """The credited batches of a run, and their trajectories."""
    made, found = bench(OURS, seed, **how), list[tuple[Batch, list[Trajectory]]]()
    for _ in range(steps):
        result = made.step()
        if result.batch is not None:
            found.append((result.batch, result.trajectories))
    return found


def by_group(trajectories: list[Trajectory]) -> list[list[int]]:
    return [[n for n, one in enumerate(trajectories) if one.scenario.id == asked.id] for asked in THREE]


@claim(
    "A group with a success is untouched; of one without, one failure gives way to an earlier success, which gets the "
    "only positive advantage."
)
def a_group_with_a_success_is_untouched_of_one_without_one_failure() -> Finding:
    untouched, rescued, wrong = 0, 0, 0
    for batch, trajectories in (row for seed in range(4) for row in watched(seed, 30)):
        seen = batch.occurrences
        for group in by_group(trajectories):
            own = [n for n in group if trajectories[n].source == "own"]
            old = [n for n in group if trajectories[n].source == "replay"]
            solved = any(total(trajectories[n]) > 0 for n in own)
            untouched += solved and not old
            wrong += (solved and bool(old)) or len(group) != 6
            if old:
                rescued += 1
                sign = [float(seen.advantage[seen.trajectory == n][0]) for n in group]
                wrong += [n for n, one in zip(group, sign, strict=True) if one > 0] != old or max(sign) <= 0
    return Finding(
        wrong == 0 and untouched > 10 and rescued > 10, say(untouched=untouched, rescued=rescued, wrong=wrong)
    )


@claim(
    "The first ratio of what came back is to the log-probs it was sampled with, and not 1 once the policy has moved."
)
def the_first_ratio_of_what_came_back_is_to_the_log_probs_it_was() -> Finding:
    off, moved = 0.0, 0.0
    made = bench(OURS, 1)
    known: dict[bytes, list[list[float]]] = {}
    for _ in range(60):
        policy = made.policies["policy"].frozen_copy()
        result = made.step()
        assert result.batch is not None
        for one in result.trajectories:
            name = f"{one.scenario.id} {[turn.action.tolist() for turn in one.turns]}".encode()
            said = [float(value) for turn in one.turns if turn.logp is not None for value in turn.logp]
            if one.source == "replay":
                off = max(off, min(gap(said, other) for other in known[name]))
            else:
                known.setdefault(name, []).append(said)
        names = result.batch.names["source"]
        if "replay" in names:
            old = result.batch.source == names.index("replay")
            place = result.batch.occurrences.decision[old[result.batch.occurrences.trajectory]]
            with torch.no_grad():
                now = policy.evaluate(result.batch, {Quantity.LOGP}).logp
            moved = max(moved, gap(now[place], result.batch.logp["behaviour"].values[place]))
    return Finding(off == 0 and moved > 0.1, say(recorded_log_probs_off=off, largest_log_ratio=moved))


STEPS = 40


def signals(recipe: Recipe) -> tuple[list[float], list[float]]:
    """By seed the exact chance to find it, and the share of groups with a signal once one succeeded."""
    found, share = list[float](), list[float]()
    for seed in SEEDS:
        made, groups = bench(recipe, seed), list[float]()
        for _ in range(STEPS):
            metrics = made.step().metrics
            if groups or metrics["reward/mean"] > 0:
                groups.append(metrics["groups/with_signal"] / 2)
        found.append(made.expected())
        share.append(fmean(groups))
    return found, share


@claim("After a first success more groups have a gradient than with GRPO, and success rises faster.", slow=True)
def after_a_first_success_more_groups_have_a_gradient_than_with() -> Finding:
    ours, plain, stale = (
        signals(OURS),
        signals(PLAIN),
        signals(OURS.but({"rollout.store": ReplayStore(4096, keep="best")})),
    )
    holds = fmean(ours[0]) > fmean(plain[0]) + 0.05 and fmean(ours[1]) > fmean(plain[1]) + 0.1
    saw = f"found after {STEPS} steps {line(ours[0])}, by GRPO {line(plain[0])}, nothing ever let go {line(stale[0])}"
    return Finding(holds, f"{saw}; groups with a signal {line(ours[1])}, by GRPO {line(plain[1])}")


@claim("As shipped 8 samples each of 16 of all tasks; kept are 16 successes of a task, of 4096 tasks.")
def as_shipped_8_samples_each_of_16_of_all_tasks_kept_are_16() -> Finding:
    pool, reused = ARPO_GUI.curriculum, ARPO_GUI.rollout
    held = pool == Weighted(prompts=16, pool=None, even=0.0) and isinstance(reused, ReusedSuccess)
    kept = [value_at(ARPO_GUI, f"rollout.{name}") for name in ("samples", "store.size", "store.scenarios")]
    return Finding(held and kept == [8, 16, 4096], say(curriculum=str(pool), rollout=str(kept)))


@claim("Ratios are to who sampled, clipped at .8 and 1.2; of what came back the share that is clipped is told.")
def ratios_are_to_who_sampled_clipped_at_8_and_1_2_of_what_came() -> Finding:
    # Ratios of e^-.3, e^-.1 and e^.5 of failures, and e^.5, e^.1, e^-1 and e^.3 of what came back, by hand.
    own = [sample("g", 0.0, [-1.0] * 3, logp_behaviour=[-0.7, -0.9, -1.5], source="own") for _ in range(3)]
    past = {"logp_behaviour": [-1.5, -1.1, 0.0, -1.3], "source": "replay"}
    seen = inspect_rows(ARPO_GUI, [*own, sample("g", 1.0, [-1.0] * 4, **past)])
    stopped = [[slope == 0 for slope in row] for row in seen["gradient"]]
    holds = stopped == [[True, False, False]] * 3 + [[True, False, False, True]]
    told = seen["metrics"]["replay/clipped"]
    return Finding(holds and told == 0.5, say(clipped=told, no_gradient=str(stopped)))


def settings() -> dict[str, Any]:
    """Few tasks, so that they come again at once."""
    return {"curriculum.prompts": 4, "curriculum.pool": 4, "rollout.samples": 4}


claim.spares("arpo-gui: objective.horizon = 5120", "no length divides a mean over sequences")
claim.shipped(
    ARPO_GUI,
    without={"rollout": Independent(samples=4)},
    steps=6,
    settings=settings(),
    sees=lambda run: {"replayed": run.mean("replay/trajectories"), "groups": run.mean("groups/with_signal")},
)
