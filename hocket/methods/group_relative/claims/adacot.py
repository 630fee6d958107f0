"""AdaCoT's claims."""

from __future__ import annotations

import itertools
from collections.abc import Hashable
from statistics import fmean

from hocket.core.signals import returns
from hocket.lab.claims.harness import EXACT, Claims, Finding, gap, inspect_rows, say
from hocket.lab.microscope import RecordedBatch
from hocket.lab.toys.recorded_answers import document, sample, shown
from hocket.lab.toys.training import chances, starting, trained
from hocket.lab.world import Answer, World
from hocket.methods.group_relative.adacot import ADACOT
from hocket.recipe import Recipe

claim = Claims("adacot", "arXiv 2505.11896")
QUESTIONS = 8


@claim("Masked, the decision's gradient is exactly 0, whether it is made by the first token or behind the tag.")
def masked_the_decisions_gradient_is_exactly_0_whether_it_is_made() -> Finding:
    rows = [
        sample("a", reward, [-0.5, -1.0, -0.7, -0.3], value=[0.1, 0.2, 0.3, 0.1], text=text, info={"pieces": pieces})
        for reward, text, pieces in (
            (1.0, "<think>why</think>.", ["<think>", "why", "</think>", "."]),
            (0.0, "<think></think>yes.", ["<thi", "nk></think>", "yes", "."]),
            (0.0, "so yes.", ["so", " ", "yes", "."]),
        )
    ]
    masked, unmasked = (inspect_rows(recipe, rows)["gradient"] for recipe in (ADACOT, ADACOT.but({"correction": None})))
    silent = [[place for place, slope in enumerate(row) if slope == 0] for row in masked]
    holds = silent == [[0, 1], [0, 2], [0]] and all(map(all, unmasked))
    return Finding(holds, say(gradient_0_at=str(silent), without_the_mask="nowhere"))


@claim("Penalties are charged where they are due.", "our form of the penalties")
def penalties_are_charged_where_they_are_due() -> Finding:
    cases = (("yes", 1.0), ("<think>why</think>yes", 0.0), ("<think>why", 0.5), ("<think>why</think>", 1.0))
    rows = [sample("a", 0.0, [-1.0], value=[0.0], text=t, info={"needed": n, "pieces": [t]}) for t, n in cases]
    labelled = [
        {**row, "info": {**row["info"], "metadata": {"needed": n}}} for row, (_, n) in zip(rows, cases, strict=True)
    ]
    for row in labelled:
        del row["info"]["needed"]
    charged, by_metadata = (
        returns(ADACOT.shaping[0](ADACOT.combine(RecordedBatch(document(some)).batch, {}))).tolist()
        for some in (rows, labelled)
    )
    saw = f"missed, overdone, broken, fine: {shown(charged)}, also where the scenario's metadata say what is needed"
    return Finding(gap(charged, [-0.2, -0.2, -0.1 - 0.5, 0.0]) < EXACT and by_metadata == charged, saw)


@claim(
    "Where nobody knows, thinking is needed if less than half of a group's own straight answers are right.",
    "chosen here",
)
def where_nobody_knows_thinking_is_needed_if_less_than_half_of_a() -> Finding:
    thought = "<think>why</think>yes"
    groups: dict[str, tuple[tuple[str, float, bool], ...]] = {
        "needless": (("a", 1.0, True), ("b", 1.0, True), ("c", 0.9, True), (thought, 1.0, True)),
        "needed": (("a", 1.0, True), ("b", 0.0, True), ("c", 0.9, True), (thought, 0.0, True), ("d", 1.0, False)),
        "even": (("a", 1.0, True), ("b", 0.0, True), (thought, 0.0, True)),
        "all think": ((thought, 1.0, True), (thought, 0.0, True)),
    }
    rows = [
        sample(name, reward, [-1.0], value=[0.0], text=text, trained=[counts], info={"pieces": [text]})
        for name, ones in groups.items()
        for text, reward, counts in ones
    ]
    charged = returns(ADACOT.shaping[0](ADACOT.combine(RecordedBatch(document(rows)).batch, {}))).tolist()
    paid = [round(after - row["scores"]["reward"], 9) for after, row in zip(charged, rows, strict=True)]
    wanted = [0, 0, 0, -0.2, *[-0.2] * 3, 0, -0.2, *[0] * 5]
    return Finding(gap(paid, wanted) < 1e-9, say(charged=str(paid)))


