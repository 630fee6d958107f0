"""MATPO's claims."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from statistics import fmean
from typing import Any

import torch

from hocket import tasks
from hocket.agents.workflows.library import find as find_workflow
from hocket.agents.workflows.team import Agent, Team
from hocket.agents.workflows.workflow import Outcome, Workflow
from hocket.core.casting import Separate
from hocket.core.columns import InfoColumn
from hocket.core.packing import pack
from hocket.engine.requests import ContextFull
from hocket.lab.claims.harness import SEEDS, Claims, Finding, gap, say
from hocket.lab.talk import TalkBench, everything, total
from hocket.lab.toys.recorded_answers import line
from hocket.lab.toys.talks import stepped
from hocket.methods.base.grpo import GRPO
from hocket.methods.teams.matpo import MATPO
from hocket.objectives.entropy import EntropyBonus
from hocket.recipe import Recipe
from hocket.testing import Part, rehearse, tool_call
from hocket.types import Message, Quantity, Scenario, Trajectory

claim = Claims("matpo", "arXiv:2510.04678 and the authors' code")
RIGHT = InfoColumn("right", "Whether all parts were right.")
ANSWERS, ASK = ("red", "blue", "green"), "ask"
QUESTIONS = [Scenario(answer, f"which is {answer} ?", answer=answer) for answer in ANSWERS]


class Alone(Workflow):
    """The planner by itself."""

    roles: tuple[str, ...] = ("planner",)
    prompts: Mapping[str, str] = {"planner": "you plan", "worker": "you work"}

    async def play(self, scenario: Scenario, team: Team) -> Outcome:
        said = await team.planner(str(scenario.prompt))
        return Outcome(rewards={"right": float(said.text == scenario.answer)})


class MayDelegate(Alone):
    """The planner answers, or asks a worker, who hears the question anew, and then answers."""

    roles = ("planner", "worker")

    async def play(self, scenario: Scenario, team: Team) -> Outcome:
        said = await team.planner(str(scenario.prompt))
        if said.text == ASK:
            said = await team.planner(f"the worker says {await team.worker(f'find {scenario.prompt}')}")
        return Outcome(rewards={"right": float(said.text == scenario.answer) + 0.25 * (said.text == ASK)})


def answering(workflow: Workflow, recipe: Recipe, *, asks: bool = True) -> TalkBench:
    prior = None if asks else lambda messages, said: {ASK: -1e9}
    return TalkBench(workflow, QUESTIONS, (*ANSWERS, ASK), recipe, prior=prior, lr=0.1)


@claim("with no delegation it equals single-agent GRPO")
def with_no_delegation_it_equals_single_agent_grpo() -> Finding:
    team, alone = (
        torch.stack([bench.policies["policy"].probabilities(str(q.prompt), system="you plan") for q in QUESTIONS])
        for workflow, recipe in ((MayDelegate(), MATPO), (Alone(), GRPO))
        for bench in (answering(workflow, recipe, asks=False).run(10),)
    )
    apart, moved = gap(team, alone), gap(team[:, :-1], torch.full((3, 3), 1 / 3))
    return Finding(apart == 0 and moved > 0.05, say(steps=10, policies_differ_by=apart, moved_from_the_start_by=moved))


@claim("every worker inherits the advantage of its planner and has a context of its own")
def every_worker_inherits_the_advantage_of_its_planner_and_has_a() -> Finding:
    (batch, played), inherited = stepped(answering(MayDelegate(), MATPO)), []
    taken = batch.occurrences
    for number, one in enumerate(played):
        mine = taken.advantage[taken.trajectory == number].tolist()
        apart = all(turn.parent is None for turn in one.turns if turn.role == "worker")
        inherited.append(len(set(mine)) == 1 and len(mine) == one.length and apart)
    delegated = sum(len(one.turns) == 3 for one in played)
    return Finding(all(inherited) and delegated > 0, say(rollouts=len(inherited), of_them_with_a_worker=delegated))


UNSCALED = MATPO.but({"credit.scale": None, "credit.leave_one_out": True, "objective.aggregate": "sequence-sum"})
"""The estimator itself: differences from the others' mean, sums over decisions."""


