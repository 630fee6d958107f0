"""Text2Grad's claims."""

from __future__ import annotations

import math
from dataclasses import replace
from statistics import fmean
from typing import Any

from hocket.lab.bench import Bench
from hocket.lab.claims.harness import SEEDS, Claims, Finding, below, gap, inspect_rows, say
from hocket.lab.claims.shipped_check import ShippedRun
from hocket.lab.toys.instances import PositionWorld, nothing
from hocket.lab.toys.recorded_answers import sample, shown
from hocket.lab.toys.training import chances
from hocket.lab.world import Answer, World
from hocket.methods.base.ppo import PPO_RLHF
from hocket.methods.group_relative.text2grad import TEXT2GRAD, placed, span_rewards, spans_of
from hocket.recipe import Recipe

claim = Claims("text2grad", "arXiv 2505.22338")


@claim("Spans find exactly their tokens, repeated words in order.")
def spans_find_exactly_their_tokens_repeated_words_in_order() -> Finding:
    pieces = ["The ", "cat ", "sat ", "on ", "the ", "c", "at", "."]
    spans = [("cat", 1.0), ("cat", -1.0), ("dog", 5.0), ("sat on", 0.5)]
    own, shared = span_rewards(pieces, spans), span_rewards(pieces, spans, "shared")
    holds = own == [0, 1, 0.5, 0.5, 0, -1, -1, 0] and shared == [0, 1, 0.25, 0.25, 0, -0.5, -0.5, 0]
    quoted = sum(score for place in placed("".join(pieces), spans) if place is not None for score in place[2:])
    figures = say(rewards=shown(own), sum_when_shared_among_tokens=sum(shared), sum_of_quoted=quoted)
    return Finding(holds and math.isclose(sum(shared), quoted), figures)


@claim("With gamma = 0, no KL and V = 0 tokens outside of spans have no gradient.")
def with_gamma_0_no_kl_and_v_0_tokens_outside_of_spans_have_no() -> Finding:
    bare = TEXT2GRAD.but({"credit.gamma": 0.0, "credit.whiten": False, "shaping.1.coefficient": 0.0})
    info = {"pieces": ["a ", "bad ", "word ", "here"], "critique": [["bad word", -1.0]]}
    rows = [sample("a", 0.0, [-1.0] * 4, value=[v] * 4, logp_ref=[-1.1] * 4, info=info) for v in (0.0, 0.3)]
    quiet, valued = (inspect_rows(bare, [row])["gradient"][0] for row in rows)
    holds = quiet[0] == quiet[3] == 0 and quiet[1] > 0 and quiet[2] > 0 and valued[0] != 0
    figures = say(gradient=shown(quiet), where_V_is_0_3=shown(valued))
    return Finding(holds, f"{figures}, so the claim needs V = 0 there")


@claim(
    "Words quoted out of order are sought where no other span is; what is not words and a finite number is left out."
)
def words_quoted_out_of_order_are_sought_where_no_other_span_is() -> Finding:
    places = {
        "ab ab": ([("b a", 1.0), ("ab", 2.0)], [(1, 4, 1.0), None]),
        "ab ab ab z": ([("b a", 1.0), ("z", 1.0), ("ab", 2.0)], [(1, 4, 1.0), (9, 10, 1.0), (6, 8, 2.0)]),
        "x y": ([("y", 1.0), ("x", 2.0), ("", 3.0)], [(2, 3, 1.0), (0, 1, 2.0), None]),
    }
    wrong = [text for text, (spans, due) in places.items() if placed(text, spans) != due]
    pairs = [["a", 1], ["b", True], ["c", math.inf], ["d", "1"], [5, 2.0], ["e"], "fg", ["h", -0.5]]
    kept = [spans_of(one) for one in (pairs, {"spans": pairs}, 'It is so: [["a", 1], ["h", -0.5]].', "none", None)]
    due = [("a", 1.0), ("h", -0.5)]
    return Finding(not wrong and kept == [due] * 3 + [[]] * 2, say(wrong=str(wrong), kept=str(kept)))


