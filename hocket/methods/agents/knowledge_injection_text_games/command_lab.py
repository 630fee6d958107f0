"""Scorers of commands counted anew, a node and a command at a time in float64, apart from the library's own."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hocket.methods.agents.knowledge_injection_text_games.reader import GraphAttention, OverCommands
from hocket.policies.control_bodies import Memory


def attention(layer: GraphAttention, nodes: NDArray[Any], triples: list[Any], there: list[bool]) -> NDArray[Any]:
    """The layer's formula, a node at a time."""
    weight, relation, target, source = (
        one.detach().numpy() for one in (layer.weight, layer.relation, layer.target, layer.source)
    )
    read, count, found = nodes @ weight.T, layer.relations, []
    for node, present in enumerate(there):
        messages = [read[node] + relation[2 * count]] if present else []
        for first, name, second in triples:
            if 0 in (first, name, second):
                continue
            messages += [read[second - 1] + relation[name - 1]] if first - 1 == node else []
            messages += [read[first - 1] + relation[count + name - 1]] if second - 1 == node else []
        energy = np.array([read[node] @ target + message @ source for message in messages])
        odds = np.exp(np.where(energy < 0, 0.2 * energy, energy))
        mixed = sum((o * message for o, message in zip(odds, messages, strict=True)), np.zeros_like(read[node]))
        found.append(np.tanh(mixed / odds.sum()) if messages else np.zeros_like(read[node]))
    return np.stack(found)


def carried(unit: Memory, words: NDArray[Any]) -> NDArray[Any]:
    """What a gated recurrent unit carries after rows of numbers, from 0."""
    into, onward, bias, other = (
        one.detach().numpy() for one in (unit.into, unit.onward, unit.bias_into, unit.bias_onward)
    )
    state = np.zeros(onward.shape[1])
    for word in words:
        given, kept = np.split(into @ word + bias, 3), np.split(onward @ state + other, 3)
        reset, update = (1 / (1 + np.exp(-(one + two))) for one, two in zip(given[:2], kept[:2], strict=True))
        state = (1 - update) * np.tanh(given[2] + reset * kept[2]) + update * state
    return np.asarray(state)


def scores(network: OverCommands, row: NDArray[Any]) -> tuple[NDArray[Any], float]:
    """The score of every command, NaN of one without an object; and that of the mean of what layers make of the others.

    Of networks with a single hidden layer behind what is read.
    """
    shape, size = network.commands, network.words.shape[1]
    text, names, triples, _ = np.split(row.astype(int), np.cumsum(shape.parts)[:-1])
    table = network.words.detach().numpy()
    state = carried(network.text, np.where(text[:, None] > 0, table[text], 0.0))
    spelt = [[word for word in name if word] for name in names.reshape(-1, shape.span)]
    nodes = np.stack([np.mean(table[name], 0) if name else np.zeros(size) for name in spelt])
    parts = nodes
    if network.graph is not None:
        all_nodes, there = np.vstack([nodes, np.zeros(size)]), [*map(bool, spelt), True]
        told = attention(network.graph, all_nodes, triples.reshape(-1, 3).tolist(), there)
        parts = nodes @ network.graph.weight.detach().numpy().T
    (inner, last), (shift, offset) = (
        [getattr(one, name)[0].detach().numpy() for one in (network.inner, network.last)]
        for name in ("weights", "biases")
    )
    found = []
    for verb, place in itertools.product(range(shape.verbs), range(shape.verbs, shape.verbs + shape.objects)):
        more = [] if network.graph is None else [told[place], parts[verb] * told[place]]
        read = np.concatenate([state, parts[verb], parts[place], *more])
        found.append(np.tanh(inner @ read + shift) if spelt[place] else np.full(len(shift), np.nan))
    return np.stack(found) @ last[0] + offset, float(np.nanmean(found, 0) @ last[0] + offset[0])
