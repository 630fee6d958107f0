"""A run's policy where other programs read it: a model folder, an adapter, a GGUF file, the hub."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from hocket.core.errors import ConfigurationError, HocketError, nearest
from hocket.core.yaml_text import load_yaml
from hocket.train.checkpoint import Checkpoints, checkpoint_of
from hocket.train.models import model_folder
from hocket.train.trust import SIGNATURE

ADAPTER = "adapter"
"""Where a policy's folder keeps its adapter; the folder itself has the merged weights (`CausalLM.save`)."""


@dataclass(frozen=True)
class ExportResult:
    """What was written: `kind` in words, of which `step`, and the names of the `files`."""

    kind: str
    step: int
    files: list[str]


def export_run(
    run: Path,
    out: Path,
    *,
    policy: str | None = None,
    which: str = "last",
    merge: bool = False,
    gguf: bool = False,
    average: Path | None = None,
    share: float = 0.5,
) -> ExportResult:
    """Copies a policy out of a run's checkpoint into the new folder `out`.

    Args:
        run: the run's folder. out: where to; must not exist.
        policy: which one of a team. which: the `last` checkpoint or the `best`.
        merge: the whole model where the run trained an adapter, which without it is written alone, with its tokenizer
            and the name of its base.
        gguf: writes `model.gguf` too, of the whole model.
        average: a run or a model folder; weights are the mean of both, of this one with weight `share` (Kimi k1.5's
            merging of a long and a short model, arXiv 2501.12599, section 2.4).

    Raises:
        ConfigurationError: when there is no such checkpoint or policy, `out` exists, the policy is no language model
            that the format knows, or what is averaged is another model.
    """
    if not 0 <= share <= 1:
        raise ConfigurationError(f"export --share {share:g}: a share lies between 0 and 1")
    if out.exists():
        raise ConfigurationError(f"{out} exists already; choose another folder with --out, or remove it")
    checkpoint = checkpoint_of(run, which)
    source = _model_of(run, checkpoint, policy)
    adapted = (source / ADAPTER).is_dir()
    alone = adapted and not (merge or gguf or average)
    hidden = out.with_name(f".{out.name}.part")
    shutil.rmtree(hidden, ignore_errors=True)
    try:
        if alone:
            shutil.copytree(source / ADAPTER, hidden)
            _complete_adapter(hidden, source, base_of(run, source.name))
        else:
            shutil.copytree(source, hidden, ignore=shutil.ignore_patterns(ADAPTER))
        if average is not None:
            merged = average if (average / "config.json").is_file() else None
            _average(hidden, merged or _model_of(average, checkpoint_of(average, which), policy), share)
        if gguf:
            from hocket.train.gguf_file import write_gguf

            write_gguf(hidden, hidden / "model.gguf", name=run.name)
        hidden.rename(out)  # whole or not at all
    finally:
        shutil.rmtree(hidden, ignore_errors=True)
    kind = "adapter" if alone else "averaged model" if average else "merged model" if adapted else "model"
    files = sorted(file.relative_to(out).as_posix() for file in out.rglob("*") if file.is_file())
    return ExportResult(kind, Checkpoints.step(checkpoint), files)


def _model_of(run: Path, checkpoint: Path, policy: str | None) -> Path:
    """The folder of a language model in a checkpoint of a run."""
    folders = Checkpoints.policies(checkpoint)
    name = next(iter(folders)) if policy is None and len(folders) == 1 else policy
    if name is None:
        raise ConfigurationError(f"run {run} has the policies {', '.join(folders)}; choose one with --policy")
    if name not in folders:
        raise ConfigurationError(f"run {run} has no policy {name!r}{nearest(name, folders)}")
    _refuse_links(folders[name])
    if not _is_model(folders[name]):
        raise ConfigurationError(f"policy {name!r} of run {run} is no language model, so there is no model to export")
    return folders[name]


TOKENIZER = ("tokenizer*", "special_tokens_map.json", "added_tokens.json", "chat_template*", "vocab*", "merges.txt")
"""Files of a model folder that are its tokenizer's."""


