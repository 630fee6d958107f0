"""PyTAG's claims."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray

from hocket import tasks
from hocket.core.casting import Separate
from hocket.core.columns import ALLOWED
from hocket.core.keys import Key
from hocket.hooks.past_selves import PastSelves, Pool
from hocket.lab.claims.harness import SEEDS, Claims, Finding, say
from hocket.lab.claims.shipped_check import ShippedRun
from hocket.methods.marl.ippo import IPPO
from hocket.methods.marl.pytag.method import PYTAG
from hocket.methods.marl.pytag.world import SpielTable
from hocket.policies.control import ControlPolicy
from hocket.recipe import Recipe
from hocket.rollout.joint import JointPlayer
from hocket.tasks.joint import JointTask
from hocket.train.aio import run_async
from hocket.train.assemble import build_parts
from hocket.train.config import configure
from hocket.train.loop import RunContext, train_step
from hocket.types import Assignment, Decoding, Trajectory

claim = Claims("pytag", "arXiv:2307.09905")


def _task(game: str, against: str = "") -> JointTask:
    name, _, more = game.partition("&")
    given = "&".join(one for one in ("kind=control", more, f"against={against}" if against else "") if one)
    world = name if ":" in name else f"openspiel:{name}"
    return cast(JointTask, tasks.find(f"{world}?{given}"))


def _fresh(task: JointTask, key: int = 0) -> ControlPolicy:
    """A policy with odds far from even."""
    policy = ControlPolicy.for_task(task.spaces(task.world.agents), key=Key.of(key))
    noise = Key.of(key).derive("noise").numpy()
    for weight in policy.module.parameters():
        weight.data += torch.from_numpy(noise.normal(scale=0.3, size=weight.shape)).float()
    return policy


def _played(
    policy: Any, task: JointTask, count: int, *, width: int = 64, temperature: float = 1.0
) -> Sequence[Trajectory]:
    """Episodes of a policy in all seats that learn."""
    player = JointPlayer(task.world, {"policy": policy}, dict.fromkeys(task.world.agents, "policy"), False, width)
    asked = [Assignment(task.scenario("eval", n), decoding=Decoding(temperature=temperature)) for n in range(count)]
    return run_async(player.play(asked, key=Key.of(1)))


def _returns(found: Sequence[Trajectory], task: JointTask) -> NDArray[np.float64]:
    return np.array([task.success(one) for one in found])


# ---------------------------------------------------------------- the contract


@claim(
    "In 10^5 plies of a policy in all seats nothing illegal is played: every game is played anew by OpenSpiel's rules, "
    "and PettingZoo refuses nothing.",
    slow=True,
)
def in_10_5_plies_of_a_policy_in_all_seats_nothing_illegal_is() -> Finding:
    illegal = plies = 0
    for name, count in (("connect_four", 1900), ("breakthrough&rows=6&columns=6", 1200), ("tic_tac_toe", 1500)):
        task = _task(name)
        for one in _played(_fresh(task), task, count, width=256):
            state = cast(SpielTable, task.world).worlds[0].loaded.new_initial_state()
            for _, player, action in _plies(one):
                illegal += state.current_player() != player or action not in state.legal_actions()
                state.apply_action(action)
                plies += 1
            illegal += not state.is_terminal()
    for name, count in (("pettingzoo:classic.connect_four_v3", 500), ("pettingzoo:classic.tictactoe_v3", 500)):
        task = _task(name)
        for one in _played(_fresh(task), task, count):
            illegal += one.failure is not None
            for turn in one.turns:
                masks = np.asarray(ALLOWED.get(turn))
                illegal += int((~masks[np.arange(len(turn)), turn.action]).sum())
                plies += len(turn)
    return Finding(illegal == 0 and plies >= 100_000, say(plies=plies, illegal=illegal))


def _plies(one: Trajectory) -> list[tuple[int, int, int]]:
    """Time, player and move of all decisions, in order."""
    found = []
    for turn in one.turns:
        assert turn.time is not None
        player = int(turn.agent.rpartition("_")[2])
        found += [(int(time), player, int(move)) for time, move in zip(turn.time, turn.action, strict=True)]
    return sorted(found)


class _Chance:
    """Any legal move."""

    name, version, draws = "policy", 0, 1

    def sample(
        self,
        observations: NDArray[np.float32],
        uniforms: NDArray[np.float64],
        temperature: NDArray[np.float32],
        allowed: NDArray[np.bool_] | None = None,
        **_: Any,
    ) -> tuple[NDArray[Any], NDArray[np.float32]]:
        assert allowed is not None
        mass = allowed.cumsum(1)
        return (uniforms * mass[:, -1:] >= mass).sum(1), np.zeros(len(uniforms), np.float32)


def _even(state: Any) -> dict[int, float]:
    legal = state.legal_actions()
    return {action: 1 / len(legal) for action in legal}


def _exact(table: SpielTable, own: Any, other: Any) -> list[float]:
    """What `own` earns against `other` in each seat, by the whole tree; both tell odds of a state's moves."""

    def value(state: Any, seat: int) -> float:
        if state.is_terminal():
            return float(state.returns()[seat])
        if state.is_chance_node():
            return float(sum(odds * value(state.child(move), seat) for move, odds in state.chance_outcomes()))
        odds = own(state) if state.current_player() == seat else other(state)
        return float(sum(chance * value(state.child(action), seat) for action, chance in odds.items()))

    return [value(table.worlds[0].loaded.new_initial_state(), seat) for seat in range(2)]


