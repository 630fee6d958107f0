"""Latent thoughts: gates, sampling streams and learning from stored summaries."""

import numpy as np
import pytest
import torch

from hocket import tasks
from hocket.core.errors import ConfigurationError, HocketError
from hocket.core.keys import Key
from hocket.lab.claims.shipped_check import configured
from hocket.methods.group_relative.claims.hrpo import _batch, _policy
from hocket.methods.group_relative.hrpo.latent import THINKING, LatentGate, LatentPlayer
from hocket.train.aio import run_async
from hocket.train.assemble import build_parts
from hocket.train.loop import train_step
from hocket.types import Assignment, Quantity, Scenario

torch.set_num_threads(1)


def test_the_gate_begins_between_its_bounds_and_with_tokens():
    gate = LatentGate(16, key=Key.of(0), least=0.95)
    with torch.no_grad():
        gate.reset.weight.zero_()
        gate.reset.bias.fill_(100.0)
        share, rest = gate.weights(torch.randn(3, 16, generator=Key.of(1).torch()))
    assert float(share.min()) >= 0.95 - 1e-6
    assert float(share.max()) <= 0.999 + 1e-6
    torch.testing.assert_close(share.square() + rest.square(), torch.ones_like(share))


def test_a_closed_gate_has_finite_gradients():
    gate = LatentGate(4, key=Key.of(0))
    with torch.no_grad():
        gate.decay.fill_(1e4)
    embedding = torch.randn(2, 4, generator=Key.of(1).torch())
    assert torch.equal(gate(embedding, torch.ones(2, 4)), embedding)
    gate(embedding, torch.ones(2, 4)).sum().backward()
    assert all(bool(torch.isfinite(weight.grad).all()) for weight in gate.parameters())


def test_a_sample_depends_on_its_own_stream_alone():
    policy = _policy(0, 3, least=0.5)
    words = np.array([Key.of(n).word for n in range(4)], np.uint64)
    together = policy.sample([[5, 1, 3]] * 4, words, 5, 1.0)
    alone = policy.sample([[5, 1, 3]], words[2:3], 5, 1.0)
    assert together[0][2].tolist() == alone[0][0].tolist()
    np.testing.assert_allclose(together[1][2], alone[1][0], atol=1e-5)


def test_thinking_ends_with_the_marker_and_the_limit():
    policy = _policy(0, 3, marker=2)
    tokens = np.array([[1, 2, 1, 1], [1, 1, 1, 1], [2, 1, 1, 1]])
    assert policy.thinking(tokens).astype(int).tolist() == [[1, 0, 0, 0], [1, 1, 1, 0], [0, 0, 0, 0]]


def test_some_decisions_are_evaluated_as_among_all():
    policy = _policy(1, 4, least=0.5)
    batch = _batch(policy)
    chosen = torch.tensor([0, 7, 8, 20, 41])
    part, whole = policy.evaluate(batch, {Quantity.ENTROPY}, chosen), policy.evaluate(batch, {Quantity.ENTROPY})
    torch.testing.assert_close(part.logp[chosen], whole.logp[chosen])
    torch.testing.assert_close(part.entropy[chosen], whole.entropy[chosen])
    picked = batch.select(torch.tensor([1, 4]))
    mine = picked.occurrences.decision
    torch.testing.assert_close(policy.evaluate(picked, set(), mine).logp[mine], whole.logp[mine])


def test_the_gate_learns_from_thoughts_only():
    policy = _policy(1, 4, least=0.5)
    batch = _batch(policy)
    policy.evaluate(batch, set()).logp.sum().backward()
    assert float(policy.gate.decay.grad.abs().max()) > 0
    policy.module.zero_grad(set_to_none=True)
    silent = [np.zeros_like(column) for column in batch.info[THINKING.name]]
    policy.evaluate(batch.but(info={**batch.info, THINKING.name: silent}), set()).logp.sum().backward()
    assert not policy.gate.decay.grad.any()


def test_it_goes_through_its_files_and_refuses_a_critic(tmp_path):
    policy, other = _policy(1, 4, least=0.5), _policy(2, 4)
    policy.save(tmp_path)
    other.load(tmp_path)
    batch = _batch(policy)
    torch.testing.assert_close(other.evaluate(batch, set()).logp, policy.evaluate(batch, set()).logp)
    with pytest.raises(HocketError, match="critic"):
        policy.require(frozenset({Quantity.VALUE}))


def test_rows_end_with_a_stop_and_are_read_beside_longer_questions():
    policy = _policy(0, 3, least=0.5)
    policy.stops = (1,)
    words = np.array([Key.of(n).word for n in range(4)], np.uint64)
    questions = [[5, 1, 3], [5, 1, 3, 2, 0], [4], [5, 1, 3]]
    tokens, logp, _ = policy.sample(questions, words, 12, 1.0)
    for row, question in enumerate(questions):
        alone = policy.sample([question], words[row : row + 1], 12, 1.0)
        length = alone[0].shape[1]
        assert tokens[row, :length].tolist() == alone[0][0].tolist()
        np.testing.assert_allclose(logp[row, :length], alone[1][0], atol=1e-5)
        assert (alone[0][0] == 1).sum() == (alone[0][0, -1] == 1)


def _parts(**settings):
    task = tasks.find("sums")
    small = {"curriculum.prompts": 2, "rollout.samples": 2, "decoding.max_tokens": 12, "threads": 1}
    return build_parts(configured("hrpo", "sums", task, {**small, **settings}), task)


def test_hocket_train_makes_the_policy_of_the_language_model(tmp_path):
    parts = _parts()
    policy = parts.lead.policy
    assert policy.marker == policy.tokenizer.convert_tokens_to_ids("<answer>")
    result = run_async(train_step(parts, 1))
    assert result.metrics["agreement/largest"] < 1e-4
    for trajectory in result.trajectories:
        turn, thinking = trajectory.turns[0], THINKING.get(trajectory)
        ends = [place for place, token in enumerate(turn.action.tolist()) if token in policy.stops]
        assert ends == ([len(turn) - 1] if turn.finish == "stop" else [])
        assert len(thinking) == len(turn)
        assert trajectory.text == parts.player.text(turn.action.tolist(), turn.observation.tolist())
    with torch.no_grad():
        policy.gate.decay.add_(0.5)
    policy.save(tmp_path)
    again = _parts(model=str(tmp_path)).lead.policy
    assert torch.equal(again.gate.decay, policy.gate.decay)


@pytest.mark.parametrize(("task", "why"), [("lookup", "answers questions at once"), ("gym:CartPole-v1", "kind latent")])
def test_tasks_that_latent_thoughts_cannot_play_are_refused(task, why):
    found = tasks.find(task)
    with pytest.raises(ConfigurationError, match=why):
        build_parts(configured("hrpo", task, found, {"threads": 1}), found)


def test_answers_that_others_began_are_refused():
    player = LatentPlayer(_policy(0, 3), lambda scenario: [1], 4)
    with pytest.raises(ConfigurationError, match="begin with the question"):
        run_async(player.play([Assignment(Scenario("s", "s"), prefix=(1,))], key=Key.of(0)))