def _complete_adapter(folder: Path, model: Path, base: str) -> None:
    """Adds to an adapter what other programs read beside it: its base's name, and the tokenizer with chat template."""
    file = folder / "adapter_config.json"
    settings = json.loads(file.read_text())
    file.write_text(json.dumps({**settings, "base_model_name_or_path": base}, indent=2, sort_keys=True) + "\n")
    for part in sorted({part for pattern in TOKENIZER for part in model.glob(pattern) if part.is_file()}):
        shutil.copy(part, folder / part.name)


def base_of(run: Path, policy: str) -> str:
    """The model that a policy of a run began with: a name of the hub, or the absolute path of a folder."""
    config = load_yaml((run / "config.yaml").read_text())
    roles = config.get("roles") or {}
    models = {str(role.get("policy") or name): role.get("model") for name, role in roles.items()}
    named = str(models.get(policy) or config.get("model") or "nano")
    try:
        folder = model_folder(named, str(run.parent))
    except ConfigurationError:  # It was removed since: its name is all that is known.
        folder = named
    return str(Path(folder).resolve()) if Path(folder).is_dir() else folder


def is_language_run(run: Path, which: str) -> bool:
    """Whether a checkpoint of a run holds language models or scorers."""
    return any(map(_is_model, Checkpoints.policies(checkpoint_of(run, which)).values()))


def _is_model(folder: Path) -> bool:
    """Whether a policy's folder is a model of `transformers`."""
    try:
        return "model_type" in json.loads((folder / "config.json").read_bytes())
    except (OSError, ValueError):
        return False


def _average(folder: Path, other: Path, share: float) -> None:
    """Makes every weight of the model in `folder` `(1 - share)` times itself and `share` times that of `other`."""
    from safetensors.torch import load_file, save_file

    theirs = {name: value for file in sorted(other.glob("*.safetensors")) for name, value in load_file(file).items()}
    for file in sorted(folder.glob("*.safetensors")):
        tensors = load_file(file)
        for name, tensor in tensors.items():
            value = theirs.get(name)
            if value is None or value.shape != tensor.shape:
                has = "has none" if value is None else f"has {tuple(value.shape)}"
                raise ConfigurationError(
                    f"{other} is another model: weight {name} is {tuple(tensor.shape)} here and it {has}; average "
                    "models of one architecture and vocabulary"
                )
            tensors[name] = ((1 - share) * tensor.double() + share * value.double()).to(tensor.dtype).contiguous()
        save_file(tensors, file, metadata={"format": "pt"})


def push(folder: Path, repository: str, *, private: bool = False) -> str:
    """Sends a folder to a model repository of the Hugging Face hub, made where it is new; returns its address.

    The token is the hub library's own (`hf auth login`, or the environment variable HF_TOKEN).

    Raises:
        ConfigurationError: for a name that is none, and offline (HF_HUB_OFFLINE).
        HocketError: when the hub refuses or cannot be reached; the folder stays.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils._validators import validate_repo_id

    if os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "TRUE", "YES", "ON"):
        raise ConfigurationError(f"push {repository}: HF_HUB_OFFLINE is set; unset it, or copy {folder} yourself")
    try:
        validate_repo_id(repository)
    except HFValidationError as error:
        raise ConfigurationError(f"push = {repository!r} is no name of a repository; write OWNER/NAME") from error
    api = HfApi()
    try:
        made = api.create_repo(repository, private=private, exist_ok=True)
        api.upload_folder(repo_id=made.repo_id, folder_path=str(folder), commit_message="Trained with hocket")
    except Exception as error:
        words = " ".join(str(error).split())[:300] or type(error).__name__
        raise HocketError(
            f"push {repository}: {words}; {folder} is kept, log in with `hf auth login` or send it later"
        ) from error
    return str(made)


def copy_run(checkpoint: Path, folder: Path) -> None:
    """Writes into an empty folder a run with the configuration of a checkpoint's run and this checkpoint alone.

    Raises:
        ConfigurationError: when something in it is a link.
    """
    run = checkpoint.parent.parent
    _refuse_links(checkpoint)
    for name in ("config.yaml", SIGNATURE, "machine.json"):
        if (run / name).is_file():
            shutil.copy(run / name, folder / name)
    shutil.copytree(checkpoint, folder / checkpoint.parent.name / checkpoint.name)


def _refuse_links(folder: Path) -> None:
    if link := next((file for file in sorted(folder.rglob("*")) if file.is_symlink()), None):
        raise ConfigurationError(f"{link} is a link, and what it leads to may be no part of the model; remove it")
