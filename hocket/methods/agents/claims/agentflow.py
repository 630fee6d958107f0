"""AgentFlow's claims."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import fmean
from typing import Any

import torch

from hocket.core.batch import GroupBy
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.credit.reinforce import Uniform
from hocket.lab.claims.harness import EXACT, SEEDS, Claims, Finding, below, gap, inspect_rows, say
from hocket.lab.claims.lesson_data import after_lessons
from hocket.lab.claims.shipped_check import ShippedRun
from hocket.lab.talk import TalkBench, everything
from hocket.lab.toys.episodes import by_turn, episode
from hocket.lab.toys.instances import JudgedReward
from hocket.lab.toys.recorded_answers import group_relative, line
from hocket.methods.agents.agentflow import AGENTFLOW, MEMORY, TURNS, InTheFlow, SteeredReckoning
from hocket.methods.base.grpo import GRPO_KL
from hocket.objectives.likelihood import NegativeLogLikelihood
from hocket.testing import Part, rehearse, tool_call
from hocket.train.aio import run_async
from hocket.types import Assignment, Message, Scenario, Trajectory

claim = Claims("agentflow", "arXiv:2510.05592")
TASK = SteeredReckoning()
ALONE = AGENTFLOW.but(regularisers=())
# The authors' code: mean and deviation over all turn samples of a question.
PER_TURN = ALONE.but({"credit.by": GroupBy("scenario", "policy")})


def random_flows(groups: int = 2) -> Iterator[list[Any]]:
    """20 batches: episodes of 1 to 4 turns of 1 to 3 decisions, outcome in [0, 1], from a policy a little older."""
    for number in range(20):
        rng, rows = Key.of(number).numpy(), []
        for sample in range(4 * groups):
            turns = [{"tokens": [0] * int(rng.integers(1, 4))} for _ in range(int(rng.integers(1, 5)))]
            row = episode(f"{sample // 4}", float(rng.random()), turns)
            row["logp"] = (-rng.exponential(1.0, len(row["logp"])) - 0.01).tolist()
            for name in ("logp_behaviour", "logp_ref"):
                row[name] = [value + 0.3 * float(rng.normal()) for value in row["logp"]]
            rows.append(row)
        yield rows


@claim("The objective is the mean over episodes of the 1/T_i-weighted sum of single-turn surrogates, less beta KL.")
def the_objective_is_the_mean_over_episodes_of_the_1_t_i_weighted() -> Finding:
    off = 0.0
    for rows in random_flows():
        made = inspect_rows(AGENTFLOW, rows)
        leaves = [torch.tensor(row["logp"], dtype=torch.float64, requires_grad=True) for row in rows]
        rewards = [row["scores"]["reward"] for row in rows]
        advantages, parts = group_relative(rewards[:4]) + group_relative(rewards[4:]), []
        for row, leaf, advantage in zip(rows, leaves, advantages, strict=True):
            ratio = (leaf - torch.tensor(row["logp_behaviour"], dtype=torch.float64)).exp()
            apart = torch.tensor(row["logp_ref"], dtype=torch.float64) - leaf
            surrogate = torch.minimum(ratio * advantage, ratio.clamp(0.8, 1.3) * advantage)
            surrogate = surrogate - 0.001 * (apart.exp() - apart - 1)
            turn = torch.tensor(row["turn"])
            parts.append(torch.stack([surrogate[turn == t].mean() for t in range(row["turn"][-1] + 1)]).mean())
        loss = -torch.stack(parts).mean()
        slopes = torch.autograd.grad(loss, leaves)
        off = max(off, gap(made["loss"], loss), gap(made["gradient"], [slope.tolist() for slope in slopes]))
    return below(EXACT, loss_and_gradient_off_the_mean_of_single_turns_in_20_batches=off)


@claim(
    "With unequal T_i the per-rollout and per-turn-sample baselines differ by Cov(T, R)/mean T.",
    "derived; the authors' code",
)
def with_unequal_t_i_the_per_rollout_and_per_turn_sample_baselines() -> Finding:
    off, largest = 0.0, 0.0
    for rows in random_flows(groups=1):
        turns, rewards = [row["turn"][-1] + 1 for row in rows], [row["scores"]["reward"] for row in rows]
        wanted = fmean(t * r for t, r in zip(turns, rewards, strict=True)) / fmean(turns) - fmean(rewards)
        ours, theirs = (inspect_rows(one.but({"credit.scale": None}), rows)["advantages"] for one in (ALONE, PER_TURN))
        off, largest = max(off, abs(gap(ours, theirs) - abs(wanted))), max(largest, abs(wanted))
    return Finding(off < EXACT and largest > 0.01, say(off_the_prediction=off, largest_difference_of_baselines=largest))


@claim("With T = 1 it is GRPO.")
def with_t_1_it_is_grpo() -> Finding:
    grpo = GRPO_KL.but({"objective.high": 0.3, "regularisers.0.coefficient": 0.001})
    off, first = 0.0, ("state", "agent", "turn_scores")
    for rows in random_flows():
        single = [row | {"turn": [0] * len(row["turn"])} | {name: row[name][:1] for name in first} for row in rows]
        off = max(off, gap(*(inspect_rows(recipe, single)["gradient"] for recipe in (AGENTFLOW, grpo))))
    return below(1e-15, episodes_of_one_turn_off_GRPO_with_the_same_clip_and_KL=off)


@claim("Every turn of an episode has the same advantage.")
def every_turn_of_an_episode_has_the_same_advantage() -> Finding:
    rows = list(random_flows())[1]
    spread = max(max(row) - min(row) for row in inspect_rows(ALONE, rows)["advantages"])
    turns = [by_turn(row, values) for row, values in zip(rows, inspect_rows(PER_TURN, rows)["advantages"], strict=True)]
    other = max(max(map(max, row)) - min(map(min, row)) for row in turns)
    return Finding(spread == other == 0, say(largest_difference_within_an_episode=spread, by_turn_samples=other))


@claim("The planner's context stays bounded however many turns there are.")
def the_planners_context_stays_bounded_however_many_turns_there_are() -> Finding:
    replies = {
        "planner": [f"look at shelf number {n} of the hall" for n in range(30)],
        "executor": [f"there are {n} books and a cat here" for n in range(30)],
        "verifier": ["continue"] * 30,
        "generator": ["<answer>7</answer>"],
    }
    (played,) = rehearse(InTheFlow(turns=30, kept=3, longest=20), Scenario("s", "How many books are there?"), replies)
    sizes = [len(turn.observation) for turn in played.turns if turn.role == "planner"]
    alone = all(turn.parent is None for turn in played.turns)
    saw = say(turns=30, context_of_the_planner_in_tokens=f"{sizes[:5]} .. {sizes[-3:]}", every_call_its_own=alone)
    return Finding(alone and max(sizes) <= sizes[3] + 12 and max(sizes[3:]) - min(sizes[3:]) <= 12, saw)


@claim("Planner, verifier and generator read question and latest memory, the executor memory and step; stop ends it.")
def planner_verifier_and_generator_read_question_and_latest_memory() -> Finding:
    planner, generator = Part(" look \n up there", "count", "add"), Part("<answer>2</answer>")
    executor = Part("so <answer> a shelf </answer>", tool_call("calculator", expression="1+1"), " done ")
    verifier, flow = Part("continue", "Go on", " Stop."), InTheFlow(kept=1, longest=7, tools_of="calculator")
    parts = {"planner": planner, "executor": executor, "verifier": verifier, "generator": generator}
    (played,) = rehearse(flow, Scenario("s", "How many?"), parts)
    memory = ["1. look up -> a shelf", "2. count -> 2", "3. add -> done"]
    shown = [f"Memory:\n{line}" for line in ("nothing yet", *memory)]
    steps = [f"{line}\nStep: {step}" for line, step in zip(shown, ("look up", "count", "add"), strict=False)]
    told = [f"How many?\n{line}" for line in shown]
    asked = [part.questions for part in parts.values()]
    holds = asked == [told[:3], steps, told[1:], told[3:]] and TURNS.get(played) == 3 and MEMORY.get(played) == memory
    (played,) = rehearse(InTheFlow(), Scenario("s", "How many?"), {name: Part(otherwise="no") for name in parts})
    saw = say(asked=str(asked[0]), memory=str(memory), turns_without_stop=TURNS.get(played))
    return Finding(holds and TURNS.get(played) == 4 and isinstance(TASK.workflow, InTheFlow), saw)


claim.spares("agentflow: regularisers.0.horizon = 5120", "no length divides this aggregate")


ACTIONS, FOUND = ("open box", "read map", "ask cook", "dig here", "wait"), ("map", "gold", "nothing")
OUTCOMES, NEVER, STEPS = (*FOUND, "stop", "continue"), -30.0, 25
HUNTS = [Scenario(f"hunt {number}", "where is it", "gold") for number in range(4)]


def helper(messages: tuple[Message, ...], said: tuple[str, ...]) -> dict[str, float]:
    """Executor, verifier and generator: they do their work right, mostly."""
    system, told = str(messages[0]["content"]), str(messages[-1]["content"])
    if "carry out" in system:
        step = told.rpartition("Step: ")[2]
        return {"map" if step == "open box" else "gold" if step == "dig here" and "map" in told else "nothing": 6.0}
    if "verify" in system:
        return {"stop" if "gold" in told else "continue": 6.0}
    return {"gold" if "gold" in told else "nothing": 6.0}


def right(one: Trajectory) -> float:
    return float(one.info.get("answer") == one.scenario.answer)


def view(messages: tuple[Message, ...]) -> Any:
    """What the planner has found out, not in how many turns; the others read everything."""
    if str(messages[0]["content"]).startswith("You plan"):
        told = str(messages[-1]["content"])
        return "plan", "-> map" in told, "-> gold" in told
    return everything(messages)


def bench(seed: int, **changes: Any) -> TalkBench:
    prior = {"planner": lambda *_: dict.fromkeys(OUTCOMES, NEVER), "others": helper}
    more: dict[str, Any] = {"rewards": (JudgedReward(right, "right"),), "measure": right, "prior": prior, "lr": 0.1}
    words, recipe = (*ACTIONS, *OUTCOMES), AGENTFLOW.but(**changes)
    return TalkBench(InTheFlow(turns=3), HUNTS, words, recipe, view=view, seed=seed, **more)


def imitated(seed: int) -> TalkBench:
    """After as many steps of likelihood on the successes among as many episodes of the untrained planner."""
    made = bench(seed, regularisers=(), credit=Uniform(), objective=NegativeLogLikelihood())
    good = [one for one in made.play(8 * STEPS) if made.parts.task.success(one) == 1.0]
    learner = made.learners["planner"]
    for step in range(1, STEPS + 1):
        learner.learn(learner.compute_credit(pack(good), {}, step), Key.of(seed).derive(step), step)
    return made


@claim(
    "With frozen helpers the trained planner beats the untrained one and likelihood on its successful traces.",
    slow=True,
)
def with_frozen_helpers_the_trained_planner_beats_the_untrained_one() -> Finding:
    made = (bench, imitated, lambda seed: bench(seed).run(STEPS))
    frozen, copied, trained = ([one(seed).success(100) for seed in SEEDS] for one in made)
    gold = say(untrained=line(frozen), likelihood_on_its_successes=line(copied), trained_in_the_flow=line(trained))
    holds = min(trained) > max(copied) + 0.05 and min(copied) > max(frozen)
    return Finding(holds, f"gold found, {STEPS} steps, equal episodes, 5 seeds: {gold}")


@claim("Only the planner learns.")
def only_the_planner_learns() -> Finding:
    made = bench(0)
    before = {name: policy.module.logits.detach().clone() for name, policy in made.policies.items()}
    moved = {name: gap(policy.module.logits, before[name]) for name, policy in made.run(1).policies.items()}
    return Finding(moved["planner"] > 0 and moved["others"] == 0.0, say(largest_change_of_logits=moved))


# ---------------------------------------------------------------- the shipped model

TASK_NAME = "steered-reckoning"
TAUGHT = f"lessons:{TASK_NAME}"


def imitating(steps: int) -> float:
    """Of a planner that learnt the likelihood of the successes among as many episodes of the untrained one."""
    recipe = AGENTFLOW.but(regularisers=(), credit=Uniform(), objective=NegativeLogLikelihood())
    pupil = after_lessons(recipe, TASK_NAME, TAUGHT, steps=150)
    asked = [TASK.scenario("train", number) for number in range(12 * steps)]
    played = pupil.parts.player.play([Assignment(one, 8, pupil.parts.decoding) for one in asked], key=Key.of(2))
    good = [one for one in run_async(played) if TASK.success(one) == 1.0]
    learner = pupil.parts.learners["planner"]
    for step in range(steps):
        some = [good[place] for place in Key.of(3).derive(step).numpy().permutation(len(good))[:96].tolist()]
        learner.learn(learner.compute_credit(pack(some), {}, step + 1), Key.of(4).derive(step), step + 1)
    return pupil.success()


@claim(
    "After lessons and 14 steps the shipped model's planner answers more unseen questions with two tools than before, "
    "as does one that learnt the likelihood of successful traces of the untrained; one run does not part the two.",
    slow=True,
)
def after_lessons_and_14_steps_the_shipped_models_planner_answers() -> Finding:
    pupil = after_lessons(AGENTFLOW, TASK_NAME, TAUGHT, {"curriculum.prompts": 12, "update.lr": 1e-3}, steps=150)
    before = pupil.success()
    others = [one.clone() for one in pupil.parts.learners["others"].policy.module.parameters()]
    trained, copied = pupil.run(14).success(), imitating(14)
    same = zip(others, pupil.parts.learners["others"].policy.module.parameters(), strict=True)
    saw = say(untrained=before, likelihood_on_its_successes=copied, trained_in_the_flow=trained)
    return Finding(
        trained > before + 0.15 and copied > before + 0.1 and all(torch.equal(old, new) for old, new in same), saw
    )


FIRST = {"recipe": "sft", "steps": 60, "update.lr": 0.003, "task": TAUGHT}
SIZE = {"curriculum.prompts": 4}


def figures(run: ShippedRun) -> dict[str, float]:
    """Of a run's episodes."""
    rows = [one for result in run.results for one in result.trajectories]
    return {"reward": run.mean("reward/mean"), "turns": fmean(TURNS.get(one) for one in rows)}


claim.shipped(AGENTFLOW, "objective", trains=("planner",), first=FIRST, settings=SIZE, steps=2, sees=figures)
claim.shipped(
    AGENTFLOW,
    "regularisers",
    trains=("planner",),
    first=FIRST,
    settings=SIZE,
    steps=2,
    small="a KL to the policy before training is 0 in the first step, and small in those after it",
)
