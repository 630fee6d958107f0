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
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.lab.claims.harness import EXACT, Claims, Finding, below, inspect_rows, same_gradient, say
from hocket.lab.claims.taught import Pupil, after_lessons
from hocket.methods.agents.rank_r1 import RANK_R1, Rerank, Setwise, ThoughtfulPick, bubble_sorted, heap_sorted, ndcg
from hocket.methods.base.grpo import GRPO
from hocket.stages import Split
from hocket.tasks.split import split_of
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


@claim(
    "In the task one document comes to what is asked for, splits share none, and lessons are hasty half of the time."
)
def in_the_task_one_document_comes_to_what_is_asked_for_splits() -> Finding:
    wrong, seen = 0, {"train": set[str](), "eval": set[str]()}
    for name in ("rerank", "rerank?documents=6"):
        task = tasks.find(name)
        wrong += task.name != f"rerank?documents={6 if '?' in name else 4}&window=4"
        wrong += getattr(task, "workflow", None) != (Setwise(3) if "?" in name else None)
        for split, number in itertools.product(seen, range(40)):
            scenario = task.scenario(split, number)  # type: ignore[arg-type]
            told = scenario.metadata
            right = [str(value(one)) == told["query"] for one in told["documents"]]
            place = right.index(True)
            wrong += sum(right) != 1 or scenario.answer != (str(place + 1) if "?" in name else f"[{place + 1}]")
            verify = [task.verify(text, scenario) for text in answers(place, "?" in name)]  # type: ignore[attr-defined]
            wrong += verify != [1.0, 0.0] or len({value(one) for one in told["documents"]}) != len(right)
            seen[split] |= set(told["documents"])
    lessons, asked = tasks.find("lessons:rerank?thought=0.8"), tasks.find("rerank")
    said = [lessons.scenario("train", n).metadata["demonstration"][0]["content"] for n in range(300)]
    due = [asked.scenario("train", 2 * n).answer for n in range(300)]
    hit = fmean(one.endswith(f"<answer>{answer}</answer>") for one, answer in zip(said, due, strict=True))
    thinks = fmean(one.startswith("<think>") for one in said)
    holds = not wrong and not seen["train"] & seen["eval"] and abs(hit - 0.625) < 0.08 and abs(thinks - 0.8) < 0.08
    return Finding(holds, say(wrong=wrong, right=hit, with_a_thought=thinks))


@claim("Lessons work out each sum up to the one that is named, or that one alone; lists are graded by their nDCG@10.")
def lessons_work_out_each_sum_up_to_the_one_that_is_named_or_that() -> Finding:
    lessons, asked, starts = tasks.find("lessons:rerank"), tasks.find("rerank"), [0, 0]
    wrong = 0
    for number in range(60):
        said = lessons.scenario("train", number).metadata["demonstration"][0]["content"]
        told = asked.scenario("train", 2 * number).metadata
        named = int(said.partition("<answer>[")[2].partition("]")[0])
        query, sums = int(told["query"]), list(enumerate(told["documents"], 1))[:named]
        steps = [f"[{place}] {one}={value(one)}-{query}={value(one) - query}" for place, one in sums]
        due = [f"<think>{' '.join(some)}</think><answer>[{named}]</answer>" for some in (steps, steps[-1:])]
        wrong += said not in due or (said != due[1] and named != told["relevant"] + 1)
        starts[0 if said == due[1] else 1] += 1
    lists, off = tasks.find("rerank?documents=3&window=2"), list[float]()
    for number in range(9):
        scenario = lists.scenario("train", number)
        (played,) = rehearse(Setwise(children=2, top=1), scenario, {"policy": [f"<answer>[{number % 3 + 1}]</answer>"]})
        rank = [int(one) for one in played.answer.split(" > ")].index(scenario.metadata["relevant"] + 1) + 1
        off.append(abs(lists.describe(played)["ndcg"] - 1 / math.log2(rank + 1)))
    return Finding(not wrong and min(starts) > 10 and max(off) < EXACT, say(wrong=wrong, ndcg_off=max(off)))


@claim(
    "Evaluation shows the sums that all tasks keep for it; a task says its settings, and refuses those out of range."
)
def evaluation_shows_the_sums_that_all_tasks_keep_for_it_a_task() -> Finding:
    wrong = 0
    splits: tuple[Split, ...] = ("train", "eval")
    for split, number in itertools.product(splits, range(20)):
        told = tasks.find("rerank").scenario(split, number).metadata["documents"]
        wrong += any((split_of(one) == "eval") != (split == "eval") for one in told)
    names = [Rerank(thought=share).name.partition("&thought=")[2] for share in (0.25, 1.0)]
    refused = []
    for documents, window in ((4, 1), (4, 21), (1, 4), (21, 4)):
        try:
            refused.append(Rerank(documents, window).name)
        except ConfigurationError as error:
            refused.append(str(error).partition(": ")[0])
    lessons = Rerank().lessons
    assert lessons is not None
    then = lessons.then(RANK_R1)
    suits = {name: then[name] for name in SETTINGS} == SETTINGS
    paid = RANK_R1.rewards == (ThoughtfulPick(weight=1.0),)
    holds = not wrong and names == ["0.25", ""] and refused == ["task rerank"] * 4 and suits and paid
    return Finding(
        holds, say(wrong=wrong, names=str(names), refused=str(refused), as_trained_here=suits, one_point=paid)
    )


def value(document: str) -> int:
    return sum(map(int, document.split("+")))


def answers(place: int, listed: bool) -> tuple[str, str]:
    """A right answer and a wrong one."""
    if listed:
        return f"{place + 1} > {place + 2} > {place}", f"{place + 2} > {place + 1}"
    return f"<answer>[{place + 1}]</answer>", f"<answer>[{place + 2}]</answer>"


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
