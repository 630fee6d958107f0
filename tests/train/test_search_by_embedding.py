"""`search:PATH?rank=embedding`: articles by the cosine of vectors, alone or mixed with BM25."""

from __future__ import annotations

import asyncio
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_runs import TINY, assert_same, call, train

from hocket import tasks
from hocket.agents import tools
from hocket.agents.tools.corpus import Document
from hocket.agents.tools.embedding_search import EmbeddedIndex, Encoder
from hocket.agents.tools.search import Index, Search
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.nano import BASE
from hocket.policies.causal_lm import CausalLM
from hocket.train.assemble import build_parts
from hocket.train.config import configure
from hocket.train.searching import mean_states, searched_by_vectors

OWN = """
def letters(texts):
    return [[1.0 + text.count(letter) for letter in "0123456789aeiou"] for text in texts]

def few(texts):
    return [[1.0]]

def widening(texts):
    return [[1.0] * len(texts)] * len(texts)

def words(texts):
    return [["one"] for text in texts]
"""


@pytest.fixture(autouse=True)
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where vectors are kept."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "hocket" / "vectors"


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    (tmp_path / "notes").mkdir()
    for name, text in {"boats": "The boat leaks.", "cats": "A cat sleeps in the boat.", "dogs": "Dogs bark."}.items():
        (tmp_path / "notes" / f"{name}.txt").write_text(text)
    (tmp_path / "own.py").write_text(OWN)
    return tmp_path / "notes"


class Drawn:
    """Vectors that are drawn, the same for the same text; says what it was asked."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []

    def __call__(self, texts: list[str]) -> np.ndarray[Any, Any]:
        self.asked.append(texts)
        return np.stack([Key.of(0).derive(text).numpy().normal(size=7) for text in texts])


def cosines(embed: Drawn, documents: list[Document], query: str) -> list[float]:
    """In Python's own numbers."""
    rows = [list(map(float, row)) for row in embed([query, *(f"{one.title}: {one.text}" for one in documents)])]
    norm = [math.sqrt(math.fsum(x * x for x in row)) for row in rows]
    dots = [math.fsum(x * y for x, y in zip(rows[0], row, strict=True)) for row in rows[1:]]
    return [dot / (norm[0] * other) for dot, other in zip(dots, norm[1:], strict=True)]


DOCUMENTS = [Document(f"t{n}", f"word{n % 5} and word{n % 3}") for n in range(600)]


def test_nearness_is_the_cosine_and_orders_what_is_found() -> None:
    embed = Drawn()
    index = EmbeddedIndex(DOCUMENTS, encoder=Encoder("drawn", embed))
    for query in ("word1", "something else", ""):
        wanted = cosines(Drawn(), DOCUMENTS, query)
        assert index.nearness(query).tolist() == pytest.approx(wanted, abs=2e-6)
        best = sorted(range(600), key=lambda place: -wanted[place])[:5]
        assert index.find(query, 5) == tuple(DOCUMENTS[place] for place in best)
    assert [len(one) for one in embed.asked[:3]] == [256, 256, 88]
    asked = len(embed.asked)
    index.find("word1", 3)
    assert len(embed.asked) == asked  # A query is embedded once.


def test_both_adds_what_is_one_over_the_ranks() -> None:
    few = DOCUMENTS[:40]
    index, words = EmbeddedIndex(few, "both", Encoder("drawn", Drawn())), Index(few)
    near, told = cosines(Drawn(), few, "word4 word2"), words.scores("word4 word2").tolist()
    by_near, by_words = (sorted(range(40), key=lambda n, of=of: -of[n]) for of in (near, told))
    worth = [1 / (61 + by_near.index(n)) + (1 / (61 + by_words.index(n)) if told[n] > 0 else 0) for n in range(40)]
    wanted = sorted(range(40), key=lambda n: -worth[n])
    assert index.find("word4 word2", 40) == tuple(few[n] for n in wanted)
    assert index.find("strange", 40) == EmbeddedIndex(few, encoder=Encoder("drawn", Drawn())).find("strange", 40)


def test_equal_articles_keep_their_order_and_null_vectors_are_near_to_nothing() -> None:
    def embed(texts: list[str]) -> np.ndarray[Any, Any]:
        return np.array([[0.0, 0.0] if "null" in text else [1.0, 2.0] for text in texts])

    documents = [Document("null", ""), *(Document("same", "") for _ in range(9))]
    index = EmbeddedIndex(documents, encoder=Encoder("mine", embed))
    assert index.nearness("x").tolist() == [0.0] + [1.0] * 9
    assert index.find("x", 10) == (*documents[1:], documents[0])


