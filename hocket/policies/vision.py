"""Models that read pictures or sounds: their language part as a policy's model, and the features in its embedding.

The tower and its projector are the model's own, called by its own method. Unless they are trained, a picture is encoded
once a run; else once for each version of their weights, and again with gradient wherever one is computed. Pictures are
encoded in buckets of a fixed size, filled up with copies, so that the numbers of one do not depend on which others are
read beside it.
"""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from hocket.core.errors import ConfigurationError, HocketError
from hocket.core.media import FIRST, MEDIA
from hocket.policies.media_reader import MediaReader

FAMILIES = frozenset({"llava", "smolvlm", "idefics3", "internvl"})
"""Architectures whose pictures are features in the place of tokens, at plain positions."""

HEARING = frozenset({"qwen2_audio"})
"""The same of sounds."""

REFUSED = {
    "qwen2_vl": "counts a picture's positions on three axes",
    "qwen2_5_vl": "counts a picture's positions on three axes",
    "qwen3_vl": "reads a picture's features in several layers",
    "qwen3_vl_moe": "reads a picture's features in several layers",
}
"""Architectures whose pictures are more than that, and why."""

BUCKET = 256
"""Tokens of pictures that are encoded together."""

MOST_BYTES = 2**28
"""Bytes of features in memory at most; older ones are computed again."""

NEVER = -1e4
"""The logit of the placeholder, which no model may write: its probability is 0 in every type."""


class _Features(OrderedDict[str, Tensor]):
    """Features by picture, the oldest first."""

    nbytes = 0

    def add(self, picture: str, features: Tensor) -> None:
        self[picture] = features
        self.nbytes += features.nbytes

    def shrink(self) -> None:
        while self.nbytes > MOST_BYTES and len(self) > 1:
            self.nbytes -= self.popitem(last=False)[1].nbytes


