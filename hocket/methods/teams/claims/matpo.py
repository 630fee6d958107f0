"""What matpo claims."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean

import torch

from hocket.core.columns import InfoColumn
from hocket.core.packing import pack
from hocket.engine.requests import ContextFull
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.talk import TalkBench, everything
from hocket.lab.toys.rewarded import SEEDS, line
from hocket.methods.base.grpo import GRPO
from hocket.methods.teams.matpo import MATPO
from hocket.objectives.entropy import EntropyBonus
from hocket.recipe import Recipe
from hocket.types import Message, Quantity, Scenario, Trajectory
from hocket.workflows.team import Agent, Team
from hocket.workflows.workflow import Outcome, Workflow

claim = Claims("matpo", "arXiv:2510.04678 and the authors' code")


RIGHT = InfoColumn("right", "Whether all parts were right.")


ANSWERS = ("red", "blue", "green")
ASK = "ask"


class MayDelegate(Workflow):
    """The planner answers, or asks a worker, who hears the question anew, and then answers."""

    roles = ("planner", "worker")

    @property
    def prompts(self) -> Mapping[str, str]:
        return {"planner": "you plan", "worker": "you work"}

    async def play(self, scenario: Scenario, team: Team) -> Outcome:
        said = await team.planner(str(scenario.prompt))
        if said.text == ASK:
            found = await team.worker(f"find {scenario.prompt}")
            said = await team.planner(f"the worker says {found}")
        return Outcome(rewards={"right": float(said.text == scenario.answer) + 0.25 * (said.text == ASK)})


class Alone(Workflow):
    """The planner by itself."""

    roles = ("planner",)

    @property
    def prompts(self) -> Mapping[str, str]:
        return {"planner": "you plan"}

    async def play(self, scenario: Scenario, team: Team) -> Outcome:
        said = await team.planner(str(scenario.prompt))
        return Outcome(rewards={"right": float(said.text == scenario.answer)})


def never_asks(messages: tuple[Message, ...], said: tuple[str, ...]) -> Mapping[str, float]:
    """A base that cannot delegate."""
    return {ASK: -1e9}


QUESTIONS = [Scenario(answer, f"which is {answer} ?", answer=answer) for answer in ANSWERS]


def answering(workflow: Workflow, recipe: Recipe, *, asks: bool = True, seed: int = 0) -> TalkBench:
    prior = None if asks else never_asks
    return TalkBench(workflow, QUESTIONS, (*ANSWERS, ASK), recipe, prior=prior, lr=0.1, seed=seed)


@claim("with no delegation it equals single-agent GRPO")
def without_delegation_it_is_grpo() -> Finding:
    """A planner that never asks, trained by MATPO, and a single agent, trained by GRPO: the same policy."""
    team = answering(MayDelegate(), MATPO, asks=False).run(10)
    alone = answering(Alone(), GRPO, asks=False).run(10)
    chances = [
        torch.stack([bench.policies["policy"].probabilities(str(q.prompt), system="you plan") for q in QUESTIONS])
        for bench in (team, alone)
    ]
    apart = float((chances[0] - chances[1]).abs().max())
    moved = float((chances[0][:, :-1] - 1 / 3).abs().max())
    return Finding(
        apart == 0.0 and moved > 0.05, f"policies {apart:.1e} apart after 10 steps, {moved:.2f} from the start"
    )


@claim("every worker inherits the advantage of its planner and has a context of its own")
def workers_inherit() -> Finding:
    """Every decision of planner and worker has its rollout's advantage, and workers begin with nothing said before."""
    result = answering(MayDelegate(), MATPO).step()
    batch, delegated = result.batch, 0
    assert batch is not None
    seen = batch.occurrences
    for number, trajectory in enumerate(result.trajectories):
        mine = seen.advantage[seen.trajectory == number]
        delegated += len(trajectory.turns) == 3
        if len(set(mine.tolist())) != 1 or len(mine) != trajectory.length:
            return Finding(False, f"{trajectory}: advantages {mine.tolist()}")
        if any(turn.role == "worker" and turn.parent is not None for turn in trajectory.turns):
            return Finding(False, "a worker saw the planner's context")
    return Finding(delegated > 0, f"{len(result.trajectories)} rollouts, {delegated} of them with a worker")


