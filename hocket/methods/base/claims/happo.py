"""HAPPO's claims."""

from __future__ import annotations

import asyncio
import itertools
from statistics import fmean
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray

from hocket import tasks
from hocket.core.batch import Batch, Level
from hocket.core.casting import Shared
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.credit.sequential_agents import MOVED, InTurn
from hocket.lab.claims.harness import EXACT, SEEDS, Claims, Finding, say
from hocket.lab.toys.teams import by_chance, interval, trained
from hocket.methods.base.happo import HAPPO
from hocket.methods.base.ppo import PPO
from hocket.objectives.value import ValueLoss
from hocket.recipe import Recipe
from hocket.stages import Task
from hocket.tasks.gym import GymTask
from hocket.tasks.joint import JointTask
from hocket.train.assemble import build_parts
from hocket.train.config import configure
from hocket.train.loop import RunContext, train_step
from hocket.types import End, Quantity, Scenario, Score, Trajectory, Turn
from hocket.zoo.joint.solo import Solo

claim = Claims("happo", "arXiv:2109.11251")


# ---------------------------------------------------------------- the formula


def _step(task: str, seed: int = 0) -> tuple[list[tuple[str, Batch]], dict[str, Any], dict[str, Any], RunContext]:
    """One step: what each agent's recipe credited, in the order in which they learnt; policies before and after."""
    world = tasks.find(task)
    parts = build_parts(configure([("recipe", HAPPO), ("seed", seed), ("curriculum.prompts", 6)], world), world)
    before = {name: learner.policy.frozen_copy() for name, learner in parts.learners.items()}
    learnt: list[tuple[str, Batch]] = []

    def watched(name: str, credit: Any) -> Any:
        def credited(batch: Batch, weights: Any, step: int) -> Batch:
            learnt.append((name, credit(batch, weights, step)))
            return learnt[-1][1]

        return credited

    for name, learner in parts.learners.items():
        learner.compute_credit = watched(name, learner.compute_credit)  # type: ignore[method-assign]
    asyncio.run(train_step(parts, 1))
    return learnt, before, {name: learner.policy for name, learner in parts.learners.items()}, parts


@claim(
    "M_m = r_1 .. r_(m-1) A in float64, A the mean over agents of GAE by their own critics, whitened over the batch."
)
def m_m_r_1_r_a_in_float64_a_the_mean_over_agents_of_gae_by_their() -> Finding:
    error, moved, rows = 0.0, 0.0, 0
    for task in ("forage:6x6-3p-2f?length=9", "mpe:spread?agents=3&length=5"):
        learnt, before, after, parts = _step(task)
        batch = learnt[0][1]
        credit: Any = parts.lead.recipe.credit
        whole = _advantages(batch, before, credit.gamma, credit.lam)
        factor = np.ones(batch.trajectories * 1000)
        place = (batch.occurrences.trajectory * 1000 + _times(batch)).numpy()
        whitened = (whole - whole.mean()) / (whole.std(ddof=1) + 1e-8)
        for name, seen in learnt:
            mine = _of(seen, name)
            given = seen.occurrences.advantage.numpy()[mine]
            error = max(error, float(np.abs(given - (factor[place] * whitened)[mine]).max()))
            ratio = _logp(after[name], seen).numpy() - _logp(before[name], seen).numpy()
            factor[place[mine]] *= np.exp(ratio[mine])
            moved, rows = max(moved, float(np.abs(ratio[mine]).max())), rows + int(mine.sum())
    figures = say(largest_error=error, largest_log_ratio=moved, decisions=rows)
    return Finding(error < 1e-4 and moved > 0.01 and rows > 200, figures)


def _times(batch: Batch) -> torch.Tensor:
    assert batch.time is not None
    return batch.time[batch.occurrences.decision]


def _of(batch: Batch, name: str) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = (batch.policy[batch.turn] == batch.names["policy"].index(name))[
        batch.occurrences.decision
    ].numpy()
    return found


def _logp(policy: Any, batch: Batch) -> torch.Tensor:
    with torch.no_grad():
        found: torch.Tensor = policy.evaluate(batch, {Quantity.LOGP}).logp.double()
    return found[batch.occurrences.decision]


