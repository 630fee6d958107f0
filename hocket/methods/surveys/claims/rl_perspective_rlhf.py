"""Claims about the RL perspective on RLHF."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from hocket.apps.report import map as maps
from hocket.core.keys import Key
from hocket.lab.claims.harness import Claims, Finding, say
from hocket.lab.exact.mdp import Array, TabularMDP
from hocket.methods.surveys.rl_perspective_rlhf import (
    AHEAD,
    CLIMB,
    RL_PERSPECTIVE_RLHF,
    cliff,
    cloned,
    fitted,
    loss,
    own_states,
)

claim = Claims("rl-perspective-rlhf", "arXiv:2310.06147; Ross and Bagnell 2010, Ross et al. 2011")

ERROR = 1e-4
HORIZONS = (8, 16, 32, 64, 128)


def _slope(learner: Callable[[TabularMDP, float], Array], error: float = ERROR) -> float:
    """Of the logarithm of the loss over that of the horizon."""
    losses = [loss(world, learner(world, error)) for world in map(cliff, HORIZONS)]
    return float(np.polyfit(np.log(HORIZONS), np.log(losses), 1)[0])


@claim(
    "With an error rate e the loss of cloning grows as T^2 and that of a learner on its own states as T.", "section 3"
)
def the_loss_of_cloning_grows_as_the_square() -> Finding:
    clone, visited = _slope(cloned), _slope(own_states)
    return Finding(abs(clone - 2) < 0.05 and abs(visited - 1) < 0.05, say(cloning=clone, own_states=visited))


@claim("For small eT the losses are e T (T - 1) / 2 and e (T - 1).", "derived here")
def for_small_errors_the_losses_are_known() -> Finding:
    ratios = []
    for horizon in HORIZONS:
        world = cliff(horizon)
        clone, visited = loss(world, cloned(world, 1e-7)), loss(world, own_states(world, 1e-7))
        ratios += [clone / (1e-7 * horizon * (horizon - 1) / 2), visited / (1e-7 * (horizon - 1))]
    return Finding(max(abs(ratio - 1) for ratio in ratios) < 1e-4, say(smallest=min(ratios), largest=max(ratios)))


@claim("The losses are what episodes show: drawn one by one they agree within four standard errors.", "derived here")
def the_losses_are_what_episodes_show() -> Finding:
    draw, gaps = Key.of(0).derive("cliff").numpy(), []
    world, count = cliff(20), 20_000
    for learner in (cloned, own_states):
        policy, state, earned = learner(world, 0.05), np.zeros(count, np.int64), np.zeros(count)
        for _ in range(20):
            earned += state == 0
            action = (draw.random(count) < policy[state, 1]).astype(np.int64)
            # By hand: CLIMB on the road falls, CLIMB in the ditch comes back, AHEAD stays.
            state = np.where(action == CLIMB, 1 - state, state)
        short = 20 - earned
        gaps.append(abs(short.mean() - loss(world, policy)) / (short.std() / count**0.5))
    return Finding(max(gaps) < 4, say(standard_errors=gaps))


@claim("It is the states that matter, not the number of labels: cloning on a thousand times the data loses the same.")
def it_is_the_states_that_matter() -> Finding:
    world = cliff(32)
    once = fitted(world, np.array([32.0, 0.0]), ERROR)
    often = fitted(world, np.array([32_000.0, 0.0]), ERROR)
    ditch = fitted(world, np.array([32.0, 1e-6]), ERROR)
    losses = [loss(world, policy) for policy in (once, often, ditch)]
    return Finding(losses[0] == losses[1] > 5 * losses[2], say(once=losses[0], often=losses[1], ditch_once=losses[2]))


@claim("Where the ditch needs the same action as the road there is no cliff, and cloning is linear as well.")
def without_a_cliff_cloning_is_linear() -> Finding:
    losses = []
    for horizon in HORIZONS:
        world = cliff(horizon)
        transition = world.transition.copy()
        transition[1] = transition[1, ::-1]
        losses.append(loss(replace(world, transition=transition), cloned(world, ERROR)))
    slope = float(np.polyfit(np.log(HORIZONS), np.log(losses), 1)[0])
    return Finding(abs(slope - 1) < 0.05 and AHEAD != CLIMB, say(cloning=slope))


@claim("Its five statements and its terms have recipes, and every method that it names has one.")
def its_statements_have_recipes() -> Finding:
    problems = maps.problems(RL_PERSPECTIVE_RLHF)
    return Finding(not problems and len(RL_PERSPECTIVE_RLHF.axes[0].cells) == 5, say(problems=len(problems)))
