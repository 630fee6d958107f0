"""Plays assignments with text policies: concurrent episodes of a workflow, and teacher-forced texts."""

from __future__ import annotations

import asyncio
import inspect
import math
import traceback
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, AsyncExitStack, nullcontext
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hocket.agents.tools.outside_answers import ANSWERS, Answers, ToolJournal
from hocket.agents.workflows.candidates import settle
from hocket.agents.workflows.chat import Tools
from hocket.agents.workflows.chat_format import ChatFormat
from hocket.agents.workflows.ending import ended
from hocket.agents.workflows.episode import Episode, LimitReached, Limits
from hocket.agents.workflows.fitting import Fit
from hocket.agents.workflows.likelihood import Asked, likelihoods
from hocket.agents.workflows.team import Actor, Agent, Labeller, Team, Verifier, headed
from hocket.agents.workflows.workflow import Outcome, Workflow, asked
from hocket.core.batch import Level
from hocket.core.columns import ANSWER, GUESTS, LIMIT
from hocket.core.errors import ConfigurationError, HocketError, nearest
from hocket.core.examples import BESIDES, responses_of
from hocket.core.keys import Key
from hocket.core.media import FIRST
from hocket.engine.requests import ContextFull, Engine
from hocket.types import Assignment, Message, Scenario, Score, Trajectory, Turn

_RESERVED = ("assignment", "key")


class Opponents(Protocol):
    """Replacement actors for roles of an episode."""

    @property
    def actors(self) -> Sequence[Actor]:
        """All actors that may replace others."""
        ...

    def __call__(self, episode: Episode) -> Mapping[str, Actor]:
        """The guests of this episode by role; a function of the episode's keys."""
        ...


