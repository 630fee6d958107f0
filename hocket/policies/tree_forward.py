"""The forward pass of the common decoder family over a tree of shared prefixes, without padding."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from hocket.policies.family import Layer, Precision, angles, layers_of
from hocket.policies.fused import normalise
from hocket.policies.prefix_tree import PrefixTree
from hocket.policies.tree_attention import AttentionPlan, attend


def tree_states(model: Any, tree: PrefixTree, precision: Precision) -> Tensor:
    """Last hidden states (after the final norm) at the tree's asked places, `[K, H]`."""
    config, device = model.config, model.device
    inner = model.model
    x = inner.embed_tokens(torch.from_numpy(tree.token).to(device))
    plan = AttentionPlan.of(tree.nodes, config.num_attention_heads, config.num_key_value_heads, x)
    depth = torch.from_numpy(tree.depth).to(device)
    cosine, sine = (table[depth][:, None] for table in angles(model, int(tree.depth.max()) + 1))
    # The last layer's output is needed at the asked places only.
    wanted, back = torch.unique(torch.from_numpy(tree.place), return_inverse=True)
    wanted, back = wanted.to(device), back.to(device)
    layers = layers_of(model, precision)
    for layer in layers:
        qkv = layer.qkv(normalise(x, layer.epsilons[0]))
        mixed = attend(qkv, layer.turn, (cosine, sine), layer.turn_epsilon, layer.scale, plan)
        if layer is layers[-1]:
            x, mixed = x[wanted], mixed[wanted]
        x = _finish(layer, x, mixed)
    states: Tensor = inner.norm(x)
    return states[back]


def _finish(layer: Layer, x: Tensor, mixed: Tensor) -> Tensor:
    """States after attention's output and the feed-forward part."""
    x = x + layer.output(mixed)
    return x + layer.down(layer.gate(layer.gate_up(normalise(x, layer.epsilons[1]))))
