"""ReMA's claims."""

from __future__ import annotations

import math
from collections.abc import Hashable
from statistics import fmean
from typing import Any

from hocket.agents.workflows.library import find as find_workflow
from hocket.core.keys import Key
from hocket.lab.claims.harness import EXACT, SEEDS, Claims, Finding, below, gap, inspect_rows, say
from hocket.lab.microscope import RecordedBatch
from hocket.lab.talk import TalkBench
from hocket.lab.toys.recorded_answers import document
from hocket.lab.toys.talks import SingleAgent
from hocket.methods.base.grpo import GRPO
from hocket.methods.teams.rema import REMA, ROUNDS, MetaReasoner
from hocket.testing import Cut, Part, rehearse
from hocket.types import Evaluation, Message, Scenario

claim = Claims("rema", "arXiv:2503.09501 and the authors' code")
MEANS = ("geometric", "arithmetic")


def episodes(seed: int, *, gap: float = 0.3) -> list[dict[str, Any]]:
    """Random trajectories of 1 to 4 turns of 1 to 4 decisions."""
    rng, rows = Key.of(seed).numpy(), []
    for number in range(8):
        lengths = rng.integers(1, 5, int(rng.integers(1, 5)))
        turn = [place for place, length in enumerate(lengths) for _ in range(int(length))]
        behaviour = -rng.exponential(1.0, len(turn)) - 1.0
        row = {"group": f"group {number % 2}", "scores": {"reward": float(rng.random())}, "turn": turn}
        logp = behaviour + gap * rng.normal(size=len(turn))
        rows.append({**row, "logp_behaviour": behaviour.tolist(), "logp": logp.tolist()})
    return rows


def ratios(mean: str, rows: list[dict[str, Any]], **changes: Any) -> list[float]:
    """The ratio of each occurrence's turn."""
    read, objective = RecordedBatch(document(rows)), REMA.but({"objective.mean": mean, **changes}).objective
    own = read.logp[read.batch.occurrences.decision] - read.batch.logp["behaviour"].values
    return objective.ratio(own, read.batch).tolist()  # type: ignore[attr-defined,no-any-return]


@claim("the turn-level ratio is 1 for every turn when pi = pi_old")
def the_turn_level_ratio_is_1_for_every_turn_when_pi_pi_old() -> Finding:
    rows = episodes(1, gap=0.0)
    made = inspect_rows(REMA, rows)
    wanted = []
    for row, own in zip(rows, made["advantages"], strict=True):
        each = len(rows) * len(set(row["turn"]))
        wanted.append([-a / (each * row["turn"].count(turn)) for turn, a in zip(row["turn"], own, strict=True)])
    off = max(abs(ratio - 1) for mean in MEANS for ratio in ratios(mean, rows))
    return below(EXACT, ratios_off_1=off, gradients_off=gap(made["gradient"], wanted))


@claim("a turn made twice as long with the same log-ratios keeps its loss")
def a_turn_made_twice_as_long_with_the_same_log_ratios_keeps_its() -> Finding:
    rows, longer = episodes(2), []
    for row in rows:
        kept = [place for place, turn in enumerate(row["turn"]) for _ in range(2 if turn == 0 else 1)]
        longer.append(row | {name: [row[name][place] for place in kept] for name in ("turn", "logp", "logp_behaviour")})
    recipes = (REMA, REMA.but({"objective.mean": "arithmetic"}), GRPO)
    moves = [gap(*(inspect_rows(one, some)["loss"] for some in (rows, longer))) for one in recipes]
    geometric, arithmetic, tokens = moves
    saw = say(geometric=geometric, arithmetic=arithmetic, GRPO=tokens)
    return Finding(max(geometric, arithmetic) < EXACT and tokens > 1e-4, f"the loss moves by: {saw}")


