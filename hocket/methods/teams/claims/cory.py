"""CORY's claims."""

from __future__ import annotations

import functools
from statistics import fmean, stdev

import numpy as np

from hocket.agents.workflows.library import find as find_workflow
from hocket.agents.workflows.workflow import Workflow
from hocket.core.casting import Separate
from hocket.core.keys import Key
from hocket.lab.claims.harness import SEEDS, Claims, Finding, gap, say
from hocket.lab.microscope import RecordedBatch
from hocket.lab.talk import LookupPolicy, TalkBench
from hocket.lab.toys.talks import SingleAgent
from hocket.methods.base.ppo import PPO_RLHF
from hocket.methods.teams.cory import CORY, OBSERVER, PIONEER, PioneerObserver
from hocket.recipe import Recipe
from hocket.testing import Part, rehearse
from hocket.types import Scenario

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


def away(policy: LookupPolicy, scenario: Scenario) -> tuple[float, float]:
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
    bench = pair(PioneerObserver(), CORY, seed) if cory else pair(SingleAgent(), PPO_RLHF, seed)
    policy, points = next(iter(bench.policies.values())), []
    for _ in range(20):
        bench.run(5)
        kls, rewards = zip(*(away(policy, one) for one in CODES), strict=True)
        points.append((fmean(kls), fmean(rewards)))
    return points


@claim("without the other's answer, with own rewards and no exchange it is two PPO runs", "derived", slow=True)
def without_the_others_answer_with_own_rewards_and_no_exchange_it() -> Finding:
    both = pair(PioneerObserver(shared=False, shown=False), CORY.but(name="cory-apart", cast=Separate()), 3).run(4)
    off = []
    for role in both.workflow.roles:
        alone = pair(SingleAgent(role), PPO_RLHF.but(name="alone", cast=Separate()), 3).run(4)
        one, other = (bench.policies[role].module.state_dict() for bench in (both, alone))
        off += [gap(one[name], other[name]) for name in one]
    moved = float(both.policies["observer"].module.logits.detach().abs().max())
    return Finding(max(off) < 1e-9 and moved > 0.05, say(steps=4, off_two_separate_runs=max(off), moved=moved))


@claim("every 5 steps the two exchange their roles")
def every_5_steps_the_two_exchange_their_roles() -> Finding:
    bench, seen = pair(PioneerObserver(), CORY, 0), []
    for _ in range(11):
        played = bench.step().trajectories
        seen.append({(turn.role, turn.policy) for one in played for turn in one.turns})
    own = {(role, role) for role in bench.workflow.roles}
    other = {("pioneer", "observer"), ("observer", "pioneer")}
    holds = seen == [*[own] * 5, *[other] * 5, own]
    return Finding(holds, say(steps=len(seen), in_the_others_role=sum(one == other for one in seen)))


@claim("the observer reads the pioneer's answer, both earn the sum of the verdicts, and the first answer is the team's")
def the_observer_reads_the_pioneers_answer_both_earn_the_sum_of_the() -> Finding:
    worth, held = {"one": 0.25, "two": 0.5}, []
    for flow in (find_workflow(str(CORY.workflow)), PioneerObserver(shared=False, shown=False, intro="It said:")):
        parts = {"pioneer": Part("one"), "observer": Part("two")}
        (played,) = rehearse(flow, Scenario("s", "which?"), parts, verifier=lambda text, _: worth[text])
        scores = {name: score.value for name, score in played.scores.items()}
        first, second = (str(parts[role].asked[0][-1]["content"]) for role in flow.roles)
        apart = [PIONEER.get(played), OBSERVER.get(played)]
        held.append((scores, second.removeprefix(first), played.answer, apart))
    shipped, alone = held
    holds = shipped == ({"both": 0.75}, "\nAnother answer: one", "one", [0.25, 0.5])
    holds &= alone == ({"own": [0.25, 0.5]}, "", "one", [0.25, 0.5])
    return Finding(holds, say(shared=str(shipped[0]), apart=str(alone[0])))


@claim("advantages are GAE's over each agent's own decisions, whitened among them, counted by hand", "derived")
def advantages_are_gaes_over_each_agents_own_decisions_whitened() -> Finding:
    off = 0.0
    for seed in range(10):
        rng, rows, own = Key.of(seed).derive("each agent").numpy(), [], [list[list[float]](), list[list[float]]()]
        for _ in range(5):
            sizes, reward = rng.integers(1, 4, 2).tolist(), float(rng.random())
            logp, value = -rng.exponential(1.0, sum(sizes)), rng.normal(size=sum(sizes))
            reference = logp + 0.3 * rng.normal(size=sum(sizes))
            row = {"group": "g", "scores": {"both": reward}, "turn": [0] * sizes[0] + [1] * sizes[1]}
            row |= {"agent": ["pioneer", "observer"], "logp": logp.tolist(), "logp_ref": reference.tolist()}
            rows.append(row | {"value": value.tolist()})
            for agent, mine in enumerate((slice(0, sizes[0]), slice(sizes[0], sum(sizes)))):
                # The KL is paid for by the decision, the verdicts at each agent's last.
                paid, values = (-0.02 * (logp - reference))[mine], [*value[mine].tolist(), 0.0]
                paid[-1] += reward
                after, chain = 0.0, list[float]()
                for place in reversed(range(len(paid))):
                    after = paid[place] + values[place + 1] - values[place] + 0.95 * after
                    chain.insert(0, after)
                own[agent].append(chain)

        for agent, chains in enumerate(own):
            every = [one for chain in chains for one in chain]
            mean, spread = fmean(every), stdev(every) + 1e-8
            own[agent] = [[(one - mean) / spread for one in chain] for chain in chains]
        wanted = [first + second for first, second in zip(*own, strict=True)]
        read = RecordedBatch({"version": 1, "trajectories": rows})
        batch, _ = CORY.compute_credit(read.batch.but(policy=read.batch.agent), {}, {})
        off = max(off, gap(read.by_trajectory(batch.occurrences.advantage), wanted))
    return Finding(off < 1e-10, say(off_by_hand=off))


@claim("at equal KL the pioneer's reward is PPO's to a hundredth (the paper: above)", slow=True)
def at_equal_kl_the_pioneers_reward_is_ppos_to_a_hundredth() -> Finding:
    """The paper's frontier lies above PPO's; here, where nothing is to be gained from the other's text, on it."""
    ahead = []
    for seed in SEEDS:
        kls, rewards = zip(*([(0.0, 0.25), *path(seed, False)]), strict=True)
        ahead.append(fmean(reward - float(np.interp(kl, kls, rewards)) for kl, reward in path(seed, True)))
    mean, error = fmean(ahead), stdev(ahead) / len(ahead) ** 0.5
    figures = say(reward_minus_PPOs_at_equal_KL=mean, standard_error=error, seeds=len(ahead))
    return Finding(abs(mean) < 0.01 and error < 0.005, f"{figures}: not above, as the paper has it, nor below")


@claim("after long training the KL is lower than PPO's", slow=True)
def after_long_training_the_kl_is_lower_than_ppos() -> Finding:
    ppo, cory = ([path(seed, which)[-1] for seed in SEEDS] for which in (False, True))
    lower = [one[0] - other[0] for one, other in zip(cory, ppo, strict=True)]
    mean, error = fmean(lower), stdev(lower) / len(lower) ** 0.5
    rewards = {"of CORY": fmean(end[1] for end in cory), "of PPO": fmean(end[1] for end in ppo)}
    return Finding(mean + 2 * error < 0, say(KL_after_100_steps_minus_PPOs=mean, standard_error=error, rewards=rewards))
