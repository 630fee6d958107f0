"""ACE-RL's claims."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, ClassVar

import numpy as np

from hocket.core.keys import Key
from hocket.lab.claims.harness import Claims, Finding, say
from hocket.lab.toys.training import on, trained
from hocket.lab.world import Answer, GradedReward, World
from hocket.methods.group_relative.ace_rl import method
from hocket.methods.group_relative.ace_rl.method import ACE_RL, Constraint, Mentions, satisfied
from hocket.rewards.judge import NoisyJudge
from hocket.rewards.judging import Answer as Told
from hocket.rewards.judging import Judge, Question
from hocket.stages import Reward
from hocket.types import Scenario, Trajectory, Turn

claim = Claims("ace-rl", "")
LINES = ("alpha", "beta", "gamma:", "omega", "lorem", "ipsum")
"""What a line may say; a text has four."""
ORDERED = method.WordOrder("alpha", "beta")
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
    whole = NoisyJudge(GradedReward("truth", lambda q, a: float(satisfied_share(q, a) == 1.0)), 0.2, 0.2)
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


@claim("Demands are worded one after the other; order is kept to, the last word has no punctuation, nothing ends none.")
def demands_are_worded_one_after_the_other_order_is_kept_to_the() -> Finding:
    ends = method.EndsWith("Omega")
    worded = method.instruction((ORDERED, ends, method.WordRange(1, 5)))
    wanted = "Write a text: mention 'alpha' before 'beta'; end with 'Omega'; use 1 to 5 words."
    order = [ORDERED(text) for text in ("alpha, then beta.", "Beta, then alpha", "alpha alone", "beta")]
    last = [ends(text) for text in ("so omega.", "omega so", "", "OMEGA!")]
    holds = order == [True, False, False, False] and last == [True, False, False, True]
    return Finding(holds and worded == wanted, say(worded=worded, in_order=str(order), ends=str(last)))


@claim(
    "A judge lists the demands where there are none, and says of each if it is met; what it does not say is left out."
)
def a_judge_lists_the_demands_where_there_are_none_and_says_of_each() -> Finding:
    class Says(Judge):
        """Lists two demands; a text meets what it says, and of what it asks about there is no verdict."""

        def ask(self, questions: Sequence[Question]) -> list[Told]:
            return [Told(self.of(question.prompt)) for question in questions]

        def of(self, prompt: str) -> str | None:
            if prompt.startswith(method.LIST):
                return None if "silence" in prompt else "1. say maple\n\n- say quartz"
            said, demand = prompt.split("\n\n")[1:3]
            word = demand.partition("?")[0].split()[-1].strip("'")
            return None if f"{word}?" in said else "yes" if word in said else "no"

    asked: dict[str, dict[str, Any]] = {
        "listed": {},
        "given": {"constraints": ("say maple", Mentions("quartz"), "say opal")},
    }
    texts = ("maple", "quartz and maple", "opal", "maple? opal")
    reward: Any = ACE_RL.but({"rewards.0.judge": Says("says")}).rewards[0]

    def seen(prompt: str, **metadata: Any) -> list[float | None]:
        turns = [Turn("policy", "policy", np.zeros(0, int), np.ones(1, int), text=text) for text in texts]
        given = [Trajectory(Scenario(prompt, prompt, metadata=metadata), [turn]) for turn in turns]
        return asyncio.run(reward(given, key=Key.of(0)))

    found = {name: seen(name, **metadata) for name, metadata in asked.items()} | {"none": seen("silence")}
    by_hand = {"listed": [0.5, 1.0, 0.0, 0.0], "given": [1 / 3, 2 / 3, 1 / 3, 0.5], "none": [None] * 4}
    return Finding(found == by_hand and reward.weight == 1.0, say(**{name: str(row) for name, row in found.items()}))


claim.shipped(ACE_RL, "rewards")
