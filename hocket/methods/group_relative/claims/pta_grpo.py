"""PTA-GRPO's claims."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from statistics import fmean

import numpy as np

from hocket.core.batch import Batch
from hocket.core.components import value_at
from hocket.core.packing import pack
from hocket.core.signals import returns
from hocket.lab.bench import Bench
from hocket.lab.claims.harness import EXACT, Claims, Finding, below, gap, say
from hocket.lab.microscope import RecordedBatch
from hocket.lab.toys.instances import Instances, by_instance, nothing
from hocket.lab.toys.recorded_answers import lines
from hocket.lab.toys.training import chances
from hocket.methods.base.grpo import GRPO
from hocket.methods.group_relative.pta_grpo import (
    PTA_GRPO,
    PTA_GRPO_SFT,
    PlannedDemonstrations,
    planned,
    planned_well,
)
from hocket.recipe import Recipe
from hocket.tasks.sums import Sums
from hocket.types import Scenario, Score, Trajectory, Turn

claim = Claims("pta-grpo", "arXiv:2510.01833; the weights of its rewards are our choice")
CENTRED = PTA_GRPO.but({"credit.scale": None})
CHOICE, RATES = np.array([0.3, 0.7]), np.array([0.2, 0.6])
"""How likely each of two strategies is planned, and how often it succeeds."""


def tree(plans: Sequence[int], outcomes: Sequence[Sequence[float]]) -> Batch:
    """A batch of plans (one decision each, shared) and their solutions (one decision each)."""
    rows, logp = [], np.array([-1.0], np.float32)
    for plan, results in zip(plans, outcomes, strict=True):
        stem = Turn("p", "p", np.zeros(1, np.int64), np.array([plan]), logp)
        for result in results:
            leaf = Turn("p", "p", np.zeros(0, np.int64), np.array([9]), logp, parent=stem)
            rows.append(Trajectory(Scenario("s"), [stem, leaf], scores={"verdict": Score(result)}))
    return pack(rows)


def credited(recipe: Recipe, batch: Batch) -> Batch:
    """The batch with the recipe's advantages."""
    return recipe.compute_credit(batch, recipe.init(), {})[0]


def cases(plans: int, solutions: int) -> Iterator[tuple[float, tuple[int, ...], list[tuple[float, ...]]]]:
    for chosen in itertools.product(range(2), repeat=plans):
        for flat in itertools.product((0.0, 1.0), repeat=plans * solutions):
            outcomes = [flat[k * solutions : (k + 1) * solutions] for k in range(plans)]
            chance = float(np.prod(CHOICE[list(chosen)]))
            for plan, results in zip(chosen, outcomes, strict=True):
                chance *= float(np.prod([RATES[plan] if result else 1 - RATES[plan] for result in results]))
            yield chance, chosen, outcomes


@claim("a plan's value is unbiased, its variance over plans between + within/m")
def a_plans_value_is_unbiased_its_variance_over_plans_between() -> Finding:
    variances, off = {}, 0.0
    between, within = float(CHOICE @ RATES**2 - (CHOICE @ RATES) ** 2), float(CHOICE @ (RATES * (1 - RATES)))
    for solutions in (1, 2, 4):
        rows = [(chance, plan, fmean(results)) for chance, (plan,), (results,) in cases(1, solutions)]
        first, second = (sum(chance * value**power for chance, _, value in rows) for power in (1, 2))
        by_plan = [sum(chance * value for chance, own, value in rows if own == plan) for plan in range(2)]
        variances[solutions] = second - first**2
        off = max(off, gap(variances[solutions], between + within / solutions), gap(by_plan / CHOICE, RATES))
    saw = ", ".join(f"m={solutions}: {variance:.4f}" for solutions, variance in variances.items())
    return Finding(off < EXACT, f"variance over plans {saw} = between {between:.4f} + within {within:.4f}/m")


@claim("all solutions of a plan earn what it is worth: a failure of a good plan loses less than one of a bad plan")
def all_solutions_of_a_plan_earn_what_it_is_worth_a_failure_of_a() -> Finding:
    batch = tree((0, 1), ((1.0, 1.0, 0.0), (1.0, 0.0, 0.0)))
    paid, plain = (
        credited(recipe, batch).occurrences.advantage[1::2] for recipe in (CENTRED, GRPO.but({"credit.scale": None}))
    )
    wanted = [1 + 2 / 3, 1 + 2 / 3, 2 / 3, 1 + 1 / 3, 1 / 3, 1 / 3]
    off = gap(paid, [value - fmean(wanted) for value in wanted])
    kept = float(paid[2] - paid[5])
    return Finding(off < EXACT and kept > 0 and float(plain[2]) == float(plain[5]), say(off_by=off, lead=kept))


@claim("with plans weighted w the expected plan gradient is the true one times (1 + w)(P - 1)/P", "derived here")
def with_plans_weighted_w_the_expected_plan_gradient_is_the_true() -> Finding:
    true, off, saw = CHOICE * (RATES - CHOICE @ RATES), 0.0, []
    for plans, solutions, weight in ((2, 2, 1.0), (2, 2, 0.0), (3, 1, 1.0)):
        gradient, recipe = np.zeros(2), CENTRED.but({"shaping.0.weight": weight})
        for chance, chosen, outcomes in cases(plans, solutions):
            credit = credited(recipe, tree(chosen, outcomes))
            first = credit.turn[credit.occurrences.decision] == credit.turn[credit.occurrences.decision][
                ::2
            ].repeat_interleave(2)
            seen = credit.occurrences
            plan = credit.action[seen.decision[first]].numpy()
            score = seen.advantage[first].double().numpy()[:, None] * (np.eye(2)[plan] - CHOICE)
            gradient += chance * score.sum(0) / (plans * solutions)
        off = max(off, gap(gradient, true * (1 + weight) * (plans - 1) / plans))
        saw.append(f"P={plans}, m={solutions}, w={weight:g}: {gradient[1] / true[1]:.4f}")
    return Finding(off < EXACT, f"expected plan gradient over the true one: {'; '.join(saw)}")