UNSCALED = MATPO.but({"credit.scale": None, "credit.leave_one_out": True, "objective.aggregate": "sequence-sum"})
"""The estimator itself: differences from the others' mean, sums over decisions."""


@claim(
    "the log-prob of a rollout is the sum over planner and worker tokens: the expected gradient matches "
    "finite differences",
)
def gradient_is_that_of_the_return() -> Finding:
    """Over all pairs of rollouts the expected gradient of planner's and workers' tokens is that of the return."""
    bench = answering(MayDelegate(), UNSCALED.but({"rollout.samples": 2})).run(3)
    policy, question = bench.policies["policy"], QUESTIONS[0]
    played = list(bench.outcomes(question))
    loss = torch.zeros((), dtype=torch.float64)
    for one, left in played:
        for other, right in played:
            loss = loss + one * other * _loss(bench, left, right)
    (gradient,) = torch.autograd.grad(loss, policy.module.logits)
    rows = torch.nonzero(gradient.abs().sum(1)).flatten().tolist()
    worst = max(
        abs(float(gradient[row, word]) + _difference(bench, question, row, word))
        for row in rows
        for word in range(gradient.shape[1])
    )
    largest = float(gradient.abs().max())
    return Finding(
        worst < 1e-6 and largest > 0.01 and len(rows) > 5,
        f"{len(played)} rollouts, {len(rows)} rows: {worst:.1e} from finite differences, the largest {largest:.3f}",
    )


def _loss(bench: TalkBench, *pair: Trajectory) -> torch.Tensor:
    # One trajectory may stand twice in a pair; turns are the same objects then, visited once by each.
    batch = pack(list(pair))
    policy = bench.policies["policy"]
    assessed, _ = UNSCALED.assess(batch, {}, {})
    now = policy.evaluate(assessed, {Quantity.LOGP})
    return torch.stack([term.total() for term in UNSCALED.loss(now, assessed)]).sum()


def _difference(bench: TalkBench, question: Scenario, row: int, word: int, step: float = 1e-5) -> float:
    """The central difference of the exact expected reward in one logit."""
    logits, values = bench.policies["policy"].module.logits, []
    for sign in (1, -1):
        with torch.no_grad():
            logits[row, word] += sign * step
            values.append(sum(chance * _reward(played) for chance, played in bench.outcomes(question)))
            logits[row, word] -= sign * step
    return (values[0] - values[1]) / (2 * step)


def _reward(trajectory: Trajectory) -> float:
    return float(trajectory.scores["right"].value or 0.0)  # type: ignore[arg-type]


TOPICS = ("sun", "sea", "fox", "oak")
FACTS = ("yes", "no")
ENOUGH = "enough"
NOISE = ("lorem", "ipsum", "dolor", "amet")
LIMIT = 40
"""Words a conversation may have."""


PAIRS = [("sun", "sea"), ("fox", "oak")]


def quiet(messages: tuple[Message, ...]) -> object:
    """What a policy that ignores the noise sees."""
    plain = tuple(
        {**one, "content": " ".join(w for w in str(one["content"]).split() if w not in NOISE)} for one in messages
    )
    return everything(plain)


class Lookup(Workflow):
    """What is true of two topics is drawn anew in every episode and stands in a page of noise that a tool returns."""

    def __init__(self, limit: int | None) -> None:
        self.limit = limit

    def drawn(self, team: Team) -> tuple[Mapping[str, str], list[str]]:
        """The facts of an episode, and its noise."""
        rng = team.key.derive("facts").numpy()
        facts = {topic: FACTS[int(rng.integers(2))] for topic in TOPICS}
        return facts, [NOISE[int(place)] for place in rng.integers(len(NOISE), size=12)]

    async def told(self, agent: Agent, text: str) -> str:
        """A turn of a conversation, which must fit its context."""
        words = sum(len(str(message["content"]).split()) for message in agent.messages) + len(text.split())
        if self.limit is not None and words > self.limit:
            raise ContextFull(f"{words} words do not fit a context of {self.limit}")
        return (await agent(text)).text

    def page(self, topic: str, facts: Mapping[str, str], noise: list[str]) -> str:
        """What the tool returns: the fact between lines of noise."""
        return " ".join([*noise[:6], facts.get(topic, "nothing"), *noise[6:]])

    def outcome(self, scenario: Scenario, facts: Mapping[str, str], said: list[str], calls: list[str]) -> Outcome:
        right = [float(word == facts[topic]) for word, topic in zip(said, scenario.answer, strict=True)]
        form = fmean(float(call in (*TOPICS, ENOUGH)) for call in calls)
        return Outcome(rewards={"score": 0.9 * fmean(right) + 0.1 * form}, info={RIGHT.name: min(right)})


