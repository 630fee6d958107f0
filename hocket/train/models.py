"""The language models of a run, as configured and before any training."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.media import MEDIA
from hocket.train.checkpoint import Checkpoints, weights_in
from hocket.train.runfolder import run_named
from hocket.train.settings import Config

if TYPE_CHECKING:
    from hocket.policies.causal_lm import CausalLM
    from hocket.policies.family import Precision
    from hocket.policies.scorer import Scorer
    from hocket.policies.shared_base import SharedBaseCache
    from hocket.policies.templates import TemplateSettings


def model_path(model: str) -> str:
    """The place of a model: `nano` and others of `SHIPPED`; `smollm2`, `FILE.gguf` a file's; else a folder or the hub.

    Raises:
        ConfigurationError: when a GGUF file is missing or cannot be read, see `hocket.policies.gguf`.
    """
    from hocket.nano import SHIPPED
    from hocket.policies.gguf import gguf_checkpoint, is_gguf

    if is_gguf(model):
        return str(gguf_checkpoint(model))
    return str(SHIPPED.get(model, model))


def model_folder(model: str, runs: str) -> str:
    """The folder or name to read a model from; of a run, by its path or its name in `runs`, the newest checkpoint."""
    folder = run_named(model, runs)
    if folder is None:
        return model_path(model)
    folder_found = weights_in(Checkpoints(folder / "checkpoints").latest())
    if not folder_found:
        raise ConfigurationError(f"the run {folder} has no finished checkpoint yet")
    return str(next(iter(folder_found.values())))


def attach_media(config: Config) -> None:
    """Has this process take pictures from the folder of a run that another process writes, and put its own there."""
    if config.run is not None:
        MEDIA.attach(Path(config.runs) / config.run / "media")


def is_shipped(model: str, runs: str) -> bool:
    """Whether a model is the shipped nano, or of its shape, as what a run has made of it; a phase's is taken to be."""
    from hocket.nano import BASE
    from hocket.policies.gguf import is_gguf

    if model == Config.model or model.startswith("phase:"):
        return True
    file = Path("" if is_gguf(model) else model_folder(model, runs)) / "config.json"
    return file.is_file() and _shape(_settings(file)) == _shape(_settings(BASE / "config.json"))


def is_shipped_reader(model: str, runs: str) -> bool:
    """Whether a model is the shipped nano with a tower that reads pictures or sounds, or of its shape."""
    from hocket.nano import SHIPPED
    from hocket.policies.gguf import is_gguf

    if model.startswith("phase:") or is_gguf(model):
        return False
    file = Path(model_folder(model, runs)) / "config.json"
    language = _settings(file).get("text_config") if file.is_file() else None
    return language is not None and _shape(language) == _shape(
        _settings(SHIPPED["nano-vlm"] / "config.json")["text_config"]
    )


def _settings(file: Path) -> dict[str, Any]:
    settings: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return settings


def _shape(settings: dict[str, Any]) -> list[Any]:
    return [settings.get(name) for name in ("model_type", "hidden_size", "num_hidden_layers", "vocab_size")]


def configured_models(config: Config) -> list[Any]:
    """The `transformers` configurations of the language models that a run on words samples from; reads no weights."""
    from hocket.policies.loading import read_config

    # A workflow may have roles that no setting names, so the run's own model counts always.
    names = {role.model for role in config.roles.values() if role.model is not None and role.endpoint is None}
    return [read_config(model_path(name)) for name in sorted({config.model, *names})]


def load_policy(
    config: Config,
    name: str,
    model: str | None = None,
    precision: Precision = "fp32",
    base_cache: SharedBaseCache | None = None,
) -> CausalLM:
    """The language model `name` of a run as configured, before any training; `model` when it has one of its own.

    With adapters, policies loaded by the same `base_cache` share their frozen weights.
    """
    from hocket.agents.workflows.chat import Chat
    from hocket.policies.causal_lm import CausalLM
    from hocket.policies.routes import columns_of
    from hocket.train.device_faults import move
    from hocket.train.machine import device_of

    policy = CausalLM.from_pretrained(
        model_path(model or config.model),
        name=name,
        lora=config.lora,
        precision=precision,
        weights=config.weights,
        chat_template=_template(config, model),
        base_cache=base_cache,
        key=Key.of(config.seed).derive("policy", name),
    )
    move(policy.module, device_of(config), name)
    policy.end_of_turn = Chat(policy.tokenizer).stops
    if config.tower.lr is not None:
        policy.train_tower(config.tower.lr)
    if config.router_replay and not columns_of(policy.model):
        kind = policy.model.config.model_type
        raise ConfigurationError(f"router_replay: no router of this {kind} model is known; drop the setting")
    policy.replay_routes = config.router_replay
    return policy


def load_scorer(
    config: Config, name: str, model: str | None = None, precision: Precision = "fp32", *, outputs: int
) -> Scorer:
    """The scorer `name` of a run as configured, before any training, with at least `outputs` outputs.

    Raises:
        ConfigurationError: also when the run stores weights in another type than fp32.
    """
    from hocket.agents.workflows.chat import Chat
    from hocket.policies.scorer import Scorer
    from hocket.train.device_faults import move
    from hocket.train.machine import device_of

    if config.weights != "fp32":
        raise ConfigurationError(
            f"weights = {config.weights!r}: policy {name!r} is a scorer, which is trained in fp32; drop weights"
        )
    if config.tower.lr is not None:
        raise ConfigurationError(f"tower.lr: policy {name!r} is a scorer, which reads words alone; drop tower.lr")
    policy = Scorer.from_pretrained(
        model_path(model or config.model),
        name=name,
        outputs=outputs,
        lora=config.lora,
        precision=precision,
        chat_template=_template(config, model),
        key=Key.of(config.seed).derive("policy", name),
    )
    move(policy.module, device_of(config), name)
    policy.end_of_turn = Chat(policy.tokenizer).stops
    return policy


def _template(config: Config, model: str | None) -> TemplateSettings:
    """What becomes of a model's chat template; a role's own model may be of another family than the run's."""
    return config.template if model in (None, config.model) else config.template.lenient