@dataclass(frozen=True)
class TextPlayer:
    """A `Player` of one workflow.

    Samples are keyed by scenario, source and sample number, and their calls by role, conversation and number. So a
    trajectory depends neither on concurrent episodes nor on the order of completion.

    Assignments of source `expert` are not sampled: the actions are `scenario.metadata["demonstration"]` (else the
    scenario's answer as text) after the opening that `SingleTurn` would use for the first role, once per sample.
    Those of source `imported` give two trajectories, `metadata["chosen"]` with score `preference` 1 and
    `metadata["rejected"]` with 0, whatever `samples` says. Each may be text or a list of messages to append.

    Attributes:
        workflow: the workflow of an episode.
        actors: the actor of each role.
        limits: the limits of an episode; an assignment's `budget` also bounds its tokens.
        references: the actors of roles for assignments whose actor is the reference; other roles keep their actors.
        verifier: the task's verifier, for `team.verify`. labeller: the task's labels, for `team.label`.
        fit: the treatment of given texts that are longer than the context.
        guests: replacement actors in single episodes; their engines share the actors' barrier.
        journal: stores the answers of outside tools, see `hocket.agents.tools.outside_answers`.
        weights: a context for sampling, which loads the policies' weights if they are elsewhere.

    Raises:
        ConfigurationError: when a role has no actor, or an actor no role.
    """

    workflow: Workflow
    actors: Mapping[str, Actor]
    limits: Limits = field(default_factory=Limits)
    references: Mapping[str, Actor] = field(default_factory=dict)
    verifier: Verifier | None = None
    labeller: Labeller | None = None
    guests: Opponents | None = None
    fit: Fit = Fit()
    journal: ToolJournal | None = None
    weights: Callable[[], AbstractContextManager[None]] = nullcontext

    def __post_init__(self) -> None:
        name = getattr(self.workflow, "__name__", type(self.workflow).__name__)
        if not isinstance(self.workflow, Workflow):
            raise ConfigurationError(
                f"workflow {name} is not an instance of hocket.agents.workflows.Workflow; subclass it"
            )
        roles = self.workflow.roles
        if not roles:
            raise ConfigurationError(f"workflow {name} names no roles; set roles = ('policy',) or the like")
        for role in roles:
            if role in _RESERVED or role.startswith("_"):
                raise ConfigurationError(f"workflow {name}: {role!r} cannot name a role; choose another word")
            if role not in self.actors:
                raise ConfigurationError(f"role {role!r} of workflow {name} has no policy; set roles.{role}")
        for role in self.actors:
            if role not in roles:
                raise ConfigurationError(f"roles.{role}: workflow {name} has no such role{nearest(role, roles)}")
        barriers = {
            id(barrier) for engine in self._engines() if (barrier := getattr(engine, "barrier", None)) is not None
        }
        if len(barriers) > 1:
            raise ConfigurationError(
                f"the engines of workflow {name} would wait for each other for ever; give them one barrier"
            )

    @property
    def context_length(self) -> int | None:
        """The largest number of tokens of a given text with its prompt; None is no limit."""
        length: int | None = getattr(self.actors[self.workflow.roles[0]].engine, "context_length", None)
        return length

    def check(self, scenario: Scenario, *, recorded: bool = True) -> int:
        """Checks that the model can read a scenario, and with `recorded` also its recorded responses.

        Checks the prompt if the workflow begins with it. Returns the largest token id of words; -1 without tokens.

        Raises:
            ConfigurationError: when the template refuses it, or it is too long and may not be shortened.
        """
        responses: list[Any] = responses_of(scenario) if recorded else []
        if recorded and not responses and scenario.answer is not None:
            responses = [str(scenario.answer)]
        trajectories = [self._given(Assignment(scenario, source="imported"), 0, response) for response in responses]
        turns = [turn for trajectory in trajectories for turn in trajectory.turns]
        read = [part for turn in turns for part in (turn.observation, turn.action)]
        if self.workflow.opens and not trajectories:
            role = self.workflow.roles[0]
            messages = headed(scenario.messages, self.workflow.prompts.get(role))
            read.append(np.asarray(self.actors[role].chat.opening(messages, self._tools(role, scenario)), np.int64))
            room = self.context_length
            if room is not None and len(read[-1]) >= room:
                raise ConfigurationError(
                    f"the prompt has {len(read[-1])} tokens, which leaves no room for an answer in the model's context "
                    f"of {room}; shorten it or drop the row"
                )
        return max((int(part[part < FIRST].max(initial=-1)) for part in read), default=-1)

    def decode(self, tokens: Sequence[int]) -> str:
        """Token ids as text, special tokens included, by a learning role's tokenizer: for records and reports."""
        return self._chat.render(tokens)

    def encode(self, text: str, after: Sequence[int] = ()) -> tuple[int, ...]:
        """Ids of a piece of a response, `after` its ids before it, by a learning role's tokenizer."""
        return self._chat.encode(text, after)

    async def likelihood(self, asked: Sequence[Asked]) -> list[NDArray[np.float32] | None]:
        """The log-probs of imposed responses to recorded turns; see `hocket.agents.workflows.likelihood`."""
        with self.weights():
            return await likelihoods(self.actors, asked)

    @property
    def _chat(self) -> ChatFormat:
        return min(self.actors.values(), key=lambda actor: not actor.learns).chat

    async def play(self, assignments: Sequence[Assignment], *, key: Key) -> list[Trajectory]:
        """Every sample of every assignment, in assignment order, then sample order.

        Raises:
            ConfigurationError: when the chat template or the workflow's use of it is wrong; any other error of a
                workflow ends only its own episode.
        """
        groups: list[list[Trajectory]] = []
        live: list[tuple[Assignment, int, list[Trajectory]]] = []
        for assignment in assignments:
            groups.append([])
            if assignment.source == "expert":
                groups[-1].extend(self._taught(assignment, number) for number in _numbers(assignment))
            elif assignment.source == "imported":
                groups[-1].extend(self._imported(assignment))
            else:
                live.extend((assignment, number, groups[-1]) for number in _numbers(assignment))
        with self.weights() if live else nullcontext():
            played = await self._episodes(live, key)
        for (_, _, group), trajectory in zip(live, played, strict=True):
            group.append(trajectory)
        return [trajectory for group in groups for trajectory in group]

    def counts(self) -> dict[str, int]:
        """The summed `SamplingCounts` of the engines in this process so far, by their names."""
        guests = [] if self.guests is None else self.guests.actors
        actors = [*self.actors.values(), *self.references.values(), *guests]
        by_engine = {
            id(counts): counts for actor in actors if (counts := getattr(actor.engine, "counts", None)) is not None
        }
        total: Counter[str] = Counter()
        for counts in by_engine.values():
            total.update(vars(counts))
        return dict(total)

    # ------------------------------------------------------------ sampled

    async def _episodes(self, live: Sequence[tuple[Assignment, int, Any]], key: Key) -> list[Trajectory]:
        tasks = [asyncio.create_task(self._attempt(assignment, number, key)) for assignment, number, _ in live]
        try:
            return list(await asyncio.gather(*tasks))
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _attempt(self, assignment: Assignment, number: int, key: Key) -> Trajectory:
        async with AsyncExitStack() as live:
            for engine in self._engines():
                await live.enter_async_context(engine.episode())
            common = key.derive(assignment.scenario.id, assignment.source)
            drawing = number if assignment.replay is None else assignment.replay.sample
            keys = common.derive(number), common.derive("common"), common.derive(drawing)
            answers = Answers(str(keys[0]), self.journal)
            episode = Episode(assignment, self.limits, *keys, answers=answers)
            trajectory = Trajectory(assignment.scenario, [], sample=number, source=assignment.source)
            guests = {} if self.guests is None or assignment.actor != "policy" else self.guests(episode)
            team = self._team(episode, guests)
            playing = asyncio.create_task(_begun(self.workflow, assignment.scenario, team, answers))
            try:
                reached = await episode.watch(playing)
                outcome = Outcome() if reached is not None else _checked(await playing)
                trajectory.turns = episode.turns
                _settle(trajectory, outcome)
            except (Exception, asyncio.CancelledError, BaseExceptionGroup) as error:
                reached = self._ended(trajectory, playing, error)
            finally:
                await ended([playing])
                await episode.close()
                forgotten = episode.forgotten()
            if forgotten and reached is None:
                trajectory.failure = _with_forgotten(trajectory.failure, forgotten[0])
            if reached is not None:
                LIMIT.write(trajectory, reached)
            if guests:
                GUESTS.write(trajectory, {role: actor.policy for role, actor in guests.items()})
        trajectory.turns = episode.turns
        if trajectory.failure is None:
            settle(trajectory, episode.candidates)
        cut = bool(trajectory.turns) and trajectory.turns[-1].finish == "length"
        trajectory.truncated = cut or trajectory.failure is not None or LIMIT.present(trajectory)
        trajectory.terminated = not trajectory.truncated
        return trajectory

    def _ended(self, trajectory: Trajectory, playing: asyncio.Task[Any], error: BaseException) -> str | None:
        """Records why an episode ended early: the limit it reached, in words, or its failure.

        Errors that concern the whole run are raised, and so is a cancellation from outside the episode.
        """
        if isinstance(error, asyncio.CancelledError) and not (playing.done() and playing.cancelled()):
            raise error
        shared = _first(error, ConfigurationError)
        if shared is not None:
            raise shared
        reached = _limit(error)
        if reached is None:
            trajectory.failure = _failure(error, self.workflow)
        return reached

    def _engines(self) -> list[Engine]:
        """The distinct engines of all seats."""
        return list({id(actor.engine): actor.engine for actor in self.actors.values()}.values())

    def _seated(self, assignment: Assignment) -> Mapping[str, Actor]:
        """The actors of this assignment."""
        if assignment.actor == "policy":
            return self.actors
        if not self.references:
            raise ConfigurationError(
                "the rollout samples from the policies as they were before training, which this player was not given; "
                "its class must say plays_reference = True"
            )
        return {**self.actors, **self.references}

    def _team(self, episode: Episode, guests: Mapping[str, Actor]) -> Team:
        prompts, scenario = self.workflow.prompts, episode.assignment.scenario
        actors = {**self._seated(episode.assignment), **guests}
        agents = {
            role: Agent(role, actors[role], episode, system=prompts.get(role), tools=self._tools(role, scenario))
            for role in self.workflow.roles
        }
        keys = episode.draws.derive("workflow"), episode.common.derive("workflow")
        return Team(agents, episode.assignment, keys[0], self.verifier, keys[1], self.labeller)

    # ------------------------------------------------------------ given

    def _taught(self, assignment: Assignment, number: int) -> Trajectory:
        scenario = assignment.scenario
        demonstration = scenario.metadata.get("demonstration")
        if demonstration is None and scenario.answer is None:
            raise ConfigurationError(
                f"scenario {scenario.id!r} has neither metadata['demonstration'] nor an answer to teach; add one"
            )
        return self._given(assignment, number, str(scenario.answer) if demonstration is None else demonstration)

    def _imported(self, assignment: Assignment) -> list[Trajectory]:
        pair = []
        for offset, (name, preference) in enumerate((("chosen", 1.0), ("rejected", 0.0))):
            text = assignment.scenario.metadata.get(name)
            if text is None:
                raise ConfigurationError(f"scenario {assignment.scenario.id!r} has no metadata[{name!r}]; add it")
            trajectory = self._given(assignment, assignment.first + offset, text)
            trajectory.scores["preference"] = Score(preference)
            pair.append(trajectory)
        return pair

    def _given(self, assignment: Assignment, number: int, response: str | Sequence[Message]) -> Trajectory:
        """A trajectory whose responses are imposed text; its log-probs are unknown."""
        more = ({"role": "assistant", "content": response},) if isinstance(response, str) else tuple(response)
        role = self.workflow.roles[0]
        tools = self._tools(role, assignment.scenario)
        turns: list[Turn] = []
        messages: list[Message] = list(headed(asked(assignment), self.workflow.prompts.get(role)))
        for message in more:
            if message["role"] == "assistant":
                before = turns[-1] if turns else None
                try:
                    turns.append(self._forced(role, tuple(messages), message, before, tools))
                except HocketError as error:
                    raise type(error)(f"scenario {assignment.scenario.id!r}: {error}") from error
            messages.append(message)
        if not turns:
            raise ConfigurationError(f"scenario {assignment.scenario.id!r}: a given text has no assistant message")
        turns = self.fit(turns, self.context_length, f"scenario {assignment.scenario.id!r}")
        cut = turns[-1].finish == "length"
        return Trajectory(
            assignment.scenario, turns, number, terminated=not cut, truncated=cut, source=assignment.source
        )

    def _tools(self, role: str, scenario: Scenario) -> Tools | None:
        """The tools in a role's template: the workflow's, else for the first role those of the scenario."""
        shown = self.workflow.tools.get(role)
        if shown is None and role == self.workflow.roles[0]:
            return scenario.metadata.get("tools") or None
        return shown

    def _forced(
        self, role: str, messages: tuple[Message, ...], answer: Message, parent: Turn | None, tools: Tools | None
    ) -> Turn:
        chat = self.actors[role].chat
        observation = None
        if parent is not None:
            past = len(parent.prompt)
            new, before = messages[past + 1 :], messages[past]
            observation = chat.grown(messages[:past], parent.action.tolist(), new, tools, before)
        if observation is None:
            parent, observation = None, chat.opening(messages, tools)
        action, text = chat.demonstration(answer, messages, tools), answer.get("content")
        if not isinstance(text, str) or any(answer.get(name) for name in BESIDES):
            text = chat.reply_text(action, observation)  # Like the text of a sampled response, with its calls.
        return Turn(
            agent=role,
            role=role,
            policy=self.actors[role].policy,
            observation=np.asarray(observation, np.int64),
            action=np.asarray(action, np.int64),
            parent=parent,
            text=text,
            prompt=messages,
        )