def _advantages(batch: Batch, critics: dict[str, Any], gamma: float, lam: float) -> NDArray[np.float64]:
    """The team's of each occurrence, from rewards and values one by one."""
    own, keys = [], []
    reward, start = batch.scores["reward/decision"].values.numpy(), 0
    assert batch.parts is not None
    for part in range(batch.turns):
        name = batch.names["policy"][int(batch.policy[part])]
        rows = torch.nonzero(batch.turn == part).flatten()
        with torch.no_grad():
            value = critics[name].evaluate(batch, {Quantity.VALUE}, rows).value[rows].double().numpy()
        joint, seen = batch.parts.final_joint[part], batch.parts.final_state[part]
        following = 0.0
        if bool(batch.parts.truncated[part]):
            end = torch.from_numpy(np.concatenate([cast(Any, joint), cast(Any, seen)])[None])
            following = float(critics[name].module.critic(end).detach())
        trace, found = 0.0, []
        for place in reversed(range(len(rows))):
            trace = reward[start + place] + gamma * following - value[place] + gamma * lam * trace
            following = value[place]
            found.append(trace)
        own += found[::-1]
        keys += [(int(batch.parts.trajectory[part]), place) for place in range(len(rows))]
        start += len(rows)
    together: dict[tuple[int, int], list[float]] = {}
    for key, one in zip(keys, own, strict=True):
        together.setdefault(key, []).append(one)
    return np.array([fmean(together[key]) for key in keys])


@claim(
    "In whatever order, the agents' terms E[(r_m - 1) M_m] under the old policies sum to the new joint policy's "
    "E[A(s, a)]: enumerated on random games of three."
)
def in_whatever_order_the_agents_terms_e_m_m_under_the_old_policies() -> Finding:
    error, apart = 0.0, 0.0
    for seed in range(5):
        noise = Key.of(seed).derive("game").numpy()
        moves = (2, 3, 2)
        old, new = ([noise.dirichlet(np.ones(size)) for size in moves] for _ in range(2))
        pay = noise.normal(size=moves)
        pay -= np.einsum("abc,a,b,c->", pay, *old)
        actions = list(itertools.product(*map(range, moves)))
        chance = np.array([np.prod([old[i][a[i]] for i in range(3)]) for a in actions])
        goal = float(np.einsum("abc,a,b,c->", pay, *new))
        for order in itertools.permutations(range(3)):
            total, done = 0.0, list[int]()
            for agent in order:
                ratios = {j: np.array([new[j][a[j]] / old[j][a[j]] for a in actions]) for j in range(3)}
                credited = InTurn(whiten=False)(_enumerated(actions, pay, done, ratios)).occurrences.advantage
                mine = credited.reshape(-1, 3)[:, agent].numpy()
                total += float((chance * (ratios[agent] - 1) * mine).sum())
                done.append(agent)
            error = max(error, abs(total - goal))
        apart = max(apart, abs(goal - sum(_alone(pay, old, new, agent) for agent in range(3))))
    return Finding(error < EXACT and apart > 0.01, say(largest_error=error, without_the_factor_off_by=apart))


def _alone(pay: NDArray[np.float64], old: list[Any], new: list[Any], agent: int) -> float:
    """What the term of an agent is when nobody moved before it."""
    return float(np.einsum("abc,a,b,c->", pay, *[new[j] if j == agent else old[j] for j in range(3)]))


def _enumerated(actions: list[Any], pay: NDArray[np.float64], done: list[int], ratios: dict[int, Any]) -> Batch:
    """Every joint move as a trajectory of one step, credited with what it pays; `done` have learnt."""
    end, found = End(True, False, np.zeros(1, np.float32)), []
    for action in actions:
        turns = [
            Turn(f"agent_{i}", f"agent_{i}", np.zeros((1, 1), np.float32), np.array([action[i]]), time=np.zeros(1, int))
            for i in range(3)
        ]
        for turn in turns:
            turn.end, turn.logp = end, np.zeros(1, np.float32)
        score = Score(np.full(3, pay[action]), Level.DECISION)
        found.append(Trajectory(Scenario(id=str(action)), turns, scores={"reward": score}, terminated=True))
    batch = pack(found)
    moved = np.zeros((len(actions), 3))
    for agent in done:
        moved[:, agent] = np.log(ratios[agent])
    paid = torch.from_numpy(np.repeat([pay[action] for action in actions], 3))
    return batch.but(annotations={MOVED.name: torch.from_numpy(moved.reshape(-1))}).credited(advantage=paid)


