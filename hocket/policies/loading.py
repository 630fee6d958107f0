"""Reading a causal language model and its tokenizer, with errors a person can act on and no random draw."""

from __future__ import annotations

import json
import math
import pickle
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from hocket.core.errors import ConfigurationError, suggestion
from hocket.core.inside import check_model_folder
from hocket.core.pictures import pillow
from hocket.policies.media_reader import MediaReader
from hocket.policies.picture_reader import PictureReader
from hocket.policies.refusals import check_architecture
from hocket.policies.shapes import text_config
from hocket.policies.sound_reader import SoundReader
from hocket.policies.templates import TemplateSettings
from hocket.policies.vision import FAMILIES, HEARING, language_part

READ_WHOLE = frozenset({"mxfp4", "fp8"})
"""Quantised checkpoints whose weights `transformers` makes whole when it reads them."""

TEXT_APART = frozenset({"gemma3", "gemma3n", "gemma4", "gemma4_unified"})
"""Architectures of images and text of which the part for text is read, as a model by itself."""

_TEXT_NAMES = {r"^(model\.)?language_model\.(model\.)?": "model.", r"^model\.lm_head": "lm_head"}
"""Patterns of how such a checkpoint names the weights of its text model, and that model's own names."""

ATTENTION = "eager"
"""The backward pass of fused attention is slower on CPU at the lengths trained here."""


def read_model(where: str, dtype: torch.dtype) -> Any:
    """The model at a local folder or of a hub name, in evaluation mode.

    Raises:
        ConfigurationError: when there is no such model, it cannot be read, or some of its weights are missing.
    """
    from transformers import AutoModelForCausalLM, AutoModelForMultimodalLM
    from transformers.utils import logging

    logging.disable_progress_bar()  # Loading takes a moment, and hocket shows its own progress.

    config = trainable_config(where)
    settings = {"dtype": dtype, "attn_implementation": ATTENTION, "output_loading_info": True}
    apart = config.model_type.removesuffix("_text") in TEXT_APART
    if apart:
        settings |= {"config": config, "key_mapping": _TEXT_NAMES}
    with torch.random.fork_rng(devices=[]):  # Some layers draw as they are made.
        if config.model_type in FAMILIES | HEARING:
            joined, report = _fetch(AutoModelForMultimodalLM, "model", where, settings)
            model = language_part(joined.eval(), _reader(where, config.model_type))
        else:
            model, report = _fetch(AutoModelForCausalLM, "model", where, settings)
    if apart and hasattr(model, "_weight_conversions"):
        del model._weight_conversions  # Saved by its own names.
    if report["missing_keys"]:
        raise ConfigurationError(
            f"model {where!r} lacks the weights of {sorted(report['missing_keys'])[0]!r}, so it is not a complete "
            "causal language model; choose another checkpoint"
        )
    _check_numbers(model, where)
    return model.eval()


def trainable_config(where: str) -> Any:
    """The configuration of a model that can be trained, as `read_config` gives it; none of its weights are read.

    Raises:
        ConfigurationError: as `read_config`, and when the model is of another kind or its weights are in codes.
    """
    config = read_config(where)
    if config.model_type not in FAMILIES | HEARING:
        check_architecture(config, where)
    _check_stored(config, where)
    if is_classifier(config):  # With tied embeddings it would load, and write at random.
        raise ConfigurationError(
            f"model {where!r} is a scorer and writes no answers; pay by it (--reward model:{where}), or choose another "
            "model"
        )
    return config


def _check_stored(config: Any, where: str) -> None:
    """Refuses weights in codes of others, which can neither be trained nor merged.

    Raises:
        ConfigurationError: naming the method and what to do instead.
    """
    stored = getattr(config, "quantization_config", None)
    method = stored.get("quant_method") if isinstance(stored, dict) else getattr(stored, "quant_method", None)
    if method is not None and str(getattr(method, "value", method)) not in READ_WHOLE:
        raise ConfigurationError(
            f"model {where!r} is quantised ({getattr(method, 'value', method)}), and such weights cannot be trained or "
            "merged; name the model it was made from, with --weights nf4 and --lora.rank 16 for as little memory"
        )


def _check_numbers(model: Any, where: str) -> None:
    """Refuses weights that are no numbers.

    Raises:
        ConfigurationError: naming the first tensor.
    """
    for name, weight in model.named_parameters():
        # A sum is quick and catches almost all; it may overflow where all numbers are finite.
        if weight.is_floating_point() and not math.isfinite(weight.detach().sum()) and not weight.isfinite().all():
            count = int((~weight.isfinite()).sum())
            raise ConfigurationError(
                f"model {where!r}: {count} of the {weight.numel():,} numbers of {name!r} are NaN or infinite; the "
                "checkpoint is broken, so choose an earlier one or download it again"
            )


