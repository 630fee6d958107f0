"""GRPO-ASR's claims."""

from __future__ import annotations

import asyncio
from functools import cache

from hocket.core.keys import Key
from hocket.lab.claims.harness import EXACT, Claims, Finding, gap, say
from hocket.lab.toys.pictured_runs import PicturedRun
from hocket.lab.toys.recorded_answers import advantages, answer, group_relative, lines
from hocket.methods.base.sft import SFT
from hocket.methods.group_relative.grpo_asr import GRPO_ASR, Measure, Transcript
from hocket.train.evaluate import EvaluationResult
from hocket.types import Scenario, Trajectory, Turn

claim = Claims("grpo-asr", "arXiv:2509.01939")


def fewest(one: tuple[str, ...], other: tuple[str, ...]) -> int:
    """The fewest edits between two sequences, by their definition."""

    @cache
    def edits(i: int, j: int) -> int:
        if not i or not j:
            return i + j
        return min(edits(i - 1, j) + 1, edits(i, j - 1) + 1, edits(i - 1, j - 1) + (one[i - 1] != other[j - 1]))

    return edits(len(one), len(other))


@claim("The reward is minus the fewest edits of words over those of the reference, also where it is below -1.")
def the_reward_is_minus_the_word_error_rate() -> Finding:
    rng, off, below = Key.of(0).numpy(), 0.0, 0
    for _ in range(80):
        words, transcript = (
            tuple(("do", "re", "mi")[n] for n in rng.integers(0, 3, int(rng.integers(low, 6)))) for low in (1, 0)
        )
        scenario = Scenario("s", "?", " ".join(words))
        reward = Transcript().grade(f"<think>a</think><answer>{'  '.join(transcript)}</answer>", scenario)
        characters = Transcript("characters").grade(f"<answer>{' '.join(transcript)}</answer>", scenario)
        assert reward is not None
        assert characters is not None
        off = max(off, abs(reward + fewest(words, transcript) / len(words)))
        due = fewest(tuple(" ".join(words)), tuple(" ".join(transcript))) / len(" ".join(words))
        off, below = max(off, abs(characters + due)), below + (reward < -1)
    return Finding(off < EXACT and below > 0, say(off=off, below_minus_one=below))


@claim(
    "An empty transcript loses every word, a hallucinated insertion costs one, and exact match pays whole sentences."
)
def an_empty_transcript_loses_every_word() -> Finding:
    texts = ("<answer>do re</answer>", "<answer>do re re</answer>", "<answer>do</answer>", "<answer></answer>", "do re")
    zeros = Key.of(0).numpy().integers(0, 1, 1)
    scenario = Scenario("s", "?", "do re")
    rows = [Trajectory(scenario, [Turn("p", "p", zeros, zeros, text=text)]) for text in texts]
    rows.append(Trajectory(Scenario("t", "?"), rows[0].turns))
    measures: tuple[Measure, ...] = ("words", "exact", "characters")
    result = [list(asyncio.run(Transcript(measure)(rows, key=Key.of(0)))) for measure in measures]
    due = [
        [0.0, -0.5, -0.5, -1.0, -1.0, None],
        [1.0, 0.0, 0.0, 0.0, 0.0, None],
        [0.0, -0.6, -0.6, -1.0, -1.0, None],
    ]
    shipped = GRPO_ASR.rewards == (Transcript("words", "answer-tag", "transcript", 1.0),)
    return Finding(result == due and shipped, say(rewards=str(result)))


@claim("Advantages are z-scores of the group's error rates, with a KL of 0.04.")
def advantages_are_z_scores_of_the_groups_error_rates() -> Finding:
    rates = [0.0, -0.5, -0.5, -2.0]
    off = gap(advantages(GRPO_ASR, [answer(rate, 2, logp_ref=[-1.0, -1.0]) for rate in rates]), group_relative(rates))
    (penalty,) = GRPO_ASR.regularisers
    return Finding(off < EXACT and penalty.coefficient == 0.04, say(off=off))  # type: ignore[attr-defined]


def errors_of(result: EvaluationResult) -> list[float]:
    """Words that are wrong, and insertions, a word of the reference."""
    return [result.traits["errors"], result.traits["insertions"]]


@claim(
    "As shipped, errors and insertions fall on recordings of unheard melodies, below those of as many steps of "
    "supervised fine-tuning; with silence they stay.",
    slow=True,
    learns=True,
)
def errors_and_insertions_fall_on_unheard_melodies() -> Finding:
    steps, n, task = 20, 100, "tones?kinds=notes"
    run = PicturedRun.of(GRPO_ASR, task, model="nano-audio")
    before = errors_of(run.measured(n))
    after, silent = errors_of(run.train(steps).measured(n)), errors_of(run.blind(n))
    settings = {"curriculum.prompts": 16, "update.lr": 3e-4, "model": "nano-audio"}
    taught = errors_of(PicturedRun.of(SFT, task, **settings).train(steps).measured(n))
    holds = after[0] < before[0] - 0.1 and after[1] < before[1] and after[0] <= taught[0] and silent[0] > 0.6
    figures = lines(errors_and_insertions_before=before, after_rl=after, after_sft=taught, silence=silent)
    return Finding(holds, figures)


claim.shipped(GRPO_ASR, "rewards", settings={"model": "nano-audio"})
