"""A search tool over documents of one's own."""

from __future__ import annotations

import asyncio
import json
import math
from collections import Counter
from pathlib import Path

import pytest

from hocket.agents import tools
from hocket.agents.tools.documents import documents_of, passages
from hocket.agents.tools.search import Index, Search, words
from hocket.agents.workflows.library import find as find_workflow
from hocket.agents.workflows.tool_use import ToolUse
from hocket.core.errors import ConfigurationError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "notes"
    (place / "deep").mkdir(parents=True)
    (place / "boats.txt").write_text("The red boat leaks.\n\nThe blue boat floats and floats.\n")
    (place / "deep" / "cats.md").write_text("# Cats\n\nA cat sleeps in the boat.\n")
    (place / "picture.png").write_bytes(b"\x89PNG")
    return place


def test_a_folder_is_searched_by_name_wherever_tools_are_named(folder: Path) -> None:
    tool = tools.find(f"search:{folder}?top=1&words=5")
    assert tool.name == "search"
    assert asyncio.run(tool({"query": "sleeps"})).startswith("deep/cats.md: ")
    assert asyncio.run(tool({"query": "leaks"})) == "boats.txt: The red boat leaks."
    flow = find_workflow(f"tool-use?tools_of=calculator,search:{folder}?top=2")
    assert isinstance(flow, ToolUse)
    assert isinstance(flow.tools_of, tuple)
    assert [one.name for one in flow.tools_of] == ["calculator", "search"]


def test_lines_are_documents_with_the_titles_they_name(tmp_path: Path) -> None:
    file = tmp_path / "facts.jsonl"
    rows = [{"title": "Boat", "text": "red"}, {"id": 7, "contents": "blue"}, {"content": "green"}]
    file.write_text("\n\n".join(map(json.dumps, rows)))
    assert [(one.title, one.text) for one in documents_of(file)] == [("Boat", "red"), ("7", "blue"), ("5", "green")]


def test_passages_hold_every_word_once_and_end_with_paragraphs_where_they_fit() -> None:
    text = "a b c\n\nd e\n\n" + " ".join(f"w{n}" for n in range(11)) + "\n\nz"
    found = list(passages(text, 5))
    assert " ".join(found).split() == text.split()
    assert found[0] == "a b c d e"
    assert max(len(one.split()) for one in found) <= 5


def test_what_cannot_be_searched_is_said_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "broken.jsonl").write_text('{"text": "one"}\nnothing')
    (tmp_path / "bare.jsonl").write_text('{"title": "one"}')
    (tmp_path / "list.jsonl").write_text("[1]")
    (tmp_path / "none.jsonl").write_text("\n")
    (tmp_path / "bytes.jsonl").write_bytes(b"\xff\xfe")
    (tmp_path / "one.csv").write_text("text\n")
    for name, sentence in {
        "nowhere": "does not exist; give a folder",
        "one.csv": "is no .jsonl file and no folder",
        "empty": r"has no document; put a text \(.txt, .md, .rst\)",
        "none.jsonl": "has no document; put a line in it",
        "broken.jsonl": "line 2 is no JSON",
        "bare.jsonl": "line 1 has no text",
        "list.jsonl": "line 1 has no text",
        "bytes.jsonl": "cannot be read",
        "empty?words=0": "at least 1 word",
        "empty?tpo=3": "no setting 'tpo'",
    }.items():
        with pytest.raises(ConfigurationError, match=sentence):
            tools.find(f"search:{tmp_path / name}")
    with pytest.raises(ConfigurationError, match="choose from calculator, python and search:PATH"):
        tools.find("search")


def test_scores_are_those_of_the_formula(folder: Path) -> None:
    """BM25 as Lucene has it, counted anew: idf = ln(1 + (D - n + 1/2)/(n + 1/2)), k1 = 1.5, b = 0.75."""
    documents = documents_of(folder, 6)
    index, query = Index(documents), "the red cat in a boat"
    bags = [Counter(words(f"{one.title} {one.text}")) for one in documents]
    average = sum(bag.total() for bag in bags) / len(bags)
    for bag, score in zip(bags, index.scores(query).tolist(), strict=True):
        wanted = 0.0
        for word in words(query):
            holders = sum(word in other for other in bags)
            idf = math.log(1 + (len(bags) - holders + 0.5) / (holders + 0.5)) if holders else 0.0
            wanted += idf * bag[word] / (bag[word] + 1.5 * (0.25 + 0.75 * bag.total() / average))
        assert score == pytest.approx(wanted, abs=1e-5)
    assert Search(index, 1).answer("leaks").startswith("boats.txt: ")


def test_a_document_may_hold_other_separators_of_lines(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "one\u2028two\u0085three"}\n{"text": "four"}\n', "utf-8")
    assert len(documents_of(str(tmp_path / "a.jsonl"), 100)) == 2
