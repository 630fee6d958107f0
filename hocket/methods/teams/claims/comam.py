"""What comam claims."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from statistics import fmean
from typing import Any

import torch

from hocket.core.columns import InfoColumn
from hocket.core.keys import Key
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.microscope import Reading, look
from hocket.lab.talk import TalkBench, last_message
from hocket.lab.toys.rewarded import SEEDS, apart, document, group_relative, line
from hocket.methods.teams.comam import COMAM, RankConsistent, consistency, parts_of
from hocket.recipe import Recipe
from hocket.types import Scenario, Trajectory
from hocket.workflows.team import Team
from hocket.workflows.workflow import Outcome, Workflow

claim = Claims("comam", "arXiv:2603.12631; the statistic and the mixture are chosen here")


RIGHT = InfoColumn("right", "Whether the answer was right.")


AGENTS = ("store", "compress", "retrieve")


def rollouts(overall: Sequence[float], local: Sequence[Sequence[float]]) -> list[dict[str, Any]]:
    """One group: what the whole earned and what each agent did, rollout by rollout."""
    return [
        {
            "group": "x",
            "scores": {"reward": whole},
            "logp": [-1.0] * len(own),
            "turn": list(range(len(own))),
            "agent": list(AGENTS[: len(own)]),
            "turn_scores": [{"own": value} for value in own],
        }
        for whole, own in zip(overall, local, strict=True)
    ]


def shares(rows: Sequence[dict[str, Any]], credit: RankConsistent) -> list[float]:
    """The weight of each agent."""
    batch = Reading(document(rows)).batch
    scores = {"reward": batch.scores["reward"], "reward/turn": batch.scores["own"]}
    parts = parts_of(batch.but(scores=scores))
    order = [batch.names["agent"].index(name) for name in AGENTS]
    place = {agent: number for number, (_, agent) in enumerate(parts.keys)}
    found = credit.shares(parts).tolist()
    return [found[place[agent]] for agent in order]


@claim(
    "an agent whose local reward is a monotone function of the global one has the largest weight; independent "
    "ones have the uninformed weight in expectation",
)
def weights_follow_ranks() -> Finding:
    """An increasing function of the global reward has the largest weight; independent ones equal ones on average."""
    worst, rng = 0.0, Key.of(0).numpy()
    for _ in range(30):
        overall = rng.random(6).round(1)
        rows = rollouts(overall.tolist(), [[float(w**3), *rng.random(2).tolist()] for w in overall])
        first, *others = shares(rows, RankConsistent())
        worst = max(worst, max(others) - first)
    # All ways in which three agents' four distinct rewards can be ranked, each as likely: that is independence.
    rising = torch.arange(4.0, dtype=torch.float64)
    orders = [torch.tensor(order, dtype=torch.float64) for order in itertools.permutations(range(4))]
    ranks = torch.stack([consistency(order, rising) for order in orders])
    three = torch.stack(torch.meshgrid(ranks, ranks, ranks, indexing="ij"), -1).reshape(-1, 3)
    mean = torch.softmax(three, -1).mean(0)
    off = float((mean - 1 / 3).abs().max())
    holds = worst <= 1e-12 and abs(float(ranks.mean())) < 1e-12 and off < 1e-12 and float(ranks.max()) == 1.0
    return Finding(
        holds,
        f"a monotone agent's weight is never below the others' (by at most {worst:.1e}); independent agents: mean "
        f"consistency {float(ranks.mean()):.1e}, mean weight within {off:.1e} of 1/3",
    )


@claim("weights, mixed rewards and advantages are those of the formula")
def advantages_by_hand() -> Finding:
    """Weights, mixed rewards and advantages of a group, counted anew; one agent alone has the whole of g."""
    overall = (1.0, 0.0, 1.0, 0.5)
    local = ((0.5, 0.0, 1.0), (0.0, 1.0, 0.0), (0.25, 0.0, 0.0), (0.25, 0.5, 1.0))
    # Pairs (a better than b overall): 0>1, 0>3, 2>1, 2>3, 3>1.
    better = ((0, 1), (0, 3), (2, 1), (2, 3), (3, 1))
    ranks = [
        sum((own[a] > own[b]) - (own[a] < own[b]) for a, b in better) / len(better) for own in zip(*local, strict=True)
    ]
    weights = torch.softmax(torch.tensor(ranks, dtype=torch.float64), 0).tolist()
    worst = apart(shares(rollouts(overall, local), RankConsistent()), weights)
    found = look(COMAM, _settled(rollouts(overall, local)))["advantages"]
    for agent, weight in enumerate(weights):
        rewards = [own[agent] + weight * whole for own, whole in zip(local, overall, strict=True)]
        worst = max(worst, apart([row[agent] for row in found], group_relative(rewards)))
    alone = [[row[0]] for row in local]
    single = look(COMAM, _settled(rollouts(overall, alone)))["advantages"]
    summed = [own[0] + whole for own, whole in zip(local, overall, strict=True)]
    worst = max(worst, apart([row[0] for row in single], group_relative(summed)))
    return Finding(worst < 1e-12, f"consistencies {line(ranks)}, weights {line(weights)}; numbers within {worst:.1e}")


def _settled(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The rollouts with their turns' scores under the name that recorded batches keep the combined reward."""
    return document([{**row, "turn_scores": [{"reward": one["own"]} for one in row["turn_scores"]]} for row in rows])


