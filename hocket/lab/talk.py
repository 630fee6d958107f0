"""Workflows on tables: any team, played by the player of any run and trained by its training step, in milliseconds.

Tokens are whole words, and a policy is a table of logits, a row for each conversation that an agent may see:

    bench = TalkBench(workflow=Duet(), scenarios=[Scenario("a", "red")], words=("red", "blue"), recipe=GRPO)
    bench.run(100).success()

Observations are one token each, the number of the conversation, so that the learner finds the row again.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from hocket.agents.workflows.chat import Tokens, Tools
from hocket.agents.workflows.episode import Limits
from hocket.agents.workflows.player import TextPlayer
from hocket.agents.workflows.team import Actor, Verifier
from hocket.agents.workflows.workflow import Workflow
from hocket.core.batch import Batch, Level
from hocket.core.columns import ALTERNATIVES, ANSWER, ENTROPIES
from hocket.core.errors import HocketError
from hocket.core.keys import Key, uniforms
from hocket.core.outcomes import StepResult
from hocket.engine.requests import Request, Sample
from hocket.recipe import Recipe
from hocket.stages import Metrics, Policy, Reward, Split
from hocket.train.aio import run_async
from hocket.train.learner import Learner
from hocket.train.ledger import Ledger
from hocket.train.loop import RunContext, train_step
from hocket.types import Assignment, Decoding, Evaluation, Message, Quantity, Scenario, Trajectory, before_training

View = Callable[[tuple[Message, ...]], Hashable]
"""What of a conversation a policy sees: conversations with equal views share a row."""

Prior = Callable[[tuple[Message, ...], tuple[str, ...]], Sequence[float] | Mapping[str, float] | None]
"""Logits before training, from the conversation and the turn's words so far; by word, the others 0; None is all 0."""

SHARED = "policy"


def last_message(messages: tuple[Message, ...]) -> Hashable:
    """A view: the system prompt and the last message, for agents without memory."""
    system = [m["content"] for m in messages if m["role"] == "system"]
    return (*system, messages[-1]["content"])


def everything(messages: tuple[Message, ...]) -> Hashable:
    """A view: the whole conversation, its own replies included."""
    return tuple((message["role"], str(message["content"])) for message in messages)


# ---------------------------------------------------------------- words


class WordChat:
    """Stands where `Chat` does. Ids below `len(words)` are words, the next one ends a turn, others name conversations.

    Args:
        words: the vocabulary. view: what of a conversation counts.
    """

    def __init__(self, words: Sequence[str], view: View = everything) -> None:
        self.words = tuple(words)
        self.end_of_turn = len(self.words)
        self.stops: Tokens = (self.end_of_turn,)
        self._view = view
        self._codes: dict[Hashable, int] = {}
        self._conversations: list[tuple[Message, ...]] = []

    def opening(self, messages: Sequence[Message], tools: Tools | None = None) -> Tokens:
        """The id of a conversation, as the view sees it."""
        conversation = tuple(messages)
        code = self._codes.setdefault(self._view(conversation), len(self._codes))
        if code == len(self._conversations):
            self._conversations.append(conversation)
        return (self.end_of_turn + 1 + code,)

    def grown(
        self,
        history: Sequence[Message],
        response: Sequence[int],
        new: Sequence[Message],
        tools: Tools | None = None,
        answer: Message | None = None,
    ) -> Tokens | None:
        """The id of the longer conversation."""
        answer = {"role": "assistant", "content": self.reply_text(response)}
        return self.opening((*history, answer, *new), tools)

    def told(self, token: int) -> tuple[Message, ...]:
        """The first conversation that an observation's id stands for."""
        return self._conversations[token - self.end_of_turn - 1]

    def demonstration(
        self, answer: str | Message, history: Sequence[Message] = (), tools: Tools | None = None
    ) -> Tokens:
        """Ids of a response."""
        return self.encode(answer if isinstance(answer, str) else str(answer["content"]))

    def ended(self, response: Sequence[int]) -> bool:
        """Whether a response holds the end of turn."""
        return len(response) > 0 and int(response[-1]) == self.end_of_turn

    def reply_text(self, response: Sequence[int], observation: Sequence[int] = ()) -> str:
        """The words of a response."""
        return " ".join(self.words[int(token)] for token in response if int(token) < len(self.words))

    def render(self, tokens: Sequence[int]) -> str:
        """Words as text; ids of conversations are passed over."""
        return self.reply_text(tokens)

    def encode(self, text: str, after: Sequence[int] = ()) -> Tokens:
        """Text as ids: at each place the longest word that fits.

        Raises:
            HocketError: when no word fits.
        """
        tokens: list[int] = []
        left = text.strip()
        while left:
            fitting = [n for n, word in enumerate(self.words) if (left + " ").startswith(word + " ")]
            if not fitting:
                raise HocketError(f"no word of this bench begins {left!r}")
            tokens.append(max(fitting, key=lambda n: len(self.words[n])))
            left = left[len(self.words[tokens[-1]]) :].strip()
        return tuple(tokens)


