"""CLPO's claims, on sums that are added term by term from a table, and as shipped."""

from __future__ import annotations

import functools
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from statistics import fmean

import numpy as np

from hocket.agents.workflows.team import Team
from hocket.agents.workflows.workflow import Outcome, Workflow
from hocket.core.keys import Key
from hocket.lab.claims.harness import Claims, Finding, below, gap, inspect_rows, say
from hocket.lab.talk import TalkBench, total
from hocket.lab.toys.recorded_answers import line, sample
from hocket.methods.base.grpo import GRPO
from hocket.methods.data_and_rollout.clpo.method import (
    CLPO,
    CLPO_FIRST,
    DIFFICULTY,
    GAIN,
    Difficulty,
    InWords,
    Restructured,
)
from hocket.methods.data_and_rollout.clpo.task import EASIER, OTHERWISE, RestatedSums, terms_of, value_of
from hocket.recipe import Recipe
from hocket.rewards.verifiers import TaskVerifier
from hocket.rollout.independent import Independent
from hocket.tasks.arithmetic import expression_of, question_of
from hocket.types import Message, Scenario

claim = Claims("clpo", "arXiv:2509.25004; csuking/CLPO")
MOST, KNOWN = 14, 0.3
WORDS = tuple(map(str, range(MOST + 1)))
SHORT, LONG = 3, 7
SEEDS, ROLLOUTS, CHECKS = range(6), 3000, 6


