"""What agentflow claims."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import torch

from hocket.core.batch import GroupBy
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.credit.reinforce import Uniform
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.talk import TalkBench, everything
from hocket.lab.toys.turn_toys import SEEDS, by_turn, episode, seen, worst
from hocket.methods.agents.agentflow import AGENTFLOW, InTheFlow
from hocket.methods.base.grpo import GRPO_KL
from hocket.objectives.likelihood import NegativeLogLikelihood
from hocket.recipe import Recipe
from hocket.stages import Reward
from hocket.testing import rehearse
from hocket.types import Message, Scenario, Trajectory

claim = Claims("agentflow", "arXiv:2510.05592")


ALONE = AGENTFLOW.but(regularisers=())
PER_TURN = ALONE.but({"credit.by": GroupBy("scenario", "policy")})
"""The authors' code: mean and deviation over all turn samples of a question."""


def random_flows(key: Key, *, groups: int = 2) -> list[Any]:
    """Episodes of 1 to 4 turns of 1 to 3 decisions with an outcome in [0, 1], sampled by a policy a little older."""
    rng = key.numpy()
    rows = []
    for group in range(groups):
        for _ in range(4):
            turns = [{"tokens": [0] * int(rng.integers(1, 4))} for _ in range(int(rng.integers(1, 5)))]
            row = episode(f"{group}", float(rng.random()), turns)
            row["logp"] = (-rng.exponential(1.0, len(row["logp"])) - 0.01).tolist()
            row["logp_behaviour"] = [value + 0.3 * float(rng.normal()) for value in row["logp"]]
            row["logp_ref"] = [value + 0.3 * float(rng.normal()) for value in row["logp"]]
            rows.append(row)
    return rows


def advantages(rows: Sequence[Any]) -> list[float]:
    """One per rollout, counted anew."""
    found = []
    for row in rows:
        group = [other["scores"]["reward"] for other in rows if other["group"] == row["group"]]
        middle = fmean(group)
        spread = math.sqrt(sum((value - middle) ** 2 for value in group) / (len(group) - 1))
        found.append((row["scores"]["reward"] - middle) / (spread + 1e-6))
    return found


def single_turn_surrogate(logp: torch.Tensor, old: torch.Tensor, advantage: float) -> torch.Tensor:
    """The clipped surrogate of one turn, mean over its tokens."""
    ratio = (logp - old).exp()
    return torch.minimum(ratio * advantage, ratio.clamp(0.8, 1.3) * advantage).mean()


@claim("The objective is the mean over episodes of the 1/T_i-weighted sum of single-turn surrogates.")
def it_is_the_mean_of_single_turns() -> Finding:
    """J = mean over episodes of 1/T_i times the sum of single-turn surrogates: values and gradients."""
    gap = 0.0
    for number in range(20):
        rows = random_flows(Key.of(number))
        found = seen(ALONE, rows)
        leaves = [torch.tensor(row["logp"], dtype=torch.float64, requires_grad=True) for row in rows]
        parts = []
        for row, leaf, advantage in zip(rows, leaves, advantages(rows), strict=True):
            old, turn = torch.tensor(row["logp_behaviour"], dtype=torch.float64), torch.tensor(row["turn"])
            count = row["turn"][-1] + 1
            single = [single_turn_surrogate(leaf[turn == t], old[turn == t], advantage) for t in range(count)]
            parts.append(torch.stack(single).mean())
        loss = -torch.stack(parts).mean()
        slopes = torch.autograd.grad(loss, leaves)
        gap = max(
            gap, abs(found["loss"] - float(loss.detach())), worst(found["gradient"], [s.tolist() for s in slopes])
        )
    return Finding(gap < 1e-12, f"loss and gradient against the mean of single turns, 20 random batches: {gap:.1e}")


@claim(
    "With unequal T_i the per-rollout and per-turn-sample baselines differ by Cov(T, R)/mean T.",
    "derived; the authors' code",
)
def baselines_differ_as_predicted() -> Finding:
    """The mean over turn samples minus the mean over rollouts is Cov(T, R)/mean T (population covariance)."""
    gap, largest = 0.0, 0.0
    centred = ALONE.but({"credit.scale": None})
    for number in range(20):
        rows = random_flows(Key.of(number), groups=1)
        turns = [row["turn"][-1] + 1 for row in rows]
        rewards = [row["scores"]["reward"] for row in rows]
        wanted = fmean(t * r for t, r in zip(turns, rewards, strict=True)) / fmean(turns) - fmean(rewards)
        per_turn = seen(centred.but({"credit.by": GroupBy("scenario", "policy")}), rows)["advantages"]
        found = worst(seen(centred, rows)["advantages"], per_turn)
        gap, largest = max(gap, abs(found - abs(wanted))), max(largest, abs(wanted))
    return Finding(
        gap < 1e-12 and largest > 0.01, f"off the prediction by {gap:.1e}; the baselines differ by up to {largest:.3f}"
    )


@claim("With T = 1 it is GRPO.")
def with_one_turn_it_is_grpo() -> Finding:
    settings = {"objective.high": 0.3, "regularisers.0.coefficient": 0.001}
    gap = 0.0
    for number in range(20):
        rows = random_flows(Key.of(number))
        for row in rows:
            row["turn"], row["state"] = [0] * len(row["turn"]), row["state"][:1]
            row["agent"], row["turn_scores"] = row["agent"][:1], row["turn_scores"][:1]
        gap = max(gap, worst(seen(AGENTFLOW, rows)["gradient"], seen(GRPO_KL.but(settings), rows)["gradient"]))
    return Finding(gap < 1e-15, f"episodes of one turn against GRPO with the same clip and KL: {gap:.1e}")


