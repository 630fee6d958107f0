"""SAPO's claims."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Any

import msgspec
import torch

from hocket import tasks
from hocket.core.components import value_at
from hocket.core.keys import Key
from hocket.distributed.swarm.node import join, off_policy
from hocket.distributed.swarm.swarm import Swarm, whole
from hocket.lab.claims.claim import Check
from hocket.lab.claims.harness import Claims, Finding, gap, say
from hocket.lab.claims.shipped_check import LEAST, configured, difference, largest
from hocket.lab.toys.instances import JudgedReward
from hocket.lab.toys.swarms import TableSwarm, stepping
from hocket.lab.world import Answer, World, answer_of
from hocket.methods.group_relative.sapo_swarm import SAPO_SWARM, OwnAndShared
from hocket.rollout.sharing import SharedGroup
from hocket.train.assemble import build_parts
from hocket.train.ledger import Ledger
from hocket.types import Assignment, Scenario, Score, Trajectory, Turn

claim = Claims("sapo-swarm", "arXiv:2509.08721")

TOKENS = 5
SEEDS = range(3)


def _target(question: int) -> Answer:
    return (question * 7 + 3) % TOKENS, (question * 5 + 1) % TOKENS


def _right(trajectory: Trajectory) -> float:
    """By what the scenario says, as a node's own verifier would."""
    return float(answer_of(trajectory) == tuple(trajectory.scenario.metadata["target"]))


# Two tokens of five: one answer in 25 is right, so that most groups of four hold no right one at first.
GUESSES = World(
    *(12, TOKENS, 2, lambda question, answer: float(answer == _target(question))),
    metadata=lambda question: {"target": list(_target(question))},
)


# One token of three, so that nearly every group holds right and wrong ones.
EASY = World(
    *(6, 3, 1, lambda question, answer: float(answer == (question % 3,))),
    metadata=lambda question: {"target": [question % 3]},
)


def _node(own: int, shared: int, **more: Any) -> Any:
    settings = {"curriculum.prompts": own, "rollout.shared": shared, "rollout.samples": 4}
    return SAPO_SWARM.but({**settings, "rewards": (JudgedReward(_right),), **more})


def _weights(run: TableSwarm) -> torch.Tensor:
    return torch.cat([bench.policy.logits.detach().flatten() for bench in run.benches])


# ---------------------------------------------------------------- what a batch is


@dataclass
class _Others:
    """A node's way to others, held in the hand."""

    held: Sequence[SharedGroup]
    published: list[SharedGroup] = field(default_factory=list)

    def publish(self, groups: Sequence[SharedGroup]) -> None:
        self.published += groups

    def received(self) -> Sequence[SharedGroup]:
        return self.held


class _Play:
    """Says `1` to everything asked, and what stands there where it is given."""

    def __init__(self, sharing: _Others) -> None:
        self.player, self.sharing = self, sharing

    async def __call__(self, assignments: Sequence[Assignment]) -> list[Trajectory]:
        return [self._said(one, number) for one in assignments for number in range(one.samples)]

    def _said(self, one: Assignment, number: int) -> Trajectory:
        given = one.source == "expert"
        text = one.scenario.metadata["demonstration"] if given else str(number % 2)
        tokens = torch.tensor([ord(letter) for letter in text]).numpy()
        logp = None if given else torch.full((len(text),), -0.5).numpy()
        turn = Turn("agent", "policy", tokens[:0], tokens, logp, text=text)
        return Trajectory(one.scenario, [turn], one.first + number, source=one.source)


async def _score(trajectories: Sequence[Trajectory]) -> None:
    for one in trajectories:
        one.scores["reward"] = Score(float(one.text == "1"))


def _collected(rollout: OwnAndShared, sharing: _Others, seed: int, own: int = 2) -> list[Trajectory]:
    asked = [Assignment(Scenario(f"own {number}", "?")) for number in range(own)]
    found = rollout.collect(asked, play=_Play(sharing), score=_score, ledger=Ledger(), key=Key.of(seed))
    return asyncio.run(found).trajectories


def _told(name: str, *answers: str) -> SharedGroup:
    return SharedGroup(Scenario(name, "?"), answers, node=name, step=1)


