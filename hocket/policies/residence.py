"""Where the weights of a language model are while something is computed with it: here, unless others hold parts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from torch import Tensor

from hocket.policies.family import Layer, Precision, Visit, layers_of, visited


class Residence:
    """All weights are here, all the time. Where they are not, another one brings them
    (`hocket.distributed.cluster.shards`).

    Attributes:
        here: whether all weights are here whatever happens.
    """

    here = True

    def whole(self) -> AbstractContextManager[None]:
        """Inside, every weight is here."""
        return nullcontext()

    def around(self) -> AbstractContextManager[None]:
        """Inside, the weights outside the layers are here, and a layer's whenever it is visited."""
        return nullcontext()

    def called(self) -> AbstractContextManager[None]:
        """Inside, the model may be called as a module: a layer's weights are here while it is called."""
        return nullcontext()

    def layers(self, model: Any, precision: Precision) -> tuple[Sequence[Layer], Visit]:
        """The layers of a model of known form for one forward pass, and how each is visited."""
        return layers_of(model, precision), visited

    def held(self, weights: Iterable[Tensor]) -> list[Tensor]:
        """What this process always holds of weights: tensors that change when they do."""
        return list(weights)


HERE = Residence()
