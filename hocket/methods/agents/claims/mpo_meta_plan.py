"""MPO's claims."""

from __future__ import annotations

import asyncio
import functools
import math
from collections.abc import Hashable, Sequence
from statistics import fmean

import numpy as np
import torch

from hocket.agents.workflows.adviser import Advised
from hocket.agents.workflows.team import Team
from hocket.agents.workflows.workflow import Outcome
from hocket.core.batch import Batch
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.lab.claims.harness import SEEDS, Claims, Finding, say
from hocket.lab.talk import Prior, TalkBench
from hocket.lab.toys.recorded_answers import line
from hocket.lab.toys.talks import as_prior, played_by, stepped
from hocket.methods.agents.mpo_meta_plan import MPO_META_PLAN
from hocket.methods.base.sft import SFT
from hocket.recipe import Recipe
from hocket.rollout.named_turns import worth
from hocket.train.ledger import Ledger
from hocket.types import Assignment, Evaluation, Message, Replay, Scenario, Score, Trajectory, Turn

claim = Claims("mpo-meta-plan", "arXiv:2503.02682 and its released scripts")
PLACES = ("kitchen", "garden", "attic", "cellar")
MOVES = (*PLACES, "take", "open")
PLANS = tuple(f"key from {one}, then {other}" for one in PLACES for other in PLACES if one != other)
# What is to be opened: where its key lies, and where it stands.
HOMES = "chest kitchen cellar, gate attic garden, trunk garden attic, shed cellar garden"
LAYOUT = {thing: places for thing, *places in map(str.split, HOMES.split(", "))}
TIME, TAKEN, STEPS = 6, 0.2, 16


@played_by("agent")
async def house(scenario: Scenario, team: Team) -> Outcome:
    """Fetch the key, go where it fits, open: four right moves of six, and the agent sees no further than its place."""
    thing, place, held, done = str(scenario.prompt), "hall", False, False
    told = thing
    for _ in range(TIME):
        if not done:
            move = str(await team.agent(f"{told}\n{sight(thing, place, held)}"))
            place, held, done = moved(thing, place, held, move)
        told = "so"
    return Outcome(rewards={"opened": 1.0 if done else TAKEN * held})


def sight(thing: str, place: str, held: bool) -> str:
    """What the agent sees."""
    key, door = LAYOUT[thing]
    here = " a key lies here" if place == key and not held else f" the {thing} is here" if place == door else ""
    return f"{place}:{here} hands {'full' if held else 'empty'}"


def moved(thing: str, place: str, held: bool, move: str) -> tuple[str, bool, bool]:
    """Where a move leads: the place, whether the key is held, whether it is done."""
    key, door = LAYOUT[thing]
    if move in PLACES:
        return move, held, False
    return place, held or (move == "take" and place == key), move == "open" and held and place == door


def plan_and_place(messages: tuple[Message, ...]) -> tuple[str, str]:
    """Of all lines that the agent was told, the plan and the last place."""
    lines = [line for one in messages if one["role"] == "user" for line in str(one["content"]).split("\n")]
    plans = [line.removeprefix("Plan: ") for line in lines if line.startswith("Plan: ")]
    return plans[-1] if plans else "", [line for line in lines if " hands " in line][-1]


def view(messages: tuple[Message, ...]) -> Hashable:
    """The planner sees what is to be opened; the agent the plan, if there is one, and where it is."""
    if messages[0]["role"] == "system":
        return ("planner", str(messages[-1]["content"]).split("\n")[0])
    return ("agent", *plan_and_place(messages))


def wish(plan: str, place: str, keen: float = 2.5) -> dict[str, float]:
    """What an imperfect agent would like: to take and open what it sees, else to follow the plan, else anything."""
    if "key lies" in place:
        return {"take": keen}
    if "is here" in place and place.endswith("full"):
        return {"open": keen}
    first, _, then = plan.removeprefix("key from ").partition(", then ")
    return {then if place.endswith("full") else first: keen} if plan else {}


def errands(*, curated: bool) -> list[Scenario]:
    """Each thing once, or five times with a plan that somebody wrote down: two are right."""
    scenarios = []
    for thing, (key, door) in LAYOUT.items():
        good, others = f"key from {key}, then {door}", [place for place in PLACES if place not in (key, door)]
        wrong = [f"key from {door}, then {key}", *(f"key from {key}, then {other}" for other in others)]
        for n, plan in enumerate([good, good, *wrong] if curated else [good]):
            scenarios.append(Scenario(f"{thing} {n}", thing, metadata={"demonstration": plan}))
    return scenarios