def _numbers(assignment: Assignment) -> range:
    return range(assignment.first, assignment.first + assignment.samples)


def _checked(outcome: object) -> Outcome:
    if outcome is None:
        return Outcome()
    if not isinstance(outcome, Outcome):
        raise TypeError(f"play() returned {type(outcome).__name__}, not an Outcome or None")
    return outcome


def _settle(trajectory: Trajectory, outcome: Outcome) -> None:
    """Writes an outcome's answer, columns and rewards into its trajectory."""
    if outcome.answer is not None:
        ANSWER.write(trajectory, outcome.answer)
    trajectory.info.update(_by_name(outcome.info, "info"))
    for name, value in _by_name(outcome.rewards, "rewards").items():
        trajectory.scores[name] = Score(_number(value, f"reward {name!r}"))
    for name, rewards in _by_name(outcome.turn_rewards, "turn_rewards").items():
        if name in trajectory.scores:
            raise ValueError(f"reward {name!r} is given for the trajectory and per turn; give one of them another name")
        where = f"turn reward {name!r}"
        if isinstance(rewards, Mapping):
            by_turn = {reply.turn: _number(value, where) for reply, value in rewards.items()}
            values: list[float | None] = [by_turn.get(turn) for turn in trajectory.turns]
        else:
            values = [_number(value, where) for value in rewards]
        if len(values) != len(trajectory.turns):
            raise ValueError(f"{where} has {len(values)} values for {len(trajectory.turns)} turns")
        trajectory.scores[name] = Score(values, Level.TURN)


