"""Better answers from the same weights: search over what agents say to each other, guided by a value.

A search plays through `Play`, message by message (see `hocket.types.Replay`), and counts the messages it sampled.
"""

from hocket.search.beam import beam_search, best_of
from hocket.search.consistent import ConsistentValue
from hocket.search.found import Found, Opinion
from hocket.search.mcts import tree_search
from hocket.search.values import HeadValue, verdict

__all__ = ["ConsistentValue", "Found", "HeadValue", "Opinion", "beam_search", "best_of", "tree_search", "verdict"]