class Vision:
    """The parts of a model that its language part lacks: tower, projector, processor.

    Args:
        whole: the model of `transformers`. reader: its processor.

    Attributes:
        tower: the parts that read, tower and projector, where they may change; None where they never do.
    """

    def __init__(self, whole: Any, reader: MediaReader) -> None:
        self.whole, self.reader = whole, reader
        self.tower: nn.ModuleDict | None = None
        self._fixed = frozenset(name for name, weight in whole.named_parameters() if not weight.requires_grad)
        whole.requires_grad_(False)
        self._features, self._version = _Features(), tuple[tuple[int, int], ...]()

    def __deepcopy__(self, memo: dict[int, Any]) -> Vision:
        """The language part is the copied model's; a tower that never changes is shared. Copies are not trained."""
        copied = copy.copy(self)
        memo[id(self)] = copied
        language = {id(weight) for part in self._language() for weight in (*part.parameters(), *part.buffers())}
        for weight in (*self.whole.parameters(), *self.whole.buffers()):
            if id(weight) not in language and self.tower is None:
                memo[id(weight)] = weight
        copied.whole = copy.deepcopy(self.whole, memo)
        if self.tower is not None:
            copied.tower = copied._parts().requires_grad_(False)
            copied._features = _Features()
        return copied

    def train(self) -> nn.ModuleDict:
        """Has tower and projector take part in training, but for weights that the model fixes; they by their names."""
        self.tower = self._parts()
        inside = {id(weight) for weight in self.tower.parameters()}
        for name, weight in self.whole.named_parameters():
            if id(weight) in inside:
                weight.requires_grad_(name not in self._fixed)
        return self.tower

    def load(self, other: Vision) -> None:
        """Takes over the weights of the tower and projector of another model of the same shape.

        Raises:
            RuntimeError: when the shapes differ.
        """
        if self.tower is not None and other.whole is not self.whole:
            self.tower.load_state_dict(other._parts().state_dict())

    def embedded(self, embed: Callable[[Tensor], Tensor], token: Tensor) -> Tensor:
        """Tokens `[..]` as `embed` reads them, `[.., H]`, and those of pictures as their features."""
        pictured = token >= FIRST
        if not bool(pictured.any()):
            return embed(token)
        x = embed(token.masked_fill(pictured, 0))
        x[pictured] = self._rows(token[pictured].tolist()).to(x.device, x.dtype)
        return x

    def features(self, pictures: Sequence[str]) -> list[Tensor]:
        """The features of processed pictures, `[tokens, H]` each, with gradient if one is wanted of the tower."""
        if self.tower is not None:
            if torch.is_grad_enabled() and any(weight.requires_grad for weight in self.tower.parameters()):
                return self._traced(pictures)
            version = tuple((weight.data_ptr(), weight._version) for weight in self.tower.parameters())
            if version != self._version:
                self._features, self._version = _Features(), version
        missing = [picture for picture in dict.fromkeys(pictures) if picture not in self._features]
        with torch.inference_mode(False), torch.no_grad():
            for alike in self._buckets(missing):
                for picture, rows in zip(alike, self._encoded(alike), strict=False):
                    self._features.add(picture, rows)
        features = [self._features[picture] for picture in pictures]
        self._features.shrink()
        return features

    def save(self, folder: Path, language: dict[str, Tensor] | None) -> None:
        """Writes the whole model and its processor. `language` is the state of the language part, if not as it is."""
        state = None
        if language is not None:
            inside = self._place() + "."
            state = {
                name: value
                for name, value in self.whole.state_dict().items()
                if not name.startswith((inside, "lm_head."))
            }
            for name, value in language.items():
                state[name.replace("model.", inside, 1) if name.startswith("model.") else name] = value
        self.whole.save_pretrained(str(folder), state_dict=state)
        self.reader.save(folder)

    def _traced(self, pictures: Sequence[str]) -> list[Tensor]:
        """Features with gradient, which are not kept."""
        different = list(dict.fromkeys(pictures))
        rows = {
            picture: features
            for alike in self._buckets(different)
            for picture, features in zip(alike, self._encoded(alike), strict=False)
        }
        return [rows[picture] for picture in pictures]

    def _rows(self, numbers: list[int]) -> Tensor:
        tokens = [MEDIA.token(number) for number in numbers]
        pictures = list(dict.fromkeys(token.picture for token in tokens))
        features = self.features(pictures)
        starts, total = {}, 0
        for picture, rows in zip(pictures, features, strict=True):
            starts[picture], total = total, total + len(rows)
        return torch.cat(features)[[starts[token.picture] + token.place for token in tokens]]

    def _buckets(self, pictures: Sequence[str]) -> list[list[str]]:
        """Pictures that are encoded together, of one shape."""
        buckets: list[list[str]] = []
        by_shape: dict[Any, list[str]] = {}
        for picture in pictures:
            inputs = self.reader.inputs(picture)
            shapes = tuple((key, value.shape) for key, value in sorted(inputs.items()))
            by_shape.setdefault((MEDIA.processed(picture).tokens, shapes), []).append(picture)
        for alike in by_shape.values():
            size = self._size(alike[0])
            buckets += [alike[start : start + size] for start in range(0, len(alike), size)]
        return buckets

    def _size(self, picture: str) -> int:
        return max(1, BUCKET // MEDIA.processed(picture).tokens)

    def _encoded(self, pictures: Sequence[str]) -> list[Tensor]:
        """Features of pictures of one shape, in a bucket that is filled up with the first."""
        device = next(self.whole.parameters()).device
        filled = [*pictures, *[pictures[0]] * (self._size(pictures[0]) - len(pictures))]
        read = [self.reader.inputs(picture) for picture in filled]
        stacked = {key: torch.cat([inputs[key] for inputs in read]).to(device) for key in read[0]}
        with torch.autocast(device.type, enabled=False):
            rows = self._rows_of(stacked)
        tokens = MEDIA.processed(pictures[0]).tokens
        if len(rows) != tokens * len(filled):
            raise HocketError(
                f"the model makes {len(rows) // len(filled)} features of {MEDIA.name(pictures[0])} and its processor "
                f"{tokens} tokens; the two are not of one checkpoint"
            )
        return [part.clone() for part in rows.reshape(len(filled), tokens, -1)[: len(pictures)]]

    def _rows_of(self, stacked: dict[str, Tensor]) -> Tensor:
        """The features of a bucket by the model's own method, `[B * tokens, H]`."""
        features = self.whole.get_image_features(**stacked).pooler_output
        return (torch.cat(list(features)) if isinstance(features, (list, tuple)) else features).flatten(0, -2)

    def _parts(self) -> nn.ModuleDict:
        """The parts that read, by their names in the model."""
        language = self.whole.get_decoder()
        parts = {name: part for name, part in self.whole.model.named_children() if part is not language}
        return nn.ModuleDict({name: part for name, part in parts.items() if any(True for _ in part.parameters())})

    def _language(self) -> tuple[nn.Module, nn.Module]:
        return self.whole.get_decoder(), self.whole.get_output_embeddings()

    def _place(self) -> str:
        """The name of the language part's trunk in the whole model."""
        trunk = self.whole.get_decoder()
        return next(str(name) for name, module in self.whole.named_modules() if module is trunk)


class SoundTower(Vision):
    """The parts of a model of the Qwen2-Audio family that its language part lacks.

    A tower reads a sound filled up with silence to one length, and attends to what is sound alone. The family has no
    method for the features by themselves.
    """

    def _rows_of(self, stacked: dict[str, Tensor]) -> Tensor:
        from transformers.masking_utils import create_bidirectional_mask

        tower = self.whole.model.audio_tower
        mel, heard = stacked["input_features"], stacked["feature_attention_mask"].sum(-1)
        frames, tokens = tower._get_feat_extract_output_lengths(heard)
        positions = torch.arange((mel.shape[-1] - 2) // 2 + 1, device=mel.device)
        mask = create_bidirectional_mask(
            config=tower.config,
            inputs_embeds=mel.new_zeros(len(mel), len(positions), 1),
            attention_mask=(positions < frames[:, None]).long(),
        )
        features = self.whole.model.multi_modal_projector(tower(mel, attention_mask=mask).last_hidden_state)
        places = torch.arange(features.shape[1], device=mel.device)
        rows: Tensor = features[places < tokens[:, None]]
        return rows


def vision_of(model: Any) -> Vision | None:
    """What a model reads pictures with; None for a model of words alone."""
    vision: Vision | None = model.__dict__.get("vision")
    return vision


def save_model(model: Any, folder: Path, language: dict[str, Tensor] | None = None) -> None:
    """Writes a model's folder, with what it reads pictures by. `language` is its own state, if not as it is."""
    vision = vision_of(model)
    if vision is None:
        model.save_pretrained(str(folder), state_dict=language)
    else:
        vision.save(folder, language)


def copy_weights(model: Any, source: Any) -> None:
    """Sets all weights of a model to those of another, its tower's included.

    Raises:
        RuntimeError: when the shapes differ.
    """
    model.load_state_dict(source.state_dict())
    vision, other = vision_of(model), vision_of(source)
    if vision is not None and other is not None:
        vision.load(other)


def embedding_inputs(model: Any, ids: Tensor) -> dict[str, Tensor]:
    """What a model of `transformers` is called with for ids `[B, S]`: the ids, or their embedding with pictures."""
    vision = vision_of(model)
    if vision is None or not bool((ids >= FIRST).any()):
        return {"input_ids": ids}
    return {"inputs_embeds": vision.embedded(model.get_input_embeddings(), ids)}


def language_part(whole: Any, reader: MediaReader) -> Any:
    """The language part of a model as a causal language model on the same modules, with `vision` to read pictures by.

    Raises:
        ConfigurationError: when its language part is of an architecture without a causal language model.
    """
    from transformers import MODEL_FOR_CAUSAL_LM_MAPPING

    config = whole.config.get_text_config(decoder=True)
    if type(config) not in MODEL_FOR_CAUSAL_LM_MAPPING:
        raise ConfigurationError(
            f"the language part of this {whole.config.model_type} model is of architecture {config.model_type!r}, "
            "which transformers has no causal language model for; choose another model"
        )
    with torch.device("meta"):
        model = MODEL_FOR_CAUSAL_LM_MAPPING[type(config)](config)
    head = whole.get_output_embeddings()
    if not isinstance(head, nn.Linear) or head.bias is not None:
        raise ConfigurationError(f"the head of this {whole.config.model_type} model is no plain matrix; choose another")
    setattr(model, model.base_model_prefix, whole.get_decoder())
    model.set_output_embeddings(_without(head, reader.token_id))
    model.generation_config = whole.generation_config
    vision = Vision(whole, reader) if reader.kind == "image" else SoundTower(whole, reader)
    whole.get_decoder().requires_grad_(True)
    head.requires_grad_(True)
    model.__dict__["vision"] = vision
    return model.eval()


def _without(head: nn.Linear, token: int) -> nn.Linear:
    """The same matrix with a fixed bias that leaves a token no probability."""
    made = nn.Linear(head.in_features, head.out_features, device="meta")
    made.weight = head.weight
    del made.bias
    bias = torch.zeros(head.out_features, dtype=head.weight.dtype, device=head.weight.device)
    bias[token] = NEVER
    made.register_buffer("bias", bias, persistent=False)
    return made
