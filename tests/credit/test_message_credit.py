"""Credit over trees of messages: pairs of siblings, values of messages, the best of a group."""

from __future__ import annotations

import math
import random
from statistics import fmean

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hocket.core.batch import Batch, Recorded
from hocket.core.components import from_plain, to_plain
from hocket.core.errors import HocketError
from hocket.core.packing import pack
from hocket.core.signals import returns
from hocket.credit.alternating import AlternatingCredit
from hocket.credit.group import GroupRelative
from hocket.credit.pairs import BestAgainstWorst
from hocket.methods.teams.masprm import MessageValueLoss, MessageValues
from hocket.methods.teams.optima import BestAbove, MessageCost, Readability, SiblingTurns
from hocket.objectives.alternating import AlternatingObjective
from hocket.objectives.likelihood import NegativeLogLikelihood
from hocket.objectives.preference import DPO
from hocket.rewards.combine import WeightedSum
from hocket.types import Evaluation, Scenario, Score, Trajectory, Turn

LAW = settings(max_examples=60, deadline=None, derandomize=True)

PATHS = st.lists(
    st.tuples(
        st.lists(st.integers(0, 2), min_size=1, max_size=3).map(tuple),
        st.integers(0, 8).map(lambda n: n / 8),
        st.sampled_from("ab"),
        st.booleans(),
    ),
    min_size=1,
    max_size=10,
)
"""What is said, the reward, the scenario, whether it counts."""


def batch_of(rows: list[tuple[tuple[int, ...], float, str, bool]]) -> Batch:
    """Dialogues of two speakers as a batch; equal beginnings are one object. Message n has n + 1 decisions."""
    known: dict[tuple[object, ...], Turn] = {}
    found = []
    for path, reward, scenario, counts in rows:
        turns = []
        for length in range(1, len(path) + 1):
            name = (scenario, path[:length], counts)
            if name not in known:
                size = path[length - 1] + 1
                logp = np.array([-0.1 * (length + place + 1) for place in range(size)], np.float32)
                known[name] = Turn(
                    "ab"[length % 2], "p", np.zeros(1, np.int64), np.full(size, path[length - 1]), logp=logp
                )
            turns.append(known[name])
        source = "own" if counts else "baseline"
        found.append(Trajectory(Scenario(scenario), turns, scores={"r": Score(reward)}, source=source))
    batch = WeightedSum()(pack(found), {})
    values = torch.linspace(-2, -0.1, batch.decisions, dtype=torch.float64)
    known_everywhere = torch.ones(batch.decisions, dtype=torch.bool)
    return batch.but(logp={**batch.logp, "reference": Recorded(values, known_everywhere)})


def pairs_by_hand(
    rows: list[tuple[tuple[int, ...], float, str, bool]], credit: SiblingTurns
) -> list[tuple[object, ...]]:
    leaves: dict[tuple[str, tuple[int, ...]], list[float]] = {}
    for path, reward, scenario, counts in rows:
        for length in range(1, len(path) + 1):
            if counts:
                leaves.setdefault((scenario, path[:length]), []).append(reward)
    mean = {node: fmean(found) for node, found in leaves.items()}
    kept = []
    for scenario in sorted({one[2] for one in rows}):
        mine = [node for node in mean if node[0] == scenario]
        here = []
        for history in {path[:-1] for _, path in mine}:
            worth = sorted(mean[node] for node in mine if node[1][:-1] == history)
            if worth[-1] - worth[0] > credit.margin and worth[-1] > credit.least:
                here.append((worth[-1], worth[0]))
        here.sort(reverse=True)
        kept += [(scenario, *pair) for pair in here[: max(1, int(credit.share * len(here) + 1e-9))]]
    return kept


