"""The protocol as types, of chat, completions and embeddings: they check requests, and give the published schema."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from hocket.apps.serve.refusals import Refusal
from hocket.core.errors import ConfigurationError
from hocket.core.parts import content_of

T = TypeVar("T")

CHOICES = 16
"""Answers to one prompt at most."""

PROMPTS = 128
"""Prompts of one request for completions, and texts of one for embeddings, at most."""

LIKELIEST = 128
"""Likeliest tokens at each place of a prompt, at most."""

SHORT = 16
"""Tokens of a completion that does not say how many: OpenAI's default."""

# ---------------------------------------------------------------- asked


class TextPart(Struct, tag="text", tag_field="type"):
    """A piece of a message's text. Pieces are joined by newlines."""

    text: str


class PictureUrl(Struct):
    """A picture as a data URL, `data:image/png;base64,..`. Nothing is fetched."""

    url: str
    detail: str | None = None


class PicturePart(Struct, tag="image_url", tag_field="type"):
    """A picture in a message."""

    image_url: PictureUrl


class SoundData(Struct):
    """The file of a sound in base64."""

    data: str
    format: Literal["wav"] = "wav"


class SoundPart(Struct, tag="input_audio", tag_field="type"):
    """A sound in a message."""

    input_audio: SoundData


Content = str | Annotated[list[TextPart], Meta(min_length=1)]
PicturedContent = str | Annotated[list[TextPart | PicturePart | SoundPart], Meta(min_length=1)]


class CalledFunction(Struct):
    """Which function an assistant called, with its arguments as JSON text."""

    name: str
    arguments: str


class ToolCall(Struct):
    """A call of a tool."""

    id: str
    function: CalledFunction
    type: Literal["function"] = "function"


class SystemMessage(Struct, tag="system", tag_field="role"):
    """What the model is told beforehand."""

    content: Content


class DeveloperMessage(Struct, tag="developer", tag_field="role"):
    """The same as a system message."""

    content: Content


class UserMessage(Struct, tag="user", tag_field="role"):
    """What a user says."""

    content: PicturedContent


class AssistantMessage(Struct, tag="assistant", tag_field="role"):
    """What the model said, or is supposed to have said."""

    content: Content | None = None
    tool_calls: list[ToolCall] | None = None


class ToolMessage(Struct, tag="tool", tag_field="role"):
    """What a tool answered."""

    content: PicturedContent
    tool_call_id: str | None = None


ChatMessage = SystemMessage | DeveloperMessage | UserMessage | AssistantMessage | ToolMessage


class Function(Struct):
    """A function that the model may call."""

    name: Annotated[str, Meta(pattern=r"^[a-zA-Z0-9_.-]{1,64}$")]
    description: str | None = None
    parameters: dict[str, Any] | None = None


class Tool(Struct):
    """A tool that the model may call."""

    function: Function
    type: Literal["function"]


class StreamOptions(Struct):
    """What a stream tells besides."""

    include_usage: bool | None = None


class ResponseFormat(Struct):
    """The only format there is."""

    type: Literal["text"]


REFUSED = ("frequency_penalty", "presence_penalty", "repetition_penalty", "logit_bias")
"""Fields that may only say that nothing is wanted."""

Zero = Annotated[float, Meta(ge=0, le=0)]
One = Annotated[float, Meta(ge=1, le=1)]
StopString = Annotated[str, Meta(min_length=1, max_length=256)]


class SamplingRequest(Struct, kw_only=True):
    """What requests for chat and for completions have in common, with vLLM's `top_k` (0 and -1: all) and `min_p`."""

    model: str
    n: Annotated[int, Meta(ge=1, le=CHOICES)] | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_p: Annotated[float, Meta(gt=0, le=1)] | None = None
    top_k: Annotated[int, Meta(ge=-1)] | None = None
    min_p: Annotated[float, Meta(ge=0, le=1)] | None = None
    max_tokens: Annotated[int, Meta(ge=1)] | None = None
    stop: StopString | Annotated[list[StopString], Meta(max_length=4)] | None = None
    seed: Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    frequency_penalty: Zero | None = None
    presence_penalty: Zero | None = None
    repetition_penalty: One | None = None
    logit_bias: Annotated[dict[str, Any], Meta(max_length=0)] | None = None

    @property
    def choices(self) -> int:
        """Answers to all prompts together."""
        return self.n or 1

    @property
    def stops(self) -> tuple[str, ...]:
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ())

    @property
    def tells_usage(self) -> bool:
        """Whether a stream ends with the usage."""
        return self.stream_options is not None and bool(self.stream_options.include_usage)