@claim(
    "a batch is I own groups and J received ones, drawn uniformly without those of zero advantage, scored by oneself"
)
def a_batch_is_i_own_groups_and_j_received_ones_drawn_uniformly() -> Finding:
    held = [*(_told(f"mixed {n}", "1", "0", "1", "2") for n in range(6)), _told("right", "1", "1"), _told("all", "0")]
    drawn, apart, rewards = Counter[str](), 0, list[float]()
    rollout = OwnAndShared(samples=4, shared=2)
    for seed in range(300):
        sharing = _Others(held)
        batch = _collected(rollout, sharing, seed)
        theirs = [one for one in batch if one.source == "imported"]
        names = [one.scenario.id for one in theirs]
        drawn.update(set(names))
        apart += len(batch) == 4 * (2 + 2) and len(set(names)) == 2 and len(sharing.published) == 2
        rewards = [float(one.scores["reward"].value) for one in theirs][:4]  # type: ignore[arg-type]
    shares = [count / 300 for count in drawn.values()]
    whole = _collected(replace(rollout, shared=9, drop=False), _Others(held), 0)
    kept = len({one.scenario.id for one in whole if one.source == "imported"})
    # Two of six: each in a third of all batches; 0.09 are three deviations of 300 draws.
    fair = len(drawn) == 6 and max(abs(share - 1 / 3) for share in shares) < 0.09
    holds = fair and apart == 300 and rewards == [1.0, 0.0, 1.0, 0.0] and kept == 8
    return Finding(holds, say(shares_of_the_groups=shares, batches_as_said=apart, without_dropping=kept))


@claim("shipped, a batch is 4 own groups of 8 answers and 4 received ones that have an advantage")
def shipped_a_batch_is_4_own_groups_of_8_answers_and_4_received() -> Finding:
    held = [*(_told(f"equal {n}", "1", "1") for n in range(6)), *(_told(f"mixed {n}", "1", "0") for n in range(5))]
    rollout, own = SAPO_SWARM.rollout, value_at(SAPO_SWARM, "curriculum.prompts")
    assert isinstance(rollout, OwnAndShared)
    batch = _collected(rollout, _Others(held), 0, own)
    mine = Counter(one.scenario.id for one in batch if one.source != "imported")
    theirs = {one.scenario.id for one in batch if one.source == "imported"}
    holds = list(mine.values()) == [8] * 4 and len(theirs) == 4 and all("mixed" in name for name in theirs)
    return Finding(holds, say(own=str(list(mine.values())), received=", ".join(sorted(theirs))))


@claim("what is published is text: question, answers and log-probs, no reward, and a group of one's own never mixes")
def what_is_published_is_text_question_answers_and_log_probs_no() -> Finding:
    sharing = _Others([_told("own 0", "1", "0")])
    batch = _collected(OwnAndShared(samples=2, shared=1), sharing, 0)
    groups = {one.scenario.id for one in batch}
    said = [(one.scenario.id, one.answers, one.logps) for one in sharing.published]
    wanted = [(f"own {number}", ("0", "1"), (-0.5, -0.5)) for number in range(2)]
    unknown = all(one.turns[0].logp is None for one in batch if one.source == "imported")
    return Finding(said == wanted and len(groups) == 3 and unknown, say(published=str(said), groups=len(groups)))


@claim("a received group is learnt from as though it were one's own: between equal nodes the ratio is 1", "derived")
def a_received_group_is_learnt_from_as_though_it_were_ones_own() -> Finding:
    run = TableSwarm(EASY, [_node(4, 4)] * 3, lr=0.1).run(1)
    first = [row["shared/ratio"] for rows in run.metrics for row in rows if "shared/ratio" in row]
    run.run(6)
    later = [row["shared/ratio"] for rows in run.metrics for row in rows[4:] if "shared/ratio" in row]
    # The first to step hears of nobody; those after it hold the weights that others sampled with.
    holds = bool(first) and gap(first, [1.0] * len(first)) < 1e-6 and max(abs(one - 1) for one in later) > 1e-3
    return Finding(holds, say(ratio_at_first=first, ratio_later=later))


# ---------------------------------------------------------------- what is not trusted


@claim("rewards sent along are ignored: false ones change no bit")
def rewards_sent_along_are_ignored_false_ones_change_no_bit() -> Finding:
    def paid(sender: str, receiver: str, data: bytes) -> list[bytes]:
        told = msgspec.msgpack.decode(data)
        return [msgspec.msgpack.encode({**told, "rewards": [9.0 for _ in told["answers"]], "advantages": [1e9]})]

    plain, false = (TableSwarm(EASY, [_node(4, 4)] * 2, lr=0.1, deliver=how).run(4) for how in (whole, paid))
    heard, used = false.counts("received"), false.mean("shared/groups")
    same = torch.equal(_weights(plain), _weights(false))
    return Finding(used > 1 and same, say(messages_with_rewards=heard, groups_learnt_from_a_step=used))


def _lying(sender: str, receiver: str, data: bytes) -> list[bytes]:
    """Node 0 calls a wrong answer of its own the right one."""
    if sender != "node-0":
        return [data]
    told = msgspec.msgpack.decode(data)
    wrong = [[int(token) for token in text.split()] for text in told["answers"]]
    wrong = [answer for answer in wrong if answer != told["metadata"]["target"]]
    if not wrong:
        return [data]
    return [msgspec.msgpack.encode({**told, "metadata": {**told["metadata"], "target": wrong[0]}})]


