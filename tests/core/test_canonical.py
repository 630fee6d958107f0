"""Digests of databases."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from hocket.core.canonical import database_hash
from hocket.core.keys import Key
from hocket.methods.agents.claims.mua_rl import shares
from hocket.methods.agents.mua_rl import world as order_desk


def reordered(value: Any, rng: np.random.Generator) -> Any:
    """The same value with the keys of all dicts in another order."""
    if isinstance(value, dict):
        keys = list(value)
        return {keys[place]: reordered(value[keys[place]], rng) for place in rng.permutation(len(keys)).tolist()}
    return [reordered(one, rng) for one in value] if isinstance(value, list) else value


def altered(value: Any) -> Any:
    """Another value of the same type."""
    return [*value, "x"] if isinstance(value, list) else value + 1 if isinstance(value, int) else f"{value}."


def test_the_digest_of_a_database_is_invariant_to_the_order_of_keys() -> None:
    rng, same, changed = Key.of(0).derive("order of keys").numpy(), [], []
    for number in range(20):
        database = order_desk.draw_database(5, Key.of(number))
        same.append(database_hash(database) == database_hash(reordered(database, rng)))
        for order, fields in database["orders"].items():
            for name, value in fields.items():
                other = copy.deepcopy(database)
                other["orders"][order][name] = altered(value)
                changed.append(database_hash(other) != database_hash(database))
    saw = f"{shares(same)} hashes stay when keys move, {shares(changed)} change with one value"
    assert all(same)
    assert all(changed)
