"""Rank-R1's task and lessons."""

from __future__ import annotations

import itertools
import math
from statistics import fmean

from hocket import tasks
from hocket.core.errors import ConfigurationError
from hocket.lab.claims.harness import EXACT
from hocket.methods.agents.claims.rank_r1 import SETTINGS, value
from hocket.methods.agents.rank_r1 import RANK_R1, Rerank, Setwise, ThoughtfulPick
from hocket.stages import Split
from hocket.tasks.split import split_of
from hocket.testing import rehearse


def answers(place: int, listed: bool) -> tuple[str, str]:
    """A right answer and a wrong one."""
    if listed:
        return f"{place + 1} > {place + 2} > {place}", f"{place + 2} > {place + 1}"
    return f"<answer>[{place + 1}]</answer>", f"<answer>[{place + 2}]</answer>"


def test_one_document_comes_to_what_is_asked_for() -> None:
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
    assert holds


def test_lessons_work_out_each_sum() -> None:
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
    assert not wrong
    assert min(starts) > 10
    assert max(off) < EXACT


def test_splits_settings_and_refusals() -> None:
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
    assert holds
