"""DGRPO's claims."""

import math
from functools import partial
from statistics import fmean

import torch

from hocket.lab.claims.harness import EXACT, SEEDS, Claims, Finding, each, gap, gradient, inspect_rows, runs, say
from hocket.lab.dialogue import Dialogue, DialogueBench
from hocket.lab.groups import first_advantages, recorded
from hocket.lab.toys.quick_worlds import choosing, leaning
from hocket.lab.toys.training import accuracy
from hocket.recipes import GRPO, VITAL_DGRPO

claim = Claims("vital-dgrpo", "arXiv:2508.04416, abstract; form chosen here")


@claim("Weights fall with the group's mean, have mean 1, and are 1 when difficulties are equal")
def weights_fall_with_the_groups_mean_have_mean_1_and_are_1_when() -> Finding:
    groups = [[1.0, 0.0, 0.0, 0.0], [1.0, 1.0, 0.0, 0.0], [1.0, 1.0, 1.0, 0.0]]
    weighed, plain = (first_advantages(recipe, recorded(groups)) for recipe in (VITAL_DGRPO, GRPO))
    factors = [a / b for a, b in zip(weighed, plain, strict=True)]
    equal = recorded([groups[1], groups[1][::-1], groups[1]])
    same = torch.equal(gradient(VITAL_DGRPO, equal), gradient(GRPO, equal))
    hand = [math.exp(-fmean(group)) for group in groups]
    off = gap(factors[::4], [one / fmean(hand) for one in hand])
    weights = str([round(one, 4) for one in factors[::4]])
    told = f"means 1/4, 1/2, 3/4: {say(weights=weights)}, mean {fmean(factors):.12f}"
    idle = inspect_rows(VITAL_DGRPO, [{**row, "trained": [False]} for row in equal["trajectories"]])["advantages"]
    holds = off < EXACT and abs(fmean(factors) - 1) < EXACT and same and not any(map(any, idle))
    return Finding(holds, f"{told}, {say(equal_difficulties_give_GRPO_bit_for_bit=same)}")


@claim(
    "On two tasks that share parameters the hard one grows faster and the easy one loses little",
    "arXiv:2508.04416",
    slow=True,
)
def on_two_tasks_that_share_parameters_the_hard_one_grows_faster() -> Finding:
    # Three of eight answers are right for the easy task, one of them for the hard one.
    world = choosing(2, 8, lambda q, token: float(token == 5 or (q == 0 and token in (0, 1))), context="shared")
    strong = VITAL_DGRPO.but({"name": "strength 3", "credit.weigh.0.strength": 3.0})
    made = runs(world, GRPO, VITAL_DGRPO, strong, steps=60, every=60, lr=0.03, start=leaning(0, 2.0))
    easy, hard = each(made, partial(accuracy, 0)), each(made, partial(accuracy, 1))
    grown, plain = hard["vital-dgrpo"], hard["grpo"]
    holds = min(grown) > 0 and fmean(grown) > 1.3 * fmean(plain)
    holds &= fmean(easy["vital-dgrpo"]) > fmean(easy["grpo"]) - 0.1
    return Finding(holds, f"{say(hard=hard)}; {say(easy=easy)}")


# Videos are lists of two integers; a call of frame k shows its number, and the question names the frame.
FRAMES = Dialogue(
    *(2, 5, 3, lambda question, answer: 0.0),
    reply=lambda question, tokens, hidden: 2 + hidden[tokens[0]] if len(tokens) == 1 and tokens[0] < 2 else None,
    hide=lambda question, key: [key.derive(k).word % 3 for k in range(2)],
    verdict=lambda question, answer, hidden: float(answer[-1] == 2 + hidden[question]),
    over=lambda question, tokens: len(tokens) == 1 and tokens[0] >= 2,
)


@claim("It learns to look up the frame a question is about, on videos of integers", "derived here", slow=True)
def it_learns_to_look_up_the_frame_a_question_is_about_on_videos_of() -> Finding:
    benches = [DialogueBench(FRAMES, VITAL_DGRPO, seed=seed, lr=0.1) for seed in SEEDS]
    for bench in benches:
        bench.run(140, every=140)
    first, last = [bench.history[0]["reward/mean"] for bench in benches], [bench.earned(10) for bench in benches]
    return Finding(min(last) > 0.6 and fmean(last) > 0.8, f"right answers: {say(first_step=first, last_ten=last)}")


claim.shipped(VITAL_DGRPO, "credit")