@claim("a false right answer harms those who believe it, and changes no bit where they recompute it", slow=True)
def a_false_right_answer_harms_those_who_believe_it_and_changes_no() -> Finding:
    nodes = [_node(2, 4)] * 3
    ends: dict[str, list[float]] = {"told the truth": [], "believing lies": []}
    same = True
    for seed in SEEDS:
        plain, false, own = (
            TableSwarm(GUESSES, nodes, seed, 0.1, recompute=recompute, deliver=deliver).run(30)
            for recompute, deliver in ((False, whole), (False, _lying), (True, _lying))
        )
        same &= torch.equal(_weights(plain), _weights(own))
        ends["told the truth"].append(plain.cumulative([1, 2]))
        ends["believing lies"].append(false.cumulative([1, 2]))
    holds = same and max(ends["believing lies"]) < min(ends["told the truth"])
    return Finding(holds, f"summed reward of the two honest nodes: {say(**ends)}, recomputed the same bits: {same}")


# ---------------------------------------------------------------- faults


@claim("when nodes die the others go on, and go on learning")
def when_nodes_die_the_others_go_on_and_go_on_learning() -> Finding:
    run = TableSwarm(EASY, [_node(2, 2)] * 4, lr=0.1, ends={1: 3, 3: 5}).run(10)
    done = [bench.done for bench in run.benches]
    faults = [member.fault for member in run.swarm.members.values()]
    late = fmean(row["shared/groups"] for number in (0, 2) for row in run.metrics[number][6:])
    said = [fault is not None and "killed" in fault for fault in faults]
    before, after = (
        fmean(bench.readings[0].success for bench in run.benches),
        fmean(run.benches[n].success() for n in (0, 2)),
    )
    holds = done == [10, 3, 10, 5] and said == [False, True, False, True] and late > 0 and after > before
    return Finding(holds, say(steps=str(done), groups_shared_after=late, success_before=before, after=after))


# ---------------------------------------------------------------- what it is worth


@claim(
    "mixed beats isolated: summed reward at (I, J) = (6, 2) and (4, 4) is above (8, 0); (2, 6) is below (4, 4)",
    slow=True,
)
def mixed_beats_isolated_summed_reward_at_and_is_above_is_below() -> Finding:
    earned: dict[tuple[int, int], list[float]] = {}
    for mix in ((8, 0), (6, 2), (4, 4), (2, 6)):
        earned[mix] = [TableSwarm(GUESSES, [_node(*mix)] * 4, seed, 0.1).run(30).cumulative() for seed in SEEDS]
    means = {mix: fmean(values) for mix, values in earned.items()}
    mixed = min(means[6, 2], means[4, 4]) > means[8, 0] + 1 and min(earned[6, 2]) > max(earned[8, 0])
    return Finding(
        mixed and means[2, 6] < means[4, 4], say(**{f"{own}+{their}": v for (own, their), v in earned.items()})
    )


# ---------------------------------------------------------------- as shipped


def _shipped(shared: int) -> tuple[list[torch.Tensor], Any, Any]:
    """The last node's gradients in two rounds of two nodes on sums, its last step, and its inbox."""
    task, swarm, results = tasks.find("sums"), Swarm(), list[Any]()
    gradients: list[torch.Tensor] = []
    lines = []
    for number in range(2):
        settings = {"seed": number, "curriculum.prompts": 4, "rollout.shared": shared}
        parts = build_parts(configured(SAPO_SWARM, "sums", task, settings), task)
        line = swarm.line(f"node-{number}", task)
        join(parts, line)
        lines.append(line)
        swarm.add(line, stepping(parts, results, gradients if number else []))
    swarm.round()
    swarm.round()
    return gradients, results[-1], lines[-1].pool


def _as_shipped() -> Finding:
    (with_others, last, pool), (alone, _, _) = _shipped(4), _shipped(0)
    change, told = difference(with_others, alone), off_policy(last)
    figures = {"gradient": largest(with_others), "relative change without": change, **told}
    figures |= {name: last.metrics[name] for name in ("shared/groups", "reward/own", "reward/shared")}
    said = ", ".join(f"{name} {value:.4g}" for name, value in figures.items())
    heard = pool.counts["received"]
    holds = change > LEAST and figures["gradient"] > 0 and last.metrics["shared/groups"] > 0
    unmet = [one.value for one in SAPO_SWARM.requires if not one.met(last.trajectories)]
    return Finding(holds and not unmet and 0 < told["shared/ratio"] < 2, f"{said}, {heard} messages received")


claim.append(
    Check(
        claim.row,
        "As shipped, `hocket swarm --nodes 2 --own 4 --shared 4 --task sums`: rollout in effect; without, the gradient "
        "is another.",
        _as_shipped,
        claim.source,
        slow=True,
        shipped=True,
    )
)