@claim("one solution per plan is GRPO")
def one_solution_per_plan_is_grpo() -> Finding:
    chosen = (((0, 1, 1, 0), ((1.0,), (0.0,), (0.0,), (0.0,))), ((1, 1, 1), ((1.0,), (1.0,), (0.25,))))
    exact = {"credit.epsilon": 0.0}
    gaps = [
        gap(*(credited(one.but(exact), tree(*case)).occurrences.advantage for one in (PTA_GRPO, GRPO)))
        for case in chosen
    ]
    return below(EXACT, largest_difference_of_advantages=max(gaps))


@claim("the first stage's demonstrations plan before they solve, and end with the right answer")
def the_first_stages_demonstrations_plan_before_they_solve_and_end() -> Finding:
    task, wrong = Sums(), 0
    for number in range(200):
        scenario = task.scenario("train", number)
        said = planned(scenario).metadata["demonstration"]
        wrong += not (planned_well(said) and task.verify(said, scenario) == 1.0)
        # The last total of the working is the answer; the plan has every term.
        wrong += said.partition("</think>")[0].rpartition("=")[2] != scenario.answer
    broken = ("<answer>3</answer>", "<plan></plan><answer>3</answer>", "<plan>1<answer>3</answer>", "<plan>1</plan>3")
    return Finding(wrong == 0 and not any(map(planned_well, broken)), say(demonstrations=200, wrong=wrong))


@claim("as shipped a response earns its verdict, the plan's value and 0.1 for one filled plan and one answer")
def as_shipped_a_response_earns_its_verdict_the_plans_value_and_0_1() -> Finding:
    form = (
        "<plan>a</plan><answer>3</answer>",
        "<answer>3</answer>",
        "<plan>a</plan><think><plan></think><answer>3</answer>",
    )
    rows = [
        {"id": text, "group": "s", "scores": {"reward": verdict}, "logp": [-1.0], "text": text}
        for text, verdict in zip(form, (1.0, 0.0, 0.5), strict=True)
    ]
    batch = RecordedBatch({"version": 1, "trajectories": rows}).batch
    worth = returns(credited(PTA_GRPO, batch))
    names = {"rollout.plans": 4, "rollout.solutions": 4, "rollout.plan_tokens": 64}
    same = {name: value_at(PTA_GRPO, name) for name in names} == names
    return below(EXACT, same, off=gap(worth, [2.1, 0.0, 1.0]))


claim.constants(
    "the first stage imitates one such demonstration of each of 32 scenarios a step, at a rate of 1e-3",
    PTA_GRPO_SFT,
    {"rollout": PlannedDemonstrations, "curriculum.prompts": 32, "rollout.samples": 1, "update.lr": 1e-3},
    "chosen here",
)


STRATEGIES = (1, 2, 3, 1)
"""In how many cases of four each plan succeeds."""
WORLD = Instances(
    # A plan, then an execution whose success also depends on what the instance holds, which nobody knows.
    *(1, 4, 2, nothing),
    correct=lambda question, answer: STRATEGIES[answer[0]] / 4,
    context="position",
    count=4,
    about=lambda number: {"question": 0, "holds": number},
)


def best_plan(plans: int, solutions: int, seed: int) -> list[float]:
    """The probability of the best plan after each tenth step."""
    executed = by_instance(lambda told, answer: float((answer[1] + told["holds"]) % 4 < STRATEGIES[answer[0]]))
    shape: dict[str, object] = {"rollout.plans": plans, "rollout.solutions": solutions, "rollout.plan_tokens": 1}
    shape |= {"rollout.opening": "", "rollout.marker": ""}
    bench = Bench(WORLD, PTA_GRPO.but(shape, rewards=(executed,)), seed=seed, steps=40, prompts=1)
    return [float(chances(bench.run(10))[2]) for _ in range(4)]


@claim("at an equal number of plans, 4 solutions prefer the best strategy sooner than 1", slow=True)
def at_an_equal_number_of_plans_4_solutions_prefer_the_best() -> Finding:
    """At equal rollouts 8 plans of one solution are the better estimate, as the variance says."""
    one, four, eight = (
        [fmean(column) for column in zip(*(best_plan(*shape, seed) for seed in range(10)), strict=True)]
        for shape in ((2, 1), (2, 4), (8, 1))
    )
    saw = lines(P_2_m_1=one, P_2_m_4=four, P_8_m_1=eight)
    holds = all(b > a for a, b in zip(one, four, strict=True))
    return Finding(holds, f"probability of the best plan after 10, 20, 30, 40 steps, means of 10 seeds: {saw}")


claim.spares("len(seen) - 1 -> len(seen) + 1", "no first decision stands behind the last one")
claim.spares("len(seen) - 1 -> len(seen)", "no first decision stands behind the last one")

claim.shipped(PTA_GRPO, "shaping")
