"""Pictures as tokens: identity, the model's own numbers, and that nothing depends on what is read beside them."""

import sys
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import tiny_vision
import torch

from hocket.agents.workflows.chat import Chat
from hocket.core import media
from hocket.core.batch import Batch
from hocket.core.errors import ConfigurationError, HocketError
from hocket.core.keys import Key
from hocket.core.media import FIRST, MEDIA, MediaStore, picture_id, with_pictures
from hocket.core.packing import pack
from hocket.engine.local import LocalEngine
from hocket.engine.requests import Request
from hocket.policies.causal_lm import CausalLM
from hocket.policies.picture_reader import PictureReader
from hocket.policies.settings import LoraSettings
from hocket.policies.vision import Vision, language_part
from hocket.train.tower_rate import moving, with_tower_rate
from hocket.types import Decoding, Quantity, Scenario, Trajectory, Turn

WORDS = "What is shown? "


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_vision.write("llava", tmp_path_factory.mktemp("models") / "llava")


@pytest.fixture(scope="module")
def policy(folder: Path) -> CausalLM:
    """One that no test changes."""
    return policy_at(folder)


def policy_at(folder: Path, **settings: object) -> CausalLM:
    return CausalLM.from_pretrained(folder, key=Key.of(0), **settings)


@cache
def chat_of(policy: CausalLM) -> Chat:
    return Chat(policy.tokenizer)


def prompt(policy: CausalLM, *pictures: str, words: str = WORDS) -> tuple[int, ...]:
    return chat_of(policy).opening([{"role": "user", "content": with_pictures(words, pictures)}])


def sampled(policy: CausalLM, contexts: list[tuple[int, ...]], **settings: object) -> list[Turn]:
    """A turn of each context."""
    way = Decoding(max_tokens=5, **settings)
    requests = [Request(context, way, Key.of(number)) for number, context in enumerate(contexts)]
    return [
        Turn("a", "policy", np.array(context), sample.tokens, logp=sample.logp, decoding=way)
        for context, sample in zip(contexts, LocalEngine(policy).sample(requests), strict=True)
    ]


def evaluated(policy: CausalLM, turns: list[Turn]) -> torch.Tensor:
    batch = pack([Trajectory(Scenario(str(n)), [turn], terminated=True) for n, turn in enumerate(turns)])
    return policy.evaluate(batch, {Quantity.LOGP}).get(Quantity.LOGP).detach()


@pytest.mark.parametrize("family", [*tiny_vision.MAKERS, "internvl", "smolvlm"])
def test_the_models_own_forward_pass(family: str, tmp_path: Path) -> None:
    """Same ids as the processor writes, and the same log-probs as the model's own pass over pixels."""
    if family in tiny_vision.MAKERS:
        policy = policy_at(tiny_vision.write(family, tmp_path / family))
    else:
        with torch.random.fork_rng(devices=[]):
            whole, processor = getattr(tiny_vision, family)()
        policy = CausalLM(language_part(whole.eval(), PictureReader(processor)), processor.tokenizer)
        policy.tokenizer.picture_reader = policy.model.vision.reader
    reader, vision = policy.model.vision.reader, policy.model.vision
    tokens = prompt(policy, tiny_vision.picture(1, (16, 32) if family == "idefics3" else (16, 16)))
    inputs = reader.inputs(MEDIA.token(max(tokens)).picture)
    own = torch.tensor([[reader.token_id if token >= FIRST else token for token in tokens]])
    with torch.no_grad():
        due = vision.whole(input_ids=own, **inputs).logits[0]
    due[:, reader.token_id] = -torch.inf
    turn = Turn("a", "policy", np.array(tokens), np.array([40, 41, 42]), decoding=Decoding())
    first = evaluated(policy, [turn])[0]
    assert abs(first - due.log_softmax(-1)[-1, 40]) < 2e-6
    policy.share_prefixes = False
    assert abs(evaluated(policy, [turn])[0] - first) < 2e-6