@LAW
@given(PATHS, st.sampled_from([0.0, 0.3]), st.sampled_from([0.5, 1.0]))
def test_pairs_are_best_and_worst_answers_to_one_history(rows, margin, share):
    credit = SiblingTurns(margin=margin, least=0.1, share=share)
    batch = batch_of(rows)
    seen = credit(batch)
    assert seen.pairs is not None
    assert seen.compared is not None
    reward = [one[1] for one in rows]
    found = []
    for (better, worse), (left, right) in zip(seen.pairs.tolist(), seen.compared.tolist(), strict=True):
        visits = [
            list(dict.fromkeys(batch.turn[seen.decision[seen.trajectory == one]].tolist())) for one in (better, worse)
        ]
        place = visits[0].index(left)
        assert place == visits[1].index(right)
        assert visits[0][:place] == visits[1][:place]
        assert left != right
        value = []
        for turn in (left, right):
            through = seen.trajectory[(batch.turn[seen.decision] == turn)].unique().tolist()
            value.append(fmean(reward[one] for one in through))
        found.append((rows[better][2], *value))
    want = pairs_by_hand(rows, credit)
    assert len(found) == len(want)
    if share == 1.0:
        for one, other in zip(sorted(found), sorted(want), strict=True):
            assert one == pytest.approx(other)
    used = {
        (int(t), int(u)) for t, u, w in zip(seen.trajectory, batch.turn[seen.decision], seen.weight, strict=True) if w
    }
    wanted = set(zip(seen.pairs.flatten().tolist(), seen.compared.flatten().tolist(), strict=True))
    assert used == wanted


@LAW
@given(PATHS, st.integers(0, 5))
def test_order_does_not_matter(rows, seed):
    shuffled = rows[:]
    random.Random(seed).shuffle(shuffled)
    credit = SiblingTurns(margin=0.0, least=-1.0, share=1.0)

    # Ties may choose another of equals, so only how many pairs there are is compared.
    assert len(credit(batch_of(rows)).pairs) == len(credit(batch_of(shuffled)).pairs)
    one, other = (
        sorted(seen.target[seen.weight != 0].tolist())
        for seen in (MessageValues()(batch_of(given_rows)) for given_rows in (rows, shuffled))
    )
    assert one == pytest.approx(other)


def test_dpo_compares_the_two_messages_alone():
    rows = [((0, 1, 2), 1.0, "a", True), ((0, 2, 0), 0.0, "a", True), ((1, 1), 0.9, "a", True)]
    batch = batch_of(rows)
    batch = batch.but(occurrences=SiblingTurns(margin=0.05, least=0.0, share=1.0)(batch))
    logp = torch.linspace(-1.5, -0.3, batch.decisions, dtype=torch.float64).requires_grad_()
    terms = DPO(beta=0.4)(Evaluation(logp=logp), batch)
    reference = batch.logp["reference"].values
    margins = []
    for left, right in batch.occurrences.compared.tolist():
        drift = [float((logp - reference).detach()[batch.turn == turn].sum()) for turn in (left, right)]
        margins.append(0.4 * (drift[0] - drift[1]))
    assert len(margins) == 2
    want = fmean(math.log1p(math.exp(-margin)) for margin in margins)
    assert float(terms.total().detach()) == pytest.approx(want, abs=1e-12)
    (gradient,) = torch.autograd.grad(terms.total(), logp)
    moved = set(batch.turn[gradient != 0].tolist())
    assert moved == set(batch.occurrences.compared.flatten().tolist())


def test_dpo_of_turns_survives_mini_batches_and_other_policies():
    rows = [((0, 1), 1.0, "a", True), ((0, 2), 0.0, "a", True), ((1,), 1.0, "b", True), ((2,), 0.0, "b", True)]
    batch = batch_of(rows)
    batch = batch.but(occurrences=SiblingTurns(least=0.0)(batch))
    now = Evaluation(logp=torch.linspace(-1.5, -0.3, batch.decisions, dtype=torch.float64))
    parts = [batch.select(torch.tensor([0, 1])), batch.select(torch.tensor([2, 3]))]
    whole = float(DPO()(now, batch).total())
    assert whole == pytest.approx(fmean(float(DPO()(now, part).total()) for part in parts))
    none = batch.of_policy("another")
    assert float(DPO()(now, none).total()) == 0.0


def test_dpo_of_turns_refuses_what_is_of_trajectories():
    batch = batch_of([((0,), 1.0, "a", True), ((1,), 0.0, "a", True)])
    batch = batch.but(occurrences=SiblingTurns(least=0.0)(batch))
    with pytest.raises(HocketError, match="top, lone and turn_discount"):
        DPO(top=2.0)(Evaluation(logp=torch.zeros(batch.decisions)), batch)


@LAW
@given(PATHS)
def test_values_are_means_through_the_message_and_each_counts_once(rows):
    batch = batch_of(rows)
    seen = MessageValues()(batch)
    used = seen.weight != 0
    assert batch.turn[seen.decision[used]].unique().numel() == int(used.sum())
    assert bool(seen.advantage[~used].eq(0).all())
    counted = [n for n, one in enumerate(rows) if one[3]]
    for decision, owner, target in zip(seen.decision[used], seen.trajectory[used], seen.target[used], strict=True):
        turn = int(batch.turn[decision])
        assert int(decision) == int((batch.turn == turn).nonzero().max())
        through = {
            int(t) for t, d in zip(seen.trajectory, seen.decision, strict=True) if int(batch.turn[d]) == turn
        } & set(counted)
        assert float(target) == pytest.approx(fmean(2 * rows[one][1] - 1 for one in through))
        assert int(owner) in counted
    assert bool(seen.advantage.isfinite().all())


def test_written_values_are_taken_and_advantages_telescope():
    batch = batch_of([((0, 1), 1.0, "a", True), ((2, 2), 0.0, "a", True)])
    batch = batch.but(info={"message_values": [[0.5, 1.0], [-0.25, -1.0]]})
    seen = MessageValues()(batch)
    used = seen.weight != 0
    assert seen.target[used].tolist() == [0.5, 1.0, -0.25, -1.0]
    assert seen.advantage[used].tolist() == [0.5, 0.5, -0.25, -0.75]


@pytest.mark.parametrize("fit", ["squared", "huber", "cross-entropy"])
def test_the_fit_has_its_minimum_at_the_target(fit):
    batch = batch_of([((0,), 0.7, "a", True)])
    batch = batch.but(occurrences=MessageValues()(batch))
    z = torch.full((batch.decisions,), math.atanh(0.4), dtype=torch.float64).requires_grad_()
    terms = MessageValueLoss(fit=fit)(Evaluation(logp=torch.zeros(1), value=z), batch)
    (gradient,) = torch.autograd.grad(terms.total(), z)
    assert gradient.abs().max() < 1e-12
    for extreme in (50.0, -50.0):
        loss = MessageValueLoss(fit=fit)(Evaluation(logp=torch.zeros(1), value=torch.full((1,), extreme)), batch)
        assert bool(loss.value.isfinite().all())


def test_targets_of_certain_messages_are_finite():
    batch = batch_of([((0,), 1.0, "a", True)])
    batch = batch.but(occurrences=MessageValues()(batch))
    terms = MessageValueLoss()(Evaluation(logp=torch.zeros(1), value=torch.zeros(1, dtype=torch.float64)), batch)
    assert float(terms.total()) == pytest.approx(math.atanh(0.95) ** 2)


@LAW
@given(PATHS, st.sampled_from([0.0, 0.5]), st.sampled_from([0.5, 1.0]))
def test_only_the_best_of_each_group_is_kept(rows, least, share):
    batch = batch_of(rows)
    seen = BestAbove(least=least, share=share)(batch)
    kept = set(seen.trajectory[seen.weight != 0].tolist())
    best = {}
    for number, (_, reward, scenario, counts) in enumerate(rows):
        if counts and reward > least and (scenario not in best or reward > rows[best[scenario]][1]):
            best[scenario] = number
    ranked = sorted(best.values(), key=lambda one: (-rows[one][1], one))
    assert kept == set(ranked[: math.ceil(share * len(ranked))])
    assert bool((seen.advantage == (seen.weight != 0).double()).all())


