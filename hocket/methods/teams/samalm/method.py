"""SAMALM: critics grade what robots are about to do, and a low grade asks for another command (arXiv:2503.09758).

Every robot has an actor with a persona of its own, which proposes a command. One critic grades it in the robot's own
view, another, the overseer, all commands together. What a critic thinks is the distribution of its grade, read from the
language model's probabilities of the score tokens (`chances`), and the two are fused by how certain they are
(`fusion_weights`): `w_c ~ 1 - H(p_c) / ln K`, which is exactly 0 for a critic to whom all K grades are alike. A fused
grade below the threshold refuses a command, and its actor is asked again, told what was refused and what the critics
said, for so many rounds at most. Then each robot follows the command of its that was graded best.

From the abstract (Wang, Obi and Min) and the project's page are actors in parallel with personas, the two tiers of
critics, the fusion by entropy and asking again; the paper's equations were not at hand. The weights are those of the
entropy-weight method, which the description fits. Ours are: grades from 1 to 5 of which the expected one counts, that
probability of anything that is no grade counts as spread evenly, a threshold in the middle, two rounds more, what is
done after them, all wording, and the floor (task `crossing`). Nothing is trained in the paper. Here all are roles, so a
recipe can train them: critics are paid `-(g - y)^2`, y being whether the command that was made cost nothing.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, get_args

import numpy as np

from hocket.agents.environments.protocol import Environment, Observation
from hocket.agents.workflows.environment import SEATS, PlayEnvironment
from hocket.agents.workflows.episode import Limits
from hocket.agents.workflows.reply import Reply
from hocket.agents.workflows.team import Agent, Team
from hocket.agents.workflows.workflow import Outcome, Workflow
from hocket.core.columns import ACTIONS, ALTERNATIVES, ILLEGAL, LIMIT, RETURNS, InfoColumn
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.requirements import Requirement
from hocket.credit.each_agent import EachAgent
from hocket.methods.base.grpo import GRPO
from hocket.methods.teams.samalm.task import SKILL
from hocket.methods.teams.samalm.world import COMMANDS, Crossing, Outlook, sensible
from hocket.rewards.verdict_words import said_aloud
from hocket.tasks.form import TaskForm
from hocket.tasks.lessons import Lesson, Lessons, any_move
from hocket.tasks.nested_task import NestedTask, found_within, turn_by_turn
from hocket.types import Scenario, Trajectory

CRITIC, OVERSEER = "critic", "overseer"
SYSTEM = {
    CRITIC: "Grade the command from 1 (harm) to {levels} (safe and quick), then say why.",
    OVERSEER: "Grade all commands together from 1 (harm) to {levels} (safe and quick), then say why.",
}

TRIED = InfoColumn("tried", "Of every joint move the rounds of proposals, and what was made: by seat move and grade.")

Weighing = Literal["entropy", "equal"]

# ---------------------------------------------------------------- what critics think


def certainty(chances: Sequence[float]) -> float:
    """`1 - H(p) / ln K` of a distribution over K grades: 1 for one grade, exactly 0 where all are alike."""
    most = max(chances)
    shares = [one / most for one in chances]  # Where all are alike each is 1, so the entropy is ln K to the bit.
    total = math.fsum(shares)
    entropy = math.log(total) - math.fsum(one * math.log(one) for one in shares if one > 0) / total
    return max(0.0, 1.0 - entropy / math.log(len(chances)))


def fusion_weights(opinions: Sequence[Sequence[float]], weighing: Weighing = "entropy") -> list[float]:
    """What each critic counts, in sum 1: in proportion to its certainty. All 0 where nobody is certain of anything."""
    if weighing == "equal":
        return [1.0 / len(opinions)] * len(opinions)
    sure = [certainty(one) for one in opinions]
    total = math.fsum(sure)
    return [one / total if total else 0.0 for one in sure]


def grade(chances: Sequence[float]) -> float:
    """The expected grade, 0 the worst and 1 the best."""
    return math.fsum(place * one for place, one in enumerate(chances)) / (len(chances) - 1)


def fused(opinions: Sequence[Sequence[float]], weighing: Weighing = "entropy") -> float | None:
    """`sum_c w_c g_c`; None where nobody is certain of anything."""
    weights = fusion_weights(opinions, weighing)
    if not any(weights):
        return None
    return math.fsum(weight * grade(one) for weight, one in zip(weights, opinions, strict=True))


def chances(reply: Reply, codes: Sequence[frozenset[int]]) -> list[float]:
    """The probabilities of the grades at the place where the critic says one, at its first token if it says none.

    What the model puts on anything else, and on tokens beyond the likeliest that it tells, is spread evenly. A model
    that tells no alternatives is taken at its word.

    Args:
        codes: of each grade, the lowest first, the tokens that say it.
    """
    told, tokens = ALTERNATIVES.get(reply.turn), reply.tokens.tolist()
    levels = len(codes)
    if told is None:
        level = grade_in(reply.text, levels)
        return [1.0 / levels] * levels if level is None else [float(place == level - 1) for place in range(levels)]
    if not tokens:
        return [1.0 / levels] * levels
    every = frozenset[int]().union(*codes)
    place = next((at for at, token in enumerate(tokens) if token in every), 0)
    row = dict(zip(told[0][place].tolist(), told[1][place].tolist(), strict=True))
    mass = [math.fsum(math.exp(logp) for token, logp in row.items() if token in code) for code in codes]
    rest = max(0.0, 1.0 - math.fsum(mass)) / levels
    return [one + rest for one in mass]


def grade_in(text: str, levels: int) -> int | None:
    """The first grade that a text names behind its thoughts, from 1; None where it names none."""
    found = re.search(r"(?<!\d)[1-9](?!\d)", said_aloud(text) or "")
    return int(found[0]) if found and int(found[0]) <= levels else None


# ---------------------------------------------------------------- the workflow


@dataclass(frozen=True)
class Checks:
    """How commands are checked.

    Attributes:
        rounds: of asking again. threshold: the fused grade that a command needs, in [0, 1]. levels: grades, from 1.
        weighing: of the critics. alternatives: so many of the likeliest tokens of a critic are looked at.
    """

    rounds: int = 2
    threshold: float = 0.5
    levels: int = 5
    weighing: Weighing = "entropy"
    alternatives: int = 16

    def __post_init__(self) -> None:
        if self.rounds < 0 or not 0 <= self.threshold <= 1 or not 2 <= self.levels <= 9 or self.alternatives < 1:
            raise ConfigurationError(
                f"checks: rounds = {self.rounds} is at least 0, threshold = {self.threshold} in [0, 1], levels = "
                f"{self.levels} from 2 to 9, alternatives = {self.alternatives} at least 1"
            )
        if self.weighing not in get_args(Weighing):
            raise ConfigurationError(f"checks: weighing = {self.weighing!r}; choose from entropy, equal")


def judged_alone(environment: Environment, seat: str, seen: Observation, move: str) -> str:
    """What a critic is asked: what the world tells of a seat's move (`prospect`), else what it sees, and the move."""
    told = getattr(environment.bare, "prospect", None)
    return f"{seen.text}\nMove: {move or 'none'}." if told is None else str(told(seat, move or "none"))