# ---------------------------------------------------------------- reductions and the order


@claim("With one agent, and without what MAPPO adds to PPO, it is PPO step for step: weights are equal bit for bit.")
def with_one_agent_and_without_what_mappo_adds_to_ppo_it_is_ppo() -> Finding:
    alone = cast(GymTask, tasks.find("gym:CartPole-v1?max_episode_steps=40"))
    plain = {"cast": Shared(), "regularisers": (ValueLoss(coefficient=0.5, aggregate="token-mean"),)}
    ours = _weights(_like(HAPPO.but(plain), alone), JointTask(Solo(alone)), alone)
    theirs = _weights(_like(PPO, alone), alone, alone)
    furthest = float((ours[-1] - theirs[-1]).abs().max())
    return Finding(
        furthest == 0 and float((ours[-1] - ours[0]).abs().max()) > 0, say(largest_difference_of_weights=furthest)
    )


def _weights(recipe: Recipe, task: Task, like: Task) -> list[torch.Tensor]:
    """Before, and after each of three steps, flat; all that is not the recipe's is as the task `like` suggests."""
    parts = build_parts(configure([("recipe", recipe), ("steps", 3)], like), task)
    found = []
    for step in range(1, 5):
        found.append(torch.cat([one.detach().flatten().clone() for one in parts.lead.policy.module.parameters()]))
        if step < 4:
            asyncio.run(train_step(parts, step))
    return found


def _like(recipe: Recipe, task: Task) -> Recipe:
    """The recipe with PPO's settings for a task; the credit leaves whitening to the correction where there is one."""
    small = [("recipe", PPO), ("curriculum.prompts", 4), ("update.epochs", 2)]
    given = configure(small, task).recipe
    own = recipe.but({slot: getattr(given, slot) for slot in ("curriculum", "rollout", "objective", "credit")})
    own = own.but({"credit.whiten": recipe.correction is None})
    return own.but({f"update.{name}": getattr(given.update, name) for name in ("lr", "epochs", "minibatches")})


@claim("Who learns first is drawn anew at every step and by its key alone: in 24 steps everybody is, equal runs agree.")
def who_learns_first_is_drawn_anew_at_every_step_and_by_its_key() -> Finding:
    orders = []
    for _ in range(2):
        world = tasks.find("dilemma:prisoners?rounds=2")
        parts = build_parts(configure([("recipe", HAPPO), ("curriculum.prompts", 2)], world), world)
        found: list[str] = []
        for name, learner in parts.learners.items():
            learner.learn = _noting(found, name)  # type: ignore[method-assign]
        for step in range(1, 25):
            asyncio.run(train_step(parts, step))
        orders.append(tuple(found[::2]))
    first = orders[0].count("row")
    return Finding(orders[0] == orders[1] and 4 <= first <= 20, say(row_first_of_24=first))


def _noting(found: list[str], name: str) -> Any:
    def learnt(batch: Batch, key: Key, step: int) -> dict[str, float]:
        found.append(name)
        return {"loss": 0.0}

    return learnt


# ---------------------------------------------------------------- learning


@claim("On spread it is above random play in every seed, 95 % interval of the mean included.", slow=True)
def on_spread_it_is_above_random_play_in_every_seed_95_interval_of() -> Finding:
    task = "mpe:spread?agents=2"
    scores, chance = [trained("happo", task, seed, 10).score for seed in SEEDS], by_chance(task)
    low, high = interval(scores)
    said = f"{fmean(scores):.2f} ({low:.2f} to {high:.2f}) against {chance:.2f} by chance"
    return Finding(low > chance and min(scores) > chance, said)


claim.shipped(HAPPO, without={"correction": None, "credit.whiten": True})
AGAIN = "advantages that were whitened before are whitened again after their mean over agents: the same"
claim.spares("happo: credit = GAE", AGAIN)
claim.spares("happo: credit.whiten = True", AGAIN)
claim.spares("happo: update = GradientStep", "where no part has a pace of its own, PartedStep is GradientStep")
claim.spares("happo: update.epochs = 160", "how often a batch serves is PPO's")
claim.spares("happo: update.minibatches = 160", "into how many parts a batch is cut is PPO's")
