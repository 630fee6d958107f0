"""Search-R1's claims."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from functools import cache
from statistics import fmean
from typing import Any

import torch

from hocket.agents.tools.corpus import Document
from hocket.agents.tools.search import Index, Search
from hocket.agents.workflows.inline_search import SearchWithin, information
from hocket.core.keys import Key
from hocket.lab.claims.harness import EXACT, SEEDS, Claims, Finding, below, gap, inspect_rows, say
from hocket.lab.claims.lesson_data import Pupil, after_lessons
from hocket.lab.talk import TalkBench
from hocket.lab.toys.recorded_answers import line
from hocket.methods.agents.search_r1 import SEARCH_R1
from hocket.rewards.normalised_match import NormalisedMatch
from hocket.testing import Cut, rehearse
from hocket.types import Message, Scenario

claim = Claims("search-r1", "arXiv:2503.09516")


def retrieving(number: int) -> list[dict[str, Any]]:
    """Two groups of four responses of an older policy: own decisions, then ones that were found, then own ones."""
    rng, rows = Key.of(number).numpy(), []
    for sample in range(8):
        own, found, rest = (int(one) for one in rng.integers(1, 5, size=3))
        logp = (-rng.exponential(size=own + found + rest) - 0.01).tolist()
        row = {"group": f"{sample // 4}", "scores": {"reward": float(sample % 4 == 0 or rng.integers(0, 2))}}
        row |= {name: [one + 0.4 * float(rng.normal()) for one in logp] for name in ("logp_behaviour", "logp_ref")}
        rows.append({**row, "logp": logp, "trained": [True] * own + [False] * found + [True] * rest})
    return rows


def own(row: Mapping[str, Any], values: list[float]) -> list[float]:
    """Of a row's numbers those at decisions of the policy."""
    return [value for value, mine in zip(values, row["trained"], strict=True) if mine]


@claim("The gradient at retrieved decisions is exactly 0, and elsewhere what it is without them in the response.")
def the_gradient_at_retrieved_decisions_is_exactly_0_and_elsewhere() -> Finding:
    largest, off = 0.0, 0.0
    for rows in map(retrieving, range(8)):
        lists = ("logp", "logp_behaviour", "logp_ref", "trained")
        bare = [{**row, **{name: own(row, row[name]) for name in lists}} for row in rows]
        whole, alone = inspect_rows(SEARCH_R1, rows), inspect_rows(SEARCH_R1, bare)
        for row, found, wanted in zip(rows, whole["gradient"], alone["gradient"], strict=True):
            largest = max(largest, *(abs(one) for one, mine in zip(found, row["trained"], strict=True) if not mine))
            off = max(off, gap(own(row, found), wanted))
        off = max(off, abs(whole["loss"] - alone["loss"]))
    return Finding(largest == 0.0 and off < EXACT, say(largest_at_retrieved=largest, elsewhere_and_loss_off=off))


@claim("Other log-probs at retrieved decisions, old, new or the reference's, change neither loss nor gradient.")
def other_log_probs_at_retrieved_decisions_old_new_or_the() -> Finding:
    def lower(row: dict[str, Any], name: str, where: bool) -> dict[str, Any]:
        values = [one - 0.7 * (own is where) for one, own in zip(row[name], row["trained"], strict=True)]
        return {**row, name: values}

    changes: dict[bool, list[float]] = {False: [], True: []}
    for rows in map(retrieving, range(4)):
        before = inspect_rows(SEARCH_R1, rows)
        for name, where in itertools.product(("logp", "logp_behaviour", "logp_ref"), changes):
            after = inspect_rows(SEARCH_R1, [lower(row, name, where) for row in rows])
            changes[where] += [abs(after["loss"] - before["loss"]), gap(after["gradient"], before["gradient"])]
    off, moved = max(changes[False]), max(changes[True])
    return Finding(off == 0.0 and moved > 0.01, say(changed_by_retrieved=off, by_own=moved))


