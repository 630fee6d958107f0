"""CPMöbius's claims, on a ladder: a problem of difficulty d asks for the first d words of one chain of 12."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean, stdev
from typing import Any

import numpy as np
import torch

from hocket.agents.workflows.reply import Reply
from hocket.agents.workflows.team import Team
from hocket.core.batch import Level, RecordedNumbers
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.lab.claims.harness import Claims, Finding, cases, gap, say
from hocket.lab.talk import TalkBench, TalkTask
from hocket.lab.toys.recorded_answers import line
from hocket.methods.teams.cpmobius.method import (
    CPMOBIUS,
    INSTRUCTION,
    INVENT,
    PROBLEM,
    SHARE,
    CoachPlayer,
    Invented,
    LearningProgress,
    unique_majority,
)
from hocket.objectives.divergence import KLToReference
from hocket.objectives.entropy import EntropyBonus
from hocket.stages import Split
from hocket.testing import Part, rehearse
from hocket.train.aio import run_async
from hocket.types import Assignment, Evaluation, Message, Scenario, Score, Trajectory

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
def paid_for_learning_progress_the_coach_moves_its_mass_to_the() -> Finding:
    focus, late, rise = (courses(name, "progress") for name in ("focus", "late", "rise"))
    error = stdev(rise) / len(SEEDS) ** 0.5
    holds = min(focus) > 1.0 and fmean(focus) > 1.5 and fmean(late) > 1.5 and fmean(rise) > 2 * error
    band = {"all steps": line(focus), "last third": line(late)}
    return Finding(holds, say(mass_in_the_band_over_a_uniform_coachs=band, rise_of_its_middle=fmean(rise), error=error))


@claim("the Player ends above that of a uniform and of an adversarial Coach", slow=True)
def the_player_ends_above_that_of_a_uniform_and_of_an_adversarial() -> Finding:
    own, *others = (courses("accuracy", kind) for kind in ("progress", "uniform", "adversary"))
    ahead = [sum(a > b for a, b in zip(own, other, strict=True)) for other in others]
    error = (stdev(own) + max(map(stdev, others))) / len(SEEDS) ** 0.5
    means = dict(zip(("uniform", "adversary"), map(fmean, others), strict=True))
    before = fmean(math.prod(KNOWN[: d + 1]) for d in range(RUNGS))
    saw = say(accuracy={"before": before, "progress": fmean(own), **means}, error=error, ahead_of_5=str(ahead))
    return Finding(fmean(own) - max(means.values()) > 2 * error and min(ahead) >= 4, saw)


@claim("without a baseline, one choice per batch, it does not end above a uniform Coach here", "derived", slow=True)
def without_a_baseline_one_choice_per_batch_it_does_not_end_above_a() -> Finding:
    # The paper's reward as it is: any progress is good, so what was the frontier once is never left for more.
    plain = courses("accuracy", "progress", None)
    fair, better = (courses("accuracy", kind) for kind in ("uniform", "progress"))
    gaps = [one - other for one, other in zip(plain, fair, strict=True)]
    error = stdev(gaps) / len(SEEDS) ** 0.5
    saw = say(plain=line(plain), minus_uniform=fmean(gaps), error=error, with_a_running_mean=fmean(better))
    return Finding(fmean(gaps) < 2 * error and fmean(plain) < fmean(better), saw)


@claim("an adversarial Coach drifts to problems the Player cannot solve", slow=True)
def an_adversarial_coach_drifts_to_problems_the_player_cannot_solve() -> Finding:
    adverse, fair, own = (courses("harder", kind) for kind in ("adversary", "uniform", "progress"))
    holds = fmean(adverse) > 0.75 and fmean(adverse) > fmean(fair) + 0.15 and fmean(own) < fmean(fair)
    ends = {"adversarial": line(adverse), "uniform": fmean(fair), "progress": fmean(own)}
    return Finding(holds, say(mass_at_the_end_on_what_is_solved_in_less_than_a_fifth=ends))


@claim(
    "the Coach is paid 100 times the change in the Player's accuracy, and not updated when there is none",
    "authors' code",
)
def the_coach_is_paid_100_times_the_change_in_the_players_accuracy() -> Finding:
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
def problems_are_the_coachs_alone_the_coach_is_paid_on_one_split_of() -> Finding:
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


# ---------------------------------------------------------------- piece by piece


@claim("An answer earns 1 where it is the one most frequent, else -1; so do ties and what is missing.", "authors' code")
def an_answer_earns_1_where_it_is_the_one_most_frequent_else_1_so() -> Finding:
    def right(*said: str | None) -> bool:
        count = {one: said.count(one) for one in said if one is not None}
        most = [one for one in count if count[one] == max(count.values())]
        return unique_majority(said) == [1.0 if [one] == most else -1.0 for one in said]

    every = (itertools.product(("a", "b", "c", None), repeat=size) for size in range(6))
    return cases(itertools.chain(*every), right)


@dataclass
class Shares:
    """Plays episodes whose shares are given, by scenario; notes what it was asked."""

    shares: Mapping[str, float | None]
    asked: list[list[str]] = field(default_factory=list)

    async def play(self, assignments: Sequence[Assignment]) -> list[Trajectory]:
        self.asked.append([one.scenario.id for one in assignments])
        made = []
        for one in assignments:
            share = self.shares.get(one.scenario.id, 0.0)
            played = Trajectory(one.scenario, [], failure="the player broke" if share is None else None)
            SHARE.write(played, share or 0.0)
            made.append(played)
        return made

    async def score(self, trajectories: Sequence[Trajectory]) -> None:
        """Nothing is scored."""

    def kept(self, count: int) -> list[str]:
        """What is kept in a step of so many assignments, further ones being called n0, n1 and so on."""
        new = itertools.count()
        asked = [Assignment(Scenario(f"a{place}")) for place in range(count)]
        rest: Any = {"ledger": None, "key": Key.of(0)}
        rest["more"] = lambda missing: [Assignment(Scenario(f"n{next(new)}")) for _ in range(missing)]
        found = run_async(CPMOBIUS.rollout.collect(asked, play=self.play, score=self.score, **rest))
        return [one.scenario.id for one in found.trajectories]


@claim(
    "Episodes are kept in whose attempts .2 to .8 were rewarded, both included, and asked on for until there are as "
    "many as were asked, four times at most; broken ones never are.",
    "authors' code",
)
def episodes_are_kept_in_whose_attempts_2_to_8_were_rewarded_both() -> Finding:
    world, never = Shares({"a0": 0.2, "a1": 0.8, "a2": 0.19, "a3": 0.81, "a4": None, "n0": 0.5, "n3": 0.4}), Shares({})
    kept = world.kept(4), Shares({"a0": None, "n0": 0.5, "n1": None}).kept(1), never.kept(2)
    holds = kept == (["a0", "a1", "n0", "n3"], ["n0"], ["a0", "a1"])
    holds &= world.asked == [["a0", "a1", "a2", "a3"], ["n0", "n1"], ["n2"], ["n3"]][: len(world.asked)]
    return Finding(holds and list(map(len, never.asked)) == [2, 2, 2, 2], say(kept=str(kept), asked=str(world.asked)))


@claim("The coach is asked in the same words, whatever the task; its problem is solved 16 times afresh by the player.")
def the_coach_is_asked_in_the_same_words_whatever_the_task_its() -> Finding:
    curriculum = CPMOBIUS.curriculum
    assert isinstance(curriculum, Invented)
    nothing: Any = None
    asked = curriculum(nothing, 7, 3, nothing, Key.of(0))
    found = {"asked": [one.id for one in asked] == ["invented 7", "invented 8", "invented 9"]}
    found["words"] = all(one.prompt == INSTRUCTION and one.metadata == {INVENT: True} for one in asked)
    found["prompts"] = curriculum.prompts == 8 and CPMOBIUS.workflow == CoachPlayer.name
    coach, player = Part("2+2?"), Part("4", "4", "5", otherwise="4")
    (made,) = rehearse(CoachPlayer(), asked[0], {"coach": coach, "player": player})
    found["problem"] = coach.questions == [INSTRUCTION] and set(player.questions) == {"2+2?"}
    found["afresh"] = len(player.asked) == 16 and all(len(one) == 1 for one in player.asked)
    found["share"] = SHARE.get(made) == 15 / 16 and PROBLEM.get(made) == "2+2?"
    earned = list(made.scores["own"].value)  # type: ignore[arg-type]
    found["earned"] = sorted(str(one) for one in earned) == sorted(["None", "-1.0", *["1.0"] * 15])
    found["answer"] = made.info["answer"] == "4" and [turn.role for turn in made.turns].count("coach") == 1
    return Finding(all(found.values()), say(**found))


@claim("With a running mean taken off, a step's reward is its progress less that of earlier ones, weighted by age.")
def with_a_running_mean_taken_off_a_steps_reward_is_its_progress() -> Finding:
    (paid,) = CPMOBIUS.rewards
    assert isinstance(paid, LearningProgress)
    plain = paid.settled(0.25, 0.5, {}) == (25.0, {}) and paid.settled(0.5, 0.5, {"accuracy": 1}) == (
        None,
        {"accuracy": 1},
    )
    off, rng = 0.0, Key.of(2).numpy()
    for momentum in (0.0, 0.5, 0.9):
        mean, state, gains = replace(paid, momentum=momentum), dict[str, Any](), list[float]()
        for _ in range(8):
            before, after = (float(one) for one in rng.random(2))
            reward, state = mean.settled(before, after, state)
            ages = [momentum**age for age in range(len(gains))][::-1]
            usual = sum(a * one for a, one in zip(ages, gains, strict=True)) / sum(ages) if gains else None
            gains.append(100 * (after - before))
            due = None if usual is None else gains[-1] - usual
            off = max(off, abs((reward or 0.0) - (due or 0.0)))
    counted = paid.problems == 40 and paid.policy == "coach" and paid.split == "train"
    return Finding(off < 1e-9 and plain and counted, say(off_by=off, plain=plain, problems=paid.problems))


def _every_word() -> float:
    """How far the advantage of any of a long problem's words is from what its Coach is paid."""
    parts = {"coach": Part("What is 2+2, and why?"), "player": Part("4", "5")}
    asked = Scenario("invented 0", INSTRUCTION, metadata={INVENT: True})
    (made,) = rehearse(CoachPlayer(solutions=2), asked, parts)
    paid = 7.5
    made.scores["progress"] = Score([paid if turn.role == "coach" else None for turn in made.turns], Level.TURN)
    batch = pack([made])
    seen = CPMOBIUS.compute_credit(batch, CPMOBIUS.init(), {"progress": 1.0, "own": 1.0})[0].occurrences
    theirs = batch.role[batch.turn[seen.decision]] == batch.names["role"].index("coach")
    assert int(theirs.sum()) > 3
    return float((seen.advantage[theirs] - paid).abs().max())


