"""Search over a local index of articles, ranked by BM25 (Robertson and Walker 1994, in Lucene's form)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hocket.agents.tools.corpus import Document
from hocket.core.errors import ConfigurationError

_WORD = re.compile(r"\w+")
_LONGEST_QUERY = 400


class Index:
    """Articles by the words of their titles and texts, lower case. Equal scores keep the order of the documents.

    Args:
        titles: how often the words of a title count.

    Raises:
        ConfigurationError: when `bm25s` is not installed, or there is no document.
    """

    about = "Articles that contain the words of a query, best first."

    def __init__(self, documents: Sequence[Document], titles: int = 1) -> None:
        if not documents:
            raise ConfigurationError("an index needs at least one document")
        try:
            from bm25s import BM25
        except ImportError:
            raise ConfigurationError("searching needs bm25s; pip install 'hocket[search]'") from None
        self.documents = tuple(documents)
        self._ranker = BM25(method="lucene", backend="numpy", auto_compile=False)
        self._ranker.index(
            [words(document.title) * titles + words(document.text) for document in self.documents], show_progress=False
        )
        self._known = frozenset(word for word in self._ranker.vocab_dict if word)

    @property
    def outside(self) -> bool:
        """Whether what is found may be otherwise another time."""
        return False

    def scores(self, query: str) -> NDArray[np.float32]:
        """A score per document, `[D]`; 0 where no word of the query stands in it."""
        terms = [word for word in words(query[:_LONGEST_QUERY]) if word in self._known]
        if not terms:
            return np.zeros(len(self.documents), np.float32)
        return np.asarray(self._ranker.get_scores(terms), np.float32)

    def find(self, query: str, top: int) -> tuple[Document, ...]:
        """The best documents, at most `top`, none with score 0."""
        scores = self.scores(query)
        best = np.argsort(-scores, kind="stable")[:top].tolist()
        return tuple(self.documents[place] for place in best if scores[place] > 0)


def words(text: str) -> list[str]:
    """The words of a text as they are indexed."""
    return _WORD.findall(text.lower())


class Search:
    """The tool: a query in, the best articles out, one per line.

    Args:
        index: what is searched.
        top: articles per answer.
        most: characters per answer; what is longer is cut.
        name: as it is called; several bases have a search each.
    """

    name = "search"

    def __init__(self, index: Index, top: int = 3, most: int = 1000, name: str = "search") -> None:
        if top < 1 or most < 1:
            raise ConfigurationError(f"a search gives at least one article and one character, not {top} and {most}")
        self.index, self.top, self.most, self.name = index, top, most, name

    @property
    def outside(self) -> bool:
        """Whether a run keeps its answers, see `hocket.agents.tools.protocol.Tool`."""
        return self.index.outside

    @property
    def schema(self) -> Mapping[str, Any]:
        """What it takes, in the form of `apply_chat_template(tools=...)`."""
        return {
            "type": "function",
            "function": {
                "name": self.name,
                "description": self.index.about,
                "parameters": {
                    "type": "object",
                    "properties": {"query": {"type": "string"}},
                    "required": ["query"],
                },
            },
        }

    async def __call__(self, arguments: Mapping[str, Any]) -> str:
        """The articles as text; for wrong arguments a text that says what is wrong, never an exception."""
        query = arguments.get("query")
        if not isinstance(query, str) or not query.strip():
            return "error: search needs a query"
        return self.answer(query)

    def answer(self, query: str) -> str:
        """The best articles as text, a line each."""
        documents = self.index.find(query, self.top)
        shown = "\n".join(f"{document.title}: {document.text}" for document in documents) or "nothing found"
        return shown if len(shown) <= self.most else shown[: self.most - 3] + "..."
