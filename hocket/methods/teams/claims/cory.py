"""What cory claims."""

from __future__ import annotations

import functools
import statistics

import numpy as np

from hocket.core.casting import Separate
from hocket.core.keys import Key
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.talk import Lookup, TalkBench
from hocket.lab.toys.answering_teams import SEEDS, Alone
from hocket.methods.base.ppo import PPO_RLHF
from hocket.methods.teams.cory import CORY, PioneerObserver
from hocket.recipe import Recipe
from hocket.types import Scenario
from hocket.workflows.workflow import Workflow

claim = Claims("cory", "section 5")


LETTERS = ("a", "b", "c", "d")


def _codes() -> list[Scenario]:
    """Questions whose answer is a pair of letters."""
    rng = Key.of(7).numpy()
    return [Scenario(f"q{n}", f"q{n}", answer=" ".join(LETTERS[i] for i in rng.integers(0, 4, 2))) for n in range(3)]


CODES = _codes()


def in_place(text: str, scenario: Scenario) -> float:
    """The share of letters that are right."""
    return sum(said == want for said, want in zip(text.split(), str(scenario.answer).split(), strict=False)) / 2


def _pair(workflow: Workflow, recipe: Recipe, seed: int) -> TalkBench:
    cheaper = recipe.but({"update.epochs": 2, "update.minibatches": 1})
    return TalkBench(workflow, CODES, LETTERS, cheaper, length=2, seed=seed, lr=0.05, verifier=in_place)


def _away(policy: Lookup, scenario: Scenario) -> tuple[float, float]:
    """The exact KL from the uniform start, in nats, and the exact reward of a policy's answers to a question."""
    first = policy.probabilities(str(scenario.prompt))
    kl, reward = float((first * (4 * first).log()).sum()), 0.0
    for place, letter in enumerate(LETTERS):
        second = policy.probabilities(str(scenario.prompt), said=(letter,))
        kl += float(first[place] * (second * (4 * second).log()).sum())
        for last, other in enumerate(LETTERS):
            reward += float(first[place] * second[last]) * in_place(f"{letter} {other}", scenario)
    return kl, reward


def _path(workflow: Workflow, recipe: Recipe, seed: int, steps: int) -> list[tuple[float, float]]:
    """KL and reward of who answers as pioneer, after every 5 steps."""
    bench, found = _pair(workflow, recipe, seed), []
    policy = next(iter(bench.policies.values()))
    for _ in range(steps // 5):
        bench.run(5)
        found.append(tuple(statistics.fmean(pair) for pair in zip(*(_away(policy, one) for one in CODES), strict=True)))
    return [(kl, reward) for kl, reward in found]


@claim("without the other's answer, with own rewards and no exchange it is two PPO runs", "derived", slow=True)
def cory_apart_is_two_ppos() -> Finding:
    apart = CORY.but(name="cory-apart", cast=Separate())
    both = _pair(PioneerObserver(shared=False, shown=False), apart, 3).run(4)
    gaps = []
    for role in both.workflow.roles:
        alone = _pair(Alone(role), PPO_RLHF.but(name="alone", cast=Separate()), 3).run(4)
        weights = [bench.policies[role].module.state_dict() for bench in (both, alone)]
        gaps += [float((weights[0][name] - weights[1][name]).abs().max()) for name in weights[0]]
    moved = float(both.policies["observer"].module.logits.detach().abs().max())
    return Finding(
        max(gaps) < 1e-9 and moved > 0.05,
        f"after 4 steps weights and values of both differ from two separate runs by at most {max(gaps):.1e}, having "
        f"moved by {moved:.2f}",
    )


@functools.cache
def _paths(seed: int) -> tuple[list[tuple[float, float]], list[tuple[float, float]]]:
    return _path(Alone(), PPO_RLHF, seed, 100), _path(PioneerObserver(), CORY, seed, 100)


@claim("at equal KL the pioneer's reward is PPO's to a hundredth (the paper: above)", slow=True)
def cory_reward_at_equal_kl() -> Finding:
    """The paper's frontier lies above PPO's; here, where nothing is to be gained from the other's text, on it."""
    gaps = []
    for seed in SEEDS:
        ppo, cory = _paths(seed)
        kls, rewards = zip(*([(0.0, 0.25), *ppo]), strict=True)
        gaps.append(statistics.fmean(reward - float(np.interp(kl, kls, rewards)) for kl, reward in cory))
    mean, error = statistics.fmean(gaps), statistics.stdev(gaps) / len(gaps) ** 0.5
    return Finding(
        abs(mean) < 0.01 and error < 0.005,
        f"pioneer's reward minus PPO's at the same KL, mean along the path: {mean:+.4f} (standard error {error:.4f}) "
        f"over {len(gaps)} seeds: not above, as the paper has it, and not a hundredth below",
    )


@claim("after long training the KL is lower than PPO's", slow=True)
def cory_ends_nearer() -> Finding:
    ends = [(_paths(seed)[0][-1], _paths(seed)[1][-1]) for seed in SEEDS]
    gaps = [cory[0] - ppo[0] for ppo, cory in ends]
    mean, error = statistics.fmean(gaps), statistics.stdev(gaps) / len(gaps) ** 0.5
    rewards = [statistics.fmean(end[which][1] for end in ends) for which in (0, 1)]
    return Finding(
        mean + 2 * error < 0,
        f"KL after 100 steps: CORY's minus PPO's {mean:+.3f} nats (standard error {error:.3f}), rewards "
        f"{rewards[1]:.3f} against {rewards[0]:.3f}",
    )
