"""Prefix Grouper: what the samples of a group have in common is computed once (Liu et al., arXiv:2506.05433).

Not a recipe: every learner here computes shared prefixes once, as a tree of any depth, of which a group behind its
prompt is the simplest (`hocket.policies.prefix_tree`). The claims beside this file hold it to the paper's statements.
"""

from __future__ import annotations

from hocket.core.analyses import Analysis

PREFIX_GROUPER = Analysis(
    name="prefix-grouper",
    title="Prefix Grouper: the prompt of a group is encoded once, forward and backward",
    where="hocket/policies/prefix_tree.py",
    kind="system",
)
