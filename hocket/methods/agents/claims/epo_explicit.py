"""EPO's claims."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from hocket import tasks
from hocket.agents.workflows.adviser import ADVISES, Advised
from hocket.agents.workflows.team import Team
from hocket.agents.workflows.workflow import Outcome, Workflow
from hocket.core.columns import InfoColumn
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.lab.claims.harness import EXACT, SEEDS, Claims, Finding, gap, inspect_rows, say
from hocket.lab.claims.shipped_check import ShippedRun
from hocket.lab.talk import Prior, TalkBench
from hocket.lab.toys.episodes import episode
from hocket.lab.toys.recorded_answers import line
from hocket.lab.toys.talks import as_prior, played_by, stepped
from hocket.methods.agents.epo_explicit.method import DECISIVE, EPO_EXPLICIT
from hocket.recipe import Recipe
from hocket.rollout.named_turns import NamedBy, ProbedTurns, worth
from hocket.train.aio import run_async
from hocket.train.loop import collect
from hocket.types import Message, Scenario

claim = Claims("epo-explicit", "arXiv:2502.12486")
WAVERS = InfoColumn("wavers", "The round in which the buyer wavers.")


def talks(key: Key) -> list[dict[str, Any]]:
    """Episodes of an adviser and an actor in turn, 1 to 3 tokens each, of which the adviser's alone are trained."""
    rng, rows = key.numpy(), []
    for number in range(6):
        turns: list[dict[str, Any]] = [
            {"tokens": [0] * int(rng.integers(1, 4)), "agent": ("adviser", "actor")[place % 2]}
            for place in range(2 * int(rng.integers(1, 5)))
        ]
        row = episode("talk", float(rng.random()), turns)
        row["logp"] = rng.normal(-1.0, 0.7, len(row["tokens"])).tolist()
        row["trained"] = [place % 2 == 0 for place, turn in enumerate(turns) for _ in turn["tokens"]]
        strategies = range(0, len(turns), 2)
        row["info"] = {"decisive": [place for place in strategies if rng.random() < 0.4] if number else []}
        rows.append(row)
    return rows


