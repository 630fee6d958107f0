"""The tokenizer of the nano model: characters, tags, and whole-phrase tokens for the fixed phrases of the tasks.

A token is one printable ASCII character, a newline or a tab, one of the tags below, or one of `PHRASES`; any
other character is `<unk>`. Texts are cut at tags before anything else, so the encoding of what stands before and
after a tag never depends on the other side: a prompt that ends in a role tag, followed by sampled tokens, is a
valid history whatever was sampled.
"""

from __future__ import annotations

from tokenizers import AddedToken, Tokenizer, decoders, models
from transformers import PreTrainedTokenizerFast

from hocket.agents.workflows.plans import PLANNER_SYSTEM, WORKER_SYSTEM

PAD = "<|pad|>"
END = "<|end|>"
UNKNOWN = "<unk>"
ROLES: tuple[str, ...] = ("system", "user", "assistant", "tool")
ROLE_TAGS: dict[str, str] = {role: f"<|{role}|>" for role in ROLES}

TAGS: tuple[str, ...] = ("<think>", "</think>", "<answer>", "</answer>", "<tool_call>", "</tool_call>")
"""Tags inside a turn. They survive `decode(..., skip_special_tokens=True)`, as verifiers need them."""

CHARACTERS: tuple[str, ...] = ("\n", "\t", *(chr(code) for code in range(32, 127)))

PHRASES: tuple[str, ...] = (
    "What is ",
    "The answer is ",
    "State the final answer to the following arithmetic problem: ",
    "Spell this word backward (example: sun -> nus): ",
    'How many times does the letter "',
    '" appear in the text: "',
    "Tools: calculator(expression)",
    '{"name": "calculator", "arguments": {"expression": "',
    '"}}',
    PLANNER_SYSTEM,
    WORKER_SYSTEM,
    "Results:\n",
)

CHAT_TEMPLATE = """\
{%- set ns = namespace(messages=messages) -%}
{%- if tools -%}
    {{- '<|system|>' -}}
    {%- if messages[0].role == 'system' -%}
        {{- messages[0].content + '\\n' -}}
        {%- set ns.messages = messages[1:] -%}
    {%- endif -%}
    {{- 'Tools: ' -}}
    {%- for tool in tools -%}
        {%- set signature = tool.function if tool.function is defined else tool -%}
        {{- signature.name + '(' + (signature.parameters.properties | join(', ')) + ')' -}}
        {{- '' if loop.last else '; ' -}}
    {%- endfor -%}
    {{- '<|end|>' -}}
{%- endif -%}
{%- for message in ns.messages -%}
    {%- if message.role == 'assistant' -%}
        {{- '<|assistant|>' -}}
        {%- generation -%}
            {%- if message.reasoning_content -%}
                {{- '<think>' + message.reasoning_content + '</think>' -}}
            {%- endif -%}
            {{- message.content or '' -}}
            {%- for tool_call in message.tool_calls or [] -%}
                {%- set call = tool_call.function if tool_call.function is defined else tool_call -%}
                {{- '<tool_call>{"name": "' + call.name + '", "arguments": ' -}}
                {{- call.arguments if call.arguments is string else call.arguments | tojson -}}
                {{- '}</tool_call>' -}}
            {%- endfor -%}
            {%- if message.answer is defined and message.answer is not none -%}
                {{- '<answer>' + message.answer + '</answer>' -}}
            {%- endif -%}
            {{- '<|end|>' -}}
        {%- endgeneration -%}
    {%- elif message.role in ['system', 'user', 'tool'] -%}
        {{- '<|' + message.role + '|>' + message.content + '<|end|>' -}}
    {%- else -%}
        {{- raise_exception('unknown role: ' + message.role) -}}
    {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{- '<|assistant|>' -}}
{%- endif -%}
"""
"""Chat template. Beyond `role` and `content`, an assistant message may carry `reasoning_content` (put in
`<think>`), `tool_calls` (each put as JSON in `<tool_call>`) and `answer` (put in `<answer>`), in that order."""


def added(text: str, *, special: bool) -> AddedToken:
    """A token that is found wherever a text spells it, and taken as it stands."""
    return AddedToken(text, special=special, normalized=False, lstrip=False, rstrip=False, single_word=False)


def build_tokenizer() -> PreTrainedTokenizerFast:
    """The tokenizer, from scratch; always the same one."""
    control = (PAD, END, UNKNOWN, *ROLE_TAGS.values())
    tokens = (*control, *TAGS, *CHARACTERS, *PHRASES)
    vocabulary = {token: index for index, token in enumerate(tokens)}
    # Byte-pair encoding without merges is a split into characters.
    core = Tokenizer(models.BPE(vocab=vocabulary, merges=[], unk_token=UNKNOWN))
    core.decoder = decoders.Fuse()
    core.add_special_tokens([added(token, special=True) for token in control])
    core.add_tokens([added(token, special=False) for token in (*TAGS, *PHRASES)])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core,
        pad_token=PAD,
        eos_token=END,
        unk_token=UNKNOWN,
        padding_side="left",
        clean_up_tokenization_spaces=False,
        model_max_length=1024,
    )
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer
