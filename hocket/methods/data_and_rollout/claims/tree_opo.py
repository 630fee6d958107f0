"""Tree-OPO's claims."""

from __future__ import annotations

import itertools
import json
import math
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from hocket.core.keys import Key
from hocket.credit.group import GroupRelative
from hocket.lab.bench import Bench
from hocket.lab.claims.harness import Claims, Finding, gap, inspect_rows, runs, say
from hocket.lab.claims.shipped_check import Shipment, ShippedRun
from hocket.lab.toys.hard_half import ALL_HARD, LENGTH, TOKENS, solution
from hocket.lab.toys.recorded_answers import lines
from hocket.lab.world import Answer, World
from hocket.methods.base.grpo import GRPO
from hocket.methods.data_and_rollout.tree_opo.making import TraceSearch, TraceSettings, Written
from hocket.methods.data_and_rollout.tree_opo.method import (
    PREFIX,
    TREE_OPO,
    TREE_OPO_ORDERED,
    PrefixTree,
    PrefixValue,
    TreeOrdered,
    below,
    ordered,
    projected,
)
from hocket.recipe import Recipe
from hocket.tasks.arithmetic import verify
from hocket.types import Assignment, Scenario

claim = Claims("tree-opo", "arXiv:2509.09284; forms recalled")
WAYS = ("0", "0", "0/1", "0/1", "0/1/3", "0/1/3", "0/2", "0/2")
FLAT = TREE_OPO.but(name="flat", credit=GroupRelative(scale=None))


def advantages(recipe: Recipe, rewards: list[float], ways: tuple[str, ...] = WAYS) -> list[float]:
    """Of one scenario's samples of two decisions each."""
    rows = [
        {"group": "q", "scores": {"reward": reward}, "logp": [-1.0, -2.0], "info": {"prefix": way}}
        for reward, way in zip(rewards, ways, strict=True)
    ]
    return [row[0] for row in inspect_rows(recipe, rows)["advantages"]]


@claim("A_i = R_i - alpha V(prefix_i): V the mean, the best or the worst return at and below the prefix.")
def a_i_r_i_alpha_v_v_the_mean_the_best_or_the_worst_return_at_and() -> Finding:
    subtree = {"0": range(8), "0/1": range(2, 6), "0/1/3": range(4, 6), "0/2": range(6, 8)}
    kinds: dict[str, Callable[[list[float]], float]] = {"expectation": fmean, "optimistic": max, "pessimistic": min}
    worst = 0.0
    for number in range(8):
        rewards = Key.of(number).numpy().integers(0, 2, 8).astype(float).tolist()
        for (kind, measure), alpha in itertools.product(kinds.items(), (1.0, 0.4)):
            recipe = TREE_OPO.but({"credit.value": kind, "credit.alpha": alpha})
            due = [r - alpha * measure([rewards[n] for n in subtree[w]]) for r, w in zip(rewards, WAYS, strict=True)]
            worst = max(worst, gap(advantages(recipe, rewards), due))
    return Finding(worst < 1e-12, say(apart=worst))


@claim("Where every sample begins from the bare prompt it is Dr. GRPO's advantage.")
def where_every_sample_begins_from_the_bare_prompt_it_is_dr_grpos() -> Finding:
    rewards = [0.0, 1.0, 1.0, 0.0, 0.5, 0.0, 1.0, 0.25]
    off = gap(*(advantages(recipe, rewards, ("0",) * 8) for recipe in (TREE_OPO, FLAT)))
    return Finding(off < 1e-12, say(off=off))


RATES = {"0": 0.05, "0/1": 0.3, "0/1/3": 0.95, "0/2": 0.6}