@dataclass(frozen=True)
class Adding(Workflow):
    """Adds term by term, a turn each, from what a table says of (total, term); rewrites in the same way.

    Asked for an easier question, it does the first half of the steps; asked for another one, it names the term that
    changes places with the last.
    """

    name = "adding"
    description = "sums from a table, step by step"
    roles = ("agent",)

    async def play(self, scenario: Scenario, team: Team) -> Outcome:
        asked = str(scenario.messages[-1]["content"])
        lead = next((one for one in (EASIER, OTHERWISE) if asked.startswith(one)), "")
        terms = terms_of(asked.removeprefix(lead)) or []
        if lead == OTHERWISE:
            place = int(str(await team.agent.fresh()(f"order {len(terms)}"))) % len(terms)
            terms[place], terms[-1] = terms[-1], terms[place]
            return Outcome(answer=question_of(expression_of(terms)))
        steps = len(terms) - 1
        done = max(1, steps // 2) if lead == EASIER else steps
        total = terms[0]
        for term in terms[1 : 1 + done]:
            said = int(str(await team.agent.fresh()(f"{total} {term}")))
            if said != total + term:
                return Outcome(answer="lost")
            total = said
        if lead == EASIER and done < steps:
            return Outcome(answer=question_of(expression_of([total, *terms[1 + done :]])))
        return Outcome(answer=str(total))


def start(messages: tuple[Message, ...], said: tuple[str, ...]) -> Mapping[str, float]:
    """Each step is known with probability `KNOWN`, when rewriting too."""
    words = str(messages[-1]["content"]).split()
    if words[0] == "order":
        return {}
    total = int(words[-2]) + int(words[-1])
    return {str(total): math.log(MOST * KNOWN / (1 - KNOWN))} if total <= MOST else {}


def problems() -> list[Scenario]:
    """Half of them short ones of small numbers, half long ones, whose last steps no short one needs."""
    found = list[Scenario]()
    for number in range(12):
        rng = np.random.default_rng(number)
        length = LONG if number % 2 else SHORT
        terms = [int(one) for one in rng.integers(1, 3, length)]
        found.append(Scenario(f"sum {number}", question_of(expression_of(terms)), str(sum(terms))))
    return found


PROBLEMS = problems()


def right(text: str, scenario: Scenario) -> float:
    return float(text == scenario.answer)


def bench(recipe: Recipe, seed: int = 0) -> TalkBench:
    """Four samples of each problem; plain gradient steps, so that what has little signal moves little."""
    few = recipe.but({"rollout.samples": 4, "update.method": "sgd", "update.lr": 30.0})
    return TalkBench(Adding(), PROBLEMS, WORDS, few, prior=start, rewards=(TaskVerifier(right),), seed=seed)


def accuracy(made: TalkBench, long: bool = True) -> float:
    """The exact chance of the right answer, mean over long or short problems."""
    (policy,) = made.policies.values()
    asked = [terms_of(str(one.prompt)) or [] for one in PROBLEMS]
    chances = [
        [
            float(policy.probabilities(f"{total} {term}")[total + term])
            for total, term in zip(accumulate(terms[:-1]), terms[1:], strict=True)
        ]
        for terms in asked
        if (len(terms) == LONG) is long
    ]
    return fmean(map(math.prod, chances))


@dataclass(frozen=True)
class AtRandom(Restructured):
    """As many problems are rewritten, whichever they are and in whichever way."""

    def chosen(self, levels: Sequence[Difficulty], key: Key) -> dict[int, Difficulty]:
        told = list(super().chosen(levels, key).values())
        places = key.numpy().permutation(len(levels))[: len(told)].tolist()
        return dict(zip(places, told, strict=True))


RANDOM = CLPO.but(name="at-random", rollout=AtRandom())
RECIPES = {one.name: one for one in (CLPO, CLPO_FIRST, GRPO, RANDOM)}


@functools.cache
def course(name: str, seed: int) -> dict[str, float]:
    """A run until `ROLLOUTS` episodes were sampled, those of rewriting counted. accuracy: on long problems, exact, mean
    over the checks made every `ROLLOUTS / CHECKS` episodes. constant: the share of groups whose samples all earn the
    same, among groups of problems, mean over steps."""
    made, sampled, checks, constant = bench(RECIPES[name], seed), 0, list[float](), list[float]()
    while sampled < ROLLOUTS:
        result = made.step()
        sampled += len(result.trajectories) + len(result.discarded)
        if sampled >= ROLLOUTS / CHECKS * (len(checks) + 1):
            checks.append(accuracy(made))
        groups: dict[str, set[object]] = {}
        for one in result.trajectories:
            if not GAIN.present(one):
                groups.setdefault(one.scenario.id, set()).add(one.scores["correct"].value)
        constant.append(fmean(len(each) == 1 for each in groups.values()))
    return {"accuracy": fmean(checks), "constant": fmean(constant)}


def courses(recipe: Recipe, figure: str) -> list[float]:
    """A figure of the runs of all seeds."""
    return [course(recipe.name, seed)[figure] for seed in SEEDS]


@claim(
    "Every problem of a step is hard, medium or solved, and only one of these; exactly those not solved are rewritten."
)
def every_problem_of_a_step_is_hard_medium_or_solved_and_only_one() -> Finding:
    counts, wrong = Counter[str](), 0
    for seed in range(3):
        made = bench(CLPO, seed)
        for _ in range(6):
            result = made.step()
            levels, told = dict[str, set[str]](), dict[str, list[float]]()
            for one in result.trajectories:
                if one.scenario.origin is None:
                    levels.setdefault(one.scenario.id, set()).add(DIFFICULTY.get(one))
                    told.setdefault(one.scenario.id, []).append(total(one))
            again = [one for one in result.trajectories if GAIN.present(one)]
            wrong += {one.scenario.origin for one in again} != {name for name in told if fmean(told[name]) <= 0.7}
            wrong += len(again) != len({one.scenario.id for one in again}) or set(told) != {one.id for one in PROBLEMS}
            for name, values in told.items():
                level = "hard" if fmean(values) <= 0.3 else "medium" if fmean(values) <= 0.7 else "solved"
                counts[level] += 1
                wrong += levels[name] != {level}
    rollout = Restructured(samples=8)
    ends = [rollout.difficulty(at) for at in (0.3, 0.7)] == [Difficulty.HARD, Difficulty.MEDIUM]
    ends &= CLPO.rollout == rollout
    return Finding(not wrong and len(counts) == 3 and ends, say(wrong=wrong, **counts))


@claim("The answer of every rewritten problem is the original's, by adding it up; hard ones have fewer steps left.")
def the_answer_of_every_rewritten_problem_is_the_originals_by() -> Finding:
    kept, off, longer = 0, 0, 0
    for seed in range(3):
        made = bench(CLPO, seed)
        for one in (one for _ in range(8) for one in made.step().trajectories):
            if one.source != "helped" or GAIN.present(one):
                continue
            asked = str(one.scenario.messages[-1]["content"])
            terms = [int(word) for word in re.findall(r"\d+", asked)]
            before = next(each for each in PROBLEMS if each.id == one.scenario.origin)
            kept += 1
            off += str(sum(terms)) != before.answer or one.scenario.answer != before.answer
            longer += DIFFICULTY.get(one) == "hard" and asked.count("+") >= str(before.prompt).count("+")
    return Finding(kept > 50 and not off and not longer, say(samples=kept, with_another_answer=off, not_easier=longer))


@claim(
    "What is no sum of that value, says nothing new, or says nothing is not used; of other problems all is.", "derived"
)
def what_is_no_sum_of_that_value_says_nothing_new_or_says_nothing() -> Finding:
    asked, other = Scenario("a", "What is 45 + 37?", "82"), Scenario("b", "Who wrote it?", "her")
    said = ("<think>45+30=75</think>What is 75 + 7?", "What is 75 + 8?", "What is 82?", "What is 45 + 37?", " ", "82")
    read = [InWords().read(one, asked) for one in said]
    words = [None if one is None else one.messages[-1]["content"] for one in read]
    free = InWords().read("By whom was it written?", other)
    holds = words == ["What is 75 + 7?", *[None] * 5] and free is not None and free.answer == "her"
    solved = all(
        value_of(str(RestatedSums().scenario("train", n).prompt)) == RestatedSums().scenario("train", n).answer
        for n in range(200)
    )
    return Finding(holds and solved, say(read=str(words[:2]), solver_right_on_200=solved))


@claim("A rewriting gains the share solved of what it made less that of the original; nobody solves what is no use.")
def a_rewriting_gains_the_share_solved_of_what_it_made_less_that_of() -> Finding:
    off, used, spoilt = list[float](), 0, 0
    made = bench(CLPO)
    for _ in range(8):
        solved, gains, result = dict[str, list[float]](), dict[str, float](), made.step()
        for one in result.trajectories:
            if GAIN.present(one):
                gains[str(one.scenario.origin)] = GAIN.get(one)
            else:
                solved.setdefault(one.scenario.id, []).append(total(one))
        for name, gain in gains.items():
            again = solved.get(f"{name} rewritten")
            used, spoilt = used + (again is not None), spoilt + (again is None and fmean(solved[name]) > 0)
            off.append(abs(gain - (fmean(again) if again else 0.0) + fmean(solved[name])))
        for metric, rewritten in (("rollout/constant", False), ("rollout/constant_rewritten", True)):
            alike = [
                len(set(values)) == 1 for name, values in solved.items() if name.endswith("rewritten") is rewritten
            ]
            off.append(abs(result.metrics.get(metric, 0.0) - (fmean(alike) if alike else 0.0)))
    return Finding(max(off) < 1e-12 and used > 5 and spoilt > 5, say(off=max(off), used=used, of_no_use=spoilt))


@claim("Rewritings are credited with the accuracy they gained, and nothing else of GRPO's credit changes.")
def rewritings_are_credited_with_the_accuracy_they_gained_and() -> Finding:
    off = list[float]()
    for seed in range(5):
        rng = np.random.default_rng(seed)
        rewards = rng.integers(0, 2, (4, 4)).astype(float)
        rows = [
            sample(f"{q}", float(r), [-1.0 - 0.1 * i]) for q, group in enumerate(rewards) for i, r in enumerate(group)
        ]
        gains = [float(rewards[q + 2].mean() - rewards[q].mean()) for q in range(2)]
        said = [sample(f"{q} rewriting", gain, [-0.5, -0.7], info={GAIN.name: gain}) for q, gain in enumerate(gains)]
        whole, own = inspect_rows(CLPO, [*rows, *said])["advantages"], inspect_rows(GRPO, rows)["advantages"]
        off += [gap(whole[:16], own), gap(whole[16:], [[gain] * 2 for gain in gains])]
    return below(1e-12, credit_off=max(off))


@claim("The first version's loss is GRPO's and a KL term that is half as strong where the problem is hard.")
def the_first_versions_loss_is_grpos_and_a_kl_term_that_is_half_as() -> Finding:
    off = list[float]()
    for seed in range(5):
        rng = np.random.default_rng(seed)
        rows, term = list[dict[str, object]](), 0.0
        for n in range(8):
            length, hard = int(rng.integers(1, 4)), n < 4
            logp, ref, old = (-rng.exponential(size=length) for _ in range(3))
            told = {DIFFICULTY.name: "hard" if hard else "solved"}
            logs = {"logp_ref": ref.tolist(), "logp_behaviour": old.tolist()}
            rows.append(sample(f"{n // 4}", float(rng.integers(0, 2)), logp.tolist(), info=told, **logs))
            term += (0.5 if hard else 1.0) * float(np.mean(np.exp(ref - logp) - 1 - (ref - logp))) / 8
        eased, plain = (inspect_rows(one, rows)["loss"] for one in (CLPO_FIRST, GRPO))
        off.append(abs(eased - plain - 0.001 * term))
    return below(1e-12, loss_off=max(off))


@claim("The first version learns from no rewriting, only from what was made of it.")
def the_first_version_learns_from_no_rewriting_only_from_what_was() -> Finding:
    result = bench(CLPO_FIRST).step()
    kept, left = (sum(GAIN.present(one) for one in side) for side in (result.trajectories, result.discarded))
    made = sum(one.scenario.id.endswith("rewritten") for one in result.trajectories)
    alike = CLPO_FIRST.credit == GRPO.credit and CLPO_FIRST.rollout == replace(Restructured(), trained=False)
    return Finding(kept == 0 and left == len(result.discarded) > 0 and made > 0 and alike, say(learnt=kept, left=left))


@claim("At equal episodes, those of rewriting counted, long problems are solved more often than by GRPO", slow=True)
def at_equal_episodes_those_of_rewriting_counted_long_problems_are() -> Finding:
    own, plain = (courses(one, "accuracy") for one in (CLPO, GRPO))
    ahead = sum(a > b for a, b in zip(own, plain, strict=True))
    return Finding(
        fmean(own) > fmean(plain) and ahead >= len(own) - 2, say(clpo=line(own), grpo=line(plain), ahead=ahead)
    )


@claim("and more often than where as many problems are rewritten at random, in whichever way", slow=True)
def and_more_often_than_where_as_many_problems_are_rewritten_at() -> Finding:
    own, other = (courses(one, "accuracy") for one in (CLPO, RANDOM))
    return Finding(min(own) > max(other), say(clpo=line(own), at_random=line(other)))


@claim("The share of groups that teach nothing is below GRPO's and that of rewriting at random.", slow=True)
def the_share_of_groups_that_teach_nothing_is_below_grpos_and_that() -> Finding:
    own, plain, other = (courses(one, "constant") for one in (CLPO, GRPO, RANDOM))
    return Finding(max(own) < min(*plain, *other), say(clpo=line(own), grpo=line(plain), at_random=line(other)))


@claim(
    "Without learning to rewrite, as its first version does, it gets at least as far here: that credit does not pay.",
    "derived",
    slow=True,
)
def without_learning_to_rewrite_as_its_first_version_does_it_gets() -> Finding:
    # A rewriting here says the same words as the steps of a solution, so that it is learnt by solving.
    own, first = (courses(one, "accuracy") for one in (CLPO, CLPO_FIRST))
    return Finding(fmean(first) >= fmean(own), say(second=line(own), first=line(first)))


claim.spares("clpo-first: regularisers.0.of.horizon = 5120", "a mean over each trajectory has no horizon")

LESSONS = {"recipe": "sft", "task": "lessons:restated_sums", "steps": 60}

claim.shipped(
    CLPO,
    without={"rollout": Independent(samples=8)},
    first=LESSONS,
    sees=lambda run: {"hard": run.mean("rollout/hard"), "rewritten": run.mean("rollout/rewritten")},
)
claim.shipped(CLPO, "credit", first=LESSONS)
claim.shipped(
    CLPO_FIRST,
    "regularisers",
    steps=3,
    first=LESSONS,
    sees=lambda run: {"rewritten": run.mean("rollout/rewritten")},
    small="a KL to the policy before training is 0 in the first step, and small in those after it",
)
