"""MADDPG's claims."""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

from hocket.core.batch import Batch, Level
from hocket.core.keys import Key, uniforms
from hocket.core.packing import pack
from hocket.core.signals import paid_at_decisions
from hocket.core.stored_rows import FOLLOWING, GOES_ON, PAID, PRESENT, WORD
from hocket.lab.claims.harness import Claims, Finding, below, say
from hocket.lab.toys.drawn_rows import critics, perceptron, reached
from hocket.lab.toys.measured_runs import returns
from hocket.lab.toys.team_rows import ACTIONS, GAMMA, JOINT, OBSERVATIONS, Trio, policies_of, team_rows
from hocket.methods.marl.maddpg import IDDPG, MADDPG
from hocket.policies.control import ControlPolicy
from hocket.recipe import Recipe
from hocket.rollout.joint_transitions import JointTransitions
from hocket.train.annotate import annotate
from hocket.train.learner import Learner
from hocket.types import End, Scenario, Score, Trajectory, Turn

claim = Claims("maddpg", "arXiv:1706.02275")
CLOSE = 5e-5
Array = NDArray[np.float64]


def _annotated(recipe: Recipe, policies: dict[str, ControlPolicy], batch: Batch) -> Batch:
    for policy in policies.values():
        batch = annotate(batch, recipe.reads, policy, None, later=True)
    return batch


def _losses(recipe: Recipe, policy: ControlPolicy, batch: Batch) -> dict[str, float]:
    mine = batch.of_policy(policy.name)
    evaluation = policy.evaluate(mine, recipe.needs)
    return {type(loss).__name__: float(loss(evaluation, mine).total().detach()) for loss in recipe.losses}


def _noise(words: Array, first: int) -> Array:
    drawn = uniforms(words.astype(np.uint64)[:, None], np.arange(first, first + ACTIONS).astype(np.uint64))
    return np.asarray(-np.log(-np.log(drawn)))


def _by_hand(policies: dict[str, ControlPolicy], name: str, batch: Batch, *, central: bool) -> dict[str, float]:
    """The losses of one agent's policy, from the weights, in float64."""
    agents, count = list(policies), batch.trajectories
    column = {
        each.name: each.read(batch, "the claim").double().numpy().reshape(3, count, -1)
        for each in (FOLLOWING, GOES_ON, PAID, PRESENT)
    }
    word, action = WORD.read(batch, "the claim").numpy().reshape(3, count), batch.action.numpy().reshape(3, count)
    present, alive, eye = column["present"], column["goes_on"] > 0, np.eye(ACTIONS)
    then = [perceptron(policies[agent], "slow_actor", column["following"][k]) for k, agent in enumerate(agents)]
    choices = [eye[(logits + _noise(word[k], 0)).argmax(1)] * alive[k] for k, logits in enumerate(then)]
    acted, me = [eye[action[k]] * present[k] for k in range(3)], agents.index(name)
    sight = [np.asarray(batch.observation[k], np.float64) for k in range(3)]
    later = [column["following"][k] * alive[k] for k in range(3)]
    number = np.tile(np.eye(3)[me], (count, 1))

    def values(network: str, sights: list[Array], actions: list[Array]) -> Array:
        parts = [*sights, *actions] if central else [sights[me], actions[me]]
        return critics(policies[name], network, np.concatenate([*parts, number], 1), np.zeros((count, 0)))[:, 0]

    mine = column["following"][me] if not central else None
    after = [mine if mine is not None and k == me else part for k, part in enumerate(later)]
    target = column["paid"][me][:, 0] + column["goes_on"][me][:, 0] * values("slow", after, choices)
    live = present[me][:, 0] > 0
    logits = perceptron(policies[name], "actor", sight[me])
    fresh = [*acted]
    fresh[me] = eye[(logits + _noise(word[me], ACTIONS)).argmax(1)]
    lead = 1e-3 * (logits**2).mean(1) - values("critics", sight, fresh)
    return {
        "TeamCriticLoss": float(((values("critics", sight, acted) - target) ** 2)[live].mean()),
        "PathwiseLoss": float(lead[live].mean()),
    }


@claim("Its losses are those of the paper, computed from all agents' weights in float64.", "eq. 6 and algorithm 1")
def its_losses_are_those_of_the_paper() -> Finding:
    off = dict.fromkeys(("maddpg TeamCriticLoss", "maddpg PathwiseLoss", "iddpg TeamCriticLoss"), 0.0)
    for seed, recipe in itertools.product(range(3), (MADDPG, IDDPG)):
        policies = policies_of(recipe, shared=False, seed=seed)
        batch = _annotated(recipe, policies, team_rows(recipe, shared=False, seed=seed))
        for name, policy in policies.items():
            losses = _losses(recipe, policy, batch)
            for kind, value in _by_hand(policies, name, batch, central=recipe is MADDPG).items():
                key = f"{recipe.name} {kind}"
                off[key] = max(off.get(key, 0.0), abs(value - losses[kind]))
    return below(CLOSE, **{key.replace(" ", "_"): value for key, value in off.items()})


