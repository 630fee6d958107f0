"""Past selves: who enters a pool, who is met, who learns, what comes of it, and runs that are resumed."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiny_runs import TINY, assert_same, rows

from hocket import tasks
from hocket.agents.workflows.player import TextPlayer
from hocket.agents.workflows.team import Team
from hocket.agents.workflows.workflow import Outcome, Workflow
from hocket.apps.cli.parser import split_settings
from hocket.core.casting import Separate
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.engine.local import LocalEngine
from hocket.engine.requests import Request
from hocket.hooks.past_selves import PastSelves, Pool, Pools
from hocket.lab.talk import LookupPolicy, TalkBench
from hocket.methods.teams.claims.mars_self_play import kuhn, nash_conv
from hocket.methods.teams.mars_self_play import MARS_SELF_PLAY, PAST_SELVES
from hocket.objectives.entropy import EntropyBonus
from hocket.policies.causal_lm import CausalLM
from hocket.train.config import configure
from hocket.train.trainer import Trainer, resumed
from hocket.types import Decoding, Scenario

MOVES = ("rock", "paper", "scissors")
PAYOFF = np.array([[0.0, -1.0, 1.0], [1.0, 0.0, -1.0], [-1.0, 1.0, 0.0]])


class RockPaperScissors(Workflow):
    roles = ("row", "column")
    scores = True

    async def play(self, scenario: Scenario, team: Team) -> Outcome:
        row, column = await asyncio.gather(team.row("play"), team.column("play"))
        won = PAYOFF[MOVES.index(row.text), MOVES.index(column.text)]
        return Outcome(turn_rewards={"reward": {row: won, column: -won}})


def bench(*hooks: PastSelves, seed: int = 0, **changes: Any) -> TalkBench:
    """One table in both seats, which begins with a leaning to rock; plain gradient steps, a little entropy bonus."""
    recipe = MARS_SELF_PLAY.but(
        {"rollout.samples": 32, "update.method": "sgd", "update.lr": 1.0, "update.clip_norm": None, **changes},
        hooks=hooks,
        regularisers=(EntropyBonus(0.05),),
    )
    prior = [1.0, 0.0, 0.0]
    return TalkBench(RockPaperScissors(), [Scenario("s", "")], MOVES, recipe, prior=lambda told, said: prior, seed=seed)


def play(policy: Any) -> np.ndarray:
    found: np.ndarray = policy.probabilities("play").numpy()
    return found


def exploitability(mixed: np.ndarray) -> float:
    """What the best answer earns."""
    return float((PAYOFF @ mixed).max())


def pool(found: TalkBench, name: str = "policy") -> Pool:
    return pools(found)[name]


def pools(found: TalkBench | Trainer) -> Pools:
    kept: Pools = found.parts.hooks.memories["PastSelves"]
    return kept


# ---------------------------------------------------------------- the cast


def test_a_reservoir_is_a_uniform_sample_of_the_past() -> None:
    kept: Counter[int] = Counter()
    for seed in range(2000):
        cast, slots = PastSelves(keep=3), dict[int, int]()
        for entered in range(12):
            place = cast.place(entered, Key.of(seed).derive(entered))
            if place is not None:
                slots[place] = entered
        assert sorted(slots) == [0, 1, 2]
        kept.update(slots.values())
    # Each of 12 stays with chance 1/4: 500 +- 19.4 of 2000.
    assert all(abs(kept[entered] - 500) < 5 * 19.4 for entered in range(12))


def test_of_the_latest_the_oldest_leaves() -> None:
    cast = PastSelves(keep=3, pool="latest")
    assert [cast.place(entered, Key.of(0)) for entered in range(7)] == [0, 1, 2, 0, 1, 2, 0]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8), st.floats(0, 6))
def test_odds_are_those_of_prioritised_play(won: list[float], hardness: float) -> None:
    odds = PastSelves(hardness=hardness).odds(won)
    assert sum(odds) == pytest.approx(1)
    assert min(odds) >= 0
    weights = np.power(1.0 - np.array(won), hardness)
    if weights.sum() > 0:
        assert odds == pytest.approx((weights / weights.sum()).tolist())
    else:
        assert odds == [1 / len(won)] * len(won)


def test_somebody_always_learns() -> None:
    keys = [Key.of(0).derive(number) for number in range(400)]
    cast = PastSelves(share=0.5, guests=3)
    found = [cast.visited(["a", "b", "c"], key) for key in keys]
    assert {len(roles) for roles in found} == {0, 2}
    assert abs(sum(map(bool, found)) - 200) < 5 * 10
    assert {role for roles in found for role in roles} == {"a", "b", "c"}
    assert all(cast.visited(["a"], key) == [] for key in keys)


@pytest.mark.parametrize("wrong", [{"every": 0}, {"keep": 0}, {"share": 1.5}, {"hardness": -1.0}, {"pool": "best"}])
def test_wrong_settings_are_named(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        PastSelves(**wrong)


# ---------------------------------------------------------------- on tables


def test_guests_are_snapshots_and_only_the_others_learn() -> None:
    found = bench(PastSelves(every=2, keep=8, share=0.5))
    policy = found.policies["policy"]
    past = {}
    for step in range(1, 7):
        if step % 2:
            past[step - 1] = play(policy).copy()
        result = found.step()
        batch = result.batch
        assert batch is not None
        guests = [trajectory.info.get("guests", {}) for trajectory in result.trajectories]
        assert 4 <= sum(map(bool, guests)) <= 28
        seen = batch.occurrences
        for number, met in enumerate(guests):
            mine = seen.trajectory == number
            turns = result.trajectories[number].turns
            assert [bool(weight) for weight in seen.weight[mine]] == [turn.policy == "policy" for turn in turns]
            assert {turn.role: turn.policy for turn in turns if turn.policy != "policy"} == met
            for turn in turns:
                if turn.policy != "policy":
                    at = past[int(turn.policy.removeprefix("policy@"))]
                    assert turn.logp is not None
                    assert float(turn.logp[0]) == pytest.approx(np.log(at[int(turn.action[0])]), abs=1e-6)
    assert [one.step for one in pool(found).selves] == [0, 2, 4]


def test_credit_is_that_of_the_episodes_without_what_guests_did() -> None:
    """The baseline of a role is the mean of the learner's own turns."""
    result = bench(PastSelves(share=0.7)).step()
    assert result.batch is not None
    own: dict[str, list[tuple[float, float]]] = {"row": [], "column": []}
    seen = result.batch.occurrences
    places = iter(seen.advantage.tolist())
    for trajectory in result.trajectories:
        earned = trajectory.scores["reward"].value
        assert isinstance(earned, list)
        for turn, value in zip(trajectory.turns, earned, strict=True):
            advantage = next(places)
            if turn.policy == "policy":
                own[str(turn.role)].append((float(value), advantage))
    for pairs in own.values():
        mean = np.mean([value for value, _ in pairs])
        assert [advantage for _, advantage in pairs] == pytest.approx([value - mean for value, _ in pairs], abs=1e-6)


