"""EFRame's claims."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

import numpy as np
import torch

from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.core.signals import returns
from hocket.lab.claims.harness import SEEDS, Claims, Finding, gap, inspect_rows, say
from hocket.lab.talk import TalkBench, total
from hocket.lab.toys.hops import ASKED, WAYS, Hops, last
from hocket.lab.toys.recorded_answers import group_relative, line, sample
from hocket.methods.base.grpo import GRPO
from hocket.methods.data_and_rollout.eframe import EARNED, EFRAME, HOT, ExploreAndReplay
from hocket.recipe import Recipe
from hocket.train.aio import run_async
from hocket.train.ledger import Ledger
from hocket.types import Assignment, Decoding, Scenario, Score, Trajectory, Turn

claim = Claims("eframe", "arXiv:2506.22200, and the released code")
THREE = [Scenario(one.id, "", answer=" ".join(one.answer.split()[:3])) for one in ASKED]
OFF = {"rollout.extra": 0, "rollout.replayed": 0, "credit.least": 0.0, "credit.hot": 0.0, "credit.overlong": True}


def bench(recipe: Recipe, seed: int = 0, lr: float = 0.1, asked: list[Scenario] = THREE) -> TalkBench:
    """Three steps, of which one episode in 64 takes all rightly at first."""
    return TalkBench(Hops(), asked, WAYS, recipe, view=last, seed=seed, lr=lr, capacity=1000)


@claim("With no extra samples, no filter and no replay it is GRPO to the bit.")
def with_no_extra_samples_no_filter_and_no_replay_it_is_grpo_to_the() -> Finding:
    asked = [Scenario(one.id, "", answer=one.answer.split()[0]) for one in ASKED]
    ours, plain = (bench(one, asked=asked).run(8) for one in (EFRAME.but(OFF), GRPO.but({"rollout.samples": 8})))
    logits = [made.policies["policy"].module.logits for made in (ours, plain)]
    moved = float(logits[0].abs().max())
    return Finding(torch.equal(*logits) and moved > 0, say(largest_weight_gap=gap(*logits), moved=moved))


@claim("Extra samples raise the share of hard questions with a success to 1 - (1 - p)^(G1 + G2).")
def extra_samples_raise_the_share_of_hard_questions_with_a_success() -> Finding:
    asked = [Scenario(f"{number}", "", answer="north east") for number in range(400)]
    found = []
    for extra in (0, 8, 24):
        made = bench(EFRAME.but({"rollout.extra": extra, "rollout.hard": 0.0, "rollout.hot": 1.0}), lr=0.0, asked=asked)
        result = made.step()
        assert result.experience is not None
        solved = {one.scenario.id for one in result.experience.trajectories if total(one) > 0}
        due = 1 - (1 - 1 / 16) ** (8 + extra)
        error = math.sqrt(due * (1 - due) / len(asked))
        found.append((len(solved) / len(asked), due, abs(len(solved) / len(asked) - due) / error))
    return Finding(max(row[2] for row in found) < 4, "; ".join(f"{got:.3f} for {due:.3f}" for got, due, _ in found))


@claim(
    "A sample counts if its advantage is at least 0.05 in size, a hot one's at least 1; advantages are GRPO's, of the "
    "ordinary samples of a question and of its hot ones apart."
)
def a_sample_counts_if_its_advantage_in_its_group_hot_ones_included() -> Finding:
    wrong, kept, worst = 0, {"plain": 0, "hot": 0, "dropped": 0}, 0.0
    for seed in range(3):
        made = bench(EFRAME.but({"rollout.replayed": 0, "rollout.samples": 4, "rollout.extra": 6}), seed)
        for _ in range(30):
            result = made.step()
            if result.batch is None:
                continue
            seen, rows = result.batch.occurrences, result.trajectories
            for asked in THREE:
                mine = [place for place, one in enumerate(rows) if one.scenario.id == asked.id]
                apart = [[place for place in mine if bool(HOT.get(rows[place])) == hot] for hot in (False, True)]
                due = {
                    place: advantage
                    for places in filter(None, apart)
                    for place, advantage in zip(
                        places, group_relative([float(returns(result.batch)[place]) for place in places]), strict=True
                    )
                }
                for place, advantage in due.items():
                    here, hot = seen.trajectory == place, place in apart[1]
                    worst = max(worst, gap(seen.advantage[here], [advantage] * int(here.sum())))
                    counts = abs(advantage) >= (1.0 if hot else 0.05)
                    wrong += bool((seen.weight[here] != 0).all()) != counts
                    kept["dropped" if not counts else "hot" if hot else "plain"] += 1
    return Finding(wrong == 0 and worst < 1e-5 and min(kept.values()) > 10, say(wrong=wrong, **kept))


@claim("Every so many steps, and in no other, kept samples come back with the log-probs and the advantage they had.")
def every_so_many_steps_and_in_no_other_kept_samples_come_back_with() -> Finding:
    made = bench(EFRAME.but({"rollout.every": 4}), 2)
    earned: dict[str, set[float]] = {}
    wrong, back, off_step = 0, 0, 0
    for step in range(1, 41):
        result = made.step()
        if result.batch is None:
            continue
        seen = result.batch.occurrences
        for place, one in enumerate(result.trajectories):
            name = f"{one.scenario.id}: {[turn.action.tolist() for turn in one.turns]} {one.turns[0].logp}"
            advantage = float(seen.advantage[seen.trajectory == place][0])
            if one.source == "replay":
                back, off_step = back + 1, off_step + (step % 4 != 0)
                wrong += not any(abs(advantage - known) < 1e-5 for known in earned.get(name, ()))
                wrong += abs(float(EARNED.get(one)) - advantage) > 1e-9 or abs(advantage) <= 1.0
            else:
                earned.setdefault(name, set()).add(advantage)
    return Finding(wrong == 0 and back > 20 and off_step == 0, say(replayed=back, wrong=wrong, in_other_steps=off_step))


async def unscored(played: Sequence[Trajectory]) -> None:
    """What is played has its scores."""


@claim(
    "As shipped 8 more at 1.2 times the temperature where none of 8 is right; of the latest 64 whose advantage, among "
    "the ordinary or among the hot, is larger than 1 in size, failures included, 8 come back at every fifth step, to "
    "the questions that they answer."
)
def as_shipped_8_more_at_1_2_times_the_temperature_where_at_most() -> Finding:
    right = {"hard": {12}, "easy": {3, 4}, "half": {3, 4, 5, 6}, "most": {*range(4, 11)}, "lost": {3}, "once": {5}}
    asks = {name: Scenario(name, name, seed=7, origin=f"of {name}") for name in right}
    asks["easy"] = replace(asks["easy"], prompt=({"role": "user", "content": "easy"},))
    asked = [Assignment(one, first=3, decoding=Decoding(temperature=0.5)) for one in asks.values()]
    calls = list[list[Assignment]]()

    async def play(asking: Sequence[Assignment]) -> list[Trajectory]:
        """Of what is lost the first is no answer, and none is right."""
        calls.append([*asking])
        found = []
        for one, number in ((ask, n) for ask in asking for n in range(ask.first, ask.first + ask.samples)):
            none, name = np.zeros(1, np.int64), one.scenario.id
            turn = Turn("a", "policy", none, none + number, logp=np.full(1, -0.1 * number, np.float32))
            made = Trajectory(one.scenario, [turn], number, failure="lost" if (name, number) == ("lost", 3) else None)
            made.scores["reward"] = Score(float(number in right[name]))
            found.append(made)
        return found

    rule, state, holds, back = EFRAME.rollout, EFRAME.init()["rollout"], True, list[Trajectory]()
    assert isinstance(rule, ExploreAndReplay)
    for number in range(1, 21):
        calls.clear()
        work = rule.collect_with(state, asked, play=play, score=unscored, ledger=Ledger(), key=Key.of(0))
        made, state = run_async(work)
        first, hot = ([(one.samples, round(one.decoding.temperature, 9)) for one in call] for call in calls)
        holds &= first == [(8, 0.5)] * 6 and hot == [(8, 0.6)] * 2
        holds &= [(one.scenario.id, one.first) for one in calls[1]] == [("hard", 11), ("lost", 11)]
        drawn = [one for one in made.trajectories if one.source != "replay"]
        holds &= [one.sample for one in drawn if HOT.present(one)] == list(range(11, 19)) * 2
        holds &= (made.metrics["rollout/hard"], made.metrics["rollout/explored"]) == (2.0, 1.0)
        again = [one for one in made.trajectories if one.source == "replay"]
        holds &= len(again) == (8 if number % 5 == 0 else 0)
        back += again
    rewards = {"hard": [1.0] + [0.0] * 7, "easy": [1.0] * 2 + [0.0] * 6, "most": [0.0] + [1.0] * 7}
    kept = {name: group_relative(rewards[name])[0] for name in rewards} | {"once": group_relative(rewards["hard"])[0]}
    holds &= {one.scenario.id for one in back} == set(kept)
    for one in back:
        name, (turn,) = one.scenario.id, one.turns
        number = int(turn.action[0])
        holds &= one.scenario == replace(asks[name], metadata={})
        holds &= (number in right[name]) == (kept[name] > 0)
        holds &= turn.logp is not None and abs(float(turn.logp[0]) + 0.1 * number) < 1e-6
        holds &= abs(EARNED.get(one) - kept[name]) < 1e-9
    sizes = (len(state["asked"]), len(state["store"]["kept"]["kept"]))
    return Finding(holds and len(back) == 32 and sizes == (64, 64), say(replayed=len(back), kept=str(sizes)))


@claim(
    "By hand: small advantages count for nothing, those of hot samples up to 1, and right answers that were cut short; "
    "what is cut short and wrong counts, and replays keep their advantage, however small."
)
def by_hand_small_advantages_count_for_nothing_those_of_hot_samples() -> Finding:
    plain, hot, played = (0.0, 1.0, 0.53, 0.56, 1.0, 0.0), (0.0, 1.0, 0.0), list[Trajectory]()
    for place, reward in enumerate([*plain, *hot]):
        none = np.zeros(1, np.int64)
        turn = Turn("a", "policy", none, np.zeros(2, np.int64), logp=np.zeros(2, np.float32))
        one = Trajectory(Scenario("q"), [turn], place, scores={"reward": Score(reward)}, truncated=place in (4, 5))
        if place >= len(plain):
            HOT.write(one, True)
        played.append(one)
    for place, earned in ((9, 1.7), (10, 0.01)):  # No matter how small, nor that it was cut short.
        one = replace(played[4], sample=place, source="replay", info={EARNED.name: earned})
        one.turns = [replace(one.turns[0])]
        played.append(one)
    batch, _ = EFRAME.compute_credit(pack(played), EFRAME.init(), {})
    due = [*group_relative(plain), *group_relative(hot), 1.7, 0.01]
    seen = batch.occurrences
    off = gap(seen.advantage.reshape(11, 2), [[one, one] for one in due])
    weight = seen.weight.reshape(11, 2)[:, 0].tolist()
    holds = weight == [1, 1, 0, 1, 0, 1, 0, 1, 0, 1, 1]
    return Finding(holds and off < 1e-5, say(advantages_off=off, weights=str(weight)))


@claim("Ratios are to who sampled, clipped at .8 and 1.2, and of what came back the share that is clipped is told.")
def ratios_are_to_who_sampled_clipped_at_8_and_1_2_and_of_what_came() -> Finding:
    # Ratios of e^-.3, e^-.1 and e^.5 of failures, and e^.5, e^.1 and e^.3 of what came back, by hand.
    rows = [sample("g", 0.0, [-1.0] * 3, logp_behaviour=[-0.7, -0.9, -1.5], source="own") for _ in range(3)]
    rows.append(sample("g", 1.0, [-1.0] * 3, logp_behaviour=[-1.5, -1.1, -1.3], source="own"))
    past = {"logp_behaviour": [-1.5, -1.1, -1.3], "source": "replay", "info": {EARNED.name: 2.0}}
    seen = inspect_rows(EFRAME, [*rows, sample("g", 1.0, [-1.0] * 3, **past)])
    stopped, told = [[slope == 0 for slope in row] for row in seen["gradient"]], seen["metrics"]["replay/clipped"]
    holds = stopped == [[True, False, False]] * 3 + [[True, False, True]] * 2 and abs(told - 2 / 3) < 1e-9
    return Finding(holds, say(clipped=told, no_gradient=str(stopped)))


@claim("Explored are the hard questions of which a hot sample is right, by hand 2 of 3.")
def explored_are_the_hard_questions_of_which_a_hot_sample_is_right() -> Finding:
    async def play(asking: Sequence[Assignment]) -> list[Trajectory]:
        """Hot samples of a and b are right."""
        found = []
        for one in asking:
            right = {"reward": Score(float(one.decoding.temperature > 1.1 and one.scenario.id != "c"))}
            numbers = range(one.first, one.first + one.samples)
            found += [Trajectory(one.scenario, [], number, scores=right) for number in numbers]
        return found

    asked = [Assignment(Scenario(name)) for name in "abc"]
    work = EFRAME.rollout.collect(asked, play=play, score=unscored, ledger=Ledger(), key=Key.of(0))
    metrics = run_async(work).metrics
    told = [metrics[f"rollout/{name}"] for name in ("hard", "explored")]
    return Finding(told == [3.0, 2.0], say(hard_and_explored=str(told)))


def learnt(recipe: Recipe, tokens: int, asked: list[Scenario]) -> list[float]:
    """The exact chance to find it after so many sampled tokens, by seed."""
    found = []
    for seed in SEEDS:
        made, spent = bench(recipe, seed, asked=asked), 0.0
        while spent < tokens:
            spent += made.step().metrics["tokens/generated"]
        found.append(made.expected())
    return found


@claim(
    "At equal sampled tokens more is found than with GRPO of what succeeds once in 256 times, replay being part of it; "
    "of what succeeds once in 64 times GRPO finds more, since extra samples cost what they bring.",
    slow=True,
)
def at_equal_sampled_tokens_more_is_found_than_with_grpo_of_what() -> Finding:
    plain = GRPO.but({"rollout.samples": 8})
    rare = [learnt(one, 6000, ASKED) for one in (EFRAME, EFRAME.but({"rollout.replayed": 0}), plain)]
    less = [learnt(one, 2000, THREE) for one in (EFRAME, plain)]
    holds = fmean(rare[0]) > max(fmean(rare[1]), fmean(rare[2])) + 0.1 and fmean(less[1]) > fmean(less[0])
    saw = f"once in 256, 6000 tokens: {line(rare[0])}, without replay {line(rare[1])}, by GRPO {line(rare[2])}"
    return Finding(holds, f"{saw}; once in 64, 2000 tokens: {line(less[0])}, by GRPO {line(less[1])}")


claim.spares("eframe: objective.horizon = 5120", "no length divides a mean over sequences")
claim.shipped(
    EFRAME,
    steps=2,
    without=OFF,
    settings={"curriculum.prompts": 6, "rollout.every": 2, "rollout.keep": 0.5},
    sees=lambda run: {
        "explored": run.mean("rollout/hard"),
        "replayed": run.mean("replay/trajectories"),
        "groups": run.mean("groups/with_signal"),
    },
)