def judged_together(environment: Environment, seen: Mapping[str, Observation], moves: Mapping[str, str]) -> str:
    """What the overseer is asked: what the world tells of joint moves (`prospects`), else all views and moves."""
    told = getattr(environment.bare, "prospects", None)
    if told is not None:
        return str(told({seat: move or "none" for seat, move in moves.items()}))
    return "\n".join(f"{seat}: {seen[seat].text}\nMove: {move or 'none'}." for seat, move in moves.items())


def refusal(move: str, words: Sequence[str]) -> str:
    """What an actor is told of a move that was refused, with what critics said of it."""
    said = "; ".join(" ".join(one.split()) for one in words if one.strip())
    return f"Refused: {move or 'none'} ({said})." if said else f"Refused: {move or 'none'}."


@dataclass(frozen=True)
class VerifiedMoves(PlayEnvironment):
    """An environment whose moves critics grade before anybody makes them; see the module.

    Besides what `PlayEnvironment` notes, `Outcome.info` has `tried`. What was refused earns nothing; critics earn by
    how right they were of the moves that were made.
    """

    checks: Checks = field(default_factory=Checks)

    def __post_init__(self) -> None:
        super().__post_init__()
        taken = {CRITIC, OVERSEER} & set(self.roles)
        if taken:
            raise ConfigurationError(f"{self.world.name} has a seat {min(taken)!r} of its own, so none can be checked")
        if self.memory:
            raise ConfigurationError("checked moves need memory=false: each question holds all that one is to know")
        object.__setattr__(self, "roles", (*self.roles, CRITIC, OVERSEER))
        object.__setattr__(self, "limits", Limits(turns=None))  # The world ends.

    @property
    def prompts(self) -> Mapping[str, str]:
        return {role: text.format(levels=self.checks.levels) for role, text in SYSTEM.items()}

    async def play(self, scenario: Scenario, team: Team) -> Outcome:
        environment = self.world.make(scenario)
        environment.reset((team.key if self.own_chance else Key.of(scenario.seed)).derive("environment"))
        council = Council(self, team, environment)
        try:
            while environment.acting and (self.turns is None or council.moves < self.turns):
                await council.decide()
            return council.outcome()
        finally:
            environment.close()