def test_a_share_of_zero_is_plain_self_play() -> None:
    plain, none = bench().run(5), bench(PastSelves(share=0.0)).run(5)
    assert [row["reward/agent/row"] for row in plain.history] == [row["reward/agent/row"] for row in none.history]
    assert np.array_equal(play(plain.policies["policy"]), play(none.policies["policy"]))


def test_a_full_pool_is_overwritten_and_its_games_begin_anew() -> None:
    found = bench(PastSelves(every=1, keep=2, share=1.0, pool="latest")).run(5)
    assert [one.step for one in pool(found).selves] == [4, 3]
    games = [one.games for one in pool(found).selves]
    assert 0 < games[0] < 32
    assert 16 < sum(games) <= 64
    engines = {id(one.actor.engine) for one in pool(found).selves}
    assert len(engines) == 2


def test_prioritised_play_meets_whom_it_does_not_beat() -> None:
    """Past selves that always lose are not met, those that always win are."""
    found = bench(PastSelves(every=1, keep=3, share=1.0, hardness=2.0)).run(3)
    for one, won in zip(pool(found).selves, (100.0, 100.0, 0.0), strict=True):
        one.games, one.won = 100.0, won
    met = {name for trajectory in found.step().trajectories for name in trajectory.info["guests"].values()}
    assert met == {pool(found).selves[2].name}


