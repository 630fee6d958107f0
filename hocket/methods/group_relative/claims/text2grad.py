"""What text2grad claims."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from statistics import fmean
from typing import Any

from hocket.lab.bench import Bench
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.microscope import look
from hocket.lab.toys.token_weights import SEEDS, chances, document, sample, shown
from hocket.lab.world import Answer, World
from hocket.methods.group_relative.text2grad import placed, span_rewards
from hocket.recipes import find

claim = Claims("text2grad", "arXiv 2505.22338")


TEXT2GRAD = find("text2grad")


@claim("Spans find exactly their tokens, repeated words in order.")
def spans_find_their_tokens() -> Finding:
    """Each token of a quoted span and no other gets its score, repeated words in order."""
    pieces = ["The ", "cat ", "sat ", "on ", "the ", "c", "at", "."]
    spans = [("cat", 1.0), ("cat", -1.0), ("dog", 5.0), ("sat on", 0.5)]
    found = span_rewards(pieces, spans)
    shared = span_rewards(pieces, spans, "shared")
    holds = found == [0, 1, 0.5, 0.5, 0, -1, -1, 0] and shared == [0, 1, 0.25, 0.25, 0, -0.5, -0.5, 0]
    quoted = sum(score for place in placed("".join(pieces), spans) if place is not None for score in place[2:])
    holds &= math.isclose(sum(shared), quoted)
    return Finding(
        holds, f"rewards {shown(found)}; shared among a span's tokens they add up to {sum(shared)} = {quoted}"
    )


@claim("With gamma = 0, no KL and V = 0 tokens outside of spans have no gradient.")
def silence_outside_spans() -> Finding:
    """With gamma = 0, no KL and a value of 0, tokens outside of spans have no gradient; other values give them some."""
    bare = TEXT2GRAD.but({"credit.gamma": 0.0, "credit.whiten": False, "shaping.1.coefficient": 0.0})

    def seen(value: float) -> list[float]:
        row = sample(
            "a",
            0.0,
            [-1.0] * 4,
            value=[value] * 4,
            logp_ref=[-1.1] * 4,
            info={"pieces": ["a ", "bad ", "word ", "here"], "critique": [["bad word", -1.0]]},
        )
        found: list[float] = look(bare, document(row))["gradient"][0]
        return found

    quiet, valued = seen(0.0), seen(0.3)
    holds = quiet[0] == quiet[3] == 0 and quiet[1] > 0 and quiet[2] > 0 and valued[0] != 0
    return Finding(holds, f"gradient {shown(quiet)}; where V = 0.3 {shown(valued)}, so the claim needs V = 0 there")


SPAN = 8


class Spelling(World):
    """Words of eight letters from four; one letter is right at each place."""

    def answers(self) -> Iterator[Answer]:
        """Enough of them to visit every context."""
        yield from ((letter,) * SPAN for letter in range(4))


@claim("With an oracle critic a fixed quality takes fewer samples than PPO on the summed reward.", slow=True)
def spans_learn_sooner() -> Finding:
    """An oracle critic's spans reach a quality in fewer samples than their sum as one reward."""

    def right(question: int, place: int, letter: int) -> bool:
        return letter == (place + question) % 4

    def critique(question: int, answer: Answer) -> Mapping[str, Any]:
        marks = [
            ["abcd"[letter], 1.0 if right(question, place, letter) else -1.0] for place, letter in enumerate(answer)
        ]
        return {"critique": marks}

    def total(question: int, answer: Answer) -> float:
        return float(sum(1 if right(question, place, letter) else -1 for place, letter in enumerate(answer)))

    def accuracy(bench: Bench) -> float:
        return fmean([float(chances(bench, q, (0,) * p)[(p + q) % 4]) for q in range(2) for p in range(SPAN)])

    world = Spelling(
        questions=2,
        tokens=4,
        horizon=SPAN,
        reward=lambda q, a: 0.0,
        context="position",
        words=tuple("abcd"),
        info=critique,
    )
    once = {"update.epochs": 1, "update.minibatches": 1, "rollout.samples": 8}
    needed: dict[str, list[int]] = {}
    for name, asked in (("text2grad", world), ("ppo-rlhf", replace(world, reward=total))):
        for seed in SEEDS:
            bench, step = Bench(asked, find(name).but(once), seed=seed, lr=0.05), 0
            while accuracy(bench) < 0.8 and step < 120:
                bench.step()
                step += 1
            needed.setdefault(name, []).append(16 * step)
    holds = max(needed["text2grad"]) < min(needed["ppo-rlhf"])
    return Finding(
        holds,
        f"samples to 80 % of letters right: {needed['text2grad']} against {needed['ppo-rlhf']} of the summed reward",
    )
