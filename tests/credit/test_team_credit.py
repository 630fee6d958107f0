"""Credit in teams: one prompt's answers, modules, chains of agents and pipelines, against loops over trajectories."""

from __future__ import annotations

import itertools

import pytest
import torch
from credit_cases import LAW, batch_of, by_trajectory, deviation, experiences, make, make_turn, mean, weights_by_hand
from hypothesis import given
from hypothesis import strategies as st

from hocket.core.batch import GroupBy, Level
from hocket.core.components import from_plain, to_plain
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.credit.gae import GAE
from hocket.credit.group import GroupRelative
from hocket.credit.units import turn_units
from hocket.methods.teams.at_grpo import PromptRelative
from hocket.methods.teams.comam import RankConsistent, consistency
from hocket.methods.teams.marft import AgentGAE
from hocket.methods.teams.mmgrpo import ModuleRelative
from hocket.types import Score

MODES = ["truncate", "fill-last", "fill-random", "ragged"]
ALL = [PromptRelative(), *(ModuleRelative(counts=mode) for mode in MODES), AgentGAE(), AgentGAE(level="token")]
ALL += [RankConsistent(), RankConsistent(weigh="equal", local=0.0), RankConsistent(weigh="local", scale=None)]


def valued(batch, seed=0):
    """Random values of decisions, and of final states where cut off."""
    draw = Key.of(seed).torch()
    value = torch.randn(batch.decisions, generator=draw, dtype=torch.float64)
    final = torch.randn(batch.trajectories, generator=draw, dtype=torch.float64)
    return batch.but(value=value, final_value=torch.where(batch.truncated, final, 0.0))


def counted_turns(trajectory):
    """For each turn whether any of its decisions counts."""
    weights = weights_by_hand(trajectory)
    ends = list(itertools.accumulate(len(turn) for turn in trajectory.turns))
    return [any(weights[end - len(turn) : end]) for turn, end in zip(trajectory.turns, ends, strict=True)]


def normalised(values, epsilon):
    """(x - mean) / (std + epsilon), 0 where all are equal."""
    if len(set(values)) < 2:
        return [0.0] * len(values)
    return [(x - mean(values)) / (deviation(values, 1) + epsilon) for x in values]


# ---------------------------------------------------------------- every one of them


@pytest.mark.parametrize("credit", ALL, ids=repr)
@LAW
@given(experiences(sources=("own", "own", "baseline")), st.integers(0, 10**6))
def test_it_is_pure_finite_and_leaves_out_what_does_not_count(credit, trajectories, seed):
    batch = valued(batch_of(trajectories), seed)
    before = batch.occurrences.advantage.clone()
    seen = credit(batch)
    again = credit(batch)
    assert torch.equal(seen.advantage, again.advantage)
    assert torch.equal(batch.occurrences.advantage, before)
    assert seen.advantage.dtype is torch.float64
    assert bool(torch.isfinite(seen.advantage).all())
    assert bool((seen.weight[batch.occurrences.weight == 0] == 0).all())
    for trajectory, row in zip(trajectories, by_trajectory(batch, seen.advantage), strict=True):
        place = 0
        for turn, counted in zip(trajectory.turns, counted_turns(trajectory), strict=True):
            assert counted or row[place : place + len(turn)] == [0.0] * len(turn)
            place += len(turn)


@pytest.mark.parametrize("credit", [c for c in ALL if not isinstance(c, AgentGAE)], ids=repr)
@LAW
@given(experiences(), st.randoms(use_true_random=False))
def test_the_order_of_trajectories_does_not_matter(credit, trajectories, shuffler):
    order = list(range(len(trajectories)))
    shuffler.shuffle(order)
    straight, turned = batch_of(trajectories), batch_of([trajectories[n] for n in order])
    turned = turned.but(order=torch.tensor(order))
    one, other = credit(straight), credit(turned)
    for column in ("advantage", "weight"):
        left = by_trajectory(straight, getattr(one, column))
        right = by_trajectory(turned, getattr(other, column))
        for place, number in enumerate(order):
            # A shared turn keeps what the first of its trajectories said of it, so only unshared ones are compared.
            if len({id(t) for one in trajectories for t in one.turns}) == sum(len(one.turns) for one in trajectories):
                assert right[place] == pytest.approx(left[number], abs=1e-9)


@pytest.mark.parametrize("credit", ALL, ids=repr)
def test_it_goes_through_a_configuration(credit):
    assert from_plain(to_plain(credit), type(credit), "credit") == credit


# ---------------------------------------------------------------- answers to one prompt