def test_the_share_of_won_games_is_what_was_won() -> None:
    found = bench(PastSelves(every=50, keep=1, share=1.0, decay=1.0))
    result = found.step()
    won = []
    for trajectory in result.trajectories:
        earned = trajectory.scores["reward"].value
        assert isinstance(earned, list)
        mine = next(v for turn, v in zip(trajectory.turns, earned, strict=True) if turn.policy == "policy")
        won.append({1.0: 1.0, 0.0: 0.5, -1.0: 0.0}[float(mine)])
    (one,) = pool(found).selves
    assert one.games == 32.0
    assert one.won == pytest.approx(sum(won))
    assert one.beaten == pytest.approx(np.mean(won))


def test_every_role_s_policy_has_a_pool_of_its_own() -> None:
    found = bench(PastSelves(every=2, keep=4, share=1.0), cast=Separate()).run(4)
    for role in ("row", "column"):
        assert [one.name for one in pool(found, role).selves] == [f"{role}@0", f"{role}@2"]
    for trajectory in found.step().trajectories:
        ((role, name),) = trajectory.info["guests"].items()
        assert name.startswith(f"{role}@")


def test_with_alike_the_samples_of_a_scenario_meet_the_same() -> None:
    found = bench(PastSelves(every=1, keep=9, share=0.5, alike=True))
    met = [{str(one.info.get("guests")) for one in found.step().trajectories} for _ in range(12)]
    assert {len(each) for each in met} == {1}
    assert len(set.union(*met)) > 3


def test_what_is_kept_comes_back() -> None:
    cast = PastSelves(every=1, keep=2, share=1.0)
    left = bench(cast).run(4)
    right = bench(cast)
    right.parts.hooks.restore(left.parts.hooks.state(left.parts), right.parts)
    for one, other in zip(pool(left).selves, pool(right).selves, strict=True):
        assert (one.step, one.games, one.won, one.name) == (other.step, other.games, other.won, other.name)
        assert isinstance(one.policy, LookupPolicy)
        assert isinstance(other.policy, LookupPolicy)
        assert torch.equal(one.policy.module.logits, other.policy.module.logits)
    assert pool(left).entered == pool(right).entered == 4


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_in_rock_paper_scissors_past_selves_together_are_hard_to_exploit_and_the_last_self_is_not(seed: int) -> None:
    """What holds here: the last self runs in circles, by plain self-play (share 0) and against its past alike, since
    the best answer to any mixture is a pure move. What comes near the equilibrium is the mixture of past selves."""
    for share in (0.0, 0.5):
        found = bench(PastSelves(every=3, keep=20, share=share), seed=seed, **{"rollout.samples": 16, "update.lr": 2.0})
        gaps = []
        for _ in range(60):
            found.step()
            gaps.append(exploitability(play(found.policies["policy"])))
        together = exploitability(np.mean([play(one.policy) for one in pool(found).selves], 0))
        assert together < 0.6 * np.mean(gaps[20:]), (share, together, np.mean(gaps[20:]))
        assert np.mean(gaps[20:]) > 0.1


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_kuhn_poker_is_learnt_against_past_selves(seed: int) -> None:
    """From 11/12 to under half of it, as by plain self-play (and no lower)."""
    pytest.importorskip("pyspiel")
    found = kuhn(PAST_SELVES, seed)
    assert nash_conv(found) == pytest.approx(11 / 12)
    found.run(60)
    assert nash_conv(found) < 11 / 24


# ---------------------------------------------------------------- with a language model


FLOW = """
from hocket.agents.workflows import Outcome, Workflow


class Duel(Workflow):
    roles = ("first", "second")
    scores = True

    async def play(self, scenario, team):
        one = await team.first(scenario.prompt)
        two = await team.second(scenario.prompt)
        won = float(sum(map(ord, str(one))) % 7 - sum(map(ord, str(two))) % 7)
        return Outcome(turn_rewards={"reward": {one: won, two: -won}})
"""
HOOK = {"type": "hocket.hooks.PastSelves", "every": 1, "keep": 2, "share": 0.7, "hardness": 1.0}


