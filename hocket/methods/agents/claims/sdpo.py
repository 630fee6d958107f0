"""SDPO's claims."""

from __future__ import annotations

import functools
import math
from collections.abc import Hashable, Mapping, Sequence
from statistics import fmean
from typing import Any, cast

import numpy as np
import torch

from hocket.agents.workflows.team import Team
from hocket.agents.workflows.workflow import Outcome, Workflow
from hocket.core.batch import Batch
from hocket.core.components import value_at
from hocket.core.keys import Key
from hocket.core.outcomes import StepResult
from hocket.core.packing import pack
from hocket.lab.claims.harness import EXACT, SEEDS, Claims, Finding, below, gap, say
from hocket.lab.talk import TalkBench
from hocket.lab.toys.recorded_answers import lines
from hocket.lab.toys.talks import played_by
from hocket.methods.agents.sdpo import SDPO
from hocket.methods.base.dpo import ONLINE_DPO
from hocket.recipe import Recipe
from hocket.rollout.named_turns import NamedBy, ProbedTurns, Transcript
from hocket.stages import Grade, Play
from hocket.train.aio import run_async
from hocket.train.learner import Learner
from hocket.train.ledger import Ledger
from hocket.train.loop import collect, learn_from
from hocket.types import Assignment, Evaluation, Message, Scenario, Score, Trajectory, Turn

claim = Claims("sdpo", "arXiv:2501.01821 and its released code")

GREETINGS, CLAIMS, REASONS = ("hello", "good day"), ("low", "fair", "high"), ("quality", "rarity", "charity")
CHATTER = ("weather", "football", "family")
WORDS = (*GREETINGS, *CLAIMS, *REASONS, *CHATTER)
GOODS = {"chair": "quality", "coin": "rarity"}
VALUE = {"low": 0.0, "fair": 0.1, "high": 0.3}
BONUS = 0.7  # What a high claim earns besides, if it is held with the reason of the thing that is sold.


def sale(chat: int) -> Workflow:
    """The agent sells to a scripted partner: a greeting, a claim, which decides whether there is anything to win, a
    reason that must hold it, and `chat` turns of small talk that change nothing."""

    @played_by("agent")
    async def flow(scenario: Scenario, team: Team) -> Outcome:
        await team.agent(f"{scenario.id}: a {scenario.prompt}")
        price = str(await team.agent("what do you ask?"))
        reason = str(await team.agent(f"{price}? why?"))
        for number in range(chat):
            await team.agent(f"so be it. and now {number}?")
        held = price == "high" and reason == scenario.answer
        return Outcome(rewards={"deal": VALUE.get(price, 0.0) + BONUS * held})

    return flow


def view(messages: tuple[Message, ...]) -> Hashable:
    """What is learnt about claims and reasons serves for every partner; small talk is another with each."""
    partner, thing = str(messages[0]["content"]).split(": a ")
    last = str(messages[-1]["content"])
    return (last, partner) if "now" in last else (thing, last if len(messages) > 1 else "begin")


def manners(messages: tuple[Message, ...], said: tuple[str, ...]) -> Mapping[str, float]:
    """What may be said where, evenly."""
    last = str(messages[-1]["content"])
    fitting = GREETINGS if len(messages) == 1 else CLAIMS if "ask" in last else REASONS if "why" in last else CHATTER
    return {word: 0.0 if word in fitting else -30.0 for word in WORDS}


def went_wrong(dialogue: Trajectory, turns: Sequence[Turn]) -> int | None:
    """The judge: the claim if it was not high, else the reason if it did not fit."""
    return 1 if turns[1].text != "high" else 2 if turns[2].text != dialogue.scenario.answer else None


def seller(recipe: Recipe, seed: int, partners: int, chat: int = 3) -> TalkBench:
    """So many partners for each thing."""
    sales = [Scenario(f"{thing} {n}", thing, answer=reason) for n in range(partners) for thing, reason in GOODS.items()]
    return TalkBench(sale(chat), sales, WORDS, recipe, view=view, prior=manners, seed=seed)


JUDGED = SDPO.but({"rollout.judge": NamedBy(went_wrong), "objective.beta": 1.0})
"""With the toy's own judge, and a beta that suits single words."""
PLAIN = ONLINE_DPO.but({"objective.beta": 1.0})