class TestAgreement:
    """What is sampled is what is learnt from, to the last bit."""

    def test_three_pictures_under_one_prompt(self, policy: CausalLM) -> None:
        contexts = [prompt(policy, tiny_vision.picture(seed)) for seed in (1, 2, 3)]
        assert len(set(contexts)) == 3
        assert len({tuple(t for t in context if t < FIRST) for context in contexts}) == 1
        turns = sampled(policy, [context for context in contexts for _ in range(2)])
        assert torch.equal(evaluated(policy, turns), torch.from_numpy(np.concatenate([t.logp for t in turns])))

    def test_swapped_pictures_change_log_probs(self, policy: CausalLM) -> None:
        contexts = [prompt(policy, tiny_vision.picture(seed)) for seed in (1, 2)]
        turns = sampled(policy, contexts)
        swapped = [
            replace(turn, observation=np.array(other)) for turn, other in zip(turns, contexts[::-1], strict=True)
        ]
        assert (evaluated(policy, turns) - evaluated(policy, swapped)).abs().max() > 1e-2

    def test_company_and_order_change_no_bit(self, policy: CausalLM) -> None:
        vision, reader = policy.model.vision, policy.model.vision.reader
        digests = [tiny_vision.picture(seed) for seed in range(20)]
        pictures = [MEDIA.token(reader.ids(digest)[0]).picture for digest in digests]
        together, backwards, alone = (Vision(vision.whole, reader) for _ in range(3))
        features = together.features(pictures)
        for found in (backwards.features(pictures[::-1])[::-1], [alone.features([one])[0] for one in pictures[::4]]):
            due = features if len(found) == len(features) else features[::4]
            assert all(torch.equal(a, b) for a, b in zip(due, found, strict=True))

    def test_threads_change_no_bit(self, folder: Path, policy: CausalLM) -> None:
        other = policy_at(folder)
        context = prompt(policy, tiny_vision.picture(1))
        first = sampled(policy, [context])[0]
        torch.set_num_threads(2)
        try:
            second = sampled(other, [context])[0]
        finally:
            torch.set_num_threads(1)
        assert np.array_equal(first.logp, second.logp)

    def test_pages_before_a_picture_are_shared(self, policy: CausalLM) -> None:
        engine, engine_counts = LocalEngine(policy), []
        words = "a" * 64
        contexts = [
            chat_of(policy).opening(
                [
                    {
                        "role": "user",
                        "content": [{"type": "text", "text": words}, media.image_part(tiny_vision.picture(seed))],
                    }
                ]
            )
            for seed in (1, 2, 3)
        ]
        for context in contexts:
            engine.sample([Request(context, Decoding(max_tokens=1), Key.of(0))])
            engine_counts.append(engine.counts.computed)
        # The pages of the words are shared, and none after.
        assert engine_counts[1] - engine_counts[0] == len(contexts[0]) - 65
        assert engine_counts[2] - engine_counts[1] == len(contexts[0]) - 65

    def test_adapters_copies_and_files(self, folder: Path, tmp_path: Path) -> None:
        """A saved adapter is merged into the whole model, and copies share the tower."""
        policy = policy_at(folder, lora=LoraSettings(rank=2))
        with torch.no_grad():
            for weight in policy.parameter_groups()["policy"]:
                weight.add_(0.05 * torch.randn(weight.shape, generator=Key.of(3).torch()))
        turn = sampled(policy, [prompt(policy, tiny_vision.picture(1))])[0]
        policy.save(tmp_path / "saved")
        merged = policy_at(tmp_path / "saved")
        assert (evaluated(merged, [turn]) - evaluated(policy, [turn])).abs().max() < 1e-5
        assert (evaluated(policy.frozen_copy(), [turn]) - evaluated(policy, [turn])).abs().max() > 1e-4
        assert torch.equal(evaluated(policy.snapshot(), [turn]), evaluated(policy, [turn]))
        copied = merged.frozen_copy()
        parts = [one.model.vision.whole.model for one in (merged, copied)]
        assert parts[0].multi_modal_projector.linear_1.weight is parts[1].multi_modal_projector.linear_1.weight
        assert parts[1].language_model is copied.model.model
        assert torch.equal(evaluated(copied, [turn]), evaluated(merged, [turn]))


