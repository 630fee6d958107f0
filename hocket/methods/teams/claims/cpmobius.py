"""What cpmobius claims."""

from __future__ import annotations

import functools
import math
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, replace
from statistics import fmean, stdev
from typing import Any

from hocket.core.packing import pack
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.talk import TalkBench
from hocket.methods.teams.cpmobius import CPMOBIUS, INSTRUCTION, CoachPlayer, LearningProgress, unique_majority
from hocket.objectives.entropy import EntropyBonus
from hocket.types import Message, Scenario
from hocket.workflows.reply import Reply
from hocket.workflows.team import Team

claim = Claims("cpmobius", "section 4")


SEEDS = range(10, 15)
RUNGS = 12
"""Difficulties: a problem of difficulty d asks for the first d words of a chain, each learnt only on the way."""


LETTERS = tuple("abcdefgh")
KNOBS = tuple(f"level{d}" for d in range(1, RUNGS + 1))
CHAINS = 1
KNOWN = (0.97, *(0.35,) * 11)
"""How likely the right word of each rung is before training, once all words before are right."""


def chain(number: int) -> tuple[str, ...]:
    """The right words of a chain."""
    return tuple(LETTERS[(number + 2 * place + place // 2) % len(LETTERS)] for place in range(RUNGS))


@dataclass(frozen=True)
class Ladder(CoachPlayer):
    """The coach names a difficulty; the problem is one of the chains, up to that rung."""

    def problem(self, said: str, team: Team) -> str:
        number = team.key.derive("chain").word % CHAINS
        return f"chain {number} to {said}"

    def attempt(self, problem: str, team: Team) -> Coroutine[Any, Any, Reply]:
        words = replace(team.assignment.decoding, max_tokens=rung(problem))
        return team.player.fresh()(problem, state=problem, decoding=words)


def rung(problem: str) -> int:
    """How many words a problem asks for."""
    return int(problem.rsplit("level", 1)[-1])


def view(messages: tuple[Message, ...]) -> tuple[str, ...]:
    """The player sees which chain it is, so that what is learnt for one difficulty serves all; the coach nothing."""
    words = str(messages[-1]["content"]).split()
    return ("chain", words[1]) if words[0] == "chain" else ("coach",)


def start(messages: tuple[Message, ...], said: tuple[str, ...]) -> Mapping[str, float]:
    """The player knows the first rungs better than the last, off the chain nothing; the coach's words are even."""
    seen = view(messages)
    if seen[0] == "coach":
        return dict.fromkeys(LETTERS, -30.0)
    right, off = chain(int(seen[1])), dict.fromkeys(KNOBS, -30.0)
    place = len(said)
    if said != right[:place] or place >= RUNGS:
        return off
    return off | {right[place]: math.log((len(LETTERS) - 1) * KNOWN[place] / (1 - KNOWN[place]))}


HELD_OUT = [Scenario("held out", f"chain 0 to {KNOBS[-1]}", answer=" ".join(chain(0)))]
"""What progress is measured on; see `bench`."""


def levels(bench: TalkBench) -> list[float]:
    """The player's exact accuracy by difficulty: the chance of the first d words of the chain."""
    found, right = [1.0], chain(0)
    for place, word in enumerate(right):
        words = bench.policies["player"].probabilities(f"chain 0 to {KNOBS[-1]}", said=right[:place])
        found.append(found[-1] * float(words[VOCABULARY.index(word)]))
    return found[1:]


def mass(bench: TalkBench) -> list[float]:
    """How likely the coach names each difficulty."""
    words = bench.policies["coach"].probabilities(INSTRUCTION)
    return [float(words[VOCABULARY.index(knob)]) for knob in KNOBS]


VOCABULARY = (*LETTERS, *KNOBS)
PACE, COACH_PACE, CURIOSITY = 3.0, 2.0, 0.2
LOW, HIGH = 0.2, 0.8


def bench(kind: str, seed: int, momentum: float | None = 0.7) -> TalkBench:
    """A coach paid for progress, one that stays uniform, or one paid at once for the player's failures.

    A batch is one choice of the coach, twice. Where that is outside the band the player learns nothing and the coach is
    paid for that. The code's entropy bonus keeps the coach from staying on what was the frontier once.
    """
    recipe = CPMOBIUS.but(
        {
            "curriculum.prompts": 1,
            "rollout.samples": 2,
            "rollout.max_rounds": 1,
            "rollout.empty": True,
            "rewards": (LearningProgress(problems=1, momentum=momentum),),
            "update.method": "sgd",  # Adam's momentum would go on moving rows that are no longer asked for.
            "update.lr": PACE,
        }
    )
    if kind == "adversary":
        recipe = recipe.but({"rollout.low": 0.0, "rollout.high": 1.0, "rewards": ()})
    coach = recipe.but({"update.lr": COACH_PACE, "regularisers": (EntropyBonus(coefficient=CURIOSITY),)})
    made: list[TalkBench] = []
    found = TalkBench(
        Ladder(solutions=12, alike=kind != "adversary", adversarial=kind == "adversary"),
        HELD_OUT,
        VOCABULARY,
        recipe,
        length=RUNGS,
        view=view,
        prompts=1,
        prior=start,
        recipes={"coach": coach},
        frozen=frozenset({"coach"} if kind == "uniform" else ()),
        measure=lambda played: fmean(levels(made[0])),
        seed=seed,
        capacity=16384,
    )
    made.append(found)
    seats = {**found.player.seats, "coach": replace(found.player.seats["coach"], decoding={"max_tokens": 1})}
    found.parts.player = replace(found.player, seats=seats)
    return found


@dataclass(frozen=True)
class Course:
    """How a run went.

    Attributes:
        accuracy: at the end, the mean over difficulties.
        focus: the coach's mass on difficulties that the player solves with a chance in the band, over what a uniform
            coach has there, mean over the run. late: likewise over the last third.
        harder: its mass on those solved less often, at the end.
        rise: how far the middle of its mass moved up from the first third to the last.
    """

    accuracy: float
    focus: float
    late: float
    harder: float
    rise: float


STEPS = 150


@functools.cache
def course(kind: str, seed: int, momentum: float | None = 0.7) -> Course:
    """Trains player and coach and looks at them every five steps, exactly."""
    trained, seen = bench(kind, seed, momentum), []
    for _ in range(STEPS // 5):
        trained.run(5)
        seen.append((levels(trained), mass(trained)))
    focus = [
        sum(one for one, accuracy in zip(given, found, strict=True) if LOW <= accuracy <= HIGH)
        * RUNGS
        / max(1, sum(LOW <= accuracy <= HIGH for accuracy in found))
        for found, given in seen
    ]
    third = len(seen) // 3
    middles = [sum(d * one for d, one in enumerate(given)) for _, given in seen]
    last, given = seen[-1]
    return Course(
        accuracy=fmean(last),
        focus=fmean(focus),
        late=fmean(focus[-third:]),
        harder=sum(one for one, accuracy in zip(given, last, strict=True) if accuracy < LOW),
        rise=fmean(middles[-third:]) - fmean(middles[:third]),
    )


def courses(kind: str) -> list[Course]:
    return [course(kind, seed) for seed in SEEDS]


@claim(
    "paid for learning progress the Coach moves its mass to the Player's frontier and follows it",
    "section 3",
    slow=True,
)
def coach_follows_the_frontier() -> Finding:
    found = courses("progress")
    focus, late, rise = ([getattr(one, name) for one in found] for name in ("focus", "late", "rise"))
    error = stdev(rise) / len(SEEDS) ** 0.5
    return Finding(
        min(focus) > 1.0 and fmean(focus) > 1.5 and fmean(late) > 1.5 and fmean(rise) > 2 * error,
        f"mass on difficulties in the band over a uniform coach's: {', '.join(f'{one:.1f}' for one in focus)}, in the "
        f"last third of {STEPS} steps {', '.join(f'{one:.1f}' for one in late)}; the middle of the mass rises by "
        f"{fmean(rise):.1f} of {RUNGS} rungs (standard error {error:.1f})",
    )


@claim("the Player ends above that of a uniform and of an adversarial Coach", slow=True)
def progress_ends_above() -> Finding:
    ends = {kind: [one.accuracy for one in courses(kind)] for kind in ("progress", "uniform", "adversary")}
    means = {kind: fmean(found) for kind, found in ends.items()}
    ahead = {
        kind: sum(a > b for a, b in zip(ends["progress"], ends[kind], strict=True)) for kind in ("uniform", "adversary")
    }
    worst = stdev(ends["progress"]) + max(stdev(ends["uniform"]), stdev(ends["adversary"]))
    error = worst / len(SEEDS) ** 0.5
    rest = max(means["uniform"], means["adversary"])
    return Finding(
        means["progress"] - rest > 2 * error and min(ahead.values()) >= 4,
        f"exact accuracy after {STEPS} steps from {START:.2f}: paid for progress {means['progress']:.3f}, uniform "
        f"{means['uniform']:.3f}, adversarial {means['adversary']:.3f} (standard error of a gap at most {error:.3f}); "
        f"ahead in {ahead['uniform']} and {ahead['adversary']} of {len(SEEDS)} seeds",
    )


@claim("without a baseline, one choice per batch, it does not end above a uniform Coach here", "derived", slow=True)
def without_baseline_it_is_no_better_than_uniform() -> Finding:
    """The paper's reward as it is: any progress is good, so what was the frontier once is never left for more."""
    plain = [course("progress", seed, None).accuracy for seed in SEEDS]
    fair, better = ([one.accuracy for one in courses(kind)] for kind in ("uniform", "progress"))
    gaps = [one - other for one, other in zip(plain, fair, strict=True)]
    error = stdev(gaps) / len(SEEDS) ** 0.5
    return Finding(
        fmean(gaps) < 2 * error and fmean(plain) < fmean(better),
        f"without a running mean: {', '.join(f'{one:.2f}' for one in plain)}, minus a uniform coach's "
        f"{fmean(gaps):+.3f} (standard error {error:.3f}); with it {fmean(better):.3f} on the average",
    )


@claim("an adversarial Coach drifts to problems the Player cannot solve", slow=True)
def adversary_drifts_to_the_unsolvable() -> Finding:
    found, fair = [one.harder for one in courses("adversary")], [one.harder for one in courses("uniform")]
    progress = [one.harder for one in courses("progress")]
    return Finding(
        fmean(found) > 0.75 and fmean(found) > fmean(fair) + 0.15 and fmean(progress) < fmean(fair),
        f"mass at the end on what the player solves in less than {LOW}: adversarial "
        f"{', '.join(f'{one:.2f}' for one in found)}; uniform {fmean(fair):.2f}, for progress {fmean(progress):.2f}",
    )


@claim(
    "the Coach is paid 100 times the change in the Player's accuracy, and not updated when there is none",
    "authors' code",
)
def coach_is_paid_the_change() -> Finding:
    """Its advantage is 100 times the change in accuracy, on all it said; the player's is that of its own answers."""
    trained = bench("progress", 0, momentum=None)
    gaps, paid, still = [], 0, 0
    for _ in range(12):
        before, coach = fmean(levels(trained)), trained.policies["coach"].module.logits.detach().clone()
        result = trained.step()
        gained = 100 * (fmean(levels(trained)) - before)
        moved = not bool((trained.policies["coach"].module.logits == coach).all())
        still += gained == 0 and not moved
        if gained == 0:
            gaps.append(float(moved))
            continue
        batch = pack(result.trajectories)
        recipe = trained.learners["coach"].recipe
        seen = recipe.assess(batch, recipe.init(), trained.parts.weights)[0].occurrences
        mine = batch.policy[batch.turn[seen.decision]] == batch.names["policy"].index("coach")
        gaps.append(float((seen.advantage[mine] - gained).abs().max()))
        for one in result.trajectories:
            earned = [value for value in one.scores["own"].value if value is not None]  # type: ignore[union-attr]
            gaps.append(float(earned != unique_majority([turn.text for turn in one.turns[1:]])))
        paid += 1
    return Finding(
        max(gaps) < 1e-9 and paid >= 3 and still >= 2,
        f"{paid} steps with progress: the coach's advantages are off 100 (after - before) by {max(gaps):.1e} at most; "
        f"in {still} without, its weights stay as they are",
    )


START = fmean(math.prod(KNOWN[: d + 1]) for d in range(RUNGS))
