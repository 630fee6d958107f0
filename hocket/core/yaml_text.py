"""YAML that others may have written, read as plain data within bounds."""

from __future__ import annotations

from typing import Any

import yaml

LARGEST = 1_000_000
"""Values of a document, those that aliases repeat counted each time."""

DEEPEST = 100
"""Lists and mappings within each other."""


class _Loader(yaml.SafeLoader):
    """Reads no further than it is deep."""

    depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        self.depth += 1
        if self.depth > DEEPEST:
            raise yaml.YAMLError(f"it is nested more than {DEEPEST} deep")
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node


def load_yaml(text: str) -> Any:
    """The plain data of a document, as `yaml.safe_load`: no tag makes anything else.

    Raises:
        yaml.YAMLError: for what is no YAML, and for documents whose aliases or nesting grow beyond all bounds.
    """
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        if _size(node, {}) > LARGEST:
            raise yaml.YAMLError(f"it holds more than {LARGEST} values once its aliases are written out")
        return loader.construct_document(node)
    finally:
        loader.dispose()


def _size(node: yaml.Node, known: dict[int, int]) -> int:
    """How many nodes are below one, each as often as it would be written; a node within itself is without end."""
    if id(node) not in known:
        known[id(node)] = LARGEST + 1
        below = node.value if isinstance(node, yaml.CollectionNode) else ()
        inner = (child for item in below for child in (item if isinstance(item, tuple) else (item,)))
        known[id(node)] = 1 + sum(_size(child, known) for child in inner)
    return known[id(node)]