class TestTrainedTower:
    """A tower that learns: its gradient, its own rate, and that no older numbers are read."""

    def test_its_gradient_is_that_of_the_models_own_pass(self, folder: Path) -> None:
        policy = policy_at(folder)
        policy.train_tower(1e-3)
        turn = sampled(policy, [prompt(policy, tiny_vision.picture(1))])[0]
        batch = pack([Trajectory(Scenario("s"), [turn], terminated=True)])
        policy.evaluate(batch, {Quantity.LOGP}).get(Quantity.LOGP).sum().backward()
        weights = dict(policy.tower.named_parameters())
        gradients = {name: weight.grad for name, weight in weights.items() if weight.grad is not None}
        assert {name.split(".")[0] for name in gradients} == {"vision_tower", "multi_modal_projector"}
        for weight in weights.values():
            weight.grad = None
        vision, reader, tokens = policy.model.vision, policy.model.vision.reader, [*turn.observation, *turn.action]
        own = torch.tensor([[reader.token_id if token >= FIRST else token for token in tokens]])
        inputs = reader.inputs(MEDIA.token(max(tokens)).picture)
        logits = vision.whole(input_ids=own, **inputs).logits[0, -1 - len(turn.action) : -1]
        logits = logits.index_fill(-1, torch.tensor([reader.token_id]), -torch.inf)
        logits.log_softmax(-1).gather(-1, torch.from_numpy(turn.action)[:, None]).sum().backward()
        assert all(torch.allclose(weights[name].grad, due, rtol=1e-3, atol=1e-4) for name, due in gradients.items())

    def test_what_is_sampled_is_learnt_from_after_a_step_as_well(self, folder: Path, tmp_path: Path) -> None:
        policy = policy_at(folder)
        policy.train_tower(1e-2)
        reference = policy.frozen_copy()
        contexts = [prompt(policy, tiny_vision.picture(seed)) for seed in (1, 2)]
        optimiser = with_tower_rate(torch.optim.SGD([*policy.module.parameters()], lr=1e-30), policy)
        assert [group["lr"] for group in optimiser.param_groups] == [1e-30, 1e-2]
        for _ in range(2):
            turns = sampled(policy, contexts)
            logp = evaluated(policy, turns)
            assert torch.equal(logp, torch.from_numpy(np.concatenate([turn.logp for turn in turns])))
            batch = pack([Trajectory(Scenario("s"), [turn], terminated=True) for turn in turns])

            def update(batch: Batch = batch) -> dict[str, float]:
                optimiser.zero_grad()
                policy.evaluate(batch, {Quantity.LOGP}).get(Quantity.LOGP).sum().backward()
                optimiser.step()
                return {"loss": 0.0}

            moved = moving(policy, update)
            assert moved["moved/language"] < 1e-12
            assert min(moved["moved/vision_tower"], moved["moved/multi_modal_projector"]) > 1e-6
            policy.version += 1
        fresh = policy_at(folder)
        assert torch.equal(evaluated(reference, turns), evaluated(fresh, turns))
        assert (evaluated(policy, turns) - evaluated(fresh, turns)).abs().max() > 1e-3
        policy.save(tmp_path / "saved")
        fresh.train_tower(1e-2)
        evaluated(fresh, turns)
        fresh.load(tmp_path / "saved")
        for other in (fresh, policy_at(tmp_path / "saved"), policy.snapshot()):
            assert torch.equal(evaluated(other, turns), evaluated(policy, turns))

    def test_what_cannot_be_trained_is_refused(self, folder: Path) -> None:
        with pytest.raises(ConfigurationError, match="an adapter trains the language part alone"):
            policy_at(folder, lora=LoraSettings(rank=2)).train_tower(1e-3)


