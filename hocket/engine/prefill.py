"""Contexts that are read before responses to them begin."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor

from hocket.engine.pages import PageNode, Tokens

Context = tuple[int, Tokens]
"""A policy, and what its next token depends on."""


@dataclass(eq=False)
class Prefill:
    """A context that is being read, once for all who asked for it.

    Attributes:
        owner: the policy it is read for.
        pages: of all its tokens. done: tokens that stand in them, those of the current pass included.
        nodes: its pages in the prefix tree that no pass was planned for yet.
        members: requests that go on from it; the first takes its pages over.
        parts: for each further member a page for a copy of the last one, where that is not full.
        last: place of its last token in the current pass. logits: of the next token, once read.
    """

    owner: int
    tokens: Tokens
    pages: list[int]
    done: int
    members: list[int]
    logits: Tensor | None = None
    nodes: list[PageNode] = field(default_factory=list)
    parts: list[int] = field(default_factory=list)
    last: int = -1

    @property
    def finished(self) -> bool:
        return self.done == len(self.tokens)

    @property
    def context(self) -> Context:
        return self.owner, self.tokens
