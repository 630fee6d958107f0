"""The claims of Rank-R1."""

from __future__ import annotations

import asyncio
import itertools
import math
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any, cast

from hocket import tasks
from hocket.core.keys import Key
from hocket.lab.claims.harness import EXACT, Claims, Finding, below, inspect_rows, same_gradient, say
from hocket.lab.claims.lesson_data import Pupil, after_lessons
from hocket.methods.agents.rank_r1 import RANK_R1, Setwise, ThoughtfulPick, bubble_sorted, heap_sorted, ndcg
from hocket.methods.base.grpo import GRPO
from hocket.testing import rehearse
from hocket.train.aio import run_async
from hocket.types import Assignment, Scenario

claim = Claims("rank-r1", "arXiv:2503.06034 and the authors' code")

# ---------------------------------------------------------------- the reward


@claim("A response earns 1 where thought and answer have their tags and the label is the relevant one's, else 0.")
def a_response_earns_1_where_thought_and_answer_have_their_tags_and() -> Finding:
    asked, reward = Scenario("s", "Which?", "[3]"), RANK_R1.rewards[0]
    assert isinstance(reward, ThoughtfulPick)
    due = {
        "<think>so</think><answer>[3]</answer>": 1.0,
        "<think>so</think> \n<answer> [3]\n</answer>": 1.0,
        "Well. <think>so\nso</think>\n<answer>[3]</answer>": 1.0,
        "<think></think><answer>[3]</answer>": 1.0,
        "<think>so</think><answer>[2]</answer>": 0.0,
        "<think>so</think><answer>3</answer>": 0.0,
        "<think>so</think><answer>[3] is best</answer>": 0.0,
        "<answer>[3]</answer>": 0.0,
        "<think>so<answer>[3]</answer>": 0.0,
        "<think>so</think> hence <answer>[3]</answer>": 0.0,
        "<answer>[3]</answer><think>so</think>": 0.0,
        "<think>so</think>[3]": 0.0,
        "": 0.0,
    }
    wrong = [text for text, value in due.items() if reward.judge(text, asked) != value]
    direct = ThoughtfulPick(thought=False)
    plain = [direct.judge(text, asked) for text in ("<answer> [3]</answer>", "<answer>[1]</answer>", "[3]")]
    silent = reward.judge("<think>so</think><answer>[3]</answer>", Scenario("s", "Which?"))
    return Finding(not wrong and plain == [1.0, 0.0, 0.0] and silent is None, f"wrong: {wrong}")


@claim("The loss is GRPO's: equal gradients on 20 random batches.")
def the_loss_is_grpos_equal_gradients_on_20_random_batches() -> Finding:
    return same_gradient(RANK_R1, GRPO)


@claim("A group's advantages are (R - mean)/std of the picks, 0 where all are right or all are wrong.")
def a_groups_advantages_are_std_of_the_picks_0_where_all_are_right() -> Finding:
    worst = 0.0
    for right in range(5):
        rows = [{"group": "q", "scores": {"pick": float(n < right)}, "logp": [-1.0, -0.5]} for n in range(4)]
        found = [row[0] for row in inspect_rows(RANK_R1, rows)["advantages"]]
        mean = right / 4
        spread = math.sqrt(right * (1 - mean) ** 2 + (4 - right) * mean**2) / math.sqrt(3)
        due = [(float(n < right) - mean) / (spread + 1e-6) if spread else 0.0 for n in range(4)]
        worst = max(worst, *(abs(one - other) for one, other in zip(found, due, strict=True)))
    return below(1e-9, largest_difference=worst)


# ---------------------------------------------------------------- sorts

Sorted = Callable[[Callable[[Sequence[int]], Awaitable[int]], int, int, int], Coroutine[Any, Any, list[int]]]


def sorted_by(sort: Sorted, worth: Sequence[float], top: int, children: int) -> tuple[list[int], list[int]]:
    """The order that a chooser who knows what documents are worth comes to, and how many it chose among each time."""
    asked: list[int] = []

    async def choose(places: Sequence[int]) -> int:
        asked.append(len(places))
        return max(range(len(places)), key=lambda one: worth[places[one]])

    return asyncio.run(sort(choose, len(worth), top, children)), asked


