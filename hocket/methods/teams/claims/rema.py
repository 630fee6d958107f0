"""What rema claims."""

from __future__ import annotations

import functools
import math
import statistics
from collections.abc import Hashable

from hocket.core.keys import Key
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.microscope import Reading, look
from hocket.lab.talk import TalkBench
from hocket.lab.toys.answering_teams import SEEDS, Alone
from hocket.lab.toys.rewarded import document
from hocket.methods.base.grpo import GRPO
from hocket.methods.teams.rema import REMA, MetaReasoner
from hocket.recipe import Recipe
from hocket.types import Evaluation, Message, Scenario

claim = Claims("rema", "arXiv:2503.09501 and the authors' code")


def turns_document(key: Key, *, gap: float = 0.3) -> dict[str, object]:
    """Random trajectories of 1 to 4 turns of 1 to 4 decisions."""
    rng = key.numpy()
    rows = []
    for number in range(8):
        lengths = rng.integers(1, 5, int(rng.integers(1, 5)))
        turn = [place for place, length in enumerate(lengths) for _ in range(int(length))]
        behaviour = -rng.exponential(1.0, len(turn)) - 1.0
        rows.append(
            {
                "group": f"group {number % 2}",
                "scores": {"reward": float(rng.random())},
                "turn": turn,
                "logp_behaviour": behaviour.tolist(),
                "logp": (behaviour + gap * rng.normal(size=len(turn))).tolist(),
            }
        )
    return document(rows)


def ratios(recipe: Recipe, batch: dict[str, object]) -> list[float]:
    """The ratio of each occurrence's turn."""
    read = Reading(batch)
    objective = recipe.objective
    own = read.logp[read.batch.occurrences.decision] - read.batch.logp["behaviour"].values
    return objective.ratio(own, read.batch).tolist()  # type: ignore[attr-defined,no-any-return]


@claim("the turn-level ratio is 1 for every turn when pi = pi_old")
def ratio_is_one_at_first() -> Finding:
    """At pi = pi_old every turn's ratio is 1 and the gradient is A / (turns, trajectories, decisions of the turn)."""
    batch = turns_document(Key.of(1), gap=0.0)
    found = look(REMA, batch)
    worst = max(abs(ratio - 1) for mean in ("geometric", "arithmetic") for ratio in _of(mean, batch))
    rows = batch["trajectories"]
    for row, gradient, advantage in zip(rows, found["gradient"], found["advantages"], strict=True):  # type: ignore[call-overload]
        turns = row["turn"]
        for turn, g, a in zip(turns, gradient, advantage, strict=True):
            want = -a / (len(rows) * len(set(turns)) * turns.count(turn))  # type: ignore[arg-type]
            worst = max(worst, abs(g - want))
    return Finding(worst < 1e-12, f"ratios and gradients within {worst:.1e}")


def _of(mean: str, batch: dict[str, object]) -> list[float]:
    return ratios(REMA.but({"objective.mean": mean}), batch)


@claim("a turn made twice as long with the same log-ratios keeps its loss")
def longer_turns_keep_their_loss() -> Finding:
    """A turn said twice over, with the same log-ratios, leaves the loss as it is; a token-level loss moves."""
    batch = turns_document(Key.of(2))
    rows = [dict(row) for row in batch["trajectories"]]  # type: ignore[attr-defined]
    for row in rows:
        keep = [place for place, turn in enumerate(row["turn"]) for _ in range(2 if turn == 0 else 1)]
        for name in ("turn", "logp", "logp_behaviour"):
            row[name] = [row[name][place] for place in keep]
    moved = {}
    for recipe in (REMA, REMA.but({"objective.mean": "arithmetic"}), GRPO):
        moved[recipe.objective] = abs(look(recipe, batch)["loss"] - look(recipe, document(rows))["loss"])
    geometric, arithmetic, tokens = moved.values()
    holds = max(geometric, arithmetic) < 1e-12 and tokens > 1e-4
    return Finding(
        holds, f"the loss moves by {geometric:.1e} and {arithmetic:.1e} (arithmetic); GRPO's by {tokens:.1e}"
    )


@claim("the geometric ratio never exceeds the arithmetic one")
def geometric_stays_below() -> Finding:
    """The geometric mean never exceeds the arithmetic one, and both agree in first order."""
    above, furthest = -math.inf, 0.0
    for seed in range(20):
        batch = turns_document(Key.of(seed), gap=0.5)
        uncapped = {mean: ratios(REMA.but({"objective.mean": mean, "objective.cap": None}), batch) for mean in MEANS}
        above = max(above, *(g - a for g, a in zip(uncapped["geometric"], uncapped["arithmetic"], strict=True)))
        near = turns_document(Key.of(seed), gap=1e-4)
        both = [_of(mean, near) for mean in MEANS]
        furthest = max(furthest, *(abs(g - a) for g, a in zip(*both, strict=True)))
    return Finding(
        above <= 1e-12 and furthest < 1e-6, f"largest excess {above:.1e}; {furthest:.1e} apart at gaps of 1e-4"
    )


