"""A state tree as two files: its structure as JSON and its tensors in safetensors format.

The round trip is exact: dtypes, NaN and its bits, infinities, integers of any size, tuples, and keys that are not
strings (as in the state of an optimiser) come back as they were. Tensors come back on the CPU.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor

from hocket.core.errors import ConfigurationError

# Names that the safetensors format gives to element types. Others are stored as bytes, their type in the structure.
_NAMES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}

# Larger integers are written in hexadecimal: Python limits how many decimal digits it converts.
_PLAIN_INTEGER = 1 << 256


class TreeEncoder:
    """Splits a tree into JSON data (`encode`) and named tensors (`tensors`, filled on the way).

    In the JSON form every object has one key that says what it is; plain values and lists stand for themselves.
    """

    def __init__(self) -> None:
        self.tensors: dict[str, Tensor] = {}

    def encode(self, value: Any, path: tuple[str, ...] = ()) -> Any:
        """The JSON form of `value`, which is at `path`.

        Raises:
            ConfigurationError: for a value of a kind that cannot be stored, naming its place.
        """
        if isinstance(value, Tensor):
            return self._tensor(value, path)
        if isinstance(value, (np.ndarray, np.generic)):
            return self._array(value, path)
        if isinstance(value, Mapping):
            return self._mapping(value, path)
        if isinstance(value, (list, tuple)):
            items = [self.encode(item, (*path, str(number))) for number, item in enumerate(value)]
            if type(value) is list:
                return items
            if type(value) is tuple:
                return {"tuple": items}
        elif value is None or type(value) in (bool, str):
            return value
        elif type(value) is int:
            return value if abs(value) < _PLAIN_INTEGER else {"int": hex(value)}
        elif type(value) is float:
            return value if math.isfinite(value) else {"float": struct.pack(">d", value).hex()}
        elif type(value) is bytes:
            return {"bytes": value.hex()}
        raise _refused(value, path)

    def _mapping(self, value: Mapping[Any, Any], path: tuple[str, ...]) -> Any:
        if all(type(key) is str for key in value):
            return {"dict": {key: self.encode(item, (*path, key)) for key, item in value.items()}}
        return {"map": [[self.encode(key, path), self.encode(item, (*path, str(key)))] for key, item in value.items()]}

    def _tensor(self, value: Tensor, path: tuple[str, ...]) -> Any:
        if value.layout is not torch.strided or value.is_meta:
            raise _refused(value, path)
        value = value.detach()
        if value.dtype in _NAMES:
            return {"tensor": self._store(value, path)}
        dtype = str(value.dtype).removeprefix("torch.")
        return {"tensor": self._store(_bytes(value), path), "dtype": dtype, "shape": list(value.shape)}

    def _array(self, value: np.ndarray | np.generic, path: tuple[str, ...]) -> Any:
        array = np.asarray(value)
        if array.dtype.hasobject or array.dtype.fields is not None:
            raise _refused(value, path)
        if isinstance(value, np.generic):
            return {"scalar": array.dtype.str, "bytes": array.tobytes().hex()}
        raw = torch.frombuffer(bytearray(array.tobytes()) or bytearray(1), dtype=torch.uint8)[: array.nbytes]
        return {"array": self._store(raw, path), "dtype": array.dtype.str, "shape": list(array.shape)}

    def _store(self, value: Tensor, path: tuple[str, ...]) -> str:
        name, number = ".".join(path) or "root", 1
        while name in self.tensors or name == "__metadata__":
            number += 1
            name = f"{'.'.join(path)}#{number}"
        self.tensors[name] = value
        return name


def decode_tree(data: Any, tensors: Mapping[str, Tensor]) -> Any:
    """The tree of which `TreeEncoder` made `data` and `tensors`."""
    if isinstance(data, list):
        return [decode_tree(item, tensors) for item in data]
    if not isinstance(data, dict):
        return data
    if "dict" in data:
        return {key: decode_tree(item, tensors) for key, item in data["dict"].items()}
    if "map" in data:
        return {decode_tree(key, tensors): decode_tree(item, tensors) for key, item in data["map"]}
    if "tuple" in data:
        return tuple(decode_tree(item, tensors) for item in data["tuple"])
    if "int" in data:
        return int(data["int"], 16)
    if "float" in data:
        return struct.unpack(">d", bytes.fromhex(data["float"]))[0]
    if "scalar" in data:
        return np.frombuffer(bytes.fromhex(data["bytes"]), np.dtype(data["scalar"]), count=1)[0]
    if "bytes" in data:
        return bytes.fromhex(data["bytes"])
    return _stored(data, tensors)


def _stored(data: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Any:
    if "array" in data:
        raw = tensors[data["array"]].numpy().tobytes()
        return np.ndarray(data["shape"], np.dtype(data["dtype"]), bytearray(raw))
    tensor = tensors[data["tensor"]]
    if "dtype" in data:
        return tensor.view(getattr(torch, data["dtype"])).reshape(data["shape"])
    return tensor


def _refused(value: Any, path: tuple[str, ...]) -> ConfigurationError:
    return ConfigurationError(
        f"state {'.'.join(path) or 'tree'!r} holds a {type(value).__name__}, which a checkpoint cannot store; "
        "keep numbers, strings, tensors, arrays, and lists, tuples and dicts of these"
    )


def structure_bytes(structure: Any) -> bytes:
    """The JSON file of an encoded tree."""
    return json.dumps(structure, allow_nan=False, separators=(",", ":")).encode()


def safetensors_chunks(tensors: Mapping[str, Tensor]) -> Iterator[bytes | memoryview]:
    """A safetensors file piece by piece, so that no second copy of all tensors is ever in memory.

    Larger element types come first, as the format's readers expect aligned data.
    """
    ordered = sorted(tensors.items(), key=lambda entry: -entry[1].element_size())
    header: dict[str, Any] = {}
    offset = 0
    for name, tensor in ordered:
        end = offset + tensor.numel() * tensor.element_size()
        header[name] = {"dtype": _NAMES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    yield struct.pack("<Q", len(text)) + text
    for _, tensor in ordered:
        if tensor.numel():
            yield _bytes(tensor).numpy().data


def _bytes(tensor: Tensor) -> Tensor:
    """The memory of a tensor as a flat uint8 tensor, on the CPU."""
    plain = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous()
    return plain.reshape(-1).view(torch.uint8)


def load_tree(structure: Path, tensors: Path) -> dict[str, Any]:
    """Reads a tree from its two files."""
    values = load_file(str(tensors), device="cpu")
    return cast(dict[str, Any], decode_tree(json.loads(structure.read_bytes()), values))
