"""vLLM's side of a transfer of weights through files in shared memory, as a plugin of vLLM.

Every process of vLLM loads it: an entry point `vllm.general_plugins` names `register`, and `hocket.engine.vllm_process`
puts it on their path. This file imports nothing of hocket.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

BACKEND = "hocket"
"""The name of the backend in vLLM's `weight_transfer_config`."""


def register() -> None:
    """Adds the backend to those that vLLM has; more than once is once."""
    base: Any = importlib.import_module("vllm.distributed.weight_transfer.base")
    factory: Any = importlib.import_module("vllm.distributed.weight_transfer.factory")
    engines = factory.WeightTransferEngineFactory
    if BACKEND not in engines._registry:
        engines.register_engine(BACKEND, _receiver(base))


def _receiver(base: Any) -> type[Any]:
    """The class of vLLM's side; its bases are vLLM's."""

    class Start(base.WeightTransferInitInfo):  # type: ignore[misc]
        """Nothing is agreed on in advance."""

    class Shard(base.WeightTransferUpdateInfo):  # type: ignore[misc]
        """A safetensors file as a checkpoint has it."""

        def __init__(self, file: str) -> None:
            self.file = file

    class Receiver(base.WeightTransferEngine):  # type: ignore[misc]
        """Loads checkpoint files into the live model, layer by layer."""

        init_info_cls, update_info_cls = Start, Shard

        def init_transfer_engine(self, init_info: Start) -> None:
            """Does nothing."""

        def start_weight_update(self) -> None:
            _reload().initialize_layerwise_reload(self.model)

        def receive_weights(self, update_info: Shard) -> None:
            from safetensors import safe_open

            with safe_open(Path(update_info.file), "pt") as shard:
                self.model.load_weights((name, shard.get_tensor(name)) for name in shard.keys())  # noqa: SIM118

        def finish_weight_update(self) -> None:
            _reload().finalize_layerwise_reload(self.model, self.model_config)

        def shutdown(self) -> None:
            """Nothing is open."""

    return Receiver


def _reload() -> Any:
    return importlib.import_module("vllm.model_executor.model_loader.reload")