def trainer(runs: Path, name: str, *more: str, **hook: Any) -> Trainer:
    (runs / "flow.py").write_text(FLOW)
    words = [*TINY, "--recipe", "past-selves", "--workflow", f"{runs / 'flow.py'}:Duel", "--update.lr", "1e-3"]
    words += ["--runs", str(runs), "--run", name, "--steps", "3", "--checkpoint.steps", "1", *more]
    words += ["--evaluation.n", "2", "--decoding.max_tokens", "6"]
    task = tasks.find("sums")
    return Trainer(configure([*split_settings(words, set())[1], ("hooks", [{**HOOK, **hook}])], task), task=task)


def finished(found: Trainer) -> Trainer:
    while not found.done:
        found.step()
    found.finish("finished")
    return found


@pytest.mark.parametrize("adapter", [[], ["--lora.rank", "2"]], ids=["weights", "adapter"])
def test_a_run_that_was_interrupted_meets_the_same_past_selves(tmp_path: Path, adapter: list[str]) -> None:
    whole = finished(trainer(tmp_path, "whole", *adapter))
    parts = trainer(tmp_path, "parts", *adapter)
    while parts.progress.step < 1:
        parts.step()
    parts.folder.release()
    again = finished(resumed(tmp_path / "parts"))
    assert_same(tmp_path / "whole", tmp_path / "parts")
    assert any(row.get("loss") for row in rows(tmp_path / "whole"))
    for name, one in pools(whole).items():
        other = pools(again)[name]
        assert other.entered == one.entered == 3
        for left, right in zip(one.selves, other.selves, strict=True):
            assert (left.name, left.games, left.won) == (right.name, right.games, right.won)
            pairs = zip(left.policy.module.parameters(), right.policy.module.parameters(), strict=True)
            assert all(torch.equal(a, b) for a, b in pairs)


def test_of_an_adapter_only_the_adapter_is_kept_and_all_sample_in_one_batch(tmp_path: Path) -> None:
    found = trainer(tmp_path, "x", "--lora.rank", "2")
    while found.progress.step < 2:
        found.step()
    found.folder.release()
    policy, kept = found.parts.lead.policy, pools(found)["policy"].selves
    player = found.parts.player
    assert isinstance(player, TextPlayer)
    engine = player.actors["first"].engine
    assert isinstance(engine, LocalEngine)
    base = {name: w.data_ptr() for name, w in policy.module.named_parameters() if ".lora_" not in name}
    for one in kept:
        own = dict(one.policy.module.named_parameters())
        assert {name: w.data_ptr() for name, w in own.items() if ".lora_" not in name} == base
        assert not any(w.requires_grad for w in own.values())
        assert isinstance(one.actor.engine, LocalEngine)
        assert one.actor.engine._company is engine._company
    state = found.state()["hooks"]["PastSelves"]
    names = {name for one in state["policy"]["selves"] for name in one["weights"]}
    assert names
    assert all(".lora_" in name for name in names)


@pytest.mark.parametrize("adapter", [[], ["--lora.rank", "2"]], ids=["weights", "adapter"])
def test_a_snapshot_goes_on_acting_as_the_policy_did(tmp_path: Path, adapter: list[str]) -> None:
    found = trainer(tmp_path, "x", *adapter)
    while found.progress.step < 1:
        found.step()
    found.folder.release()
    policy, player = found.parts.lead.policy, found.parts.player
    assert isinstance(policy, CausalLM)
    assert isinstance(player, TextPlayer)
    engine = player.actors["first"].engine
    assert isinstance(engine, LocalEngine)
    past = engine.like(policy.snapshot())
    asked = [Request((5, 6, 7), Decoding(max_tokens=12), Key.of(n)) for n in range(6)]
    before = engine.sample(asked)
    with torch.no_grad():
        for weight in policy.module.parameters():
            if weight.requires_grad:
                weight.add_(0.3 * torch.randn(weight.shape, generator=Key.of(1).torch()))
    for one, other, now in zip(before, past.sample(asked), engine.sample(asked), strict=True):
        assert one.tokens.tolist() == other.tokens.tolist()
        assert np.array_equal(np.asarray(one.logp), np.asarray(other.logp))
        assert not np.array_equal(np.asarray(one.logp), np.asarray(now.logp))


def test_snapshots_elsewhere_are_refused_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="overlap at 0"):
        trainer(tmp_path, "x", "--overlap", "1")


def test_without_past_selves_nothing_is_kept() -> None:
    found = bench().run(2)
    assert found.parts.hooks.state(found.parts) == {}
