"""CollabUIAgents: agents without roles agree on each move, and learn from a critic's word on each of their answers.

In every step of an environment the agents answer, hear those that a drawn graph connects them to, answer again for some
rounds, and the move that most of them named last is made (`VotedMoves`). An adversary is asked each question too, for a
wrong move. A critic grades every answer of every agent and round, the adversary's as well, in the place of what the
world pays at the end (`OpposedAnswers`), and of an agent's and the adversary's answer to one question the one that was
graded higher is preferred (`GradedPairs`), by DPO. The graph is drawn anew for every episode.

From the paper's abstract, summaries of it and the authors' code (THUNLP-MT/CollabUIAgents; He et al., arXiv:2502.14496)
are four agents, rounds over an acyclic graph, the vote on the last answers, a critic that reads the page and all
answers and grades them in [0, 1], also the adversary's, and DPO after supervised learning. That the order of the two
grades decides, and who breaks ties, is chosen here; with `own` the adversary's answer is never the preferred one.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from hocket.agents.environments.protocol import Environment, Observation, same_move
from hocket.agents.workflows.environment import SEATS, PlayEnvironment
from hocket.agents.workflows.episode import Limits
from hocket.agents.workflows.reply import Reply
from hocket.agents.workflows.team import Team
from hocket.agents.workflows.workflow import Outcome
from hocket.core.batch import Batch, Occurrences
from hocket.core.casting import Separate
from hocket.core.columns import ILLEGAL, LIMIT, RETURNS, InfoColumn
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.requirements import Requirement
from hocket.credit.pairs import Pairing, Visit, paired_turns, within
from hocket.credit.sibling_turns import turns_of
from hocket.methods.base.dpo import ONLINE_DPO
from hocket.rewards.judging import Judge, grades
from hocket.stages import Grade, LedgerView, More, Play, Rollout
from hocket.tasks.form import TaskForm
from hocket.tasks.lessons import Lesson, Lessons
from hocket.tasks.nested_task import NestedTask, found_within, turn_by_turn
from hocket.types import Assignment, Experience, Message, Scenario, Trajectory, Turn

ADVERSARY = "adversary"
LEAD = "Others: "
"""What stands before the answers that an agent hears."""

WRONG = "Make a wrong move."
"""What an adversary is told besides."""

OPPOSED = InfoColumn("opposed", "Of each answer of the adversary the turns, by number: whose question it was, and it.")
FOLLOWS = InfoColumn("follows", "Of each turn whether its move is what the world says comes next; None: it does not.")
OPPOSES = InfoColumn("opposes", "Which sample of its scenario, and which turn of it is answered anew; -1: the episode.")

GRADES = InfoColumn("grades", "What a critic gave each answer, in [0, 1]; None where it gave nothing.")

Edge = tuple[int, int]
"""An agent, and one that hears it."""


@dataclass(frozen=True)
class Opposing:
    """What a rollout asks of the workflow: that an adversary answers every question too."""


# ---------------------------------------------------------------- one episode


def drawn_graph(agents: int, edges: int, key: Key) -> tuple[Edge, ...]:
    """`edges` edges, or all there may be, from earlier to later agents of a drawn order: an acyclic graph."""
    rng = key.numpy()
    order = rng.permutation(agents).tolist()
    pairs = [(order[a], order[b]) for a in range(agents) for b in range(a + 1, agents)]
    return tuple(pairs[place] for place in sorted(rng.permutation(len(pairs))[:edges].tolist()))


@dataclass(frozen=True)
class VotedMoves(PlayEnvironment):
    """An environment of one seat, played by agents alike: they answer, hear others, answer again, and vote.

    Everybody sees the whole observation anew. In a further round those who hear somebody answer again, the others'
    answers stand. The move is the one that most named last; of equals the earliest agent's. All earn what the world
    pays, once for the whole episode. Where the rollout asks for it the adversary answers each question too, with a line
    that asks for a wrong move; what it says changes nothing.

    Attributes:
        voters: agents; roles `agent_1`, `agent_2`, .. rounds: answers of those who hear somebody.
        edges: of the graph, drawn anew for every episode.
    """

    voters: int = 4
    rounds: int = 2
    edges: int = 3

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.world.agents) != 1:
            raise ConfigurationError(f"votes are for worlds of one seat; {self.world.name} has several")
        if self.memory:
            raise ConfigurationError("votes need memory=false: each question holds all that an agent is to know")
        if self.voters < 1 or self.rounds < 1 or self.edges < 0:
            raise ConfigurationError(
                f"voters = {self.voters} and rounds = {self.rounds} are at least 1, edges = {self.edges} at least 0"
            )
        object.__setattr__(self, "roles", (*(f"agent_{n}" for n in range(1, self.voters + 1)), ADVERSARY))
        object.__setattr__(self, "limits", Limits(turns=None))

    def graph(self, key: Key) -> tuple[Edge, ...]:
        """Who is heard by whom in an episode."""
        return drawn_graph(self.voters, self.edges, key)

    def asked_with(self, seen: Observation, heard: Sequence[str]) -> str:
        """What an agent is asked, having heard these moves."""
        question = self.question(seen, True)
        return f"{question}\n{LEAD}{'; '.join(heard)}" if heard else question

    async def play(self, scenario: Scenario, team: Team) -> Outcome:
        (seat,) = self.world.agents
        environment = self.world.make(scenario)
        environment.reset((team.key if self.own_chance else Key.of(scenario.seed)).derive("environment"))
        council = _Council(self, team)
        total, moves = 0.0, 0
        while environment.acting and (self.turns is None or moves < self.turns):
            move = await council.agreed(environment, environment.observe(seat))
            total += float(environment.act({seat: move}).get(seat, 0.0))
            moves += 1
        info: dict[str, Any] = {
            SEATS.name: [seat],
            RETURNS.name: {seat: total},
            ILLEGAL.name: {seat: environment.illegal.get(seat, 0)},
            **council.noted(),
        }
        if environment.acting or environment.truncated:
            info[LIMIT.name] = f"the episode has used its {moves} moves"
        return Outcome(rewards={"reward": total}, info=info)


class _Council:
    """The agents of an episode, and what was asked in it."""

    def __init__(self, flow: VotedMoves, team: Team) -> None:
        self.flow, self.team = flow, team
        self.opposing = team.assignment.option(Opposing) is not None
        edges = flow.graph(team.key.derive("graph"))
        self.hears = [[one for one, other in edges if other == agent] for agent in range(flow.voters)]
        self.asked: list[tuple[Reply, bool | None]] = []
        self.opposed: list[tuple[int, int]] = []

    async def agreed(self, environment: Environment, seen: Observation) -> str:
        """The move that most name in the end."""
        flow = self.flow
        said = [""] * flow.voters
        for number in range(flow.rounds):
            asking = [agent for agent in range(flow.voters) if number == 0 or self.hears[agent]]
            heard = [[said[one] for one in self.hears[agent]] if number else [] for agent in asking]
            moves = await self._answers(environment, seen, asking, heard)
            for agent, move in zip(asking, moves, strict=True):
                said[agent] = move
        plain = [" ".join(move.casefold().split()) for move in said]
        counts = Counter(plain)
        return said[max(range(flow.voters), key=lambda agent: (counts[plain[agent]], -agent))]

    async def _answers(
        self, environment: Environment, seen: Observation, asking: Sequence[int], heard: Sequence[Sequence[str]]
    ) -> list[str]:
        """The moves that agents name, side by side; the adversary is asked what they are."""
        questions = [self.flow.asked_with(seen, moves) for moves in heard]
        calls = [
            self.team[f"agent_{agent + 1}"].fresh()(question, state=seen.state)
            for agent, question in zip(asking, questions, strict=True)
        ]
        if self.opposing:
            calls += [self.team[ADVERSARY].fresh()(f"{question}\n{WRONG}", state=seen.state) for question in questions]
        replies = await asyncio.gather(*calls)
        moves = [self.flow.read(str(reply), seen) for reply in replies]
        place, count = len(self.asked), len(asking)
        self.asked += [(reply, follows(environment, move)) for reply, move in zip(replies, moves, strict=True)]
        self.opposed += [(place + n, place + count + n) for n in range(len(replies) - count)]
        return moves[:count]

    def noted(self) -> Mapping[str, Any]:
        """What the rollout reads of it."""
        return {OPPOSED.name: self.opposed, FOLLOWS.name: [follow for _, follow in self.asked]}


def follows(environment: Environment, move: str) -> bool | None:
    """Whether a move is what a world says comes next (an attribute `following`); None where it does not say."""
    wanted = getattr(environment, "following", None)
    return same_move(move, (wanted,)) is not None if isinstance(wanted, str) else None


# ---------------------------------------------------------------- grades, and pairs of them

CRITIC = (
    "Agents on a screen were shown this and asked for the next move. How useful and right is this one for what is "
    "asked?\n\nShown:\n{shown}\n\nMove:\n{move}\n"
)


@dataclass(frozen=True)
class OpposedAnswers(Rollout):
    """`samples` episodes per scenario, with an adversary's answer to every question, and a critic's grade of each.

    The adversary's answers become answers to the agent's own question: trajectories of one turn that follow the episode
    they left. The grade, in [0, 1], is the judge's where a run has one, of the question and the answer; otherwise 1
    where the move is what the world says comes next.

    Attributes:
        samples: episodes of each scenario. scale: grades that a judge is asked for, from 0 to this number.
    """

    samples: int = 2
    scale: int = 10
    judge: Judge | None = None

    asks_judge: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.samples < 1 or self.scale < 1:
            raise ValueError(f"samples and scale must be at least 1, not {self.samples} and {self.scale}")

    async def collect(
        self,
        asked: Sequence[Assignment],
        *,
        play: Play,
        score: Grade,
        ledger: LedgerView,
        key: Key,
        more: More | None = None,
    ) -> Experience:
        """Per scenario its episodes in order, each followed by what the adversary said in it."""
        wanted = [replace(one, samples=self.samples, options=(*one.options, Opposing())) for one in asked]
        played = await play(wanted)
        await score(played)
        found: list[Trajectory] = []
        for episode in played:
            found += [episode, *opposed(episode)]
        given = await self._graded([one for one in played if OPPOSED.present(one)])
        return Experience(found, metrics={"rollout/grade": float(np.mean(given)) if given else 0.0})

    async def _graded(self, played: Sequence[Trajectory]) -> list[float]:
        """Grades all answers in these episodes, and writes them there and to the adversary's; those of the agents."""
        answers = [(episode, place) for episode in played for place in range(len(episode.turns))]
        values = await self.opinions(answers)
        given: dict[int, list[float | None]] = {id(episode): [] for episode in played}
        for (episode, _), value in zip(answers, values, strict=True):
            given[id(episode)].append(value)
        own = list[float]()
        for episode in played:
            mine, pairs = given[id(episode)], OPPOSED.get(episode)
            for rejected, (_, place) in zip(episode.branches, pairs, strict=True):
                GRADES.write(rejected, [mine[place]])
            GRADES.write(episode, mine)
            wrong = {other for _, other in pairs}
            own += [one for place, one in enumerate(mine) if one is not None and place not in wrong]
        return own

    async def opinions(self, answers: Sequence[tuple[Trajectory, int]]) -> Sequence[float | None]:
        """What the critic thinks of turns of episodes.

        Raises:
            ConfigurationError: without a judge, in a world that does not say what comes next.
        """
        if self.judge is not None:
            prompts = [_shown(episode.turns[place]) for episode, place in answers]
            return await asyncio.to_thread(grades, self.judge, prompts, self.scale)
        told = [FOLLOWS.get(episode)[place] for episode, place in answers]
        if any(one is None for one in told):
            raise ConfigurationError(
                "the world does not say which move comes next, so no rule can grade; name a critic, such as --judge "
                "smollm2, or take a task such as voted:screens"
            )
        return [float(one) for one in told]