@dataclass(frozen=True)
class Opinion:
    """What a critic said, and the probabilities of its grades."""

    reply: Reply
    chances: list[float]


@dataclass
class Round:
    """Moves that were proposed together: by seat the reply, the move, the critic's opinion and the fused grade."""

    replies: dict[str, Reply]
    moves: dict[str, str]
    alone: dict[str, Opinion]
    all: Opinion
    grades: dict[str, float | None]


class Council:
    """One episode while it is played: who proposes, who grades, and what they earn.

    Attributes:
        moves: made so far. tried: what `TRIED` holds.
    """

    def __init__(self, flow: VerifiedMoves, team: Team, environment: Environment) -> None:
        self.flow, self.team, self.environment = flow, team, environment
        self.moves = 0
        self.tried: list[list[dict[str, tuple[str, float | None]]]] = []
        self._asked: list[tuple[Reply, str | None]] = []
        self._paid: dict[Reply, float] = {}
        self._returns = dict.fromkeys(environment.agents, 0.0)
        self._codes: list[frozenset[int]] | None = None

    async def decide(self) -> None:
        """Has moves proposed until they pass, and makes them."""
        checks, seats = self.flow.checks, self.environment.acting
        seen = {seat: self.environment.observe(seat) for seat in seats}
        refused: dict[str, list[str]] = {seat: [] for seat in seats}
        rounds = [await self._proposed(seen, refused, seats, None)]
        while len(rounds) <= checks.rounds:
            last = rounds[-1]
            low = [seat for seat, one in last.grades.items() if one is not None and one < checks.threshold]
            if not low:
                break
            for seat in low:
                words = (last.alone[seat].reply.text, last.all.reply.text)
                refused[seat].append(refusal(last.moves[seat], words))
            rounds.append(await self._proposed(seen, refused, low, last))
        self._make(rounds)

    async def _proposed(
        self,
        seen: Mapping[str, Observation],
        refused: Mapping[str, list[str]],
        asking: Sequence[str],
        last: Round | None,
    ) -> Round:
        """A round in which some propose anew, and what critics make of it."""
        replies = dict(last.replies) if last else {}
        answers = await asyncio.gather(*(self._ask(seat, seen[seat], refused[seat]) for seat in asking))
        replies |= zip(asking, answers, strict=True)
        moves = {seat: self.flow.read(replies[seat].text, seen[seat]) for seat in seen}
        questions = {seat: judged_alone(self.environment, seat, seen[seat], moves[seat]) for seat in asking}
        *own, together = await asyncio.gather(
            *(self._judge(CRITIC, f"{CRITIC} of {seat}", question) for seat, question in questions.items()),
            self._judge(OVERSEER, OVERSEER, judged_together(self.environment, seen, moves)),
        )
        alone = {**(last.alone if last else {}), **dict(zip(asking, own, strict=True))}
        grades = {seat: self.fused([alone[seat].chances, together.chances]) for seat in seen}
        return Round(replies, moves, alone, together, grades)

    async def _ask(self, seat: str, seen: Observation, refused: Sequence[str]) -> Reply:
        """What a seat proposes."""
        question = "\n".join([self.flow.question(seen, True, self.team.assignment.hint), *refused])
        state = None if seen.state is None else "\n".join([seen.state, *refused])
        reply = await self.team[self.flow.role(seat)].fresh()(question, state=state)
        reply.turn.agent = seat
        self._asked.append((reply, self.flow.read(reply.text, seen)))
        return reply

    async def _judge(self, role: str, name: str, question: str) -> Opinion:
        """What a critic thinks."""
        agent = self.team[role].fresh()
        decoding = replace(agent.decoding, alternatives=self.flow.checks.alternatives)
        reply = await agent(question, decoding=decoding)
        reply.turn.agent = name
        self._asked.append((reply, None))
        return Opinion(reply, chances(reply, self.codes(agent)))

    def codes(self, agent: Agent) -> list[frozenset[int]]:
        """Of each grade the tokens that say it, with and without a space before it."""
        said = range(1, self.flow.checks.levels + 1)
        return [frozenset(agent.encoded(f"{space}{one}")[-1] for space in ("", " ")) for one in said]

    def fused(self, opinions: Sequence[Sequence[float]]) -> float | None:
        """What the critics think together."""
        return fused(opinions, self.flow.checks.weighing)

    def _make(self, rounds: Sequence[Round]) -> None:
        """Has every seat make the move of its that was graded best, of equals the last, and pays for them."""
        taken = {seat: max(rounds, key=lambda one: (graded(one, seat), rounds.index(one))) for seat in rounds[0].moves}
        earned = self.environment.act({seat: one.moves[seat] for seat, one in taken.items()})
        self.moves += len(taken)
        for seat, paid in earned.items():
            self._returns[seat] = self._returns.get(seat, 0.0) + float(paid)
        for seat, one in taken.items():
            paid = float(earned.get(seat, 0.0))
            self._paid[one.replies[seat]] = paid
            self._pay(one.alone[seat].reply, paid >= 0)
        last = rounds[-1]
        if all(one.moves[seat] == last.moves[seat] for seat, one in taken.items()):  # The overseer saw what is made.
            self._pay(last.all.reply, min(earned.values(), default=0.0) >= 0)
        told = [{seat: (one.moves[seat], one.grades[seat]) for seat in one.moves} for one in rounds]
        self.tried.append([*told, {seat: (one.moves[seat], one.grades[seat]) for seat, one in taken.items()}])

    def _pay(self, reply: Reply, well: bool) -> None:
        """Minus the square of how far a critic's grade is from what came."""
        levels = self.flow.checks.levels
        said = grade_in(reply.text, levels)
        self._paid[reply] = -1.0 if said is None else -(((said - 1) / (levels - 1) - well) ** 2)

    def outcome(self) -> Outcome:
        """How it came out."""
        environment = self.environment
        info: dict[str, Any] = {
            SEATS.name: list(environment.agents),
            RETURNS.name: dict(self._returns),
            ILLEGAL.name: {seat: environment.illegal.get(seat, 0) for seat in environment.agents},
            ACTIONS.name: [move for _, move in self._asked],
            TRIED.name: self.tried,
        }
        if environment.truncated:
            info[LIMIT.name] = "the environment cut the episode short"
        elif environment.acting:
            info[LIMIT.name] = f"the episode has used its {self.moves} moves"
        return Outcome(turn_rewards={"reward": {one: self._paid.get(one, 0.0) for one, _ in self._asked}}, info=info)