FLOW = Advised(house, every=False, lead="Plan")
SUPERVISED = SFT.but(name="curated plans", workflow=MPO_META_PLAN.workflow, cast=MPO_META_PLAN.cast)


def planning(recipe: Recipe, seed: int, prior: Prior, *, curated: bool = False, lr: float = 0.1) -> TalkBench:
    priors: dict[str, Prior] = {
        "adviser": prior,
        "actor": lambda messages, said: dict.fromkeys(PLANS, -40.0) | wish(*plan_and_place(messages)),
    }
    words = (*MOVES, *PLANS)
    return TalkBench(FLOW, errands(curated=curated), words, recipe, view=view, prior=priors, seed=seed, lr=lr)


@functools.cache
def value(thing: str, plan: str, keen: float = 2.5) -> float:
    """The expected score of the agent with a plan, or with none, summed over all it might do."""

    @functools.cache
    def to_come(place: str, held: bool, left: int) -> float:
        if left == 0:
            return TAKEN * held
        wished = wish(plan, sight(thing, place, held), keen)
        weight, total = {move: math.exp(wished.get(move, 0.0)) for move in MOVES}, 0.0
        for move, one in weight.items():
            where, has, done = moved(thing, place, held, move)
            total += one * (1.0 if done else to_come(where, has, left - 1))
        return total / sum(weight.values())

    return to_come("hall", False, TIME)


def planned(bench: TalkBench, keen: float = 2.5) -> float:
    """The exact mean score of the agent with this bench's planner."""

    def score(thing: str) -> float:
        opening = f"{thing}\n{sight(thing, 'hall', False)}"
        chances = bench.policies["adviser"].probabilities(opening, system=FLOW.system)[len(MOVES) :]
        return sum(float(chance) * value(thing, plan, keen) for chance, plan in zip(chances, PLANS, strict=True))

    return fmean(map(score, LAYOUT))


@functools.cache
def taught(seed: int) -> TalkBench:
    """A planner after its supervised start."""
    return planning(SUPERVISED, seed, lambda messages, said: dict.fromkeys(MOVES, -40.0), curated=True).run(40)


def begun(seed: int) -> TalkBench:
    """Where preferences begin: the planner's reference is the one after its supervised start."""
    start = as_prior(taught(seed).policies["adviser"])
    return planning(MPO_META_PLAN.but({"objective.beta": 0.5}), seed, start, lr=0.3)


@functools.cache
def preferred(seed: int) -> TalkBench:
    return begun(seed).run(STEPS)


@claim(
    "A frozen, imperfect agent scores higher with plans of the DPO-trained planner than with those of the "
    "supervised one and with none.",
    slow=True,
)
def a_frozen_imperfect_agent_scores_higher_with_plans_of_the_dpo() -> Finding:
    none, best = (fmean(max(value(thing, plan) for plan in plans) for thing in LAYOUT) for plans in (("",), PLANS))
    before, after = ([planned(stage(seed)) for seed in SEEDS] for stage in (taught, preferred))
    moved = max(float(preferred(seed).policies["actor"].module.logits.detach().abs().max()) for seed in SEEDS)
    played = fmean(map(worth, preferred(SEEDS[0]).play(40)))
    lead = min(one - other for one, other in zip(after, before, strict=True))
    holds = lead > 0.15 and min(before) > none + 0.1 and moved == 0 and abs(played - after[0]) < 0.1
    scores = {"without_a_plan": none, "supervised": line(before), f"after_{STEPS}_steps_of_preferences": line(after)}
    return Finding(holds, say(**scores, best=best, played=played, least_lead=lead, move_of_the_agent=moved))


@claim("One planner serves many agents: its plans help one it was never trained with.", slow=True)
def one_planner_serves_many_agents_its_plans_help_one_it_was_never() -> Finding:
    none = fmean(value(thing, "", 1.5) for thing in LAYOUT)
    after = [planned(preferred(seed), 1.5) for seed in SEEDS]
    gains = [one - planned(taught(seed), 1.5) for seed, one in zip(SEEDS, after, strict=True)]
    holds = min(gains) > 0.05 and min(after) > none + 0.1
    return Finding(holds, say(without_a_plan=none, with_its_plans=line(after), more_than_supervised=line(gains)))