def read_classifier(where: str, dtype: torch.dtype) -> Any:
    """The model with a head of scores at a local folder or of a hub name, in evaluation mode.

    Raises:
        ConfigurationError: as `read_model`, and when its head is not that of a causal model.
    """
    from transformers import AutoModelForSequenceClassification

    _check_place(where)
    settings = {"dtype": dtype, "attn_implementation": ATTENTION, "output_loading_info": True}
    # Missing weights would be drawn from torch's own generator before the report of them is here.
    with torch.random.fork_rng(devices=[]):
        model, report = _fetch(AutoModelForSequenceClassification, "model", where, settings)
    if report["missing_keys"] or not isinstance(getattr(model, "score", None), torch.nn.Linear):
        lacking = sorted(report["missing_keys"])[0] if report["missing_keys"] else "score.weight"
        raise ConfigurationError(
            f"model {where!r} lacks the weights of {lacking!r}, so it is no causal model with a head of scores; choose "
            "another checkpoint"
        )
    return model.eval()


def is_classifier(config: Any) -> bool:
    """Whether a configuration, as `read_config` gives it, is of a model with a head of scores."""
    return any(str(name).endswith("ForSequenceClassification") for name in config.architectures or ())


def read_config(where: str) -> Any:
    """The model's configuration, without its weights; errors as `read_model`. Of `TEXT_APART` that of the text."""
    from transformers import AutoConfig

    _check_place(where)
    return text_apart(_fetch(AutoConfig, "model", where, {}))


def text_apart(config: Any) -> Any:
    """The configuration of the text model in one of `TEXT_APART`; any other as it is."""
    if config.model_type not in TEXT_APART:
        return config
    text = config.get_text_config(decoder=True)
    text.architectures, text.tie_word_embeddings = config.architectures, config.tie_word_embeddings
    if getattr(config, "quantization_config", None) is not None:
        text.quantization_config = config.quantization_config
    return text


def read_tokenizer(where: str, chat_template: str | TemplateSettings | None = None) -> Any:
    """The tokenizer at the same place; `chat_template` (text, a file that holds it, or settings) changes its own.

    A missing padding token falls back to the end-of-text token.

    Raises:
        ConfigurationError: when there is none, or it has no chat template or no end-of-text token.
    """
    from transformers import AutoTokenizer

    _check_place(where)
    tokenizer = _fetch(AutoTokenizer, "tokenizer", where, {})
    if chat_template is not None:
        settings = TemplateSettings(chat_template) if isinstance(chat_template, str) else chat_template
        tokenizer.chat_template = settings.written(tokenizer.chat_template)
    if not tokenizer.chat_template:
        raise ConfigurationError(
            f"the tokenizer of {where!r} has no chat template; name one with --chat_template FILE.jinja, or choose an "
            "instruction-tuned model"
        )
    if tokenizer.eos_token_id is None:
        raise ConfigurationError(
            f"the tokenizer of {where!r} has no end-of-text token, so a response could never end; set eos_token in its "
            "tokenizer_config.json"
        )
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    if (family := _family(where)) in FAMILIES | HEARING:
        tokenizer.picture_reader = _reader(where, family)
    return tokenizer


def _family(where: str) -> str:
    """The architecture of the model at a place; empty where there is none."""
    from transformers import PretrainedConfig

    try:
        stored, _ = PretrainedConfig.get_config_dict(str(Path(where).expanduser()))
    except (OSError, ValueError):
        return ""  # A tokenizer may lie somewhere without a model.
    return str(stored.get("model_type"))


def _reader(where: str, family: str) -> MediaReader:
    """The processor at a place, of a model of this family.

    Raises:
        ConfigurationError: when there is none, or it reads neither pictures nor sounds, or what reads them is missing.
    """
    from transformers import AutoProcessor

    if family not in HEARING:
        pillow()
    try:
        processor = _fetch(AutoProcessor, "processor", where, {})
    except AttributeError as error:  # What transformers raises where the part for videos is missing.
        raise ConfigurationError(
            f"transformers reads the processor of {where!r} only where torchvision is installed; install it, or choose "
            "a model of llava or idefics3"
        ) from error
    names = ("audio_token", "feature_extractor") if family in HEARING else ("image_token", "image_processor")
    if not all(hasattr(processor, name) for name in names):
        raise ConfigurationError(
            f"the processor of {where!r} reads no {'sounds' if family in HEARING else 'pictures'}; put the model's "
            "preprocessor_config.json and processor_config.json into its folder"
        )
    return SoundReader(processor) if family in HEARING else PictureReader(processor)


