"""What sdpo claims."""

from __future__ import annotations

import functools
import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import torch

from hocket.core.batch import Batch
from hocket.core.keys import Key
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.talk import TalkBench
from hocket.lab.toys.turn_toys import SEEDS
from hocket.methods.agents.sdpo import SDPO
from hocket.methods.base.dpo import DPO
from hocket.recipe import Recipe
from hocket.rollout.named_turns import Finished, NamedBy, ProbedTurns, TurnJudge
from hocket.stages import Grade, Play
from hocket.train.aio import run_async
from hocket.train.learner import Learner
from hocket.train.loop import collect, learn_from
from hocket.types import Evaluation, Message, Scenario, Trajectory, Turn
from hocket.workflows.team import Team
from hocket.workflows.workflow import Outcome, Workflow

claim = Claims("sdpo", "arXiv:2501.01821 and its released code")


GREETINGS, CLAIMS, REASONS = ("hello", "good day"), ("low", "fair", "high"), ("quality", "rarity", "charity")
CHATTER = ("weather", "football", "family")
WORDS = (*GREETINGS, *CLAIMS, *REASONS, *CHATTER)
VALUE = {"low": 0.0, "fair": 0.1, "high": 0.3}
BONUS = 0.7
"""What a high claim earns besides, if it is held with the reason of the thing that is sold."""


@dataclass(frozen=True)
class Sale(Workflow):
    """The agent sells to a scripted partner: a greeting, a claim, which decides whether there is anything to win, a
    reason that must hold it, and `chat` turns of small talk that change nothing."""

    chat: int

    roles = ("agent",)

    async def play(self, scenario: Scenario, team: Team) -> Outcome:
        await team.agent(f"{scenario.id}: a {scenario.prompt}")
        claim = str(await team.agent("what do you ask?"))
        reason = str(await team.agent(f"{claim}? why?"))
        for number in range(self.chat):
            await team.agent(f"so be it. and now {number}?")
        return Outcome(rewards={"deal": deal(scenario, claim, reason)})


def deal(scenario: Scenario, claim: str, reason: str) -> float:
    """What the sale brings."""
    return VALUE.get(claim, 0.0) + (BONUS if claim == "high" and reason == scenario.answer else 0.0)


GOODS = {"chair": "quality", "coin": "rarity"}


def sales(count: int) -> list[Scenario]:
    """So many partners for each thing."""
    return [Scenario(f"{thing} {n}", thing, answer=reason) for n in range(count) for thing, reason in GOODS.items()]


def view(messages: tuple[Message, ...]) -> Hashable:
    """What is learnt about claims and reasons serves for every partner; small talk is another with each."""
    partner, thing = str(messages[0]["content"]).split(": a ")
    said = str(messages[-1]["content"])
    return (said, partner) if "now" in said else (thing, said if len(messages) > 1 else "begin")


def manners(messages: tuple[Message, ...], said: tuple[str, ...]) -> Mapping[str, float]:
    """What may be said where, evenly."""
    last = str(messages[-1]["content"])
    fitting = GREETINGS if len(messages) == 1 else CLAIMS if "ask" in last else REASONS if "why" in last else CHATTER
    return {word: 0.0 if word in fitting else -30.0 for word in WORDS}


def went_wrong(dialogue: Trajectory, turns: Sequence[Turn]) -> int | None:
    """The judge: the claim if it was not high, else the reason if it did not fit."""
    claim, reason = turns[1].text, turns[2].text
    return 1 if claim != "high" else 2 if reason != dialogue.scenario.answer else None


def seller(recipe: Recipe, seed: int, partners: int, chat: int = 3) -> TalkBench:
    return TalkBench(Sale(chat), sales(partners), WORDS, recipe, view=view, prior=manners, seed=seed)


JUDGED = SDPO.but({"rollout.judge": NamedBy(went_wrong), "objective.beta": 1.0})
"""With the toy's own judge, and a beta that suits single words."""


@functools.cache
def collected() -> tuple[Batch, list[Trajectory]]:
    """Pairs of a policy that has learnt a little, annotated, without credit."""
    bench = seller(JUDGED, 7, partners=6).run(2)
    result = bench.step()
    assert result.batch is not None
    plain = result.batch.occurrences
    weight = (~result.batch.forced[plain.decision]).float()
    return result.batch.credited(weight=weight), result.trajectories


def measured(recipe: Recipe, batch: Batch) -> tuple[float, torch.Tensor]:
    """Loss and gradient in the log-probs of the batch `[T]`, at the policy that sampled."""
    credited, _ = recipe.assess(batch, recipe.init(), {})
    logp = batch.logp["behaviour"].values.double().clone().requires_grad_()
    loss = recipe.loss(Evaluation(logp=logp), credited)[0].total()
    (gradient,) = torch.autograd.grad(loss, logp)
    return float(loss.detach()), gradient


