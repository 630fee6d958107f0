"""What the ledger of equivalences does not show of recipes of public functions: draws, memory, data, and settings."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from hocket.core.batch import Batch
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.span_divergences import SharedTokens
from hocket.credit.gae import GAE
from hocket.lab.claims.harness import inspect_rows
from hocket.lab.documents import random_document
from hocket.lab.microscope import RecordedBatch
from hocket.methods.base.a_star_po import A_STAR_PO, OptimalValueMargin
from hocket.methods.base.distillation import GKD
from hocket.methods.base.echo import ECHO, OBSERVED, ObservedLikelihood, WithObservations
from hocket.methods.base.gold import GOLD
from hocket.methods.base.kl_penalty_ppo import KL_PENALTY_PPO, AdaptedPenalty, BehaviourKL
from hocket.methods.base.multi_teacher import MULTI_TEACHER
from hocket.methods.base.opsd import OPSD
from hocket.methods.base.pf_ppo import ResampledByReward, chances, draws
from hocket.methods.base.prime_ipo import ProbabilityBand
from hocket.methods.base.tpo import GoldLikelihood, Triples
from hocket.methods.base.value_norm import HuberValueLoss, NormalisedValues, huber
from hocket.nano import BASE
from hocket.policies.causal_lm import CausalLM
from hocket.policies.routed_teachers import RoutedTeachers
from hocket.recipes import find
from hocket.train.aio import run_async
from hocket.train.learner import install_parts
from hocket.train.settings import Config
from hocket.train.teachers import named_teachers, seat_teachers
from hocket.types import Assignment, Decoding, Scenario, Trajectory, Turn


def recorded(seed: int = 0, **changes: object) -> Batch:
    """A random batch of 12 answers whose rewards are combined."""
    document = random_document(Key.of(seed), graded=True) | changes
    batch = RecordedBatch(document).batch
    return find("ppo").combine(batch, {})


# ------------------------------------------------------------ PF-PPO


def test_an_answer_counts_as_often_as_it_is_drawn_and_draws_follow_the_chances() -> None:
    batch = recorded()
    weighed = ResampledByReward()(batch)
    by_answer = [weighed.occurrences.weight[weighed.occurrences.trajectory == n] for n in range(batch.trajectories)]
    assert all(len(set(one.tolist())) == 1 for one in by_answer)
    assert 0 < sum(float(one[0]) == 0 for one in by_answer) < batch.trajectories
    value = torch.tensor([0.0, 1.0, 2.0, -3.0], dtype=torch.float64)
    often = sum(draws(value, "pow", 2.0, Key.of(n)).double() for n in range(400)) / 1600
    assert torch.allclose(often, torch.tensor([0.0, 1 / 14, 4 / 14, 9 / 14], dtype=torch.float64), atol=0.04)
    assert chances(value, "max_min", 1.0).round(decimals=3).tolist() == [0.0, 0.0, 1.0, 1.0]
    assert chances(value, "max_random", 1.0).round(decimals=3).tolist() == [0.1, 0.1, 0.4, 0.1]
    assert torch.equal(ResampledByReward()(batch).occurrences.weight, weighed.occurrences.weight)
    later = ResampledByReward()(batch.but(step=2)).occurrences.weight
    assert not torch.equal(later, weighed.occurrences.weight)


# ------------------------------------------------------------ normalised values


def test_values_are_read_by_the_statistics_before_and_targets_by_those_after() -> None:
    credit, batch = NormalisedValues(of=GAE(whiten=False), rate=0.5), recorded()
    state, plain = credit.init(), batch.value
    assert credit.scale(state) == (0.0, pytest.approx(0.1))
    mean, deviation = 0.0, 0.1
    for step in range(3):
        read = GAE(whiten=False)(batch.but(value=plain.double() * deviation + mean))
        found, state = credit(batch, state)
        assert torch.allclose(found.advantage, read.advantage)
        used = read.target[read.weight != 0]
        # The running mean, corrected for its start, of the same batch's targets as they were at each step.
        mean, deviation = credit.scale(state)
        assert torch.allclose(found.target * deviation + mean, read.target)
        if step == 0:
            assert mean == pytest.approx(float(used.mean()))
            assert deviation**2 == pytest.approx(max(float(used.var(correction=0)), 1e-2))
    assert torch.equal(batch.value, plain)


def test_hubers_loss_is_half_the_square_up_to_delta_and_linear_beyond() -> None:
    assert huber(torch.tensor([0.0, 1.0, -2.0, 3.0]), 2.0).tolist() == [0.0, 0.5, 2.0, 4.0]


# ------------------------------------------------------------ A*-PO


def test_the_optimal_value_is_remembered_and_prompts_without_hope_are_left_out() -> None:
    rows = [
        {"group": "a", "scores": {"reward": reward}, "logp": [-1.0], "logp_ref": [-1.0], "source": source}
        for reward, source in ((1.0, "own"), (0.0, "baseline"), (1.0, "baseline"))
    ]
    rows += [{**row, "group": "b", "scores": {"reward": 0.0}} for row in rows]
    shown = inspect_rows(A_STAR_PO, rows)
    best = 0.5 * np.log(np.mean(np.exp(np.array([0.0, 1.0]) / 0.5)))
    assert shown["advantages"][0] == pytest.approx([1 - best])
    assert [row[0] for row in shown["weight"]] == [1.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    hopeful = inspect_rows(A_STAR_PO.but({"credit.hopeless": True}), rows)
    assert [row[0] for row in hopeful["weight"]] == [1.0, 0.0, 0.0, 1.0, 0.0, 0.0]
    credit = OptimalValueMargin()
    first = {"version": 1, "trajectories": [{**row, "id": str(n)} for n, row in enumerate(rows)]}
    batch = find("ppo").combine(RecordedBatch(first).batch, {})
    _, state = credit(batch, credit.init())
    assert state["values"] == {"a": pytest.approx(best), "b": None}
    alone = batch.select(torch.tensor([0, 3]))
    found, again = credit(alone, state)
    assert found.advantage.tolist() == pytest.approx([1 - best, 0.0])
    assert again == state


# ------------------------------------------------------------ the adaptive penalty


def test_the_coefficient_follows_the_kl_of_each_mini_batch() -> None:
    update = AdaptedPenalty(target=0.01)
    assert update.adapted(1.0, 0.0151) == 2.0
    assert update.adapted(1.0, 0.0066) == 0.5
    assert update.adapted(1.0, 0.01) == 1.0
    assert KL_PENALTY_PPO.init()["update"] == {"coefficient": 1.0}


def test_the_penalty_of_an_update_is_the_next_ones_start() -> None:
    from hocket.lab.bench import Bench
    from hocket.lab.world import World

    world = World(questions=2, tokens=3, horizon=2, reward=lambda _, answer: float(answer[0] == 1), end=2)
    bench = Bench(world, KL_PENALTY_PPO.but({"update.lr": 0.3, "rollout.samples": 8}), 0)
    first = bench.step().metrics
    assert first["kl/old"] > 0
    held = bench.learner.memory["update"]["coefficient"]
    assert held != 1.0
    assert bench.learner.memory["update"]["coefficient"] == held
    # Sixteen mini-batches, each a factor of 2, 1 or 1/2.
    assert np.log2(held) == round(np.log2(held))
    assert -16 <= np.log2(held) <= 16


# ------------------------------------------------------------ TPO


def test_triples_are_pairs_with_a_gold_answer_of_source_expert() -> None:
    asked: list[Assignment] = []

    async def play(assignments: list[Assignment]) -> list[Trajectory]:
        asked.extend(assignments)
        turn = Turn("agent", "policy", np.zeros(1, np.int64), np.zeros(2, np.int64))
        return [
            Trajectory(a.scenario, [turn], sample=a.first + n, source=a.source)
            for a in assignments
            for n in range(a.samples)
        ]

    scenario = Scenario("s", "why?", answer="gold", metadata={"chosen": "good", "rejected": "bad"})
    assignment = Assignment(scenario, decoding=Decoding())
    experience = run_async(Triples().collect([assignment], play=play, score=None, ledger=None, key=Key.of(0)))
    assert [one.source for one in experience.trajectories] == ["imported", "imported", "expert"]
    assert [one.source for one in asked] == ["imported", "expert"]
    assert asked[-1].scenario.metadata["demonstration"] == "gold"
    bare = replace(assignment, scenario=replace(scenario, answer=None))
    with pytest.raises(ConfigurationError, match="neither metadata 'demonstration' nor an answer"):
        run_async(Triples().collect([bare], play=play, score=None, ledger=None, key=Key.of(0)))


# ------------------------------------------------------------ ECHO


def test_observations_are_imitated_beside_a_loss_that_does_not_know_of_them() -> None:
    document = random_document(Key.of(3), groups=2, samples=3, graded=True)
    sampled = [{**row, "truncated": False} for row in document["trajectories"]]
    texts = [{"group": f"group {n}{OBSERVED}", "logp": logp} for n, logp in enumerate(([-1.0, -2.0, -0.5], [-3.0]))]
    texts = [{**one, "logp_behaviour": one["logp"], "scores": {}, "source": "imported"} for one in texts]
    alone, both = inspect_rows(find("grpo"), sampled), inspect_rows(ECHO, [*sampled, *texts])
    assert both["loss"] == pytest.approx(alone["loss"] + 0.1 * 6.5 / 4)
    assert [x for row in both["gradient"][:6] for x in row] == pytest.approx(
        [x for row in alone["gradient"] for x in row]
    )
    assert [x for row in both["gradient"][6:] for x in row] == pytest.approx([-0.1 / 4] * 4)


def test_later_observations_of_tools_become_turns_of_their_own() -> None:
    first = Turn("agent", "policy", np.array([1, 2]), np.array([3]), prompt=[{"role": "user", "content": "x"}])
    told = [{"role": "user", "content": "x"}, {"role": "tool", "content": "y"}]
    second = Turn("agent", "policy", np.array([4, 5, 6]), np.array([7]), parent=first, prompt=told)
    asked = [{"role": "user", "content": "x"}, {"role": "user", "content": "y"}]
    third = Turn("agent", "policy", np.array([8]), np.array([9]), parent=second, prompt=asked)

    async def play(assignments: list[Assignment]) -> list[Trajectory]:
        return [Trajectory(one.scenario, [first, second, third]) for one in assignments]

    async def score(trajectories: list[Trajectory]) -> None:
        return None

    assignment = Assignment(Scenario("s", "x"), decoding=Decoding())
    for roles, texts in ((("tool",), [[4, 5, 6]]), ((), [[4, 5, 6], [8]]), (("system",), [])):
        rollout = WithObservations(samples=1, roles=roles)
        found = run_async(rollout.collect([assignment], play=play, score=score, ledger=None, key=Key.of(0)))
        observed = [turn for one in found.trajectories[1:] for turn in one.turns]
        assert [turn.action.tolist() for turn in observed] == texts
        assert found.metrics == {"rollout/observed": float(sum(map(len, texts)))}
    assert [turn.parent for turn in observed] == []


# ------------------------------------------------------------ teachers by name


def test_teachers_are_read_from_one_setting() -> None:
    assert named_teachers("runs/a") == (None, {"": "runs/a"})
    assert named_teachers("http://h:1/v1#m") == (None, {"": "http://h:1/v1#m"})
    assert named_teachers("a=runs/a, b=http://h:1/v1") == ("teacher", {"a": "runs/a", "b": "http://h:1/v1"})
    assert named_teachers("by=topic,a=x") == ("topic", {"a": "x"})
    for wrong, sentence in (
        ("a=x,b", "'b' is not NAME=WHERE"),
        ("a=x,a=y", "'a=y' is not"),
        ("by=x", "names no teacher"),
    ):
        with pytest.raises(ConfigurationError, match=sentence):
            named_teachers(wrong)


class Held:
    """A learner as far as its teacher goes."""

    def __init__(self, policy: CausalLM, recipe: object) -> None:
        self.policy, self.recipe, self.reference, self.frozen = policy, recipe, policy, False
        install_parts(policy, recipe)


def test_teachers_are_seated_and_another_tokenizer_needs_gold(tmp_path) -> None:
    from other_tokenizer import write_other_nano

    other = str(write_other_nano(tmp_path / "other"))
    held = Held(CausalLM.from_pretrained(BASE, key=Key.of(0)), MULTI_TEACHER)
    seat_teachers(Config(teacher="a=nano,b=nano"), {"policy": held}, None, some=False)
    assert isinstance(held.reference, RoutedTeachers)
    assert held.reference.column == "teacher"
    with pytest.raises(ConfigurationError, match=r"reads other tokens than 'policy'; .* --recipe gold"):
        seat_teachers(Config(teacher=other), {"policy": held}, None, some=False)
    with pytest.raises(ConfigurationError, match="several teachers need learners = 1"):
        seat_teachers(Config(teacher="a=nano,b=nano", learners=2, leaves=2), {"policy": held}, None, some=False)
    with pytest.raises(ConfigurationError, match="behind a server needs learners = 1"):
        seat_teachers(Config(teacher="http://h:1/v1"), {"policy": held}, None, some=True)
    writing = Held(held.policy, GKD.but({"rollout.other": "teacher"}))
    with pytest.raises(ConfigurationError, match=r"recipe gkd samples from its teacher, and .* only read"):
        seat_teachers(Config(teacher="a=nano,b=nano"), {"policy": writing}, None, some=False)
    gold = Held(CausalLM.from_pretrained(BASE, key=Key.of(0)), GOLD)
    seat_teachers(Config(teacher=other), {"policy": gold}, None, some=False)
    assert type(gold.reference).__name__ == "OtherVocabulary"
    assert GOLD.learns_from_teacher
    assert not OPSD.learns_from_teacher
    assert OPSD.wants_reference


# ------------------------------------------------------------ settings


def test_settings_out_of_range_are_refused() -> None:
    for make in (
        lambda: ProbabilityBand(band=-1.0),
        lambda: OptimalValueMargin(temperature=0.0),
        lambda: ResampledByReward(by="most"),
        lambda: ResampledByReward(power=0.0),
        lambda: BehaviourKL(coefficient=-1.0),
        lambda: AdaptedPenalty(increment=0.5),
        lambda: AdaptedPenalty(target=0.0),
        lambda: NormalisedValues(rate=1.0),
        lambda: HuberValueLoss(delta=0.0),
        lambda: GoldLikelihood(coefficient=-1.0),
        lambda: ObservedLikelihood(coefficient=-1.0),
        lambda: SharedTokens(beta=-1.0),
    ):
        with pytest.raises(ValueError, match=r"must|above|choose"):
            make()