def _shown(turn: Turn) -> str:
    """What a judge reads of an answer."""
    shown = str(turn.prompt[-1]["content"]).removesuffix(f"\n{WRONG}")
    return CRITIC.format(shown=shown, move=turn.text)


def opposed(episode: Trajectory) -> list[Trajectory]:
    """The adversary's answers as answers to the agents' own questions; the episode keeps them as its branches."""
    turns, found = episode.turns, list[Trajectory]()
    for own, other in OPPOSED.get(episode, ()):
        said = turns[other]
        turn = replace(turns[own], action=said.action, logp=None, version=None, forced=None, text=said.text)
        turn.finish, turn.extras = said.finish, {}
        rejected = Trajectory(episode.scenario, [turn], sample=episode.sample, source="branch", terminated=True)
        OPPOSES.write(rejected, (episode.sample, own))
        found.append(rejected)
    OPPOSES.write(episode, (episode.sample, -1))
    episode.branches = found
    return found


@dataclass(frozen=True)
class GradedPairs(Pairing):
    """Of an agent's and the adversary's answer to one question the one that is graded higher against the other.

    Grades that differ by `margin` or less give no pair, nor do those that a critic did not give. The two answers are
    compared in their decisions alone; all others get weight 0. The loss reads no advantage; what is preferred has 1 and
    the other -1, for reports.

    Attributes:
        own: whether the adversary's answer is never preferred: pairs in which it is graded higher are left out.
    """

    own: bool = False

    @property
    def least_samples(self) -> int:
        """One: every question of an episode has two answers."""
        return 1

    def __call__(self, batch: Batch) -> Occurrences:
        """The batch's occurrences with `pairs` and `compared`, `[P, 2]` each, and advantages `[E]` float64."""
        found = [(mine, other) if gap > 0 else (other, mine) for mine, other, gap in self._compared(batch)]
        better, worse = (within(batch, batch.occurrences, [pair[n] for pair in found]).weight != 0 for n in (0, 1))
        return replace(paired_turns(batch, found), advantage=better.double() - worse.double())

    def _compared(self, batch: Batch) -> Iterator[tuple[Visit, Visit, float]]:
        """The two answers to each question, and how much higher the agent's is graded, where that tells."""
        turns, links, grades_ = turns_of(batch), OPPOSES.rows(batch), GRADES.rows(batch)
        scenario = batch.scenario.tolist()
        told = [(number, *link) for number, link in enumerate(links) if link is not None]
        episodes = {(scenario[number], sample): number for number, sample, place in told if place < 0}
        for number, sample, place in told:
            episode = episodes.get((scenario[number], sample))
            if place < 0 or episode is None or grades_[episode] is None or grades_[number] is None:
                continue
            mine, other = grades_[episode][place], grades_[number][0]
            # Whoever said nothing at all has no turn here, so places would be others'.
            if mine is None or other is None or len(turns[episode]) != len(grades_[episode]) or not turns[number]:
                continue
            gap = float(mine) - float(other)
            if (gap if self.own else abs(gap)) > self.margin:
                yield (episode, turns[episode][place]), (number, turns[number][0]), gap


