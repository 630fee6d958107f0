"""The nano model: a 1.2-million-parameter base that fits a laptop, made here and shipped with the package.

`BASE` is a folder in Hugging Face format (`AutoModelForCausalLM` and `AutoTokenizer` load it). The modules
`tokenizer`, `corpus`, `model` and `pretrain` hold everything it was made from; `flow` and `mdlm` make the other
two. Importing this package loads neither torch nor transformers.
"""

from __future__ import annotations

from pathlib import Path

BASE: Path = Path(__file__).resolve().parent / "base"
"""Folder of the shipped base model; `model="nano"` stands for it."""

SIGHT: Path = BASE.parent / "vlm"
"""Folder of the shipped base with eyes; `model="nano-vlm"` stands for it."""

HEARING: Path = BASE.parent / "audio"
"""Folder of the shipped base with ears; `model="nano-audio"` stands for it."""

SHIPPED = {
    "nano": BASE,
    "nano-vlm": SIGHT,
    "nano-audio": HEARING,
    "nano-flow": BASE.with_name("base_flow"),
    "nano-mdlm": BASE.with_name("base_mdlm"),
}
"""The folders of all shipped models by name; the last two are a sampler of pictures and a masked language model."""

__all__ = ["BASE", "HEARING", "SHIPPED", "SIGHT"]
