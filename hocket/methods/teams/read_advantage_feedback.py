"""ReAd: a critic's advantages say which moves are proposed anew, before anybody moves (arXiv:2405.14314).

Agents of a world propose their moves one after the other. A critic regressed on what was logged of such play,
`min sum (Q(s, a) - G)^2` with G what the team earned from there on (`LoggedCritic`), says what each adds,
`A^i = Q(s, a^1..i, w) - Q(s, a^1..i-1, w)`, those still to come waiting (w). Where that is not above `epsilon` the move
and its advantage are told to whoever proposed it, who proposes again; the world is not asked (`AdvantageFeedback`).
This is ReAd-S; in ReAd-J one planner proposes all moves at once and is judged by `A = Q(s, a) - Q(s, w)`, the sum of
the others. Choosing so is the step of advantage-weighted regression, `pi ~ mu exp(A / beta)`, that the paper derives.

From the abstract, the project's page and summaries are the two forms, the threshold, regression on logged play and the
waiting action as zero; formulas as recalled, with a discount of 1. Ours are the world (task `carry` in words, for
kitchens and robot arms), the critic's features, and that the policy learns besides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hocket.agents.environments.reading import LastLine
from hocket.agents.workflows.environment import SEATS
from hocket.agents.workflows.episode import Limits
from hocket.agents.workflows.team import Team
from hocket.agents.workflows.workflow import Outcome, Workflow
from hocket.core.columns import ACTIONS, ILLEGAL, LIMIT, RETURNS, InfoColumn
from hocket.core.components import from_plain
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.outcomes import StepResult
from hocket.core.requirements import Requirement
from hocket.methods.base.grpo import GRPO
from hocket.stages import Hook, HookContext, Player, State
from hocket.tasks.form import TaskForm
from hocket.tasks.lessons import Lesson, Lessons
from hocket.tasks.solitary import played
from hocket.types import Assignment, Scenario, Trajectory
from hocket.zoo.carry import AGENTS, HOME, Carries
from hocket.zoo.tasks.carry import CarryQuestion, CarryTask, move

Numbers = NDArray[np.float64]
Moves = Mapping[str, str]
WAIT = "wait"

LOGGED = InfoColumn("logged", "Of every step the features of state and joint move, and what the team earned in it.")
PROPOSED = InfoColumn("proposed", "Of every step, by agent, the moves proposed with their advantages, in order.")

# ---------------------------------------------------------------- advantages


def waiting(moves: Moves, agents: Sequence[str]) -> dict[str, str]:
    """A joint move in which those who have none wait."""
    return {agent: moves.get(agent, WAIT) for agent in agents}


Value = Callable[[Moves], float]
"""What a joint move is worth in a state."""


def gain(value: Value, made: Moves, agent: str, said: str, agents: Sequence[str]) -> float:
    """What a move adds to those made before: `Q(a^1..i, w) - Q(a^1..i-1, w)`."""
    return value(waiting({**made, agent: said}, agents)) - value(waiting(made, agents))


def joint(value: Value, moves: Moves, agents: Sequence[str]) -> float:
    """What all add together: `Q(a) - Q(w)`."""
    return value(waiting(moves, agents)) - value(waiting({}, agents))


# ---------------------------------------------------------------- the critic


def features(question: str, moves: Moves) -> list[float]:
    """State and joint move in numbers, of the same text that agents are told.

    What is left to do and in hand; how far all are from where they should be next, before and after the move (home with
    a thing in hand, else the nearest thing or room to search that nobody nearer goes for); how many took and dropped
    something, and how many went where another went. What does nothing is as waiting.
    """
    heard = CarryQuestion.of(question)
    left = {name: one for name, one in heard.todo.items() if heard.bound(name) is None}
    after, done = dict(heard.places), {"take": 0.0, "drop": 0.0}
    for name, said in moves.items():
        verb, _, what = said.partition(" ")
        held, here = heard.holds[name], heard.places[name]
        if verb == "go" and what.isdigit() and 1 <= int(what) <= heard.size**2 and int(what) != here:
            after[name] = Carries(heard.size, things=1, known=0).towards(here, int(what))
        elif verb == "drop" and held and here == HOME:
            done["drop"] += 1
        elif verb == "take" and not held and left.get(f"fetch {what}") in (f"in {here}", "here"):
            done["take"] += 1
    ways = [_ways(heard, left, places) for places in (heard.places, after)]
    goals = [said for said in moves.values() if said.startswith("go ") and said != f"go {HOME}"]
    full = float(sum(one is not None for one in heard.holds.values()))
    return [1.0, float(len(left)), full, *ways[0], *ways[1], *done.values(), float(len(goals) - len(set(goals)))]


def _ways(heard: CarryQuestion, left: Mapping[str, str], places: Mapping[str, int]) -> tuple[float, float]:
    """Steps home of those who carry, and steps of the others to what is nearest, each to something of its own."""
    home = sum(heard.apart(places[name], HOME) for name, held in heard.holds.items() if held)
    free = [name for name, held in heard.holds.items() if not held]
    rooms, away = [heard.room(one) for one in left], 0
    while free and rooms:
        steps, name, place = min(
            (heard.apart(places[one], room), one, n) for one in free for n, room in enumerate(rooms)
        )
        away += steps
        free.remove(name)
        del rooms[place]
    return float(home), float(away)


@dataclass(frozen=True)
class Critic:
    """`Q(s, a) = weights . features(s, a)`: an option of assignments."""

    weights: tuple[float, ...]

    def __call__(self, question: str, moves: Moves) -> float:
        return float(np.dot(self.weights, features(question, moves)))


def fitted(inputs: Numbers, returns: Numbers, ridge: float) -> tuple[float, ...]:
    """Weights of least squares `min |X w - G|^2 + ridge |w|^2`, of `[N, D]` and `[N]`."""
    wide = inputs.shape[1]
    found = np.linalg.solve(inputs.T @ inputs + ridge * np.eye(wide), inputs.T @ returns)
    return tuple(found.tolist())


def logged(trajectory: Trajectory) -> tuple[list[list[float]], list[float]]:
    """The features of every step of an episode, and what was earned from it on."""
    rows = LOGGED.get(trajectory, ())
    to_go = np.cumsum([paid for _, paid in rows][::-1])[::-1].tolist()
    return [list(row) for row, _ in rows], to_go


@dataclass
class AdvisedPlayer:
    """Plays as `player` does, with a critic."""

    player: Player
    critic: Critic

    def __getattr__(self, name: str) -> Any:
        return getattr(self.player, name)

    async def play(self, assignments: Sequence[Assignment], *, key: Key) -> list[Trajectory]:
        """Every sample of every assignment, in assignment order, then sample order."""
        given = [replace(one, options=(*one.options, self.critic)) for one in assignments]
        return await self.player.play(given, key=key)


@dataclass(frozen=True)
class LoggedCritic(Hook):
    """The critic, regressed after every step on the latest `keep` steps of the world that were logged.

    In the first `wait` steps of a run nobody is judged, and what is played then is logged.
    """

    keep: int = 20000
    ridge: float = 1e-3
    wait: int = 1

    def __post_init__(self) -> None:
        if self.keep < 1 or self.ridge <= 0 or self.wait < 1:
            raise ValueError(f"keep = {self.keep} and wait = {self.wait} are at least 1, ridge = {self.ridge} above 0")

    def begin(self, run: HookContext, earlier: State | None) -> State:
        return dict(earlier or {"inputs": [], "returns": []})

    def seat(self, player: Player, run: HookContext, step: int, memory: State) -> Player:
        if step <= self.wait or not memory["inputs"]:
            return player
        weights = fitted(np.array(memory["inputs"]), np.array(memory["returns"]), self.ridge)
        return AdvisedPlayer(player, Critic(weights))

    async def after(self, run: HookContext, step: int, result: StepResult, memory: State) -> State:
        new = [logged(one) for one in (*result.trajectories, *result.discarded) if one.failure is None]
        inputs = [*memory["inputs"], *(row for rows, _ in new for row in rows)]
        returns = [*memory["returns"], *(value for _, values in new for value in values)]
        return {"inputs": inputs[-self.keep :], "returns": returns[-self.keep :]}


# ---------------------------------------------------------------- the workflow


def proposing(seen: str, moves: Moves, refused: Sequence[tuple[float, str]] = ()) -> str:
    """What an agent is asked: what it sees, what the others are going to do, and what was refused."""
    told = [f"{name} will {move}." for name, move in moves.items()]
    return "\n".join([seen, *told, *(f"Refused: {move} ({value:+.2f})." for value, move in refused)])


@dataclass(frozen=True)
class AdvantageFeedback(Workflow):
    """Agents propose moves; one of low advantage is proposed anew; see the module.

    Of what was proposed for a move the one of the highest advantage is made when `rounds` are over. Without a critic
    the first is. The world is the scenario's `metadata["world"]`, in plain form. All earn what it pays, at the end.

    Attributes:
        agents: how many; roles `alice`, `bob` and so on. together: ReAd-J, in which the first proposes for all, a line
            `NAME: MOVE` each. rounds: of proposing anew. epsilon: the advantage to exceed.
    """

    name = "advantage-feedback"
    description = "moves of low advantage are proposed anew before anybody moves (ReAd); task advised-carry"

    agents: int = 2
    together: bool = False
    rounds: int = 2
    epsilon: float = 0.0

    scores = True

    def __post_init__(self) -> None:
        if not 1 <= self.agents <= len(AGENTS) or self.rounds < 0:
            raise ValueError(f"agents = {self.agents} is 1 to {len(AGENTS)}, rounds = {self.rounds} at least 0")
        object.__setattr__(self, "roles", AGENTS[: 1 if self.together else self.agents])
        object.__setattr__(self, "limits", Limits(turns=None))  # The world ends.

    async def play(self, scenario: Scenario, team: Team) -> Outcome:
        plain = scenario.metadata.get("world")
        world = None if plain is None else from_plain(plain, where="world")
        if not isinstance(world, Carries) or world.team != self.agents:
            raise ConfigurationError(
                f"advantage-feedback plays worlds of task carry with {self.agents} agents, and scenario {scenario.id} "
                f"has none; take --task advised-carry, or --workflow 'advantage-feedback?agents=N'"
            )
        course = _Course(self, team, world.make(scenario))
        course.world.reset(Key.of(scenario.seed).derive("environment"))
        while course.world.acting:
            await course.step()
        return course.outcome()


class _Course:
    """One episode while it is played.

    Attributes:
        critic: None where nobody judges. rows: what is logged. proposed: of every step.
    """

    def __init__(self, flow: AdvantageFeedback, team: Team, world: Any) -> None:
        self.flow, self.team, self.world = flow, team, world
        self.critic = team.assignment.option(Critic)
        self.rows: list[tuple[list[float], float]] = []
        self.proposed: list[dict[str, list[tuple[float, str]]]] = []
        self.paid = dict.fromkeys(world.agents, 0.0)
        self.moves: list[str | None] = []

    async def step(self) -> None:
        """Has moves proposed until they are accepted, and makes them."""
        seen = {seat: self.world.observe(seat).told() for seat in self.world.acting}
        state = next(iter(seen.values()))
        self.proposed.append({})
        made = await (self._together(seen, state) if self.flow.together else self._in_turn(seen, state))
        earned = self.world.act(made)
        self.rows.append((features(state, made), float(np.mean(list(earned.values())))))
        for seat, one in earned.items():
            self.paid[seat] += one

    async def _in_turn(self, seen: Mapping[str, str], state: str) -> dict[str, str]:
        """ReAd-S."""
        made: dict[str, str] = {}
        for seat in seen:
            asks = partial(proposing, seen[seat], dict(made))
            adds = partial(gain, self._value(state), dict(made), seat, agents=list(seen))
            made[seat] = await self._settled(seat, asks, adds)
        return made

    async def _together(self, seen: Mapping[str, str], state: str) -> dict[str, str]:
        """ReAd-J."""
        planner, seats = self.flow.roles[0], list(seen)

        def adds(said: str) -> float:
            return joint(self._value(state), moves_in(said, seats), seats)

        return moves_in(await self._settled(planner, partial(proposing, seen[planner], {}), adds), seats)

    def _value(self, state: str) -> Value:
        return (lambda moves: 0.0) if self.critic is None else partial(self.critic, state)

    async def _settled(
        self, seat: str, asks: Callable[[Sequence[tuple[float, str]]], str], adds: Callable[[str], float]
    ) -> str:
        """What is accepted of what is proposed, or the best of it."""
        tried: list[tuple[float, str]] = []
        while True:
            reply = str(await self.team[seat].fresh()(asks(tried)))
            said = reply.strip() if self.flow.together else LastLine()(reply, None) or ""
            tried.append((adds(said), said))
            accepted = self.critic is None or tried[-1][0] > self.flow.epsilon or len(tried) > self.flow.rounds
            self.moves.append(None)
            if accepted:
                best = max(range(len(tried)), key=lambda place: (tried[place][0], -place))
                self.moves[best - len(tried)] = tried[best][1]
                self.proposed[-1][seat] = tried
                return tried[best][1]

    def outcome(self) -> Outcome:
        info: dict[str, Any] = {
            SEATS.name: list(self.world.agents),
            RETURNS.name: dict(self.paid),
            ILLEGAL.name: dict(self.world.illegal),
            ACTIONS.name: self.moves,
            LOGGED.name: self.rows,
            PROPOSED.name: self.proposed,
        }
        if self.world.truncated:
            info[LIMIT.name] = "the environment cut the episode short"
        return Outcome(rewards={"reward": sum(self.paid.values()) / len(self.paid)}, info=info)


def moves_in(text: str, agents: Sequence[str]) -> dict[str, str]:
    """The moves in a joint proposal, a line `NAME: MOVE` each; who has none waits."""
    said = (line.partition(":") for line in text.splitlines())
    named = {name.strip().casefold(): what.strip() for name, _, what in said}
    return waiting({agent: named[agent] for agent in agents if named.get(agent)}, agents)


# ---------------------------------------------------------------- lessons


class AdvisedCarry(CarryTask):
    """`carry` whose lessons teach to propose a move, and another one where it was refused."""

    @property
    def lessons(self) -> Lessons:
        return Lessons(
            "to propose moves, a third of them anything, and others in place of those that are refused",
            120,
            self._proposals,
            talks=8,
            then=lambda recipe: {"steps": 12, "curriculum.prompts": 4, "update.lr": 2.5e-4, "evaluation.n": 24},
        )

    def suggest(self, recipe: Any) -> Mapping[str, Any]:
        return {**super().suggest(recipe), "decoding.max_tokens": 24}

    def describe(self, trajectory: Trajectory) -> Mapping[str, float]:
        """Besides, `refused`: how many proposals there were for a move beyond the first."""
        steps = PROPOSED.get(trajectory, [])
        tried = [len(said) for step in steps for said in step.values()]
        return {**super().describe(trajectory), "refused": sum(tried) / len(tried) - 1 if tried else 0.0}

    def _proposals(self, scenario: Scenario, rng: np.random.Generator) -> Sequence[Lesson]:
        world = self.workflow.world
        assert isinstance(world, Carries)
        carry, said = world.make(scenario), list[Lesson]()
        carry.reset(Key.of(scenario.seed).derive("environment"))
        while carry.acting:
            moves: dict[str, str] = {}
            for seat in carry.acting:
                seen = carry.observe(seat).told()
                good, other = sensible(seen, moves), f"go {int(rng.integers(1, world.size**2 + 1))}"
                first = other if rng.random() < DOUBT else good
                said.append(_said(proposing(seen, moves), first))
                if first != good:
                    low = -float(rng.uniform(0.0, 0.2))
                    said.append(_said(proposing(seen, moves, [(low, first)]), good))
                moves[seat] = first if rng.random() < DOUBT else good
            carry.act(moves)
        return said


DOUBT = 0.35
"""How often a beginner proposes to go anywhere."""


def sensible(seen: str, others: Moves) -> str:
    """The script's move, for something that nobody else goes for where there is enough to do."""
    heard = CarryQuestion.of(seen)
    taken = {int(said.split()[1]) for said in others.values() if said.startswith("go ")}
    free = {one: how for one, how in heard.todo.items() if heard.bound(one) or heard.room(one) not in taken}
    return move(replace(heard, todo=free or heard.todo))