def thinking_world(*, hard: bool = False) -> World:
    """Questions 0 to 7 of rising difficulty q/7: thinking is always right, answering straight with chance 1 - q/7.

    With `hard` the two hardest alone are asked, and all questions look the same where it is decided.
    """

    def level(question: int) -> float:
        return (QUESTIONS - 1 - question if hard else question) / (QUESTIONS - 1)

    def reward(question: int, answer: Answer) -> float:
        return {1: 1.0, 2: 1 - level(question)}.get(answer[1], 0.0) if answer[0] == 0 else 0.0

    def context(question: int, prefix: Answer) -> Hashable:
        return ("decide", 0 if hard else question) if prefix else "open"

    words, count = ("<think>", "why</think>yes", "</think>yes"), 2 if hard else QUESTIONS
    return World(count, 3, 2, reward, words=words, context=context, info=lambda q, _: {"needed": level(q)})


UNDECIDED: dict[Answer, dict[int, float]] = {(): {0: 1.0}, (0,): {1: 0.5, 2: 0.5}}


def rates(world: World, recipe: Recipe, steps: int) -> list[list[float]]:
    """How often each question is thought about after training from half of the time, by seed."""
    undecided = {(n, prefix): odds for n in range(world.questions) for prefix, odds in UNDECIDED.items()}
    recipe = recipe.but({"update.epochs": 1, "update.minibatches": 1, "rollout.samples": 8})
    benches = trained(world, recipe, steps, lr=0.1, start=starting(undecided, 1e-9))
    return [[float(chances(one, question, (0,))[1]) for question in range(world.questions)] for one in benches]


def ranks_well(rate: list[float]) -> float:
    """The area under the curve of triggering as a classifier of the harder half; rates within 0.02 are ties."""
    pairs = itertools.product(rate[: QUESTIONS // 2], rate[QUESTIONS // 2 :])
    return fmean(0.5 if abs(hard - easy) < 0.02 else float(hard > easy) for easy, hard in pairs)


@claim("The trigger rate falls with a2/a1 and thinking concentrates on hard items.", slow=True)
def the_trigger_rate_falls_with_a2_a1_and_thinking_concentrates_on() -> Finding:
    rows = {}
    for over in (0.1, 0.5, 1.0, 2.0):
        recipe = ADACOT.but({"correction": None, "shaping.0.over": over, "shaping.0.miss": 0.2})
        rows[over / 0.2] = rates(thinking_world(), recipe, 50)
    triggered = [[fmean(one) for one in some] for some in rows.values()]
    curve = [fmean(map(ranks_well, some)) for some in rows.values()]
    falls = all(min(a) > max(b) for a, b in itertools.pairwise(triggered))
    saw = say(trigger_rate=shown([*map(fmean, triggered)]), AUC=shown(curve), mean=fmean(curve))
    return Finding(falls and fmean(curve) > 0.8, f"at a2/a1 = {shown(list(rows))}: {saw}")


@claim("A stage on hard data alone drives the rate to 1 unmasked and leaves it within 5 points masked.", slow=True)
def a_stage_on_hard_data_alone_drives_the_rate_to_1_unmasked_and() -> Finding:
    unmasked, masked = (
        [rate for (rate, _) in rates(thinking_world(hard=True), recipe, 60)]
        for recipe in (ADACOT.but({"correction": None}), ADACOT)
    )
    saw = say(rate_from=0.5, unmasked=shown(unmasked), masked=shown(masked))
    return Finding(min(unmasked) > 0.95 and all(abs(rate - 0.5) < 0.05 for rate in masked), saw)


claim.shipped(ADACOT, "shaping", "correction")