@claim(
    "the log-prob of a rollout is the sum over planner and worker tokens: the expected gradient matches "
    "finite differences"
)
def the_log_prob_of_a_rollout_is_the_sum_over_planner_and_worker() -> Finding:
    bench = answering(MayDelegate(), UNSCALED.but({"rollout.samples": 2})).run(3)
    policy, played = bench.policies["policy"], list(bench.outcomes(QUESTIONS[0]))

    def loss_of(*pair: Trajectory) -> torch.Tensor:
        # One trajectory may stand twice in a pair; turns are the same objects then, visited once by each.
        batch, _ = UNSCALED.compute_credit(pack(list(pair)), {}, {})
        return torch.stack([one.total() for one in UNSCALED.loss(policy.evaluate(batch, {Quantity.LOGP}), batch)]).sum()

    @torch.no_grad()
    def moved(row: int, word: int, step: float) -> float:
        logits[row, word] += step
        value = sum(chance * total(one) for chance, one in bench.outcomes(QUESTIONS[0]))
        logits[row, word] -= step
        return value

    loss = torch.zeros((), dtype=torch.float64)
    for chance, left in played:
        for other, right in played:
            loss = loss + chance * other * loss_of(left, right)
    logits = policy.module.logits
    (slope,) = torch.autograd.grad(loss, logits)
    rows = torch.nonzero(slope.abs().sum(1)).flatten().tolist()
    difference = [[(moved(r, w, -1e-5) - moved(r, w, 1e-5)) / 2e-5 for w in range(slope.shape[1])] for r in rows]
    off, largest = gap(slope[rows], difference), float(slope.abs().max())
    saw = say(rollouts=len(played), rows=len(rows), gap_to_finite_differences=off, largest_slope=largest)
    return Finding(off < 1e-6 and largest > 0.01 and len(rows) > 5, saw)


TOPICS, FACTS, ENOUGH = ("sun", "sea", "fox", "oak"), ("yes", "no"), "enough"
NOISE = ("lorem", "ipsum", "dolor", "amet")
LIMIT = 40  # Words a conversation may have.
PAIRS = [Scenario(f"{a} {b}", f"{a} and {b}", answer=(a, b)) for a, b in (("sun", "sea"), ("fox", "oak"))]


def quiet(messages: tuple[Message, ...]) -> object:
    """What a policy that ignores the noise sees."""
    plain = (" ".join(word for word in str(one["content"]).split() if word not in NOISE) for one in messages)
    return everything(tuple({**one, "content": text} for one, text in zip(messages, plain, strict=True)))


class SingleReader(Workflow):
    """What is true of two topics is drawn anew in every episode and stands in a page of noise that a tool returns. One
    agent calls the tool, reads the pages in its own context, and answers."""

    roles: tuple[str, ...] = ("reader",)

    def __init__(self, limit: int | None) -> None:
        self.limit = limit

    async def told(self, agent: Agent, text: str) -> str:
        """A turn of a conversation, which must fit its context."""
        words = sum(len(str(message["content"]).split()) for message in agent.messages) + len(text.split())
        if self.limit is not None and words > self.limit:
            raise ContextFull(f"{words} words do not fit a context of {self.limit}")
        return (await agent(text)).text

    async def play(self, scenario: Scenario, team: Team) -> Outcome:
        rng = team.key.derive("facts").numpy()
        facts = {topic: FACTS[int(rng.integers(2))] for topic in TOPICS}
        noise = [NOISE[int(place)] for place in rng.integers(len(NOISE), size=12)]
        agent, calls, known = team[self.roles[0]], list[str](), str(scenario.prompt)
        for _ in range(2):
            topic = await self.told(agent, f"{known} what next ?".strip())
            known = ""
            if topic == ENOUGH:
                calls.append(topic)
                break
            known, asked = await self.read(
                team, topic, lambda call: " ".join([*noise[:6], facts.get(call, "nothing"), *noise[6:]])
            )
            calls += asked
        said = [await self.told(agent, f"{known} the first ?".strip()), await self.told(agent, "the second ?")]
        right = [float(word == facts[topic]) for word, topic in zip(said, scenario.answer, strict=True)]
        form = fmean(float(call in (*TOPICS, ENOUGH)) for call in calls)
        return Outcome(rewards={"score": 0.9 * fmean(right) + 0.1 * form}, info={RIGHT.name: min(right)})

    async def read(self, team: Team, topic: str, page: Callable[[str], str]) -> tuple[str, list[str]]:
        """What the agent hears of a topic it named, and the calls that were made for it."""
        return page(topic), [topic]


