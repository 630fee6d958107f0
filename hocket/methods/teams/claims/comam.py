"""CoMAM's claims."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from statistics import fmean
from typing import Any

import torch

from hocket.agents.workflows.library import find as find_workflow
from hocket.agents.workflows.team import Team
from hocket.agents.workflows.workflow import Outcome, Workflow
from hocket.core.columns import InfoColumn
from hocket.core.keys import Key
from hocket.lab.claims.harness import SEEDS, Claims, Finding, gap, inspect_rows, say
from hocket.lab.microscope import RecordedBatch
from hocket.lab.talk import TalkBench, last_message
from hocket.lab.toys.recorded_answers import document, group_relative, lines
from hocket.lab.toys.talks import played_by
from hocket.methods.teams.comam import COMAM, RankConsistent, consistency, coverage, parts_of
from hocket.recipe import Recipe
from hocket.testing import Part, rehearse
from hocket.types import Scenario

claim = Claims("comam", "arXiv:2603.12631; the statistic and the mixture are chosen here")

RIGHT = InfoColumn("right", "Whether the answer was right.")
AGENTS = ("store", "compress", "retrieve")
FACTS = ("red", "blue", "green", "gold")


def rollouts(overall: Sequence[float], local: Sequence[Sequence[float]], name: str = "reward") -> list[dict[str, Any]]:
    """One group: what the whole earned and what each agent did, rollout by rollout. The agents' scores are called
    `name`; recorded batches keep the combined reward of turns as "reward"."""
    rows: list[dict[str, Any]] = []
    for whole, own in zip(overall, local, strict=True):
        row = {"group": "x", "scores": {"reward": whole}, "logp": [-1.0] * len(own), "turn": list(range(len(own)))}
        rows.append({**row, "agent": list(AGENTS[: len(own)]), "turn_scores": [{name: value} for value in own]})
    return rows


def shares(overall: Sequence[float], local: Sequence[Sequence[float]]) -> list[float]:
    """The weight of each agent."""
    batch = RecordedBatch(document(rollouts(overall, local, "own"))).batch
    parts = parts_of(batch.but(scores={"reward": batch.scores["reward"], "reward/turn": batch.scores["own"]}))
    weights = dict(zip((agent for _, agent in parts.keys), RankConsistent().shares(parts).tolist(), strict=True))
    return [weights[batch.names["agent"].index(name)] for name in AGENTS]


@claim(
    "an agent whose local reward is a monotone function of the global one has the largest weight; independent "
    "ones have the uninformed weight in expectation"
)
def an_agent_whose_local_reward_is_a_monotone_function_of_the() -> Finding:
    worst, rng = 0.0, Key.of(0).numpy()
    for _ in range(30):
        overall = rng.random(6).round(1)
        first, *others = shares(overall.tolist(), [[float(w**3), *rng.random(2).tolist()] for w in overall])
        worst = max(worst, max(others) - first)
    # All ways in which three agents' four distinct rewards can be ranked, each as likely: that is independence.
    orders = torch.tensor(list(itertools.permutations(range(4))), dtype=torch.float64)
    ranks = torch.stack([consistency(order, torch.arange(4.0, dtype=torch.float64)) for order in orders])
    three = torch.stack(torch.meshgrid(ranks, ranks, ranks, indexing="ij"), -1).reshape(-1, 3)
    off, mean = float((torch.softmax(three, -1).mean(0) - 1 / 3).abs().max()), float(ranks.mean())
    holds = worst <= 1e-12 and abs(mean) < 1e-12 and off < 1e-12 and float(ranks.max()) == 1.0
    independent = say(mean_consistency_of_independent_agents=mean, mean_weight_off_one_third=off)
    return Finding(holds, say(a_monotone_agents_weight_below_others_at_most=worst) + f", {independent}")


@claim("weights, mixed rewards and advantages are those of the formula")
def weights_mixed_rewards_and_advantages_are_those_of_the_formula() -> Finding:
    overall = (1.0, 0.0, 1.0, 0.5)
    local = ((0.5, 0.0, 1.0), (0.0, 1.0, 0.0), (0.25, 0.0, 0.0), (0.25, 0.5, 1.0))
    better = ((0, 1), (0, 3), (2, 1), (2, 3), (3, 1))  # Pairs (a better than b overall).
    agents = list(zip(*local, strict=True))
    ranks = [sum((own[a] > own[b]) - (own[a] < own[b]) for a, b in better) / len(better) for own in agents]
    weights = torch.softmax(torch.tensor(ranks, dtype=torch.float64), 0).tolist()
    mixed = [
        group_relative([a + weight * g for a, g in zip(own, overall, strict=True)])
        for own, weight in zip(agents, weights, strict=True)
    ]
    credit = inspect_rows(COMAM, rollouts(overall, local))["advantages"]
    alone = inspect_rows(COMAM, rollouts(overall, [[row[0]] for row in local]))["advantages"]
    summed = group_relative([row[0] + whole for row, whole in zip(local, overall, strict=True)])
    off = [gap(shares(overall, local), weights), gap(list(zip(*credit, strict=True)), mixed)]
    off.append(gap([row[0] for row in alone], summed))
    return Finding(max(off) < 1e-12, lines(consistencies=ranks, weights=weights, off=max(off)))


@claim("The softmax has a temperature; equal shares are 1 / agents, and none is paid for the whole with local alone.")
def the_softmax_has_a_temperature_equal_shares_are_1_agents_and() -> Finding:
    overall, local = (1.0, 0.0, 1.0, 0.5), ((0.5, 0.0, 1.0), (0.0, 1.0, 0.0), (0.25, 0.0, 0.0), (0.25, 0.5, 1.0))
    batch = RecordedBatch(document(rollouts(overall, local, "own"))).batch
    parts = parts_of(batch.but(scores={"reward": batch.scores["reward"], "reward/turn": batch.scores["own"]}))
    ranks = [consistency(parts.local[parts.group == n], parts.overall[parts.group == n]) for n in range(3)]
    sharp = torch.softmax(torch.stack(ranks) / 0.5, 0)
    wanted = {"consistency": sharp.tolist(), "equal": [1 / 3] * 3, "local": [0.0] * 3}
    found = {weigh: RankConsistent(weigh=weigh, temperature=0.5).shares(parts) for weigh in wanted}  # type: ignore[arg-type]
    off = max(gap(found[weigh], one) for weigh, one in wanted.items())
    return Finding(off < 1e-12 and gap(sharp, [1 / 3] * 3) > 0.1, say(off=off, sharp=sharp.tolist()))


@claim("an agent's turn that does not count gets no credit; each turn's decisions have the mean of its loss", "derived")
def an_agents_turn_that_does_not_count_gets_no_credit_each_turns() -> Finding:
    """Turns of one to three decisions, one turn imposed; a text without facts is covered."""
    rows = rollouts((1.0, 0.0, 0.5), ((0.5, 0.0), (0.0, 1.0), (0.25, 0.25)))
    for place, row in enumerate(rows):
        row["turn"] = [0] * (place + 1) + [1] * 2
        row["logp"] = [-1.0] * (place + 3)
    rows[0]["trained"] = [True, False, False]
    found = inspect_rows(COMAM, rows)
    advantages, slopes = found["advantages"], found["gradient"]
    wanted = [
        [-a * counts / row["turn"].count(turn) / 5 for a, turn, counts in zip(own, row["turn"], trained, strict=True)]
        for own, row, trained in zip(advantages, rows, ([1, 0, 0], [1] * 4, [1] * 5), strict=True)
    ]
    holds = advantages[0][1:] == [0.0, 0.0] and abs(advantages[0][0]) > 0.1 and coverage("a note", "") == 1.0
    off = gap(slopes, wanted)
    return Finding(holds and off < 1e-12, say(gradient_off=off))


def memory(bonus: float) -> Workflow:
    """A fact is stored, compressed and retrieved, each agent seeing only what the one before wrote. Storing pays for
    the fact, retrieving for saying what was found; compressing pays `bonus` for being brief, which loses the fact."""

    @played_by(*AGENTS)
    async def flow(scenario: Scenario, team: Team) -> Outcome:
        stored = await team.store(f"store {scenario.prompt}")
        kept = await team.compress(f"compress {stored}")
        said = await team.retrieve(f"retrieve {kept}")
        right = float(said.text == scenario.prompt)
        own = [float(stored.text == scenario.prompt), bonus * (kept.text == "brief"), float(said.text == kept.text)]
        return Outcome(rewards={"answer": right}, turn_rewards={"own": own}, info={RIGHT.name: right})

    return flow


def remembering(bonus: float, steps: int, seeds: Sequence[int], recipes: dict[str, Recipe]) -> dict[str, list[float]]:
    """How often the answer is right after training."""
    scenarios, words = [Scenario(fact, fact) for fact in FACTS], (*FACTS, "brief")

    def right(recipe: Recipe, seed: int) -> float:
        looks: dict[str, Any] = {"view": last_message, "measure": lambda one: float(RIGHT.get(one))}
        bench = TalkBench(memory(bonus), scenarios, words, recipe, lr=0.1, seed=seed, **looks)
        return bench.run(steps).success(40)

    return {name: [right(recipe, seed) for seed in seeds] for name, recipe in recipes.items()}


LOCAL = COMAM.but({"credit.weigh": "local"})
GLOBAL = COMAM.but({"credit.weigh": "equal", "credit.local": 0.0})
EQUAL = COMAM.but({"credit.weigh": "equal"})


@claim(
    "store, compress, retrieve with a misleading second stage: the mix beats local rewards alone and one "
    "global reward for all; misled more strongly, the second stage is inconsistent and so paid least for the "
    "whole: there equal shares win",
    slow=True,
)
def store_compress_retrieve_with_a_misleading_second_stage_the_mix() -> Finding:
    mild = remembering(0.05, 54, SEEDS, {"mix": COMAM, "local": LOCAL, "global": GLOBAL})
    strong = remembering(0.2, 72, (0, 1, 2), {"mix": COMAM, "local plus equal shares": EQUAL})
    mix, *others = mild.values()
    ahead = all(first > max(rest) for first, *rest in zip(*mild.values(), strict=True))
    holds = ahead and fmean(mix) - max(map(fmean, others)) > 0.15
    holds &= max(strong["mix"]) < 0.1 and min(strong["local plus equal shares"]) > 0.25
    return Finding(holds, f"right, bonus 0.05, 54 steps: {lines(**mild)}; bonus 0.2, 72 steps: {lines(**strong)}")


@claim(
    "each agent of the shipped team is paid for the facts it kept, or for an answer in its tags, and all for the end"
)
def each_agent_of_the_shipped_team_is_paid_for_the_facts_it_kept_or() -> Finding:
    flow, question = find_workflow(str(COMAM.workflow)), Scenario("s", "What is 12 + 5 - 30?", "-13")
    right, wrong = "<answer>-13</answer>", "13"
    talks = {("1. 12 + 5", "17, 30", right): ([2 / 3, 1 / 3, 1.0], 1.0), ("none", "12 5 30", wrong): ([0, 1, 0], 0.0)}
    gaps, heard = [], []
    for said, (own, whole) in talks.items():
        parts = {role: Part(text) for role, text in zip(flow.roles, said, strict=True)}
        (played,) = rehearse(flow, question, parts, verifier=lambda text, _: float(text == right))
        gaps += [gap(played.scores["own"].value, own), gap(played.scores["team"].value, whole)]
        heard += [parts["build"].questions == [said[0]], parts["retrieve"].questions[0].endswith(f"Memory: {said[1]}")]
    worded = coverage("the red lamp", "Where is the lamp kept?")
    holds = max(gaps) < 1e-12 and all(heard) and abs(worded - 1 / 3) < 1e-12
    return Finding(holds, say(rewards_off=max(gaps), each_read_the_last=all(heard), of_words=worded))


claim.shipped(COMAM, "credit", trains=("build", "extract", "retrieve"))