@claim("The loss is the mean over each response's own decisions of the clipped surrogate less 0.001 k3, then over all.")
def the_loss_is_the_mean_over_each_responses_own_decisions_of_the() -> Finding:
    off = 0.0
    for rows in map(retrieving, range(10)):
        rewards = torch.tensor([row["scores"]["reward"] for row in rows], dtype=torch.float64).view(2, 4)
        spread = rewards.std(1, keepdim=True)
        advantages = torch.where(spread > 0, (rewards - rewards.mean(1, keepdim=True)) / (spread + 1e-6), 0.0).flatten()
        parts = []
        for row, advantage in zip(rows, advantages, strict=True):
            logp, old, ref = (
                torch.tensor(own(row, row[name]), dtype=torch.float64)
                for name in ("logp", "logp_behaviour", "logp_ref")
            )
            ratio = (logp - old).exp()
            surrogate = torch.minimum(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage)
            parts.append((surrogate - 0.001 * ((ref - logp).exp() - 1 - (ref - logp))).mean())
        off = max(off, abs(inspect_rows(SEARCH_R1, rows)["loss"] + float(torch.stack(parts).mean())))
    return below(1e-10, loss_off_by_hand_on_10_batches=off)


TOLD = Index([Document("door", "red"), Document("lamp", "blue")])


@claim("A response stops at each search, what is found is imposed, and nothing but what was said is learnt from.")
def a_response_stops_at_each_search_what_is_found_is_imposed_and() -> Finding:
    flow, asked = SearchWithin((Search(TOLD, 1),), turns=3), Scenario("s", "Which?", "blue")
    parts = ["a <search>door</search>", "b<search>lamp</search>", "<answer>blue</answer>"]
    (played,) = rehearse(flow, asked, [Cut(parts[0]), Cut(parts[1]), parts[2]])
    whole = parts[0] + information("door: red") + parts[1] + information("lamp: blue") + parts[2]
    sizes = [len(turn) - int(turn.forced.sum()) for turn in played.turns if turn.forced is not None]
    open_flow = SearchWithin((Search(TOLD, 1),), turns=3, masked=False)
    (bare,) = rehearse(open_flow, asked, [Cut(parts[0]), Cut(parts[1]), parts[2]])
    learnt = sum(len(turn) - int(turn.forced.sum()) for turn in bare.turns if turn.forced is not None)
    longest = len(bare.turns[-1])
    (spent,) = rehearse(flow, asked, [Cut(parts[1])] * 3)
    (done,) = rehearse(flow, asked, [parts[2]])
    calls = [len(one.info["calls"]) for one in (played, spent, done)]
    holds = played.answer == whole and sum(sizes) < longest == learnt and calls == [2, 2, 0]
    holds &= all(not any(one.forced) for one in (played.turns[0], done.turns[0]) if one.forced is not None)
    return Finding(holds, say(response=whole, own_decisions=str(sizes), of=longest, unmasked=learnt, calls=str(calls)))


COLOURS = ("red", "blue", "green")
LOOK, FOUND = "<search>lamp</search>", tuple(information(f"lamp: {colour}") for colour in COLOURS)
SAID = tuple(f"<answer>{colour}</answer>" for colour in COLOURS)
WORDS = (LOOK, *FOUND, *SAID)


def index_of(scenario: Scenario, key: Key) -> tuple[Search]:
    """Every scenario has an index of its own, so nobody can know the colour without a search."""
    return (Search(Index([Document("lamp", str(scenario.answer))]), 1),)


def shy(messages: tuple[Message, ...], said: tuple[str, ...]) -> dict[str, float]:
    """Seldom searches, hardly says what a search may say, and makes little of what it finds."""
    if said and said[-1] in SAID:
        return {**dict.fromkeys(WORDS, -9.0), "": 0.0}
    return {**dict.fromkeys(FOUND, -4.0), LOOK: -4.0 if said else -1.0, "": -9.0}


def bench(seed: int, *, masked: bool = True) -> TalkBench:
    """The same question with another answer in every scenario."""
    flow = SearchWithin(index_of, turns=2, masked=masked)
    asked = [Scenario(colour, "lamp", colour) for colour in COLOURS]
    return TalkBench(flow, asked, WORDS, SEARCH_R1, length=4, ends=True, prior=shy, seed=seed, lr=0.1)


