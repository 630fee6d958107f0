"""The generated corpus, its questions, and the search tool."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys

import pytest

from hocket.agents.tools.corpus import RELATIONS, Corpus, CorpusQuestion, Document, read
from hocket.agents.tools.search import Index, Search, words
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return Corpus(1000, Key.of(0))


@pytest.fixture(scope="module")
def index(corpus: Corpus) -> Index:
    return Index(corpus.documents)


def gold(corpus: Corpus, question: CorpusQuestion) -> list[Document]:
    return [corpus.by_title[title] for title in question.gold]


@pytest.mark.parametrize("hops", [1, 2, 3])
def test_the_gold_articles_answer_a_question_and_none_can_be_left_out(corpus: Corpus, hops: int) -> None:
    for question in corpus.questions(hops)[::37]:
        documents = gold(corpus, question)
        assert question.hops == len(documents) == hops
        assert read(documents, question.text) == question.answer
        for left_out in range(hops):
            assert read([one for n, one in enumerate(documents) if n != left_out], question.text) is None


def test_all_other_articles_together_do_not_answer(corpus: Corpus) -> None:
    for question in corpus.questions(2)[::800]:
        for title in question.gold:
            rest = [document for document in corpus.documents if document.title != title]
            assert read(rest, question.text) is None


@pytest.mark.parametrize("hops", [1, 2, 3])
def test_the_answer_is_never_in_the_question(corpus: Corpus, hops: int) -> None:
    for question in corpus.questions(hops):
        assert re.search(rf"(?<!\w){re.escape(question.answer)}(?!\w)", question.text, re.IGNORECASE) is None


def test_facts_stand_in_the_article_of_their_subject_alone(corpus: Corpus) -> None:
    assert len(corpus.documents) == len(corpus.by_title) == 1000
    for document in corpus.documents[:50]:
        told = [r for r in RELATIONS if (document.title, r.name) in corpus.facts]
        assert len(told) >= 2
        for relation in told:
            sentence = relation.sentence.format(s=document.title, o=corpus.facts[document.title, relation.name])
            holding = [other.title for other in corpus.documents if sentence in other.text]
            assert holding == [document.title]


def test_names_are_unique_and_questions_distinct(corpus: Corpus) -> None:
    for hops in (1, 2, 3):
        questions = [question.text for question in corpus.questions(hops)]
        assert len(questions) == len(set(questions)) > 1000


def test_the_first_article_is_found_by_name_and_nearly_always_by_the_question(corpus: Corpus, index: Index) -> None:
    for hops in (1, 2, 3):
        asked = corpus.questions(hops)[::41]
        found = [gold(corpus, question)[0] in index.find(question.text, 5) for question in asked]
        assert sum(found) / len(found) > 0.98
        named = [gold(corpus, question)[0] in index.find(question.gold[0], 3) for question in asked]
        assert sum(named) / len(named) > 0.98


def test_equal_keys_give_equal_corpora(corpus: Corpus) -> None:
    again = Corpus(1000, Key.of(0))
    assert again.documents == corpus.documents
    assert again.questions(2) == corpus.questions(2)
    assert Corpus(1000, Key.of(1)).documents != corpus.documents


def test_it_does_not_depend_on_the_hash_seed() -> None:
    code = (
        "from hocket.agents.tools.corpus import Corpus; from hocket.core.keys import Key; import hashlib;"
        "print(hashlib.sha256(repr(Corpus(200, Key.of(3)).documents).encode()).hexdigest())"
    )
    said = {
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    assert len(said) == 1


def test_ten_thousand_articles() -> None:
    corpus = Corpus(10_000, Key.of(0))
    index = Index(corpus.documents)
    asked = corpus.questions(1)[::250]
    found = [gold(corpus, question)[0] in index.find(question.text, 5) for question in asked]
    assert len(corpus.documents) == 10_000
    assert sum(found) / len(found) > 0.98


def test_sizes_and_hops_out_of_range_are_refused(corpus: Corpus) -> None:
    with pytest.raises(ConfigurationError, match="40 to 20000"):
        Corpus(3, Key.of(0))
    with pytest.raises(ConfigurationError, match="at least 1 hop"):
        corpus.questions(0)
    with pytest.raises(ConfigurationError, match="at least one document"):
        Index(())


# ---------------------------------------------------------------- ranking


def test_scores_are_those_of_bm25() -> None:
    documents = [Document("a", "red house red door"), Document("b", "blue house"), Document("c", "a green door")]
    index = Index(documents)
    import math

    texts = [words(f"{one.title} {one.text}") for one in documents]
    mean = sum(map(len, texts)) / len(texts)

    def bm25(query: str, text: list[str], k1: float = 1.5, b: float = 0.75) -> float:
        total = 0.0
        for word in words(query):
            n = sum(word in other for other in texts)
            if n:
                idf = math.log(1 + (len(texts) - n + 0.5) / (n + 0.5))
                f = text.count(word)
                total += idf * f / (f + k1 * (1 - b + b * len(text) / mean))
        return total

    for query in ("red door", "house", "green green", "a b c door"):
        assert index.scores(query).tolist() == pytest.approx([bm25(query, text) for text in texts], abs=1e-5)


def test_ties_keep_the_order_of_documents_and_strangers_find_nothing() -> None:
    index = Index([Document(f"t{n}", "same words") for n in range(5)])
    assert [one.title for one in index.find("same words", 3)] == ["t0", "t1", "t2"]
    assert index.find("other", 3) == ()
    assert index.find("", 3) == ()
    assert index.find("!?", 3) == ()


# ---------------------------------------------------------------- the tool


def test_the_tool_answers_in_text(index: Index, corpus: Corpus) -> None:
    tool = Search(index, top=2)
    question = corpus.questions(1)[0]
    answer = asyncio.run(tool({"query": question.gold[0]}))
    lines = answer.splitlines()
    assert len(lines) == 2
    assert lines[0] == f"{question.gold[0]}: {corpus.by_title[question.gold[0]].text}"
    assert tool.schema["function"]["name"] == tool.name == "search"


@pytest.mark.parametrize("arguments", [{}, {"query": 3}, {"query": " "}, {"query": None}, {"other": "x"}])
def test_wrong_arguments_are_told(index: Index, arguments: dict[str, object]) -> None:
    assert asyncio.run(Search(index)(arguments)).startswith("error: ")


def test_answers_are_bounded(index: Index) -> None:
    assert len(asyncio.run(Search(index, top=50, most=120)({"query": "the " * 10_000 + "was born in"}))) <= 120
    assert asyncio.run(Search(index)({"query": "zzz"})) == "nothing found"