@claim("A token is paid its spans' scores less 0.02 of its k1, by hand: of a critique, or of a score's words.")
def a_token_is_paid_its_spans_scores_less_0_02_of_its_k1_by_hand_of() -> Finding:
    bare = TEXT2GRAD.but({"credit.gamma": 0.0, "credit.whiten": False})
    info = {"pieces": ["a ", "bad ", "word"]}
    told: list[dict[str, Any]] = [
        {"critique": [["bad word", -1.0]]},
        {"feedback": {"critique": '[["a", 0.5]]'}},
        {"feedback": {"other": "[]"}},
        {},
    ]
    due = [[0.0, -1.0, -1.0], [0.5, 0.0, 0.0], [0.0] * 3, [0.0] * 3]
    rows = [sample("a", 0.0, [-1.0] * 3, value=[0.0] * 3, logp_ref=[-1.5] * 3, info={**info, **one}) for one in told]
    found = inspect_rows(bare, rows)["advantages"]
    return below(1e-9, off=gap(found, [[one - 0.02 * 0.5 for one in row] for row in due]))


SPAN = 8


def marks(question: int, answer: Answer) -> list[float]:
    """1 for each right letter, -1 for others; one is right at each place."""
    return [1.0 if letter == (place + question) % 4 else -1.0 for place, letter in enumerate(answer)]


SPELLING = PositionWorld(
    # Words of eight letters from four.
    *(2, 4, SPAN, nothing),
    context="position",
    words=tuple("abcd"),
    info=lambda q, answer: {"critique": [["abcd"[n], mark] for n, mark in zip(answer, marks(q, answer), strict=True)]},
)


def needed(recipe: Recipe, world: World, seed: int) -> int:
    """Samples to 80 % of letters right, 1920 at most."""
    once = {"update.epochs": 1, "update.minibatches": 1, "rollout.samples": 8}
    bench = Bench(world, recipe.but(once), seed=seed, lr=0.05)
    places = [(question, place) for question in range(2) for place in range(SPAN)]
    while bench.done < 120 and fmean(float(chances(bench, q, (0,) * p)[(p + q) % 4]) for q, p in places) < 0.8:
        bench.step()
    return 16 * bench.done


@claim("With an oracle critic a fixed quality takes fewer samples than PPO on the summed reward.", slow=True)
def with_an_oracle_critic_a_fixed_quality_takes_fewer_samples_than() -> Finding:
    summed = replace(SPELLING, reward=lambda question, answer: sum(marks(question, answer)))
    ours, theirs = ([needed(*side, seed) for seed in SEEDS] for side in ((TEXT2GRAD, SPELLING), (PPO_RLHF, summed)))
    figures = say(samples_to_80_percent_of_letters_right=str(ours), on_the_summed_reward=str(theirs))
    return Finding(max(ours) < min(theirs), figures)


claim.spares("-1 -> 1", "words of no length are left out wherever they are found")
claim.shipped(TEXT2GRAD, without={"shaping.0.weight": 0.0}, task="worked_sums?critic=true")

JUDGED = "marked-sums?asks=text2grad"


def compare_tokens(run: ShippedRun) -> dict[str, float]:
    """What a critique pays a token, in size, in the mean over all: beside it a token has its KL alone, which is 0."""
    batch = run.results[0].batch
    assert batch is not None
    paid = batch.scores["reward/decision"].values
    return {"paid tokens": float((paid.abs() > 0.5).double().mean()), "asked": run.mean("judge/questions")}


claim.shipped(
    TEXT2GRAD,
    without={"shaping.0.weight": 0.0},
    task=JUDGED,
    first={"recipe": "sft", "task": f"lessons:{JUDGED}", "update.lr": 0.003},
    judged=True,
    sees=compare_tokens,
)