def habits(made: TalkBench) -> tuple[float, float, float]:
    """Exactly: how often it searches, how often it is right, and the chance of a passage where one is imposed."""
    (policy,) = made.policies.values()
    first, after = (policy.probabilities("lamp", said=said) for said in ((), (LOOK,)))
    found = [WORDS.index(one) for one in FOUND]
    answered = [policy.probabilities("lamp", said=(LOOK, one)) for one in FOUND]
    right = fmean(float(one[WORDS.index(said)]) for one, said in zip(answered, SAID, strict=True))
    return float(first[0]), float(first[0]) * right + fmean(first[4:].tolist()[:3]), float(after[found].sum())


STEPS = 60


@cache
def trained(masked: bool) -> list[tuple[float, float, float]]:
    """The habits of three seeds after training."""
    return [habits(bench(seed, masked=masked).run(STEPS)) for seed in list(SEEDS)[:3]]


@claim(
    "What only an index tells is learnt to be searched for; without a search one answer in three is right.", slow=True
)
def what_only_an_index_tells_is_learnt_to_be_searched_for_without_a() -> Finding:
    (searched, right, _), after = habits(bench(0)), trained(masked=True)
    saw = say(searches_before=searched, right_before=right)
    saw += f", after {STEPS} steps: searches {line([one[0] for one in after])}, right {line([one[1] for one in after])}"
    return Finding(searched < 0.15 and min(one[0] for one in after) > 0.95 and min(one[1] for one in after) > 0.9, saw)


@claim(
    "Masked, the chance of a passage where one stands is as before; without the mask the policy comes to imitate "
    "passages. Its answers are no worse for it here.",
    "arXiv:2503.09516; there learning is less stable without the mask",
    slow=True,
)
def masked_the_chance_of_a_passage_where_one_stands_is_as_before() -> Finding:
    (*_, start), masked, bare = habits(bench(0)), trained(masked=True), trained(masked=False)
    kept, learnt = ([one[2] for one in rows] for rows in (masked, bare))
    right = [line([one[1] for one in rows]) for rows in (masked, bare)]
    saw = say(before=start, masked=line(kept), without=line(learnt), right=right[0], right_without=right[1])
    same = all(abs(one[1] - other[1]) < 0.05 for one, other in zip(masked, bare, strict=True))
    return Finding(max(abs(one - start) for one in kept) < EXACT and min(learnt) > 0.5 and same, saw)


TASK, LESSONS = "lookup?tags=true", "lookup?calls=0.5&tags=true"


def pupil(**settings: Any) -> Pupil:
    """The shipped model after lessons in which half of the demonstrations search and the others guess."""
    return after_lessons(SEARCH_R1, TASK, LESSONS, {"curriculum.prompts": 8, **settings})


@claim(
    "After lessons the shipped model learns to search: exact match on unseen things doubles, while a policy that "
    "cannot search stays at chance.",
    slow=True,
)
def after_lessons_the_shipped_model_learns_to_search_exact_match_on() -> Finding:
    ours, shut = pupil(), pupil(workflow="single")
    before = ours.success()
    after, alone = ours.run(18).success(), shut.run(6).success()
    calls = [float(row.metrics["tools/calls"]) for row in (ours.results[0], ours.results[-1])]
    saw = say(exact_match_before=before, after_18_steps=after, cannot_search=alone, calls=line(calls))
    return Finding(after > 0.7 and after > before + 0.2 and alone < 0.06, saw)


@claim("As shipped searches stand within the response, and exact match is all that it earns.")
def as_shipped_searches_stand_within_the_response_and_exact_match() -> Finding:
    (reward,) = SEARCH_R1.rewards
    holds = isinstance(reward, NormalisedMatch) and reward.weight == 1.0 and SEARCH_R1.workflow == SearchWithin.name
    return Finding(holds, str(SEARCH_R1.workflow))


claim.shipped(
    SEARCH_R1,
    without={"workflow": "search-within?masked=false"},
    first={"recipe": "sft", "steps": 40, "update.lr": 0.003},
    settings={"curriculum.prompts": 4},
    sees=lambda run: {"calls": run.mean("tools/calls"), "groups": run.mean("groups/with_signal")},
)