@functools.cache
def steps() -> list[tuple[Batch, list[Trajectory], dict[str, dict[str, float]]]]:
    """Batches of some steps, what was played, and by scenario the mean score of each plan; later plans tie."""
    bench, rows = begun(0), []
    for batch, played in (stepped(bench) for _ in range(8)):
        scores: dict[str, dict[str, list[float]]] = {}
        for one in played:
            scores.setdefault(one.scenario.id, {}).setdefault(one.turns[0].text, []).append(worth(one))
        quality = {scenario: {plan: fmean(all_) for plan, all_ in plans.items()} for scenario, plans in scores.items()}
        # Before credit every decision that was free counts.
        batch = batch.credited(weight=(~batch.forced[batch.occurrences.decision]).float())
        rows.append((batch, played, quality))
    return rows


@claim("The pair builder returns argmax and argmin of Q(m) and skips ties.")
def the_pair_builder_returns_argmax_and_argmin_of_q_and_skips_ties() -> Finding:
    right = pairs = ties = runs = 0
    for batch, played, quality in steps():
        compared = MPO_META_PLAN.credit(batch).pairs
        assert compared is not None
        taken = {played[a].scenario.id: [played[n].turns[0].text for n in (a, b)] for a, b in compared.tolist()}
        for scenario, plans in quality.items():
            least, most = min(plans.values()), max(plans.values())
            tie = most - least < 1e-12
            ties += tie
            pairs += not tie and scenario in taken
            # A pair that is missing counts as neither.
            right += scenario not in taken if tie else [plans[one] for one in taken.get(scenario, ())] == [most, least]
        runs += len(played)
    counts = say(runs=runs, pairs_of_argmax_and_argmin=pairs, skipped_ties=ties, as_counted_from_what_was_said=right)
    return Finding(right == pairs + ties and pairs >= 8 and ties >= 3, counts)


@claim("The loss is DPO on the plan; what the acting agent says has no gradient.")
def the_loss_is_dpo_on_the_plan_what_the_acting_agent_says_has_no() -> Finding:
    gaps, agents, beta = [], [], 0.5
    recipe = MPO_META_PLAN.but({"objective.beta": beta})
    for batch, played, quality in steps():
        credited = batch.but(occurrences=recipe.credit(batch)).of_policy("adviser")
        if credited.occurrences.pairs is None or not len(credited.occurrences.pairs):
            continue
        logp = batch.logp["behaviour"].values.double().clone().requires_grad_()
        loss = recipe.loss(Evaluation(logp=logp), credited)[0].total()
        (gradient,) = torch.autograd.grad(loss, logp)
        first = {(one.scenario.id, one.turns[0].text): n for n, one in reversed(list(enumerate(played)))}
        drift = (batch.logp["behaviour"].values - batch.logp["reference"].values).double()
        margins = []
        for scenario, plans in quality.items():
            ranked = sorted(plans, key=plans.__getitem__)
            if plans[ranked[-1]] - plans[ranked[0]] > 1e-12:
                at = [batch.occurrences.trajectory == first[scenario, plan] for plan in (ranked[-1], ranked[0])]
                better, worse = (float(drift[int(batch.occurrences.decision[one][0])]) for one in at)
                margins.append(beta * (better - worse))
        gaps.append(abs(float(loss.detach()) - fmean(math.log1p(math.exp(-margin)) for margin in margins)))
        agents.append(float(gradient[batch.role[batch.turn] == batch.names["role"].index("agent")].abs().max()))
    figures = say(off_DPO_counted_anew_from_Q=max(gaps), gradient_on_words_of_the_agent=max(agents))
    return Finding(max(gaps) < 1e-9 and max(agents) == 0, figures)


