"""Tree-GRPO's claims."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from statistics import fmean

import torch

from hocket.core.batch import Batch, GroupBy
from hocket.core.components import value_at
from hocket.core.keys import Key
from hocket.core.segments import segment_sum
from hocket.core.signals import returns
from hocket.credit.group import GroupRelative
from hocket.lab.claims.harness import EXACT, SEEDS, Claims, Finding, below, gap, inspect_rows, say
from hocket.lab.claims.lesson_data import after_lessons
from hocket.lab.talk import TalkBench
from hocket.lab.toys.hops import ASKED, WAYS, Hops, last
from hocket.lab.toys.recorded_answers import group_relative, line
from hocket.methods.base.grpo import GRPO
from hocket.methods.data_and_rollout.tree_grpo import TREE, TREE_GRPO, StepTrees, WithinAndAmong
from hocket.recipe import Recipe

claim = Claims("tree-grpo", "arXiv:2509.21240, and the released code")
TREES = GRPO.but(name="trees", rollout=StepTrees(), credit=WithinAndAmong())
CHAINS = GRPO.but({"rollout.samples": 6})


def bench(recipe: Recipe, seed: int) -> TalkBench:
    return TalkBench(Hops(), ASKED, WAYS, recipe, view=last, seed=seed, lr=0.1)


@cache
def grown(seed: int = 0, steps: int = 40) -> Batch:
    """A credited batch of trees by a policy that finds now and then."""
    made = bench(TREES.but({"rollout": StepTrees(trees=3, rounds=2, expand=2, keep=5)}), seed)
    batch = made.step().batch
    for _ in range(steps):
        if batch is not None and 0.2 < float(returns(batch).mean()) < 0.8:
            break
        batch = made.step().batch
    assert batch is not None
    return batch


@claim("A_i = (R_i - mean_tree)/std_tree + (R_i - mean_all)/std_all; a tree of equal ends gives nothing to the first.")
def a_i_std_tree_std_all_a_tree_of_equal_ends_gives_nothing_to_the() -> Finding:
    draw, worst = Key.of(0).numpy(), 0.0
    for _ in range(20):
        trees = [tree for tree, size in enumerate(draw.integers(1, 5, 3).tolist()) for _ in range(size)]
        rewards = draw.normal(size=len(trees)).tolist()
        rows = [
            {"group": "q", "scores": {"reward": reward}, "logp": [-1.0, -2.0], "info": {"tree": tree}}
            for tree, reward in zip(trees, rewards, strict=True)
        ]
        due = group_relative(rewards)
        for tree in set(trees):
            places = [place for place, of in enumerate(trees) if of == tree]
            for place, own in zip(places, group_relative([rewards[place] for place in places]), strict=True):
                due[place] += own if len(places) > 1 else 0.0
        found = [row[0] for row in inspect_rows(TREES, rows)["advantages"]]
        worst = max(worst, gap(found, due))
    return below(1e-9, apart_on_20_forests=worst)


@claim("With one end per tree it is GRPO to the bit.")
def with_one_end_per_tree_it_is_grpo_to_the_bit() -> Finding:
    draw, worst = Key.of(1).numpy(), 0.0
    for _ in range(10):
        rows = [
            {"group": f"{one % 2}", "scores": {"r": float(draw.random())}, "logp": [-1.0] * 3, "info": {"tree": one}}
            for one in range(8)
        ]
        ours, plain = inspect_rows(TREES, rows), inspect_rows(CHAINS, rows)
        worst = max(worst, gap(ours["advantages"], plain["advantages"]), gap(ours["gradient"], plain["gradient"]))
    return Finding(worst == 0.0, say(largest_difference=worst))


@claim(
    "Advantages within a tree sum to 0, so where tokens are summed the steps that all its ends share get nothing from "
    "them in all, and those below a fork do."
)
def advantages_within_a_tree_sum_to_0_so_where_tokens_are_summed() -> Finding:
    batch = grown()
    seen, tree = batch.occurrences, torch.tensor(TREE.rows(batch))
    group = batch.scenario * 100 + tree
    within = TREES.credit.within(batch).advantage if isinstance(TREES.credit, WithinAndAmong) else seen.advantage
    sizes = torch.bincount(group)
    visits = torch.bincount(seen.decision, minlength=batch.decisions)
    common = visits[seen.decision] == sizes[group[seen.trajectory]]
    total = segment_sum(within, seen.decision, batch.decisions)
    forked = total[torch.unique(seen.decision[~common])]
    shared = int(torch.unique(seen.decision[common]).numel())
    largest = float(total[seen.decision[common]].abs().max())
    holds = largest < EXACT and float(forked.abs().max()) > 0.1 and shared > 0
    return Finding(holds, say(decisions_shared_by_a_tree=shared, of_them_largest=largest, others=float(forked.max())))


@claim("What episodes of a tree have in common is one turn, sampled once with the log-probs it had then.")
def what_episodes_of_a_tree_have_in_common_is_one_turn_sampled_once() -> Finding:
    made = bench(TREES, 3)
    batch = made.step().batch
    assert batch is not None
    seen = batch.occurrences
    texts = [tuple(batch.info["trace"][one].split("\n")) for one in range(batch.trajectories)]
    turns = [batch.turn[seen.decision[seen.trajectory == one]].tolist() for one in range(batch.trajectories)]
    shared = 0
    for one in range(batch.trajectories):
        for other in range(one):
            same = [a == b for a, b in zip(turns[one], turns[other], strict=True)]
            depth = same.index(False) if False in same else len(same)
            assert not any(same[depth:])
            assert texts[one][:depth] == texts[other][:depth]
            shared += depth
    tokens = made.history[-1]["tokens/generated"]
    holds = shared > 0 and tokens == batch.decisions < batch.trajectories * 4
    return Finding(holds, say(steps_in_common=shared, tokens_sampled=tokens, steps_of_all_ends=batch.trajectories * 4))


@claim(
    "Of more ends than are kept some are drawn, each equally likely; every episode of a question has its own number."
)
def of_more_ends_than_are_kept_some_are_drawn_each_equally_likely() -> Finding:
    made = bench(TREES.but({"rollout": StepTrees(trees=300, keep=2)}), 1)
    trajectories = [one for one in made.step().trajectories if one.scenario.id == "one"]
    numbers = [one.sample for one in trajectories]
    sizes = {tree: [n % 3 for n in numbers if n // 3 == tree] for tree in range(300)}
    left_out = [3 - sum(places) for places in sizes.values()]
    shares = [left_out.count(place) / 300 for place in range(3)]
    # Of 300 trees a third lets each end go: deviation 0.027.
    holds = len(set(numbers)) == 600 and {len(places) for places in sizes.values()} == {2}
    return Finding(holds and max(abs(share - 1 / 3) for share in shares) < 0.11, say(left_out_by_place=shares))


@claim(
    "A node to go on from is any that is no end, the beginning too, all equally likely: of 4 steps an expansion costs "
    "2.5, so three ends cost 9 steps in place of 12."
)
def a_node_to_go_on_from_is_any_that_is_no_end_the_beginning_too() -> Finding:
    recipe = TREES.but({"rollout": StepTrees(trees=100)})
    metrics = bench(recipe, 0).step().metrics
    mean = metrics["tokens/generated"] / 200
    # A step drawn from a tree of one chain leaves 4, 3, 2 or 1 to go: variance 1.25, two of them in 200 trees.
    error = (2 * 1.25 / 200) ** 0.5
    per_token = 3 / mean / (3 / 12)
    holds = abs(mean - 9) < 4 * error and metrics["rollout/steps_shared"] > 0
    return Finding(holds, say(steps_per_tree=mean, due=9.0, ends_per_step_over_chains=per_token))


TOKENS = 6000


def learnt(recipe: Recipe) -> list[float]:
    """The chance to find it after so many sampled tokens, exactly, by seed."""
    found = []
    for seed in SEEDS:
        made, spent = bench(recipe, seed), 0.0
        while spent < TOKENS:
            spent += made.step().metrics["tokens/generated"]
        found.append(made.expected())
    return found


@claim("At equal tokens trees find it more often than chains do, whose groups hold as many ends.", slow=True)
def at_equal_tokens_trees_find_it_more_often_than_chains_do_whose() -> Finding:
    trees, chains, among = (learnt(one) for one in (TREES, CHAINS, TREES.but({"credit": GRPO.credit})))
    saw = say(tokens=TOKENS, trees=line(trees), chains=line(chains), trees_compared_among_all_alone=line(among))
    return Finding(fmean(trees) > fmean(chains) + 0.1, saw)


@claim(
    "After lessons in which half of the demonstrations search, the shipped model learns to: exact match on unseen "
    "things rises.",
    slow=True,
)
def after_lessons_in_which_half_of_the_demonstrations_search_the() -> Finding:
    pupil = after_lessons(TREE_GRPO, "lookup?tags=true", "lookup?calls=0.5&tags=true", {"curriculum.prompts": 8})
    before = pupil.success()
    after = pupil.run(18).success()
    tokens = [float(row.metrics["tokens/generated"]) for row in pupil.results]
    return Finding(after > before + 0.2, say(exact_match_before=before, after_18_steps=after, tokens=sum(tokens)))


@claim("As shipped two trees grow once from two nodes, and all their three ends are learnt from.", "the released code")
def as_shipped_two_trees_grow_once_from_two_nodes_and_all_their() -> Finding:
    found = [value_at(TREE_GRPO, f"rollout.{name}") for name in ("trees", "rounds", "expand", "keep")]
    alike = GroupRelative(by=GroupBy("scenario"), scale="std", ddof=1, epsilon=1e-6)
    holds = TREE_GRPO.credit == WithinAndAmong(replace(alike, by=GroupBy("scenario", "info/tree")), alike)
    holds &= value_at(TREE_GRPO, "rollout.trajectories") == 6
    return Finding(holds and found == [2, 1, 2, 3], say(trees_rounds_nodes_kept=str(found)))


@claim("Steps sampled are counted once, and those that several ends have in common once for each end after the first.")
def steps_sampled_are_counted_once_and_those_that_several_ends_have() -> Finding:
    seen = list[tuple[float, float]]()
    for seed in range(4):
        result = bench(TREES, seed).step()
        turns = [id(turn) for one in result.trajectories for turn in one.turns]
        counted = [result.metrics[f"rollout/steps_{name}"] for name in ("sampled", "shared")]
        seen += zip(counted, (len(set(turns)), len(turns) - len(set(turns))), strict=True)
    return Finding(all(one == other for one, other in seen) and seen[1][0] > 0, say(counts=str(seen[:2])))


claim.shipped(
    TREE_GRPO,
    "credit",
    "rollout",
    first={"recipe": "sft", "steps": 40, "update.lr": 0.003},
    settings={"curriculum.prompts": 4},
    sees=lambda run: {"shared": run.mean("rollout/steps_shared"), "groups": run.mean("groups/with_signal")},
)
