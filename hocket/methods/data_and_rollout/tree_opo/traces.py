"""What a tree search found within answers: those that are right, as their steps."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from hocket.core.keys import Key
from hocket.rollout.message_search import RETURN, UCT, Tree, Valued
from hocket.rollout.message_tree import MessageNode
from hocket.stages import Play
from hocket.types import Assignment, Turn

Steps = tuple[str, ...]
"""An answer in pieces; joined they are its text."""


async def search_traces(
    play: Play, asked: Sequence[Assignment], judge: Valued, *, searches: int, key: Key, rule: UCT | None = None
) -> list[Tree]:
    """A tree of steps per scenario, `searches` times gone through, all side by side.

    `play` is of a workflow whose messages are the steps of one answer (`stepwise`); `judge` tells what a whole answer
    is worth, 1 for a right one and -1 for a wrong one.
    """
    trees = [Tree(one, key.derive(one.scenario.id)) for one in asked]
    for _ in range(searches):
        await (rule or UCT()).search(trees, play=play, judge=judge)
    return trees


def right_traces(tree: Tree) -> list[Steps]:
    """The different answers of a tree that are right, in its own order: those that begin alike stand together."""
    return list(dict.fromkeys(steps_of(node.path) for node in tree.root.ends if is_right(node)))


def is_right(end: MessageNode) -> bool:
    """Whether the answer that ends here is right."""
    return float(RETURN.get(end.episodes[0])) == 1


def steps_of(path: Sequence[Turn]) -> Steps:
    """What each turn of an answer told step by step adds to the text before it; steps without text are left out."""
    texts = ["", *(turn.text for turn in path)]
    found = (text[len(before) :] for before, text in pairwise(texts))
    return tuple(step for step in found if step)