def enumerated(credit: str, answers: int | None) -> tuple[list[float], float]:
    """Over all outcomes: the mean gradient's size at each node, and the whole gradient's variance.

    A node's answer is one of two by its log-odds (`answers` None), or one of so many that are equally likely, a share
    of them right: given its reward r an answer's gradient then has mean `(r - p)/(p (1 - p)) u`, `|u|^2 = p (1 - p)/K`,
    and the squared norm `1 - 1/K` whatever r.
    """
    rates = np.array([RATES[way] for way in WAYS])
    length = np.sqrt(rates * (1 - rates) / answers) if answers else rates * (1 - rates)
    mean, square = np.zeros(len(RATES)), 0.0
    for outcome in itertools.product((0.0, 1.0), repeat=len(WAYS)):
        rewards = np.array(outcome)
        chance = float(np.prod(np.where(rewards == 1, rates, 1 - rates)))
        baseline = {"true": rates, "flat": rewards.mean(), "own": rewards - PrefixValue().of(rewards, WAYS)}[credit]
        along = (rewards - rates) / (rates * (1 - rates)) * length
        slopes = (rewards - baseline) * along
        spread = (rewards - baseline) ** 2 * ((1 - 1 / answers if answers else along**2) - along**2)
        by_node = np.array([slopes[[way == node for way in WAYS]].sum() for node in RATES])
        mean, square = mean + chance * by_node, square + chance * float((by_node**2).sum() + spread.sum())
    return mean.tolist(), square - float((mean**2).sum())


@claim(
    "By enumeration: the prefix's true value leaves the expected gradient as it is, and a group's flat mean gives 7/8 "
    "of it with a greater variance; samples' own values give (m - 1)/m of it. Where an answer is one of two by its "
    "log-odds the flat mean's variance is the smaller one, since the best baseline there is 1 - p.",
    "arXiv:2509.09284; the last sentence derived",
)
def by_enumeration_the_prefixs_true_value_leaves_the_expected() -> Finding:
    sizes = [sum(one == way or one.startswith(way + "/") for one in WAYS) for way in RATES]
    off, spread = 0.0, dict[str, list[float]]()
    for answers in (20, None):
        due = [2 * math.sqrt(p * (1 - p) / answers) if answers else 2 * p * (1 - p) for p in RATES.values()]
        shares = {"true": [1.0] * 4, "flat": [7 / 8] * 4, "own": [(size - 1) / size for size in sizes]}
        for credit, parts in shares.items():
            mean, variance = enumerated(credit, answers)
            off = max(off, gap(mean, [one * part for one, part in zip(due, parts, strict=True)]))
            spread.setdefault(credit, []).append(variance)
    (true, true_of_two), (flat, flat_of_two) = spread["true"], [one * (8 / 7) ** 2 for one in spread["flat"]]
    return Finding(off < 1e-12 and true < flat and true_of_two > flat_of_two, say(off=off, variances=str(spread)))


@claim("The projection keeps every order, mean 0 and the norm; no feasible point is nearer to the returns.")
def the_projection_keeps_every_order_mean_0_and_the_norm_no() -> Finding:
    broken, nearer, credit = 0.0, -math.inf, TreeOrdered(sweeps=5000)
    for number in range(6):
        draw = Key.of(number).numpy()
        rewards = draw.integers(0, 2, 8).astype(np.float64) * (4.0 if number % 2 else 1.0)
        pairs = ordered(rewards, WAYS)
        found = credit.of(rewards, WAYS)
        lacks = [0.05 - found[better] + found[worse] for worse, better in pairs]
        broken = max(broken, abs(found.sum()), float(found @ found) - 8, *lacks)
        for _ in range(20):
            other = projected(draw.normal(size=8) * 2, pairs, 0.05, 5000)
            nearer = max(nearer, float((rewards - found) @ (other - found)))
    return Finding(broken < 1e-6 and nearer < 1e-5, say(largest_break=broken, largest_gain_of_another=nearer))


@claim("Where no constraint binds it is R - mean R; of equal returns the shorter prefix is not below the longer.")
def where_no_constraint_binds_it_is_r_mean_r_of_equal_returns_the() -> Finding:
    free = advantages(TREE_OPO_ORDERED, [0.0, 1.0, 0.0, 1.0], ("0",) * 4)
    one, two, three = advantages(TREE_OPO_ORDERED, [1.0, 1.0, 0.0], ("0", "0/1", "0"))
    holds = gap(free, [-0.5, 0.5, -0.5, 0.5]) < 1e-9 and one - two > 0.05 - 1e-6 and two > three
    return Finding(holds, say(free=str(free), shorter=one, longer=two, failed=three))