def by_hand(batch: Batch, pairs: Sequence[Trajectory], turns: int | None, beta: float) -> tuple[float, torch.Tensor]:
    """The formula, from the dialogues' words: rows are a bad dialogue and the better one."""
    place = {id(turn): number for number, turn in enumerate(dict.fromkeys(t for one in pairs for t in one.turns))}
    starts = [int((batch.turn == number).nonzero()[0]) for number in range(batch.turns)]
    gap = (batch.logp["behaviour"].values - batch.logp["reference"].values).double().tolist()
    loss, gradient = 0.0, torch.zeros(batch.decisions, dtype=torch.float64)
    for bad, good in zip(pairs[::2], pairs[1::2], strict=True):
        said = [[turn.text for turn in one.turns] for one in (good, bad)]
        first = next(n for n, (a, b) in enumerate(zip(*said, strict=True)) if a != b)
        margin, touched = 0.0, []
        for one, sign in ((good, 1.0), (bad, -1.0)):
            for turn in one.turns[first : None if turns is None else first + turns]:
                at = starts[place[id(turn)]]
                margin += beta * sign * gap[at]
                touched.append((at, sign))
        loss += math.log1p(math.exp(-margin)) / (len(pairs) / 2)
        for at, sign in touched:
            gradient[at] -= sign * beta / (1 + math.exp(margin)) / (len(pairs) / 2)
    return loss, gradient


def _apart(one: tuple[float, torch.Tensor], other: tuple[float, torch.Tensor]) -> float:
    return max(abs(one[0] - other[0]), float((one[1] - other[1]).abs().max()))


@claim("The loss is the formula over the segment's turns, and so is the gradient.")
def it_is_the_formula() -> Finding:
    batch, pairs = collected()
    gaps = [
        _apart(measured(JUDGED.but({"credit.turns": k}), batch), by_hand(batch, pairs, k, 1.0)) for k in (1, 2, 3, 5)
    ]
    return Finding(
        max(gaps) < 1e-9 and len(pairs) >= 8,
        f"{len(pairs) // 2} pairs: loss and gradient of k = 1, 2, 3 and 5, counted anew from what was said: "
        f"{max(gaps):.1e}",
    )


@claim("Masked to one turn it is turn-level DPO.")
def one_turn_is_turn_level() -> Finding:
    """Plain DPO on the error turns alone, everything before and after left out as dialogues of one turn."""
    batch, pairs = collected()
    ours = measured(JUDGED.but({"credit.turns": 1}), batch)
    weight = torch.zeros_like(batch.occurrences.weight)
    for number, one in enumerate(pairs):
        other = pairs[number ^ 1]
        turn = next(
            place for place, pair in enumerate(zip(one.turns, other.turns, strict=True)) if pair[0] is not pair[1]
        )
        weight[(batch.occurrences.trajectory == number).nonzero().flatten()[turn]] = 1.0
    plain = measured(DPO.but({"objective.beta": 1.0}), batch.credited(weight=weight))
    moved = float(plain[1].abs().max())
    return Finding(
        _apart(ours, plain) < 1e-12 and moved > 1e-3,
        f"k = 1 against DPO on dialogues of which the error turn alone counts: {_apart(ours, plain):.1e}",
    )


@claim("With the whole tail it is session-level DPO.")
def whole_tail_is_session_level() -> Finding:
    """Plain DPO on whole dialogues, what they have in common included: it cancels."""
    batch, pairs = collected()
    tail = measured(JUDGED.but({"credit.turns": None}), batch)
    session = measured(DPO.but({"objective.beta": 1.0}), batch)
    shared = sum(
        one is other
        for bad, good in zip(pairs[::2], pairs[1::2], strict=True)
        for one in bad.turns
        for other in good.turns
    )
    return Finding(
        _apart(tail, session) < 1e-12 and shared >= len(pairs) / 2,
        f"the whole tail against DPO on whole dialogues, {shared} turns of them shared: {_apart(tail, session):.1e}",
    )


class TwoSpeak(Workflow):
    """An agent and a partner that is a policy too, three turns each; what the agent says in the second one counts."""

    roles = ("agent", "partner")

    async def play(self, scenario: Scenario, team: Team) -> Outcome:
        said, heard = [], "begin"
        for _ in range(3):
            said.append(str(await team.agent(heard)))
            heard = str(await team.partner(said[-1]))
        return Outcome(rewards={"deal": float(said[1] == "high")})


@claim("Tokens of the partner, and the agent's outside the segment, have zero gradient.")
def partner_is_context() -> Finding:
    """Partner and agent are one policy here; still only the agent's turns in the segment have a gradient."""
    recipe = SDPO.but({"rollout.judge": NamedBy(lambda *_: 1), "rollout.role": "agent", "credit.role": "agent"})
    bench = TalkBench(TwoSpeak(), [Scenario(f"s{n}", "?") for n in range(8)], ("low", "high"), recipe, seed=2)
    moved, outside, partner = 0, 0.0, 0.0
    for k in (1, 2, 3):
        trained = recipe.but({"credit.turns": k})
        batch, pairs = _pairs_of(bench, trained)
        _, gradient = measured(trained, batch)
        for number in sorted(set(batch.turn.tolist())):
            own = float(gradient[batch.turn == number].abs().max())
            speaker = batch.names["role"][int(batch.role[number])]
            place = int(batch.index[number]) // 2
            if speaker == "partner":
                partner = max(partner, own)
            elif 1 <= place < 1 + k:
                moved += own > 0
            else:
                outside = max(outside, own)
    return Finding(
        partner == 0 and outside == 0 and moved >= 8 and len(pairs) >= 4,
        f"gradient on the partner's tokens {partner:.1e}, on the agent's outside the segment {outside:.1e}; {moved} "
        "turns in segments have one",
    )


