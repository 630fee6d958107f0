"""Two corrections of Triton's interpreter (3.6), which runs kernels on the processor as a check."""

from __future__ import annotations

from typing import Any

import triton.language as tl
from triton.runtime import interpreter


def correct() -> None:
    """Lets bounds of loops be tensors (numpy 2.4 makes no number of an array with an axis), and products be of bf16."""
    original, product = interpreter._patch_lang_tensor, interpreter.InterpreterBuilder.create_dot

    def patch_tensor(tensor: Any, scope: Any) -> None:
        original(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.item()))

    def create_dot(self: Any, a: Any, b: Any, *rest: Any) -> Any:
        a, b = (self.cast_impl(x, tl.float32) if x.dtype.scalar == tl.bfloat16 else x for x in (a, b))
        return product(self, a, b, *rest)

    interpreter._patch_lang_tensor = patch_tensor
    interpreter.InterpreterBuilder.create_dot = create_dot