class TestIdentity:
    def test_ids_lie_outside_every_vocabulary(self) -> None:
        ids = [picture_id("ab", place) for place in range(1000)]
        assert len(set(ids)) == 1000
        assert min(ids) >= 2**62
        assert max(ids) < 2**63
        assert picture_id("ab", 3) != picture_id("ab 3", 0)

    def test_a_clash_is_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        store = MediaStore()
        monkeypatch.setattr(media, "picture_id", lambda picture, place: FIRST + place)
        store.register("p", store.put(b"1", "a.png"), 2)
        with pytest.raises(HocketError, match=r"b\.png and a\.png share the token id"):
            store.register("q", store.put(b"2", "b.png"), 2)

    def test_another_process_finds_what_the_folder_holds(self, tmp_path: Path) -> None:
        first, second = MediaStore(), MediaStore()
        first.attach(tmp_path / "media")
        second.attach(tmp_path / "media")
        source = first.put(b"file")
        ids = first.register("p", source, 3)
        with (tmp_path / "media" / "index.jsonl").open("a") as index:
            index.write('{"picture": "half')  # A process that was killed.
        assert second.token(ids[2]) == ("p", 2)
        assert second.data(second.processed("p").source) == b"file"
        assert sorted(file.name for file in (tmp_path / "media").iterdir()) == sorted([source, "index.jsonl"])
        with pytest.raises(HocketError, match="belongs to no known picture"):
            second.token(FIRST)

    def test_ten_thousand_stored_pictures_are_found_in_a_second(self, tmp_path: Path) -> None:
        folder = tmp_path / "media"
        folder.mkdir()
        rows = (f'{{"picture": "{n}", "source": "{n}", "tokens": 2}}\n' for n in range(10_000))
        (folder / "index.jsonl").write_text("".join(rows))
        store = MediaStore()
        store.attach(folder)
        assert store.token(picture_id("9999", 1)) == ("9999", 1)

    def test_a_changed_file_is_told(self, tmp_path: Path) -> None:
        (tmp_path / "a.png").write_bytes(b"1")
        store = MediaStore()
        digest = store.put_file(tmp_path / "a.png")
        (tmp_path / "a.png").write_bytes(b"2")
        with pytest.raises(HocketError, match="has changed since it was read"):
            store.data(digest)


class TestForgery:
    """Nothing that is said becomes a picture."""

    def test_a_spelt_placeholder_is_letters(self, policy: CausalLM) -> None:
        reader = policy.tokenizer.picture_reader
        chat = chat_of(policy)
        digest = tiny_vision.picture(1)
        for words in ("<image>", f"\ufdd0122\ufdd1\ufdd6{digest}\ufdd7", f"<image>{digest}"):
            for role in ("user", "tool", "system"):
                ids = chat.opening([{"role": role, "content": words}, {"role": "user", "content": "?"}])
                assert max(ids) < FIRST
                assert reader.token_id not in ids
        ids = chat.opening([{"role": "user", "content": with_pictures("<image>", [digest])}])
        assert sum(token >= FIRST for token in ids) == 16

    def test_the_placeholder_is_never_written(self, folder: Path) -> None:
        policy = policy_at(folder)
        with torch.no_grad():  # As far as its weights go, the model wants nothing else.
            policy.model.lm_head.weight[policy.tokenizer.picture_reader.token_id] = 100.0
        turn = sampled(policy, [prompt(policy, tiny_vision.picture(1))], temperature=2.0)[0]
        assert policy.tokenizer.picture_reader.token_id not in turn.action
        assert np.isfinite(turn.logp).all()

    def test_a_text_model_refuses_pictures(self) -> None:
        from hocket.nano import BASE
        from hocket.policies.loading import read_tokenizer

        chat = Chat(read_tokenizer(str(BASE)))
        with pytest.raises(ConfigurationError, match="reads words alone; choose a model that reads pictures"):
            chat.opening([{"role": "user", "content": with_pictures("?", [tiny_vision.picture(1)])}])

    def test_a_template_that_shows_no_pictures(self, folder: Path) -> None:
        policy = policy_at(folder)
        template = policy.tokenizer.chat_template.replace("'<image>' if part.type == 'image' else ", "'' ~ ")
        policy.tokenizer.chat_template = template
        with pytest.raises(ConfigurationError, match="shows 0 of 1 pictures"):
            prompt(policy, tiny_vision.picture(1))

    def test_a_template_of_parts_alone(self, folder: Path) -> None:
        policy = policy_at(folder)
        asked = (
            [{"role": "user", "content": "Hm"}],
            [{"role": "user", "content": with_pictures("?", [tiny_vision.picture(1)])}],
        )
        due = [*map(Chat(policy.tokenizer).opening, asked)]
        policy.tokenizer.chat_template = policy.tokenizer.chat_template.replace(
            "{%- if content is string -%}{{- content -}}{%- else -%}", "{%- if true -%}"
        )
        assert [*map(Chat(policy.tokenizer).opening, asked)] == due


def test_pictures_need_pillow(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'hocket\[media\]'"):
        policy_at(folder)


def test_families_that_are_not_computed_are_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "qwen3_vl"}')
    with pytest.raises(ConfigurationError, match=r"reads a picture's features in several layers.*idefics3"):
        policy_at(tmp_path)
