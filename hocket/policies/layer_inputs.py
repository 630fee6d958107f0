"""What each layer reads beside the residual stream: a table's row for the token, and a view of its embedding.

The view is normed and added to the row. See `hocket.policies.forms.InputsForm`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from hocket.policies.family import STEPS, Precision, finished, linear
from hocket.policies.form_reading import known_form


class LayerInputs:
    """Of the weights of the moment, as `linear`."""

    def __init__(self, model: Any, precision: Precision) -> None:
        self._form, trunk = known_form(model).inputs, model.model
        if self._form is not None:
            self._table = getattr(trunk, self._form.table)
            self._norm = getattr(trunk, self._form.norm.name)
            self._project = linear([getattr(trunk, self._form.projection)], None, precision)
            self._narrow = precision == "bf16"

    def __call__(self, token: Tensor, x: Tensor) -> Sequence[Tensor] | None:
        """Of each layer `[M, P]`, of tokens `[M]` embedded as x `[M, H]`; None where there are none."""
        form = self._form
        if form is None:
            return None
        view = self._project(x.bfloat16() if self._narrow else x).to(x.dtype) * form.factor
        normal = finished(form.norm, self._norm, STEPS.norm, view.reshape(-1, form.width), None)
        rows: Tensor = self._table(token).reshape(normal.shape)
        both: Sequence[Tensor] = ((normal + rows) * form.share).view(len(x), -1, form.width).unbind(1)
        return both