@claim(
    "The Player's advantages are those of answers to one problem, less their mean, over their deviation; the Coach's "
    "is what it is paid, for all of its words; both are kept near the start by k3 with .001.",
    "authors' code",
)
def the_players_advantages_are_those_of_answers_to_one_problem_less() -> Finding:
    made = bench("progress", 0, momentum=None)
    result = made.step()
    batch = pack(result.trajectories)
    occurrences = CPMOBIUS.compute_credit(batch, CPMOBIUS.init(), made.parts.weights)[0].occurrences
    off, groups = 0.0, 0
    for number, one in enumerate(result.trajectories):
        paid = next((value for value in one.scores["progress"].value if value is not None), 0.0)  # type: ignore[union-attr]
        rewards = np.array(unique_majority([turn.text for turn in one.turns[1:]]))
        fair = (rewards - rewards.mean()) / (rewards.std(ddof=1) + 1e-6)
        due = [float(paid), *fair.tolist()]
        for decision, trajectory, advantage in zip(
            occurrences.decision.tolist(), occurrences.trajectory.tolist(), occurrences.advantage.tolist(), strict=True
        ):
            if trajectory == number:
                off = max(off, abs(advantage - due[int(batch.turn[decision]) - number * len(one.turns)]))
        groups += 0 < (rewards > 0).mean() < 1
    off = max(off, _every_word())
    (pull,) = CPMOBIUS.regularisers
    assert isinstance(pull, KLToReference)
    drawn = Key.of(5).numpy()
    now, before = (torch.tensor(drawn.normal(size=batch.decisions)) for _ in range(2))
    known = {**batch.logp, "reference": RecordedNumbers(before, torch.ones(len(before), dtype=torch.bool))}
    term = pull(Evaluation(logp=now), replace(batch, occurrences=occurrences, logp=known))
    ratio = (before - now).exp()
    cost = ratio - 1 - ratio.log()
    per = [
        float(cost[occurrences.decision[occurrences.trajectory == number]].mean())
        for number in range(len(result.trajectories))
    ]
    pulled = abs(float(term.total()) - 0.001 * fmean(per))
    return Finding(off < 1e-6 and groups > 0 and pulled < 1e-12, say(off_by=off, groups=groups, pulled=pulled))


claim.spares("1 - self.momentum -> 1 + self.momentum", "both sums are counted alike, and their ratio is read")
claim.spares("1 - self.momentum -> 1", "both sums are counted alike, and their ratio is read")
claim.spares("cpmobius: credit.own.epsilon = 4e-07", "read by whitening alone, which is off")
claim.spares("cpmobius: credit.own.epsilon = 0.0", "read by whitening alone, which is off")
claim.spares("cpmobius: credit.own.ddof = 40", "read by whitening alone, which is off")
claim.spares("cpmobius: regularisers.0.horizon = 5120", "no length divides this aggregate")

claim.shipped(CPMOBIUS, without={"rollout.low": 0.0, "rollout.high": 1.0}, trains=("player",))
