"""The claims of scenario-independent transfer."""

from __future__ import annotations

import functools
import tempfile
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any, cast

import numpy as np

from hocket import tasks
from hocket.core.errors import ConfigurationError
from hocket.lab.claims.harness import Claims, Finding, below, say
from hocket.methods.marl.ippo import IPPO
from hocket.methods.marl.scenario_independent_marl_transfer.influence import InfluenceMaps
from hocket.methods.marl.scenario_independent_marl_transfer.method import SCENARIO_INDEPENDENT, ScenarioCurriculum
from hocket.policies.control import ControlPolicy
from hocket.recipe import Recipe
from hocket.recipes import find
from hocket.rollout.joint import JointPlayer
from hocket.tasks.joint import JointTask
from hocket.train.aio import run_async
from hocket.train.assemble import build_parts
from hocket.train.config import configure
from hocket.train.loop import RunContext, train_step
from hocket.types import Assignment, Decoding, Trajectory
from hocket.zoo.joint.skirmish import Skirmish

claim = Claims("scenario-independent-marl-transfer", "arXiv:2402.08184")
FEW, MANY = (f"skirmish:{side}?influence=7&ids=false&strength=2" for side in ("3v3", "5v5"))


def _fields(world: Skirmish, width: int = 40, seed: int = 0) -> tuple[Any, Any]:
    """A wrapped world and the plain one in the same states, where units stand close and some have fallen."""
    fields = InfluenceMaps(world).open(width), world.open(width)
    for field in fields:
        field.reset(range(width), range(width))
        _scatter(getattr(field, "_field", field), seed)
    return fields