class ChatRequest(SamplingRequest, kw_only=True):
    """A request for chat completions. Other fields are ignored."""

    messages: Annotated[list[ChatMessage], Meta(min_length=1)]
    max_completion_tokens: Annotated[int, Meta(ge=1)] | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Meta(ge=0, le=20)] | None = None
    tools: list[Tool] | None = None
    tool_choice: Literal["none", "auto"] | None = None
    response_format: ResponseFormat | None = None

    @property
    def longest(self) -> int | None:
        """The most tokens of an answer, None where the request does not say."""
        limits = [most for most in (self.max_completion_tokens, self.max_tokens) if most is not None]
        return min(limits, default=None)

    @property
    def scored(self) -> bool:
        """Whether tokens come with their log-probs."""
        return bool(self.logprobs)

    @property
    def alternatives(self) -> int:
        """How many likely tokens come with each place."""
        return self.top_logprobs or 0 if self.logprobs else 0

    @property
    def offers_tools(self) -> bool:
        """Whether calls of tools are to be read from the answer."""
        return bool(self.tools) and self.tool_choice != "none"

    def shown_tools(self) -> list[dict[str, Any]] | None:
        """The tools as a chat template takes them."""
        if not self.offers_tools:
            return None
        return [_template_tool(tool.function) for tool in self.tools or ()]


Token = Annotated[int, Meta(ge=0)]


class CompletionRequest(SamplingRequest, kw_only=True):
    """A request that continues prompts, which are texts or token ids. Other fields are ignored.

    With vLLM's `prompt_logprobs`, every token of a prompt comes with its log-prob, and that many likeliest ones beside.
    """

    prompt: str | Annotated[list[str | Token | list[Token]], Meta(min_length=1)]
    logprobs: Annotated[int, Meta(ge=0, le=20)] | None = None
    prompt_logprobs: Annotated[int, Meta(ge=0, le=LIKELIEST)] | None = None
    echo: bool | None = None
    best_of: Annotated[int, Meta(ge=1, le=CHOICES)] | None = None
    suffix: Annotated[str, Meta(max_length=0)] | None = None

    @property
    def prompts(self) -> list[str | list[int]]:
        """The prompts one by one.

        Raises:
            Refusal: when texts and token ids are mixed, there are too many, or one has no ids.
        """
        if isinstance(self.prompt, str):
            return [self.prompt]
        kinds = {type(part) for part in self.prompt}
        if len(kinds) > 1:
            raise Refusal(400, "prompt: give texts or token ids, not both", code="invalid_value", param="prompt")
        if kinds == {int}:
            return [[int(token) for token in self.prompt if isinstance(token, int)]]
        if [] in self.prompt:
            raise Refusal(400, "prompt: it has no token", code="invalid_value", param="prompt")
        if len(self.prompt) > PROMPTS:
            raise Refusal(400, f"prompt: give at most {PROMPTS} prompts", code="invalid_value", param="prompt")
        return [part for part in self.prompt if not isinstance(part, int)]

    @property
    def choices(self) -> int:
        return (self.n or 1) * len(self.prompts)

    @property
    def longest(self) -> int:
        """The most tokens of an answer."""
        return SHORT if self.max_tokens is None else self.max_tokens

    @property
    def scored(self) -> bool:
        """Whether tokens come with their log-probs."""
        return self.logprobs is not None

    @property
    def alternatives(self) -> int:
        """How many likely tokens come with each place."""
        return self.logprobs or 0