# ---------------------------------------------------------------- rewards


@LAW
@given(PATHS, st.floats(0, 2))
def test_cost_and_readability_are_the_formulas(rows, weight):
    batch = batch_of(rows)
    found = returns(Readability(weight=0.5, floor=0.2)(MessageCost(weight=weight)(batch))).tolist()
    seen, reference = batch.occurrences, batch.logp["reference"].values
    sizes = [sum(message + 1 for message in path) for path, *_ in rows]
    for number, (path, reward, scenario, counts) in enumerate(rows):
        mates = [sizes[n] for n, one in enumerate(rows) if one[2] == scenario and one[3]]
        own = reference[seen.decision[seen.trajectory == number]]
        worst = max(float(-part.mean()) for part in torch.split(own, [message + 1 for message in path]))
        cost = weight * sizes[number] / max(mates) if counts else 0.0
        assert found[number] == pytest.approx(reward - cost + 0.5 / max(worst, 0.2))


def test_a_certain_message_is_worth_a_finite_reward():
    batch = batch_of([((0,), 1.0, "a", True)])
    sure = Recorded(torch.zeros(batch.decisions), torch.ones(batch.decisions, dtype=torch.bool))
    batch = batch.but(logp={**batch.logp, "reference": sure})
    assert returns(Readability(weight=1.0, floor=0.1)(batch)).tolist() == [11.0]


def test_unknown_log_probs_read_as_nothing():
    batch = batch_of([((0,), 1.0, "a", True)])
    unknown = Recorded(torch.zeros(batch.decisions), torch.zeros(batch.decisions, dtype=torch.bool))
    batch = batch.but(logp={**batch.logp, "reference": unknown})
    assert returns(Readability()(batch)).tolist() == [1.0]


# ---------------------------------------------------------------- taking turns


def test_credits_and_objectives_take_turns():
    batch = batch_of([((0,), 1.0, "a", True), ((1,), 0.0, "a", True)])
    credit = AlternatingCredit((BestAbove(), BestAgainstWorst()), every=2)
    objective = AlternatingObjective((NegativeLogLikelihood(), DPO()), every=2)
    assert credit.pairs
    assert objective.couples == DPO().couples
    now = Evaluation(logp=torch.full((batch.decisions,), -1.0, dtype=torch.float64))
    for step, pairs in ((0, False), (1, False), (2, False), (3, True), (4, True), (5, False)):
        here = batch.but(step=step)
        here = here.but(occurrences=credit(here))
        assert (here.occurrences.pairs is not None) == pairs
        want = (DPO() if pairs else NegativeLogLikelihood())(now, here)
        assert float(objective(now, here).total()) == pytest.approx(float(want.total()))


@pytest.mark.parametrize(
    "stage",
    [
        SiblingTurns(),
        BestAbove(),
        MessageValues(),
        AlternatingCredit((BestAbove(), SiblingTurns())),
        AlternatingObjective((NegativeLogLikelihood(), DPO())),
        MessageValueLoss(),
        MessageCost(),
        Readability(),
    ],
)
def test_stages_are_values(stage):
    assert from_plain(to_plain(stage)) == stage
    assert hash(from_plain(to_plain(stage))) == hash(stage)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: SiblingTurns(share=0.0), "share"),
        (lambda: BestAbove(share=2.0), "share"),
        (lambda: AlternatingCredit(()), "members"),
        (lambda: AlternatingCredit((GroupRelative(),), every=0), "every"),
        (lambda: AlternatingObjective(()), "members"),
        (lambda: MessageValueLoss(fit="cubic"), "fit"),
        (lambda: MessageValueLoss(bound=1.0), "bound"),
        (lambda: MessageCost(weight=-1.0), "weight"),
        (lambda: Readability(floor=0.0), "floor"),
    ],
)
def test_bad_settings_are_refused(make, reason):
    with pytest.raises(ValueError, match=reason):
        make()