@LAW
@given(experiences(), st.sampled_from(["std", None]))
def test_one_turn_each_is_group_relative(trajectories, scale):
    alone = [make(t.scenario.id, float(n % 3), length=len(t.turns[0])) for n, t in enumerate(trajectories)]
    batch = batch_of(alone)
    want = GroupRelative(scale=scale, epsilon=1e-8)(batch).advantage
    assert torch.equal(PromptRelative(scale=scale)(batch).advantage, want)


def candidates():
    """A trunk of two turns of two agents, and what was tried beside each; different prompts in the second group."""
    first, second = make_turn(2, agent="a", observed=3), make_turn(1, agent="b", observed=1)
    trunk = make("x", 9.0, turns=[first, second])
    trunk.scores["mixed"] = Score([1.0, 0.5], Level.TURN)
    beside = [(make_turn(1, agent="a", observed=3), 0.0), (make_turn(3, agent="b", observed=1), 0.25)]
    beside += [(make_turn(3, agent="b", observed=2), 5.0)]
    rows = [trunk]
    for turn, reward in beside:
        row = make("x", None, turns=[turn], source="branch")
        row.scores["mixed"] = Score([reward], Level.TURN)
        rows.append(row)
    return rows


def test_turns_that_were_scored_compete_by_their_own_score_under_one_prompt():
    batch = batch_of(candidates())
    got = by_trajectory(batch, PromptRelative()(batch).advantage)
    upper = normalised([1.0, 0.0], 1e-8)
    lower = normalised([0.5, 0.25], 1e-8)
    assert got[0] == pytest.approx([upper[0], upper[0], lower[0]])
    assert got[1] == pytest.approx([upper[1]])
    assert got[2] == pytest.approx([lower[1]] * 3)
    assert got[3] == [0.0] * 3, "another prompt is no group"


def test_a_longer_history_is_another_prompt():
    root, other = make_turn(2, observed=2), make_turn(2, observed=2)
    other.action[:] = 7
    rows = [
        make("x", 1.0, turns=[root, make_turn(1, parent=root)]),
        make("x", 0.0, turns=[other, make_turn(1, parent=other)]),
    ]
    batch = batch_of(rows)
    got = by_trajectory(batch, PromptRelative()(batch).advantage)
    assert got[0][:2] == pytest.approx(normalised([1.0, 0.0], 1e-8)[:1] * 2)
    assert got[0][2] == got[1][2] == 0.0


# ---------------------------------------------------------------- modules


def modules_by_hand(trajectories, mode):
    """Advantage and repetitions of each counted call, from groups made by loops; no random fill."""
    found = {}
    for scenario in dict.fromkeys(t.scenario.id for t in trajectories):
        rollouts = [n for n, t in enumerate(trajectories) if t.scenario.id == scenario and any(weights_by_hand(t))]
        for module in ("a", "b", "solo"):
            calls = {
                n: [
                    k
                    for k, turn in enumerate(trajectories[n].turns)
                    if turn.agent == module and counted_turns(trajectories[n])[k]
                ]
                for n in rollouts
            }
            least, most = (f(map(len, calls.values()), default=0) for f in (min, max))
            for k in range(0 if least == 0 else least if mode == "truncate" else most):
                members = [
                    (n, row[min(k, len(row) - 1)]) for n, row in calls.items() if k < len(row) or mode != "ragged"
                ]
                rewards = [total(trajectories[n]) for n, _ in members]
                for member, advantage in zip(members, normalised(rewards, 1e-6), strict=True):
                    found.setdefault(member, []).append(advantage)
    return found


def total(trajectory):
    numbers = []
    for score in trajectory.scores.values():
        numbers += [score.value] if score.level is Level.TRAJECTORY else list(score.value)
    return sum(numbers)


@LAW
@given(experiences(sources=("own", "own", "baseline")), st.sampled_from(["truncate", "fill-last", "ragged"]))
def test_modules_equal_groups_made_by_loops(trajectories, mode):
    batch = batch_of(trajectories)
    seen = ModuleRelative(counts=mode)(batch)
    wanted = modules_by_hand(trajectories, mode)
    repeats = mean([len(values) for values in wanted.values()]) if wanted else 1.0
    rows = zip(by_trajectory(batch, seen.advantage), by_trajectory(batch, seen.weight), strict=True)
    for n, (advantages, weights) in enumerate(rows):
        forced, place = weights_by_hand(trajectories[n]), 0
        for k, turn in enumerate(trajectories[n].turns):
            values = wanted.get((n, k), [])
            span = slice(place, place + len(turn))
            assert advantages[span] == pytest.approx([mean(values) if values else 0.0] * len(turn), abs=1e-9)
            scale = len(values) / max(repeats, 1.0)
            assert weights[span] == pytest.approx([w * scale for w in forced[span]], abs=1e-6)
            place += len(turn)


