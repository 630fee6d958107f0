"""Sounds as tokens: the model's own numbers, agreement, the silence that controls, and what is refused."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest
import tiny_hearing
import tiny_vision
import torch

from hocket.agents.workflows.chat import Chat
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.media import FIRST, MEDIA, with_pictures, with_sounds
from hocket.core.packing import pack
from hocket.core.sounds import open_sound, silence_like
from hocket.engine.local import LocalEngine
from hocket.engine.requests import Request
from hocket.policies.causal_lm import CausalLM
from hocket.policies.settings import LoraSettings
from hocket.policies.vision import SoundTower
from hocket.types import Decoding, Quantity, Scenario, Trajectory, Turn


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_hearing.write(tmp_path_factory.mktemp("models") / "audio")


@pytest.fixture(scope="module")
def policy(folder: Path) -> CausalLM:
    """One that no test changes."""
    return policy_at(folder)


def policy_at(folder: Path, **settings: object) -> CausalLM:
    return CausalLM.from_pretrained(folder, key=Key.of(0), **settings)


@cache
def chat_of(policy: CausalLM) -> Chat:
    return Chat(policy.tokenizer)


def prompt(policy: CausalLM, *sounds: str) -> tuple[int, ...]:
    return chat_of(policy).opening([{"role": "user", "content": with_sounds("What is heard? ", sounds)}])


def sampled(policy: CausalLM, contexts: list[tuple[int, ...]]) -> list[Turn]:
    way = Decoding(max_tokens=5)
    requests = [Request(context, way, Key.of(number)) for number, context in enumerate(contexts)]
    return [
        Turn("a", "policy", np.array(context), sample.tokens, logp=sample.logp, decoding=way)
        for context, sample in zip(contexts, LocalEngine(policy).sample(requests), strict=True)
    ]


def evaluated(policy: CausalLM, turns: list[Turn]) -> torch.Tensor:
    batch = pack([Trajectory(Scenario(str(n)), [turn], terminated=True) for n, turn in enumerate(turns)])
    return policy.evaluate(batch, {Quantity.LOGP}).get(Quantity.LOGP).detach()


@pytest.mark.parametrize("seconds", [2.0, 0.9])
def test_the_models_own_forward_pass(policy: CausalLM, seconds: float) -> None:
    """A sound as long as the model reads, and one that the processor fills up."""
    reader, vision = policy.model.vision.reader, policy.model.vision
    tokens = prompt(policy, tiny_hearing.sound(1, seconds))
    assert sum(token >= FIRST for token in tokens) == {2.0: 16, 0.9: 7}[seconds]
    inputs = reader.inputs(MEDIA.token(max(tokens)).picture)
    own = torch.tensor([[reader.token_id if token >= FIRST else token for token in tokens]])
    with torch.no_grad():
        due = vision.whole(input_ids=own, attention_mask=torch.ones_like(own), **inputs).logits[0]
    due[:, reader.token_id] = -torch.inf
    turn = Turn("a", "policy", np.array(tokens), np.array([40, 41, 42]), decoding=Decoding())
    assert abs(evaluated(policy, [turn])[0] - due.log_softmax(-1)[-1, 40]) < 2e-6


def test_what_is_sampled_is_what_is_learnt_from(policy: CausalLM) -> None:
    """To the last bit, for sounds of several lengths under one question; and other sounds are other numbers."""
    contexts = [prompt(policy, tiny_hearing.sound(seed, 2.0 / seed)) for seed in (1, 2, 3)]
    turns = sampled(policy, [context for context in contexts for _ in range(2)])
    assert torch.equal(evaluated(policy, turns), torch.from_numpy(np.concatenate([t.logp for t in turns])))
    other = [Turn("a", "policy", np.array(contexts[1]), turns[0].action, decoding=turns[0].decoding)]
    assert (evaluated(policy, turns[:1]) - evaluated(policy, other)).abs().max() > 1e-2


def test_company_changes_no_bit(policy: CausalLM) -> None:
    vision, reader = policy.model.vision, policy.model.vision.reader
    sounds = [tiny_hearing.sound(seed, 2.0 - 0.5 * (seed % 2)) for seed in range(20)]
    keys = [MEDIA.token(reader.ids(digest)[0]).picture for digest in sounds]
    together, alone = (SoundTower(vision.whole, reader) for _ in range(2))
    for one, rows in list(zip(keys, together.features(keys), strict=True))[::7]:
        assert torch.equal(alone.features([one])[0], rows)


def test_silence_is_heard_in_its_place(folder: Path) -> None:
    policy = policy_at(folder)
    digests = [tiny_hearing.sound(seed, 1.0) for seed in (1, 2)]
    policy.tokenizer.picture_reader.blind = True
    contexts = [prompt(policy, digest) for digest in digests]
    assert contexts[0] == contexts[1]
    assert len(contexts[0]) == len(prompt(policy_at(folder), digests[0]))
    silence = open_sound(silence_like(MEDIA.data(digests[0]), "a"), "a")
    assert (len(silence.samples), silence.rate, silence.samples.any()) == (16_000, 16_000, False)


def test_an_adapter_is_saved_into_the_whole_model(folder: Path, tmp_path: Path) -> None:
    policy = policy_at(folder, lora=LoraSettings(rank=2))
    with torch.no_grad():
        for weight in policy.parameter_groups()["policy"]:
            weight.add_(0.05 * torch.randn(weight.shape, generator=Key.of(3).torch()))
    turn = sampled(policy, [prompt(policy, tiny_hearing.sound(1))])[0]
    policy.save(tmp_path / "saved")
    merged = policy_at(tmp_path / "saved")
    assert (evaluated(merged, [turn]) - evaluated(policy, [turn])).abs().max() < 1e-5
    merged.save(tmp_path / "again")
    assert torch.equal(evaluated(policy_at(tmp_path / "again"), [turn]), evaluated(merged, [turn]))


def test_a_spelt_placeholder_is_letters(policy: CausalLM) -> None:
    reader = policy.tokenizer.picture_reader
    ids = chat_of(policy).opening([{"role": "user", "content": with_sounds("<audio>", [tiny_hearing.sound(1)])}])
    assert (reader.token, reader.token_id in ids, sum(token >= FIRST for token in ids)) == ("<audio>", False, 16)


def test_what_is_refused_in_a_sentence(policy: CausalLM) -> None:
    with pytest.raises(ConfigurationError, match="has 8,000 samples a second, and the model reads 16,000; resample it"):
        prompt(policy, tiny_hearing.sound(1, rate=8_000))
    with pytest.raises(ConfigurationError, match=r"lasts 2\.1 s, and the model reads 2 s at most; cut it yourself"):
        prompt(policy, tiny_hearing.sound(1, 2.1))
    seen = [{"role": "user", "content": with_pictures("?", [tiny_vision.picture(1)])}]
    with pytest.raises(ConfigurationError, match=r"reads sounds; choose a model that reads pictures, .* nano-vlm"):
        chat_of(policy).opening(seen)
