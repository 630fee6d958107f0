"""What mpo-meta-plan claims."""

from __future__ import annotations

import functools
import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import torch

from hocket.core.batch import Batch
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.talk import Lookup, Prior, TalkBench
from hocket.lab.toys.turn_toys import SEEDS
from hocket.methods.agents.mpo_meta_plan import MPO_META_PLAN
from hocket.methods.base.sft import SFT
from hocket.recipe import Recipe
from hocket.rollout.named_turns import worth
from hocket.types import Evaluation, Message, Scenario, Trajectory
from hocket.workflows.advised import Advised
from hocket.workflows.team import Team
from hocket.workflows.workflow import Outcome, Workflow

claim = Claims("mpo-meta-plan", "arXiv:2503.02682 and its released scripts")


PLACES = ("kitchen", "garden", "attic", "cellar")
MOVES = (*PLACES, "take", "open")
PLANS = tuple(f"key from {one}, then {other}" for one in PLACES for other in PLACES if one != other)
WORDS = (*MOVES, *PLANS)
LAYOUT = {
    "chest": ("kitchen", "cellar"),
    "gate": ("attic", "garden"),
    "trunk": ("garden", "attic"),
    "shed": ("cellar", "garden"),
}
"""What is to be opened: where its key lies, and where it stands."""


TIME = 6
TAKEN = 0.2


def agent(keen: float = 2.5) -> Prior:
    """An agent that is imperfect: it mostly takes and opens what it sees, else follows the plan, else wanders."""

    def logits(messages: tuple[Message, ...], said: tuple[str, ...]) -> Mapping[str, float]:
        lines = [line for one in messages if one["role"] == "user" for line in str(one["content"]).split("\n")]
        plan, place = plan_and_place(lines)
        return dict.fromkeys(PLANS, -40.0) | wish(plan, place, keen)

    return logits


@dataclass(frozen=True)
class House(Workflow):
    """Fetch the key, go where it fits, open: four right moves of six, and the agent sees no further than its place."""

    roles = ("agent",)

    async def play(self, scenario: Scenario, team: Team) -> Outcome:
        place, held, done = "hall", False, False
        told = str(scenario.prompt)
        for _ in range(TIME):
            move = str(await team.agent(f"{told}\n{seen(str(scenario.prompt), place, held)}"))
            place, held, done = moved(str(scenario.prompt), place, held, move)
            told = "so"
            if done:
                break
        return Outcome(rewards={"opened": 1.0 if done else TAKEN * held})


def seen(thing: str, place: str, held: bool) -> str:
    """What the agent sees."""
    key, door = LAYOUT[thing]
    here = " a key lies here" if place == key and not held else f" the {thing} is here" if place == door else ""
    return f"{place}:{here} hands {'full' if held else 'empty'}"


def moved(thing: str, place: str, held: bool, move: str) -> tuple[str, bool, bool]:
    """Where a move leads: the place, whether the key is held, whether it is done."""
    key, door = LAYOUT[thing]
    if move in PLACES:
        return move, held, False
    if move == "take":
        return place, held or place == key, False
    return place, held, move == "open" and held and place == door


def view(messages: tuple[Message, ...]) -> Hashable:
    """The planner sees what is to be opened; the agent the plan, if there is one, and where it is."""
    if messages[0]["role"] == "system":
        return ("planner", str(messages[-1]["content"]).split("\n")[0])
    lines = [line for one in messages if one["role"] == "user" for line in str(one["content"]).split("\n")]
    return ("agent", *plan_and_place(lines))


def plan_and_place(lines: Sequence[str]) -> tuple[str, str]:
    """Of all lines that the agent was told, the plan and the last place."""
    plans = [line.removeprefix("Plan: ") for line in lines if line.startswith("Plan: ")]
    return plans[-1] if plans else "", [line for line in lines if " hands " in line][-1]


def wish(plan: str, place: str, keen: float) -> dict[str, float]:
    """What the agent would like to do."""
    full = place.endswith("full")
    if "key lies" in place:
        return {"take": keen}
    if "is here" in place and full:
        return {"open": keen}
    if not plan:
        return {}
    first, then = plan.removeprefix("key from ").split(", then ")
    return {then if full else first: keen}


def errands(*, curated: bool) -> list[Scenario]:
    """Each thing once, or five times with a plan that somebody wrote down: two are right."""
    found = []
    for thing, (key, door) in LAYOUT.items():
        others = [place for place in PLACES if place not in (key, door)]
        good = f"key from {key}, then {door}"
        wrong = [f"key from {door}, then {key}", *(f"key from {key}, then {other}" for other in others)]
        plans = [good, good, *wrong] if curated else [good]
        found += [Scenario(f"{thing} {n}", thing, metadata={"demonstration": plan}) for n, plan in enumerate(plans)]
    return found