# ---------------------------------------------------------------- the policy


class ContextRows:
    """The row of a conversation with a turn's words so far, and logits before training; copies of a policy share it."""

    def __init__(self, chat: WordChat, actions: int, capacity: int, prior: Prior | None) -> None:
        self.chat, self.actions, self.capacity = chat, actions, capacity
        self.start = torch.zeros(capacity, actions, dtype=torch.float64)
        self._prior = prior
        self._rows: dict[tuple[int, tuple[int, ...]], int] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def row(self, told: int, said: tuple[int, ...]) -> int:
        """The row for the word after `said`, the agent having been told `told`."""
        key = (told, said)
        if key not in self._rows:
            if len(self._rows) == self.capacity:
                raise HocketError(f"the table is full; give the bench a capacity above {self.capacity}")
            self._rows[key] = len(self._rows)
            self._begin(self._rows[key], key)
        return self._rows[key]

    def _begin(self, row: int, key: tuple[int, tuple[int, ...]]) -> None:
        words = self.chat.words
        logits = None if self._prior is None else self._prior(self.chat.told(key[0]), tuple(words[n] for n in key[1]))
        if isinstance(logits, Mapping):
            for word, value in logits.items():
                self.start[row, self.chat.end_of_turn if word == "" else words.index(word)] = value
        elif logits is not None:
            self.start[row] = torch.tensor(list(logits), dtype=torch.float64)


class LookupTable(nn.Module):
    """What training adds to the logits `[capacity, actions]` and, once required, a value per row; float64."""

    def __init__(self, rows: int, actions: int) -> None:
        super().__init__()
        self.logits = nn.Parameter(torch.zeros(rows, actions, dtype=torch.float64))
        self.values: nn.Parameter | None = None


