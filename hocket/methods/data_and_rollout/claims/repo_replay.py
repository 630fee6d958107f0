"""RePO's claims."""

from __future__ import annotations

from itertools import combinations
from statistics import fmean
from typing import Any

import numpy as np
import torch

from hocket.core.batch import Batch
from hocket.core.components import value_at
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.core.segments import segment_sum
from hocket.curriculum.random_order import Shuffled
from hocket.curriculum.scenario_worth import Even, Weighted
from hocket.lab.claims.harness import EXACT, SEEDS, Claims, Finding, gap, say
from hocket.lab.talk import TalkBench
from hocket.lab.toys.hops import ASKED, WAYS, Hops, last
from hocket.lab.toys.recorded_answers import line
from hocket.methods.base.grpo import GRPO
from hocket.methods.data_and_rollout.repo_replay import REPO_REPLAY, REPO_REPLAY_MIXED
from hocket.objectives.replay_surrogate import ReplayedSurrogate
from hocket.recipe import Recipe
from hocket.rollout.replay import WithReplays
from hocket.rollout.replay_store import AGE, ReplayStore, chosen
from hocket.train.tree import TreeEncoder, decode_tree
from hocket.types import Quantity, Trajectory

claim = Claims("repo-replay", "arXiv:2506.09340, and the released code")
OURS = REPO_REPLAY.but({"curriculum": Shuffled(prompts=2), "rollout.samples": 4, "rollout.earlier": 4})
PLAIN = GRPO.but({"rollout.samples": 4})


def bench(recipe: Recipe, seed: int = 0, lr: float = 0.1) -> TalkBench:
    """A look-up of two steps, of which one in sixteen is right at first."""
    asked = [type(one)(one.id, "", answer=" ".join(one.answer.split()[:2])) for one in ASKED]
    return TalkBench(Hops(), asked, WAYS, recipe, view=last, seed=seed, lr=lr)


def stored(made: TalkBench) -> dict[str, Any]:
    state: dict[str, Any] = made.parts.lead.memory["rollout"]
    return state


def after(recipe: Recipe, steps: int, seed: int = 0, **how: float) -> tuple[TalkBench, Batch, list[Trajectory]]:
    """A bench after some steps, the batch of the last and its trajectories."""
    made = bench(recipe, seed, **how).run(steps - 1)
    result = made.step()
    assert result.batch is not None
    return made, result.batch, result.trajectories


@claim("Without replays it is GRPO to the bit: weights and metrics.")
def without_replays_it_is_grpo_to_the_bit_weights_and_metrics() -> Finding:
    ours, plain = (bench(one).run(8) for one in (OURS.but({"rollout.earlier": 0}), PLAIN))
    names = [name for name in plain.history[-1] if not name.startswith(("time/", "throughput/"))]
    pairs = list(zip(ours.history, plain.history, strict=True))
    same = all(repr(one.get(name)) == repr(other.get(name)) for one, other in pairs for name in names)
    logits = [made.policies["policy"].module.logits for made in (ours, plain)]
    return Finding(same and torch.equal(*logits), say(metrics_compared=len(names), largest_weight_gap=gap(*logits)))


@claim(
    "What comes back is what was sampled: token ids, log-probs, versions and scores, also after a checkpoint; with an "
    "unchanged policy its ratio is 1."
)
def what_comes_back_is_what_was_sampled_token_ids_log_probs() -> Finding:
    made = bench(OURS, lr=0.0)
    first = made.step().trajectories
    encoder = TreeEncoder()
    state = decode_tree(encoder.encode(stored(made)), encoder.tensors)
    made.parts.lead.memory = {**made.parts.lead.memory, "rollout": state}
    result = made.step()
    back = [one for one in result.trajectories if one.source == "replay"]
    kept = {(one.scenario.id, number): one for asked in ASKED for number, one in enumerate(mine(first, asked.id))}
    same = len(back) == len(kept) and all(
        np.array_equal(a.action, b.action)
        and gap(a.logp, b.logp) == gap(a.version, b.version) == 0
        and a.text == b.text
        for one in back
        for a, b in zip(one.turns, kept[one.scenario.id, -1 - one.sample].turns, strict=True)
    )
    same &= all(one.scores == kept[one.scenario.id, -1 - one.sample].scores and AGE.get(one) == 1 for one in back)
    batch = pack(back)
    with torch.no_grad():
        now = made.policies["policy"].evaluate(batch, {Quantity.LOGP}).logp
    off = gap(now, batch.logp["behaviour"].values)
    tokens = made.history[-1]["tokens/generated"]
    return Finding(same and off < 1e-6 and tokens == 16, say(replayed=len(back), log_ratio=off, tokens_counted=tokens))


def mine(trajectories: list[Trajectory], scenario: str) -> list[Trajectory]:
    return [one for one in trajectories if one.scenario.id == scenario]


