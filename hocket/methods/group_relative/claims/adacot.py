"""What adacot claims."""

from __future__ import annotations

import itertools
from statistics import fmean

from hocket.core.signals import returns
from hocket.lab.bench import Bench
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.microscope import Reading, look
from hocket.lab.policy import Tabular
from hocket.lab.toys.token_weights import SEEDS, chances, document, logits, same, sample, shown, trained
from hocket.lab.world import Answer, World
from hocket.recipes import find

claim = Claims("adacot", "arXiv 2505.11896")


ADACOT = find("adacot")
TAGGED = ("<think>", "why</think>yes", "</think>yes")
QUESTIONS = 8


@claim("Masked, the decision's gradient is exactly 0.")
def decision_has_no_gradient() -> Finding:
    """The gradient at the decision is exactly 0 under the mask, and nowhere else."""
    rows = [
        sample("a", reward, [-0.5, -1.0, -0.7], value=[0.1, 0.2, 0.3], text=text, info={"pieces": pieces})
        for reward, text, pieces in (
            (1.0, "<think>why</think>", ["<think>", "why", "</think>"]),
            (0.0, "<think></think>yes", ["<thi", "nk></think>", "yes"]),
            (0.0, "so<think>why", ["so<think>", "why", "!"]),
        )
    ]
    ours, open_ = look(ADACOT, document(*rows)), look(ADACOT.but({"correction": None}), document(*rows))
    silent = [[slope == 0 for slope in row] for row in ours["gradient"]]
    moved = [[slope != 0 for slope in row] for row in open_["gradient"]]
    holds = silent == [[False, True, False], [False, False, True], [False, True, False]] and all(map(all, moved))
    return Finding(holds, f"gradient 0 at {silent}; without the mask nowhere")


@claim("Penalties are charged where they are due.", "our form of the penalties")
def penalties_are_charged() -> Finding:
    """Each penalty is charged where it is due."""
    rows = [
        sample("a", 0.0, [-1.0], value=[0.0], text=text, info={"needed": needed, "pieces": [text]})
        for text, needed in (
            ("yes", 1.0),
            ("<think>why</think>yes", 0.0),
            ("<think>why", 0.5),
            ("<think>why</think>", 1.0),
        )
    ]
    batch = Reading(document(*rows)).batch
    shaped = ADACOT.shaping[0](ADACOT.combine(batch, {}))
    found = returns(shaped).tolist()
    return Finding(same(found, [-0.2, -0.2, -0.1 - 0.5, 0.0]), f"missed, overdone, broken, fine: {shown(found)}")


def thinking_world(*, hard: bool = False) -> World:
    """Questions 0 to 7 of rising difficulty q/7: thinking is always right, answering straight with chance 1 - q/7.

    With `hard` the two hardest alone are asked, and all questions look the same where it is decided.
    """

    def level(question: int) -> float:
        return (QUESTIONS - 1 - question if hard else question) / (QUESTIONS - 1)

    def reward(question: int, answer: Answer) -> float:
        return {1: 1.0, 2: 1 - level(question)}.get(answer[1], 0.0) if answer[0] == 0 else 0.0

    return World(
        questions=2 if hard else QUESTIONS,
        tokens=3,
        horizon=2,
        reward=reward,
        words=TAGGED,
        context=lambda question, prefix: ("decide", 0 if hard else question) if prefix else "open",
        info=lambda question, answer: {"needed": level(question)},
    )


def undecided(policy: Tabular) -> None:
    """Opens the tag, and thinks half of the time."""
    for question in range(policy.world.questions):
        logits(policy, question, (), {0: 1.0}, 1e-9)
        logits(policy, question, (0,), {1: 0.5, 2: 0.5}, 1e-9)


def rates(bench: Bench) -> list[float]:
    """How often each question is thought about."""
    return [float(chances(bench, question, (0,))[1]) for question in range(bench.world.questions)]


def ranks_well(rate: list[float]) -> float:
    """The area under the curve of triggering as a classifier of the harder half; rates within 0.02 are ties."""
    half = QUESTIONS // 2
    pairs = [(easy, hard) for easy in rate[:half] for hard in rate[half:]]
    return fmean([0.5 if abs(hard - easy) < 0.02 else float(hard > easy) for easy, hard in pairs])


@claim("The trigger rate falls with a2/a1 and thinking concentrates on hard items.", slow=True)
def prices_set_the_rate() -> Finding:
    """The trigger rate falls with a2/a1, and thinking concentrates on hard items."""
    plain = ADACOT.but({"correction": None, "update.epochs": 1, "update.minibatches": 1, "rollout.samples": 8})
    found: dict[float, list[float]] = {}
    areas: dict[float, list[float]] = {}
    for over, seed in itertools.product((0.1, 0.5, 1.0, 2.0), SEEDS):
        recipe = plain.but({"shaping.0.over": over, "shaping.0.miss": 0.2})
        bench = trained(Bench(thinking_world(), recipe, seed=seed, lr=0.1, start=undecided), 50)
        found.setdefault(over / 0.2, []).append(fmean(rates(bench)))
        areas.setdefault(over / 0.2, []).append(ranks_well(rates(bench)))
    triggered, curve = [fmean(runs) for runs in found.values()], [fmean(runs) for runs in areas.values()]
    falls = all(min(a) > max(b) for a, b in itertools.pairwise(found.values()))
    return Finding(
        falls and fmean(curve) > 0.8,
        f"trigger rate at a2/a1 = {shown(list(found))}: {shown(triggered)}; AUC {shown(curve)}, "
        f"mean {fmean(curve):.2f}",
    )


@claim("A stage on hard data alone drives the rate to 1 unmasked and leaves it within 5 points masked.", slow=True)
def boundary_survives_one_sided_data() -> Finding:
    """A second stage on hard questions alone drives the rate to 1 unmasked, and leaves it masked."""
    found = {}
    for name, mask in (("unmasked", None), ("masked", ADACOT.correction)):
        recipe = ADACOT.but({"correction": mask, "update.epochs": 1, "update.minibatches": 1, "rollout.samples": 8})
        found[name] = [
            rates(trained(Bench(thinking_world(hard=True), recipe, seed=seed, lr=0.1, start=undecided), 60))[0]
            for seed in SEEDS
        ]
    holds = min(found["unmasked"]) > 0.95 and all(abs(rate - 0.5) < 0.05 for rate in found["masked"])
    return Finding(holds, f"rate from 0.5 to {shown(found['unmasked'])} unmasked and {shown(found['masked'])} masked")