def only_plans(messages: tuple[Message, ...], said: tuple[str, ...]) -> Mapping[str, float]:
    return dict.fromkeys(MOVES, -40.0)


FLOW = Advised(House(), every=False, lead="Plan")


def planning(recipe: Recipe, seed: int, prior: Prior, *, curated: bool = False, lr: float = 0.1) -> TalkBench:
    return TalkBench(
        FLOW,
        errands(curated=curated),
        WORDS,
        recipe,
        view=view,
        prior={"adviser": prior, "actor": agent()},
        seed=seed,
        lr=lr,
    )


@functools.cache
def value(thing: str, plan: str, keen: float = 2.5) -> float:
    """The expected score of the agent with a plan, or with none, summed over all it might do."""

    @functools.cache
    def to_come(place: str, held: bool, left: int) -> float:
        if left == 0:
            return TAKEN * held
        wished = wish(plan, seen(thing, place, held), keen)
        weight = {move: math.exp(wished.get(move, 0.0)) for move in MOVES}
        total = 0.0
        for move, one in weight.items():
            where, has, done = moved(thing, place, held, move)
            total += one * (1.0 if done else to_come(where, has, left - 1))
        return total / sum(weight.values())

    return to_come("hall", False, TIME)


def chances(policy: Lookup, thing: str) -> torch.Tensor:
    """The planner's chances of each plan."""
    place = seen(thing, "hall", False)
    return policy.probabilities(f"{thing}\n{place}", system=FLOW.system)[len(MOVES) :]


def planned(policy: Lookup, keen: float = 2.5) -> float:
    """The exact mean score of the agent with this planner."""
    return fmean(
        sum(
            float(chance) * value(thing, plan, keen) for chance, plan in zip(chances(policy, thing), PLANS, strict=True)
        )
        for thing in LAYOUT
    )


SFT_STEPS, STEPS = 40, 16


SUPERVISED = SFT.but(name="curated plans", workflow=MPO_META_PLAN.workflow, cast=MPO_META_PLAN.cast)


@functools.cache
def taught(seed: int) -> TalkBench:
    """A planner after its supervised start."""
    return planning(SUPERVISED, seed, only_plans, curated=True).run(SFT_STEPS)


def begun(seed: int) -> TalkBench:
    """Where preferences begin: the planner's reference is the one after its supervised start."""
    teacher = taught(seed).policies["adviser"]

    def learnt(messages: tuple[Message, ...], said: tuple[str, ...]) -> Sequence[float]:
        told = [one for one in messages if one["role"] != "system"]
        words: list[float] = teacher.probabilities(*told, system=FLOW.system).log().tolist()
        return words

    return planning(MPO_META_PLAN.but({"objective.beta": 0.5}), seed, learnt, lr=0.3)


@functools.cache
def preferred(seed: int) -> TalkBench:
    return begun(seed).run(STEPS)


@claim(
    "A frozen, imperfect agent scores higher with plans of the DPO-trained planner than with those of the "
    "supervised one and with none.",
    slow=True,
)
def plans_serve_the_agent() -> Finding:
    none = fmean(value(thing, "") for thing in LAYOUT)
    before = [planned(taught(seed).policies["adviser"]) for seed in SEEDS]
    after = [planned(preferred(seed).policies["adviser"]) for seed in SEEDS]
    best = fmean(max(value(thing, plan) for plan in PLANS) for thing in LAYOUT)
    moved = max(float(preferred(seed).policies["actor"].module.logits.detach().abs().max()) for seed in SEEDS)
    played = fmean(map(worth, preferred(SEEDS[0]).play(40)))
    lead = min(one - other for one, other in zip(after, before, strict=True))
    return Finding(
        lead > 0.15 and min(before) > none + 0.1 and moved == 0 and abs(played - after[0]) < 0.1,
        f"exact score of the frozen agent: without a plan {none:.2f}; plans of the supervised planner "
        f"{_shown(before)}; after {STEPS} steps of preferences {_shown(after)} of {best:.2f} (played {played:.2f}); "
        f"smallest lead {lead:.2f}; the agent's weights moved by {moved:.1e}",
    )