class EmbeddingRequest(Struct, kw_only=True):
    """A request for the vectors of texts. Other fields are ignored."""

    model: str
    input: str | Annotated[list[str], Meta(min_length=1, max_length=PROMPTS)]
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: Annotated[int, Meta(ge=1)] | None = None

    @property
    def texts(self) -> list[str]:
        return [self.input] if isinstance(self.input, str) else self.input


def _template_tool(function: Function) -> dict[str, Any]:
    parameters = {"type": "object", "properties": {}, **(function.parameters or {})}
    described = {"name": function.name, "description": function.description or "", "parameters": parameters}
    return {"type": "function", "function": described}


def template_message(message: ChatMessage) -> dict[str, Any]:
    """A message as a chat template takes it.

    Raises:
        Refusal: for a picture or sound that cannot be read.
    """
    content = _text(message.content)
    match message:
        case SystemMessage() | DeveloperMessage():
            return {"role": "system", "content": content}
        case UserMessage():
            return {"role": "user", "content": content}
        case ToolMessage():
            return {"role": "tool", "content": content}
    calls = [_template_call(call) for call in message.tool_calls or ()]
    return {"role": "assistant", "content": content, **({"tool_calls": calls} if calls else {})}


def _text(content: str | Sequence[TextPart | PicturePart | SoundPart] | None) -> Any:
    """A message's text, or its parts where there are pictures or sounds among them."""
    if content is None or isinstance(content, str):
        return content or ""
    texts = [part.text for part in content if isinstance(part, TextPart)]
    if len(texts) == len(content):
        return "\n".join(texts)
    try:
        return content_of([msgspec.to_builtins(part) for part in content], "a message", None)
    except ConfigurationError as error:
        sounds = any(isinstance(part, SoundPart) for part in content)
        raise Refusal(400, str(error), code="invalid_audio" if sounds else "invalid_image", param="messages") from error


def _template_call(call: ToolCall) -> dict[str, Any]:
    """Templates write arguments as JSON themselves, so they get the object where the text is one."""
    arguments: Any = call.function.arguments
    try:
        read = msgspec.json.decode(arguments)
    except (msgspec.DecodeError, RecursionError):
        read = None
    function = {"name": call.function.name, "arguments": read if isinstance(read, dict) else arguments}
    return {"id": call.id, "type": "function", "function": function}


class RewardReport(Struct, forbid_unknown_fields=True):
    """How an episode came out, where an agent's return value does not say. The last report counts."""

    reward: float | UnsetType = UNSET
    answer: str | UnsetType = UNSET


def read_request(body: bytes, kind: type[T]) -> T:
    """A request from the body that holds it.

    Raises:
        Refusal: when it is no JSON, or no such request.
    """
    return _read(body, kind)


def read_report(body: bytes) -> RewardReport:
    """A report of an episode's outcome from the body that holds it; errors as `read_request`."""
    return _read(body, RewardReport)


def _read(body: bytes, kind: type[T]) -> T:
    try:
        return msgspec.convert(_whole(msgspec.json.decode(body)), kind)
    except msgspec.ValidationError as error:
        reason, _, place = str(error).partition(" - at `$")
        param = place.rstrip("`").lstrip(".") or None
        if param in REFUSED:
            reason = "it cannot be set here; leave it out"
        where = f"{param}: " if param else ""
        raise Refusal(400, f"{where}{reason}", code="invalid_value", param=param) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Refusal(400, f"the body is not JSON: {error}", code="invalid_json") from None


def _whole(document: Any) -> Any:
    """JSON knows one kind of number: 2.0 is an integer, as a field and in the lists of a prompt."""
    if not isinstance(document, dict):
        return document
    return {name: _integral(value) for name, value in document.items()}


