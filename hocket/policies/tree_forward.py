"""The forward pass of a decoder of known form over a tree of shared prefixes, without padding."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from hocket.policies.activation_cache import ReplaySteps
from hocket.policies.family import STEPS, Checkpointing, LayerSteps, Precision, embedded, run_layers
from hocket.policies.form_reading import known_form
from hocket.policies.layer_inputs import LayerInputs
from hocket.policies.prefix_tree import PrefixTree
from hocket.policies.recurrence import TreeHistories
from hocket.policies.residence import HERE, Residence
from hocket.policies.shaping import angle_tables
from hocket.policies.tree_attention import Bags, TreeAttention


def tree_states(
    model: Any,
    tree: PrefixTree,
    precision: Precision,
    *,
    gradient_checkpointing: Checkpointing = False,
    replay: ReplaySteps | None = None,
    steps: LayerSteps = STEPS,
    residence: Residence = HERE,
) -> Tensor:
    """Last hidden states (after the final norm) at the tree's asked places, `[K, H]`.

    `gradient_checkpointing` and `steps` as in `run_layers`; `replay` is what the sampler has computed of this tree,
    which then takes the place of `steps`; `residence` says where the weights are.
    """
    form, device = known_form(model), model.device
    token = torch.from_numpy(tree.token).to(device)
    x = embedded(model, token)
    depth = torch.from_numpy(tree.depth).to(device)
    tables = angle_tables(model, int(tree.depth.max()) + 1)
    attention = TreeAttention(tree.nodes, depth, tables, form.shapes, x)
    layers, visit = residence.layers(model, precision)
    histories = TreeHistories(tree.nodes, device) if form.recurrent else None

    def attend(number: int, qkv: Tensor) -> Tensor:
        mixer = layers[number].recurrence
        if mixer is not None and histories is not None:
            return mixer(qkv, number, histories)
        return attention(qkv, layers[number], (None, None) if replay is None else replay.attention())

    # The last layer's output is needed at the asked places only.
    wanted, back = np.unique(tree.place, return_inverse=True)
    states = run_layers(
        model,
        layers,
        x,
        attend,
        wanted=torch.from_numpy(wanted).to(device),
        gradient_checkpointing=gradient_checkpointing,
        steps=steps if replay is None else replay,
        visit=visit,
        inputs=LayerInputs(model, precision)(token, x),
    )
    if device.type == "cpu":
        return states.index_select(0, torch.from_numpy(back))
    repeated: Tensor = RowRepeat.apply(states, back)  # type: ignore[no-untyped-call]
    return repeated


class RowRepeat(Function):
    """Rows `back` `[K]` of `[W, H]`, each at least once. Gradients are summed in the order of `back`.

    On accelerators that of `index_select` adds them in whatever order they come, so that no run gives the same bits.
    """

    @staticmethod
    def forward(ctx: Any, states: Tensor, back: NDArray[np.int64]) -> Tensor:
        ctx.bags = Bags.of(back, np.ones(len(back), bool), len(states), states.device)
        return states.index_select(0, torch.from_numpy(back).to(states.device))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return ctx.bags.sums(gradient.contiguous()), None
