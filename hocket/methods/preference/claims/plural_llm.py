"""Claims of preferences learnt by federated averaging."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean, stdev
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from hocket import tasks
from hocket.core.batch import Batch
from hocket.core.compression import Blocks
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.distributed.swarm.averaging import Averaging, flat
from hocket.distributed.swarm.command import SwarmRun, SwarmSettings
from hocket.distributed.swarm.node import NodeTrainer
from hocket.lab.claims.harness import EXACT, Claims, Finding, below, gap, say
from hocket.lab.claims.lesson_data import Pupil, begin
from hocket.methods.preference.plural_llm.method import PLURAL_LLM, PredictedShares, alignment, fairness
from hocket.objectives.listwise import SoftmaxRanking
from hocket.objectives.scores import RegressedScore
from hocket.recipe import Recipe
from hocket.rollout.demonstrations import Ranked
from hocket.train.aio import run_async
from hocket.train.unseen_scenarios import recorded_metrics
from hocket.types import Evaluation, Scenario, Score, Trajectory, Turn

claim = Claims("plural-llm", "recalled")


def polls(shares: Sequence[Sequence[float]], length: int = 2) -> Batch:
    """Questions with so many answers of `length` decisions, and their shares."""
    played = []
    for number, told in enumerate(shares):
        for place, share in enumerate(told):
            turn = Turn("a", "policy", np.array([1]), np.zeros(length, np.int64))
            played.append(Trajectory(Scenario(str(number)), [turn], place, scores={"preference": Score(share)}))
    recipe: Recipe = PLURAL_LLM
    return recipe.compute_credit(pack(played), recipe.init(), {})[0]


def loss_of(batch: Batch, score: Tensor) -> Tensor:
    return PredictedShares()(
        Evaluation(torch.zeros(len(score), dtype=score.dtype), score=score[:, None]), batch
    ).total()


@claim("The loss is the mean cross-entropy of shares, its slope (softmax - share) / questions at an answer's end.")
def the_loss_is_the_mean_cross_entropy_of_shares_its_slope() -> Finding:
    draw = Key.of(0).derive("polls").numpy()
    told = [draw.random(n).tolist() for n in (3, 2, 5)] + [[1.0], [0.0, 0.0]]
    batch = polls(told)
    score = torch.from_numpy(draw.normal(size=len(batch.occurrences))).requires_grad_()
    loss = loss_of(batch, score)
    (slope,) = torch.autograd.grad(loss, score)
    wanted, by_hand, start = 0.0, np.zeros(len(score)), 0
    ends = score.detach().numpy()[1::2]
    for shares in told:
        own = ends[start : start + len(shares)]
        if len(shares) > 1 and sum(shares):
            share, guess = np.array(shares) / sum(shares), np.exp(own) / np.exp(own).sum()
            wanted -= float((share * np.log(guess)).sum()) / 3
            by_hand[2 * start + 1 : 2 * (start + len(shares)) : 2] = (guess - share) / 3
        start += len(shares)
    return below(EXACT, loss=abs(float(loss.detach()) - wanted), slope=gap(slope, torch.from_numpy(by_hand)))


@claim("One step on all its data at every group, weighted by their sizes, is the step on all data together.")
def one_step_on_all_its_data_at_every_group_weighted_by_their_sizes() -> Finding:
    """A linear scorer in float64, groups of 2, 5 and 9 questions, 20 rounds."""
    draw = Key.of(1).derive("federated").numpy()
    sizes = (2, 5, 9)
    told = [[draw.random(3).tolist() for _ in range(size)] for size in sizes]
    features = [torch.from_numpy(draw.normal(size=(3 * size, 4))) for size in sizes]

    def scorer() -> Any:
        module = nn.Linear(4, 1, bias=False, dtype=torch.float64, device="meta").to_empty(device="cpu")
        with torch.no_grad():
            module.weight.copy_(torch.tensor([[0.3, -0.2, 0.5, 0.0]], dtype=torch.float64))
        return SimpleNamespace(name="policy", module=module, version=0)

    def step(policy: Any, batch: Batch, inputs: Tensor) -> None:
        score = torch.zeros(2 * len(inputs), dtype=torch.float64)
        score = score.index_add(0, torch.arange(len(inputs)) * 2 + 1, policy.module(inputs)[:, 0])
        (slope,) = torch.autograd.grad(loss_of(batch, score), policy.module.weight)
        with torch.no_grad():
            policy.module.weight -= 0.5 * slope

    nodes = {f"group-{n}": {"policy": scorer()} for n in range(3)}
    averaging, alone = Averaging(nodes, blocks=Blocks(None)), scorer()
    batches, whole = [polls(one) for one in told], polls([shares for one in told for shares in one])
    begun, apart = alone.module.weight.clone(), 0.0
    for _ in range(20):
        for node, batch, inputs in zip(nodes.values(), batches, features, strict=True):
            step(node["policy"], batch, inputs)
        ways = [node["policy"].module.weight.detach() for node in nodes.values()]
        apart = max(apart, gap(ways[0], ways[2]))
        averaging.exchange(dict(zip(nodes, sizes, strict=True)))
        step(alone, whole, torch.cat(features))
    far = gap(nodes["group-0"]["policy"].module.weight, alone.module.weight)
    moved = gap(begun, alone.module.weight)
    return Finding(far <= EXACT and apart > 1e-2 and moved > 0.1, say(gap=far, apart=apart, moved=moved))


@claim(
    "Alignment is 1 for equal distributions, 0 for disjoint ones; fairness 1 for equal groups, 1/n where one has all."
)
def alignment_is_1_for_equal_distributions_0_for_disjoint_ones() -> Finding:
    draw, ends = Key.of(2).derive("measures").numpy(), []
    one, other = torch.tensor([[0.2, 0.8, 0.0], [0.0, 0.0, 1.0]], dtype=torch.float64)
    ends += [abs(float(alignment(one, one)) - 1), abs(float(alignment(one, other)))]
    for _ in range(20):
        p, q = (torch.from_numpy(draw.dirichlet([1.0] * 4)) for _ in range(2))
        m = (p + q) / 2
        wanted = 1 - float((p * (p / m).log() + q * (q / m).log()).sum()) / 2 / np.log(2)
        ends += [abs(float(alignment(p, q)) - wanted), abs(float(alignment(p, q) - alignment(q, p)))]
        values = draw.random(5)
        ends.append(abs(fairness(values.tolist()) - 1 / (1 + (values.std() / values.mean()) ** 2)))
    ends += [abs(fairness([0.7] * 6) - 1), abs(fairness([0.0, 0.0, 3.0]) - 1 / 3)]
    return below(EXACT, gap=max(ends))


@claim("As shipped a question's recorded answers come with their shares, one scorer's output is read, by softmax.")
def as_shipped_a_questions_recorded_answers_come_with_their_shares() -> Finding:
    learnt = PLURAL_LLM.objective == PredictedShares(loss=SoftmaxRanking(), output=0)
    return Finding(learnt and PLURAL_LLM.rollout == Ranked(), say(objective=str(PLURAL_LLM.objective)))


GROUPS, STEPS, EVERY = 6, 80, 5


def aligned(pupil: Pupil) -> list[float]:
    """The alignment with each group on 60 unseen polls of it."""
    alignments = []
    for group in range(GROUPS):
        parts = replace(pupil.parts, task=tasks.find(f"opinions?group={group}"))
        metrics = run_async(recorded_metrics(parts, "lists/accuracy", n=60, key=Key.of(0)))[1]
        alignments.append(metrics["lists/alignment"])
    return alignments


@claim(
    "Six groups that differ: federated within 5 % of learning from all data at one place, above each group alone, as "
    "fair within .01.",
    slow=True,
)
def six_groups_that_differ_federated_within_5_of_learning_from_all() -> Finding:
    """The shipped model, 80 steps of 8 polls at every group, weights averaged in 8 bits after every 5."""
    ask = {"update.lr": 0.002, "curriculum.prompts": 8}
    nodes = {f"group-{n}": begin(PLURAL_LLM, f"opinions?group={n}", ask | {"seed": n}) for n in range(GROUPS)}
    alone = [begin(PLURAL_LLM, f"opinions?group={n}", ask | {"seed": n}).run(STEPS) for n in (0, 3, 5)]
    averaging = Averaging({name: {"policy": one.parts.lead.policy} for name, one in nodes.items()})
    for _ in range(STEPS // EVERY):
        for one in nodes.values():
            one.run(EVERY)
        averaging.exchange({name: one.parts.task.size("train") or 0 for name, one in nodes.items()})
    central = begin(PLURAL_LLM, "opinions", ask | {"curriculum.prompts": 8 * GROUPS}).run(STEPS)
    together, from_all = aligned(nodes["group-0"]), aligned(central)
    single = [fmean(aligned(one)) for one in alone]
    close = fmean(together) >= 0.95 * fmean(from_all) and abs(fairness(together) - fairness(from_all)) <= 0.01
    return Finding(
        close and fmean(together) > max(single) + 0.02,
        say(
            federated=fmean(together),
            central=fmean(from_all),
            alone=max(single),
            fair=fairness(together),
            fair_central=fairness(from_all),
        ),
    )


ROUNDS = 40


@claim(
    "As shipped, `hocket swarm --nodes 6 --average 5 --recipe plural-llm --task 'opinions?group={node}' --steps 40`: "
    "each node has the answers of its own group alone and sends nothing but changes of weights, a twentieth of what "
    "gradients at every step take; all end with equal weights; alignment on unseen polls rises in every group, and the "
    "share of options in the right order by more than its interval over groups.",
    slow=True,
    learns=True,
)
def as_shipped_a_swarm_of_groups_learns_and_sends_weights_alone() -> Finding:
    with tempfile.TemporaryDirectory() as folder:
        settings = SwarmSettings(
            nodes=GROUPS, average=EVERY, recipe=PLURAL_LLM.name, task="opinions?group={node}", out=f"{folder}/swarm"
        )
        run = SwarmRun(settings, [("steps", ROUNDS), ("evaluation.n", 100)])
        weights_alone = all(
            trainer.task.scenario("train", n).metadata["group"] == str(group)
            for group, trainer in enumerate(run.nodes.values())
            for n in range(20)
        )
        run.begin()
        for _ in range(ROUNDS):
            run.round()
        summary = run.finish("the claim's rounds are over")
        moves = {
            name: [_risen(node, name) for node in run.nodes.values()] for name in ("lists/alignment", "lists/accuracy")
        }
        ends = [flat(node.parts.lead.policy) for node in run.nodes.values()]
        fair = fairness([node.progress.after["lists/alignment"] for node in run.nodes.values()])
    sent = summary["averaging"]
    quiet = all(not node["sent"] and not node["shared_groups"] for node in summary["nodes"].values())
    quiet &= sent["messages"] == {"received": GROUPS * ROUNDS // EVERY} and sent["bytes_each_step"] / sent["bytes"] > 19
    equal = all(torch.equal(ends[0], weights) for weights in ends)
    rise, aligned_by = moves["lists/accuracy"], min(moves["lists/alignment"])
    interval = 2.57 * stdev(rise) / GROUPS**0.5  # Student's t with 5 degrees of freedom.
    return Finding(
        weights_alone and quiet and equal and aligned_by > 0 and fmean(rise) > interval,
        say(order=fmean(rise), interval=interval, alignment=moves["lists/alignment"], fair=fair, bytes=sent["bytes"]),
    )


def _risen(trainer: NodeTrainer, name: str) -> float:
    """How much higher a measure of a node's group is at the end."""
    progress = trainer.progress
    return float(progress.after[name]) - float(progress.before[name])


claim.spares("plural-llm: credit.credit.gamma = 0.0", "scores are read at the end, where a share is what is to come")
claim.spares("plural-llm: credit.credit.epsilon = 4e-07", "nothing is whitened")
claim.spares("plural-llm: credit.credit.epsilon = 0.0", "nothing is whitened")
claim.spares("plural-llm: credit.credit.ddof = 40", "nothing is whitened")

claim.shipped(PLURAL_LLM, without={"objective": RegressedScore(of="preference")})