class LookupPolicy:
    """A softmax over words for every conversation that an agent may see; see `hocket.stages.Policy`."""

    granularity = Level.TRAJECTORY
    twice_differentiable = True

    def __init__(self, rows: ContextRows, *, lr: float = 0.05, name: str = SHARED) -> None:
        self.name, self.version, self.default_lr = name, 0, lr
        self.rows = rows
        self._module = LookupTable(rows.capacity, rows.actions)

    @property
    def module(self) -> LookupTable:
        return self._module

    def logp(self, rows: Tensor, temperature: float | Tensor = 1.0) -> Tensor:
        """Log-probs of all words in `rows` `[K]`: `[K, V]`, differentiable."""
        return torch.log_softmax((self.rows.start[rows] + self._module.logits[rows]) / temperature, -1)

    def probabilities(self, *messages: Message | str, said: Sequence[str] = (), system: str | None = None) -> Tensor:
        """Of each word (the end of turn last, where there is one) after a conversation, `[V]`, detached."""
        chat = self.rows.chat
        conversation: list[Message] = [] if system is None else [{"role": "system", "content": system}]
        conversation += [{"role": "user", "content": m} if isinstance(m, str) else m for m in messages]
        row = self.rows.row(chat.opening(conversation)[-1], tuple(chat.words.index(word) for word in said))
        with torch.no_grad():
            return self.logp(torch.tensor([row]))[0].exp()

    def require(self, needs: frozenset[Quantity]) -> None:
        if Quantity.VALUE in needs and self._module.values is None:
            self._module.values = nn.Parameter(torch.zeros(self.rows.capacity, dtype=torch.float64))

    def chunks(self, batch: Batch, decisions: Tensor) -> list[Tensor]:
        return [decisions] if len(decisions) else []

    def evaluate(
        self,
        batch: Batch,
        needs: Iterable[Quantity],
        decisions: Tensor | None = None,
        *,
        reference: Policy | None = None,
    ) -> Evaluation:
        wanted = frozenset(needs)
        chosen = torch.arange(batch.decisions) if decisions is None else decisions
        rows = self._rows_of(batch, chosen)
        temperature = torch.ones(batch.turns) if batch.temperature is None else batch.temperature
        temperature = temperature[batch.turn[chosen]].double()[:, None]
        table = self.logp(rows, temperature)

        def scattered(values: Tensor) -> Tensor:
            return torch.zeros(batch.decisions, dtype=values.dtype).index_put((chosen,), values)

        value = kl = None
        if Quantity.VALUE in wanted:
            assert self._module.values is not None, "call require first"
            value = scattered(self._module.values[rows])
        if Quantity.KL_EXACT in wanted:
            assert isinstance(reference, LookupPolicy), "an exact KL needs a LookupPolicy as reference"
            kl = scattered((table.exp() * (table - reference.logp(rows, temperature).detach())).sum(-1))
        return Evaluation(
            logp=scattered(table.gather(1, batch.action[chosen].long()[:, None])[:, 0]),
            entropy=scattered(-(table.exp() * table).sum(-1)) if Quantity.ENTROPY in wanted else None,
            value=value,
            kl_exact=kl,
        )

    def distributions(self, batch: Batch, decisions: Tensor) -> Callable[[Tensor], Tensor]:
        """Whole distributions at `decisions` `[K]`, without gradient: places in it `[M]` to log-probs `[M, V]`."""
        rows = self._rows_of(batch, decisions)
        return lambda chosen: self.logp(rows[chosen]).detach()

    def _rows_of(self, batch: Batch, decisions: Tensor) -> Tensor:
        """The row of each of `decisions` `[K]`: the conversation before the turn, and its words so far."""
        starts = _starts(batch)
        turn, action = batch.turn[decisions].tolist(), batch.action.tolist()
        rows = [
            self.rows.row(int(batch.observation[of][-1]), tuple(action[starts[of] : place]))
            for place, of in zip(decisions.tolist(), turn, strict=True)
        ]
        return torch.tensor(rows, dtype=torch.long)

    def final_values(self, batch: Batch) -> Tensor:
        return torch.zeros(batch.trajectories, dtype=torch.float64)

    def frozen_copy(self) -> LookupPolicy:
        clone = copy.copy(self)
        clone._module = copy.deepcopy(self._module)
        clone._module.requires_grad_(False)
        return clone

    def save(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        torch.save(self._module.state_dict(), folder / "table.pt")

    def load(self, folder: Path) -> None:
        self._module.load_state_dict(torch.load(folder / "table.pt", weights_only=True))


def _starts(batch: Batch) -> list[int]:
    """The first decision of each turn, `[U]`."""
    counts = torch.bincount(batch.turn, minlength=batch.turns)
    starts: list[int] = (torch.cumsum(counts, 0) - counts).tolist()
    return starts


# ---------------------------------------------------------------- the engine


class LookupEngine:
    """Answers at once from a table; see `hocket.engine.requests.Engine`.

    Args:
        policy: sampled from. length: the most words of a turn; without an end-of-turn word, exactly so many.
    """

    def __init__(self, policy: LookupPolicy, length: int, draw: Draw | None = None) -> None:
        self.policy, self.length = policy, length
        self.draw = draw or drawn
        self._known: dict[tuple[int, float], NDArray[np.float64]] = {}
        self._weights = (-1, -1)

    @property
    def version(self) -> int:
        return self.policy.version

    def like(self, policy: LookupPolicy) -> LookupEngine:
        """An engine as this one for another policy."""
        return LookupEngine(policy, self.length, self.draw)

    def episode(self) -> AbstractAsyncContextManager[None]:
        """Nobody waits: every request is answered at once."""
        return nullcontext()

    async def submit(self, request: Request) -> Sample:
        """One continuation."""
        return self._sample(request)

    def sample(self, requests: Sequence[Request]) -> list[Sample]:
        """Continuations of all requests, in the order given."""
        return [self._sample(request) for request in requests]

    def _sample(self, request: Request) -> Sample:
        chat, temperature = self.policy.rows.chat, request.decoding.temperature
        tokens: list[int] = []
        logps: list[float] = []
        entropies: list[float] = []
        best: list[NDArray[np.int64]] = []
        best_logp: list[NDArray[np.float64]] = []
        most = min(self.length, request.decoding.max_tokens)
        while len(tokens) < most and not chat.ended(tokens) and not self._stopped(tokens, request):
            row = self.policy.rows.row(request.tokens[-1], tuple(tokens))
            logp = self._logp(row, temperature or 1.0)
            place = len(tokens)
            imposed = place < len(request.prefix)
            token = int(request.prefix[place]) if imposed else self.draw(logp, request, place)
            tokens.append(token)
            if not imposed and len(entropies) < request.decoding.entropies:
                entropies.append(-float((np.exp(logp) * logp).sum()))
            if not imposed and request.decoding.alternatives:
                best.append(np.argsort(-logp, kind="stable")[: request.decoding.alternatives])
                best_logp.append(logp[best[-1]])
            logps.append(float(logp[token]))
        complete = len(tokens) == self.length or chat.ended(tokens) or self._stopped(tokens, request)
        return Sample(
            tokens=np.array(tokens, np.int64),
            logp=np.array(logps, np.float32),
            finish="stop" if complete else "length",
            version=self.policy.version,
            forced=np.arange(len(tokens)) < len(request.prefix),
            extras={
                **({ENTROPIES.name: entropies} if request.decoding.entropies else {}),
                **({ALTERNATIVES.name: (np.array(best), np.array(best_logp))} if request.decoding.alternatives else {}),
            },
        )

    def _stopped(self, tokens: Sequence[int], request: Request) -> bool:
        """Whether the last word, if it was not imposed, completes a stop string."""
        if not request.decoding.stop or len(tokens) <= len(request.prefix):
            return False
        return self.policy.rows.chat.render(tokens).endswith(request.decoding.stop)

    def _logp(self, row: int, temperature: float) -> NDArray[np.float64]:
        """Log-probs of all words in a row `[V]`, kept until the weights change."""
        # Fused optimisers change weights without telling torch, so the policy's own count is looked at too.
        weights = (self.policy.version, self.policy.module.logits._version)
        if weights != self._weights:
            self._known, self._weights = {}, weights
        if (row, temperature) not in self._known:
            with torch.no_grad():
                self._known[row, temperature] = self.policy.logp(torch.tensor([row]), temperature)[0].numpy()
        return self._known[row, temperature]


Draw = Callable[[NDArray[np.float64], Request, int], int]
"""Chooses a word, given the log-probs of all `[V]`, the request, and how many words the turn has."""


def drawn(logp: NDArray[np.float64], request: Request, place: int) -> int:
    """A word by the request's stream of uniforms; the likeliest at temperature 0."""
    if request.decoding.greedy:
        return int(logp.argmax())
    uniform = uniforms(np.array([request.key.word], np.uint64), np.array([place], np.uint64))[0]
    return min(int((np.exp(logp).cumsum() < uniform).sum()), len(logp) - 1)


# ---------------------------------------------------------------- the bench


@dataclass(frozen=True)
class TalkTask:
    """A list of scenarios as a task. `measure` is what evaluation averages, the sum of all scores where it is None."""

    scenarios: Sequence[Scenario]
    rewards: Sequence[Reward] = ()
    measure: Callable[[Trajectory], float] | None = None
    label: Callable[[Trajectory], str | None] = lambda trajectory: _word(trajectory)
    name: str = "lab"
    kind: Literal["text"] = "text"

    def size(self, split: Split) -> int | None:
        return len(self.scenarios)

    def scenario(self, split: Split, number: int) -> Scenario:
        return self.scenarios[number]

    def suggest(self, recipe: Any) -> Mapping[str, Any]:
        return {}

    def describe(self, trajectory: Trajectory) -> Mapping[str, float]:
        return {}

    def success(self, trajectory: Trajectory) -> float:
        return self.measure(trajectory) if self.measure is not None else total(trajectory)


def _word(trajectory: Trajectory) -> str | None:
    answer = ANSWER.get(trajectory, trajectory.text)
    return None if answer is None else str(answer)


def equal(text: str, scenario: Scenario) -> float:
    """1 for the scenario's answer."""
    return float(text == scenario.answer)


def total(trajectory: Trajectory) -> float:
    """The sum of all scores of a trajectory, at every level."""
    values = [
        value
        for score in trajectory.scores.values()
        for value in ([score.value] if score.level is Level.TRAJECTORY else cast(Sequence[float | None], score.value))
    ]
    return sum(float(cast(float, value)) for value in values if value is not None)


@dataclass
class TalkBench:
    """A workflow, scenarios, words and recipes: a team that is trained step by step.

    Attributes:
        workflow: what plays. scenarios: asked in turn, all in every step unless `prompts` says how many.
        words: the vocabulary; `""` needs no place among them. recipe: the method, with its cast.
        length: words of a turn at most. ends: whether a turn may end before (a further word of the policies).
        view: what of a conversation a policy sees. prior: logits before training, by policy or for all.
        roles: policies by role, where the cast does not say. recipes: of single policies. frozen: policies that only
            act. rewards: besides what the workflow gives. verifier: what `team.verify` asks; right is what equals the
        scenario's answer where it is None. measure: what `success` averages.
        lr: of AdamW where the recipe leaves it open. steps: what schedules take as the whole run.
    """

    workflow: Workflow
    scenarios: Sequence[Scenario]
    words: Sequence[str]
    recipe: Recipe
    length: int = 1
    ends: bool = False
    view: View = everything
    prior: Prior | Mapping[str, Prior] | None = None
    roles: Mapping[str, str] = field(default_factory=dict)
    recipes: Mapping[str, Recipe] = field(default_factory=dict)
    frozen: frozenset[str] = frozenset()
    rewards: Sequence[Reward] = ()
    verifier: Verifier | None = None
    measure: Callable[[Trajectory], float] | None = None
    seed: int = 0
    lr: float = 0.05
    steps: int = 200
    prompts: int | None = None
    temperature: float = 1.0
    capacity: int = 4096
    limits: Limits = field(default_factory=Limits)
    history: list[Metrics] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.chat = WordChat(self.words, self.view)
        self.recipe = self.recipe.but({"curriculum.prompts": self.prompts or len(self.scenarios)})
        names = {role: self.roles.get(role) or self.recipe.cast.policy(role) or SHARED for role in self.workflow.roles}
        self.policies = {name: self._policy(name) for name in dict.fromkeys(names.values())}
        self.learners = {
            name: Learner(
                policy, self.recipes.get(name, self.recipe), total_steps=self.steps, frozen=name in self.frozen
            )
            for name, policy in self.policies.items()
        }
        actors = {role: self._actor(name, self.policies[name]) for role, name in names.items()}
        before = {
            role: self._actor(before_training(name), reference)
            for role, name in names.items()
            if isinstance(reference := self.learners[name].reference, LookupPolicy)
        }
        self.player = TextPlayer(self.workflow, actors, self.limits, before, self.verifier or equal)
        self.parts = RunContext(
            task=TalkTask(self.scenarios, tuple(self.rewards), self.measure),
            player=self.player,
            rewards=(*self.recipe.rewards, *self.rewards),
            learners=self.learners,
            decoding=Decoding(temperature=self.temperature, max_tokens=self.length),
            key=Key.of(self.seed),
            ledger=Ledger(),
        )
        self.done = 0

    def _policy(self, name: str) -> LookupPolicy:
        prior = self.prior.get(name) if isinstance(self.prior, Mapping) else self.prior
        return LookupPolicy(
            ContextRows(self.chat, len(self.words) + self.ends, self.capacity, prior), lr=self.lr, name=name
        )

    def _actor(self, name: str, policy: LookupPolicy, draw: Draw | None = None) -> Actor:
        return Actor(policy=name, engine=LookupEngine(policy, self.length, draw), chat=self.chat)

    def step(self) -> StepResult:
        """One training step."""
        self.done += 1
        result = run_async(train_step(self.parts, self.done))
        self.history.append(result.metrics)
        return result

    def run(self, steps: int) -> TalkBench:
        """`steps` more steps; returns itself."""
        for _ in range(steps):
            self.step()
        return self

    # ------------------------------------------------------------ looking

    def play(self, samples: int = 1, *, greedy: bool = False, seed: int = 0) -> list[Trajectory]:
        """Plays every scenario `samples` times without learning; scores are those the workflow gives."""
        decoding = replace(self.parts.decoding, temperature=0.0 if greedy else self.temperature)
        assignments = [Assignment(scenario, samples=samples, decoding=decoding) for scenario in self.scenarios]
        return run_async(self.player.play(assignments, key=Key.of(self.seed).derive("look", seed)))

    def success(self, samples: int = 50, *, greedy: bool = False, seed: int = 0) -> float:
        """The mean measure of fresh plays."""
        measures = [self.parts.task.success(trajectory) for trajectory in self.play(samples, greedy=greedy, seed=seed)]
        return sum(measures) / len(measures)

    def outcomes(self, scenario: Scenario, key: Key | None = None) -> Iterator[tuple[float, Trajectory]]:
        """Every possible play of a scenario with its probability, the workflow's own draws being those of `key`.

        Walks the tree of words depth first, a play per leaf; for workflows of few words.
        """
        waiting: list[tuple[int, ...]] = [()]
        while waiting:
            script = waiting.pop()
            walk = _Walk(script, waiting)
            actors = {
                role: self._actor(actor.policy, self.policies[actor.policy], walk)
                for role, actor in self.player.actors.items()
            }
            player = replace(self.player, actors=actors)
            assignment = Assignment(scenario, decoding=self.parts.decoding)
            (trajectory,) = run_async(player.play([assignment], key=key or Key.of(self.seed)))
            yield float(np.exp(walk.logp)), trajectory

    def expected(self, measure: Callable[[Trajectory], float] = total, key: Key | None = None) -> float:
        """The exact mean of `measure` over all plays, then scenarios, for given draws of the workflow's own."""
        means = [
            sum(chance * measure(played) for chance, played in self.outcomes(scenario, key))
            for scenario in self.scenarios
        ]
        return sum(means) / len(means)


class _Walk:
    """Follows a script of words, then takes the first possible word at each place and notes the others."""

    def __init__(self, script: tuple[int, ...], waiting: list[tuple[int, ...]]) -> None:
        self._script, self._waiting = script, waiting
        self._tokens: list[int] = []
        self.logp = 0.0

    def __call__(self, logp: NDArray[np.float64], request: Request, place: int) -> int:
        if len(self._tokens) < len(self._script):
            token = self._script[len(self._tokens)]
        else:
            possible = [n for n in range(len(logp)) if np.isfinite(logp[n])]
            token = possible[0]
            self._waiting.extend((*self._tokens, other) for other in possible[1:])
        self._tokens.append(token)
        self.logp += float(logp[token])
        return token