def without_credit(result: StepResult) -> tuple[Batch, list[Trajectory]]:
    """The pairs of a step, annotated; every word of the policy weighs 1."""
    assert result.batch is not None
    weight = (~result.batch.forced[result.batch.occurrences.decision]).float()
    return result.batch.credited(weight=weight), list(result.trajectories)


@functools.cache
def collected() -> tuple[Batch, list[Trajectory]]:
    """Pairs of a policy that has learnt a little."""
    return without_credit(seller(JUDGED, 7, partners=6).run(2).step())


def measured(recipe: Recipe, batch: Batch) -> tuple[float, torch.Tensor]:
    """Loss and gradient in the log-probs of the batch `[T]`, at the policy that sampled."""
    credited, _ = recipe.compute_credit(batch, recipe.init(), {})
    logp = batch.logp["behaviour"].values.double().clone().requires_grad_()
    loss = recipe.loss(Evaluation(logp=logp), credited)[0].total()
    (gradient,) = torch.autograd.grad(loss, logp)
    return float(loss.detach()), gradient


def by_hand(batch: Batch, pairs: Sequence[Trajectory], turns: int | None, beta: float) -> tuple[float, torch.Tensor]:
    """The formula, from the dialogues' words: rows are a bad dialogue and the better one."""
    place = {id(turn): number for number, turn in enumerate(dict.fromkeys(t for one in pairs for t in one.turns))}
    starts = [int((batch.turn == number).nonzero()[0]) for number in range(batch.turns)]
    gaps = (batch.logp["behaviour"].values - batch.logp["reference"].values).double().tolist()
    loss, gradient = 0.0, torch.zeros(batch.decisions, dtype=torch.float64)
    for bad, good in zip(pairs[::2], pairs[1::2], strict=True):
        texts = [[turn.text for turn in one.turns] for one in (good, bad)]
        first = next(n for n, (a, b) in enumerate(zip(*texts, strict=True)) if a != b)
        segment = slice(first, None if turns is None else first + turns)
        touched = [(starts[place[id(t)]], s) for one, s in ((good, 1.0), (bad, -1.0)) for t in one.turns[segment]]
        margin = sum(beta * sign * gaps[at] for at, sign in touched)
        loss += math.log1p(math.exp(-margin)) / (len(pairs) / 2)
        for at, sign in touched:
            gradient[at] -= sign * beta / (1 + math.exp(margin)) / (len(pairs) / 2)
    return loss, gradient