@claim("Every turn of an episode has the same advantage.")
def turns_share_the_outcome() -> Finding:
    rows = random_flows(Key.of(1))
    spread = max(max(row) - min(row) for row in seen(ALONE, rows)["advantages"])
    per_turn = [by_turn(row, values) for row, values in zip(rows, seen(PER_TURN, rows)["advantages"], strict=True)]
    other = max(max(max(turn) for turn in row) - min(min(turn) for turn in row) for row in per_turn)
    return Finding(spread == 0.0 and other == 0.0, f"largest difference within an episode {spread:.1e} and {other:.1e}")


def planner(messages: tuple[Message, ...], said: tuple[str, ...]) -> dict[str, float]:
    """Says any action."""
    return dict.fromkeys((*FOUND, "stop", "continue"), NEVER)


@claim("The planner's context stays bounded however many turns there are.")
def contexts_stay_short() -> Finding:
    """The planner's context after many turns, with a memory of three lines."""
    flow = InTheFlow(turns=30, kept=3, longest=20)
    replies = {
        "planner": [f"look at shelf number {n} of the hall" for n in range(30)],
        "executor": [f"there are {n} books and a cat here" for n in range(30)],
        "verifier": ["continue"] * 30,
        "generator": ["<answer>7</answer>"],
    }
    (played,) = rehearse(flow, Scenario("s", "How many books are there?"), replies)
    sizes = [len(turn.observation) for turn in played.turns if turn.role == "planner"]
    late = max(sizes[3:]) - min(sizes[3:])
    alone = all(turn.parent is None for turn in played.turns)
    return Finding(
        alone and max(sizes) <= sizes[3] + 12 and late <= 12,
        f"planner's context in tokens by turn: {sizes[:5]} .. {sizes[-3:]}, 30 turns; every call a context of its own",
    )


ACTIONS = ("open box", "read map", "ask cook", "dig here", "wait")
FOUND = ("map", "gold", "nothing")
WORDS = (*ACTIONS, *FOUND, "stop", "continue")
NEVER = -30.0


def helper(messages: tuple[Message, ...], said: tuple[str, ...]) -> dict[str, float]:
    """Executor, verifier and generator: they do their work right, mostly."""
    system, told = str(messages[0]["content"]), str(messages[-1]["content"])
    if "carry out" in system:
        step = told.rpartition("Step: ")[2]
        found = "map" if step == "open box" else "gold" if step == "dig here" and "map" in told else "nothing"
        return {found: 6.0}
    if "verify" in system:
        return {"stop" if "gold" in told else "continue": 6.0}
    return {"gold" if "gold" in told else "nothing": 6.0}


@dataclass(frozen=True)
class Found(Reward):
    """1 for an answer that is right."""

    name: str = "right"
    weight: float = 1.0
    outside = False

    async def __call__(self, trajectories: Sequence[Trajectory], *, key: Key) -> list[float | None]:
        return [float(one.info.get("answer") == one.scenario.answer) for one in trajectories]


def view(messages: tuple[Message, ...]) -> Any:
    """What the planner has found out, not in how many turns; the others read everything."""
    if str(messages[0]["content"]).startswith("You plan"):
        told = str(messages[-1]["content"])
        return "plan", "-> map" in told, "-> gold" in told
    return everything(messages)


def bench(recipe: Recipe, seed: int) -> TalkBench:
    return TalkBench(
        InTheFlow(turns=3),
        [Scenario(f"hunt {number}", "where is it", "gold") for number in range(4)],
        WORDS,
        recipe,
        view=view,
        prior={"planner": planner, "others": helper},
        rewards=(Found(),),
        measure=lambda one: float(one.info["answer"] == one.scenario.answer),
        seed=seed,
        lr=0.1,
    )


STEPS = 25


def imitated(seed: int) -> float:
    """Success after as many steps of likelihood on the successes among as many episodes of the untrained planner."""
    recipe = AGENTFLOW.but(regularisers=(), credit=Uniform(), objective=NegativeLogLikelihood())
    made = bench(recipe, seed)
    good = [one for one in made.play(8 * STEPS) if made.parts.task.success(one) == 1.0]
    learner = made.learners["planner"]
    for step in range(1, STEPS + 1):
        batch = learner.assess(pack(good), {}, step)
        learner.learn(batch, Key.of(seed).derive(step), step)
    return made.success(100)


@claim(
    "With frozen helpers the trained planner beats the untrained one and likelihood on its successful traces.",
    slow=True,
)
def the_trained_planner_is_best() -> Finding:
    frozen = [bench(AGENTFLOW, seed).success(100) for seed in SEEDS]
    copied = [imitated(seed) for seed in SEEDS]
    trained = [bench(AGENTFLOW, seed).run(STEPS).success(100) for seed in SEEDS]
    return Finding(
        min(trained) > max(copied) + 0.05 and min(copied) > max(frozen),
        f"gold found: untrained planner {_shown(frozen)}, likelihood on its successes {_shown(copied)}, trained in the "
        f"flow {_shown(trained)}; {STEPS} steps, equal episodes, 5 seeds",
    )


@claim("Only the planner learns.")
def only_the_planner_learns() -> Finding:
    made = bench(AGENTFLOW, 0)
    before = {name: policy.module.logits.detach().clone() for name, policy in made.policies.items()}
    made.run(1)
    after = {name: policy.module.logits.detach() for name, policy in made.policies.items()}
    moved = {name: float((after[name] - before[name]).abs().max()) for name in after}
    return Finding(moved["planner"] > 0 and moved["others"] == 0.0, f"largest change of logits: {moved}")


def _shown(numbers: Sequence[float]) -> str:
    return " ".join(f"{number:.2f}" for number in numbers)