@LAW
@given(experiences(), st.integers(0, 99))
def test_a_random_fill_repeats_calls_of_the_same_rollout_and_keeps_every_other(trajectories, seed):
    batch = batch_of(trajectories)
    units = turn_units(batch)
    ragged = ModuleRelative(counts="ragged").groups(batch, units, units.counted)
    filled = ModuleRelative(counts="fill-random", seed=seed).groups(batch, units, units.counted)
    assert [group[:3] for group in filled] == [group[:3] for group in ragged]
    for group, known in zip(filled, ragged, strict=True):
        assert set(known.members) <= set(group.members)
        assert len({int(units.trajectory[m]) for m in group.members}) == len(group.members)


def test_repeats_of_one_sign_cost_what_each_would():
    from hocket.objectives.surrogate import clipped_surrogate

    ratio, credit = torch.tensor([1.7, 0.4, 1.0]), torch.tensor([0.5, 0.25, 1.0])
    for sign in (1.0, -1.0):
        for one, other in itertools.pairwise(credit * sign):
            apart = clipped_surrogate(ratio, one, 0.2, 0.2) + clipped_surrogate(ratio, other, 0.2, 0.2)
            assert torch.allclose(2 * clipped_surrogate(ratio, (one + other) / 2, 0.2, 0.2), apart)


# ---------------------------------------------------------------- chains of agents


def chain_by_hand(trajectory, values, rewards, final, credit):
    """Advantages and targets of each decision, backwards over links."""
    links, place = [], 0
    for turn in trajectory.turns:
        size = len(turn)
        parts = [(place, size)] if credit.level == "action" else [(place + k, 1) for k in range(size)]
        links += [(turn, start, length) for start, length in parts]
        place += size
    discounts, acted = [], set()
    for (turn, _, _), following in itertools.zip_longest(links, links[1:]):
        acted.add(turn.agent)
        if following is not None and following[0] is turn:
            discounts.append(credit.between)
        elif following is not None and following[0].agent not in acted:
            discounts.append(credit.within)
        else:
            discounts.append(credit.gamma)
            acted = set()
    ahead, running = final, 0.0
    advantages, targets = [0.0] * place, [0.0] * place
    for (_, start, length), discount in zip(reversed(links), reversed(discounts), strict=True):
        earned = sum(rewards[start : start + length])
        running = earned + discount * ahead - values[start] + discount * credit.lam * running
        ahead = values[start]
        for k in range(start, start + length):
            advantages[k], targets[k] = running, running + values[start]
    return advantages, targets


@LAW
@given(
    experiences(sources=("own", "own", "baseline")),
    st.integers(0, 10**6),
    st.sampled_from(["action", "token"]),
    st.sampled_from([(1.0, 1.0, 1.0, 1.0), (0.9, 0.95, 1.0, 1.0), (0.9, 0.0, 0.9, 0.9), (0.5, 0.7, 0.8, 0.6)]),
)
def test_a_chain_equals_its_recursion(trajectories, seed, level, discounts):
    from credit_cases import rewards_by_hand

    gamma, lam, within, between = discounts
    credit = AgentGAE(level=level, gamma=gamma, lam=lam, within=within, between=between, whiten=False)
    batch = valued(batch_of(trajectories), seed)
    seen = credit(batch)
    values = by_trajectory(batch, batch.value[batch.occurrences.decision])
    got, targets = by_trajectory(batch, seen.advantage), by_trajectory(batch, seen.target)
    for n, trajectory in enumerate(trajectories):
        final = float(batch.final_value[n])
        want, goal = chain_by_hand(trajectory, values[n], rewards_by_hand(trajectory), final, credit)
        used, place = counted_turns(trajectory), 0
        each = weights_by_hand(trajectory)
        for turn, counted in zip(trajectory.turns, used, strict=True):
            for k in range(place, place + len(turn)):
                counts = counted if level == "action" else each[k] > 0
                assert got[n][k] == pytest.approx(want[k] if counts else 0.0, abs=1e-9)
                assert targets[n][k] == pytest.approx(goal[k], abs=1e-9)
            place += len(turn)


@LAW
@given(experiences(), st.integers(0, 10**6))
def test_a_single_agent_token_by_token_without_discount_is_gae(trajectories, seed):
    batch = valued(batch_of(trajectories), seed)
    got = AgentGAE(level="token", gamma=1.0, lam=0.9, whiten=False)(batch)
    want = GAE(gamma=1.0, lam=0.9, whiten=False)(batch)
    assert torch.allclose(got.advantage, want.advantage)
    assert torch.allclose(got.target, want.target)