def heap_calls(worth: Sequence[float], top: int, children: int) -> int:
    """Choices that a heap of numbers takes, counted on the tree itself: a node knows its children, no array."""
    count, calls = len(worth), 0
    held = dict(enumerate(worth))

    def family(node: int, size: int) -> list[int]:
        return [one for one in range(node * children + 1, node * children + children + 1) if one < size]

    def settle(node: int, size: int) -> None:
        nonlocal calls
        below_ = family(node, size)
        if not below_:
            return
        calls += 1
        largest = max(below_, key=lambda one: held[one])
        if held[largest] > held[node]:
            held[node], held[largest] = held[largest], held[node]
            settle(largest, size)

    for node in reversed(range(count)):
        settle(node, count)
    for taken in range(1, min(top, count)):
        held[0] = held[count - taken]
        settle(0, count - taken)
    return calls


@claim("With a perfect chooser the heap returns the true top k in order, and takes as many choices as a heap does.")
def with_a_perfect_chooser_the_heap_returns_the_true_top_k_in_order() -> Finding:
    wrong, most, trials = 0, 0.0, 0
    for count, children, top in itertools.product((2, 3, 7, 20, 41), (1, 2, 3, 19), (1, 3, 10)):
        worth = Key.of(0).derive("heap", count, children, top).numpy().permutation(count).tolist()
        order, asked = sorted_by(heap_sorted, worth, top, children)
        due = sorted(range(count), key=lambda place: -worth[place])[:top]
        wrong += order[:top] != due or sorted(order) != list(range(count))
        wrong += len(asked) != heap_calls(worth, top, children) or max(asked) > children + 1
        if children > 1:
            depth = math.ceil(math.log(count * (children - 1) + 1, children))
            most = max(most, len(asked) / (count + (min(top, count) - 1) * depth))
        trials += 1
    one = sorted_by(heap_sorted, list(range(20)), 1, 19)
    holds = not wrong and most <= 1 and one[1] == [20] and one[0][0] == 19
    return Finding(holds, say(wrong=wrong, lists=trials, of_the_bound=most))


@claim("With a perfect chooser bubbles return it in sum_i ceil((n - 1 - i)/c) choices.")
def with_a_perfect_chooser_bubbles_return_it_in_sum_i_ceil_c() -> Finding:
    wrong = 0
    for count, children, top in itertools.product((2, 3, 7, 20, 41), (1, 2, 3, 19), (1, 3, 10)):
        worth = Key.of(1).derive("bubble", count, children, top).numpy().permutation(count).tolist()
        order, asked = sorted_by(bubble_sorted, worth, top, children)
        due = sorted(range(count), key=lambda place: -worth[place])[:top]
        calls = sum(math.ceil((count - 1 - first) / children) for first in range(min(top, count - 1)))
        wrong += order[:top] != due or sorted(order) != list(range(count)) or len(asked) != calls
    return Finding(not wrong, say(wrong=wrong, lists=60))


@claim("nDCG@10 is the gain 2^r - 1 discounted by log2 of the rank plus one, over that of the best order.")
def ndcg_10_is_the_gain_2_r_1_discounted_by_log2_of_the_rank_plus() -> Finding:
    worst = 0.0
    for number in range(20):
        rng = Key.of(number).derive("ndcg").numpy()
        relevance, order = rng.integers(0, 3, 13).tolist(), rng.permutation(13).tolist()
        found = ndcg(order, relevance)
        gained, ideal = 0.0, 0.0
        for rank in range(1, 11):
            gained += (2.0 ** relevance[order[rank - 1]] - 1) / math.log(rank + 1, 2)
            ideal += (2.0 ** sorted(relevance)[-rank] - 1) / math.log(rank + 1, 2)
        worst = max(worst, abs(found - gained / ideal))
    some = [ndcg([0, 1, 2], [0, 0, 1]), ndcg([2, 1, 0], [0, 0, 1]), ndcg([0], [0]), ndcg(range(12), [0] * 11 + [1])]
    holds = worst < EXACT and some == [0.5, 1.0, 0.0, 0.0]
    return Finding(holds, say(largest_difference=worst))