def check_tokens(config: Any, tokenizer: Any, where: str) -> None:
    """Refuses a tokenizer that writes tokens which the model does not know.

    Special tokens that neither its template nor the ends of texts need may be such (that of gemma-3-1b has one), since
    no text is read as one.

    Raises:
        ConfigurationError: naming the first one.
    """
    known = getattr(text_config(config), "vocab_size", None)
    if known is None or len(tokenizer) <= known:
        return
    special = {str(token) for token in tokenizer.added_tokens_decoder.values() if token.special}
    ends = tokenizer.bos_token, tokenizer.eos_token
    for token, number in sorted(tokenizer.get_vocab().items(), key=lambda entry: entry[1]):
        if number >= known and (token not in special or token in ends or token in str(tokenizer.chat_template)):
            raise ConfigurationError(
                f"the tokenizer of {where!r} writes {token!r} as token {number}, and the model knows {known} tokens; "
                "give it its own tokenizer, or the model more embeddings (resize_token_embeddings)"
            )


def _check_place(where: str) -> None:
    folder = Path(where).expanduser()
    if folder.is_dir():
        if not (folder / "config.json").is_file():
            raise ConfigurationError(f"{where!r} is not a model folder: it has no config.json")
        check_model_folder(folder)
        if _is_control_network(folder / "config.json"):
            raise ConfigurationError(f"{where!r} holds a control network, which has no words; name a language model")
        return
    named = not where.startswith((".", "/", "~")) and where.count("/") <= 1
    if folder.exists() or not named:
        raise ConfigurationError(f"there is no model folder {where!r}{_near_models(where)}")


def _near_models(where: str) -> str:
    """The nearest of the shipped models and of the model folders beside a place, and what else to give."""
    folder = Path(where).expanduser().parent
    beside = [str(Path(where).parent / file.parent.name) for file in folder.glob("*/config.json")]
    return suggestion(
        where,
        ("nano", "nano-vlm", "nano-audio", "smollm2", *beside),
        "give nano, nano-vlm, nano-audio, smollm2, a model folder or a hub name",
    )


def _is_control_network(config: Path) -> bool:
    """Whether a configuration is that of a control policy."""
    try:
        data = json.loads(config.read_bytes())
    except (OSError, ValueError, RecursionError):
        return False  # Whoever reads it says what is wrong.
    return isinstance(data, dict) and "model_type" not in data and "hidden" in data


def _fetch(loader: Any, what: str, where: str, settings: dict[str, Any]) -> Any:
    """From a folder, else from the local hub cache, else from the hub; code that it brings is never run."""
    from safetensors import SafetensorError

    settings = {**settings, "trust_remote_code": False}
    folder = Path(where).expanduser()
    if folder.is_dir():
        try:
            with without_progress_bars():
                return loader.from_pretrained(str(folder), local_files_only=True, **settings)
        except (
            OSError,
            ValueError,
            KeyError,
            RuntimeError,
            ImportError,
            pickle.UnpicklingError,
            SafetensorError,
        ) as error:
            raise ConfigurationError(f"the {what} in {where!r} cannot be read: {first_line(error)}") from error
    try:
        return loader.from_pretrained(where, local_files_only=True, **settings)
    except (OSError, ValueError):
        pass
    try:
        return loader.from_pretrained(where, **settings)
    except (OSError, ValueError) as error:
        raise ConfigurationError(
            f"{what} {where!r} is neither a folder here nor in the local hub cache, and the hub did not give it "
            f"({first_line(error)}){_near_models(where)}"
        ) from error


@contextmanager
def without_progress_bars() -> Iterator[None]:
    """Inside, `transformers` draws no bars: a checkpoint a minute must not scroll a display or a notebook away."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


def first_line(error: BaseException) -> str:
    """What an error says first, to stand in a sentence."""
    if "trust_remote_code" in str(error):
        return "it needs code of its own, which is never run"
    if unknown := re.search(r"model type `(.+?)` but Transformers does not recognize", str(error)):
        return f"transformers has no architecture {unknown[1]!r}; update transformers, or choose another model"
    if library := re.search(r"requires the (\S+) library", str(error)):
        return f"it needs the library {library[1]}; install it, or choose another model"
    if type(error).__name__ == "SafetensorError":
        return "a .safetensors file of it is cut short or broken; copy or download it again"
    if isinstance(error, pickle.UnpicklingError):
        return "its .bin file holds more than tensors, or is broken; convert it to safetensors where you trust it"
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
