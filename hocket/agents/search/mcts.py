"""Tree search at inference: the value, or the outcome, decides which messages to explore."""

from __future__ import annotations

from hocket.agents.search.result import Opinion, SearchResult
from hocket.core.keys import Key
from hocket.rollout.message_search import RETURN, UCT, Tree
from hocket.rollout.message_tree import MessageNode
from hocket.stages import Play
from hocket.types import Assignment, Trajectory


async def tree_search(
    play: Play,
    asking: Assignment,
    judge: Opinion,
    *,
    searches: int,
    key: Key,
    rule: UCT | None = None,
    value: Opinion | None = None,
) -> tuple[SearchResult, MessageNode]:
    """Searches the tree `searches` times; returns the best ended episode by `judge`, and the tree.

    `judge` rates an ended episode in [-1, 1]. With `value` a search stops at the first new message and backs up its
    value (MASPRM, arXiv 2510.24803); it continues until some episode has ended.
    """
    tree = Tree(asking, key)
    ended: list[Trajectory] = []
    number = 0
    while number < searches or not ended:
        ended += await (rule or UCT()).search([tree], play=play, judge=judge, value=value)
        number += 1
    return SearchResult(max(ended, key=lambda episode: float(RETURN.get(episode))), tree.calls), tree.root
