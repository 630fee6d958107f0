"""Weights held in fewer bits: bf16, and for frozen ones int8 and nf4 in blocks (Dettmers et al. 2023, QLoRA).

A frozen layer of fewer bits is made whole for every product, forward and backward, and never kept whole. Its state is
one weight in bf16, so that what is saved is an ordinary model.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from hocket.policies import kernels
from hocket.policies.fused_operations import ALIKE

Storage = Literal["fp32", "bf16", "int8", "nf4"]

BLOCK = 64
"""Weights of a row that share a scale."""

AT_ONCE = 2**18
"""Weights that are encoded at once."""

NF4 = (
    *(-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635),
    *(-0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725),
    *(0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0),
)
"""Quantiles of a normal distribution (QLoRA, appendix E)."""


class CodedMatrix(nn.Module):
    """A matrix `[N, H]` in few bits, without a gradient."""

    codes: Tensor
    scale: Tensor

    def __init__(self, weight: Tensor, storage: Storage) -> None:
        super().__init__()
        self.storage, self.shape = storage, tuple(weight.shape)
        codes, scale = encode(weight, storage)
        self.register_buffer("codes", codes, persistent=False)
        self.register_buffer("scale", scale, persistent=False)

    def whole(self, dtype: torch.dtype) -> Tensor:
        """`[N, H]` in `dtype`."""
        return decode(self.codes, self.scale, self.shape, self.storage, dtype)

    @property
    def nbytes(self) -> int:
        return self.codes.nbytes + self.scale.nbytes


def encode(weight: Tensor, storage: Storage) -> tuple[Tensor, Tensor]:
    """Codes and scales of a matrix `[N, H]`; the last block of a row may be shorter than the others."""
    if storage == "bf16":
        return weight.detach().bfloat16(), weight.new_zeros(0)
    # Some rows at a time: what is made on the way takes many times what the codes do.
    parts = [_encoded(part, storage) for part in torch.split(weight.detach(), max(1, AT_ONCE // weight.shape[1]))]
    return torch.cat([codes for codes, _ in parts]), torch.cat([scale for _, scale in parts])


def _encoded(weight: Tensor, storage: Storage) -> tuple[Tensor, Tensor]:
    rows, width = weight.shape
    blocks = F.pad(weight.float(), (0, -width % BLOCK)).view(rows, -1, BLOCK)
    scale = blocks.abs().amax(-1)
    share = blocks / scale.clamp_min(torch.finfo(torch.float32).tiny)[..., None]
    if storage == "int8":
        return (share * 127).round().to(torch.int8).view(rows, -1), scale
    levels = torch.tensor(NF4, device=weight.device)
    number = torch.bucketize(share, (levels[1:] + levels[:-1]) / 2, out_int32=True).to(torch.uint8).view(rows, -1)
    return number[:, ::2] << 4 | number[:, 1::2], scale


def decode(codes: Tensor, scale: Tensor, shape: tuple[int, ...], storage: Storage, dtype: torch.dtype) -> Tensor:
    """The inverse of `encode`, up to its rounding."""
    if storage == "bf16":
        return codes.to(dtype)
    rows, width = shape
    if storage == "int8":
        share = codes.to(dtype)
        factor = scale / 127
    else:
        pairs = _pairs(dtype, codes.device)
        if codes.device.type == "cpu" and dtype in (torch.float32, torch.bfloat16) and kernels.available():
            return kernels.decode_nf4(codes, scale.to(dtype).float(), pairs.float(), width, dtype)
        share, factor = pairs[codes.int()].view(rows, -1), scale
    blocks = share.view(rows, -1, BLOCK) * factor.to(dtype)[..., None]
    return blocks.view(rows, -1)[:, :width]


@functools.cache
def _pairs(dtype: torch.dtype, device: torch.device) -> Tensor:
    """The two numbers of every byte, `[256, 2]`."""
    levels = torch.tensor(NF4, device=device, dtype=dtype)
    return torch.stack((levels.repeat_interleave(16), levels.repeat(16)), 1)


class _Product(Function):
    """x W^T + b (+ more) over a matrix in codes; the matrix is made again for the backward pass."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, more: Tensor | None, bias: Tensor | None, codes: CodedMatrix) -> Tensor:
        ctx.codes = codes
        flat, rows = x.reshape(-1, x.shape[-1]), x.numel() // x.shape[-1]
        filling = max(0, ALIKE - rows) if x.device.type == "cpu" else 0
        flat = F.pad(flat, (0, 0, 0, filling))
        matrix = codes.whole(x.dtype)
        if more is None:
            out = F.linear(flat, matrix, None if bias is None else bias.to(x.dtype))
        else:
            out = torch.addmm(F.pad(more.reshape(rows, -1), (0, 0, 0, filling)), flat, matrix.t())
        return out[:rows].view(*x.shape[:-1], -1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        for_x = gradient @ ctx.codes.whole(gradient.dtype) if ctx.needs_input_grad[0] else None
        return for_x, gradient if ctx.needs_input_grad[1] else None, None, None


def coded_product(x: Tensor, codes: CodedMatrix, bias: Tensor | None = None, more: Tensor | None = None) -> Tensor:
    """x W^T + b `[.., N]`, or with `more` `[.., N]` in the place of b; no gradient for W and b.

    Each row's result depends on that row alone, to the last bit.
    """
    out: Tensor = _Product.apply(x, more, bias, codes)  # type: ignore[no-untyped-call]
    return out


class CodedLinear(nn.Linear):
    """A frozen linear layer in few bits."""

    def __init__(self, layer: nn.Linear, storage: Storage) -> None:
        nn.Module.__init__(self)
        self.in_features, self.out_features = layer.in_features, layer.out_features
        self.coded = CodedMatrix(layer.weight, storage)
        self.register_parameter("bias", None if layer.bias is None else nn.Parameter(layer.bias.detach(), False))

    @property
    def weight(self) -> Tensor:  # type: ignore[override]
        """The shape, type and place of the weight, without its numbers and their memory."""
        return self.coded.codes.new_zeros((), dtype=torch.float32).expand(self.out_features, self.in_features)

    def forward(self, x: Tensor) -> Tensor:
        if torch.is_autocast_enabled(x.device.type):
            x = x.to(torch.get_autocast_dtype(x.device.type))
        return coded_product(x, self.coded, self.bias)

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        destination[f"{prefix}weight"] = self.coded.whole(torch.bfloat16).cpu()
        if self.bias is not None:
            destination[f"{prefix}bias"] = self.bias if keep_vars else self.bias.detach()

    def _load_from_state_dict(self, state: Any, prefix: str, *_: Any) -> None:
        with torch.no_grad():
            if f"{prefix}weight" in state:
                self.coded = CodedMatrix(state[f"{prefix}weight"].to(self.coded.codes.device), self.coded.storage)
            if self.bias is not None and f"{prefix}bias" in state:
                self.bias.copy_(state[f"{prefix}bias"])


class HalfEmbedding(nn.Embedding):
    """A frozen embedding in bf16, whose states are in fp32."""

    weight: Tensor

    def __init__(self, layer: nn.Embedding, weight: Tensor) -> None:
        nn.Module.__init__(self)
        self.num_embeddings, self.embedding_dim = layer.num_embeddings, layer.embedding_dim
        self.padding_idx = layer.padding_idx
        self.register_buffer("weight", weight)

    def forward(self, ids: Tensor) -> Tensor:
        return F.embedding(ids, self.weight).float()


class _HalfHead(Function):
    """fp32 logits over a head in bf16, which is widened part by part."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(weight)
        return torch.cat([x @ part.float().t() for part in torch.split(weight, PART)], -1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (weight,) = ctx.saved_tensors
        parts = zip(torch.split(gradient, PART, -1), torch.split(weight, PART), strict=True)
        for_x = torch.zeros(*gradient.shape[:-1], weight.shape[1], dtype=gradient.dtype, device=gradient.device)
        for part, rows in parts:
            for_x += part @ rows.float()
        return for_x, None


PART = 8192
"""Rows of a head that are widened at once."""


class HalfHead(nn.Linear):
    """A frozen head in bf16, whose logits are in fp32."""

    weight: Tensor

    def __init__(self, layer: nn.Linear, weight: Tensor) -> None:
        nn.Module.__init__(self)
        self.in_features, self.out_features = layer.in_features, layer.out_features
        self.register_buffer("weight", weight)
        self.register_parameter("bias", None if layer.bias is None else nn.Parameter(layer.bias.detach(), False))

    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast(x.device.type, enabled=False):
            out: Tensor = _HalfHead.apply(x.float(), self.weight)  # type: ignore[no-untyped-call]
        return out if self.bias is None else out + self.bias


class WideHead(nn.Linear):
    """A head whose logits are in fp32 where everything else is computed in bf16."""

    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast(x.device.type, enabled=False):
            return F.linear(x.to(self.weight.dtype), self.weight, self.bias)


def _widen_buffers(model: nn.Module) -> None:
    """Constants in fp32, as exact as a model read in fp32 has them: those that scale embeddings know their value."""
    for module in model.modules():
        for name, held in module._buffers.items():
            if held is not None and held.dtype is torch.bfloat16:
                scalar = getattr(module, f"scalar_{name}", None)
                module._buffers[name] = held.float() if scalar is None else torch.tensor(float(scalar)).to(held.device)


def freeze_in(model: Any, storage: Storage) -> None:
    """Stores a model's weights, which are not trained, in `storage`: matrices of linear layers; other ones in bf16.

    Vectors (norms, biases) are in fp32.
    """
    _widen_buffers(model)
    tied: dict[int, Tensor] = {}
    head, embedding = model.get_output_embeddings(), model.get_input_embeddings()
    # Embeddings that scale what they give, as Gemma's, stay as they are, and so does a head that is tied to one.
    plain = type(embedding) is nn.Embedding and type(head) is nn.Linear
    outside = {id(embedding.weight)} | ({id(head.weight)} if head is not None else set())
    for name, module in list(model.named_modules()):
        parent = model.get_submodule(name.rpartition(".")[0]) if name else None
        last = name.rpartition(".")[2]
        if parent is None:
            continue
        if module is head or module is embedding:
            if not plain:
                continue
            # A copy: else the whole file that the weight was read from stays in memory.
            if id(module.weight) not in tied:
                tied[id(module.weight)] = module.weight.detach().to(torch.bfloat16, copy=True)
            weight = tied[id(module.weight)]
            kind: Any = HalfHead if module is head else HalfEmbedding
            setattr(parent, last, kind(module, weight))
        elif type(module) is nn.Linear:
            setattr(parent, last, CodedLinear(module, storage))
    for weight in model.parameters():
        halved = weight.ndim >= 2 and id(weight) not in outside
        weight.data = weight.data.to(torch.bfloat16 if halved else torch.float32)
        weight.requires_grad_(False)


def train_in_half(model: Any) -> None:
    """Stores the matrices of the layers in bf16, to be trained; everything else is in fp32."""
    _widen_buffers(model)
    outside = {id(module.weight) for module in (model.get_input_embeddings(), model.get_output_embeddings()) if module}
    for name, weight in model.named_parameters():
        layered = weight.ndim >= 2 and id(weight) not in outside and any(map(str.isdigit, name.split(".")))
        weight.data = weight.data.to(torch.bfloat16 if layered else torch.float32)


def stored_sizes(model: nn.Module) -> Iterator[tuple[str, int, int]]:
    """Name, number and bytes of all weights, those in codes included."""
    for name, weight in model.named_parameters():
        yield name, weight.numel(), weight.nbytes
    tied = set[int]()
    for name, module in model.named_modules():
        if isinstance(module, CodedLinear):
            yield f"{name}.weight", module.in_features * module.out_features, module.coded.nbytes
        elif isinstance(module, (HalfEmbedding, HalfHead)) and module.weight.data_ptr() not in tied:
            tied.add(module.weight.data_ptr())
            yield f"{name}.weight", module.weight.numel(), module.weight.nbytes


def weight_count(model: nn.Module) -> int:
    """How many weights a model has, those in codes included and tied ones once."""
    return sum(count for _, count, _ in stored_sizes(model))
