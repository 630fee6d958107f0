"""CPMöbius's claims, on a ladder: a problem of difficulty d asks for the first d words of one chain of 12."""

from __future__ import annotations

import functools
import math
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, replace
from statistics import fmean, stdev
from typing import Any

from hocket.core.packing import pack
from hocket.lab.claims.harness import Claims, Finding, gap, say
from hocket.lab.talk import TalkBench, TalkTask
from hocket.lab.toys.rewarded import line
from hocket.methods.teams.cpmobius import CPMOBIUS, INSTRUCTION, CoachPlayer, LearningProgress, unique_majority
from hocket.objectives.entropy import EntropyBonus
from hocket.stages import Split
from hocket.train.aio import run_async
from hocket.types import Message, Scenario
from hocket.workflows.reply import Reply
from hocket.workflows.team import Team

claim = Claims("cpmobius", "section 4")
SEEDS = range(10, 15)
RUNGS, STEPS, LOW, HIGH = 12, 150, 0.2, 0.8
LETTERS = tuple("abcdefgh")
KNOBS = tuple(f"level{d}" for d in range(1, RUNGS + 1))
VOCABULARY = (*LETTERS, *KNOBS)
CHAIN = tuple(LETTERS[(2 * place + place // 2) % len(LETTERS)] for place in range(RUNGS))
WHOLE = f"chain 0 to {KNOBS[-1]}"
HELD_OUT = [Scenario("held out", WHOLE, " ".join(CHAIN))]
KNOWN = (0.97, *(0.35,) * 11)
"""How likely the right word of each rung is before training, once all words before are right."""


@dataclass(frozen=True)
class Ladder(CoachPlayer):
    """The coach names a difficulty; the problem is the chain up to that rung."""

    def problem(self, said: str, team: Team) -> str:
        return f"chain 0 to {said}"

    def attempt(self, problem: str, team: Team) -> Coroutine[Any, Any, Reply]:
        words = replace(team.assignment.decoding, max_tokens=int(problem.rsplit("level", 1)[-1]))
        return team.player.fresh()(problem, state=problem, decoding=words)


def view(messages: tuple[Message, ...]) -> tuple[str, ...]:
    """The player sees which chain it is, so that what is learnt for one difficulty serves all; the coach nothing."""
    words = str(messages[-1]["content"]).split()
    return ("chain", words[1]) if words[0] == "chain" else ("coach",)


def start(messages: tuple[Message, ...], said: tuple[str, ...]) -> Mapping[str, float]:
    """The player knows the first rungs better than the last, off the chain nothing; the coach's words are even."""
    if view(messages)[0] == "coach":
        return dict.fromkeys(LETTERS, -30.0)
    off, place = dict.fromkeys(KNOBS, -30.0), len(said)
    if said != CHAIN[:place] or place >= RUNGS:
        return off
    return off | {CHAIN[place]: math.log((len(LETTERS) - 1) * KNOWN[place] / (1 - KNOWN[place]))}


def levels(bench: TalkBench) -> list[float]:
    """The player's exact accuracy by difficulty: the chance of the first d words of the chain."""
    chances = [1.0]
    for place, word in enumerate(CHAIN):
        words = bench.policies["player"].probabilities(WHOLE, said=CHAIN[:place])
        chances.append(chances[-1] * float(words[VOCABULARY.index(word)]))
    return chances[1:]


def mass(bench: TalkBench) -> list[float]:
    """How likely the coach names each difficulty."""
    words = bench.policies["coach"].probabilities(INSTRUCTION)
    return [float(words[VOCABULARY.index(knob)]) for knob in KNOBS]


def bench(kind: str, seed: int, momentum: float | None = 0.7) -> TalkBench:
    """A coach paid for progress, one that stays uniform, or one paid at once for the player's failures. A batch is one
    choice of the coach, twice. Where that is outside the band the player learns nothing and the coach is paid for that.
    The code's entropy bonus keeps the coach from staying on what was the frontier once."""
    once = {"curriculum.prompts": 1, "rollout.samples": 2, "rollout.max_rounds": 1, "rollout.empty": True}
    # Adam's momentum would go on moving rows that are no longer asked for.
    recipe = CPMOBIUS.but({**once, "update.method": "sgd", "update.lr": 3.0})
    recipe = recipe.but(rewards=(LearningProgress(problems=1, momentum=momentum),))
    adverse = kind == "adversary"
    if adverse:
        recipe = recipe.but({"rollout.low": 0.0, "rollout.high": 1.0, "rewards": ()})
    coach = recipe.but({"update.lr": 2.0, "regularisers": (EntropyBonus(coefficient=0.2),)})
    flow = Ladder(solutions=12, alike=not adverse, adversarial=adverse)
    still = frozenset({"coach"} if kind == "uniform" else ())
    how: dict[str, Any] = {"length": RUNGS, "view": view, "prior": start, "recipes": {"coach": coach}, "frozen": still}
    how |= {"prompts": 1, "seed": seed, "capacity": 16384, "measure": lambda played: fmean(levels(made))}
    made: TalkBench = TalkBench(flow, HELD_OUT, VOCABULARY, recipe, **how)
    actors = {**made.player.actors, "coach": replace(made.player.actors["coach"], decoding={"max_tokens": 1})}
    made.parts.player = replace(made.player, actors=actors)
    return made


@functools.cache
def course(kind: str, seed: int, momentum: float | None = 0.7) -> dict[str, float]:
    """How a run went that was looked at every five steps, exactly. accuracy: at the end, the mean over difficulties.
    focus: the coach's mass on difficulties that the player solves with a chance in the band, over what a uniform coach
    has there, mean over the run; late: over its last third. harder: its mass on those solved less often, at the end.
    rise: how far the middle of its mass moved up from the first third to the last."""
    trained, focus, middles = bench(kind, seed, momentum), [], []
    for _ in range(STEPS // 5):
        trained.run(5)
        right, given = levels(trained), mass(trained)
        band = [LOW <= accuracy <= HIGH for accuracy in right]
        focus.append(sum(one for one, inside in zip(given, band, strict=True) if inside) * RUNGS / max(1, sum(band)))
        middles.append(sum(d * one for d, one in enumerate(given)))
    third = len(focus) // 3
    harder = sum(one for one, accuracy in zip(given, right, strict=True) if accuracy < LOW)
    rise = fmean(middles[-third:]) - fmean(middles[:third])
    ends = {"accuracy": fmean(right), "focus": fmean(focus), "late": fmean(focus[-third:])}
    return {**ends, "harder": harder, "rise": rise}


def courses(figure: str, kind: str, momentum: float | None = 0.7) -> list[float]:
    """A figure of the runs of all seeds."""
    return [course(kind, seed, momentum)[figure] for seed in SEEDS]


@claim(
    "paid for learning progress the Coach moves its mass to the Player's frontier and follows it",
    "section 3",
    slow=True,
)
def _() -> Finding:
    focus, late, rise = (courses(name, "progress") for name in ("focus", "late", "rise"))
    error = stdev(rise) / len(SEEDS) ** 0.5
    holds = min(focus) > 1.0 and fmean(focus) > 1.5 and fmean(late) > 1.5 and fmean(rise) > 2 * error
    band = {"all steps": line(focus), "last third": line(late)}
    return Finding(holds, say(mass_in_the_band_over_a_uniform_coachs=band, rise_of_its_middle=fmean(rise), error=error))


@claim("the Player ends above that of a uniform and of an adversarial Coach", slow=True)
def _() -> Finding:
    own, *others = (courses("accuracy", kind) for kind in ("progress", "uniform", "adversary"))
    ahead = [sum(a > b for a, b in zip(own, other, strict=True)) for other in others]
    error = (stdev(own) + max(map(stdev, others))) / len(SEEDS) ** 0.5
    means = dict(zip(("uniform", "adversary"), map(fmean, others), strict=True))
    before = fmean(math.prod(KNOWN[: d + 1]) for d in range(RUNGS))
    saw = say(accuracy={"before": before, "progress": fmean(own), **means}, error=error, ahead_of_5=str(ahead))
    return Finding(fmean(own) - max(means.values()) > 2 * error and min(ahead) >= 4, saw)


@claim("without a baseline, one choice per batch, it does not end above a uniform Coach here", "derived", slow=True)
def _() -> Finding:
    # The paper's reward as it is: any progress is good, so what was the frontier once is never left for more.
    plain = courses("accuracy", "progress", None)
    fair, better = (courses("accuracy", kind) for kind in ("uniform", "progress"))
    gaps = [one - other for one, other in zip(plain, fair, strict=True)]
    error = stdev(gaps) / len(SEEDS) ** 0.5
    saw = say(plain=line(plain), minus_uniform=fmean(gaps), error=error, with_a_running_mean=fmean(better))
    return Finding(fmean(gaps) < 2 * error and fmean(plain) < fmean(better), saw)


@claim("an adversarial Coach drifts to problems the Player cannot solve", slow=True)
def _() -> Finding:
    adverse, fair, own = (courses("harder", kind) for kind in ("adversary", "uniform", "progress"))
    holds = fmean(adverse) > 0.75 and fmean(adverse) > fmean(fair) + 0.15 and fmean(own) < fmean(fair)
    ends = {"adversarial": line(adverse), "uniform": fmean(fair), "progress": fmean(own)}
    return Finding(holds, say(mass_at_the_end_on_what_is_solved_in_less_than_a_fifth=ends))


@claim(
    "the Coach is paid 100 times the change in the Player's accuracy, and not updated when there is none",
    "authors' code",
)
def _() -> Finding:
    trained, gaps, paid, still = bench("progress", 0, momentum=None), [], 0, 0
    coach = trained.learners["coach"]
    for _ in range(12):
        before, weights = fmean(levels(trained)), trained.policies["coach"].module.logits.detach().clone()
        result = trained.step()
        gained = 100 * (fmean(levels(trained)) - before)
        if gained == 0:
            gaps.append(float(not bool((trained.policies["coach"].module.logits == weights).all())))
            still += gaps[-1] == 0
            continue
        batch, paid = pack(result.trajectories), paid + 1
        at = coach.recipe.compute_credit(batch, coach.recipe.init(), trained.parts.weights)[0].occurrences
        mine = batch.policy[batch.turn[at.decision]] == batch.names["policy"].index("coach")
        gaps.append(gap(at.advantage[mine], gained))
        for one in result.trajectories:
            earned = [value for value in one.scores["own"].value if value is not None]  # type: ignore[union-attr]
            gaps.append(float(earned != unique_majority([turn.text for turn in one.turns[1:]])))
    holds = max(gaps) < 1e-9 and paid >= 3 and still >= 2
    return Finding(holds, say(steps_with_progress=paid, off_by=max(gaps), steps_without_and_still=still))


@claim("problems are the Coach's alone, the Coach is paid on one split of the task, and another measures the run")
def _() -> Finding:
    asked = list[tuple[str, int]]()

    class Watched(TalkTask):
        def scenario(self, split: Split, number: int) -> Scenario:
            asked.append((split, number))
            return super().scenario(split, number)

    made = bench("progress", 0, momentum=None)
    made.parts.task = Watched(HELD_OUT * 3, measure=made.parts.task.success)
    made.run(2)
    paid_on = {split for split, _ in asked}
    run_async(made.parts.evaluate(1, key=made.parts.key))
    holds = paid_on == {"train"} and asked[-1][0] == "eval" and LearningProgress() in CPMOBIUS.rewards
    return Finding(holds, say(split_the_Coach_is_paid_on=str(paid_on), the_run=asked[-1][0]))


claim.shipped(CPMOBIUS, without={"rollout.low": 0.0, "rollout.high": 1.0}, trains=("player",))