@claim("As shipped 5 plans, each played 5 times: further runs replay the plan alone, drawn like its scenario's first.")
def as_shipped_5_plans_each_played_5_times_further_runs_replay_the() -> Finding:
    asked: list[list[Assignment]] = []

    async def play(asking: Sequence[Assignment]) -> list[Trajectory]:
        """Samples 0 and 3 of a scenario draw one plan, sample 2 fails."""
        asked.append([*asking])
        found = []
        for one in asking:
            for sample in range(one.first, one.first + one.samples):
                plan = np.array([10 + (sample - 7) % 3])
                turns = [*(one.replay.turns if one.replay else ())] or [Turn("adviser", "adviser", plan[:0], plan)]
                turns.append(Turn("agent", "agent", plan[:0], np.array([sample]), parent=turns[0]))
                failure = "lost" if sample == 9 else None
                found.append(Trajectory(one.scenario, turns, sample, failure=failure))
        return found

    async def score(played: Sequence[Trajectory]) -> None:
        scored.extend(played)

    scored = list[Trajectory]()
    wanted = [Assignment(Scenario(name, "?"), first=7) for name in "ab"]
    experience = asyncio.run(
        MPO_META_PLAN.rollout.collect(wanted, play=play, score=score, ledger=Ledger(), key=Key.of(0))
    )
    found, (first, again) = experience.trajectories, asked
    numbers = [(one.scenario.id, one.sample) for one in found]
    whole = scored == found and len(found) == len({*numbers}) == 50 and {n for _, n in numbers} == {*range(7, 32)}
    firsts = all(one.samples == 5 and one.first == 7 and one.replay == Replay(sample=7) for one in first)
    replays = [one.replay for one in again if one.replay is not None]
    firsts &= [one.samples for one in again] == [4] * 10 and all(
        len(one.turns) == 1 and one.sample == 7 for one in replays
    )
    # By scenario and plan in order; plans drawn twice are one, that of the failed run counts by the others.
    plans = [one.turns[0].action.tolist() for one in found[::5]]
    firsts &= plans == [[10], [11], [12], [10], [11]] * 2
    shared = [len({id(one.turns[0]) for one in found[start : start + 25] if not one.failure}) for start in (0, 25)]
    holds = whole and firsts and shared == [3, 3] and experience.metrics == {"rollout/plans": 6.0}
    once = MPO_META_PLAN.but({"rollout.runs": 1, "rollout.plans": 3}).rollout
    asked.clear()
    single = asyncio.run(once.collect(wanted, play=play, score=score, ledger=Ledger(), key=Key.of(0)))
    holds &= (
        MPO_META_PLAN.workflow == "advised?every=false&lead=Plan" and len(single.trajectories) == 6 and len(asked) == 1
    )
    return Finding(holds, say(runs=len(found), plans_by_scenario=str(shared)))


@claim("By hand: the first of the best plans against the first of the worst, by mean return, if they differ by more.")
def by_hand_the_first_of_the_best_plans_against_the_first_of_the() -> Finding:
    def turn(role: str, *action: int, after: Turn | None = None) -> Turn:
        logp = np.zeros(len(action), np.float32)
        return Turn(role, role, np.zeros(1, np.int64), np.array(action), logp=logp, parent=after)

    # By scenario what the runs of its plans earn.
    worths = [[[0.0, 1.0], [0.75, 0.5], [0.5], [0.625, 0.625]], [[0.1, 0.2, 0.3], [0.3, 0.2, 0.1]], [[0.5, 0.5]]]
    worths += [[[0.2], [0.7]], [[3e8, 3e8, 3e8 + 1e-6], [3e8] * 3], [[-1.0], [-2.0], [-1.0], [-2.0]]]
    played, firsts = list[Trajectory](), dict[int, tuple[int, int]]()
    for scenario, plans in enumerate(worths):
        for plan, rewards in enumerate(plans):
            first = turn("adviser", plan, 1)
            firsts[len(played)] = scenario, plan
            for reward in rewards:
                turns, scores = [first, turn("agent", 2, after=first)], {"reward": Score(reward)}
                played.append(Trajectory(Scenario(f"s{scenario}"), turns, len(played), scores=scores))
    seen = {}
    for margin in (0.0, 0.3):
        recipe = MPO_META_PLAN.but({"credit.margin": margin})
        pairs = recipe.compute_credit(pack(played), recipe.init(), {})[0].occurrences.pairs
        assert pairs is not None
        seen[margin] = [tuple(map(firsts.get, two)) for two in pairs.tolist()]
    best = [((0, 1), (0, 0)), ((3, 1), (3, 0)), ((5, 0), (5, 1))]
    return Finding(seen == {0.0: best, 0.3: best[1:]}, say(pairs=str(seen[0.0])))


claim.spares("1e-12 -> 4e-11", "only makes up for rounding")
claim.spares("max(map(abs, quality)) -> min(map(abs, quality))", "where best and worst nearly tie, all are of one size")

claim.shipped(MPO_META_PLAN, "rollout", "credit", sees=lambda run: {"pairs": run.mean("adviser/pairs/total")})