# ---------------------------------------------------------------- any world of one seat, by name

PREFIX = "voted:"


@dataclass(frozen=True)
class VotedTask(NestedTask):
    """A task of one seat, played by agents that vote."""

    prefix = PREFIX

    @property
    def lessons(self) -> Lessons | None:
        """The inner task's, each move said alone, after hearing some of other talks, and for one that was to be wrong.

        What is heard, and what a wrong one says, is drawn from what the beginner said elsewhere in the episode.
        """
        found = self.inner.lessons
        if found is None:
            return None

        def play(scenario: Scenario, rng: np.random.Generator) -> list[Lesson]:
            talks = found.play(scenario, rng)
            said = [str(talk.said[0]["content"]) for talk in talks]
            return [lesson for talk in talks for lesson in _lessons(talk, said, rng)]

        return replace(found, taught=f"{found.taught}, alone, after hearing others, and to be wrong", play=play)


def _lessons(talk: Lesson, known: Sequence[str], rng: np.random.Generator) -> list[Lesson]:
    """What an agent says alone and after others, and what an adversary says."""
    asked, said = str(talk.prompt[-1]["content"]), str(talk.said[0]["content"])
    heard = [known[int(n)] for n in rng.integers(0, len(known), int(rng.integers(1, 4)))]
    wrong = known[int(rng.integers(len(known)))]
    told = (
        (asked, said),
        (f"{asked}\n{LEAD}{'; '.join(heard)}", said),
        (f"{asked}\n{WRONG}", wrong),
    )
    return [Lesson((_message(text),), ({"role": "assistant", "content": answer},)) for text, answer in told]


