"""The nano model in another tokenizer: its characters in reverse order, two digits as one token, another end."""

from __future__ import annotations

from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

from hocket.nano import BASE
from hocket.nano.tokenizer import CHARACTERS, CHAT_TEMPLATE, END, PAD, ROLE_TAGS, TAGS, UNKNOWN, added, build_tokenizer

OTHER_END = "</turn>"
PAIRS = [(first, second) for first in "0123456789" for second in "0123456789"]


def other_tokenizer() -> PreTrainedTokenizerFast:
    """Without nano's phrases; `</turn>` ends a turn."""
    control = (UNKNOWN, OTHER_END, PAD, *reversed(ROLE_TAGS.values()))
    tokens = (*control, *TAGS, *reversed(CHARACTERS), *(first + second for first, second in PAIRS))
    core = Tokenizer(models.BPE(vocab={token: n for n, token in enumerate(tokens)}, merges=PAIRS, unk_token=UNKNOWN))
    core.decoder = decoders.Fuse()
    core.add_special_tokens([added(token, special=True) for token in control])
    core.add_tokens([added(token, special=False) for token in TAGS])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core,
        pad_token=PAD,
        eos_token=OTHER_END,
        unk_token=UNKNOWN,
        clean_up_tokenization_spaces=False,
        model_max_length=1024,
    )
    tokenizer.chat_template = CHAT_TEMPLATE.replace(END, OTHER_END)
    return tokenizer


def write_other_nano(folder: Path) -> Path:
    """Nano's weights with an embedding for each of these tokens: its own, or the mean of its characters'."""
    old, new = build_tokenizer(), other_tokenizer()
    model = AutoModelForCausalLM.from_pretrained(BASE)
    table, known = model.get_input_embeddings().weight.detach(), old.get_vocab()
    rows = torch.empty(len(new), table.shape[1])
    for token, number in new.get_vocab().items():
        spelt = END if token == OTHER_END else token
        rows[number] = table[[known[spelt]] if spelt in known else [known[letter] for letter in spelt]].mean(0)
    with torch.random.fork_rng():  # It draws rows, which are replaced.
        model.resize_token_embeddings(len(new), mean_resizing=False)
    model.get_input_embeddings().weight.data.copy_(rows)
    for config in (model.config, model.generation_config):
        config.eos_token_id, config.pad_token_id = new.eos_token_id, new.pad_token_id
    model.save_pretrained(folder)
    new.save_pretrained(folder)
    return folder
