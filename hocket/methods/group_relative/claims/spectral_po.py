"""What spectral-po claims."""

from __future__ import annotations

import itertools
from statistics import fmean
from typing import Any

import torch

from hocket.lab.bench import Bench
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.microscope import look
from hocket.lab.toys.token_weights import GRPO, SEEDS, chances, document, drawn, sample, shown
from hocket.lab.world import Answer, Graded, World
from hocket.methods.group_relative.spectral_po import right_share, step_score
from hocket.recipes import find

claim = Claims("spectral-po", "arXiv 2505.11595")


SPECTRAL = find("spectral-po")


@claim("Mixed groups are GRPO's to the bit; all-wrong ones get advantages iff scores differ.")
def mixed_groups_are_left() -> Finding:
    """Mixed groups keep GRPO's advantages to the bit; all-wrong ones get some iff scores differ."""
    mixed = [look(SPECTRAL, told(drawn(s)))["advantages"] == look(GRPO, drawn(s))["advantages"] for s in range(20)]
    apart = look(SPECTRAL, document(*(judged(0.0, share) for share in (0.1, 0.5, 0.5))))["advantages"]
    alike = look(SPECTRAL, document(*(judged(0.0, 0.5) for _ in range(3))))["advantages"]
    holds = all(mixed) and alike == [[0.0]] * 3 and apart[0][0] < 0 < apart[1][0]
    return Finding(holds, f"{sum(mixed)} of 20 mixed batches equal to the bit; all wrong: {apart} and {alike}")


def judged(reward: float, share: float) -> dict[str, Any]:
    """A sample with a judge's RTS."""
    row = sample("a", reward, [-1.0])
    return {**row, "scores": {"reward": reward, "rts": share}}


def told(batch: dict[str, Any]) -> dict[str, Any]:
    """The same batch with some RTS for every sample."""
    for number, row in enumerate(batch["trajectories"]):
        row["scores"]["rts"] = number / 20
    return batch


@claim("The score rises strictly with the right share and stays inside (0, 1).")
def scores_rise_with_the_right_part() -> Finding:
    """s rises strictly with RTS and stays in (0, 1); the scripted judge finds the first wrong step."""
    share = torch.linspace(0, 1, 101, dtype=torch.float64)
    score = step_score(share, 5.0, 0.5)
    rises = bool((score.diff() > 0).all()) and float(score.min()) > 0 and float(score.max()) < 1
    texts = ("2 + 3 = 5, 5 + 4 = 9.", "2 + 3 = 5, 5 + 4 = 8.", "2 + 3 = 6", "no step")
    shares = [right_share(text) for text in texts]
    judge = shares == [1.0, 11 / 21, 0.0, 0.0]
    return Finding(
        rises and judge,
        f"scores from {float(score[0]):.3f} to {float(score[-1]):.3f}; judge on 4 texts {shown(shares)}",
    )


@claim(
    "In chains of k steps the first success and 90 % come sooner than under GRPO, the more so the longer.", slow=True
)
def chains_start_sooner() -> Finding:
    """Time to 90 % with k steps in a row rewarded at their end only, and with the judge."""

    def share(question: int, answer: Answer) -> float:
        return next((n for n, token in enumerate(answer) if token != 0), len(answer)) / len(answer)

    def done(question: int, answer: Answer) -> float:
        return float(share(question, answer) == 1.0)

    most = 200
    first: dict[tuple[str, int], list[int]] = {}
    ninety: dict[tuple[str, int], list[int]] = {}
    for length, name, seed in itertools.product((2, 3, 4), ("grpo", "spectral-po"), SEEDS):
        world = World(questions=1, tokens=6, horizon=length, reward=done, context="position")
        scores = (Graded("reward", done), Graded("rts", share, weight=0.0))
        bench = Bench(world, find(name).but({"rewards": scores}), seed=seed, lr=0.1)
        seen, reached = most, most
        for step in range(1, most + 1):
            batch = bench.step().batch
            assert batch is not None
            # Shaping replaces rewards where nobody is right, so success is read off the judge.
            seen = min(seen, step) if bool((batch.scores["rts"].values == 1).any()) else seen
            if float(torch.stack([chances(bench, 0, (0,) * place)[0] for place in range(length)]).prod()) >= 0.9:
                reached = step
                break
        first.setdefault((name, length), []).append(seen)
        ninety.setdefault((name, length), []).append(reached)
    gain = [fmean(ninety["grpo", length]) / fmean(ninety["spectral-po", length]) for length in (2, 3, 4)]
    sooner = [fmean(first["grpo", length]) / fmean(first["spectral-po", length]) for length in (2, 3, 4)]
    holds = gain[0] < gain[1] < gain[2] and gain[1] > 1.2 and gain[2] > 1.5 and sooner[2] > 1.2
    return Finding(
        holds,
        f"chains of 2, 3, 4 steps: GRPO's time to 90 % over ours {shown(gain)} (at most {most}), to the first success "
        f"{shown(sooner)}; in chains of 2 there is nothing to gain",
    )