def _message(text: str) -> Message:
    return {"role": "user", "content": text}


SETTINGS = {"voters": int, "rounds": int, "edges": int}


def from_name(name: str, settings: Mapping[str, str]) -> VotedTask:
    """The task behind the prefix; settings of `VotedMoves` are taken out of its own.

    Raises:
        ConfigurationError: when it is no environment.
    """
    inner, mine, named = found_within(PREFIX, name, settings, SETTINGS)
    flow = VotedMoves(**{**turn_by_turn(inner.workflow), **mine})
    return VotedTask(flow, inner.seat, inner.measure, inner=inner, named=named)


VOTED = TaskForm(
    name="voted:TASK",
    description="an environment of one seat for agents that talk and vote, e.g. voted:screens?longest=2",
    make=from_name,
)


# ---------------------------------------------------------------- how it is learnt

COLLABUIAGENTS = ONLINE_DPO.but(
    name="collabuiagents",
    title="CollabUIAgents: a critic's word on every answer in the place of the reward of a team that votes",
    source="He et al., arXiv:2502.14496 (abstract), and the authors' code",
    family="teams",
    catalogue_ids=("collabuiagents",),
    axes=("credit", "team", "reward"),
    formula="L = -mean_pairs log sigmoid(beta (d(a_w) - d(a_l))),  d(a) = log pi_i(a | x) - log ref_i(a | x),  {a_w, "
    "a_l}: agent i's and the adversary's answer to question x, the higher graded first",
    conventions={
        **ONLINE_DPO.conventions,
        "aggregation": "log-probs summed over an answer's decisions, mean over pairs of all agents, rounds and steps",
        "pairs": "one for each question of each agent, where the critic grades the two answers apart; credit.own = "
        "true leaves out those in which the adversary's is graded higher",
        "group of one": "no pair: every question is answered twice",
        "constant group": "no pair",
        "critic": "--judge, asked for 0 to 10 of each answer; by rule 1 where the move is what the world says comes "
        "next",
        "adversary": "the model as it was, asked for a wrong move; its answers are learnt as the agent's own",
        "graph": "3 edges of an acyclic graph of 4 agents, drawn for every episode, in evaluation too",
        "rounds": "2 answers; who hears nobody answers once",
        "vote": "the move that most named last, of equals the earliest agent's",
        "world's reward": "read by nobody",
        "who learns": "agents, a policy each; the adversary does not",
        "supervised start": "the task's lessons",
    },
    task="voted:screens?longest=2",
    requires=(Requirement.AGENTS, Requirement.TURNS, Requirement.BRANCHES),
    cast=Separate(),
    rollout=OpposedAnswers(samples=2),
    credit=GradedPairs(),
)