@claim("One planner serves many agents: its plans help one it was never trained with.", slow=True)
def one_planner_serves_another_agent() -> Finding:
    """An agent that was never seen, and follows plans and takes what it sees less often."""
    none = fmean(value(thing, "", 1.5) for thing in LAYOUT)
    gains = [
        planned(preferred(s).policies["adviser"], 1.5) - planned(taught(s).policies["adviser"], 1.5) for s in SEEDS
    ]
    after = [planned(preferred(s).policies["adviser"], 1.5) for s in SEEDS]
    return Finding(
        min(gains) > 0.05 and min(after) > none + 0.1,
        f"without a plan {none:.2f}, with plans of the planner trained beside the first agent {_shown(after)}: more "
        f"than with those of the supervised one by {_shown(gains)}",
    )


@functools.cache
def steps() -> list[tuple[Batch, list[Trajectory]]]:
    """The batches of some steps, credited; later ones have tasks whose plans are all worth the same."""
    bench, found = begun(0), []
    for _ in range(8):
        result = bench.step()
        assert result.batch is not None
        found.append((result.batch, result.trajectories))
    return found


def quality(trajectories: Sequence[Trajectory]) -> dict[str, dict[str, float]]:
    """By scenario the mean score of every plan, from what was said."""
    scores: dict[str, dict[str, list[float]]] = {}
    for one in trajectories:
        scores.setdefault(one.scenario.id, {}).setdefault(one.turns[0].text, []).append(worth(one))
    return {scenario: {plan: fmean(found) for plan, found in plans.items()} for scenario, plans in scores.items()}


@claim("The pair builder returns argmax and argmin of Q(m) and skips ties.")
def pairs_are_best_and_worst() -> Finding:
    right = pairs = ties = runs = 0
    for batch, trajectories in steps():
        credited = MPO_META_PLAN.credit(_plain(batch))
        assert credited.pairs is not None
        taken = {}
        for better, worse in credited.pairs.tolist():
            taken[trajectories[better].scenario.id] = tuple(trajectories[n].turns[0].text for n in (better, worse))
        for scenario, plans in quality(trajectories).items():
            highest, lowest = max(plans.values()), min(plans.values())
            tie = highest - lowest < 1e-12
            ties += tie
            if tie or scenario not in taken:
                right += tie and scenario not in taken
                continue
            pairs += 1
            best, worst = taken[scenario]
            right += plans[best] == highest and plans[worst] == lowest
        runs += len(trajectories)
    return Finding(
        right == pairs + ties and pairs >= 8 and ties >= 3,
        f"in {runs} runs: {pairs} pairs of argmax and argmin of Q(m), {ties} tasks skipped whose plans tie; {right} of "
        f"{pairs + ties} as counted from what was said",
    )


@claim("The loss is DPO on the plan; what the acting agent says has no gradient.")
def loss_is_the_formula() -> Finding:
    gap, agents, beta = 0.0, 0.0, 0.5
    recipe = MPO_META_PLAN.but({"objective.beta": beta})
    for batch, trajectories in steps():
        credited = batch.but(occurrences=recipe.credit(_plain(batch))).of_policy("adviser")
        logp = batch.logp["behaviour"].values.double().clone().requires_grad_()
        loss = recipe.loss(Evaluation(logp=logp), credited)[0].total()
        if credited.occurrences.pairs is None or not len(credited.occurrences.pairs):
            continue
        (gradient,) = torch.autograd.grad(loss, logp)
        first = {(one.scenario.id, one.turns[0].text): n for n, one in reversed(list(enumerate(trajectories)))}
        drift = (batch.logp["behaviour"].values - batch.logp["reference"].values).double()
        margins = []
        for scenario, plans in quality(trajectories).items():
            ranked = sorted(plans, key=plans.__getitem__)
            if plans[ranked[-1]] - plans[ranked[0]] > 1e-12:
                at = [batch.occurrences.trajectory == first[scenario, plan] for plan in (ranked[-1], ranked[0])]
                sides = [float(drift[int(batch.occurrences.decision[one][0])]) for one in at]
                margins.append(beta * (sides[0] - sides[1]))
        by_hand = fmean(math.log1p(math.exp(-margin)) for margin in margins)
        gap = max(gap, abs(float(loss.detach()) - by_hand))
        acting = batch.role[batch.turn] == batch.names["role"].index("agent")
        agents = max(agents, float(gradient[acting].abs().max()))
    return Finding(
        gap < 1e-9 and agents == 0,
        f"DPO on the plans' words, counted anew from Q(m): {gap:.1e}; gradient on the agent's words {agents:.1e}",
    )


def _plain(batch: Batch) -> Batch:
    """The batch before credit: every decision that was free counts."""
    return batch.credited(weight=(~batch.forced[batch.occurrences.decision]).float())


def _shown(numbers: Sequence[float]) -> str:
    return " ".join(f"{number:.2f}" for number in numbers)
