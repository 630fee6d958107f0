"""Prefills: contexts that are read before their responses begin."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor

from hocket.engine.pages import PageNode, Tokens

Context = tuple[int, Tokens]
"""The number of a policy, and the tokens that determine its next one."""


@dataclass(eq=False)
class Prefill:
    """A context that is being read, once for all requests with it.

    Attributes:
        owner: the number of the policy.
        pages: the pages of all its tokens. done: the number of tokens in them, including the current pass.
        nodes: its nodes in the prefix tree for which no pass has been planned.
        members: the requests with this context; the first one gets its pages.
        parts: a page for each further member, for a copy of the last page if that is partial.
        state: the slot of its state, in layers that have one. states: a slot for each further member.
        fork: the number of tokens after which the state is cached, because another context has them too; 0 for none.
        last: the position of its last token in the current pass. logits: those of the next token, once computed.
    """

    owner: int
    tokens: Tokens
    pages: list[int]
    done: int
    members: list[int]
    logits: Tensor | None = None
    nodes: list[PageNode] = field(default_factory=list)
    parts: list[int] = field(default_factory=list)
    state: int = 0
    states: list[int] = field(default_factory=list)
    fork: int = 0
    last: int = -1

    @property
    def finished(self) -> bool:
        return self.done == len(self.tokens)

    @property
    def context(self) -> Context:
        return self.owner, self.tokens