def _integral(value: Any) -> Any:
    if isinstance(value, list):
        return [_integral(part) for part in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


# ---------------------------------------------------------------- answered


class TopLogprob(Struct):
    """A token that might have come, and how likely it was."""

    token: str
    logprob: float
    bytes: list[int] | None


class TokenLogprob(Struct):
    """A token that came, and how likely it was under the distribution it was drawn from."""

    token: str
    logprob: float
    bytes: list[int] | None
    top_logprobs: list[TopLogprob]


class Logprobs(Struct):
    """Log-probs of an answer's tokens."""

    content: list[TokenLogprob]
    refusal: None = None


class Said(Struct):
    """The message that was written."""

    content: str | None
    role: Literal["assistant"] = "assistant"
    refusal: None = None
    tool_calls: list[ToolCall] | UnsetType = UNSET


FinishReason = Literal["stop", "length", "tool_calls"]


class Choice(Struct):
    """One answer."""

    index: int
    message: Said
    finish_reason: FinishReason
    logprobs: Logprobs | None = None


class Usage(Struct):
    """Tokens read and written; an answer's end-of-turn token counts."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class Completion(Struct):
    """Answers to a request."""

    id: str
    created: int
    model: str
    system_fingerprint: str
    choices: list[Choice]
    usage: Usage
    object: Literal["chat.completion"] = "chat.completion"


class TextLogprobs(Struct):
    """Log-probs of a completion's tokens: of each its text, its log-prob, the likeliest ones and where it begins."""

    tokens: list[str]
    token_logprobs: list[float]
    top_logprobs: list[dict[str, float]] | None
    text_offset: list[int]


class PromptToken(Struct):
    """A token at a place of a prompt, whose log-prob is the model's at temperature 1; 1 is the likeliest one's rank."""

    logprob: float
    rank: int
    decoded_token: str


class TextChoice(Struct):
    """One completion, or what is new in it; `prompt_logprobs` are by token id, None for the first token."""

    index: int
    text: str
    logprobs: TextLogprobs | None = None
    finish_reason: Literal["stop", "length"] | None = None
    prompt_logprobs: list[dict[str, PromptToken] | None] | UnsetType = UNSET


class TextCompletion(Struct):
    """Completions of prompts: all of them, or one event of a stream."""

    id: str
    created: int
    model: str
    system_fingerprint: str
    choices: list[TextChoice]
    usage: Usage | UnsetType | None = UNSET
    object: Literal["text_completion"] = "text_completion"


class Embedding(Struct):
    """The vector of a text: numbers, or their float32 bytes in base64."""

    index: int
    embedding: list[float] | str
    object: Literal["embedding"] = "embedding"


class EmbeddingUsage(Struct):
    """Tokens read."""

    prompt_tokens: int
    total_tokens: int


class Embeddings(Struct):
    """The vectors of texts, in their order."""

    data: list[Embedding]
    model: str
    usage: EmbeddingUsage
    object: Literal["list"] = "list"


class CallDelta(Struct):
    """A call of a tool, in a stream."""

    index: int
    id: str
    function: CalledFunction
    type: Literal["function"] = "function"


class SaidDelta(Struct, omit_defaults=True):
    """What is new in a message."""

    role: Literal["assistant"] | UnsetType = UNSET
    content: str | UnsetType = UNSET
    tool_calls: list[CallDelta] | UnsetType = UNSET


class ChoiceDelta(Struct):
    """What is new in an answer."""

    index: int
    delta: SaidDelta
    finish_reason: FinishReason | None = None
    logprobs: Logprobs | None = None


class Chunk(Struct):
    """One event of a stream."""

    id: str
    created: int
    model: str
    system_fingerprint: str
    choices: list[ChoiceDelta]
    usage: Usage | UnsetType | None = UNSET
    object: Literal["chat.completion.chunk"] = "chat.completion.chunk"


class Model(Struct):
    """A model that answers here."""

    id: str
    created: int
    object: Literal["model"] = "model"
    owned_by: str = "hocket"


class Models(Struct):
    """All models that answer here."""

    data: list[Model]
    object: Literal["list"] = "list"


class Health(Struct):
    """That the server runs, and with which weights."""

    weights: str
    status: Literal["ok"] = "ok"


class ErrorDetail(Struct):
    """What was wrong."""

    message: str
    type: str
    param: str | None
    code: str | None


class ErrorResponse(Struct):
    """A refusal."""

    error: ErrorDetail