@claim("The loss is the formula over the segment's turns, and so is the gradient.")
def the_loss_is_the_formula_over_the_segments_turns_and_so_is_the() -> Finding:
    batch, pairs = collected()
    ks = (1, 2, 3, 5)
    off = [gap(measured(JUDGED.but({"credit.turns": k}), batch), by_hand(batch, pairs, k, 1.0)) for k in ks]
    return Finding(max(off) < 1e-9 and len(pairs) >= 8, say(pairs=len(pairs) // 2, ks=str(ks), off=max(off)))


@claim("Masked to one turn it is turn-level DPO.")
def masked_to_one_turn_it_is_turn_level_dpo() -> Finding:
    """Plain DPO on the error turns alone, everything before and after left out as dialogues of one turn."""
    batch, pairs = collected()
    weight = torch.zeros_like(batch.occurrences.weight)
    for number, one in enumerate(pairs):
        both = zip(one.turns, pairs[number ^ 1].turns, strict=True)
        turn = next(place for place, (own, other) in enumerate(both) if own is not other)
        weight[(batch.occurrences.trajectory == number).nonzero().flatten()[turn]] = 1.0
    plain = measured(PLAIN, batch.credited(weight=weight))
    ours = measured(JUDGED.but({"credit.turns": 1}), batch)
    return below(1e-12, float(plain[1].abs().max()) > 1e-3, k_1_against_DPO_on_error_turns=gap(ours, plain))


@claim("With the whole tail it is session-level DPO.")
def with_the_whole_tail_it_is_session_level_dpo() -> Finding:
    """Plain DPO on whole dialogues, what they have in common included: it cancels."""
    batch, pairs = collected()
    off = gap(measured(JUDGED.but({"credit.turns": None}), batch), measured(PLAIN, batch))
    both = zip(pairs[::2], pairs[1::2], strict=True)
    shared = sum(one is other for bad, good in both for one in bad.turns for other in good.turns)
    return Finding(off < 1e-12 and shared >= len(pairs) / 2, say(shared_turns=shared, tail_against_DPO=off))


@played_by("agent", "partner")
async def two_speak(scenario: Scenario, team: Team) -> Outcome:
    """An agent and a partner that is a policy too, three turns each; what the agent says in the second one counts."""
    replies, heard = [], "begin"
    for _ in range(3):
        replies.append(str(await team.agent(heard)))
        heard = str(await team.partner(replies[-1]))
    return Outcome(rewards={"deal": float(replies[1] == "high")})


@claim("Tokens of the partner, and the agent's outside the segment, have zero gradient.")
def tokens_of_the_partner_and_the_agents_outside_the_segment_have() -> Finding:
    recipe = SDPO.but({"rollout.judge": NamedBy(lambda *_: 1), "rollout.role": "agent", "credit.role": "agent"})
    bench = TalkBench(two_speak, [Scenario(f"s{n}", "?") for n in range(8)], ("low", "high"), recipe, seed=2)
    moved, outside, partner = 0, 0.0, 0.0
    for k in (1, 2, 3):
        bench.done += 1
        experience, _ = run_async(collect(bench.parts, bench.parts.key.derive("pairs", bench.done)))
        batch, pairs = without_credit(learn_from(bench.parts, bench.done, experience, [], rollout=1.0))
        _, gradient = measured(recipe.but({"credit.turns": k}), batch)
        for number in sorted(set(batch.turn.tolist())):
            own = float(gradient[batch.turn == number].abs().max())
            if batch.names["role"][int(batch.role[number])] == "partner":
                partner = max(partner, own)
            elif 1 <= int(batch.index[number]) // 2 < 1 + k:
                moved += own > 0
            else:
                outside = max(outside, own)
    holds = partner == 0 and outside == 0 and moved >= 8 and len(pairs) >= 4
    return Finding(holds, say(gradient_of_partner=partner, outside_the_segment=outside, turns_with_gradient=moved))


@claim(
    "By hand: best against worst, in k turns of the agent's own of each from the first that differs; none left, none."
)
def by_hand_best_against_worst_in_k_turns_of_the_agents_own_of_each() -> Finding:
    rng, wrong, pairs = Key.of(8).derive("segments").numpy(), 0, 0

    def turn(before: Turn | None, place: int) -> Turn:
        forced = np.array([True, bool(rng.random() < 0.4)])
        action, role = rng.integers(9, size=2), ("agent", "partner")[place % 2]
        return Turn(role, "p", action[:0], action, np.zeros(2, np.float32), role=role, parent=before, forced=forced)

    arms: list[tuple[int | None, str | None]]
    arms = [(1, None), (2, "agent"), (None, "agent"), (3, "nobody"), (None, None)]
    for number in range(30):
        (k, role), margin = arms[number % 5], 0.3 * (number % 2)
        played = list[Trajectory]()
        for scenario in "abc":
            turns, stem = list[Turn](), 0
            for _ in range(3):
                turns = turns[: int(rng.integers(0, stem + 1))]
                for place in range(len(turns), int(rng.integers(len(turns), 9))):
                    turns.append(turn(turns[-1] if turns else None, place))
                stem = len(turns)
                scores = {"reward": Score(float(rng.integers(5)) / 4)}
                played.append(Trajectory(Scenario(scenario), [*turns], len(played), scores=scores))
        recipe = SDPO.but({"credit.turns": k, "credit.role": role, "credit.margin": margin})
        seen = recipe.compute_credit(pack(played), recipe.init(), {})[0].occurrences
        found, inside = list[list[int]](), set[tuple[int, int]]()
        free = [[one for one in dialogue.turns if not cast(Any, one.forced).all()] for dialogue in played]
        own = [[one for one in some if role != "agent" or one.role == role] for some in free]
        value = [float(cast(Any, one.scores["reward"].value)) for one in played]
        for first in (0, 3, 6):
            counts = [at for at in range(first, first + 3) if free[at]]
            if not counts:
                continue
            two = max(counts, key=value.__getitem__), min(counts, key=value.__getitem__)
            common = [one is other for one, other in zip(own[two[0]], own[two[1]], strict=False)]
            rest = [own[at][[*common, False].index(False) :] for at in two]
            if k is not None:
                rest = [one[: min(k, *map(len, rest))] for one in rest]
            if value[two[0]] - value[two[1]] > margin and all(rest):
                found.append([*two])
                inside |= {(at, id(one)) for at, segment in zip(two, rest, strict=True) for one in segment}
        assert seen.pairs is not None
        pairs += len(found)
        wrong += seen.pairs.tolist() != found
        said = [(at, one) for at, dialogue in enumerate(played) for one in dialogue.turns]
        due = [(at, id(one)) in inside and not forced for at, one in said for forced in cast(Any, one.forced)]
        wrong += (seen.weight != 0).tolist() != due
    return Finding(wrong == 0 and pairs > 30, say(batches=30, pairs=pairs, otherwise_than_by_hand=wrong))


@claim("As shipped 5 dialogues go on from before the turn named; the first of the best is kept if it is worth more.")
def as_shipped_5_dialogues_go_on_from_before_the_turn_named_the() -> Finding:
    asked: list[list[Assignment]] = []
    worths: dict[str, float | None] = {"s0": 0.5, "s1": 0.9, "s2": None, "s3": 0.75, "s4": 0.5, "s5": 0.25}
    tried: dict[str, list[float | None]] = {
        "s0": [0.25, 0.75, 1.0, 1.0, None],
        "s1": [1.0] * 5,
        "s3": [0.0] * 5,
        "s4": [0.5, 0.0, None, 0.25, 0.5],
    }

    async def play(asking: Sequence[Assignment]) -> list[Trajectory]:
        asked.append([*asking])
        found = []
        for one in asking:
            for number in range(one.samples):
                turns = [*(one.replay.turns if one.replay else ())]
                for place in range(len(turns), 5):  # What is said at the turn itself is said alike.
                    words = np.array([place + 10 * (one.first + number) * (place > 2)])
                    role = ("agent", "partner")[place % 2]
                    turns.append(Turn(role, role, words[:0], words, role=role, parent=turns[-1] if turns else None))
                gone = worths[one.scenario.id] if one.replay is None else tried[one.scenario.id][number]
                failure = "lost" if gone is None else None
                found.append(Trajectory(one.scenario, turns, one.first + number, failure=failure))
        return found

    async def score(played: Sequence[Trajectory]) -> None:
        for one in played:
            value = worths[one.scenario.id] if one.sample == 3 else tried[one.scenario.id][one.sample - 4]
            one.scores["reward"] = Score(
                9.0 if value is None else value
            )  # What failed is worth nothing, whatever it has.

    def named(dialogue: Trajectory, turns: Sequence[Turn]) -> int | None:
        return None if dialogue.scenario.id == "s5" else 1

    figures, holds = [], True
    for good in (0.75, None):
        asked.clear()
        rollout = SDPO.but({"rollout.judge": NamedBy(named), "rollout.role": "agent", "rollout.good": good}).rollout
        asking = [Assignment(Scenario(name, "?"), first=3) for name in worths]
        found = run_async(rollout.collect(asking, play=play, score=score, ledger=Ledger(), key=Key.of(0)))
        again = ["s0", "s4"] if good else ["s0", "s1", "s3", "s4"]
        kept = [("s0", 3), ("s0", 6)] + ([] if good else [("s1", 3), ("s1", 4)])
        holds &= [(one.scenario.id, one.sample) for one in found.trajectories] == kept
        holds &= len(found.discarded) == 6 + 5 * len(again) - len(kept)
        holds &= [(one.scenario.id, one.samples, one.first) for one in asked[1]] == [(name, 5, 4) for name in again]
        holds &= all(one.replay is not None and len(one.replay.turns) == 2 for one in asked[1])
        bad, better = found.trajectories[:2]
        holds &= [one is other for one, other in zip(bad.turns, better.turns, strict=True)] == [True] * 3 + [False] * 2
        figures.append([found.metrics[f"rollout/{name}"] for name in ("bad", "mended", "reward")])
    shipped = [value_at(SDPO, name) for name in ("rollout.continuations", "rollout.judge.rollouts", "credit.turns")]
    holds &= (
        gap(figures, [[3.0, 1.0, 0.58], [5.0, 2.0, 0.58]]) < EXACT
        and shipped == [5, 4, 3]
        and value_at(SDPO, "rollout.judge") == ProbedTurns(most=1, least=0.0)
    )
    return Finding(holds, say(bad_mended_and_mean_reward=str(figures)))


@claim("The error turn is found by playing on from every history.", "derived")
def the_error_turn_is_found_by_playing_on_from_every_history() -> Finding:
    probed, named_by_hand, alike = ProbedTurns(rollouts=24), NamedBy(went_wrong), list[bool]()

    async def judge(finished: Sequence[Transcript], *, play: Play, score: Grade, key: Key) -> list[list[int]]:
        """Notes besides whether what the locator names is what the toy's own judge names."""
        named, wanted = [await one(finished, play=play, score=score, key=key) for one in (probed, named_by_hand)]
        alike.extend(one[:1] == right[:1] for one, right in zip(named, wanted, strict=True) if right)
        return named

    bench = seller(SDPO.but({"rollout.judge": judge, "rollout.continuations": 1}), 3, partners=7)
    run_async(collect(bench.parts, bench.parts.key.derive("probe")))
    share = fmean(alike)
    return Finding(share >= 0.8 and len(alike) >= 12, say(dialogues_of_6_turns=len(alike), found=share, rollouts=24))


STEPS, PARTNERS, CHAT = 30, 20, 12
BAD = JUDGED.but({"rollout.good": 0.05, "rollout.continuations": 16, "update.method": "sgd", "update.lr": 4.0})
"""Only sales that brought nothing are bad, so what went wrong is the claim, and one turn decided."""


def expected_deal(bench: TalkBench) -> float:
    """Exact, the mean over goods."""
    policy, deals = bench.policies["policy"], []
    for thing, answer in GOODS.items():
        roles = {"user": f"x: a {thing}", "assistant": "hello"}
        opening: list[Message] = [{"role": role, "content": text} for role, text in roles.items()]
        chances, value = policy.probabilities(*opening, "what do you ask?"), 0.0
        for price in CLAIMS:
            fits = float(policy.probabilities(*opening, f"{price}? why?")[WORDS.index(answer)])
            value += float(chances[WORDS.index(price)]) * (VALUE[price] + (BONUS * fits if price == "high" else 0.0))
        deals.append(value)
    return fmean(deals)


@claim(
    "In a negotiation that one turn decides, the segment reaches a higher deal than one turn and than the "
    "session, from the same pairs.",
    slow=True,
)
def in_a_negotiation_that_one_turn_decides_the_segment_reaches_a() -> Finding:
    deals: dict[str, list[float]] = {}
    for seed in SEEDS:
        bench = seller(BAD, seed, PARTNERS, CHAT)
        experience, _ = run_async(collect(bench.parts, bench.parts.key.derive("pairs")))
        policy = bench.policies["policy"]
        for arm, turns in {"turn": 1, "segment of 3": 3, "session": None}.items():
            with torch.no_grad():
                policy.module.logits.zero_()
            bench.parts.learners = {"policy": Learner(policy, BAD.but({"credit.turns": turns}), total_steps=STEPS)}
            for step in range(1, STEPS + 1):
                learn_from(bench.parts, step, experience, [], rollout=1.0)
            deals.setdefault(arm, []).append(expected_deal(bench))
    ahead = min(segment - max(turn, whole) for turn, segment, whole in zip(*deals.values(), strict=True))
    before = expected_deal(seller(JUDGED, 0, PARTNERS))
    return Finding(ahead > 0.04, lines(steps=STEPS, deal_before=before, deal=deals, smallest_lead=ahead))


claim.shipped(SDPO, "credit", settings={"curriculum.prompts": 8})
claim.shipped(
    SDPO,
    "rollout",
    sees=lambda run: {"mended dialogues": run.mean("rollout/mended")},
    settings={"curriculum.prompts": 8},
)