def _said(asked: str, said: str) -> Lesson:
    return Lesson(({"role": "user", "content": asked},), ({"role": "assistant", "content": said},))


SETTINGS = {"size": int, "things": int, "known": int, "team": int, "surprise": int, "length": int, "radio": bool}


def from_settings(name: str, settings: Mapping[str, str]) -> AdvisedCarry:
    """The task with settings of the world and of how it is played."""
    flow = played(name, settings, Carries, SETTINGS)
    return AdvisedCarry(replace(flow, reading=flow.reading or LastLine(), instruct=False))


ADVISED_CARRY = TaskForm(
    name="advised-carry",
    description="carry whose lessons teach to propose moves anew, e.g. advised-carry?things=3; see ReAd",
    make=from_settings,
    drawn_as="advised_carry",
)

READ = GRPO.but(
    name="read-advantage-feedback",
    title="ReAd: moves of low advantage are proposed anew",
    source="Zhang et al., ReAd, arXiv:2405.14314 (abstract and project page; formulas recalled)",
    family="teams",
    catalogue_ids=("read-advantage-feedback",),
    axes=("search", "credit", "team"),
    formula="A^i = Q(s, a^1..i, w) - Q(s, a^1..i-1, w); proposed anew while A^i <= epsilon;  min_Q sum (Q - G)^2;  "
    "GRPO on the team's return",
    conventions={
        **GRPO.conventions,
        "form": "ReAd-S; --workflow 'advantage-feedback?together=true' is ReAd-J",
        "waiting": "the move of those who have not proposed yet, and the zero of advantages; discount 1",
        "critic": "linear in 10 features of state and joint move, ridge 1e-3, on returns of all that was logged",
        "data": "regressed anew after every step of the run; in the first one nobody is judged",
        "threshold": "workflow epsilon = 0; proposed anew twice at most, then the best proposal is made",
        "feedback": "the move that was refused with its advantage, under what the agent sees",
        "measured": "evaluation is of the planner alone: the critic judges while it samples",
        "learning": "ours: all proposals by the team's return; the paper trains the critic alone",
    },
    task="advised-carry?size=2&things=2&known=2",
    requires=(Requirement.AGENTS, Requirement.TURNS),
    workflow="advantage-feedback",
    hooks=(LoggedCritic(),),
)
