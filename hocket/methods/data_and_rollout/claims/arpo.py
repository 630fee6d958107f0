"""ARPO's claims."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from statistics import fmean

import numpy as np
import torch

from hocket.core.columns import ALTERNATIVES
from hocket.core.components import value_at
from hocket.core.keys import Key
from hocket.core.segments import segment_sum
from hocket.lab.claims.harness import EXACT, SEEDS, Claims, Finding, below, gap, say
from hocket.lab.claims.lesson_data import after_lessons
from hocket.lab.talk import TalkBench
from hocket.lab.toys.hops import ASKED, WAYS, Hops, last
from hocket.lab.toys.recorded_answers import line
from hocket.methods.base.grpo import GRPO
from hocket.methods.data_and_rollout.arpo import ARPO, ARPO_HARD, FORKED, EntropyForks, Forked, SharedMean, uncertainty
from hocket.recipe import Recipe
from hocket.train.aio import run_async
from hocket.train.loop import collect
from hocket.types import Assignment, Message, Trajectory, Turn

claim = Claims("arpo", "arXiv:2507.19849")


def sure(messages: tuple[Message, ...], said: tuple[str, ...]) -> Mapping[str, float]:
    """Before training every hop but the third is known; at the third all ways seem alike."""
    name, _, hop = last(messages).partition(", hop ")
    answer = next(one.answer for one in ASKED if one.id == name).split()[int(hop)]
    return {} if hop == "2" else {answer: 4.0}


def bench(recipe: Recipe, seed: int, **settings: float) -> TalkBench:
    made = recipe.but({f"rollout.{name}": value for name, value in settings.items()})
    return TalkBench(Hops(), ASKED, WAYS, made, view=last, prior=sure, seed=seed, lr=0.1)


@claim("There are always N leaves per question, N0 or more of them from the beginning, and at most one fork per turn.")
def there_are_always_n_leaves_per_question_n0_or_more_of_them_from() -> Finding:
    forks, sizes, most = [], set(), 0
    for seed in range(8):
        made = bench(ARPO, seed, samples=12, begun=3 + seed % 3, base=0.3)
        episodes = made.step().trajectories
        for asked in ASKED:
            mine = [one for one in episodes if one.scenario.id == asked.id]
            depths = [FORKED.get(one) for one in mine]
            forks.append(float(sum(depth > 0 for depth in depths)))
            sizes.add((len(mine), depths[: 3 + seed % 3] == [0] * (3 + seed % 3)))
            # Forks at a depth come from different episodes that had a turn of their own there.
            for depth in (1, 2, 3):
                own = sum(FORKED.get(one) < depth for one in mine)
                most = max(most, depths.count(depth) - own)
    holds = sizes == {(12, True)} and max(forks) > 4 and most <= 0
    return Finding(holds, say(groups=len(forks), leaves=str(sizes), forks=forks, forks_beyond_one_per_turn=most))


@claim(
    "As shipped 16 episodes, 8 begun; a fork by 0.5 + 0.2 (H_t - H_0) / log V, H of the ten likeliest at 20 words, V "
    "of the release's models."
)
def as_shipped_16_episodes_8_begun_a_fork_by_0_5_0_2_h_of_20_words() -> Finding:
    names = ("samples", "beam", "base", "weight", "words", "likeliest", "vocabulary")
    shipped = [value_at(recipe, f"rollout.{name}") for recipe in (ARPO, ARPO_HARD) for name in names]
    holds = shipped == [16, 2, 0.5, 0.2, 20, 10, 151_936] * 2 and ARPO_HARD.credit == SharedMean(of=GRPO.credit)
    holds &= [EntropyForks(samples=size).roots for size in (16, 5, 1)] == [8, 3, 1]
    forks = EntropyForks(vocabulary=100)
    chances = [forks.chance(*pair) for pair in ((3.0, 1.0), (0.5, 1.5), (12.0, 0.0), (0.0, 12.0))]
    chances.append(EntropyForks().chance(12.0, 0.0))
    wanted = [0.5 + 0.4 / math.log(100), 0.5 - 0.2 / math.log(100), 1.0, 0.0, 0.5 + 2.4 / math.log(151_936)]
    return below(EXACT, holds, chances_off=gap(chances, wanted))


@claim(
    "By hand: H is the sum over words of -p log p of their likeliest tokens, of the first 20 words alone; what cannot "
    "be sampled adds nothing."
)
def by_hand_h_is_the_sum_over_words_of_p_log_p_of_their_likeliest() -> Finding:
    rng = np.random.default_rng(0)
    chances = rng.dirichlet(np.ones(15), 25)[:, :10]
    chances[3, 9] = 0.0
    turn = Turn("p", "p", np.zeros(0, np.int64), np.ones(25, np.int64))
    with np.errstate(divide="ignore"):
        ALTERNATIVES.write(turn, (np.zeros((25, 10), np.int64), np.log(chances)))
    due = -sum(one * math.log(one) for row in chances[:20].tolist() for one in row if one)
    return below(EXACT, due > 20, off=abs(uncertainty(turn, 20) - due))


@claim("Every episode of a question has its own number, from the first on; forks are counted; silence is not unsure.")
def every_episode_of_a_question_has_its_own_number_from_the_first() -> Finding:
    numbers, forks, counted = [], 0, 0.0
    for seed in range(4):
        result = bench(ARPO, seed, samples=9, base=0.3 * (seed % 2)).step()
        groups = [[one for one in result.trajectories if one.scenario.id == asked.id] for asked in ASKED]
        numbers += [sorted(one.sample for one in group) for group in groups]
        forks += sum(FORKED.get(one) > 0 for one in result.trajectories)
        counted += result.metrics["rollout/forks"]
    mute = replace(result.trajectories[0].turns[0], action=np.zeros(0, np.int64), logp=None, extras={})
    holds = all(own == list(range(9)) for own in numbers) and forks == counted > 0 and uncertainty(mute, 20) == 0.0
    return Finding(holds, say(groups=len(numbers), forks=forks, counted=counted))


@claim("Who failed, has ended, or begins with another's turns up to there is not forked, nor anyone beyond the budget.")
def who_failed_has_ended_or_begins_with_anothers_turns_up_to_there() -> Finding:
    def played(turns: int, forked: int = 0, failure: str | None = None) -> Trajectory:
        some = [Turn("p", "p", np.zeros(0, np.int64), np.ones(1, np.int64)) for _ in range(turns)]
        for turn in some:
            ALTERNATIVES.write(turn, (np.zeros((1, 1), np.int64), np.full((1, 1), -1.0)))
        one = Trajectory(ASKED[0], some, failure=failure)
        FORKED.write(one, forked)
        return one

    episodes = [played(3), played(3, failure="lost"), played(1), played(3, forked=1), played(3, forked=2), played(2)]
    tree = Forked(Assignment(ASKED[0]), Key.of(0), episodes)
    found = {
        (depth, samples): [
            next(n for n, one in enumerate(episodes) if asking.replay and asking.replay.turns[0] is one.turns[0])
            for asking in EntropyForks(samples=samples, base=1.0)._forks(tree, depth)
        ]
        for depth, samples in ((1, 16), (2, 16), (1, 7))
    }
    return Finding(found == {(1, 16): [0, 5], (2, 16): [0, 3], (1, 7): [0]}, say(forked=str(found)))


BEGUN = 60


@claim(
    "A turn is forked with probability clip(base + w (H_t - H_0) / log V, 0, 1), H the entropies of the turns' first "
    "words."
)
def a_turn_is_forked_with_probability_clip_0_1_h_the_entropies_of() -> Finding:
    worst, rates = 0.0, []
    for base, weight in ((0.1, 0.2), (0.5, 0.2), (0.0, -1.0), (0.9, 1.0)):
        made = bench(ARPO, 0, samples=480, begun=BEGUN, base=base, weight=weight, vocabulary=5)
        episodes = run_async(collect(made.parts, Key.of(0)))[0].trajectories
        policy = made.policies["policy"]
        for depth in (1, 2, 3):
            due, got, tried = 0.0, 0, 0
            for asked in ASKED:
                first, now = (policy.probabilities(f"{asked.id}, hop {hop}") for hop in (0, depth))
                entropy = [-float((one * one.log()).sum()) for one in (first, now)]
                due = min(max(base + weight * (entropy[1] - entropy[0]) / math.log(5), 0.0), 1.0)
                mine = [FORKED.get(one) for one in episodes if one.scenario.id == asked.id]
                # What was missing in the end began anew, and could not be forked any more.
                mine = mine[:BEGUN] + [one for one in mine[BEGUN:] if one]
                tried, got = sum(one < depth for one in mine), mine.count(depth)
                worst = max(worst, abs(got / tried - due) / (4 * math.sqrt(due * (1 - due) / tried) + 1e-9))
                rates.append(got / tried)
    return Finding(worst < 1.0, say(largest_gap_over_4_standard_errors=worst, rates=rates))


def learnt_from(recipe: Recipe, seed: int, steps: int) -> tuple[float, float, float]:
    """The exact chance to find it, tokens sampled and turns taken."""
    made, spent = bench(recipe, seed), 0.0
    for _ in range(steps):
        spent += made.step().metrics["tokens/generated"]
    return made.expected(), spent, spent / (steps * len(ASKED) * 16)


@cache
def compared() -> dict[str, list[tuple[float, float, float]]]:
    made = {"arpo": ARPO, "arpo-hard": ARPO_HARD, "grpo": GRPO.but({"rollout.samples": 16})}
    return {name: [learnt_from(recipe, seed, 60) for seed in SEEDS] for name, recipe in made.items()}


@claim(
    "Where one turn of four is uncertain it learns in as many steps what GRPO learns from as many episodes, with fewer "
    "tokens and calls; the hard form does no worse.",
    slow=True,
)
def where_one_turn_of_four_is_uncertain_it_learns_in_as_many_steps() -> Finding:
    found = compared()
    right = {name: [row[0] for row in rows] for name, rows in found.items()}
    turns = {name: fmean(row[2] for row in rows) for name, rows in found.items()}
    holds = turns["arpo"] < 0.85 * turns["grpo"]
    holds &= all(fmean(right[name]) > fmean(right["grpo"]) - 0.02 for name in ("arpo", "arpo-hard"))
    saw = "; ".join(f"{name} found {line(right[name])}, turns per episode {turns[name]:.2f}" for name in found)
    return Finding(holds, f"60 steps of 16 episodes: {saw}")


@claim(
    "With a constant denominator the soft form's gradient on what forks share is the hard form's: that of the mean "
    "advantage of the leaves, as many times as there are leaves."
)
def with_a_constant_denominator_the_soft_forms_gradient_on_what() -> Finding:
    worst, shared, changed = 0.0, 0, 0
    for seed in range(5):
        made = bench(ARPO.but({"objective.aggregate": "constant-length"}), seed, samples=8, begun=4, base=0.8)
        batch = made.step().batch
        assert batch is not None
        seen = batch.occurrences
        hard = SharedMean(of=GRPO.credit)(batch)
        soft = GRPO.credit(batch)
        total = [segment_sum(one.advantage, seen.decision, batch.decisions) for one in (soft, hard)]
        worst = max(worst, gap(*total))
        visits = torch.bincount(seen.decision, minlength=batch.decisions)[seen.decision]
        mean = total[0][seen.decision] / visits
        worst = max(worst, gap(mean, hard.advantage))
        shared += int((visits > 1).sum())
        changed += int((soft.advantage - hard.advantage).abs().gt(0.1).sum())
    return Finding(
        worst < EXACT and changed > 20, say(gap_on_5_batches=worst, occurrences_shared=shared, changed=changed)
    )


@claim(
    "After lessons in which half of the demonstrations search, the shipped model learns to, with forks: exact match on "
    "unseen things rises.",
    slow=True,
)
def after_lessons_in_which_half_of_the_demonstrations_search_the() -> Finding:
    settings = {"curriculum.prompts": 8, "rollout.samples": 8, "rollout.begun": 4}
    pupil = after_lessons(ARPO, TASK, "lookup?calls=0.5", settings)
    before = pupil.success()
    after = pupil.run(18).success()
    forks = fmean(float(row.metrics["rollout/forks"]) for row in pupil.results)
    return Finding(after > before + 0.2, say(exact_match_before=before, after_18_steps=after, forks_per_step=forks))


TASK = "lookup"

claim.shipped(
    ARPO,
    "rollout",
    first={"recipe": "sft", "steps": 40, "update.lr": 0.003},
    settings={"curriculum.prompts": 2},
    sees=lambda run: {"forks": run.mean("rollout/forks"), "groups": run.mean("groups/with_signal")},
)
