"""Scorers: the same numbers alone, together, in parts, and in `transformers`, padded on either side."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent.parent / "engine"))
import tiny_models

from hocket.core.errors import ConfigurationError, HocketError
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.credit.pairs import AllPairs
from hocket.credit.score_positions import ReadAt
from hocket.nano import BASE
from hocket.objectives.scores import BradleyTerry
from hocket.policies.loading import read_model
from hocket.policies.scorer import Scorer, over_trunk, padding
from hocket.policies.settings import LoraSettings
from hocket.types import Quantity, Scenario, Score, Trajectory, Turn
from hocket.update.gradient import GradientStep
from hocket.update.problem import Problem

torch.set_num_threads(1)
FAMILY = ("qwen3", "qwen2", "llama", "mistral", "gpt2")


def scorer(kind: str = "llama", outputs: int = 2, **more) -> Scorer:
    words = tiny_models.tokenizer()
    return Scorer(over_trunk(tiny_models.model(kind, len(words), **more), outputs, Key.of(3)), words)


def answers(scenarios=2, samples=4, seed=0):
    """Groups with a common prompt and answers of unequal lengths that end in the end of turn."""
    draw = Key.of(seed).numpy()
    found = []
    for number in range(scenarios):
        prompt = draw.integers(3, 40, 12)
        for sample in range(samples):
            said = np.append(draw.integers(3, 40, draw.integers(1, 20)), 1)
            scores = {"reward": Score(float(sample))}
            turn = Turn("a", "policy", prompt, said)
            found.append(Trajectory(Scenario(str(number)), [turn], sample, scores=scores))
    return found


def ids(trajectory):
    return [token for turn in trajectory.turns for token in (*turn.observation.tolist(), *turn.action.tolist())]


@pytest.mark.parametrize("kind", FAMILY)
def test_transformers_gives_the_same_scores_whichever_side_is_padded(kind, tmp_path):
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    policy, played = scorer(kind), answers()
    policy.save(tmp_path)
    model = AutoModelForSequenceClassification.from_pretrained(tmp_path)
    words = AutoTokenizer.from_pretrained(tmp_path)
    assert model.config.num_labels == 2
    ours = policy.scores(played)
    for trajectory, row in zip(played, ours, strict=True):
        with torch.no_grad():
            alone = model(torch.tensor([ids(trajectory)])).logits[0]
        assert torch.allclose(alone, row, atol=1e-5, rtol=0)
    for side in ("right", "left") if kind != "gpt2" else ("right",):  # Its positions are absolute.
        words.padding_side = side
        padded = words.pad([{"input_ids": ids(one)} for one in played], return_tensors="pt")
        with torch.no_grad():
            assert torch.allclose(model(**padded).logits, ours, atol=1e-5, rtol=0)
    assert torch.equal(Scorer.from_pretrained(tmp_path, key=Key.of(9)).scores(played), ours)


def test_padding_is_no_end_of_turn(tmp_path):
    """As in SmolLM2, whose padding token ends its turns: `transformers` would score the token before the end."""
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    policy, played = scorer(), answers()
    policy.tokenizer.pad_token = "<end>"
    policy.model.config.pad_token_id = 1
    policy.save(tmp_path)
    assert policy.tokenizer.pad_token == "<end>", "the run's own tokenizer stays as it is"
    words = AutoTokenizer.from_pretrained(tmp_path)
    assert (words.pad_token, words.pad_token_id) == ("<pad>", 0)
    model = AutoModelForSequenceClassification.from_pretrained(tmp_path)
    padded = words.pad([{"input_ids": ids(one)} for one in played], return_tensors="pt")
    with torch.no_grad():
        assert torch.allclose(model(**padded).logits, policy.scores(played), atol=1e-5, rtol=0)
        model.config.pad_token_id = 1
        wrong = model(**padded).logits
    assert (wrong - policy.scores(played)).abs().max() > 0.01, "without this the test could not fail"


def test_without_any_other_special_token_there_is_no_padding():
    words = tiny_models.tokenizer()
    assert padding(words, {1}) == "<pad>"
    assert padding(words, {0, 1, 2}) is None


@pytest.mark.parametrize("shared", [True, False])
def test_scores_together_are_those_alone(shared):
    policy, played = scorer(), answers(3, 5)
    policy.share_prefixes = shared
    together = policy.scores(played)
    alone = torch.cat([policy.scores([one]) for one in played])
    assert torch.allclose(together, alone, atol=1e-6)
    policy.token_budget = 40
    assert torch.allclose(policy.scores(played), together, atol=1e-6)
    other = scorer()
    other.share_prefixes = not shared
    assert torch.allclose(other.scores(played), together, atol=1e-5)


def test_the_base_gives_the_same_bits_in_any_company():
    policy, played = Scorer.from_pretrained(BASE, key=Key.of(0)), answers(3, 5)
    assert torch.equal(policy.scores(played), torch.cat([policy.scores([one]) for one in played]))


def test_a_score_is_read_after_its_decision():
    """It knows the decision, and nothing that comes later; a value knows neither."""
    policy, (one, *_) = scorer(outputs=1), answers()
    batch = pack([one])
    score = policy.evaluate(batch, {Quantity.SCORE}).get(Quantity.SCORE)
    states = policy.model.base_model(input_ids=torch.tensor([ids(one)])).last_hidden_state[0]
    by_hand = states[len(one.turns[0].observation) :] @ policy.model.score.weight.T
    assert torch.allclose(score, by_hand, atol=1e-5)


def test_trajectories_without_decisions_and_several_turns():
    first = Turn("a", "policy", np.array([5, 6]), np.array([7, 1]))
    last = Turn("a", "policy", np.array([8]), np.array([9, 1]), parent=first)
    silent = Trajectory(Scenario("s"), [Turn("a", "policy", np.array([5]), np.zeros(0, np.int64))])
    policy = scorer()
    found = policy.scores([Trajectory(Scenario("t"), [first, last]), silent, Trajectory(Scenario("u"), [first])])
    assert found[1].isnan().all()
    assert not found[[0, 2]].isnan().any()
    one = Trajectory(Scenario("t"), [Turn("a", "policy", np.array([5, 6, 7, 1, 8]), np.array([9, 1]))])
    assert torch.allclose(found[0], policy.scores([one])[0], atol=1e-6)
    assert policy.scores([]).shape == (0, 2)


def gradient_at(budget, outputs=2):
    policy = scorer(outputs=outputs)
    policy.token_budget = budget
    batch = pack(answers(3, 3))
    batch = batch.but(occurrences=ReadAt(AllPairs())(batch))
    objective = BradleyTerry(output=1, centring=0.1)
    problem = Problem(
        batch=batch,
        policy=policy,
        optimiser=GradientStep().optimiser(policy),
        loss_terms=lambda now, part: [objective(now, part)],
        needs=objective.needs,
        couples=objective.couples,
        idle_without_advantage=False,
    )
    metrics = problem.gradient()
    assert problem.measured()["loss"] == pytest.approx(metrics["loss"], abs=1e-6)
    return len(policy.chunks(batch, problem.live(batch))), metrics, [p.grad for p in policy.module.parameters()]


def test_the_gradient_of_pairs_does_not_depend_on_micro_batches():
    parts, metrics, whole = gradient_at(8192)
    more, again, split = gradient_at(30)
    assert (parts, more > 3) == (1, True)
    assert again["loss"] == pytest.approx(metrics["loss"], abs=1e-6)
    for one, other in zip(whole, split, strict=True):
        assert (one is None) == (other is None)
        assert one is None or torch.allclose(one, other, atol=1e-6)
    assert any(one is not None and one.abs().max() > 1e-4 for one in whole)


def test_a_new_head_draws_from_its_key_alone():
    before = torch.get_rng_state()
    one, other = (Scorer.from_pretrained(BASE, key=Key.of(n)) for n in (0, 1))
    assert torch.equal(torch.get_rng_state(), before)
    assert not torch.equal(one.model.score.weight, other.model.score.weight)
    assert torch.equal(one.model.score.weight, Scorer.from_pretrained(BASE, key=Key.of(0)).model.score.weight)


def test_adapters_and_head_are_trained_saved_and_loaded(tmp_path):
    base = tmp_path / "base"
    tiny = scorer(outputs=1)
    tiny.save(base)
    policy = Scorer.from_pretrained(base, lora=LoraSettings(rank=2), key=Key.of(0))
    trained = [name for name, one in policy.module.named_parameters() if one.requires_grad]
    assert "model.score.weight" in trained
    assert all("lora_" in name or "score" in name for name in trained)
    with torch.no_grad():
        for name, one in policy.module.named_parameters():
            if one.requires_grad:
                one.add_(torch.randn(one.shape, generator=Key.of(4).derive(name).torch()) * 0.1)
    played = answers()
    policy.save(tmp_path / "saved")
    ours = policy.scores(played)
    assert (ours - tiny.scores(played)).abs().max() > 0.01
    assert torch.allclose(Scorer.from_pretrained(tmp_path / "saved", key=Key.of(0)).scores(played), ours, atol=1e-5)
    again = Scorer.from_pretrained(base, lora=LoraSettings(rank=2), key=Key.of(0))
    again.load(tmp_path / "saved")
    assert torch.equal(again.scores(played), ours)


def test_a_copy_stays_as_it_is():
    policy, played = scorer(), answers()
    copied, before = policy.frozen_copy(), policy.scores(played)
    with torch.no_grad():
        policy.model.score.weight.add_(1.0)
    assert torch.equal(copied.scores(played), before)
    assert not any(one.requires_grad for one in copied.module.parameters())


def test_refusals(tmp_path):
    policy = scorer()
    with pytest.raises(ConfigurationError, match="is a scorer and gives no logp"):
        policy.require(frozenset({Quantity.SCORE, Quantity.LOGP}))
    with pytest.raises(HocketError, match="gives no entropy"):
        policy.evaluate(pack(answers()), {Quantity.ENTROPY})
    with pytest.raises(ConfigurationError, match="writes answers and gives no scores"):
        tiny_models.policy().require(frozenset({Quantity.SCORE}))
    policy.save(tmp_path)
    with pytest.raises(ConfigurationError, match="has 2 outputs, and 3 are read"):
        Scorer.from_pretrained(tmp_path, outputs=3, key=Key.of(0))
    with pytest.raises(ConfigurationError, match="is a scorer and writes no answers"):
        read_model(str(tmp_path), torch.float32)
    other = scorer(outputs=3)
    with pytest.raises(ConfigurationError, match="another shape"):
        other.load(tmp_path)
    with pytest.raises(HocketError, match="exceeds the context"):
        policy.scores([Trajectory(Scenario("s"), [Turn("a", "policy", np.full(300, 5), np.array([1]))])])
