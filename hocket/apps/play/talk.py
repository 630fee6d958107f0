"""Chatting with a policy: a conversation that keeps its exact tokens and can be taken back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from hocket.agents.workflows.chat import Chat, Tokens
from hocket.apps.play.screen import TerminalScreen
from hocket.apps.serve.spelling import Spelling
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.engine.requests import ContextFull, Request
from hocket.stages import Task
from hocket.types import Decoding, Message, Scenario

if TYPE_CHECKING:
    from hocket.engine.local import LocalEngine

PART = 8
"""Tokens that are written before they are shown."""

COMMANDS = (
    ("/help", "this list"),
    ("/undo", "take back your last message and its answer"),
    ("/again", "another answer to your last message"),
    ("/new", "forget the conversation"),
    ("/system TEXT", "begin a new conversation under a system message"),
    ("/ask", "put the next problem of the task to the model, and see whether it is right"),
    ("/logp", "show how likely each token was, or stop showing it"),
    ("/quit", "leave; so does the end of input"),
)


@dataclass(frozen=True)
class _Said:
    """One exchange: the messages before it, what was asked, the tokens up to the answer, and the answer's."""

    before: tuple[Message, ...]
    asked: Message
    context: Tokens
    response: Tokens
    logp: tuple[float, ...]
    text: str
    finish: str

    @property
    def after(self) -> tuple[Message, ...]:
        return (*self.before, self.asked, {"role": "assistant", "content": self.text})


class Conversation:
    """Messages that a policy answers.

    Attributes:
        said: the exchanges so far. system: the system message, None without one.
    """

    def __init__(self, engine: LocalEngine, chat: Chat, decoding: Decoding, key: Key) -> None:
        self.said: list[_Said] = []
        self.system: str | None = None
        self._engine = engine
        self._chat = chat
        self._decoding = decoding
        self._key = key
        self._draws = 0

    def say(self, text: str) -> Iterator[str]:
        """Says something; gives the answer piece by piece, and adds it to `said` at the end.

        Raises:
            ContextFull: when the conversation has become too long.
        """
        question: Message = {"role": "user", "content": text}
        before: tuple[Message, ...] = self.said[-1].after if self.said else self._opening()
        context = self._context(before, question)
        key = self._key.derive(self._draws)
        self._draws += 1
        spelling = Spelling(self._chat, 0)
        response, logp, finish = list[int](), list[float](), "length"
        while finish == "length" and (left := self._left(context, len(response))) > 0:
            decoding = replace(self._decoding, max_tokens=min(PART, left))
            request = Request((*context, *response), decoding, key, drawn=len(response))
            (sample,) = self._engine.sample([request])
            assert sample.logp is not None
            response += sample.tokens.tolist()
            logp += sample.logp.tolist()
            finish = sample.finish
            spelling.take(sample.tokens.tolist(), None)
            yield spelling.delta().text
        yield spelling.last("stop").text
        words = self._chat.reply_text(response, context)
        self.said.append(_Said(before, question, context, tuple(response), tuple(logp), words, finish))

    def undo(self) -> str | None:
        """Takes the last exchange back; what was asked in it, None when there was none."""
        return str(self.said.pop().asked["content"]) if self.said else None

    def new(self, system: str | None = None) -> None:
        """Forgets everything, and begins under a system message if there is one."""
        self.said, self.system = [], system

    def token_texts(self) -> list[tuple[str, float]]:
        """The tokens of the last answer as text, with their log-probs."""
        last = self.said[-1]
        return [(self._chat.render([token]), value) for token, value in zip(last.response, last.logp, strict=True)]

    def _opening(self) -> tuple[Message, ...]:
        return () if self.system is None else ({"role": "system", "content": self.system},)

    def _context(self, before: tuple[Message, ...], question: Message) -> Tokens:
        """The tokens of the conversation; what was sampled stays as it was sampled."""
        if self.said:
            last = self.said[-1]
            grown = self._chat.grown((*last.before, last.asked), last.response, (question,), answer=last.after[-1])
            if grown is not None:
                return last.context + last.response + grown
        return self._chat.opening((*before, question))

    def _left(self, context: Tokens, written: int) -> int:
        room, most = self._engine.context_length, self._decoding.max_tokens
        left = most - written if room is None else min(most, room - len(context)) - written
        if left < 1 and not written:
            raise ContextFull(f"the conversation has {len(context)} tokens and the model reads {room}; /new or /undo")
        return left


class ChatSession:
    """The chat as a person has it."""

    def __init__(
        self, screen: TerminalScreen, conversation: Conversation, task: Task, *, name: str, logp: bool
    ) -> None:
        self._screen = screen
        self._conversation = conversation
        self._task = task
        self._name = name
        self._logp = logp
        self._asked = 0

    def run(self) -> None:
        """Until the person leaves."""
        while (line := self._screen.ask("you")) is not None:
            words = line.strip()
            if words in ("/quit", "/exit"):
                return
            if words.startswith("/"):
                self._command(words)
            elif words:
                self._exchange(words)

    def _command(self, words: str) -> None:
        name, _, rest = words.partition(" ")
        match name:
            case "/help":
                self._screen.help(COMMANDS)
            case "/undo":
                taken = self._conversation.undo()
                self._screen.note("there is nothing to take back" if taken is None else f"taken back: {taken}")
            case "/again":
                taken = self._conversation.undo()
                if taken is None:
                    self._screen.note("there is nothing to answer again")
                else:
                    self._exchange(taken)
            case "/new":
                self._conversation.new(self._conversation.system)
                self._screen.note("a new conversation")
            case "/system":
                self._conversation.new(rest.strip() or None)
                self._screen.note("a new conversation" + (" under this system message" if rest.strip() else ""))
            case "/logp":
                self._logp = not self._logp
                self._screen.note("showing how likely tokens were" if self._logp else "no longer showing it")
            case "/ask":
                self._ask()
            case _:
                self._screen.wrong(f"there is no command {name}; /help lists them")

    def _ask(self) -> None:
        """Puts the next unseen problem of the task, in a conversation of its own."""
        size = self._task.size("eval")
        scenario = self._task.scenario("eval", self._asked if size is None else self._asked % size)
        self._asked += 1
        messages = scenario.messages
        if not messages or messages[-1]["role"] != "user" or len(messages) > 2:
            self._screen.wrong(f"the problems of {self._task.name} are no single questions; play it with its workflow")
            return
        self._conversation.new(str(messages[0]["content"]) if len(messages) == 2 else None)
        question = str(messages[-1]["content"])
        self._screen.quote(self._task.name, question)
        if self._exchange(question):
            self._judge(scenario)

    def _judge(self, scenario: Scenario) -> None:
        verify: Any = getattr(self._task, "verify", None)
        if verify is None:
            return
        verdict = verify(self._conversation.said[-1].text, scenario)
        right = verdict is not None and verdict >= 1
        known = "" if scenario.answer is None or right else f"; the answer is {scenario.answer}"
        self._screen.say(("[green]right[/]" if right else "[red]wrong[/]") + known)

    def _exchange(self, text: str) -> bool:
        """One message and its answer; whether there is one."""
        self._screen.begin(self._name)
        try:
            for piece in self._conversation.say(text):
                self._screen.piece(piece)
        except (ContextFull, ConfigurationError) as error:
            self._screen.piece("\n")
            self._screen.wrong(str(error))
            return False
        self._screen.piece("\n")
        if self._conversation.said[-1].finish == "length":
            self._screen.note("(cut at the limit; --max-tokens allows more)")
        if self._logp:
            self._screen.likelihoods(self._conversation.token_texts())
        return True