class PlannerReaders(SingleReader):
    """The planner names a topic; a worker with a context of its own calls the tool, reads, and reports one word."""

    roles = ("planner", "worker")

    async def read(self, team: Team, topic: str, page: Callable[[str], str]) -> tuple[str, list[str]]:
        worker = team.worker.fresh()
        call = await self.told(worker, f"look up {topic}")
        return await self.told(worker, f"{page(call)} report"), [topic, call]


def sensible(messages: tuple[Message, ...], said: tuple[str, ...]) -> Mapping[str, float]:
    """A base that knows when to name a topic and when a fact, and leans to words it was just told."""
    told = str(messages[-1]["content"]).split()
    kind = (*TOPICS, ENOUGH) if "next" in told else TOPICS if "look" in told else FACTS
    lean = 3.0 if "look" in told or "report" in told else 2.5 if "and" in told else 0.0
    return {word: 4.0 + lean * (word in told) - 2.0 * (word == ENOUGH) for word in kind}


def read(workflow: Workflow, recipe: Recipe, seed: int, steps: int) -> tuple[float, float]:
    """The share of lookups with both facts right after training, and that of first episodes that overflowed. A small
    entropy bonus keeps every method from settling before it has read both pages."""
    recipe = recipe.but({"rollout.samples": 24, "regularisers": (EntropyBonus(coefficient=0.02),)})
    bench = TalkBench(workflow, PAIRS, (*TOPICS, *FACTS, ENOUGH), recipe, view=quiet, prior=sensible, lr=0.1, seed=seed)
    bench.run(steps)
    # An episode that was cut told nothing.
    rights = [float(RIGHT.get(one, 0.0)) for one in bench.play(40)]
    return fmean(rights), bench.history[0]["truncated/share"]


@claim("noisy lookups under a context limit: success above the single agent, whose context overflows", slow=True)
def noisy_lookups_under_a_context_limit_success_above_the_single() -> Finding:
    """Two pages of noise overflow one context, so that one fact must be guessed; workers hold a page each."""
    team = [read(PlannerReaders(LIMIT), MATPO, seed, 80)[0] for seed in SEEDS]
    single, cut = zip(*(read(SingleReader(LIMIT), GRPO, seed, 60) for seed in SEEDS), strict=True)
    free = [read(SingleReader(None), GRPO, seed, 60)[0] for seed in range(2)]
    holds = min(team) > max(single) + 0.1 and fmean(team) > fmean(single) + 0.25 and min(free) > max(single)
    saw = say(team_after_80_steps=line(team), single_after_60=line(single), without_the_limit=line(free))
    return Finding(holds, f"both right, 5 seeds: {saw}; first episodes of a single agent cut {fmean(cut):.0%}")


@claim("the shipped team on its task: workers call the tool over several turns of their own, and are the planner")
def the_shipped_team_on_its_task_workers_call_the_tool_over_several() -> Finding:
    flow, task = find_workflow(str(MATPO.workflow)), tasks.find(str(MATPO.task))
    flow = flow.equipped(task.workflow.tools_of)  # type: ignore[attr-defined]
    calls = {"6 * 7": "42", "8 - 2": "6"}
    worker = Part(lambda told: _worked(str(told[-1]["content"])))
    parts: dict[str, Any] = {"planner": ["1. 6 * 7\n2. 8 - 2", "<answer>48</answer>"], "worker": worker}
    (played,) = rehearse(flow, Scenario("s", "What is 6 * 7 + 8 - 2?", "48"), parts)
    agents = [turn.agent for turn in played.turns]
    heard = [str(message["content"]) for turn in played.turns for message in turn.prompt if message["role"] == "tool"]
    results = str(played.turns[-1].prompt[-1]["content"])
    bench = TalkBench(flow, QUESTIONS, ("1. 6 * 7", "<answer>1</answer>"), MATPO)
    one = {turn.policy for each in bench.play(2) for turn in each.turns}
    holds = agents.count("worker") == 4 and sorted(heard) == ["42", "6"] and set(bench.policies) == one == {"policy"}
    holds &= all(f"{step} = {found}" in results for step, found in calls.items())
    return Finding(holds, say(turns=str(agents), the_tool_said=str(heard), policies=str(sorted(one))))


def _worked(told: str) -> str:
    """A worker that calls the calculator, and says what it heard."""
    if told.startswith("What is "):
        return tool_call("calculator", expression=told.removeprefix("What is ").removesuffix("?"))
    return f"<answer>{told}</answer>"


claim.shipped(MATPO, without={"cast": Separate()}, trains=("planner", "worker"))