@claim("The loss is the formula; only strategy tokens have a gradient.")
def the_loss_is_the_formula_only_strategy_tokens_have_a_gradient() -> Finding:
    off, actor, paid, gamma = 0.0, 0.0, 0, 0.9
    for number in range(12):
        rows, loss = talks(Key.of(number)), 0.0
        made = inspect_rows(EPO_EXPLICIT, rows)
        strategies = sum((row["turn"][-1] + 1) // 2 for row in rows)
        for row, gradient in zip(rows, made["gradient"], strict=True):
            turn, score, named = row["turn"], row["scores"]["reward"], row["info"]["decisive"]
            for place in range(turn[-1] + 1):
                mine = [n for n, one in enumerate(turn) if one == place]
                if place % 2:
                    actor = max(actor, *(abs(gradient[n]) for n in mine))
                    continue
                credit = math.fsum(gamma ** ((other - place) // 2) * score for other in named if other >= place)
                paid += credit > 0
                loss -= credit * fmean(row["logp"][n] for n in mine) / strategies
                off = max(off, *(abs(gradient[n] + credit / len(mine) / strategies) for n in mine))
        off = max(off, abs(loss - made["loss"]))
    saw = say(batches=12, paid_strategies=paid, loss_and_gradient_off=off, gradient_on_the_actors_tokens=actor)
    return Finding(off < EXACT and actor == 0 and paid > 50, saw)


MOVES, ROUNDS, STEPS, TARGET = ("firm", "soft", "friendly", "joke"), 6, 120, 0.7
BUYERS = [Scenario(kind, kind, answer=move) for kind, move in (("stubborn", "friendly"), ("hasty", "firm"))]


@played_by("agent")
async def six_moves(scenario: Scenario, team: Team) -> Outcome:
    """A scripted partner wavers in one round, which nobody is told: the move made there decides the price."""
    wavers = int(team.key.derive("wavers").numpy().integers(ROUNDS))
    said = [str(await team.agent(f"{scenario.prompt} partner, your move")) for _ in range(ROUNDS)]
    price = 1.0 if said[wavers] == scenario.answer else 0.1
    return Outcome(rewards={"price": price}, info={WAVERS.name: wavers})


FLOW = Advised(six_moves)


def view(messages: tuple[Message, ...]) -> tuple[str, str]:
    """The adviser sees the partner; the actor what it was told last."""
    return "adviser" if messages[0]["role"] == "system" else "actor", str(messages[-1]["content"]).split("\n")[-1]


# The round in which the partner wavered; and no judge at all: the score is everybody's alike.
JUDGES = {
    "decisive": NamedBy(lambda dialogue, turns: int(WAVERS.get(dialogue))),
    "even": NamedBy(lambda dialogue, turns: range(len(turns))),
}
LABELLED = EPO_EXPLICIT.but({"rollout.judge": JUDGES["decisive"]})


def bargain(recipe: Recipe, seed: int, follows: float = 0.85, **priors: Prior) -> TalkBench:
    """The actor does as the strategy says with chance `follows`, else anything else."""
    odds = math.log(follows * (len(MOVES) - 1) / (1 - follows))
    prior: dict[str, Prior] = {"actor": lambda messages, _: {view(messages)[1].removeprefix("Strategy: "): odds}}
    return TalkBench(FLOW, BUYERS, MOVES, recipe, view=view, prior=prior | priors, seed=seed, lr=0.1)


def price(bench: TalkBench, follows: float = 0.85) -> float:
    """The exact mean price with an executor that follows so often."""
    adviser, prices = bench.policies["adviser"], []
    for scenario in BUYERS:
        chances = adviser.probabilities(f"{scenario.prompt} partner, your move", system=FLOW.system)
        right = float(chances[MOVES.index(str(scenario.answer))])
        prices.append(0.1 + 0.9 * (right * follows + (1 - right) * (1 - follows) / (len(MOVES) - 1)))
    return fmean(prices)


@functools.cache
def trained(name: str, seed: int) -> tuple[TalkBench, list[float]]:
    """A bench after `STEPS` steps of 16 episodes, and the price after each; stopped early once the target is met."""
    bench = bargain(EPO_EXPLICIT.but({"rollout.judge": JUDGES[name]}), seed)
    prices = [price(bench)]
    while len(prices) <= STEPS and prices[-1] < TARGET:
        prices.append(price(bench.run(1)))
    return bench, prices


@claim("Training only the strategist raises the deal score with a frozen executor that follows it noisily.", slow=True)
def training_only_the_strategist_raises_the_deal_score_with_a() -> Finding:
    benches, prices = zip(*(trained("decisive", seed) for seed in SEEDS), strict=True)
    moved = max(float(bench.policies["actor"].module.logits.detach().abs().max()) for bench in benches)
    before, after = max(one[0] for one in prices), [one[-1] for one in prices]
    episodes = 16 * (max(map(len, prices)) - 1)
    saw = say(executor_follows=0.85, price_before=before, after=line(after), most_episodes=episodes)
    return Finding(moved == 0 and min(after) >= TARGET and before < 0.4, f"{saw}, {say(executor_moved_by=moved)}")


@claim("It transfers unchanged to a second executor.", slow=True)
def it_transfers_unchanged_to_a_second_executor() -> Finding:
    """The same strategist with an executor that follows in 60% only, and was never seen; also played, not computed."""
    plain = {seed: price(bargain(LABELLED, seed, 0.6), 0.6) for seed in SEEDS}
    gains = [price(trained("decisive", seed)[0], 0.6) - plain[seed] for seed in SEEDS]
    second = bargain(LABELLED, 0, 0.6, adviser=as_prior(trained("decisive", SEEDS[0])[0].policies["adviser"]))
    played, exact = second.success(150), price(second, 0.6)
    saw = say(executor_follows=0.6, gains_over_an_untrained_strategist=line(gains), played=played, computed=exact)
    return Finding(min(gains) > 0.15 and abs(played - exact) < 0.1, saw)


@claim("Process labels learn in fewer episodes than the score spread evenly.", slow=True)
def process_labels_learn_in_fewer_episodes_than_the_score_spread() -> Finding:
    """With Adam, so the size of the score plays no part."""
    prices = {name: [trained(name, seed)[1] for seed in SEEDS] for name in JUDGES}
    needed = {name: [16 * (len(one) - 1) for one in some] for name, some in prices.items()}
    reached = all(one[-1] >= TARGET for some in prices.values() for one in some)
    ratio = max(one / other for one, other in zip(needed["decisive"], needed["even"], strict=True))
    saw = say(**{name: str(one) for name, one in needed.items()}, largest_ratio=ratio)
    return Finding(reached and ratio < 0.9, f"episodes until the price is {TARGET}, the score at turns: {saw}")


@claim("The decisive turn is found by playing on from every history.", "derived", slow=True)
def the_decisive_turn_is_found_by_playing_on_from_every_history() -> Finding:
    judge = ProbedTurns(rollouts=24, by="change")
    bench = bargain(EPO_EXPLICIT.but({"rollout.judge": judge, "rollout.samples": 12}), 5)
    experience, _ = run_async(collect(bench.parts, bench.parts.key.derive("probe")))
    sold = [one for one in experience.trajectories if worth(one) == 1.0]
    # The adviser's turns are every other one.
    named = [DECISIVE.get(one) == [2 * WAVERS.get(one)] for one in sold]
    saw = say(episodes_with_the_full_price=len(named), decisive_round_named_in=f"{fmean(named):.1%}")
    return Finding(fmean(named) >= 0.8 and len(named) >= 5, saw)


@claim(
    "The turns that the judge names receive the episode's score, others none.", "arXiv:2502.12486 and its released code"
)
def the_turns_that_the_judge_names_receive_the_episodes_score() -> Finding:
    result = bargain(LABELLED, 4).step()
    assert result.batch is not None
    occurrences, right = result.batch.occurrences, 0
    for number, one in enumerate(result.trajectories):
        own = occurrences.advantage[occurrences.trajectory == number].tolist()[::2]
        score, wavers = worth(one), int(WAVERS.get(one))
        right += gap(own, [0.9 ** (wavers - at) * score if at <= wavers else 0.0 for at in range(ROUNDS)]) < 1e-6
    count, policies = len(result.trajectories), pack(result.trajectories).names["policy"]
    holds = right == count == 8 * len(BUYERS) and result.metrics["rollout/decisive"] == 1
    return Finding(holds and len(policies) == 2, say(episodes=count, as_the_formula_says=right))


# ---------------------------------------------------------------- both sides advised


@dataclass(frozen=True)
class Haggle(Workflow):
    """Two make a move each in every round; each wants a word of its own in a round of its own, and is paid for that."""

    rounds: int = 3

    roles = ("seller", "buyer")
    scores = True

    async def play(self, scenario: Scenario, team: Team) -> Outcome:
        said = {role: [await team[role](f"{role} {at}") for at in range(self.rounds)] for role in self.roles}
        first, last = said["seller"][0], said["buyer"][-1]
        earned = {first: 1.0 if str(first) == "firm" else 0.25, last: 2.0 if str(last) == "joke" else -0.5}
        return Outcome(rewards={"deal": 0.5}, turn_rewards={"own": earned})


def haggling(recipe: Recipe, seed: int) -> TalkBench:
    """Both do as the strategy says, nearly always."""
    prior: dict[str, Prior] = {"actor": lambda messages, _: {view(messages)[1].removeprefix("Strategy: "): 6.0}}
    flow = Advised(Haggle())
    return TalkBench(flow, [Scenario("h", "h")], MOVES, recipe, view=view, prior=prior, seed=seed, lr=0.1)


@claim("Where both sides are advised, each side's strategies are paid what that side earned itself.", "derived")
def where_both_sides_are_advised_each_sides_strategies_are_paid() -> Finding:
    """Every advice that is named; the whole episode's score is both's."""
    rng, off, apart, seen = Key.of(6).numpy(), 0.0, 0, 0
    drawn = EPO_EXPLICIT.but({"rollout.judge": NamedBy(lambda dialogue, turns: int(rng.integers(len(turns))))})
    batch, played = stepped(haggling(drawn, 1))
    for number, one in enumerate(played):
        named = set(DECISIVE.get(one))
        place = [turn for turn, acting in enumerate(one.turns) if acting.role == "adviser"]
        given = batch.occurrences.advantage[batch.occurrences.trajectory == number].tolist()
        sides = {"seller": (0, 1.0, "firm", 0.25), "buyer": (-1, 2.0, "joke", -0.5)}
        scores = []
        for side, (round_, full, word, else_) in sides.items():
            moves = [turn.text for turn in one.turns if turn.role == side]
            score = 0.5 + (full if moves[round_] == word else else_)
            mine = [at for at in place if one.turns[at].agent == f"adviser of {side}"]
            (decisive,) = named & set(mine)
            wanted = [0.9 ** (mine.index(decisive) - n) * score if at <= decisive else 0 for n, at in enumerate(mine)]
            off = max(off, gap([given[at] for at in mine], wanted))
            scores.append(score)
            seen += 1
        apart += scores[0] != scores[1]
        off += ADVISES.get(one) != [None if turn.role != "adviser" else turn.agent[11:] for turn in one.turns]
    return Finding(off < 1e-6 and apart > 4, say(sides=seen, episodes_with_two_scores=apart, off=off))


@claim("Played on, each side's decisive turn is found by what that side earns, not by both's sum.", "derived")
def played_on_each_sides_decisive_turn_is_found_by_what_that_side() -> Finding:
    recipe = EPO_EXPLICIT.but({"rollout.judge": ProbedTurns(rollouts=24, by="change"), "rollout.samples": 12})
    bench = haggling(recipe, 2)
    experience, _ = run_async(collect(bench.parts, bench.parts.key.derive("probe")))
    right = []
    for one in experience.trajectories:
        sides = [[at for at, whom in enumerate(ADVISES.get(one)) if whom == side] for side in ("seller", "buyer")]
        named = [[side.index(at) for at in DECISIVE.get(one) if at in side] for side in sides]
        right += [named[0] == [0], named[1] == [2]]
    return Finding(fmean(right) > 0.9, say(sides=len(right), decisive_round_named_in=f"{fmean(right):.1%}"))


@claim("As shipped one turn is named, that of the largest change up or down, from 4 episodes per history.")
def as_shipped_one_turn_is_named_that_of_the_largest_change_up_or() -> Finding:
    judge = getattr(EPO_EXPLICIT.rollout, "judge", None)
    assert isinstance(judge, ProbedTurns)
    named = [judge.named(values) for values in ((0.2, 0.9, 0.6, 0.7), (0.9, 0.2, 0.6, 0.7), (0.3, 0.3, 0.4))]
    flow = getattr(tasks.find(str(EPO_EXPLICIT.task)), "workflow", None)
    saw = say(named=str(named), episodes_per_history=judge.rollouts, task=EPO_EXPLICIT.task)
    return Finding(named == [[0], [0], [1]] and judge.rollouts == 4 and isinstance(flow, Advised), saw)


def seen(run: ShippedRun) -> dict[str, float]:
    """Episodes with several strategies of one side, advice that was not paid, and sides that were paid unlike."""
    episodes = [one for row in run.results for one in row.trajectories]
    advice = [sum(whom is not None for whom in ADVISES.get(one)) for one in episodes]
    paid = [worth(one, "ann") != worth(one, "bob") for one in episodes]
    return {
        "talks of more than two strategies": float(sum(many > 2 for many in advice)),
        "strategies not named": float(sum(advice) - sum(len(DECISIVE.get(one)) for one in episodes)),
        "talks that the sides are paid differently for": float(sum(paid)),
    }


claim.shipped(
    EPO_EXPLICIT,
    without={"rollout.judge": JUDGES["even"]},
    trains=("adviser",),
    steps=2,
    settings={"curriculum.prompts": 6},
    first={"recipe": "sft", "steps": 100, "task": "lessons:advised:magpie"},
    sees=seen,
)
claim.spares("epo-explicit: credit.ddof = 40", "no deviation is taken")
claim.spares("epo-explicit: credit.epsilon = 3.9999999999999996e-05", "no deviation is taken")
claim.spares("epo-explicit: credit.epsilon = 0.0", "no deviation is taken")