@claim("The critic's loss moves the critic alone, the actor's the actor, and neither a slow copy.")
def each_loss_moves_its_own_part_alone() -> Finding:
    policies = policies_of(MADDPG, shared=False)
    batch = _annotated(MADDPG, policies, team_rows(MADDPG, shared=False)).of_policy("b")
    evaluation = policies["b"].evaluate(batch, MADDPG.needs)
    moved = [reached(policies["b"], loss(evaluation, batch).total()) for loss in MADDPG.losses]
    return Finding(moved == [frozenset({"critics"}), frozenset({"actor"})], "; ".join(map(str, map(sorted, moved))))


@claim(
    "With N agents of two actions, paid 1 where all agree on the first, a single sample's gradient points the right "
    "way with chance 0.5^N, by enumeration.",
    "proposition 1",
)
def a_single_samples_gradient_points_the_right_way_with_chance_half_to_the_n() -> Finding:
    chances = {}
    for agents in (1, 2, 4, 6):
        samples = [np.array(bits) for bits in itertools.product((0, 1), repeat=agents)]
        gradients = [float(sample.all()) * (sample - 0.5) for sample in samples]  # R d log pi, at probability 1/2.
        true = np.mean(gradients, axis=0)
        chances[agents] = float(np.mean([gradient @ true > 0 for gradient in gradients]))
    return Finding(all(chance == 0.5**agents for agents, chance in chances.items()), say(chances=chances))


def _agreeing_rows(count: int = 256) -> Batch:
    """Single moments in which each of three agents does action 0 or 1; all are paid 1 where all do 0."""
    rng, teams = Key.of(0).derive("agreeing").numpy(), []
    for number in range(count):
        actions = rng.integers(0, 2, 3)
        team = Trajectory(Scenario(f"s{number}"), [], terminated=True)
        for place, agent in enumerate(Trio.agents):
            sight = np.zeros((1, OBSERVATIONS), np.float32)
            turn = Turn(agent, agent, sight, actions[place : place + 1], np.full(1, -1.0, np.float32))
            turn.time, turn.joint = np.zeros(1, np.int64), np.zeros((1, JOINT), np.float32)
            turn.end = End(True, False, sight[0], turn.joint[0])
            team.turns.append(turn)
        team.scores["reward"] = Score(np.full(3, float(not actions.any())), Level.DECISION)
        teams.append(team)
    batch = pack(teams)
    store = JointTransitions(size=count, rows=4, begin=0, gamma=GAMMA)
    state = store.add(store.init(), paid_at_decisions(batch, batch.scores["reward"].values))
    return store.draw(state, 2 * count, Key.of(0))


@claim(
    "There a critic of all actions explains what is paid, and a critic of an agent's own keeps the variance p (1 - p), "
    "p = 0.5^(N - 1), that the others make.",
    "section 4.1",
)
def a_critic_of_all_actions_explains_what_others_cause() -> Finding:
    left = {}
    for recipe in (MADDPG, IDDPG):
        policies = policies_of(recipe, shared=False)
        batch = _agreeing_rows()
        learner = Learner(policies["a"], recipe.but(**{"update.lr": 4e-2}), total_steps=1)
        for number in range(80):
            filled = _annotated(recipe, policies, batch)
            learner.learn_drawn(learner.credit_drawn(filled, 1), Key.of(number), 1, 1)
        left[recipe.name] = _losses(recipe, policies["a"], _annotated(recipe, policies, batch))["TeamCriticLoss"]
    action = batch.action.reshape(3, -1)
    paid, mine = (action == 0).all(0).double(), action[0] == 0
    others = float(
        paid[mine].var(unbiased=False) * mine.double().mean()
    )  # In rows of the other action nothing is paid.
    return Finding(left["maddpg"] < 0.02 and abs(left["iddpg"] - others) < 0.02, say(left=left, caused=others))


@claim(
    "On speaker-listener it comes from below -100 to above -30 within 60 steps of 16 episodes.", "section 5", slow=True
)
def on_speaker_listener_it_learns() -> Finding:
    before, after = returns(MADDPG, "mpe:speaker-listener", 0, 60, **{"curriculum.prompts": 16})
    return Finding(before < -100 and after > -30, say(before=before, after=after))


claim.shipped(MADDPG, without={"objective.values.central": False}, steps=12)