@claim("Prefixes that traces share are one node, asked once; each stands below the longest that it goes on from.")
def prefixes_that_traces_share_are_one_node_asked_once_each_stands() -> Finding:
    traces = [(1, 2, 3, 4), (1, 2, 5, 6), (7, 2, 3, 4)]
    scenario = Scenario(id="q", prompt="?", metadata={"traces": traces})
    nodes = PrefixTree(samples=3).nodes(Assignment(scenario), None, Key.of(0))
    found = {way: one.prefix for way, one in nodes.items()}
    due = {(): 0, (1,): 1, (7,): 1, (1, 2): 2, (7, 2): 2, (1, 2, 3): 3, (1, 2, 5): 3, (7, 2, 3): 3}
    depth = {prefix: way.count("/") for way, prefix in found.items()}
    numbers = [one.first for one in nodes.values()]
    return Finding(depth == due and numbers == list(range(0, 24, 3)), say(nodes=str(found)))


@claim("Every node's samples begin with its prefix, imposed and without gradient; all else is learnt.")
def every_nodes_samples_begin_with_its_prefix_imposed_and_without() -> Finding:
    result = Bench(ALL_HARD, TREE_OPO, lr=0.1).step()
    batch = result.batch
    assert batch is not None
    wrong, seen = 0, dict[str, int]()
    for one in result.trajectories:
        turn, way = one.turns[0], PREFIX.get(one)
        length = [0, 2, 4, 6][way.count("/")]
        own = solution(int(one.scenario.metadata["question"]))
        imposed = 0 if turn.forced is None else int(turn.forced.sum())
        wrong += tuple(turn.action[:length]) != own[:length] or imposed != length or len(turn.action) > LENGTH
        seen[way] = seen.get(way, 0) + 1
    imposed_ones = batch.forced[batch.occurrences.decision]
    weights = batch.occurrences.weight
    sound = bool((weights[imposed_ones] == 0).all()) and bool((weights[~imposed_ones] != 0).all())
    return Finding(wrong == 0 and sound and set(seen.values()) == {12}, say(samples=str(seen), wrong=wrong))


@claim(
    "Where the start is right once in 6561, completing prefixes has the bare prompt solved more and more at equal "
    "samples, and GRPO's success stays 0. Among the same samples the ordered credit is ahead of the flat mean on "
    "average, and the prefix's own value is behind it.",
    "arXiv:2509.09284; that the value is ahead of the flat mean was not seen",
)
def where_the_start_is_right_once_in_6561_completing_prefixes_has() -> Finding:
    others = (TREE_OPO_ORDERED, FLAT, GRPO.but({"rollout.samples": 16}))
    made = runs(ALL_HARD, TREE_OPO, *others, steps=60, every=60, seeds=range(3), lr=0.1)
    found = {name: [bench.success() for bench in group] for name, group in made.items()}
    value, ordered_, flat = (sum(found[name]) for name in ("tree-opo", "tree-opo-ordered", "flat"))
    return Finding(
        min(found["tree-opo"]) > 0.1 and max(found["grpo"]) < 0.01 and value < flat < ordered_, lines(success=found)
    )