MEANS = ("geometric", "arithmetic")


@claim("log-ratios of turns are capped at 3, bad turns' losses at three times A")
def turns_are_bounded() -> Finding:
    """Far from the old policy: no ratio above e^3, and no loss of a bad turn beyond three times its advantage."""
    batch = turns_document(Key.of(5), gap=8.0)
    largest = max(max(_of(mean, batch)) for mean in MEANS)
    read = Reading(batch)
    assessed, _ = REMA.assess(read.batch, REMA.init(), {})
    (terms,) = REMA.loss(Evaluation(read.logp), assessed)
    advantage = assessed.occurrences.advantage
    bad = advantage < 0
    excess = float((terms.value[bad] - 3 * advantage[bad].abs()).max())
    holds = largest <= math.exp(3) * (1 + 1e-12) and excess <= 1e-12
    return Finding(holds, f"largest ratio {largest:.3f} of {math.exp(3):.3f}; excess over the dual bound {excess:.1e}")


DIGITS = ("0", "1", "2")
KINDS = 12
ROWS = KINDS + len(DIGITS) ** 2
"""Of the team's two tables together: a kind each for the meta-thinker, advice and number for the reasoner."""


def _routines() -> list[Scenario]:
    """The kind of a question says which of two routines gives the answer from its number: n, or n + 1."""
    other = Key.of(11).numpy().permutation(KINDS) < KINDS // 2
    return [
        Scenario(f"{kind} {n}", f"kind {kind} number {n}", answer=DIGITS[(n + int(other[kind])) % 3])
        for kind in range(KINDS)
        for n in range(3)
    ]


def _split_view(messages: tuple[Message, ...]) -> Hashable:
    """The meta-thinker sees the kind alone, the reasoner the number and the advice."""
    words = str(messages[-1]["content"]).split()
    return ("kind", words[1]) if "Advice:" not in words else ("number", words[3], words[-1])


def _small_view(messages: tuple[Message, ...]) -> Hashable:
    """What a single agent of as many rows can tell apart: the number, and the kind up to a multiple."""
    words = str(messages[-1]["content"]).split()
    return (int(words[1]) % (ROWS // len(DIGITS)), words[3])


@functools.cache
def _thinkers(seed: int) -> tuple[float, float, float, int]:
    """Exact success of the team after 120 steps, with every advice replaced by one, and of a single agent; its rows."""
    team = TalkBench(
        MetaReasoner(system=False), _routines(), DIGITS, REMA, view=_split_view, seed=seed, lr=0.3, prompts=18
    )
    single = TalkBench(Alone(), _routines(), DIGITS, GRPO, view=_small_view, seed=seed, lr=0.3, prompts=18)
    team.run(120)
    single.run(120)
    alone = single.expected()
    return _with_advice(team, None), _with_advice(team, "0"), alone, len(single.policies["policy"].rows)


def _with_advice(team: TalkBench, advice: str | None) -> float:
    meta, reasoner = team.policies["meta"], team.policies["reasoner"]
    found = 0.0
    for scenario in team.scenarios:
        said = meta.probabilities(str(scenario.prompt))
        for place, word in enumerate(DIGITS):
            answer = reasoner.probabilities(f"{scenario.prompt}\nAdvice: {advice or word}")
            found += float(said[place] * answer[DIGITS.index(str(scenario.answer))])
    return found / len(team.scenarios)


@claim("two small policies in turn beat one of the same size; with shuffled plans they do not", "section 4", slow=True)
def rema_beats_a_single_agent() -> Finding:
    found = [_thinkers(seed) for seed in SEEDS]
    team, shuffled, single = (statistics.fmean(one[place] for one in found) for place in range(3))
    ahead, rows = sum(one[0] > one[2] for one in found), found[0][3]
    return Finding(
        team > single + 0.05 and ahead >= 4 and shuffled < team - 0.1,
        f"after 120 steps of 18 questions the team ({ROWS} rows in two tables) is right in {team:.3f}, a single agent "
        f"of {rows} rows in {single:.3f} (team ahead in {ahead} of 5 seeds); with one advice for all {shuffled:.3f}",
    )
