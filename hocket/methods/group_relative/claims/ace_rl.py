"""ACE-RL's claims."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, ClassVar

from hocket.core.keys import Key
from hocket.lab.claims.harness import Claims, Finding, say
from hocket.lab.toys.training import on, trained
from hocket.lab.world import Answer, Graded, World
from hocket.methods.group_relative import ace_rl as method
from hocket.methods.group_relative.ace_rl import ACE_RL, Constraint, Mentions, satisfied
from hocket.rewards.judge import NoisyJudge
from hocket.stages import Reward
from hocket.types import Trajectory

claim = Claims("ace-rl", "")
LINES = ("alpha", "beta", "gamma:", "omega", "lorem", "ipsum")
"""What a line may say; a text has four."""
ORDERED = method.InOrder("alpha", "beta")
POOL: tuple[Constraint, ...] = (Mentions("lorem"), ORDERED, method.HasSection("gamma"), method.EndsWith("omega"))
CONCERNS = ((0,), (1,), (1, 2), (3,))
"""By line, the constraints that are looked at when it is written: so what is learnt carries over to other sets."""
SETS = [chosen for size in range(1, 5) for chosen in itertools.combinations(range(len(POOL)), size)]
TRAINED = len(SETS[::2])
ORDER = [*SETS[::2], *SETS[1::2]]
"""The sets trained on, then the unseen ones."""


def asked_of(question: int) -> tuple[Constraint, ...]:
    return tuple(POOL[number] for number in ORDER[question])


def text(question: int, answer: Answer) -> str:
    return "\n".join(LINES[token] for token in answer)


def satisfied_share(question: int, answer: Answer) -> float:
    return fmean(satisfied(text(question, answer), asked_of(question)))


def reads(question: int, prefix: Answer) -> Hashable:
    """What the policy sees: which of the constraints that concern this line are asked, and what was written."""
    return len(prefix), tuple(number in ORDER[question] for number in CONCERNS[len(prefix)]), 0 in prefix


@dataclass(frozen=True)
class NoisyChecklist(Reward):
    """The satisfied share by a judge that reverses each verdict with probability 0.2."""

    name: str = "checklist"
    weight: float = 1.0
    outside: ClassVar[bool] = False

    async def __call__(self, trajectories: Sequence[Trajectory], *, key: Key) -> list[float | None]:
        shares: list[float | None] = []
        for one in trajectories:
            verdicts = satisfied(one.text, one.scenario.metadata["constraints"])
            flips = key.derive(one.scenario.id, one.sample).numpy().random(len(verdicts)) < 0.2
            shares.append(sum(met != bool(flip) for met, flip in zip(verdicts, flips, strict=True)) / len(verdicts))
        return shares


@claim(
    "trained on a checklist a policy meets more constraints than on one score of equal noise, also in unseen sets",
    "arXiv:2509.04903",
    slow=True,
)
def trained_on_a_checklist_a_policy_meets_more_constraints_than_on() -> Finding:
    shape = {"text": text, "context": reads, "metadata": lambda question: {"constraints": asked_of(question)}}
    world = World(TRAINED, len(LINES), 4, satisfied_share, **shape)  # type: ignore[arg-type]
    whole = NoisyJudge(Graded("truth", lambda q, a: float(satisfied_share(q, a) == 1.0)), 0.2, 0.2)
    known, unseen, new = dict[str, list[float]](), dict[str, list[float]](), range(TRAINED, len(ORDER))
    for name, reward in (("checklist", NoisyChecklist()), ("one score", whole)):
        benches = trained(world, ACE_RL.but(rewards=(reward,)), 60)
        known[name] = [bench.success() for bench in benches]
        unseen[name] = [fmean(on(question, bench, satisfied_share) for question in new) for bench in benches]
    ahead = fmean(known["checklist"]) - fmean(known["one score"])
    holds = min(unseen["checklist"]) > max(unseen["one score"]) + 0.05 and ahead > 0.05
    return Finding(holds, say(trained_sets=TRAINED, unseen=len(new), share_on_trained=known, on_unseen=unseen))


@claim("the reward is the satisfied share and never falls with a constraint more")
def the_reward_is_the_satisfied_share_and_never_falls_with_a() -> Finding:
    pool: tuple[Constraint, ...] = (*POOL, method.WordRange(3, 5), Mentions("beta"))
    rng, right, rising, tried = Key.of(0).derive("instructions").numpy(), 0, 0, 0
    reward: Any = ACE_RL.rewards[0]
    for _ in range(200):
        chosen = tuple(pool[int(n)] for n in rng.permutation(len(pool))[: int(rng.integers(1, len(pool) + 1))])
        read = method.decompose(method.instruction(chosen))
        words = "\n".join(LINES[int(n)] for n in rng.integers(0, len(LINES), int(rng.integers(1, 7))))
        share, met = reward.share(words, {"constraints": read}), [one(words) for one in chosen]
        right += read == chosen and share == sum(met) / len(met)
        if met[-1] and len(met) > 1:
            tried += 1
            rising += share >= reward.share(words, {"constraints": read[:-1]})
    return Finding(right == 200 and rising == tried > 20, say(equal_the_share_of_200=right, rise=rising, of=tried))


claim.shipped(ACE_RL, "rewards", settings={"judge": "nano"})
