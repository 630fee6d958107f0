"""Chat templates in the shapes of public model families, and tokenizers of every make for their tokens.

Templates are written anew from the published formats, short of what does not matter here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers
from transformers import PreTrainedTokenizerFast

C = "(m.content or '')"
CALLS = (
    "{%- for c in m.tool_calls or [] -%}{{- '\\n<tool_call>\\n' + ({'name': c.function.name, 'arguments':"
    " c.function.arguments} | tojson) + '\\n</tool_call>' -}}{%- endfor -%}"
)
SCHEMAS = "{%- for t in tools -%}{{- '\\n' + (t | tojson) -}}{%- endfor -%}"


def each(body: str, ask: str = "", first: str = "") -> str:
    speak = f"{{%- if add_generation_prompt -%}}{ask}{{%- endif -%}}" if ask else ""
    return f"{first}{{%- for m in messages -%}}{body}{{%- endfor -%}}{speak}"


def out(text: str) -> str:
    return f"{{{{- {text} -}}}}"


def by_role(**bodies: str) -> str:
    text = ""
    for role, body in bodies.items():
        text += f"{{%- {'elif' if text else 'if'} m.role == '{role}' -%}}{body}"
    return text + "{%- else -%}{{- raise_exception('no role ' + m.role) -}}{%- endif -%}"


IM = out(f"'<|im_start|>' + m.role + '\\n' + {C}") + CALLS + out("'<|im_end|>\\n'")
IM_ASK = out("'<|im_start|>assistant\\n'")
TOOLS = "{%- if tools -%}" + out("'<|im_start|>system\\n# Tools'") + SCHEMAS + out("'<|im_end|>\\n'") + "{%- endif -%}"
QWEN_TOOL = out("'<|im_start|>user\\n<tool_response>\\n' + m.content + '\\n</tool_response><|im_end|>\\n'")
QWEN = f"{{%- if m.role == 'tool' -%}}{QWEN_TOOL}{{%- else -%}}{IM}{{%- endif -%}}"
THOUGHT = (
    "{%- set said = m.content or '' -%}{%- if m.role == 'assistant' and '</think>' in said -%}"
    "{%- set thought = said.split('</think>')[0].split('<think>')[-1].strip('\\n') -%}"
    "{%- set said = said.split('</think>')[-1].lstrip('\\n') -%}"
    "{%- if loop.last -%}{%- set said = '<think>\\n' + thought + '\\n</think>\\n\\n' + said -%}{%- endif -%}"
    "{%- endif -%}"
)
QWEN3 = THOUGHT + QWEN.replace(C, "said")
HEADER = "'<|start_header_id|>' + role + '<|end_header_id|>\\n\\n'"
LLAMA3 = (
    "{%- set role = 'ipython' if m.role == 'tool' else m.role -%}"
    + out(f"{HEADER} + {C} | trim")
    + "{%- for c in m.tool_calls or [] -%}"
    + out("'{\"name\": \"' + c.function.name + '\", \"parameters\": ' + (c.function.arguments | tojson) + '}'")
    + "{%- endfor -%}"
    + out("'<|eot_id|>'")
)
LLAMA3_ASK = out("'<|start_header_id|>assistant<|end_header_id|>\\n\\n'")
LLAMA3_DATE = (
    "{%- if not date_string is defined -%}{%- set date_string = strftime_now('%d %b %Y') -%}{%- endif -%}"
    + out("bos_token + '<|start_header_id|>system<|end_header_id|>\\n\\nToday Date: ' + date_string + '\\n\\n'")
    + "{%- if tools -%}"
    + SCHEMAS
    + "{%- endif -%}"
    + out("'<|eot_id|>'")
)
INST = by_role(
    user=out("'[INST] ' + m.content + ' [/INST]'"),
    system=out("'<<SYS>>\\n' + m.content + '\\n<</SYS>>\\n\\n'"),
    assistant=out("' ' + m.content + ' ' + eos_token"),
)
V3 = by_role(
    user=out("'[INST]' + m.content + '[/INST]'"),
    system=out("'[SYSTEM_PROMPT]' + m.content + '[/SYSTEM_PROMPT]'"),
    tool=out("'[TOOL_RESULTS]' + m.content + '[/TOOL_RESULTS]'"),
    assistant=out(C)
    + "{%- for c in m.tool_calls or [] -%}"
    + out("'[TOOL_CALLS]' + c.function.name + '[ARGS]' + (c.function.arguments | tojson)")
    + "{%- endfor -%}"
    + out("eos_token"),
)
V3_TOOLS = "{%- if tools -%}" + out("'[AVAILABLE_TOOLS]' + (tools | tojson) + '[/AVAILABLE_TOOLS]'") + "{%- endif -%}"
FENCED = out(f"'<|' + m.role + '|>\\n' + {C} + '<|end|>\\n'")
DEEPSEEK = by_role(
    user=out("'<｜User｜>' + m.content"),
    system=out("m.content"),
    tool=out("'<｜tool▁output▁begin｜>' + m.content + '<｜tool▁output▁end｜>'"),
    assistant=out(f"'<｜Assistant｜>' + {C}.split('</think>')[-1]")
    + "{%- for c in m.tool_calls or [] -%}"
    + out("'<｜tool▁call▁begin｜>' + c.function.name + '<｜tool▁sep｜>' + (c.function.arguments | tojson)")
    + out("'<｜tool▁call▁end｜>'")
    + "{%- endfor -%}"
    + out("eos_token"),
)
DS = ("<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜User｜>", "<｜Assistant｜>")
DS_TOOLS = tuple(f"<｜tool▁{name}｜>" for name in ("output▁begin", "output▁end", "call▁begin", "sep", "call▁end"))
ROLE = "{%- set role = {'assistant': 'model'}.get(m.role, m.role) -%}"
GEMMA = ROLE + out(f"'<start_of_turn>' + role + '\\n' + {C} | trim + '<end_of_turn>\\n'")
COHERE = (
    "{%- set names = {'user': '<|USER_TOKEN|>', 'assistant': '<|CHATBOT_TOKEN|>'} -%}"
    + out("'<|START_OF_TURN_TOKEN|>' + names.get(m.role, '<|SYSTEM_TOKEN|>')")
    + out(f"{C} + '<|END_OF_TURN_TOKEN|>'")
)
HARMONY = by_role(
    system=out("'<|start|>developer<|message|>' + m.content + '<|end|>'"),
    user=out("'<|start|>user<|message|>' + m.content + '<|end|>'"),
    tool=out("'<|start|>functions.f to=assistant<|channel|>commentary<|message|>' + m.content + '<|end|>'"),
    assistant=out(f"'<|start|>assistant<|channel|>final<|message|>' + {C}")
    + "{%- for c in m.tool_calls or [] -%}"
    + out("'<|end|><|start|>assistant to=functions.' + c.function.name + '<|channel|>commentary<|message|>'")
    + out("c.function.arguments | tojson")
    + "{%- endfor -%}"
    + out("'<|return|>' if loop.last and not add_generation_prompt else '<|end|>'"),
)
GLM = "<|{{ m.role }}|>\n{{ m.content or '' }}"


@dataclass(frozen=True)
class Shape:
    """A template, its tokens, those of them that are not special, and which ends and begins a text."""

    template: str
    tags: tuple[str, ...]
    eos: str
    bos: str | None = None
    loose: tuple[str, ...] = ()


IMS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
HEADERS = ("<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>")
HEADERS += ("<|eom_id|>", "<|python_tag|>")
V3S = ("<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[TOOL_RESULTS]")
V3S += ("[/TOOL_RESULTS]", "[TOOL_CALLS]", "[ARGS]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]")
TURNS = ("<bos>", "<eos>", "<start_of_turn>", "<end_of_turn>")
ROLES = tuple(f"<|{role}|>" for role in ("system", "user", "assistant", "tool"))
THINK = ("<think>", "</think>")
CALL = ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>")
BOS = out("bos_token")

SHAPES: dict[str, Shape] = {
    "chatml": Shape(each(IM, IM_ASK), IMS, "<|im_end|>"),
    "chatml of a base": Shape(each(IM, IM_ASK), IMS, "<|endoftext|>"),
    "qwen2.5": Shape(each(QWEN, IM_ASK, TOOLS), (*IMS, *CALL), "<|im_end|>", loose=CALL),
    "qwen3": Shape(each(QWEN3, IM_ASK, TOOLS), (*IMS, *CALL, *THINK), "<|im_end|>", loose=(*CALL, *THINK)),
    "qwen3 without thinking": Shape(
        each(QWEN3, IM_ASK + out("'<think>\\n\\n</think>\\n\\n'"), TOOLS), (*IMS, *THINK), "<|im_end|>", loose=THINK
    ),
    "qwq": Shape(
        each(IM.replace(C, "(m.content or '').split('</think>')[-1]"), IM_ASK + out("'<think>\\n'")),
        (*IMS, *THINK),
        "<|im_end|>",
        loose=THINK,
    ),
    "hermes": Shape(each(IM, IM_ASK, TOOLS), (*IMS, *CALL), "<|im_end|>", loose=CALL),
    "phi-4": Shape(
        each(
            out(f"'<|im_start|>' + m.role + '<|im_sep|>' + {C} + '<|im_end|>'"),
            out("'<|im_start|>assistant<|im_sep|>'"),
        ),
        (*IMS, "<|im_sep|>"),
        "<|im_end|>",
    ),
    "phi-3": Shape(each(FENCED, out("'<|assistant|>\\n'")), ("<|endoftext|>", "<|end|>", *ROLES), "<|endoftext|>"),
    "phi-4-mini": Shape(
        each(out(f"'<|' + m.role + '|>' + {C} + '<|end|>'"), out("'<|assistant|>'")),
        ("<|endoftext|>", "<|end|>", *ROLES),
        "<|endoftext|>",
    ),
    "llama 2": Shape(each(INST.replace("'[INST]", "bos_token + '[INST]")), ("<s>", "</s>"), "</s>", "<s>"),
    "llama 3": Shape(each(LLAMA3, LLAMA3_ASK, BOS), HEADERS, "<|eot_id|>", "<|begin_of_text|>"),
    "llama 3.1": Shape(each(LLAMA3, LLAMA3_ASK, LLAMA3_DATE), HEADERS, "<|eot_id|>", "<|begin_of_text|>"),
    "gemma": Shape(each(GEMMA, out("'<start_of_turn>model\\n'"), BOS), TURNS, "<eos>", "<bos>"),
    "gemma, turns not special": Shape(
        each(GEMMA, out("'<start_of_turn>model\\n'"), BOS), TURNS, "<eos>", "<bos>", TURNS[2:]
    ),
    "mistral": Shape(each(INST, first=BOS), ("<s>", "</s>"), "</s>", "<s>"),
    "mistral v3": Shape(each(V3, first=BOS + V3_TOOLS), V3S, "</s>", "<s>"),
    "mistral v3, not special": Shape(each(V3, first=BOS + V3_TOOLS), V3S, "</s>", "<s>", V3S[2:]),
    "magistral": Shape(each(V3, first=BOS + V3_TOOLS), (*V3S, "[THINK]", "[/THINK]"), "</s>", "<s>"),
    "zephyr": Shape(
        each(out(f"'<|' + m.role + '|>\\n' + {C} + eos_token + '\\n'"), out("'<|assistant|>\\n'")),
        ("<s>", "</s>"),
        "</s>",
    ),
    "deepseek-v2": Shape(
        each(
            by_role(
                user=out("'User: ' + m.content + '\\n\\n'"),
                system=out("m.content + '\\n\\n'"),
                assistant=out("'Assistant: ' + m.content + eos_token"),
            ),
            out("'Assistant:'"),
            BOS,
        ),
        DS[:2],
        DS[1],
        DS[0],
    ),
    "deepseek-v3": Shape(each(DEEPSEEK, out("'<｜Assistant｜>'"), BOS), (*DS, *DS_TOOLS), DS[1], DS[0]),
    "deepseek-r1": Shape(
        each(DEEPSEEK, out("'<｜Assistant｜><think>\\n'"), BOS),
        (*DS, *DS_TOOLS, *THINK),
        DS[1],
        DS[0],
        (*DS[2:], *DS_TOOLS, *THINK),
    ),
    "glm-4": Shape(
        each(GLM + out("'<|endoftext|>' if m.role == 'assistant' else ''"), out("'<|assistant|>\\n'")),
        ("<|endoftext|>", *ROLES),
        "<|endoftext|>",
    ),
    "command-r": Shape(
        each(COHERE, out("'<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>'"), BOS),
        (
            "<BOS_TOKEN>",
            "<|START_OF_TURN_TOKEN|>",
            "<|END_OF_TURN_TOKEN|>",
            "<|USER_TOKEN|>",
            "<|CHATBOT_TOKEN|>",
            "<|SYSTEM_TOKEN|>",
        ),
        "<|END_OF_TURN_TOKEN|>",
        "<BOS_TOKEN>",
    ),
    "granite": Shape(
        each(
            out(f"'<|start_of_role|>' + m.role + '<|end_of_role|>' + {C} + '<|end_of_text|>\\n'"),
            out("'<|start_of_role|>assistant<|end_of_role|>'"),
        ),
        ("<|start_of_role|>", "<|end_of_role|>", "<|end_of_text|>"),
        "<|end_of_text|>",
    ),
    "openchat": Shape(
        each(
            out(f"'GPT4 Correct ' + m.role.title() + ': ' + {C} + '<|end_of_turn|>'"),
            out("'GPT4 Correct Assistant:'"),
            BOS,
        ),
        ("<s>", "</s>", "<|end_of_turn|>"),
        "<|end_of_turn|>",
        "<s>",
    ),
    "exaone": Shape(
        each(
            out(f"'[|' + m.role + '|]' + {C} + ('[|endofturn|]' if m.role != 'user' else '') + '\\n'"),
            out("'[|assistant|]'"),
        ),
        ("[BOS]", "[|endofturn|]", "[|system|]", "[|user|]", "[|assistant|]", "[|tool|]"),
        "[|endofturn|]",
        "[BOS]",
    ),
    "gpt-oss": Shape(
        each(HARMONY, out("'<|start|>assistant'")),
        ("<|start|>", "<|message|>", "<|end|>", "<|return|>", "<|channel|>", "<|call|>", "<|endoftext|>"),
        "<|return|>",
    ),
    "kimi": Shape(
        each(
            out(f"'<|im_' ~ m.role ~ '|>' ~ m.role ~ '<|im_middle|>' ~ {C} ~ '<|im_end|>'"),
            out("'<|im_assistant|>assistant<|im_middle|>'"),
        ),
        ("<|im_system|>", "<|im_user|>", "<|im_assistant|>", "<|im_tool|>", "<|im_middle|>", "<|im_end|>", "[EOS]"),
        "[EOS]",
    ),
    "apertus": Shape(
        each(out(f"'<|' + m.role + '_start|>' + {C} + '<|' + m.role + '_end|>'"), out("'<|assistant_start|>'"), BOS),
        ("<s>", *(f"<|{r}_{e}|>" for r in ("system", "user", "assistant", "tool") for e in ("start", "end"))),
        "<|assistant_end|>",
        "<s>",
    ),
    "nemotron": Shape(
        each(
            by_role(
                system=out("'<SPECIAL_10>System\\n' + m.content + '\\n'"),
                user=out("'<SPECIAL_11>User\\n' + m.content + '\\n'"),
                assistant=out("'<SPECIAL_11>Assistant\\n' + m.content + '\\n<SPECIAL_12>\\n'"),
            ),
            out("'<SPECIAL_11>Assistant\\n'"),
        ),
        ("<SPECIAL_10>", "<SPECIAL_11>", "<SPECIAL_12>", "<s>"),
        "<SPECIAL_12>",
    ),
    "seed": Shape(
        each(out(f"bos_token + m.role + '\\n' + {C} + eos_token"), out("bos_token + 'assistant\\n'")),
        ("<seed:bos>", "<seed:eos>"),
        "<seed:eos>",
        "<seed:bos>",
    ),
    "jamba": Shape(
        each(out(f"'<|bom|><|' + m.role + '|> ' + {C} + '<|eom|>'"), out("'<|bom|><|assistant|>'")),
        ("<|bom|>", "<|eom|>", "<|endoftext|>", *ROLES),
        "<|endoftext|>",
    ),
    "vicuna": Shape(
        each(
            by_role(
                system=out("m.content + ' '"),
                user=out("'USER: ' + m.content + ' '"),
                assistant=out("'ASSISTANT: ' + m.content + eos_token"),
            ),
            out("'ASSISTANT:'"),
            BOS,
        ),
        ("<s>", "</s>"),
        "</s>",
        "<s>",
    ),
    "names": Shape(
        each(
            out(f"'<|im_start|>' + m.role + (' name=' + m.name if m.name else '') + '\\n' + {C} + '<|im_end|>\\n'"),
            IM_ASK,
        ),
        IMS,
        "<|im_end|>",
    ),
}

LETTERS = ["\n", "\t", *map(chr, range(32, 127)), "\uff5c", "\u2581"]
MERGES = [("Y", "e"), ("Ye", "s"), ("\n", "\n"), ("<", "|"), ("|", ">"), ("i", "m")]


def _bpe(words: list[str], merges: list[tuple[str, str]], **settings: Any) -> Tokenizer:
    vocabulary = {word: number for number, word in enumerate(dict.fromkeys(["<unk>", *words]))}
    return Tokenizer(models.BPE(vocab=vocabulary, merges=merges, unk_token="<unk>", **settings))


def characters(tags: tuple[str, ...]) -> Tokenizer:
    """Characters with some merges; tags stand in the vocabulary too."""
    core = _bpe([*tags, *LETTERS, *(a + b for a, b in MERGES)], MERGES)
    core.decoder = decoders.Fuse()
    return core


def sentencepiece(tags: tuple[str, ...], *, first: bool = False) -> Tokenizer:
    """As Llama 2's: a space before every text (or the first one), and bytes for what is unknown."""
    merges = [*MERGES, ("\u2581", "Yes"), ("\u2581", "Y")]
    letters = [letter for letter in LETTERS if letter not in "\n "]
    merges = [pair for pair in merges if "\n" not in "".join(pair)]
    bytes_ = [f"<0x{n:02X}>" for n in range(256)]
    core = _bpe([*tags, *bytes_, *letters, *(a + b for a, b in merges)], merges, byte_fallback=True, fuse_unk=True)
    if first:
        core.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    else:
        core.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    core.decoder = decoders.Sequence(
        [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    return core


def byte_level(tags: tuple[str, ...]) -> Tokenizer:
    """As GPT-2's and those after it; whole words of the vocabulary are taken before merges, as in Llama 3."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    merges = [("Y", "e"), ("Ye", "s"), ("Ċ", "Ċ"), ("<", "|"), ("|", ">")]
    core = _bpe([*letters, *(a + b for a, b in merges)], merges, ignore_merges=True)
    split = pre_tokenizers.Split(Regex(r"\s*[\r\n]+|\s+|\w+|[^\s\w]+"), "isolated")
    core.pre_tokenizer = pre_tokenizers.Sequence(
        [split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    core.decoder = decoders.ByteLevel()
    return core


def unigram(tags: tuple[str, ...]) -> Tokenizer:
    """Tags stand in the vocabulary with the best score of all, as they do in files of SentencePiece."""
    words = [("<unk>", 0.0), *((tag, 0.0) for tag in tags), *((word, -5.0) for word in [*LETTERS, "Yes"])]
    core = Tokenizer(models.Unigram(words, unk_id=0, byte_fallback=False))
    core.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    core.decoder = decoders.Metaspace(prepend_scheme="first", split=False)
    return core


def folding(tags: tuple[str, ...]) -> Tokenizer:
    """One that takes fullwidth letters and capitals for plain ones."""
    core = characters(tags)
    core.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])
    return core


MAKES: dict[str, Callable[[tuple[str, ...]], Tokenizer]] = {
    "characters": characters,
    "sentencepiece": sentencepiece,
    "first": lambda tags: sentencepiece(tags, first=True),
    "byte level": byte_level,
    "unigram": unigram,
    "folding": folding,
}


def tokenizer(
    shape: Shape, make: str, *, normalized: bool = False, strips: bool = False, special: bool = True
) -> PreTrainedTokenizerFast:
    core = MAKES[make](shape.tags)
    core.add_tokens(
        [
            AddedToken(
                tag, special=special and tag not in shape.loose, normalized=normalized, lstrip=strips, rstrip=strips
            )
            for tag in shape.tags
        ]
    )
    made = PreTrainedTokenizerFast(tokenizer_object=core, eos_token=shape.eos, unk_token="<unk>")
    if shape.bos is not None:
        made.bos_token = shape.bos
    made.chat_template = shape.template
    return made