def _by_name(values: object, field: str) -> Mapping[str, Any]:
    if not isinstance(values, Mapping):
        raise TypeError(f"Outcome.{field} = {values!r}; write a dict of what is named, such as {{'name': value}}")
    return values


def _number(value: Any, where: str) -> float | None:
    """A reward as a finite number; None is no opinion."""
    if value is None:
        return None
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise TypeError(f"{where} = {value!r}; give a number, or None for no opinion") from None
    if not math.isfinite(number):
        raise ValueError(f"{where} is {number}; give a finite number, or None for no opinion")
    return number


async def _begun(workflow: Workflow, scenario: Scenario, team: Team, answers: Answers) -> Outcome | None:
    ANSWERS.set(answers)  # For this task and those that it starts.
    return await workflow.play(scenario, team)


def _limit(error: BaseException) -> str | None:
    """The limit that ended an episode, in words; None if it failed."""
    if isinstance(error, (LimitReached, ContextFull)):
        return str(error)
    if isinstance(error, BaseExceptionGroup):
        reasons = [_limit(inner) for inner in error.exceptions]
        return reasons[0] if all(reasons) else None
    return None


def _first(error: BaseException, kind: type[ConfigurationError]) -> ConfigurationError | None:
    """The first error of a kind, also inside a group."""
    if isinstance(error, kind):
        return error
    inner = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
    return next((inner_error for error_part in inner if (inner_error := _first(error_part, kind)) is not None), None)


def _with_forgotten(failure: str | None, role: str) -> str | None:
    """The failure of an episode with a call that was never awaited, unless it has another cause."""
    if failure is not None and "coroutine" not in failure:
        return failure
    missing = f"a call of agent {role!r} was never awaited; write `await team.{role}(...)`"
    return missing if failure is None else f"{failure}: {missing}"


def _failure(error: BaseException, workflow: Workflow) -> str:
    """The error and its place in the workflow's file, such as `TypeError: ... in play() line 12`."""
    file = inspect.getsourcefile(inspect.unwrap(type(workflow).play))
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    # Errors of the library say themselves what is meant.
    where = f" in {frames[-1].name}() line {frames[-1].lineno}" if frames and not isinstance(error, HocketError) else ""
    return f"{type(error).__name__}: {error}{where}"