def test_vectors_of_articles_are_kept_by_what_they_depend_on(kept: Path) -> None:
    def embedded(identity: str | None, documents: list[Document]) -> int:
        embed = Drawn()
        index = EmbeddedIndex(documents)
        index.seat(Encoder("drawn", embed, identity))
        assert index.nearness("x").tolist() == pytest.approx(cosines(Drawn(), documents, "x"), abs=2e-6)
        return sum(map(len, embed.asked)) - 1

    few = DOCUMENTS[:9]
    assert [embedded("one", few), embedded("one", few), embedded("two", few), embedded("one", few[1:])] == [9, 0, 9, 8]
    assert [embedded(None, few), embedded(None, few)] == [9, 9]
    for file in kept.iterdir():
        file.write_bytes(b"torn")
    assert embedded("one", few) == 9


def test_what_cannot_be_searched_is_said_in_a_sentence(notes: Path) -> None:
    with pytest.raises(ConfigurationError, match="nothing to embed with"):
        EmbeddedIndex(DOCUMENTS[:2]).find("x", 1)
    with pytest.raises(ConfigurationError, match="embedding or both, not 'words'"):
        EmbeddedIndex(DOCUMENTS[:2], "words")
    with pytest.raises(ConfigurationError, match="rank"):
        tools.find(f"search:{notes}?rank=meaning")
    with pytest.raises(ConfigurationError, match="gave a query 1 numbers and articles 2"):
        EmbeddedIndex(DOCUMENTS[:2], encoder=Encoder("mine", lambda texts: np.ones((len(texts), len(texts))))).find(
            "x", 1
        )


# ---------------------------------------------------------------- in a run


def built(notes: Path, *pairs: tuple[str, Any]) -> EmbeddedIndex:
    """The index of a run's search tool."""
    task = tasks.find("sums")
    config = configure([("tools", f"search:{notes}?rank=embedding&top=1"), ("threads", 1), *pairs], task)
    (index,) = searched_by_vectors(build_parts(config, task).player.workflow)
    return index


def test_by_default_vectors_are_the_models_mean_states(notes: Path) -> None:
    index = built(notes)
    policy = CausalLM.from_pretrained(BASE, key=Key.of(0))

    def state(text: str) -> Any:
        tokens = policy.tokenizer.encode(text, add_special_tokens=False)
        with torch.no_grad():
            return (
                policy.model.base_model(torch.tensor([[policy.stop_ids[0], *tokens]]))
                .last_hidden_state[0, 1:]
                .double()
                .mean(0)
            )

    wanted = [
        torch.cosine_similarity(state("does it leak?"), state(f"{one.title}: {one.text}"), dim=0).item()
        for one in index.documents
    ]
    assert index.nearness("does it leak?").tolist() == pytest.approx(wanted, abs=1e-5)
    assert not index.outside


def test_texts_that_are_too_long_are_cut_and_empty_ones_have_a_vector() -> None:
    policy = CausalLM.from_pretrained(BASE, key=Key.of(0))
    long, longer, empty = mean_states(policy, ["a" * 1023, "a" * 5000, ""])
    assert np.array_equal(long, longer)
    assert np.isfinite(empty).all()


def test_training_leaves_the_vectors_alone(notes: Path, tmp_path: Path) -> None:
    flags = ["--tools", f"search:{notes}?rank=both", "--recipe", "grpo"]
    for name in ("one", "other"):
        train(tmp_path, name, *flags, steps=2)
    assert_same(tmp_path / "one", tmp_path / "other")


@pytest.mark.parametrize("named", ["ngrams", "{own}:letters"])
def test_an_embedder_is_named_as_elsewhere(named: str, notes: Path) -> None:
    own = notes.parent / "own.py"
    index = built(notes, ("embedder", named.format(own=own)))
    assert index.find("the cat sleeps; boat", 1)[0].title == "cats.txt"
    answer = asyncio.run(Search(index, 1)({"query": "The boat leaks."}))
    assert answer == "boats.txt: The boat leaks."
    assert Search(index).outside == named.startswith("{own}")


@pytest.mark.parametrize(
    ("tool", "embedder", "words"),
    [
        ("search:{notes}", "policy", "no tool searches by embedding"),
        ("search:{notes}?rank=embedding", "polocy", "polocy.*'policy'"),
        ("search:{notes}?rank=embedding", "nofile.py:fn", "nofile.py"),
        ("search:{notes}?rank=embedding", "{own}:few", "one vector"),
        ("search:{notes}?rank=embedding", "{own}:words", "one vector"),
        ("search:{notes}?rank=embeding", None, "embeding"),
    ],
)
def test_what_is_refused_before_training(
    tool: str, embedder: str | None, words: str, notes: Path, tmp_path: Path
) -> None:
    own = notes.parent / "own.py"
    more = [] if embedder is None else ["--embedder", embedder.format(own=own)]
    flags = ["--tools", tool.format(notes=notes), *more, "--steps", "1", "--runs", tmp_path / "runs", "--quiet"]
    found = call("train", *TINY, *flags)
    assert found.code == 2, found.err
    assert re.search(words, " ".join(found.err.split())), found.err