@claim("the geometric ratio never exceeds the arithmetic one")
def the_geometric_ratio_never_exceeds_the_arithmetic_one() -> Finding:
    above, furthest = -math.inf, 0.0
    for seed in range(20):
        geometric, arithmetic = (ratios(mean, episodes(seed, gap=0.5), **{"objective.cap": None}) for mean in MEANS)
        above = max(above, *(g - a for g, a in zip(geometric, arithmetic, strict=True)))
        furthest = max(furthest, gap(*(ratios(mean, episodes(seed, gap=1e-4)) for mean in MEANS)))
    return Finding(above <= EXACT and furthest < 1e-6, say(largest_excess=above, apart_at_gaps_of_1e_4=furthest))


@claim("log-ratios of turns are capped at 3, bad turns' losses at three times A")
def log_ratios_of_turns_are_capped_at_3_bad_turns_losses_at_three() -> Finding:
    rows = episodes(5, gap=8.0)
    largest, read = max(max(ratios(mean, rows)) for mean in MEANS), RecordedBatch(document(rows))
    batch, _ = REMA.compute_credit(read.batch, REMA.init(), {})
    (term,), advantage = REMA.loss(Evaluation(read.logp), batch), batch.occurrences.advantage
    excess = float((term.value + 3 * advantage)[advantage < 0].max())
    saw = say(largest_ratio=largest, cap=math.exp(3), excess_over_the_dual_bound=excess)
    return Finding(largest <= math.exp(3) * (1 + EXACT) and excess <= EXACT, saw)


@claim("the loss is the formula's: turns' ratios clipped 0.2 to either side, means over turns, then over trajectories")
def the_loss_is_the_formulas_turns_ratios_clipped_0_2_to_either() -> Finding:
    off, sides = 0.0, set[str]()
    for seed in range(20):
        rows = episodes(seed, gap=0.5)
        made, whole = inspect_rows(REMA, rows), 0.0
        for row, (advantage, *_) in zip(rows, made["advantages"], strict=True):
            moves = [now - old for now, old in zip(row["logp"], row["logp_behaviour"], strict=True)]
            for turn in set(row["turn"]):
                ratio = math.exp(min(3.0, fmean(m for m, at in zip(moves, row["turn"], strict=True) if at == turn)))
                gain = min(ratio * advantage, min(1.2, max(0.8, ratio)) * advantage)
                gain = max(gain, 3 * advantage) if advantage < 0 else gain
                sides |= (
                    {"low"} if ratio < 0.8 and advantage < 0 else {"high"} if ratio > 1.2 and advantage > 0 else set()
                )
                whole -= gain / len(set(row["turn"])) / len(rows)
        off = max(off, gap(made["loss"], whole))
    return below(EXACT, sides == {"low", "high"}, off_by_hand=off)


