"""What holds for every credit: order, purity, and that it fits configuration files and recipes."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest
import torch
from credit_cases import LAW, batch_of, by_trajectory, experiences, make, recorded
from hypothesis import given
from hypothesis import strategies as st

from hocket import credit as room
from hocket.apps.report.primitives import primitives
from hocket.core.batch import GroupBy
from hocket.core.columns import Column
from hocket.core.components import from_plain, to_plain
from hocket.credit.corrections import MaskedImportance, TruncatedImportance
from hocket.credit.deviations import OverOthersDeviation, OverRawDeviation
from hocket.credit.forced_decisions import TaughtToo
from hocket.credit.gae import GAE
from hocket.credit.group import GroupRelative, StepRelative
from hocket.credit.kept_denominators import BoundedImportance, Counted
from hocket.credit.pairs import AllPairs, BestAgainstWorst
from hocket.credit.reinforce import GreedyBaseline, ReturnToGo, RunningMean, Uniform
from hocket.credit.scored_answers import WithoutUnscored
from hocket.credit.sequential_agents import InTurn
from hocket.credit.vtrace import VTrace
from hocket.credit.whitening import WhitenedTokens
from hocket.methods.agents.gtr.method import Unguided
from hocket.methods.agents.igpo import GainRelative
from hocket.methods.applications.compass_latent_search import BestOfGroup
from hocket.methods.applications.langtime.method import RepeatedGAE
from hocket.methods.applications.ospo import FleetRelative, StepReward
from hocket.methods.base.tpo import PairsBesideGold
from hocket.methods.data_and_rollout.ar3po import WithoutReplayed
from hocket.methods.data_and_rollout.arpo import SharedMean
from hocket.methods.data_and_rollout.avatar import EndsWeighted
from hocket.methods.data_and_rollout.clpo.method import RewritingCredit
from hocket.methods.data_and_rollout.eframe import Filtered
from hocket.methods.data_and_rollout.rl_plus import AgainstOwn
from hocket.methods.data_and_rollout.tree_grpo import WithinAndAmong
from hocket.methods.data_and_rollout.tree_opo.method import PrefixValue, TreeOrdered
from hocket.methods.data_and_rollout.xrpo import NoveltyGuided
from hocket.methods.generative.b2_diffurl import BranchExtremes
from hocket.methods.generative.dmospeech_2.method import SpreadWeight
from hocket.methods.generative.dmpo_dllm import TiltedWeights
from hocket.methods.generative.dppo.method import InnerGAE
from hocket.methods.generative.parrot import ParetoWeights
from hocket.methods.group_relative.aapo import ReferenceMargin
from hocket.methods.group_relative.bnpo.method import BetaDensity
from hocket.methods.group_relative.bnpo.parts import EachScore
from hocket.methods.group_relative.conciser import DeviationUnlessAllRight
from hocket.methods.group_relative.gpg import SignalShare
from hocket.methods.group_relative.group_relative_reinforce import ExponentialWeight, LoweredBaseline
from hocket.methods.group_relative.grpo_lead import LogisticAccuracy
from hocket.methods.group_relative.lc_r1 import TagBonus
from hocket.methods.group_relative.mapo import MixedDeviation
from hocket.methods.group_relative.maxrl import OverMean
from hocket.methods.group_relative.mrt import ProgressBonus
from hocket.methods.group_relative.opo import LengthWeightedBaseline
from hocket.methods.group_relative.pass_at_k import LeadOfTheBest
from hocket.methods.group_relative.pvpo import RememberedBaseline
from hocket.methods.group_relative.s_grpo_noise import NoiseAware
from hocket.methods.group_relative.seed_grpo import SemanticEntropy
from hocket.methods.group_relative.vapo import LengthAdaptiveGAE
from hocket.methods.group_relative.vital_dgrpo import Difficulty
from hocket.methods.preference.p3o import EveryTwo
from hocket.methods.preference.rpo_lambda_harmonic.method import LabelledPairs
from hocket.rewards.shaping import KLInReward, MaskTruncated, OverlongPenalty
from hocket.types import Turn

WEIGHTS = [
    MixedDeviation(),
    BetaDensity(),
    NoiseAware(),
    Difficulty(),
    LogisticAccuracy(),
    SignalShare(),
    SemanticEntropy(),
    OverOthersDeviation(),
    OverRawDeviation(),
    DeviationUnlessAllRight(),
    SpreadWeight(),
]
PLAIN = [
    GroupRelative(),
    GroupRelative(leave_one_out=True, scale=None),
    GroupRelative(scale_by=GroupBy()),
    GroupRelative(by=GroupBy("scenario", "agent", "turn_index")),
    GroupRelative(by=GroupBy("scenario", "state"), scale_by=GroupBy("scenario")),
    GroupRelative(virtual=(1.0, 2.5)),
    *(GroupRelative(weigh=(weight,)) for weight in WEIGHTS if not isinstance(weight, SemanticEntropy)),
    StepRelative(),
    LengthWeightedBaseline(),
    LeadOfTheBest(),
    LeadOfTheBest(scale="std"),
    OverMean(),
    EachScore(),
    ReferenceMargin(),
    ReturnToGo(gamma=0.9),
    ReturnToGo(whiten=True),
    StepReward(0.9),
    GreedyBaseline(),
    GreedyBaseline(to_go=True),
    Uniform(),
    GAE(gamma=0.9, lam=0.8),
    LengthAdaptiveGAE(gamma=0.9, alpha=0.5),
    WhitenedTokens(),
    WithoutUnscored(),
    GainRelative(),
    WithinAndAmong(),
    PrefixValue(),
    TreeOrdered(),
    WithoutReplayed(),
    SharedMean(),
    AgainstOwn(),
    EndsWeighted(),
    Filtered(),
    NoveltyGuided(),
    RewritingCredit(),
    Unguided(),
]
PAIRING = [BestAgainstWorst(), AllPairs(), EveryTwo()]
CORRECTIONS = [TruncatedImportance(), MaskedImportance(), ExponentialWeight(), LoweredBaseline(), FleetRelative()]
NAMED = [*PLAIN, *PAIRING, *WEIGHTS, RunningMean(), RememberedBaseline(), *CORRECTIONS]
NAMED += [BoundedImportance(), Counted(), VTrace(), InTurn()]
# Their laws are claims and tests of their methods.
NAMED += [TiltedWeights(), BranchExtremes(), ParetoWeights(), InnerGAE(), BestOfGroup(), PairsBesideGold()]
NAMED += [LabelledPairs(), TaughtToo(), RepeatedGAE()]
SHAPING = [OverlongPenalty(8, 4), KLInReward(), MaskTruncated()]


def name(stage):
    return type(stage).__name__


def annotated(trajectories):
    """A batch whose value depends on the turn and place alone, so that it survives reordering."""
    batch = batch_of(trajectories)
    marks = []
    for turn in unique(trajectories):
        marks += [turn.extras["mark"] * 0.37 + place * 0.11 for place in range(len(turn))]
    final = torch.tensor([0.25 if t.truncated else 0.0 for t in trajectories])
    return batch.but(value=torch.tensor(marks, dtype=torch.float64), final_value=final)


def unique(trajectories) -> list[Turn]:
    return list({id(turn): turn for trajectory in trajectories for turn in trajectory.turns}.values())


def seeded(trajectories):
    """With a greedy baseline for every scenario, and turns marked by number."""
    scenarios = dict.fromkeys(t.scenario.id for t in trajectories)
    everything = [*trajectories, *(make(s, 0.5, source="baseline") for s in scenarios)]
    for number, turn in enumerate(unique(everything)):
        turn.extras["mark"] = number
    return everything


@pytest.mark.parametrize("credit", PLAIN, ids=name)
@LAW
@given(trajectories=experiences(), data=st.data())
def test_permuting_trajectories_permutes_credit(credit, trajectories, data):
    everything = seeded(trajectories)
    order = data.draw(st.permutations(range(len(everything))))
    plain, turned = annotated(everything), annotated([everything[i] for i in order])
    before, after = credit(plain), credit(turned)
    for column in ("advantage", "weight", "target"):
        if getattr(before, column) is None:
            continue
        rows = by_trajectory(plain, getattr(before, column))
        for place, got in enumerate(by_trajectory(turned, getattr(after, column))):
            assert got == pytest.approx(rows[order[place]], abs=1e-7)


@LAW
@given(trajectories=experiences(), data=st.data())
def test_permuting_trajectories_permutes_pairs(trajectories, data):
    order = data.draw(st.permutations(range(len(trajectories))))
    before = AllPairs(margin=1e-9)(batch_of(trajectories)).pairs.tolist()
    after = AllPairs(margin=1e-9)(batch_of([trajectories[i] for i in order])).pairs.tolist()
    assert sorted([order[i], order[j]] for i, j in after) == sorted(before)


@pytest.mark.parametrize("credit", PLAIN + PAIRING, ids=name)
@LAW
@given(trajectories=experiences())
def test_pure_float64_and_only_credit_changes(credit, trajectories):
    batch = annotated(seeded(trajectories))
    snapshot = {f.name: _copy(getattr(batch.occurrences, f.name)) for f in dataclasses.fields(batch.occurrences)}
    first, second = credit(batch), credit(batch)
    for column, old in snapshot.items():
        assert _same(getattr(batch.occurrences, column), old)
        assert _same(getattr(first, column), getattr(second, column))
    assert torch.equal(first.decision, batch.occurrences.decision)
    assert torch.equal(first.trajectory, batch.occurrences.trajectory)
    assert ((first.weight == 0) | (first.weight == batch.occurrences.weight)).all()
    if credit.pairs:
        assert first.pairs is not None
    else:
        assert first.advantage.dtype == torch.float64
        assert first.advantage.isfinite().all()
        assert first.pairs is None


def _copy(value):
    return None if value is None else value.clone()


def _same(left, right):
    return (left is None and right is None) or torch.equal(left, right)


@pytest.mark.parametrize("stage", NAMED + SHAPING, ids=name)
def test_stages_are_values_that_configuration_files_hold(stage):
    plain = to_plain(stage)
    assert from_plain(plain) == stage
    assert hash(from_plain(plain)) == hash(stage)
    assert plain["type"].split(".")[1] in ("rewards" if stage in SHAPING else "credit", "methods")
    assert isinstance(stage.reads, frozenset)
    assert all(isinstance(column, Column) for column in stage.reads)


def test_everything_exported_is_tested():
    """Here, or by name in a test of its own."""
    tests = "".join(file.read_text() for file in Path(__file__).parents[1].rglob("test_*.py"))
    here = {type(stage).__name__ for stage in NAMED}
    credits = [one.name for one in primitives() if one.stage == "credit"]
    missing = [name for name in credits if name not in here and not re.search(rf"\b{name}\b", tests)]
    assert [name for name in missing if not getattr(room, name).__subclasses__()] == []


@pytest.mark.parametrize("credit", PLAIN, ids=name)
def test_trajectories_without_decisions_are_harmless(credit):
    empty = make("s", 5.0, length=0)
    everything = [make("s", 1.0), empty, make("s", 0.0), make("s", 0.5, source="baseline")]
    for number, turn in enumerate(unique(everything)):
        turn.extras["mark"] = number
    batch = annotated(everything)
    seen = credit(batch)
    assert len(seen) == 6
    assert seen.advantage.isfinite().all()


@pytest.mark.parametrize("credit", PLAIN + PAIRING, ids=name)
def test_a_batch_without_any_decision(credit):
    batch = batch_of([make("s", 1.0, length=0), make("s", 0.0, length=0, source="baseline")])
    seen = credit(batch.but(value=torch.zeros(0), final_value=torch.zeros(2)))
    assert len(seen) == 0


def test_corrections_pass_over_trajectories_without_decisions():
    batch = batch_of([make("s", 1.0, length=0), make("s", 1.0)])
    batch = batch.but(logp={**batch.logp, "proximal": recorded(torch.zeros(2))})
    weight = TruncatedImportance(cap=2.0, level="sequence")(batch).occurrences.weight
    assert weight.tolist() == [2.0, 2.0]


@LAW
@given(experiences())
def test_without_columns_the_base_decides(trajectories):
    batch, base = batch_of(trajectories), GroupRelative()
    for credit in (ProgressBonus(base=base), TagBonus(base=base)):
        assert torch.equal(credit(batch).advantage, base(batch).advantage)
