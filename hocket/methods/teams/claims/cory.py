"""CORY's claims."""

from __future__ import annotations

import functools
from statistics import fmean, stdev

import numpy as np

from hocket.core.casting import Separate
from hocket.core.keys import Key
from hocket.lab.claims.harness import SEEDS, Claims, Finding, gap, say
from hocket.lab.talk import Lookup, TalkBench
from hocket.lab.toys.talks import Alone
from hocket.methods.base.ppo import PPO_RLHF
from hocket.methods.teams.cory import CORY, PioneerObserver
from hocket.recipe import Recipe
from hocket.types import Scenario
from hocket.workflows.workflow import Workflow

claim = Claims("cory", "section 5")

LETTERS, _RNG = ("a", "b", "c", "d"), Key.of(7).numpy()
CODES = [Scenario(f"q{n}", f"q{n}", answer=" ".join(LETTERS[i] for i in _RNG.integers(0, 4, 2))) for n in range(3)]
"""Questions whose answer is a pair of letters."""


def in_place(text: str, scenario: Scenario) -> float:
    """The share of letters that are right."""
    return sum(said == want for said, want in zip(text.split(), str(scenario.answer).split(), strict=False)) / 2


def pair(workflow: Workflow, recipe: Recipe, seed: int) -> TalkBench:
    cheaper = recipe.but({"update.epochs": 2, "update.minibatches": 1})
    return TalkBench(workflow, CODES, LETTERS, cheaper, length=2, seed=seed, lr=0.05, verifier=in_place)


def away(policy: Lookup, scenario: Scenario) -> tuple[float, float]:
    """The exact KL from the uniform start, in nats, and the exact reward of a policy's answers to a question."""
    first = policy.probabilities(str(scenario.prompt))
    kl, reward = float((first * (4 * first).log()).sum()), 0.0
    for place, letter in enumerate(LETTERS):
        second = policy.probabilities(str(scenario.prompt), said=(letter,))
        kl += float(first[place] * (second * (4 * second).log()).sum())
        for last, other in enumerate(LETTERS):
            reward += float(first[place] * second[last]) * in_place(f"{letter} {other}", scenario)
    return kl, reward


@functools.cache
def path(seed: int, cory: bool) -> list[tuple[float, float]]:
    """KL and reward of who answers as pioneer, after every 5 of 100 steps."""
    bench = pair(PioneerObserver(), CORY, seed) if cory else pair(Alone(), PPO_RLHF, seed)
    policy, points = next(iter(bench.policies.values())), []
    for _ in range(20):
        bench.run(5)
        kls, rewards = zip(*(away(policy, one) for one in CODES), strict=True)
        points.append((fmean(kls), fmean(rewards)))
    return points


@claim("without the other's answer, with own rewards and no exchange it is two PPO runs", "derived", slow=True)
def _() -> Finding:
    both = pair(PioneerObserver(shared=False, shown=False), CORY.but(name="cory-apart", cast=Separate()), 3).run(4)
    off = []
    for role in both.workflow.roles:
        alone = pair(Alone(role), PPO_RLHF.but(name="alone", cast=Separate()), 3).run(4)
        one, other = (bench.policies[role].module.state_dict() for bench in (both, alone))
        off += [gap(one[name], other[name]) for name in one]
    moved = float(both.policies["observer"].module.logits.detach().abs().max())
    return Finding(max(off) < 1e-9 and moved > 0.05, say(steps=4, off_two_separate_runs=max(off), moved=moved))


@claim("every 5 steps the two exchange their roles")
def _() -> Finding:
    bench, seen = pair(PioneerObserver(), CORY, 0), []
    for _ in range(11):
        played = bench.step().trajectories
        seen.append({(turn.role, turn.policy) for one in played for turn in one.turns})
    own = {(role, role) for role in bench.workflow.roles}
    other = {("pioneer", "observer"), ("observer", "pioneer")}
    holds = seen == [*[own] * 5, *[other] * 5, own]
    return Finding(holds, say(steps=len(seen), in_the_others_role=sum(one == other for one in seen)))


@claim("at equal KL the pioneer's reward is PPO's to a hundredth (the paper: above)", slow=True)
def _() -> Finding:
    """The paper's frontier lies above PPO's; here, where nothing is to be gained from the other's text, on it."""
    ahead = []
    for seed in SEEDS:
        kls, rewards = zip(*([(0.0, 0.25), *path(seed, False)]), strict=True)
        ahead.append(fmean(reward - float(np.interp(kl, kls, rewards)) for kl, reward in path(seed, True)))
    mean, error = fmean(ahead), stdev(ahead) / len(ahead) ** 0.5
    figures = say(reward_minus_PPOs_at_equal_KL=mean, standard_error=error, seeds=len(ahead))
    return Finding(abs(mean) < 0.01 and error < 0.005, f"{figures}: not above, as the paper has it, nor below")


@claim("after long training the KL is lower than PPO's", slow=True)
def _() -> Finding:
    ppo, cory = ([path(seed, which)[-1] for seed in SEEDS] for which in (False, True))
    lower = [one[0] - other[0] for one, other in zip(cory, ppo, strict=True)]
    mean, error = fmean(lower), stdev(lower) / len(lower) ** 0.5
    rewards = {"of CORY": fmean(end[1] for end in cory), "of PPO": fmean(end[1] for end in ppo)}
    return Finding(mean + 2 * error < 0, say(KL_after_100_steps_minus_PPOs=mean, standard_error=error, rewards=rewards))