DIGITS, KINDS, STEPS = ("0", "1", "2"), 12, 120
ROWS = KINDS + len(DIGITS) ** 2
"""Of the team's two tables together: a kind each for the meta-thinker, advice and number for the reasoner."""
OTHER = (Key.of(11).numpy().permutation(KINDS) < KINDS // 2).tolist()
# The kind of a question says which of two routines gives the answer from its number: n, or n + 1.
ROUTINES = [
    Scenario(f"{kind} {n}", f"kind {kind} number {n}", answer=DIGITS[(n + OTHER[kind]) % 3])
    for kind in range(KINDS)
    for n in range(3)
]


def split_view(messages: tuple[Message, ...]) -> Hashable:
    """The meta-thinker sees the kind alone, the reasoner the number and the advice."""
    words = str(messages[-1]["content"]).split()
    return ("kind", words[1]) if "Advice:" not in words else ("number", words[3], words[-1])


def small_view(messages: tuple[Message, ...]) -> Hashable:
    """What a single agent of as many rows can tell apart: the number, and the kind up to a multiple."""
    words = str(messages[-1]["content"]).split()
    return (int(words[1]) % (ROWS // len(DIGITS)), words[3])


def success(team: TalkBench, advice: str | None = None) -> float:
    """Exact, and with every advice replaced by one where that is given."""
    meta, reasoner, total = team.policies["meta"], team.policies["reasoner"], 0.0
    for scenario in ROUTINES:
        for chance, word in zip(meta.probabilities(str(scenario.prompt)).tolist(), DIGITS, strict=False):
            answer = reasoner.probabilities(f"{scenario.prompt}\nAdvice: {advice or word}")
            total += float(chance * answer[DIGITS.index(str(scenario.answer))])
    return total / len(ROUTINES)


@claim("the meta-thinker learns for 10 steps, then the reasoner, and so on")
def the_meta_thinker_learns_for_10_steps_then_the_reasoner_and_so() -> Finding:
    bench = TalkBench(MetaReasoner(system=False), ROUTINES[:6], DIGITS, REMA, view=split_view, lr=0.3)
    learnt = []
    for _ in range(21):
        before = {name: one.module.logits.detach().clone() for name, one in bench.policies.items()}
        bench.step()
        after = {name: one.module.logits.detach() for name, one in bench.policies.items()}
        learnt.append({name for name in after if gap(before[name], after[name]) > 0})
    turns = [set[str]().union(*part) for part in (learnt[:10], learnt[10:20], learnt[20:])]
    return Finding(turns == [{"meta"}, {"reasoner"}, {"meta"}], say(learnt_in_each_turn=str(list(map(sorted, turns)))))


@claim("form is the share of one's messages that end by themselves, advice neither empty nor long; stop ends the talk")
def form_is_the_share_of_ones_messages_that_end_by_themselves() -> Finding:
    talks: dict[str, tuple[MetaReasoner, list[Any], list[Any], list[float], int]] = {
        # Of three messages one is too long, of two answers the first is cut.
        "stopped": (
            MetaReasoner(rounds=4, format_weight=0.5, longest=10),
            *(["short", "much too long", "[FINISH]"], [Cut("red"), "blue"]),
            *([0.5 / 3, 0.0, 0.0, 0.5 / 2, 0.5 / 3], 2),
        ),
        "to the end": (
            MetaReasoner(rounds=2, format_weight=0.5, stop=""),
            *(["", Cut("go on")], ["red", "blue"]),
            *([0.0, 0.25, 0.0, 0.25], 2),
        ),
    }
    off, holds = 0.0, True
    for flow, advice, answers, wanted, rounds in talks.values():
        parts = {"meta": Part(*advice), "reasoner": Part(*answers)}
        (played,) = rehearse(
            flow, Scenario("s", "which?", "blue"), parts, verifier=lambda text, _: float(text == "blue")
        )
        off = max(off, gap(played.scores["format"].value, wanted))
        holds &= ROUNDS.get(played) == rounds and played.scores["team"].value == 1.0
    return below(EXACT, holds, find_workflow(str(REMA.workflow)) == MetaReasoner(), off_by_hand=off)


@claim("two small policies in turn beat one of the same size; with shuffled plans they do not", "section 4", slow=True)
def two_small_policies_in_turn_beat_one_of_the_same_size_with() -> Finding:
    more: dict[str, Any] = {"lr": 0.3, "prompts": 18}
    flow = MetaReasoner(system=False)
    teams = [TalkBench(flow, ROUTINES, DIGITS, REMA, view=split_view, seed=n, **more).run(STEPS) for n in SEEDS]
    agents = [
        TalkBench(SingleAgent(), ROUTINES, DIGITS, GRPO, view=small_view, seed=n, **more).run(STEPS) for n in SEEDS
    ]
    right, alone = [success(team) for team in teams], [agent.expected() for agent in agents]
    shuffled, ahead = fmean(success(team, "0") for team in teams), sum(a > b for a, b in zip(right, alone, strict=True))
    saw = say(steps=STEPS, questions=18, team=fmean(right), rows_in_two_tables=ROWS, single_agent=fmean(alone))
    saw += ", " + say(its_rows=len(agents[0].policies["policy"].rows), team_ahead_in_seeds=ahead, one_advice=shuffled)
    return Finding(fmean(right) > fmean(alone) + 0.05 and ahead >= 4 and shuffled < fmean(right) - 0.1, saw)


claim.spares("rema: objective.horizon = 5120", "no length divides a mean over turns")

claim.shipped(REMA, "cast", trains=("meta",))