def _scatter(field: Any, seed: int) -> None:
    rng, units = np.random.default_rng(seed), field.health.shape[1]
    for copy in range(len(field.place)):
        cells = rng.choice(field.world.size**2, units, replace=False)
        field.place[copy] = np.stack([cells // field.world.size, cells % field.world.size], 1)
    field.health[...] = rng.integers(0, 5, field.health.shape)


@claim("From 2 to 20 units, what is seen, the joint state and the actions have the same sizes.", "section IV")
def sizes_do_not_depend_on_the_number_of_units() -> Finding:
    sizes = set()
    for count, foes in ((2, 2), (3, 5), (8, 4), (20, 20)):
        field = InfluenceMaps(Skirmish(count, foes, size=40)).open(2)
        field.reset(range(2), range(2))
        shapes = {part.shape for part in (*field.seen(), *cast(Any, field.allowed()))}
        sizes.add((*sorted(shapes), np.shape(cast(Any, field.state()))))
    return Finding(sizes == {((2, 6), (2, 102), (2, 98))}, say(sizes=str(sizes)))


@claim("Maps hold the sums of what each known unit exerts, counted unit by unit and cell by cell.", "section IV")
def maps_are_sums_over_units_and_cells() -> Finding:
    off, marks = 0.0, 0
    for hops in (0, 2):
        field, plain = _fields(Skirmish(3, 4, hops=hops))
        knows, up = plain.knows(), plain.standing
        for number, (shown, own) in enumerate(zip(field.seen(), plain.seen(), strict=True)):
            maps = shown[:, 4:].reshape(-1, 2, 7, 7)
            off = max(off, float(abs(shown[:, :4] - own[:, :4]).max()))
            for copy in range(12):
                expected = np.zeros((2, 7, 7))
                for unit in range(7):
                    if unit == number or not knows[copy, number, unit] or not up[copy, number]:
                        continue
                    marks += 1
                    for row in range(7):
                        for column in range(7):
                            cell = plain.place[copy, number] + (row - 3, column - 3)
                            away = int(np.abs(cell - plain.place[copy, unit]).max())
                            expected[int(unit >= 3), row, column] += plain.health[copy, unit] / 4 * 0.5**away
                off = max(off, float(abs(maps[copy] - expected).max()))
        for copy in range(5):
            points = [(row, column) for row in np.linspace(0, 8, 7) for column in np.linspace(0, 8, 7)]
            total = np.zeros((2, 49))
            for unit in range(7):
                away = np.abs(np.array(points) - plain.place[copy, unit]).max(1)
                total[int(unit >= 3)] += plain.health[copy, unit] / 4 * 0.5**away
            off = max(off, float(abs(field.state()[copy] - total.ravel()).max()))
    return below(1e-6, marks > 50, off=off)


@claim("Who is who among the others changes nothing: not what is seen, what may be done, or what attacks do.")
def the_order_of_the_others_changes_nothing() -> Finding:
    world, off = Skirmish(4, 4), 0.0
    (one, _), (other, _) = _fields(world), _fields(world)
    order = np.array([0, 3, 1, 2, 6, 7, 5, 4])
    field = other._field
    field.place[...], field.health[...] = field.place[:, order], field.health[:, order]
    pairs = [(one.seen()[0], other.seen()[0]), (one.state(), other.state()), (one.allowed()[0], other.allowed()[0])]
    off = max(float(np.abs(np.subtract(*pair, dtype=np.float64)).max()) for pair in pairs)
    attacks = np.where(np.stack(one.allowed())[..., 5], 5, 0)
    moved = [one.step(list(attacks), np.ones(40, bool)), other.step(list(attacks[order[:4]]), np.ones(40, bool))]
    off = max(off, float(abs(moved[0].rewards - moved[1].rewards).max()))
    off = max(off, float(abs(one._field.health[:, order][:, 4:] - field.health[:, 4:]).max()))
    return below(1e-6, bool(moved[0].rewards.any()), off=off)


@claim(
    "An attack is at the nearest foe in reach, of equals at the weakest, and allowed where there is one; all else is "
    "as in the plain skirmish.",
    "section IV",
)
def an_attack_is_at_the_nearest_foe_in_reach() -> Finding:
    wrong, ties, attacks = 0, 0, 0
    for seed in range(4):
        field, plain = _fields(Skirmish(3, 4), seed=seed)
        masks, listed = np.stack(field.allowed(), 1), np.stack(plain.allowed(), 1)
        wrong += int((masks[..., :5] != listed[..., :5]).sum()) + int((masks[..., 5] != listed[..., 5:].any(-1)).sum())
        chosen, named = np.zeros((40, 3), int), np.zeros((40, 3), int)
        for copy, number in np.argwhere(masks[..., 5]):
            foes = [foe for foe in range(4) if listed[copy, number, 5 + foe]]
            gaps = {foe: int(np.abs(plain.place[copy, number] - plain.place[copy, 3 + foe]).max()) for foe in foes}
            close = [foe for foe in foes if gaps[foe] == min(gaps.values())]
            weak = min(plain.health[copy, 3 + foe] for foe in close)
            last = [foe for foe in close if plain.health[copy, 3 + foe] == weak]
            ties, attacks = ties + (len(close) > 1), attacks + 1
            chosen[copy, number] = 5
            named[copy, number] = 5 + min(last, key=lambda foe: tuple(plain.place[copy, 3 + foe]))
        pair = field.step(list(chosen.T), np.ones(40, bool)), plain.step(list(named.T), np.ones(40, bool))
        wrong += int((pair[0].rewards != pair[1].rewards).sum()) + int((pair[0].terminated != pair[1].terminated).sum())
        wrong += int((field._field.health != plain.health).sum()) + int((field._field.place != plain.place).sum())
    return Finding(wrong == 0 and ties > 5, say(wrong=wrong, attacks=attacks, ties=ties))


@claim("A unit that an agent does not know of, or that has fallen, leaves no trace in what the agent sees.")
def nothing_unknown_is_seen() -> Finding:
    field, plain = _fields(Skirmish(3, 4))
    before, knows, shown = field.seen(), plain.knows(), 0.0
    hidden = 0
    for number in range(3):
        for unit in range(7):
            rows = np.flatnonzero(~knows[:, number, unit] & plain.standing[:, number])
            held = field._field.health.copy()
            field._field.health[rows, unit] = np.where(held[rows, unit] > 0, 5 - held[rows, unit], 0)
            change = np.abs(field.seen()[number][rows] - before[number][rows])
            shown, hidden = max(shown, float(change.max(initial=0.0))), hidden + len(rows)
            field._field.health[...] = held
    return Finding(shown == 0 and hidden > 50, say(shown=shown, hidden=hidden))


# ---------------------------------------------------------------- the curriculum


@claim("The first steps are played by two against two, then three against three, then in the task's own skirmish.")
def scenarios_are_played_in_their_order() -> Finding:
    parts = _parts(SCENARIO_INDEPENDENT, str(SCENARIO_INDEPENDENT.task), 0)
    (hook,), own, sides = SCENARIO_INDEPENDENT.hooks, cast(JointPlayer, parts.player), []
    hook.check(parts)
    for step in (1, 10, 11, 20, 21, 60):
        world = cast(InfluenceMaps, cast(JointPlayer, hook.seat(own, parts, step, None)).world)
        sides.append((cast(Skirmish, world.world).count, cast(Skirmish, world.world).foes, world.seats[0]))
    alike = len({seat for _, _, seat in sides}) == 1
    counts = [side[:2] for side in sides]
    return Finding(alike and counts == [(2, 2), (2, 2), (3, 3), (3, 3), (5, 5), (5, 5)], say(sides=str(counts)))


@claim("Worlds that are seen otherwise by other numbers of units are refused, as are larger ones than the last.")
def what_cannot_be_carried_is_refused() -> Finding:
    refused = []
    known = _parts(IPPO, FEW, 0)
    for name, hook in (
        ("skirmish:3v3", ScenarioCurriculum()),
        ("skirmish:3v3?influence=7", ScenarioCurriculum()),
        ("mpe:spread", ScenarioCurriculum()),
        (FEW, ScenarioCurriculum((4,))),
    ):
        try:
            hook.check(known if name == FEW else _parts(IPPO, name, 0))
        except ConfigurationError as error:
            refused.append(str(error))
    for name in ("mpe:spread?influence=7", "skirmish:3v3?influence=4", "skirmish:3v3?influence=1"):
        try:
            tasks.find(name)
        except ConfigurationError as error:
            refused.append(str(error))
    ScenarioCurriculum((3,)).check(known)
    return Finding(len(refused) == 7, say(refused=len(refused)))


@claim("Weights of three against three are read by five against five as they are; of plain skirmishes they are not.")
def weights_serve_other_scenarios() -> Finding:
    with tempfile.TemporaryDirectory() as folder:
        few, many = (_policy(_parts(IPPO, name, seed)) for name, seed in ((FEW, 0), (MANY, 1)))
        few.save(Path(folder))
        many.load(Path(folder))
        sights, luck = np.random.default_rng(0).random((20, 102), np.float32), np.random.default_rng(1).random((20, 1))
        off = float(
            abs(np.subtract(*(team.sample(sights, luck, np.ones(20, np.float32))[1] for team in (few, many)))).max()
        )
        plain, larger = (
            _policy(_parts(IPPO, name, 0)) for name in ("skirmish:3v3?ids=false", "skirmish:5v5?ids=false")
        )
        plain.save(Path(folder))
        try:
            larger.load(Path(folder))
        except ConfigurationError as error:
            return Finding(off == 0, str(error))
    return Finding(False, "plain weights were read")


def _parts(recipe: Recipe, name: str, seed: int) -> RunContext:
    task = tasks.find(name)
    return build_parts(configure([("recipe", recipe), ("task", name), ("seed", seed)], task), task)


def _policy(parts: RunContext) -> ControlPolicy:
    return cast(ControlPolicy, parts.lead.policy)


# ---------------------------------------------------------------- learning


SEEDS = 2


@functools.cache
def _run(recipe: str, name: str, seed: int, steps: int, begin: int = 0) -> tuple[RunContext, tuple[float, ...]]:
    """A run of so many steps, and the share of victories among the episodes of each of them; from the weights of so
    many steps of three against three, where `begin` says so."""
    parts, shares = _parts(find(recipe), name, seed), []
    if begin:
        few, _ = _run(recipe, FEW, seed, begin)
        _policy(parts).module.load_state_dict(_policy(few).module.state_dict())
    for step in range(1, steps + 1):
        result = run_async(train_step(parts, step))
        assert result.experience is not None
        shares.append(fmean(map(_won, result.experience.trajectories)))
    return parts, tuple(shares)


def _won(episode: Trajectory) -> bool:
    """Whether every foe fell: each soldier is paid 1 in all."""
    return float(np.sum(np.asarray(episode.scores["reward"].value))) > len(episode.turns) - 1e-6


def _victories(parts: RunContext, count: int = 60) -> float:
    """The share of victories in unseen sampled episodes of five against five."""
    task = cast(JointTask, tasks.find(MANY))
    player = replace(cast(JointPlayer, parts.player), world=task.world, _open=[])
    wanted = [Assignment(task.scenario("eval", number), samples=1, decoding=Decoding()) for number in range(count)]
    return fmean(map(_won, run_async(player.play(wanted, key=parts.key.derive("check")))))


@claim(
    "From the weights of 15 steps of three against three, five against five comes to nine victories in ten in at most "
    "half of the steps from scratch (2 seeds; the 15 steps not counted).",
    "section V",
    slow=True,
)
def larger_teams_learn_from_smaller_ones_in_half_the_steps() -> Finding:
    steps: dict[str, list[int]] = {"transferred": [], "scratch": []}
    for seed in range(SEEDS):
        for name, count, begin in (("transferred", 3, 15), ("scratch", 22, 0)):
            shares = _run("ippo", MANY, seed, count, begin)[1]
            steps[name].append(next((step for step, share in enumerate(shares, 1) if share >= 0.9), count + 1))
    holds = all(2 * few <= many for few, many in zip(steps["transferred"], steps["scratch"], strict=True))
    return Finding(
        holds and max(steps["transferred"]) <= 3, say(**{name: str(counts) for name, counts in steps.items()})
    )


@claim(
    "As shipped, after 22 steps, the last two of which are of five against five, it wins as many unseen episodes as "
    "independent PPO after 22 of them, to 0.1, nine in ten at least, from decisions of two thirds as many soldiers at "
    "most (2 seeds).",
    "section V",
    slow=True,
    learns=True,
)
def as_shipped_it_learns_from_fewer_soldiers() -> Finding:
    ours, theirs, before = [], [], []
    for seed in range(SEEDS):
        before.append(_victories(_parts(SCENARIO_INDEPENDENT, MANY, seed)))
        ours.append(_victories(_run(SCENARIO_INDEPENDENT.name, MANY, seed, 22)[0]))
        theirs.append(_victories(_run("ippo", MANY, seed, 22)[0]))
    (hook,) = SCENARIO_INDEPENDENT.hooks
    sides = [*np.repeat(cast(ScenarioCurriculum, hook).sides, cast(ScenarioCurriculum, hook).steps), 5, 5]
    share = float(np.sum(sides)) / (22 * 5)
    holds = min(ours) >= 0.9 and max(before) < 0.1 and min(ours) > max(theirs) - 0.1 and share < 2 / 3
    return Finding(holds, say(ours=ours, theirs=theirs, before=before, soldiers=share))


claim.shipped(SCENARIO_INDEPENDENT, "hooks")