FACTS = ("red", "blue", "green", "gold")


class Memory(Workflow):
    """A fact is stored, compressed and retrieved, each agent seeing only what the one before wrote.

    Storing pays for the fact, retrieving for saying what was found; compressing pays `bonus` for being brief, which
    loses the fact.
    """

    roles = AGENTS

    def __init__(self, bonus: float) -> None:
        self.bonus = bonus

    async def play(self, scenario: Scenario, team: Team) -> Outcome:
        stored = await team.store(f"store {scenario.prompt}")
        kept = await team.compress(f"compress {stored}")
        said = await team.retrieve(f"retrieve {kept}")
        right = float(said.text == scenario.prompt)
        own = [
            float(stored.text == scenario.prompt),
            self.bonus * float(kept.text == "brief"),
            float(said.text == kept.text),
        ]
        return Outcome(rewards={"answer": right}, turn_rewards={"own": own}, info={RIGHT.name: right})


def answered(trajectory: Trajectory) -> float:
    return float(RIGHT.get(trajectory))


def remembering(recipe: Recipe, bonus: float, seed: int, steps: int) -> float:
    """How often the answer is right after training."""
    scenarios = [Scenario(fact, fact) for fact in FACTS]
    bench = TalkBench(
        Memory(bonus), scenarios, (*FACTS, "brief"), recipe, view=last_message, measure=answered, lr=0.1, seed=seed
    )
    return bench.run(steps).success(40)


LOCAL = COMAM.but({"credit.weigh": "local"})
GLOBAL = COMAM.but({"credit.weigh": "equal", "credit.local": 0.0})
EQUAL = COMAM.but({"credit.weigh": "equal"})


@claim(
    "store, compress, retrieve with a misleading second stage: the mix beats local rewards alone and one "
    "global reward for all; misled more strongly, the second stage is inconsistent and so paid least for the "
    "whole: there equal shares win",
    slow=True,
)
def mix_beats_either_alone() -> Finding:
    """A little misled, the mix beats local rewards alone and one global reward for all; misled more, it does not."""
    mild = {
        name: [remembering(recipe, 0.05, seed, 54) for seed in SEEDS]
        for name, recipe in (("mix", COMAM), ("local", LOCAL), ("global", GLOBAL))
    }
    strong = {
        name: [remembering(recipe, 0.2, seed, 72) for seed in (0, 1, 2)]
        for name, recipe in (("mix", COMAM), ("equal", EQUAL))
    }
    ahead = fmean(mild["mix"]) - max(fmean(mild["local"]), fmean(mild["global"]))
    holds = ahead > 0.15 and all(m > max(a, b) for m, a, b in zip(*mild.values(), strict=True))
    holds = holds and max(strong["mix"]) < 0.1 and min(strong["equal"]) > 0.25
    return Finding(
        holds,
        f"right answers, bonus 0.05, 54 steps: mix {line(mild['mix'])}, local {line(mild['local'])}, one global reward "
        f"{line(mild['global'])}; bonus 0.2, 72 steps: mix {line(strong['mix'])}, local plus equal shares "
        f"{line(strong['equal'])}",
    )