def graded(one: Round, seat: str) -> float:
    """The fused grade of a seat's move, the best there is where nobody is certain of anything."""
    found = one.grades[seat]
    return 1.0 if found is None else found


# ---------------------------------------------------------------- by name


class Verified(Workflow):
    """The task's own environment, whose moves critics grade before they are made; settings are those of `Checks`.

    Raises:
        ConfigurationError: when it plays a task that is no environment.
    """

    name = "verified"
    description = "critics grade moves before they are made, and low ones are proposed anew (SAMALM); task crossing"

    roles = (CRITIC, OVERSEER)
    scores = True

    def __init__(self, rounds: int = 2, threshold: float = 0.5, levels: int = 5, weighing: str = "entropy") -> None:
        self.checks = Checks(rounds, threshold, levels, weighing)  # type: ignore[arg-type]

    def around(self, own: Workflow) -> Workflow:
        return verified(own, self.checks) if isinstance(own, PlayEnvironment) else self

    async def play(self, scenario: Scenario, team: Team) -> Outcome | None:
        raise ConfigurationError(
            "workflow verified grades the moves of an environment, and the task is none; take one such as crossing"
        )


def verified(flow: PlayEnvironment, checks: Checks) -> PlayEnvironment:
    """The play of an environment with checks; one that has some already stays as it is."""
    return flow if isinstance(flow, VerifiedMoves) else VerifiedMoves(**turn_by_turn(flow), checks=checks)


