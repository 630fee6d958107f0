"""What of RL is essential to RLHF: five statements, and their central one exactly (Sun, arXiv:2310.06147).

The paper reads alignment as inverse RL on recorded answers. Cloning matches actions on the demonstrations' states, so
an error early on leads where nothing was recorded, and errors compound: the loss grows as `T^2`. A learner that is
trained on the states that it comes to itself errs once in a while and comes back: its loss grows as `T` (Ross and
Bagnell 2010; Ross et al. 2011).

`cliff:T` is the smallest world with this difference, `cloned` and `own_states` are the two learners, fitted on exact
frequencies of states. The paper states neither a world nor an error rate: both are chosen here.
"""

from __future__ import annotations

import numpy as np

from hocket.core.surveys import Axis, Cell, FieldSurvey, any_of, family, fills, is_a, kind, reads, row, rows, uses
from hocket.lab.exact.mdp import Array, TabularMDP
from hocket.lab.exact.worlds import WorldFamily

AHEAD, CLIMB = 0, 1


def cliff(horizon: int) -> TabularMDP:
    """A road beside a drop, `horizon` decisions long: state 0 is the road and pays 1, state 1 the ditch and pays 0.

    On the road AHEAD stays on it and CLIMB falls; in the ditch CLIMB comes back and AHEAD stays down.
    """
    transition = np.zeros((2, 2, 2))
    transition[0, AHEAD, 0] = transition[0, CLIMB, 1] = transition[1, CLIMB, 0] = transition[1, AHEAD, 1] = 1
    reward = np.array([[1.0, 1.0], [0.0, 0.0]])
    return TabularMDP(transition, reward, np.eye(2)[0], horizon, name=f"cliff:{horizon}")


CLIFF = WorldFamily(name="cliff", description="a road beside a ditch, in episodes", make=cliff, size=(10,))

EXPERT = np.array([AHEAD, CLIMB])
"""The best action in each state."""


def visits(world: TabularMDP, policy: Array) -> Array:
    """The expected number of decisions in each state in an episode of a stationary policy `[S, A]`."""
    assert world.horizon is not None
    state, total = world.start.copy(), np.zeros(len(world.start))
    for _ in range(world.horizon):
        total += state
        state = np.einsum("s,sa,sax->x", state, policy, world.transition)
    return total


def fitted(world: TabularMDP, frequencies: Array, error: float) -> Array:
    """The policy that imitates the expert in each state with a probability of `1 - error` where data reaches.

    Where it does not, the most frequent action of the data is taken, as by any learner that generalises. Returns the
    probabilities `[S, A]`.
    """
    labels = np.eye(world.reward.shape[1])[EXPERT]
    usual = int((frequencies @ labels).argmax())
    action = np.where(frequencies > 0, EXPERT, usual)
    chosen = np.eye(world.reward.shape[1])[action]
    return np.asarray((1 - error) * chosen + error * (1 - chosen) / (world.reward.shape[1] - 1), np.float64)


def cloned(world: TabularMDP, error: float) -> Array:
    """Behaviour cloning: fitted on the states of the expert's episodes."""
    return fitted(world, visits(world, np.eye(world.reward.shape[1])[EXPERT]), error)


def own_states(world: TabularMDP, error: float, rounds: int = 4) -> Array:
    """DAgger: after cloning, fitted on all states that its policies came to, labelled by the expert."""
    frequencies = visits(world, np.eye(world.reward.shape[1])[EXPERT])
    policy = fitted(world, frequencies, error)
    for _ in range(rounds):
        frequencies = frequencies + visits(world, policy)
        policy = fitted(world, frequencies, error)
    return policy


def loss(world: TabularMDP, policy: Array) -> float:
    """How much less than the expert a policy earns in an episode."""
    assert world.horizon is not None
    return float(world.optimum - visits(world, policy) @ (policy * world.reward).sum(1))


PREFERRED = any_of(*map(uses, ("BradleyTerry", "LabelledScore", "RegressedScore")))

RL_PERSPECTIVE_RLHF = FieldSurvey(
    name="rl-perspective-rlhf",
    title="Reinforcement Learning in the Era of LLMs: What is Essential? What is needed?",
    source="Sun, arXiv:2310.06147",
    witness="on `cliff:T` (`hocket solve --world cliff:20`) the loss of cloning grows as T^2, that of a learner on its "
    "own states as T",
    axes=(
        Axis(
            "statement",
            "Its five statements, and the recipes that are on the side it argues for.",
            (
                Cell(
                    "inverse-rl",
                    "RLHF is online inverse RL with offline demonstrations",
                    rows("dr-irl", "parl") | is_a("ppo-rlhf"),
                ),
                Cell(
                    "own-states",
                    "matching trajectories avoids the compounding error of cloning",
                    family("distillation") & ~is_a("kd-sft") & ~is_a("seq-kd") | is_a("ppo-rlhf"),
                ),
                Cell("reward-model", "a reward model is a cheap stand-in for costly feedback", PREFERRED),
                Cell(
                    "prompts",
                    "the same idea serves the evaluation of prompts",
                    kind("searcher"),
                ),
                Cell(
                    "near-on-policy",
                    "PPO is preferred to off-policy values for stability",
                    is_a("ppo") & reads("value") & ~fills("store"),
                ),
            ),
        ),
        Axis(
            "term",
            "Classical terms, and what has their place with language models.",
            (
                Cell("cloning", "behaviour cloning is supervised fine-tuning", is_a("sft") | is_a("bc")),
                Cell("imitation", "imitation by matching trajectories is RLHF", is_a("ppo-rlhf")),
                Cell("reward", "an unknown reward is a preference model", PREFERRED),
                Cell("offline", "offline RL is learning from recorded preferences or paths", is_a("dpo") | row("oreo")),
                Cell("value-based", "values of actions, off-policy", uses("CriticLoss")),
            ),
        ),
    ),
    named=(
        Cell("behaviour cloning", "likelihood of recorded actions", is_a("bc") | is_a("sft")),
        Cell("RLHF", "PPO on a learnt reward", is_a("ppo-rlhf")),
        Cell("PPO", "near on-policy, with a value", is_a("ppo")),
        Cell("DQN", "off-policy values", is_a("dqn")),
        Cell("SAC", "off-policy actor-critic", is_a("sac")),
        Cell("DPO", "no reward model", is_a("dpo")),
    ),
)