class SingleReader(Lookup):
    """One agent calls the tool, reads the pages in its own context, and answers."""

    roles = ("reader",)

    async def play(self, scenario: Scenario, team: Team) -> Outcome:
        facts, noise = self.drawn(team)
        calls: list[str] = []
        seen = str(scenario.prompt)
        for _ in range(2):
            calls.append(await self.told(team.reader, f"{seen} what next ?"))
            seen = "" if calls[-1] == ENOUGH else self.page(calls[-1], facts, noise)
            if calls[-1] == ENOUGH:
                break
        said = [await self.told(team.reader, f"{seen} the first ?".strip())]
        said.append(await self.told(team.reader, "the second ?"))
        return self.outcome(scenario, facts, said, calls)


class PlannerReaders(Lookup):
    """The planner names a topic; a worker with a context of its own calls the tool, reads, and reports one word."""

    roles = ("planner", "worker")

    async def play(self, scenario: Scenario, team: Team) -> Outcome:
        facts, noise = self.drawn(team)
        calls: list[str] = []
        report = str(scenario.prompt)
        for _ in range(2):
            topic = await self.told(team.planner, f"{report} what next ?".strip())
            report = ""
            if topic == ENOUGH:
                calls.append(topic)
                break
            worker = team.worker.fresh()
            calls += [topic, await self.told(worker, f"look up {topic}")]
            report = await self.told(worker, f"{self.page(calls[-1], facts, noise)} report")
        said = [await self.told(team.planner, f"{report} the first ?".strip())]
        said.append(await self.told(team.planner, "the second ?"))
        return self.outcome(scenario, facts, said, calls)


def reading(workflow: Lookup, recipe: Recipe, seed: int) -> TalkBench:
    """A bench for lookups. A small entropy bonus keeps every method from settling before it has read both pages."""
    return TalkBench(
        workflow,
        [Scenario(f"{one} {other}", f"{one} and {other}", answer=(one, other)) for one, other in PAIRS],
        (*TOPICS, *FACTS, ENOUGH),
        recipe.but({"rollout.samples": 24, "regularisers": (EntropyBonus(coefficient=0.02),)}),
        view=quiet,
        measure=both_right,
        prior=sensible,
        lr=0.1,
        seed=seed,
    )


def sensible(messages: tuple[Message, ...], said: tuple[str, ...]) -> Mapping[str, float]:
    """A base that knows when to name a topic and when a fact, and leans to words it was just told."""
    told = str(messages[-1]["content"]).split()
    kind = (*TOPICS, ENOUGH) if "next" in told else TOPICS if "look" in told else FACTS
    lean = 3.0 if "look" in told or "report" in told else 2.5 if "and" in told else 0.0
    return {word: 4.0 + lean * (word in told) - 2.0 * (word == ENOUGH) for word in kind}


def both_right(trajectory: Trajectory) -> float:
    """Whether both facts were told rightly; an episode that was cut told nothing."""
    return float(RIGHT.get(trajectory, 0.0))


@claim("noisy lookups under a context limit: success above the single agent, whose context overflows", slow=True)
def isolated_contexts_hold_out() -> Finding:
    """Two pages of noise overflow one context, so that one fact must be guessed; workers hold a page each."""
    team, single, free, cut = [], [], [], []
    for seed in SEEDS:
        team.append(reading(PlannerReaders(LIMIT), MATPO, seed).run(80).success(40))
        alone = reading(SingleReader(LIMIT), GRPO, seed).run(60)
        single.append(alone.success(40))
        cut.append(alone.history[0]["truncated/share"])
        if seed < 2:
            free.append(reading(SingleReader(None), GRPO, seed).run(60).success(40))
    holds = min(team) > max(single) + 0.1 and fmean(team) > fmean(single) + 0.25 and min(free) > max(single)
    return Finding(
        holds,
        f"both right, 5 seeds: team {line(team)} after 80 steps, single agent {line(single)} after 60 ({fmean(cut):.0%}"
        f" of the first episodes overflowed), without the limit {line(free)}",
    )