# ---------------------------------------------------------------- self-play


def _parts(recipe: Recipe, game: str, seed: int = 0, steps: int = 60, **settings: Any) -> RunContext:
    task = _task(game)
    more = [(key.replace("__", "."), value) for key, value in settings.items()]
    return build_parts(configure([("recipe", recipe), ("steps", steps), ("seed", seed), *more], task), task)


def _weights(policy: Any) -> dict[str, torch.Tensor]:
    return {name: weight.clone() for name, weight in policy.module.state_dict().items()}


@claim(
    "A former self acts with the weights of its time, in one seat of every game of its steps, and nothing is learnt of "
    "its moves; a checkpoint gives all of them back.",
    "derived",
)
def a_former_self_acts_with_the_weights_of_its_time_in_one_seat_of() -> Finding:
    often = PYTAG.but(hooks=(PastSelves(every=3, keep=2, share=0.5, pool="latest"),))
    parts = _parts(often, "tic_tac_toe", curriculum__prompts=8)
    then, wrong, seated = {0: _weights(parts.lead.policy)}, 0, Counter[int]()
    for step in range(1, 17):
        result = run_async(train_step(parts, step))
        pool = _memory(parts)["policy"]
        for past in pool.selves:
            now = past.policy.module.state_dict()
            wrong += any(not torch.equal(now[name], weight) for name, weight in then[past.step].items() if name in now)
        assert result.experience is not None
        assert result.batch is not None
        names = [[turn.policy for turn in one.turns] for one in result.experience.trajectories]
        guests = {name for row in names for name in row if name != "policy"}
        wrong += len(guests) > 1 or any(row.count("policy") != (1 if guests else 2) for row in names)
        seen, who = result.batch.occurrences, result.batch.names["policy"]
        own = result.batch.policy[result.batch.turn[seen.decision]] == who.index("policy")
        # Whitened over the decisions that are learnt from, the others given none.
        wrong += abs(float(seen.advantage[own].mean())) > 1e-6 or bool(seen.advantage[~own].any())
        for name in guests:
            taken = int(name.partition("@")[2])
            seated[taken] += 1
            wrong += taken not in {(step - 1) // 3 * 3, (step - 1) // 3 * 3 - 3}
            wrong += not _agrees(parts.lead.policy, then[taken], result.experience.trajectories[0], name)
        then[step] = _weights(parts.lead.policy)
    hook = cast(PastSelves, often.hooks[0])
    memory = _memory(parts)
    again = hook.restore(hook.state(memory, parts), parts)
    for one, other in zip(memory["policy"].selves, again["policy"].selves, strict=True):
        pairs = zip(*(past.policy.module.state_dict().values() for past in (one, other)), strict=True)
        same = (one.step, one.name, one.games, one.won) == (other.step, other.name, other.games, other.won)
        wrong += not same or any(not torch.equal(a, b) for a, b in pairs)
    steps = sum(seated.values())
    return Finding(wrong == 0 and 4 <= steps <= 12 and len(seated) > 2, say(steps_with_one=steps, wrong=wrong))


def _memory(parts: RunContext) -> dict[str, Pool]:
    (found,) = [one for one in parts.hooks.memories.values() if one]
    return cast(dict[str, Pool], found)


def _agrees(policy: Any, weights: dict[str, torch.Tensor], one: Trajectory, name: str) -> bool:
    """Whether a guest's recorded log-probs are those of these weights."""
    former = policy.frozen_copy()
    former.module.load_state_dict({**former.module.state_dict(), **weights})
    (turn,) = [turn for turn in one.turns if turn.policy == name]
    with torch.no_grad():
        logits = former.module.actor(torch.from_numpy(np.asarray(turn.observation)))
        kept = torch.from_numpy(np.asarray(ALLOWED.get(turn)))
        logp = torch.log_softmax(logits.masked_fill(~kept, -1e9), -1)[range(len(turn)), turn.action]
    return bool(np.abs(logp.numpy() - np.asarray(turn.logp)).max() < 1e-5)


@claim(
    "As it is, a copy is taken every 5 steps, the 4 latest are kept, and one has a seat in half of the steps; where "
    "every seat has a policy of its own, a former self of one of them, drawn evenly, plays in its place.",
    "derived",
)
def as_it_is_a_copy_is_taken_every_5_steps_the_4_latest_are_kept() -> Finding:
    parts, hook = _parts(PYTAG, "kuhn_poker"), cast(PastSelves, PYTAG.hooks[0])
    apart, alone = _parts(PYTAG, "kuhn_poker", cast=Separate()), dict[str, Pool]()
    memory, taken, guests, places = dict[str, Pool](), list[list[int]](), Counter[bool](), Counter[str]()
    for step in range(1, 401):
        memory = run_async(hook.before(parts, step, memory))
        alone = run_async(hook.before(apart, step, alone))
        taken.append(sorted(past.step for past in memory["policy"].selves))
        seats = cast(JointPlayer, hook.seat(parts.player, parts, step, memory)).seats
        guests[len(set(seats.values())) == 2] += 1
        elsewhere = cast(JointPlayer, hook.seat(apart.player, apart, step, alone)).seats
        places.update(agent for agent, policy in elsewhere.items() if "@" in policy)
    due = [list(range(0, step, 5))[-4:] for step in range(1, 401)]
    near = abs(guests[True] / 400 - 0.5) < 0.1 and sum(guests.values()) == 400
    even = sum(places.values()) == guests[True] and min(places.values()) > 60 and len(alone) == len(places) == 2
    return Finding(taken == due and near and even, say(share_of_steps=guests[True] / 400, of_each=dict(places)))


@claim("With a share of 0 the run is independent PPO's, bit for bit; with 1 it is another.", "derived")
def with_a_share_of_0_the_run_is_independent_ppos_bit_for_bit_with() -> Finding:
    ends = []
    for recipe in (
        IPPO,
        PYTAG.but(hooks=(PastSelves(every=5, keep=4, pool="latest", share=0.0),)),
        PYTAG.but(hooks=(PastSelves(every=5, keep=4, pool="latest", share=1.0),)),
    ):
        parts = _parts(recipe, "kuhn_poker", curriculum__prompts=16)
        for step in (1, 2, 3):
            run_async(train_step(parts, step))
        ends.append(torch.cat([one.flatten() for one in _weights(parts.lead.policy).values()]))
    apart = [float((ends[0] - one).abs().max()) for one in ends[1:]]
    return Finding(apart[0] == 0 < apart[1], say(apart=apart))


@functools.cache
def _learnt(game: str, seed: int) -> ControlPolicy:
    parts = _parts(PYTAG, game, seed)
    for step in range(1, 61):
        run_async(train_step(parts, step))
    return cast(ControlPolicy, parts.lead.policy)


@claim(
    "Self-play PPO beats chance in tic-tac-toe, in each of 3 seeds by more than a half in both seats together, and "
    "tree search stays the stronger reference: it earns more against chance, and no seed wins against 1000 searches a "
    "move (predicted).",
    slow=True,
)
def self_play_ppo_beats_chance_in_tic_tac_toe_in_each_of_3_seeds_by() -> Finding:
    task = _task("tic_tac_toe", "random")
    ours = [float(_returns(_played(_learnt("tic_tac_toe", seed), task, 1000), task).mean()) for seed in SEEDS[:3]]
    search = -float(_returns(_played(_Chance(), _task("tic_tac_toe", "mcts"), 1000), task).mean())
    strong = replace(_task("tic_tac_toe", "mcts"), world=SpielTable("tic_tac_toe", against="mcts", searches=1000))
    against = []
    for seed in SEEDS[:3]:
        found = _returns(_played(_learnt("tic_tac_toe", seed), strong, 200, temperature=0.0), task)
        against.append(float(found.mean()))
    return Finding(
        min(ours) > 0.5 and search > max(ours) and max(against) <= 0,
        say(against_chance=ours, search_against_chance=search, against_search=against),
    )


@claim(
    "Self-play PPO beats chance in Kuhn poker, in each of 3 seeds, its value over both seats by the whole tree; and it "
    "is nearer to equilibrium than even odds are (predicted).",
    slow=True,
)
def self_play_ppo_beats_chance_in_kuhn_poker_in_each_of_3_seeds_its() -> Finding:
    from open_spiel.python.algorithms.exploitability import nash_conv
    from open_spiel.python.policy import TabularPolicy

    table = cast(SpielTable, _task("kuhn_poker").world)
    game = table.worlds[0].loaded
    values, gaps = [], []
    for seed in SEEDS[:3]:
        odds = functools.partial(_odds, _learnt("kuhn_poker", seed))
        values.append(fmean(_exact(table, odds, _even)))
        tabular = TabularPolicy(game)
        for state in tabular.states:
            row = tabular.policy_for_key(state.information_state_string())
            for action, chance in odds(state).items():
                row[action] = chance
        gaps.append(float(nash_conv(game, tabular)))
    even = float(nash_conv(game, TabularPolicy(game)))
    return Finding(min(values) > 0 and max(gaps) < even, say(value=values, NashConv=gaps, of_even_odds=even))


def _odds(policy: ControlPolicy, state: Any) -> dict[int, float]:
    """A policy's odds of a state's moves."""
    player, legal = state.current_player(), state.legal_actions()
    row = np.concatenate([state.information_state_tensor(player), np.eye(2)[player]]).astype(np.float32)
    with torch.no_grad():
        logits = policy.module.actor(torch.from_numpy(row)[None])[0, list(legal)]
    return dict(zip(legal, torch.softmax(logits.double(), -1).tolist(), strict=True))


def _guests(shipped: ShippedRun) -> dict[str, float]:
    """In how many of the steps a former self had a seat, and how many moves learnt were masked."""
    found, masked = 0, 0
    for result in shipped.results:
        assert result.experience is not None
        turns = [turn for one in result.experience.trajectories for turn in one.turns]
        found += any("@" in turn.policy for turn in turns)
        masked += sum(int((~np.asarray(ALLOWED.get(turn))).any(1).sum()) for turn in turns)
    return {"steps with a former self": float(found), "decisions with a mask": float(masked)}


claim.shipped(PYTAG, "hooks", steps=6, sees=_guests)