@claim("In the workflow every choice is a prompt of its own with the labels of that set; no label picks the first.")
def in_the_workflow_every_choice_is_a_prompt_of_its_own_with_the() -> Finding:
    scenario = tasks.find("rerank?documents=3&window=2").scenario("train", 0)
    documents, query = scenario.metadata["documents"], scenario.metadata["query"]
    shown = []
    for said in ("<answer>[2]</answer>", "<think>?</think><answer>1</answer>", "<answer>[9]</answer>", "none"):
        (played,) = rehearse(Setwise(children=2, top=1), scenario, {"policy": [said]})
        (turn,) = played.turns
        shown.append((played.answer, str(turn.prompt[-1]["content"])))
    prompt = "".join(f"[{place}] {one}\n" for place, one in enumerate(documents, 1)) + f"Query: {query}"
    holds = [order for order, _ in shown] == ["2 > 1 > 3", "1 > 2 > 3", "1 > 2 > 3", "1 > 2 > 3"]
    return Finding(holds and {text for _, text in shown} == {prompt}, str([order for order, _ in shown]))


def value(document: str) -> int:
    return sum(map(int, document.split("+")))


# ---------------------------------------------------------------- what a thought is worth

DIRECT = RANK_R1.but({"rewards": (ThoughtfulPick(thought=False),)})
SETTINGS = {"curriculum.prompts": 8, "update.lr": 2.5e-4}


def ranked(pupil: Pupil, count: int = 16) -> float:
    """nDCG@10 of lists of ten documents, none of which was shown in training."""
    task = tasks.find("rerank?documents=10")
    player = replace(cast(Any, pupil.parts.player), workflow=Setwise())
    asked = [Assignment(task.scenario("eval", number), 1, pupil.parts.decoding) for number in range(count)]
    played = run_async(player.play(asked, key=Key.of(0).derive("ranked")))
    return fmean(task.describe(one)["ndcg"] for one in played)


def right(pupil: Pupil, count: int = 60) -> float:
    """How often the pick among four is right, of documents that were not shown in training."""
    task = pupil.parts.task
    asked = [Assignment(task.scenario("eval", number), 1, pupil.parts.decoding) for number in range(count)]
    played = run_async(pupil.parts.player.play(asked, key=Key.of(0).derive("right")))
    return fmean(task.success(one) for one in played)


@claim(
    "Trained with a thought the shipped model picks right more often, and comes to a higher nDCG@10 on unseen lists, "
    "than trained to answer at once, from lessons that are as often right.",
    slow=True,
)
def trained_with_a_thought_the_shipped_model_picks_right_more_often() -> Finding:
    told = {}
    for name, recipe, task in (("thought", RANK_R1, "rerank"), ("at once", DIRECT, "rerank?thought=0")):
        pupil = after_lessons(recipe, task, f"lessons:{task}", SETTINGS, steps=80)
        before = right(pupil)
        pupil.run(20)
        told[name] = (before, right(pupil), ranked(pupil))
    with_, without = told["thought"], told["at once"]
    holds = with_[1] > with_[0] + 0.1 and with_[1] > without[1] + 0.15 and with_[2] > without[2] + 0.1
    figures = {f"{name}: {what}": value for name, row in told.items() for what, value in zip(SEEN, row, strict=True)}
    return Finding(holds, ", ".join(f"{name} {value:.3f}" for name, value in figures.items()))


SEEN = ("right before", "right after 20 steps", "nDCG@10")


claim.shipped(
    RANK_R1,
    "rewards",
    first={"recipe": "sft", "steps": 60, "task": "lessons:rerank?thought=0.5"},
    settings={"curriculum.prompts": 8},
    sees=lambda run: {"right after a thought": run.mean("reward/mean"), "groups": run.mean("groups/with_signal")},
)

NO_CHILDREN = "nodes after the last parent have no children, so that nothing is chosen there"
claim.spares("count - 2 -> count + 2", NO_CHILDREN)
claim.spares("count - 2 -> count", NO_CHILDREN)
claim.spares("first + second -> first - second", "which of two sums that come to one number is shown is chance")
claim.spares("first + second -> first", "which of two sums that come to one number is shown is chance")
claim.spares("rng.random() >= SKILL -> rng.random() < SKILL", "it is one half, so that both are as likely")