@claim("Advantages of the fresh and of the replayed samples each sum to 0; compared together they need not.")
def advantages_of_the_fresh_and_of_the_replayed_samples_each_sum_to() -> Finding:
    split, mixed = list[float](), list[float]()
    for recipe, sums in ((OURS, split), (REPO_REPLAY_MIXED.but({**small(), "rollout.take": "best"}), mixed)):
        for seed in range(5):
            _, batch, trajectories = after(recipe, 14, seed)
            seen = batch.occurrences
            whole = segment_sum(seen.advantage, seen.trajectory, batch.trajectories) / batch.lengths()
            for asked in ASKED:
                for source in ("own", "replay"):
                    here = [
                        n for n, one in enumerate(trajectories) if (one.scenario.id, one.source) == (asked.id, source)
                    ]
                    sums.append(abs(float(whole[here].sum())))
    return Finding(max(split) < 1e-5 and max(mixed) > 0.1, say(split=split, mixed=mixed))


def small() -> dict[str, Any]:
    return {"curriculum": Shuffled(prompts=2), "rollout.samples": 4, "rollout.earlier": 4}


@claim("Those of highest reward, and those whose rewards vary most, are what trying all subsets finds.")
def those_of_highest_reward_and_those_whose_rewards_vary_most_are() -> Finding:
    worst, draw = 0.0, Key.of(0).numpy()
    for _ in range(60):
        worth = np.round(draw.normal(size=int(draw.integers(1, 9))), 1).tolist()
        count = int(draw.integers(1, len(worth) + 1))
        some = [[worth[place] for place in chosen(worth, count, take, Key.of(0))] for take in ("best", "spread")]
        every = list(combinations(worth, count))
        worst = max(worst, max(map(sum, every)) - sum(some[0]), max(map(np.var, every)) - float(np.var(some[1])))
    recent = chosen([1.0, 5.0, 2.0], 2, "recent", Key.of(0))
    return Finding(worst < EXACT and recent == [1, 2], say(sets=60, largest_shortfall=worst))


@claim("The older what comes back, the more of it is clipped.")
def the_older_what_comes_back_the_more_of_it_is_clipped() -> Finding:
    recipe = OURS.but({"rollout.earlier": 16, "rollout.store": ReplayStore(size=64), "rollout.take": "any"})
    rows = [
        row for seed in range(5) for row in bench(recipe, seed).run(25).history if row.get("replay/clipped/old", 0) > 0
    ]
    every, old = (fmean(row[name] for row in rows) for name in ("replay/clipped", "replay/clipped/old"))
    age = fmean(row["replay/age"] for row in rows)
    return Finding(old > every + 0.05, say(steps=len(rows), mean_age=age, clipped=every, clipped_of_the_older_half=old))


TOKENS = 1600


def learnt(recipe: Recipe) -> list[tuple[float, float]]:
    """After so many sampled tokens the exact chance to find it, and the steps that had a gradient, by seed."""
    found = []
    for seed in SEEDS:
        made, spent, signal = bench(recipe, seed), 0.0, 0.0
        while spent < TOKENS:
            metrics = made.step().metrics
            spent += metrics["tokens/generated"]
            signal += float(metrics["groups/with_signal"] > 0)
        found.append((made.expected(), signal))
    return found


@claim("At equal sampled tokens more steps have a gradient than with GRPO, and more is found.", slow=True)
def at_equal_sampled_tokens_more_steps_have_a_gradient_than_with() -> Finding:
    ours, plain = learnt(OURS.but({"rollout.take": "spread"})), learnt(PLAIN)
    right, steps = ([[row[n] for row in rows] for rows in (ours, plain)] for n in (0, 1))
    holds = fmean(right[0]) > fmean(right[1]) and min(a - b for a, b in zip(*steps, strict=True)) > 0
    saw = f"found {line(right[0])}, by GRPO {line(right[1])}; steps with a gradient {line(steps[0])}, by GRPO "
    return Finding(holds, f"{TOKENS} tokens: {saw}{line(steps[1])}")


@claim("As shipped 8 fresh samples stand beside the latest 8 of the 16 kept of a question, of all there are, clip 0.2.")
def as_shipped_8_fresh_samples_stand_beside_the_latest_8_of_the_16() -> Finding:
    rollout, pool = REPO_REPLAY.rollout, REPO_REPLAY.curriculum
    assert isinstance(rollout, WithReplays)
    holds = rollout == WithReplays(8, 8, "recent", ReplayStore(16, 4096)) and pool == Weighted(Even(), 16, None, 0.0)
    holds &= value_at(REPO_REPLAY, "objective") == ReplayedSurrogate(0.2, 0.2, horizon=128)
    return Finding(holds, say(rollout=str(rollout), curriculum=str(pool)))


claim.shipped(
    REPO_REPLAY,
    "rollout.earlier",
    without={"rollout.earlier": 0},
    steps=2,
    settings={"curriculum.prompts": 4, "curriculum.pool": 4, "rollout.samples": 4, "rollout.earlier": 4},
    sees=lambda run: {"replayed": run.mean("replay/trajectories")},
)
