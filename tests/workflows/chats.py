"""Tiny tokenizers with the chat templates that matter: characters, two merges, and the template's own tags."""

from __future__ import annotations

from tokenizers import AddedToken, Tokenizer, decoders, models
from transformers import PreTrainedTokenizerFast

from hocket.agents.workflows.chat import Chat
from hocket.nano.tokenizer import build_tokenizer

CHATML = """\
{%- for m in messages -%}
{{- '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}
"""

# Earlier assistant messages lose what they thought, as in Qwen3 and DeepSeek-R1.
FORGETFUL = """\
{%- for m in messages -%}
{%- set said = m.content -%}
{%- if m.role == 'assistant' and not loop.last and '</think>' in said -%}
{%- set said = said.split('</think>')[-1] -%}
{%- endif -%}
{{- '<|im_start|>' + m.role + '\\n' + said + '<|im_end|>\\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}
"""

# Answers after the last question always show their thinking, even when empty; earlier ones never: as in Qwen3.
RETHINKING = """\
{%- set ns = namespace(last=0) -%}
{%- for m in messages if m.role == 'user' -%}{%- set ns.last = messages.index(m) -%}{%- endfor -%}
{%- for m in messages -%}
{%- set said = m.content.split('</think>')[-1] | trim -%}
{%- if m.role == 'assistant' and loop.index0 > ns.last and (loop.last or '</think>' in m.content) -%}
{%- set thought = m.content.split('</think>')[0].split('<think>')[-1] if '</think>' in m.content else '' -%}
{%- set said = '<think>\n' + (thought | trim) + '\n</think>\n\n' + said -%}
{%- endif -%}
{{- '<|im_start|>' + m.role + '\n' + said + '<|im_end|>\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\n' -}}{%- endif -%}
"""

LLAMA3 = """\
{{- '<|begin|>' -}}
{%- for m in messages -%}
{{- '<|header|>' + m.role + '<|/header|>\\n\\n' + (m.content | trim) + '<|eot|>' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|header|>assistant<|/header|>\\n\\n' -}}{%- endif -%}
"""

# No system role, strict alternation, the assistant is called model: as in Gemma.
GEMMA = """\
{{- '<|begin|>' -}}
{%- for m in messages -%}
{%- if m.role == 'system' -%}{{- raise_exception('System role not supported') -}}{%- endif -%}
{%- if (m.role == 'user') != (loop.index0 % 2 == 0) -%}{{- raise_exception('roles must alternate') -}}{%- endif -%}
{%- set role = 'model' if m.role == 'assistant' else m.role -%}
{{- '<|turn|>' + role + '\\n' + m.content + '<|/turn|>\\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|turn|>model\\n' -}}{%- endif -%}
"""

# The answer is set between spaces, as in Llama 2.
SPACED = """\
{%- for m in messages -%}
{%- if m.role == 'user' -%}{{- '<|begin|>[INST] ' + m.content + ' [/INST]' -}}
{%- else -%}{{- ' ' + m.content + ' <|eot|>' -}}{%- endif -%}
{%- endfor -%}
"""

# The system prompt wanders to the last user message, as in some Mistral templates.
WANDERING = """\
{%- set ns = namespace(system='') -%}
{%- if messages[0].role == 'system' -%}{%- set ns.system = messages[0].content + '\\n' -%}{%- endif -%}
{%- for m in messages -%}
{%- if m.role == 'user' -%}
{{- '<|user|>' + (ns.system if messages[loop.index0 + 1:] | selectattr('role', 'equalto', 'user') | list | length == 0
   else '') + m.content -}}
{%- elif m.role == 'assistant' -%}{{- '<|bot|>' + m.content + '<|eot|>' -}}{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|bot|>' -}}{%- endif -%}
"""

# Earlier turns are closed by another token than the last one, as in gpt-oss.
TWO_ENDS = """\
{%- for m in messages -%}
{{- '<|start|>' + m.role + ':' + m.content -}}
{{- '<|return|>' if m.role == 'assistant' and loop.last and not add_generation_prompt else '<|end|>' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|start|>assistant:' -}}{%- endif -%}
"""

UNCLOSED = """\
{%- for m in messages -%}{{- m.role + ': ' + m.content + '\\n' -}}{%- endfor -%}
{%- if add_generation_prompt -%}{{- 'assistant:' -}}{%- endif -%}
"""

TEMPLATES = {
    "chatml": (CHATML, "<|im_end|>", ("<|im_start|>", "<|im_end|>")),
    "forgetful": (FORGETFUL, "<|im_end|>", ("<|im_start|>", "<|im_end|>", "<think>", "</think>")),
    "rethinking": (RETHINKING, "<|im_end|>", ("<|im_start|>", "<|im_end|>", "<think>", "</think>")),
    "llama3": (LLAMA3, "<|eot|>", ("<|begin|>", "<|header|>", "<|/header|>", "<|eot|>")),
    "gemma": (GEMMA, "<|/turn|>", ("<|begin|>", "<|turn|>", "<|/turn|>")),
    "spaced": (SPACED, "<|eot|>", ("<|begin|>", "<|eot|>")),
    "wandering": (WANDERING, "<|eot|>", ("<|user|>", "<|bot|>", "<|eot|>")),
    "two-ends": (TWO_ENDS, "<|return|>", ("<|start|>", "<|end|>", "<|return|>")),
    "unclosed": (UNCLOSED, "<|endoftext|>", ("<|endoftext|>",)),
}


def tokenizer(name: str) -> PreTrainedTokenizerFast:
    """Characters, the tags of one template, and merges that a re-encoding would trip over (`\\n\\n`, `ab`)."""
    template, end, tags = TEMPLATES[name]
    characters = ["\n", *(chr(code) for code in range(32, 127))]
    tokens = ["<unk>", *tags, *characters, "\n\n", "ab"]
    vocabulary = {token: number for number, token in enumerate(tokens)}
    core = Tokenizer(models.BPE(vocab=vocabulary, merges=[("\n", "\n"), ("a", "b")], unk_token="<unk>"))
    core.decoder = decoders.Fuse()
    core.add_tokens([AddedToken(tag, special="think" not in tag, normalized=False) for tag in tags])
    made = PreTrainedTokenizerFast(tokenizer_object=core, eos_token=end, unk_token="<unk>")
    made.chat_template = template
    return made


def chat(name: str) -> Chat:
    return Chat(build_tokenizer() if name == "nano" else tokenizer(name))


EXTENSIBLE = ("chatml", "forgetful", "llama3", "gemma", "spaced", "two-ends", "nano")