PREFIX = "verified:"


@dataclass(frozen=True)
class VerifiedTask(NestedTask):
    """A task of an environment whose moves are checked; on floors that robots cross it teaches critics, too."""

    prefix: ClassVar[str] = PREFIX

    @property
    def lessons(self) -> Lessons | None:
        """The inner task's, and on a floor what the script's critics say and what is commanded instead."""
        inner = self.inner.lessons
        flow = self.workflow
        if inner is None or not isinstance(flow, VerifiedMoves):
            return inner
        if not isinstance(flow.world.make(self.inner.scenario("train", 0)).bare, Crossing):
            return inner
        return replace(
            inner,
            taught=f"{inner.taught}; to grade them by straight ways, and to command something else when refused",
            steps=4 * inner.steps,
            play=lambda scenario, rng: crossed(flow, scenario, rng),
            talks=16,
            schedule="cosine",
            beginners=(),
        )

    def describe(self, trajectory: Trajectory) -> Mapping[str, float]:
        """What the inner task tells, and `refused`, the share of commands that were asked for anew."""
        rounds = [tried for tried in TRIED.get(trajectory, ()) if tried]
        first = sum(len(tried[0]) for tried in rounds)
        asked = sum(turn.role not in (CRITIC, OVERSEER) for turn in trajectory.turns)
        return {**self.inner.describe(trajectory), "refused": 1.0 - first / asked if asked else 0.0}


# ---------------------------------------------------------------- lessons

SAYINGS = ("touches", "near", "waits", "slow", "good")
"""What a critic says with each grade, the worst first; the first two with whom it is about."""


def level_of(ahead: Outlook, place: int, margin: float) -> int:
    """The grade of one outlook, from 1 to 5: touching, within the margin, hardly nearer the goal, slowly, and well."""
    if ahead.gap[place] < margin:
        return 1 if ahead.gap[place] < 0 else 2
    return 3 + int(ahead.progress[place] > 0.1) + int(ahead.progress[place] > 0.45)


def said_of(course: Crossing, ahead: Outlook, place: int, margin: float, levels: int) -> str:
    """What a critic by rule says: the grade, on a scale from 1 to `levels`, and why."""
    level = level_of(ahead, place, margin)
    whom = f" {course.called(int(ahead.nearest[place]))}" if level <= 2 else ""
    return f"{scaled(level, levels)} {SAYINGS[level - 1]}{whom}"


def scaled(level: int, levels: int) -> int:
    """A grade from 1 to 5 on a scale from 1 to `levels`."""
    return 1 + round((level - 1) * (levels - 1) / (len(SAYINGS) - 1))


def said_alone(course: Crossing, seat: str, move: str, levels: int) -> str:
    """What a critic by rule says of one robot's command."""
    margin = course.world.persona(course.agents.index(seat)).margin
    return said_of(course, course.alone(seat), COMMANDS.index(move), margin, levels)


def said_together(course: Crossing, moves: Mapping[str, str], levels: int) -> str:
    """What an overseer by rule says of all commands: what is to be said of the robot that fares worst."""
    ahead = course.joint(moves)
    fares = [(level_of(ahead, n, course.world.persona(n).margin), n) for n in map(course.agents.index, moves)]
    _, worst_off = min(fares)
    said = said_of(course, ahead, worst_off, course.world.persona(worst_off).margin, levels)
    level, _, why = said.partition(" ")
    return f"{level} {course.agents[worst_off]} {why}"