def two_policies(known):
    """Turns of `ours`, then `theirs`, then `ours`; values are known where `known` says so, by turn."""
    turns = [make_turn(2, agent="ours"), make_turn(3, agent="theirs"), make_turn(1, agent="ours")]
    row = make("x", 1.0, turns=turns)
    row.scores["turns"] = Score([0.0, 0.25, 0.0], Level.TURN)
    batch = valued(batch_of([row]))
    return batch.but(valued=torch.tensor([known[turn] for turn in batch.turn.tolist()]))


@pytest.mark.parametrize(
    "credit", [GAE(lam=0.9, whiten=False), AgentGAE(level="token", whiten=False), AgentGAE(whiten=False)]
)
def test_turns_of_unknown_value_take_no_time(credit):
    """The chain is that of the known turns alone, their rewards standing where the others were passed over."""
    batch = two_policies([True, False, True])
    seen = credit(batch)
    short = make("x", 1.0, turns=[make_turn(2, agent="ours"), make_turn(1, agent="ours")])
    short.scores["turns"] = Score([0.25, 0.0], Level.TURN)
    plain = batch_of([short]).but(value=batch.value[[0, 1, 5]], final_value=torch.zeros(1))
    want = credit(plain)
    assert seen.advantage[[0, 1, 5]].tolist() == pytest.approx(want.advantage.tolist())
    assert seen.advantage[2:5].tolist() == [0.0] * 3
    assert seen.target[[0, 1, 5]].tolist() == pytest.approx(want.target.tolist())
    everything = credit(two_policies([True, True, True]))
    assert everything.advantage[0] != pytest.approx(float(seen.advantage[0]))


def test_without_values_the_chain_says_so():
    with pytest.raises(ConfigurationError, match="value"):
        AgentGAE()(batch_of([make("x", 1.0)]))


# ---------------------------------------------------------------- pipelines


@LAW
@given(st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=2, max_size=6), st.data())
def test_consistency_is_the_share_of_pairs_ordered_alike(overall, data):
    local = data.draw(st.lists(st.sampled_from([0.0, 1.0, 2.0]), min_size=len(overall), max_size=len(overall)))
    pairs = [(a, b) for a in range(len(overall)) for b in range(len(overall)) if overall[a] > overall[b]]
    want = sum((local[a] > local[b]) - (local[a] < local[b]) for a, b in pairs) / max(len(pairs), 1)
    got = consistency(torch.tensor(local, dtype=torch.float64), torch.tensor(overall, dtype=torch.float64))
    assert float(got) == pytest.approx(want)


@LAW
@given(experiences())
def test_one_global_reward_alone_is_group_relative_by_agent(trajectories):
    trajectories = [t for t in trajectories if "verdict" in t.scores]
    for one in trajectories:
        one.scores = {"verdict": one.scores["verdict"]}
    if not trajectories:
        return
    batch = batch_of(trajectories)
    got = RankConsistent(weigh="equal", local=0.0, scale=None)(batch).advantage
    for n, row in enumerate(by_trajectory(batch, got)):
        trajectory, place = trajectories[n], 0
        group = [t for t in trajectories if t.scenario.id == trajectory.scenario.id]
        agents = {turn.agent for t in group for turn, c in zip(t.turns, counted_turns(t), strict=True) if c}
        for turn, counted in zip(trajectory.turns, counted_turns(trajectory), strict=True):
            having = [
                t
                for t in group
                if any(u.agent == turn.agent and c for u, c in zip(t.turns, counted_turns(t), strict=True))
            ]
            values = [t.scores["verdict"].value / len(agents) for t in having]
            want = trajectory.scores["verdict"].value / len(agents) - mean(values) if counted else 0.0
            assert row[place : place + len(turn)] == pytest.approx([want] * len(turn), abs=1e-9)
            place += len(turn)


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        (PromptRelative, {"scale": "mad"}),
        (ModuleRelative, {"counts": "pad"}),
        (ModuleRelative, {"scale": "mad"}),
        (ModuleRelative, {"format_failure_score": 0.0}),
        (ModuleRelative, {"group_size": 1}),
        (AgentGAE, {"level": "turn"}),
        (AgentGAE, {"lam": 1.5}),
        (RankConsistent, {"weigh": "rank"}),
        (RankConsistent, {"temperature": 0.0}),
        (RankConsistent, {"scale": "mad"}),
    ],
)
def test_wrong_settings_are_refused(kind, settings):
    with pytest.raises(ValueError, match=r"must|choose"):
        kind(**settings)


def test_groups_by_agent_are_of_turns():
    assert GroupBy("role").level is Level.TURN