def searched(folder: str, **settings: Any) -> tuple[Written, list[dict[str, Any]]]:
    """What `hocket traces` finds for sums, and the rows that it writes."""
    path = Path(folder) / "traces.jsonl"
    found = TraceSearch(TraceSettings("worked_sums", **settings), path).run()
    return found, [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@claim("A trace told in steps is begun by every number of them but all; where that is more than `most`, by so many.")
def a_trace_told_in_steps_is_begun_by_every_number_of_them_but_all() -> Finding:
    words = ALL_HARD
    traces = [["0 1", " 2", " 0 0"], ["0 1", " 2 2", " 1"], ["2"]]
    asking = Assignment(Scenario(id="q", prompt="?", metadata={"traces": traces}))
    found = {one.prefix: way for way, one in PrefixTree().nodes(asking, words, Key.of(0)).items()}
    whole = found == {(): "0", (0, 1): "0/1", (0, 1, 2): "0/1/2", (0, 1, 2, 2): "0/1/2/3"}
    drawn = [PrefixTree(most=2).nodes(asking, words, Key.of(n)) for n in range(60)]
    few = {tuple(one.prefix for one in tree.values()) for tree in drawn}
    due = set(itertools.combinations(((0, 1), (0, 1, 2), (0, 1, 2, 2)), 2))
    return Finding(whole and few == {((), *pair) for pair in due}, say(ways=str(found), drawn=len(few)))


def another(question: int) -> Answer:
    """A second right answer, which goes on differently from the fourth token on."""
    own = solution(question)
    return (*own[:3], *((token + 1) % TOKENS for token in own[3:]))


@claim("The tenth branch of a node is not below its first; ranks fit that are 1 apart from the least to the greatest.")
def the_tenth_branch_of_a_node_is_not_below_its_first_ranks_fit() -> Finding:
    stands = [below("0/1", "0/1"), below("0/1", "0/1/2"), below("0/1", "0/10"), below("0/1", "0")]
    fits = TreeOrdered(margin=0.5).of(np.array([0.0, 0.5, 1.0]), ("0",) * 3)
    return Finding(stands == [True, True, False, False] and bool(np.isfinite(fits).all()), say(below=str(stands)))


@claim("As shipped: 7 nodes beside the prompt, 4 samples each, alpha 1; ordered, a margin of 0.05 and 300 sweeps.")
def as_shipped_7_nodes_beside_the_prompt_4_samples_each_alpha_1() -> Finding:
    rollout = TREE_OPO.rollout
    assert isinstance(rollout, PrefixTree)
    shipped = (rollout.most, rollout.samples) == (7, 4) and TREE_OPO.credit == PrefixValue(alpha=1.0)
    return Finding(shipped and TREE_OPO_ORDERED.credit == TreeOrdered(margin=0.05, sweeps=300), say(most=rollout.most))


@claim(
    "Of two right answers that begin alike a tree of both traces teaches both, one demonstration the one alone; and "
    "the tree has the bare prompt solved more often at equal steps.",
    "derived",
)
def of_two_right_answers_that_begin_alike_a_tree_of_both_traces() -> Finding:
    told: dict[str, Callable[[int], dict[str, Any]]] = {
        "tree": lambda question: {"traces": [solution(question), another(question)]},
        "one": lambda question: {"demonstration": solution(question)},
    }
    second, success, branched = dict[str, list[float]](), dict[str, list[float]](), dict[str, list[float]]()
    for name, metadata in told.items():
        world = World(
            *(3, TOKENS, LENGTH, lambda question, answer: float(answer in (solution(question), another(question)))),
            metadata=metadata,
        )
        made = runs(world, TREE_OPO, steps=60, every=60, seeds=range(3), lr=0.1)["tree-opo"]
        second[name] = [one.expected(lambda question, answer: float(answer == another(question))) for one in made]
        success[name] = [one.success() for one in made]
        branched[name] = [one.history[-1]["rollout/branches"] or 0.0 for one in made]
    both = min(second["tree"]) > 0.15 and max(second["one"]) < 0.01 and fmean(success["tree"]) > fmean(success["one"])
    shape = set(branched["tree"]) == {2.0} and set(branched["one"]) == {1.0}
    return Finding(both and shape, lines(second=second, success=success))


@claim(
    "As shipped, `hocket traces --task worked_sums --until '=|>' --n 16` with the shipped model as its teacher, then "
    "`hocket train --recipe tree-opo --task traces.jsonl`: trees with several branches are completed, their values and "
    "they themselves are in effect.",
    slow=True,
)
def as_shipped_hocket_traces_task_worked_sums_until_n_16_with_the() -> Finding:
    with tempfile.TemporaryDirectory() as folder:
        written, rows = searched(folder, until="=|>", n=16)
        right = [verify("".join(trace), row["answer"]) for row in rows for trace in row["traces"]]
        parts = {"credit": GRPO.credit}, {"credit": GRPO.credit, "rollout": GRPO.rollout}
        found = [Shipment(TREE_OPO, without=one, task=written.task, sees=shapes)() for one in parts]
    holds = all(one.holds for one in found) and min(right) == 1.0
    return Finding(
        holds, f"{say(rows=len(rows), traces=len(right), all_right=min(right))}; {found[0].saw}; {found[1].saw}"
    )


def shapes(run: ShippedRun) -> dict[str, float]:
    """What trees had, each figure above 0: nodes, and branches beyond the one of a single trace."""
    return {"prefixes": run.mean("rollout/prefixes"), "branches_beyond_one": run.mean("rollout/branches") - 1}


claim.shipped(
    TREE_OPO,
    "credit",
    sees=lambda run: {
        "prefixes": run.mean("rollout/prefixes"),
        "branches beyond one": run.mean("rollout/branches") - 1,
    },
)
claim.shipped(TREE_OPO, without={"credit": GRPO.credit, "rollout": GRPO.rollout})

claim.spares("1.0 -> 40.0", "halving comes to the same share from any that is too large")
claim.spares("1e-12 -> 4e-11", "only makes up for rounding")
