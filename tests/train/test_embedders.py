"""`--embedder`: vectors of texts, from the policy's own states, a sentence model or an own function."""

from __future__ import annotations

import json
import re
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_runs import TINY, assert_same, call, rows, train

from hocket import tasks
from hocket.core.columns import EMBEDDING, TURN_EMBEDDINGS
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.nano import BASE
from hocket.policies.causal_lm import CausalLM
from hocket.recipes import find
from hocket.rewards.embedding import embeddings, text_vectors
from hocket.train.config import configure
from hocket.train.embedders import PolicyEmbedder, TextEmbedder, embedder_of
from hocket.train.trainer import Trainer
from hocket.types import Scenario, Trajectory, Turn

EMBEDDERS = """
def letters(texts):
    return [[1.0 + text.count(letter) for letter in "0123456789"] for text in texts]

def few(texts):
    return [[1.0]]

def broken(texts):
    raise OSError("no key")
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    found = tmp_path / "embedders.py"
    found.write_text(EMBEDDERS)
    return found


def turn(name: str, prompt: list[int], action: list[int], parent: int | None = None) -> Turn:
    return Turn(
        name, name, np.array(prompt), np.array(action), logp=np.zeros(len(action), np.float32), text=str(action)
    )


def trainer(tmp_path: Path, *pairs: tuple[str, Any]) -> Trainer:
    settings = [("recipe", "dra-grpo"), ("runs", str(tmp_path)), ("threads", 1), ("steps", 1), ("evaluation.n", 4)]
    settings += [("curriculum.prompts", 2), ("rollout.samples", 3), ("decoding.max_tokens", 16), *pairs]
    return Trainer(configure(settings, tasks.find("sums")))


def test_a_policys_vector_is_the_mean_of_its_states_over_the_responses_tokens() -> None:
    policy = CausalLM.from_pretrained(BASE, key=Key.of(0))
    played = [
        Trajectory(Scenario("a"), [turn("policy", [5, 6, 7], [8, 9, 10])]),
        Trajectory(Scenario("a"), [turn("policy", [5, 6, 7], [8, 9])], 1),
        Trajectory(Scenario("b"), [turn("other", [5, 6], [8]), turn("policy", [5, 6], [11])]),
    ]
    found = policy.mean_states(pack(played))
    assert found.isnan().any(-1).tolist() == [False, False, True, False]
    for row, (prompt, action) in {0: ([5, 6, 7], [8, 9, 10]), 1: ([5, 6, 7], [8, 9]), 3: ([5, 6], [11])}.items():
        with torch.no_grad():
            states = policy.model.base_model(torch.tensor([[*prompt, *action]])).last_hidden_state[0]
        wanted = states[len(prompt) :].double().mean(0)
        assert torch.allclose(found[row], wanted, atol=1e-4), row


def test_columns_are_of_each_turn_and_of_the_last() -> None:
    played = [
        Trajectory(Scenario("a"), [turn("p", [1], [2, 3]), turn("p", [1], []), turn("p", [1], [4])]),
        Trajectory(Scenario("a"), [turn("p", [1], [2, 3])], 1),
    ]
    asked = []

    def embed(texts: list[str]) -> list[list[float]]:
        asked.append(texts)
        return [[float(len(text)), 1.0] for text in texts]

    batch = TextEmbedder("mine", embed).fill(pack(played), played, [])
    assert TURN_EMBEDDINGS.rows(batch) == [[[6.0, 1.0], [3.0, 1.0]], [[6.0, 1.0]]]
    assert EMBEDDING.rows(batch) == [[3.0, 1.0], [6.0, 1.0]]
    assert asked == [["[2, 3]", "[4]"]]
    recorded = pack(played).but(info={"embedding": [[9.0], [9.0]]})
    assert EMBEDDING.rows(TextEmbedder("mine", embed).fill(recorded, played, [])) == [[9.0], [9.0]]


def test_policies_without_states_leave_texts_to_their_n_grams() -> None:
    played = [Trajectory(Scenario("a"), [turn("p", [1], [2])]), Trajectory(Scenario("a"), [turn("p", [1], [3])], 1)]
    batch = PolicyEmbedder().fill(pack(played).but(info={"text": ["ab", "cd"]}), played, [object()])  # type: ignore[list-item]
    assert torch.equal(embeddings(batch, "test"), text_vectors(["ab", "cd"]))


@pytest.mark.parametrize("embedder", ["policy", "ngrams", "{file}:letters", None])
def test_runs_discount_by_the_embedder_that_is_named(embedder: str | None, tmp_path: Path, file: Path) -> None:
    named = None if embedder is None else embedder.format(file=file)
    run = trainer(tmp_path, *([("embedder", named)] if named else []))
    run.step()
    run.step()
    (episodes,) = (tmp_path / run.folder.name / "rollouts").glob("*.jsonl")
    assert episodes.stat().st_size
    kind = type(run.parts.embedder)
    assert kind is {"ngrams": type(None), "policy": PolicyEmbedder, None: PolicyEmbedder}.get(embedder, TextEmbedder)
    run.finish("finished")


def test_what_the_policy_feels_decides_the_discount(tmp_path: Path) -> None:
    """With hidden states of the nano, not with n-grams: the returns of the two differ."""
    shaped = []
    for name in ("policy", "ngrams"):
        run = trainer(tmp_path / name, ("embedder", name), ("decoding.max_tokens", 60), ("curriculum.prompts", 6))
        run.step()
        shaped.append(run.step()["reward/shaped"])
        assert shaped[-1] > 0
        run.finish("finished")
    assert shaped[0] != shaped[1]


def test_an_own_embedder_is_replayed(tmp_path: Path, file: Path) -> None:
    for name in ("one", "other"):
        train(tmp_path, name, "--recipe", "dra-grpo", "--embedder", f"{file}:letters", steps=2)
    assert_same(tmp_path / "one", tmp_path / "other")
    assert '"embedder/' in (tmp_path / "one" / "journal.jsonl").read_text()


def test_judgments_are_near_by_the_policies_states(tmp_path: Path) -> None:
    more = ["--recipe", "genii", "--embedder", "policy", "--rollout.samples", "2"]
    train(tmp_path, "run", *more, steps=2)
    found = rows(tmp_path / "run")[-1]
    assert any(name.endswith("reward/shaped") and value not in (None, 0.0, 1.0) for name, value in found.items()), found


def test_a_sentence_model_is_imported_when_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    class Sentences:
        def __init__(self, name: str) -> None:
            assert name == "tiny"

        def encode(self, texts: list[str]) -> Any:
            return np.array([[len(text), 1.0] for text in texts])

    module = types.ModuleType("sentence_transformers")
    module.SentenceTransformer = Sentences  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "sentence_transformers", module)
    config = configure([("recipe", "dra-grpo"), ("embedder", "sentence-transformers:tiny")], tasks.find("sums"))
    played = [Trajectory(Scenario("a"), [turn("p", [1], [2])])]
    embedder = embedder_of(config, None)
    assert embedder is not None
    assert EMBEDDING.rows(embedder.fill(pack(played), played, [])) == [[3.0, 1.0]]


@pytest.mark.parametrize(
    ("recipe", "embedder", "words"),
    [
        ("grpo", "policy", "grpo compares no texts"),
        ("dra-grpo", "polocy", "polocy.*'policy'"),
        ("dra-grpo", "nofile.py:fn", "nofile.py"),
        ("dra-grpo", "sentence-transformers:tiny", r"install hocket\[sentences\]"),
        ("dra-grpo", "{file}:few", "one vector"),
        ("dra-grpo", "{file}:broken", "no key"),
    ],
)
def test_what_is_refused_in_one_sentence(
    recipe: str, embedder: str, words: str, tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    named = embedder.format(file=file)
    flags = ["--recipe", recipe, "--embedder", named, "--steps", "1", "--runs", tmp_path / "runs", "--quiet"]
    found = call("train", *TINY, *flags)
    assert found.code == 2, found.err
    assert re.search(words, " ".join(found.err.split())), found.err


def test_by_default_only_recipes_that_compare_texts_pay_for_vectors() -> None:
    task = tasks.find("sums")
    assert embedder_of(configure([("recipe", "grpo")], task), None) is None
    assert embedder_of(configure([("recipe", "genii")], task), None) is None
    assert isinstance(embedder_of(configure([("recipe", "dra-grpo")], task), None), PolicyEmbedder)
    assert EMBEDDING in find("dra-grpo").reads


@pytest.mark.parametrize("kind", ["evil.Module", "custom_st.Transformer", "sentence_transformersx.models.Pooling"])
def test_a_sentence_model_that_brings_code_is_refused_before_it_is_read(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unread(name: str) -> None:
        raise AssertionError(name)

    module = types.ModuleType("sentence_transformers")
    module.SentenceTransformer = unread  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "sentence_transformers", module)
    own = {"type": "sentence_transformers.models.Transformer"}
    (tmp_path / "modules.json").write_text(json.dumps([own, {"type": kind}]))
    config = configure([("recipe", "dra-grpo"), ("embedder", f"sentence-transformers:{tmp_path}")], tasks.find("sums"))
    with pytest.raises(ConfigurationError, match="code of its own, which is never run"):
        embedder_of(config, None)
    (tmp_path / "modules.json").write_text(json.dumps([own]))
    with pytest.raises(AssertionError):
        embedder_of(config, None)