def _pairs_of(bench: TalkBench, recipe: Recipe) -> tuple[Batch, list[Trajectory]]:
    bench.done += 1
    experience, _ = run_async(collect(bench.parts, bench.parts.key.derive("pairs", bench.done)))
    result = learn_from(bench.parts, bench.done, experience, [], rollout=1.0)
    assert result.batch is not None
    weight = (~result.batch.forced[result.batch.occurrences.decision]).float()
    return result.batch.credited(weight=weight), result.trajectories


@dataclass(frozen=True)
class Beside:
    """A judge, and whether what it named was what another names, dialogue by dialogue."""

    judge: TurnJudge
    other: TurnJudge
    alike: list[bool]

    async def __call__(self, finished: Sequence[Finished], *, play: Play, score: Grade, key: Key) -> list[list[int]]:
        named = await self.judge(finished, play=play, score=score, key=key)
        wanted = await self.other(finished, play=play, score=score, key=key)
        self.alike.extend(one[:1] == right[:1] for one, right in zip(named, wanted, strict=True) if right)
        return named


@claim("The error turn is found by playing on from every history.", "derived")
def probes_find_the_turn() -> Finding:
    """Asked nobody, the locator finds the toy's error turn from what dialogues that go on are worth."""
    alike: list[bool] = []
    judge = Beside(ProbedTurns(rollouts=24), NamedBy(went_wrong), alike)
    bench = seller(SDPO.but({"rollout.judge": judge, "rollout.continuations": 1}), 3, partners=7)
    run_async(collect(bench.parts, bench.parts.key.derive("probe")))
    return Finding(
        fmean(alike) >= 0.8 and len(alike) >= 12,
        f"of {len(alike)} dialogues of 6 turns the error turn is found in {fmean(alike):.0%}, by 24 dialogues from "
        "each history",
    )


STEPS, PARTNERS, CHAT = 30, 20, 12
BAD = JUDGED.but({"rollout.good": 0.05, "rollout.continuations": 16, "update.method": "sgd", "update.lr": 4.0})
"""Only sales that brought nothing are bad, so what went wrong is the claim, and one turn decided."""


ARMS: Mapping[str, int | None] = {"turn": 1, "segment": 3, "session": None}


@functools.cache
def sold(seed: int) -> dict[str, float]:
    """The exact mean deal after `STEPS` on the same pairs, by segment."""
    bench = seller(BAD, seed, PARTNERS, CHAT)
    experience, _ = run_async(collect(bench.parts, bench.parts.key.derive("pairs")))
    policy, found = bench.policies["policy"], {}
    for arm, turns in ARMS.items():
        with torch.no_grad():
            policy.module.logits.zero_()
        bench.parts.learners = {"policy": Learner(policy, BAD.but({"credit.turns": turns}), total_steps=STEPS)}
        for step in range(1, STEPS + 1):
            learn_from(bench.parts, step, experience, [], rollout=1.0)
        found[arm] = expected_deal(bench)
    return found


def expected_deal(bench: TalkBench) -> float:
    policy, found = bench.policies["policy"], []
    for thing, answer in GOODS.items():
        opening: list[Message] = [
            {"role": "user", "content": f"x: a {thing}"},
            {"role": "assistant", "content": "hello"},
        ]
        claims = policy.probabilities(*opening, "what do you ask?")
        value = 0.0
        for claim in CLAIMS:
            reasons = policy.probabilities(*opening, f"{claim}? why?")
            chance, fits = float(claims[WORDS.index(claim)]), float(reasons[WORDS.index(answer)])
            value += chance * (VALUE[claim] + (BONUS * fits if claim == "high" else 0.0))
        found.append(value)
    return fmean(found)


@claim(
    "In a negotiation that one turn decides, the segment reaches a higher deal than one turn and than the "
    "session, from the same pairs.",
    slow=True,
)
def segment_beats_both() -> Finding:
    found = {arm: [sold(seed)[arm] for seed in SEEDS] for arm in ARMS}
    before = expected_deal(seller(JUDGED, 0, PARTNERS))
    ahead = min(
        one - max(turn, whole)
        for one, turn, whole in zip(found["segment"], found["turn"], found["session"], strict=True)
    )
    return Finding(
        ahead > 0.04,
        f"mean deal, {before:.2f} before, after {STEPS} steps on the same pairs: one turn {_shown(found['turn'])}; "
        f"segment of 3 {_shown(found['segment'])}; session {_shown(found['session'])}; smallest lead {ahead:.2f}",
    )


def _shown(numbers: Sequence[float]) -> str:
    return " ".join(f"{number:.2f}" for number in numbers)