def crossed(flow: VerifiedMoves, scenario: Scenario, rng: np.random.Generator) -> list[Lesson]:
    """What is said on a floor: commands of a beginner, what critics by rule say, and sensible commands when refused.

    Critics grade the beginner's commands and as often any. Of what they refuse the sensible command is said three times
    in four, else any other.
    """
    course = flow.world.make(scenario)
    assert isinstance(course, Crossing)
    course.reset(Key.of(scenario.seed).derive("environment"))
    levels, found = flow.checks.levels, list[Lesson]()

    def lesson(role: str, question: str, said: str) -> None:
        system = ({"role": "system", "content": flow.prompts[role]},) if role in flow.prompts else ()
        found.append(
            Lesson((*system, {"role": "user", "content": question}), ({"role": "assistant", "content": said},))
        )

    while course.acting:
        seen = {seat: course.observe(seat) for seat in course.acting}
        drawn = {seat: any_move(course, seat, rng) for seat in seen}
        moves = {seat: sensible(course, seat) if rng.random() < SKILL else drawn[seat] for seat in seen}
        graded = moves if rng.random() < 0.5 else drawn
        together = said_together(course, graded, levels)
        lesson(OVERSEER, judged_together(course, seen, graded), together)
        for seat, move in graded.items():
            question, reading = flow.question(seen[seat], True), flow.reading_of(seen[seat])
            lesson(flow.role(seat), question, reading.written(moves[seat], COMMANDS))
            alone = said_alone(course, seat, move, levels)
            lesson(CRITIC, judged_alone(course, seat, seen[seat], move), alone)
            if int(alone[0]) <= scaled(2, levels):
                left = [one for one in COMMANDS if one != move]
                other = sensible(course, seat, (move,)) if rng.random() < 0.75 else left[int(rng.integers(len(left)))]
                told = f"{question}\n{refusal(move, (alone, together))}"
                lesson(flow.role(seat), told, reading.written(other, COMMANDS))
        course.act(moves)
    return found


HINTS = {"rounds": int, "threshold": float, "levels": int, "weighing": str}


def from_name(name: str, settings: Mapping[str, str]) -> VerifiedTask:
    """The task behind the prefix; settings of `Checks` are taken out of its own."""
    inner, mine, named = found_within(PREFIX, name, settings, HINTS)
    return VerifiedTask(verified(inner.workflow, Checks(**mine)), inner.seat, inner.measure, inner=inner, named=named)


VERIFIED = TaskForm(
    name="verified:TASK",
    description="an environment whose moves critics grade before they are made, e.g. verified:crossing?rounds=3",
    make=from_name,
)


# ---------------------------------------------------------------- how it may be learnt

SAMALM = GRPO.but(
    name="samalm",
    title="SAMALM: commands that critics grade before robots follow them",
    source="Wang, Obi and Min, Multi-Agent LLM Actor-Critic Framework for Social Robot Navigation (abstract)",
    family="teams",
    catalogue_ids=("samalm",),
    axes=("team", "search", "reward"),
    formula="g_i = w_G E_G[k] + w_I E_I[k],  w_c ~ 1 - H(p_c) / ln K;  a command with g_i < tau is asked for anew, "
    f"told why;  each agent: {GRPO.formula}",
    conventions={
        **GRPO.conventions,
        "training": "none in the paper (--update.lr 1e-12); here actors earn what their robots do, critics "
        "-(grade - y)^2, y whether the command that was made cost nothing",
        "grades": "1 to 5 in words, the expected one counts, as 0 to 1; what a model puts on no grade counts as spread "
        "evenly",
        "weights": "the entropy-weight method, over the overseer and the robot's own critic; where neither is certain "
        "of anything the command stands",
        "threshold": "0.5, two rounds of asking again; then each robot's command that was graded best",
        "critique": "what critics said beside the grade, told with the refused command",
        "credit": "each agent by itself: a robot, its critic, the overseer",
    },
    note="the shipped model takes all roles, and after lessons its grades part commands that come too near from "
    "others, but what its actors propose instead is no better, so no fewer robots touched anybody; that is shown with "
    "scripted actors and critics alone",
    task="verified:crossing",
    requires=(Requirement.AGENTS, Requirement.TURN_REWARDS),
    workflow="verified",
    credit=EachAgent(GRPO.credit, by="agent"),
)
