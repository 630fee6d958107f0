"""What epo-explicit claims."""

from __future__ import annotations

import functools
import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import torch

from hocket.core.columns import InfoColumn
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.talk import Prior, TalkBench
from hocket.lab.toys.turn_toys import SEEDS, episode, seen
from hocket.methods.agents.epo_explicit import DECISIVE, EPO_EXPLICIT
from hocket.recipe import Recipe
from hocket.rollout.named_turns import NamedBy, ProbedTurns, worth
from hocket.train.aio import run_async
from hocket.train.loop import collect
from hocket.types import Message, Scenario, Trajectory, Turn
from hocket.workflows.advised import Advised
from hocket.workflows.team import Team
from hocket.workflows.workflow import Outcome, Workflow

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
def it_is_the_formula() -> Finding:
    """The loss from judge labels, turn by turn, in plain numbers; the actor's tokens have no gradient."""
    gap, actor, paid = 0.0, 0.0, 0
    gamma = 0.9
    for number in range(12):
        rows = talks(Key.of(number))
        found = seen(EPO_EXPLICIT, rows)
        strategies = sum((row["turn"][-1] + 1) // 2 for row in rows)
        loss = 0.0
        for row, gradient in zip(rows, found["gradient"], strict=True):
            turn, logp = row["turn"], row["logp"]
            score, named = row["scores"]["reward"], row["info"]["decisive"]
            for place in range(turn[-1] + 1):
                mine = [n for n, one in enumerate(turn) if one == place]
                if place % 2:
                    actor = max(actor, *(abs(gradient[n]) for n in mine))
                    continue
                credit = math.fsum(gamma ** ((other - place) // 2) * score for other in named if other >= place)
                paid += credit > 0
                loss -= credit * fmean(logp[n] for n in mine) / strategies
                gap = max(gap, *(abs(gradient[n] + credit / len(mine) / strategies) for n in mine))
        gap = max(gap, abs(loss - found["loss"]))
    return Finding(
        gap < 1e-12 and actor == 0 and paid > 50,
        f"loss and gradient of 12 random batches, {paid} paid strategies, counted anew: {gap:.1e}; on the actor's "
        f"tokens {actor:.1e}",
    )


MOVES = ("firm", "soft", "friendly", "joke")
PARTNERS = {"stubborn": "friendly", "hasty": "firm"}
ROUNDS = 6


@dataclass(frozen=True)
class Bargain(Workflow):
    """Six moves against a scripted partner. In one round, which only who knows the outcome can tell, it wavers: the
    move made there decides the price, and the others change nothing."""

    roles = ("agent",)

    async def play(self, scenario: Scenario, team: Team) -> Outcome:
        wavers = int(team.key.derive("wavers").numpy().integers(ROUNDS))
        said = [str(await team.agent(f"{scenario.prompt} partner, your move")) for _ in range(ROUNDS)]
        price = 1.0 if said[wavers] == scenario.answer else 0.1
        return Outcome(rewards={"price": price}, info={WAVERS.name: wavers})


BUYERS = [Scenario(kind, kind, answer=move) for kind, move in PARTNERS.items()]


def view(messages: tuple[Message, ...]) -> Hashable:
    """The adviser sees the partner; the actor what it was told last."""
    last = str(messages[-1]["content"])
    return ("adviser", last.split("\n")[-1]) if messages[0]["role"] == "system" else ("actor", last)


def executor(follows: float) -> Prior:
    """An actor that does as the strategy says with this probability, else anything else."""

    def logits(messages: tuple[Message, ...], said: tuple[str, ...]) -> Mapping[str, float]:
        line = str(messages[-1]["content"]).split("\n")[-1].removeprefix("Strategy: ")
        return {line: math.log(follows * (len(MOVES) - 1) / (1 - follows))}

    return logits


def decided(dialogue: Trajectory, turns: Sequence[Turn]) -> int:
    """The judge: the round in which the partner wavered."""
    return int(WAVERS.get(dialogue))


def everyone(dialogue: Trajectory, turns: Sequence[Turn]) -> Sequence[int]:
    """No judge: the score is everybody's alike."""
    return range(len(turns))


JUDGES = {"decisive": NamedBy(decided), "even": NamedBy(everyone)}
LABELLED = EPO_EXPLICIT.but({"rollout.judge": JUDGES["decisive"]})


def bargain(recipe: Recipe, seed: int, follows: float = 0.85, prior: Prior | None = None) -> TalkBench:
    actor: dict[str, Prior] = {"actor": executor(follows)}
    strategist = {} if prior is None else {"adviser": prior}
    return TalkBench(
        Advised(Bargain()), BUYERS, MOVES, recipe, view=view, prior={**actor, **strategist}, seed=seed, lr=0.1
    )


def wise(bench: TalkBench, scenario: Scenario) -> torch.Tensor:
    """The strategist's chances of each move."""
    system = Advised(Bargain()).system
    return bench.policies["adviser"].probabilities(f"{scenario.prompt} partner, your move", system=system)


def price(bench: TalkBench, follows: float = 0.85) -> float:
    """The exact mean price with an executor that follows so often."""
    found = []
    for scenario in BUYERS:
        right = float(wise(bench, scenario)[MOVES.index(str(scenario.answer))])
        made = right * follows + (1 - right) * (1 - follows) / (len(MOVES) - 1)
        found.append(0.1 + 0.9 * made)
    return fmean(found)


STEPS, TARGET = 120, 0.7


@functools.cache
def trained(name: str, seed: int) -> tuple[TalkBench, list[float]]:
    """A bench after `STEPS` steps of 16 episodes, and the price after each; stopped early once the target is met."""
    bench = bargain(EPO_EXPLICIT.but({"rollout.judge": JUDGES[name]}), seed)
    prices = [price(bench)]
    while len(prices) <= STEPS and prices[-1] < TARGET:
        bench.run(1)
        prices.append(price(bench))
    return bench, prices


@claim("Training only the strategist raises the deal score with a frozen executor that follows it noisily.", slow=True)
def only_the_strategist_learns() -> Finding:
    """It raises the price with an executor whose table stays as it was."""
    found = [trained("decisive", seed) for seed in SEEDS]
    moved = max(float(bench.policies["actor"].module.logits.detach().abs().max()) for bench, _ in found)
    before, after = [prices[0] for _, prices in found], [prices[-1] for _, prices in found]
    return Finding(
        moved == 0 and min(after) >= TARGET and max(before) < 0.4,
        f"exact price with an executor that follows in 85%: {max(before):.2f} before, {_shown(after)} after at most "
        f"{16 * max(len(prices) - 1 for _, prices in found)} episodes; its weights moved by {moved:.1e}",
    )


@claim("It transfers unchanged to a second executor.", slow=True)
def it_transfers() -> Finding:
    """The same strategist with an executor that follows in 60% only, and was never seen; also played, not computed."""
    gains = []
    for seed in SEEDS:
        bench = trained("decisive", seed)[0]
        gains.append(price(bench, 0.6) - price(bargain(LABELLED, seed, 0.6), 0.6))
    teacher = trained("decisive", SEEDS[0])[0].policies["adviser"]

    def learnt(messages: tuple[Message, ...], said: tuple[str, ...]) -> Sequence[float]:
        told = [one for one in messages if one["role"] == "user"]
        system = str(messages[0]["content"])
        words: list[float] = teacher.probabilities(str(told[-1]["content"]), system=system).log().tolist()
        return words

    second = bargain(LABELLED, 0, 0.6, prior=learnt)
    played, exact = second.success(150), price(second, 0.6)
    return Finding(
        min(gains) > 0.15 and abs(played - exact) < 0.1,
        f"with a second executor, which follows in 60%, the price is higher than an untrained strategist's by "
        f"{_shown(gains)}; played {played:.2f}, computed {exact:.2f}",
    )


@claim("Process labels learn in fewer episodes than the score spread evenly.", slow=True)
def labels_learn_in_fewer_episodes() -> Finding:
    needed = {name: [16 * (len(trained(name, seed)[1]) - 1) for seed in SEEDS] for name in JUDGES}
    reached = all(trained(name, seed)[1][-1] >= TARGET for name in JUDGES for seed in SEEDS)
    ratio = [one / other for one, other in zip(needed["decisive"], needed["even"], strict=True)]
    return Finding(
        reached and max(ratio) < 0.9,
        f"episodes until the price is {TARGET}: the score at the decisive turn {_whole(needed['decisive'])}; at every "
        f"turn alike {_whole(needed['even'])} (Adam, so its size plays no part); largest ratio {max(ratio):.2f}",
    )


@claim("The decisive turn is found by playing on from every history.", "derived", slow=True)
def probes_find_the_turn() -> Finding:
    """Without a judge to ask, the decisive round is found by what episodes that go on from each history earn."""
    judge = ProbedTurns(rollouts=24, by="change")
    bench = bargain(EPO_EXPLICIT.but({"rollout.judge": judge, "rollout.samples": 12}), 5)
    experience, _ = run_async(collect(bench.parts, bench.parts.key.derive("probe")))
    sold = [one for one in experience.trajectories if worth(one) == 1.0]
    # The adviser's turns are every other one.
    found = [DECISIVE.get(one) == [2 * WAVERS.get(one)] for one in sold]
    return Finding(
        fmean(found) >= 0.8 and len(found) >= 5,
        f"of {len(found)} episodes that fetched the full price the round that decided is named in {fmean(found):.0%}",
    )


@claim(
    "The turns that the judge names receive the episode's score, others none.",
    "arXiv:2502.12486 and its released code",
)
def judge_pays_its_turns() -> Finding:
    """In a step of training: the episode's score at the strategies the judge names, none elsewhere."""
    result = bargain(LABELLED, 4).step()
    batch = result.batch
    assert batch is not None
    right = 0
    for number, one in enumerate(result.trajectories):
        own = batch.occurrences.advantage[batch.occurrences.trajectory == number].tolist()[::2]
        score, wavers = worth(one), int(WAVERS.get(one))
        wanted = [0.9 ** (wavers - place) * score if place <= wavers else 0.0 for place in range(ROUNDS)]
        right += max(abs(a - b) for a, b in zip(own, wanted, strict=True)) < 1e-6
    count = len(result.trajectories)
    return Finding(
        right == count and len(pack(result.trajectories).names["policy"]) == 2,
        f"in {right} of {count} episodes strategies get 0.9^(d - t) R up to the decisive turn d and 0 after it",
    )


def _shown(numbers: Sequence[float]) -> str:
    return " ".join(f"{number:.2f}" for number in numbers)


def _whole(numbers: Sequence[int]) -> str:
    return " ".join(map(str, numbers))
