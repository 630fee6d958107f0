"""Who plays the texts: the models of a run as they are, an endpoint, or a function that answers in a model's place."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import torch

from hocket.agents.search.searcher import CaseResult
from hocket.agents.tools.recall import recalled
from hocket.agents.workflows.chat import Chat
from hocket.agents.workflows.player import TextPlayer
from hocket.agents.workflows.rewording import Worded
from hocket.agents.workflows.team import Actor
from hocket.core.errors import ConfigurationError, HocketError
from hocket.core.keys import Key
from hocket.core.texts import Block, Texts, problem
from hocket.core.user_files import load_object
from hocket.engine.requests import Request, Sample
from hocket.rewards.judging import prompt_text
from hocket.rewards.score import grade
from hocket.stages import Policy, Reward, Split, Task
from hocket.train.aio import run_async
from hocket.train.config import configure
from hocket.train.evaluate import success_of
from hocket.train.kinds import kind_of
from hocket.train.kinds.text import workflow_of
from hocket.train.settings import Config
from hocket.types import Assignment, Message, Trajectory

Answers = Callable[[Sequence[Message], int], str]
"""A policy in Python: messages and a number to draw by (0 when greedy), to its answer.

An answer that is begun already is the last message, the assistant's; then what follows it is asked for.
"""


class FunctionEngine:
    """An engine whose answers come from a function, certain (log-prob 0)."""

    version = 0

    def __init__(self, answers: Answers, chat: Chat) -> None:
        self._answers, self._chat = answers, chat

    def episode(self) -> AbstractAsyncContextManager[None]:
        """Nothing to wait for."""
        return nullcontext()

    async def submit(self, request: Request) -> Sample:
        """What the function says, cut behind a stop string and at the longest answer.

        Raises:
            HocketError: when that is no text.
        """
        return self.sample([request])[0]

    def sample(self, requests: Sequence[Request]) -> list[Sample]:
        """What the function says to each."""
        return [self._sample(request) for request in requests]

    def _sample(self, request: Request) -> Sample:
        begun: tuple[Message, ...] = ()
        if request.prefix:
            begun = ({"role": "assistant", "content": self._chat.reply_text(request.prefix)},)
        text = self._answers((*request.messages, *begun), request.key.word if request.decoding.temperature else 0)
        if not isinstance(text, str):
            raise HocketError(f"the function that answers as the model returned a {type(text).__name__}, not a text")
        ends = [at + len(stop) for stop in request.decoding.stop if (at := text.find(stop)) >= 0]
        ending = () if ends else (self._chat.end_of_turn,)
        complete = (*request.prefix, *self._chat.encode(text[: min(ends, default=None)], request.prefix), *ending)
        tokens = np.array(complete[: request.decoding.max_tokens], np.int64)
        imposed = np.arange(len(tokens)) < len(request.prefix)
        finish: Any = "stop" if len(tokens) == len(complete) else "length"
        return Sample(tokens, np.zeros(len(tokens), np.float32), finish, self.version, imposed)


def fingerprint(policies: Mapping[str, Policy]) -> str:
    """Of all weights; equal exactly when every one is."""
    hashing = hashlib.blake2b(digest_size=16)
    for name in sorted(policies):
        for part, tensor in sorted(cast(Any, policies[name]).module.state_dict().items()):
            hashing.update(f"{name}/{part}".encode())
            hashing.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return hashing.hexdigest()


@dataclass(eq=False)
class ModelTarget:
    """The models of a configured run on one split of a task.

    Attributes:
        split: where cases come from, by number.
    """

    config: Config
    task: Task
    player: TextPlayer
    policies: Mapping[str, Policy]
    rewards: Sequence[Reward]
    split: Split = "train"

    @property
    def roles(self) -> Sequence[str]:
        return self.player.workflow.roles

    @property
    def blocks(self) -> Sequence[Block]:
        return cast(Sequence[Block], getattr(self.player.workflow, "offers", ()))

    @property
    def skills(self) -> Mapping[str, str]:
        """The programs that the workflow begins with, by name; none where it has no skills."""
        return cast(Mapping[str, str], getattr(self.player.workflow, "library", {}))

    @property
    def drills(self) -> Sequence[str]:
        """What a new skill must pass: assertions in Python, with `{skill}` for its name."""
        return cast(Sequence[str], getattr(self.player.workflow, "drills", ()))

    def calls(self, texts: Texts) -> int:
        return Worded(self.player.workflow, texts).calls

    def play(
        self, texts: Texts, cases: Sequence[int], samples: int, *, first: int = 0, greedy: bool, key: Key
    ) -> list[CaseResult]:
        """Draws depend on the case and the sample alone, so two versions of the texts meet the same chances."""
        decoding = replace(self.config.decoding, temperature=0.0) if greedy else self.config.decoding
        assignments = [Assignment(self.task.scenario(self.split, case), samples, decoding, first) for case in cases]
        player = replace(self.player, workflow=Worded(self.player.workflow, texts))
        return run_async(self._played(player, assignments, cases, key))

    async def _played(
        self, player: TextPlayer, assignments: Sequence[Assignment], cases: Sequence[int], key: Key
    ) -> list[CaseResult]:
        played = await player.play(assignments, key=key.derive(self.split))
        await grade(played, self.rewards, key=key.derive(self.split, "score"))
        failed = next((episode.failure for episode in played if episode.failure is not None), None)
        if failed is not None and all(episode.failure is not None for episode in played):
            raise HocketError(f"every episode failed: {failed}")
        numbers = [case for case, episode in zip(cases, assignments, strict=True) for _ in range(episode.samples)]
        return [_case_result(self.task, number, episode) for number, episode in zip(numbers, played, strict=True)]

    def refuses(self, texts: Texts) -> str | None:
        """What `hocket.core.texts.problem` says, or the workflow, or that a prompt leaves no room in the context."""
        flow = self.player.workflow
        wrong = problem(texts, flow.roles, flow.prompts) or self._unfit(texts)
        if wrong is not None or self.player.context_length is None:
            return wrong
        scenario = self.task.scenario(self.split, 0)
        question = prompt_text(scenario)
        tokens = len(self.player.encode(question)) + self.config.decoding.max_tokens
        shown = recalled(texts, question)
        for role in flow.roles:
            length = len(self.player.encode(shown.system(role, flow.prompts.get(role)) or ""))
            if length + tokens > self.player.context_length:
                return (
                    f"prompt and library of {role!r} are {length} tokens; with the question and the longest answer "
                    f"({tokens}) the context of {self.player.context_length} is too small; shorten them"
                )
        return None

    def _unfit(self, texts: Texts) -> str | None:
        try:
            Worded(self.player.workflow, texts)
        except ConfigurationError as error:
            return str(error)
        return None


def model_target(task: Task, model: str, workflow: str | None, pairs: Sequence[tuple[str, Any]]) -> ModelTarget:
    """The target that `--model` names, see `seated`.

    Raises:
        ConfigurationError: as `seated`, and when the task's questions would hide the texts.
    """
    if not kind_of(task).textual:
        raise ConfigurationError(f"task {task.name} is not answered in text, so it has no texts to improve")
    player = seated(task, model, workflow, pairs)
    _refuse_own_system(task, player.roles)
    return player


def seated(task: Task, model: str, workflow: str | None, pairs: Sequence[tuple[str, Any]]) -> ModelTarget:
    """Who plays a task in text: `FILE.py:FUNCTION`, an address with `#NAME` behind it, or a model to load.

    Raises:
        ConfigurationError: when there is no such model.
    """
    outside, scripted = model.startswith(("http://", "https://")), ".py:" in model
    named: list[tuple[str, Any]] = [] if workflow is None else [("workflow", workflow)]
    if not (outside or scripted):
        named.append(("model", model))
    config = configure([("task", task.name), *named, *pairs], task)
    if outside:
        url, _, served = model.partition("#")
        if not served:
            raise ConfigurationError(f"model = {model}: name the server's model behind it, as in {url}#NAME")
        roles = workflow_of(config, task, None).roles
        seats = [(f"roles.{role}.{what}", v) for role in roles for what, v in (("endpoint", url), ("model", served))]
        config = configure([("task", task.name), *named, *pairs, *seats], task)
    policies, player = kind_of(task, config).build(config, task, workflow=None, journal=None, precision="fp32")
    text_player = cast(TextPlayer, player)
    if scripted:
        function = load_object(model, "model")
        if not callable(function):
            raise ConfigurationError(f"model = {model}: name a function of messages and a number")
        chat = next(iter(text_player.actors.values())).chat
        engine = FunctionEngine(function, cast(Chat, chat))
        actors = {role: Actor(role, engine, chat, learns=False) for role in text_player.actors}
        policies, text_player = {}, replace(text_player, actors=actors)
    return ModelTarget(config, task, text_player, policies, kind_of(task).rewards(config, task, None))


def _refuse_own_system(task: Task, roles: Sequence[str]) -> None:
    messages = task.scenario("train", 0).messages
    if messages and messages[0]["role"] == "system":
        raise ConfigurationError(
            f"the questions of task {task.name} bring their own system prompt, which would hide the one searched for "
            f"{roles[0]!r}; leave it out of the task's messages"
        )


def _case_result(task: Task, case: int, trajectory: Trajectory) -> CaseResult:
    right = trajectory.scenario.answer
    return CaseResult(
        case=case,
        sample=trajectory.sample,
        score=success_of(task, trajectory),
        calls=len(trajectory.turns),
        question=prompt_text(trajectory.scenario),
        expected="" if right is None else str(right),
        answer=trajectory.answer if trajectory.failure is None else trajectory.failure,
        said=[(turn.role, turn.text) for turn in trajectory.turns],
        tokens=sum(len(turn.action) for turn in trajectory.turns),
    )
