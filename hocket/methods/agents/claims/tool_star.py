"""Tool-Star's claims."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from statistics import fmean
from typing import NamedTuple

import numpy as np

from hocket.agents.tools.protocol import Tool
from hocket.agents.workflows.tool_use import ToolUse
from hocket.core.keys import Key
from hocket.lab.claims.harness import EXACT, SEEDS, Claims, Finding, batches, below, gap, inspect_rows, say
from hocket.lab.claims.shipped_check import ShippedRun
from hocket.lab.talk import Prior, TalkBench
from hocket.lab.toys.recorded_answers import line
from hocket.lab.toys.talks import Tells, as_prior, earned
from hocket.methods.agents.tool_star import TOOL_STAR, TOOL_STAR_RL, TOOL_STAR_SFT, DirectTrial, Trace
from hocket.methods.base.dpo import ONLINE_DPO
from hocket.methods.base.grpo import GRPO
from hocket.recipe import Recipe
from hocket.rewards.tool_answer import ToolAnswer
from hocket.types import Message, Scenario, Score, Trajectory, Turn

claim = Claims("tool-star", "re_search.py of the authors' code")
CALLS = {kind: f'<tool_call>{{"name": "{kind}", "arguments": {{}}}}</tool_call>' for kind in ("search", "python")}


@claim("Rewards are -1, 0, s or s + 0.1, the last only for s > 0 and both kinds of tools.")
def rewards_are_1_0_s_or_s_0_1_the_last_only_for_s_0_and_both_kinds() -> Finding:
    reward, answers = TOOL_STAR_RL.rewards[0], {"red fox": 1.0, "red": 2 / 3, "red blue green": 0.4, "owl": 0.0}
    assert isinstance(reward, ToolAnswer)
    orders = [calls for length in range(4) for calls in itertools.product((*CALLS, "other"), repeat=length)]
    wrong, values = [], []
    for calls, (answer, s), broken in itertools.product(orders, answers.items(), (False, True)):
        said = [CALLS.get(kind, '<tool_call>{"name": "other"}</tool_call>') for kind in calls]
        last = f"<answer>{answer}" if broken else f"<think>hm</think><answer>{answer}</answer>"
        value = reward.weight * (earned(reward, [*said, last], answer="red fox") or 0.0)
        wanted = -1.0 if broken else s + 0.1 * (s > 0 and {"search", "python"} <= set(calls))
        wrong += [(calls, answer, value)] if abs(value - wanted) > EXACT else []
        values.append(round(value, 6))
    ends = ("<answer>7</answer>", "<answer>8</answer>", "7")
    exact = sorted({earned(reward, [*list(CALLS.values())[:n], end]) or 0.0 for n in (0, 2) for end in ends})
    saw = f"{say(attempts=len(values), values=str(sorted(set(values))), s=str(sorted(answers.values())))}, "
    saw += say(not_as_they_should_be=len(wrong), where_only_equal_answers_count=str(exact))
    return Finding(not wrong and exact == [-1.0, 0.0, 1.0, 1.1] and TOOL_STAR.rewards == TOOL_STAR_RL.rewards, saw)


@claim("After every 30 steps of GRPO come 10 of DPO.")
def after_every_30_steps_of_grpo_come_10_of_dpo() -> Finding:
    gaps = []
    for batch in batches(2, gap=1.0, graded=True):
        rows = batch["trajectories"]
        grpo, dpo = (inspect_rows(recipe, rows)["gradient"] for recipe in (GRPO, ONLINE_DPO))
        for step in (1, 10, 11, 20, 21, 30, 31, 40, 41):
            gaps.append(gap(inspect_rows(TOOL_STAR, rows, step=step)["gradient"], dpo if 30 < step <= 40 else grpo))
    return below(EXACT, steps_1_to_41_off_GRPO_or_DPO=max(gaps))


claim.spares("-1 -> 1", "traces are imitated in any order")
claim.spares("asking.first + self.samples -> asking.first - self.samples", "any numbers that differ name the episodes")
claim.spares("tool-star-sft: rewards.0.malformed = -40.0", "what is in bad form is left out, whatever it is paid")
claim.spares("tool-star-sft: rewards.0.malformed = 0.0", "what is in bad form is left out, whatever it is paid")
claim.spares("tool-star-sft: rewards.0.weight = 40.0", "right is what earns a right answer's before weights")
claim.spares("tool-star-sft: rewards.0.weight = 0.0", "right is what earns a right answer's before weights")
claim.spares("tool-star: objective.members.3.top = 40.0", "best and worst answers are pairs without advantages")
claim.spares("tool-star: objective.members.3.lone = True", "best and worst answers are pairs without advantages")
claim.spares("tool-star: objective.members.3.measure.alpha = 20.0", "read by the alpha divergence alone")
claim.spares("tool-star: objective.members.3.measure.alpha = 0.0", "read by the alpha divergence alone")
claim.spares("tool-star: objective.members.0.horizon = 5120", "no length divides this aggregate")
claim.spares("tool-star: objective.members.1.horizon = 5120", "no length divides this aggregate")
claim.spares("tool-star: objective.members.2.horizon = 5120", "no length divides this aggregate")


# ---------------------------------------------------------------- a world of easy and hard questions

WORDS = (*(f"<answer>{digit}</answer>" for digit in range(4)), "well", *CALLS.values())
EASY = [Scenario(f"easy {n}", f"what is {n}", str(n)) for n in range(2)]
HARD = [
    Scenario(f"order {price}.{n}", "what does the order cost", str((price + (n == 3)) % 4), metadata={"price": price})
    for price, n in itertools.product((1, 3), range(4))
]
"""Who knows the price alone guesses the cost in three orders of four."""


def tools(scenario: Scenario, key: Key) -> Sequence[Tool]:
    """One tells the price, the other the cost once the price is known."""
    asked: list[str] = []

    def search() -> str:
        asked.append(f"price {scenario.metadata.get('price')}")
        return asked[-1]

    cost = f"cost {scenario.answer}"
    return Tells("search", search), Tells("python", lambda: cost if asked else "error: the price is not known")


def view(messages: tuple[Message, ...]) -> tuple[str, ...]:
    """The question, and what tools said."""
    return (str(messages[0]["content"]), *(str(one["content"]) for one in messages if one["role"] == "tool"))


def start(search: float = 0.1, python: float = 0.1, needless: float = 0.35) -> Prior:
    """Who calls so often where it helps, and `needless` often each tool on easy questions, whose answer it knows."""

    def chances(messages: tuple[Message, ...], said: tuple[str, ...]) -> Mapping[str, float]:
        asked, *told = view(messages)
        easy = asked != HARD[0].prompt
        known = told[-1].split()[-1] if told and told[-1].startswith(("price", "cost")) else None
        known = asked.split()[-1] if easy else known
        often = (needless, needless) if easy else (search, python)
        chance = dict.fromkeys(WORDS, 0.04) | dict(zip(CALLS.values(), often, strict=True))
        chance |= {} if known is None else {f"<answer>{known}</answer>": 0.8}
        return {word: math.log(part) for word, part in chance.items()}

    return chances


COLD = TOOL_STAR_SFT.but({"rollout.hints": tuple(CALLS.values())})
PLAIN = {"rewards.0.bonus": 0.0}
ALL = {"rollout": GRPO.rollout}
"""Easy questions are asked, too."""

TURNS = {"credit.every": 5, "objective.every": 5}


def bench(recipe: Recipe, seed: int, prior: Prior, asked: Sequence[Scenario] = (*EASY, *HARD)) -> TalkBench:
    """One policy that may call, four replies at most."""
    flow = ToolUse(tools, turns=4, listed=False)
    return TalkBench(flow, asked, WORDS, recipe, view=view, prior=prior, seed=seed, lr=0.1)


class Habits(NamedTuple):
    """Exactly: right orders reached with both tools, right orders; calls and right answers of easy questions."""

    both: float
    orders: float
    calls: float
    easy: float


def habits(made: TalkBench) -> Habits:
    """Of a policy."""
    shares = [0.0] * 4
    for scenario in made.scenarios:
        easy = scenario in EASY
        for chance, played in made.outcomes(scenario):
            right = played.text == f"<answer>{scenario.answer}</answer>"
            both = len({call["name"] for call in played.info["calls"]}) == 2
            for place, value in enumerate((played.info["tool_calls"], right) if easy else (right and both, right)):
                shares[2 * easy + place] += chance * value / len(EASY if easy else HARD)
    return Habits(*shares)


@cache
def begun(seed: int) -> TalkBench:
    """After 20 steps of the cold start."""
    return bench(COLD, seed, start()).run(20)


@cache
def trained(kind: str, steps: int = 20) -> list[Habits]:
    """The habits of five seeds after so many steps more: with the bonus, without it, or by turns with DPO."""
    recipe = {"bonus": TOOL_STAR_RL, "none": TOOL_STAR_RL.but(PLAIN), "by turns": TOOL_STAR.but(TURNS)}[kind]
    return [habits(bench(recipe, seed, as_prior(begun(seed).policies["policy"])).run(steps)) for seed in SEEDS]


# ---------------------------------------------------------------- the data


@claim("A trace is sound with at most 3 calls, no call twice, calls that can be read and an answer in closed tags.")
def a_trace_is_sound_with_at_most_3_calls_no_call_twice_calls_that() -> Finding:
    calls = [f'<tool_call>{{"name": "{name}", "arguments": {{"q": "{q}"}}}}</tool_call>' for name in "ab" for q in "12"]
    ends = {"<answer>7</answer>": True, "<answer>7": False, "7": False, "<tool_call>a</tool_call>": False}
    wrong, seen = 0, 0
    for length, (end, good) in itertools.product(range(5), ends.items()):
        for made in itertools.product(calls, repeat=length):
            wanted = good and length <= 3 and len(set(made)) == length
            spread = Trace(spoken(*made, end)).sound(3), Trace(spoken("".join(made) + end)).sound(3)
            wrong += sum(one is not wanted for one in spread)
            seen += 2
    return Finding(wrong == 0 and COLD.rollout.most == 3, say(traces=seen, not_as_they_should_be=wrong))  # type: ignore[attr-defined]


def spoken(*replies: str) -> Trajectory:
    """An episode of these replies."""
    zeros = np.zeros(1, np.int64)
    turns = [Turn(agent="policy", policy="policy", observation=zeros, action=zeros, text=text) for text in replies]
    return Trajectory(EASY[0], turns)


@claim("A question is solved directly where half of the replies without a call are right, or more, and there are any.")
def a_question_is_solved_directly_where_half_of_the_replies_without() -> Finding:
    trial, wrong, counts = DirectTrial(), [], list(itertools.product(range(4), repeat=3))
    for right, false, calling in counts:
        made = [spoken("<answer>0</answer>")] * right + [spoken("well")] * false + [spoken(CALLS["python"])] * calling
        answers = [
            Trace(replace(one, scores={"correct": Score(float(place < right))})) for place, one in enumerate(made)
        ]
        wrong += [(right, false)] if trial.solved(answers) is not (right > 0 and right >= false) else []
    return Finding(not wrong and trial.tries == 8, say(cases=len(counts), not_as_they_should_be=len(wrong)))


@claim(
    "Imitated is every different sound right trace of the policy before training: without calls where the question is "
    "solved directly, else with calls."
)
def imitated_is_every_different_sound_right_trace_of_the_policy() -> Finding:
    wrong, kept, kinds = 0, 0, Counter[str]()
    for seed in range(4):
        made = bench(COLD, seed, start())
        for _ in range(3):
            experience = made.step().experience
            assert experience is not None
            now, rights = Counter[str](), list[bool]()
            for scenario in made.scenarios:
                tried = [one for one in experience.discarded if one.scenario.id == scenario.id]
                found = [one for one in experience.trajectories if one.scenario == scenario]
                kind, wanted = expected(tried)
                now[kind] += 1
                kept += len(found)
                said = [tuple(turn.text for turn in one.turns) for one in found]
                wrong += set(said) != wanted or len(said) != len(wanted)
                wrong += any(one.source != "expert" for one in found)
                wrong += any(turn.policy == "policy" for one in tried for turn in one.turns)
                for one in found:
                    results = [call["result"] for call in one.info["calls"]]
                    told = [text for both in zip([turn.text for turn in one.turns], results) for text in both]  # noqa: B905
                    wrong += [message["content"] for message in one.turns[-1].prompt[1:]] != told
                wrong += len({one.sample for one in tried[8:]}) < len(tried[8:])
                for one, due in put_back(tried):
                    wrong += [turn.text for turn in one.turns][: len(due)] != due
                own = tried[:8] if kind == "direct" else tried[8:]
                good = [one for one in own if right(one) and (len(one.turns) == 1) is (kind == "direct")]
                rights += [tuple(turn.text for turn in one.turns) in wanted for one in good]
            kinds += now
            shares = {f"rollout/{name}": now[name] / len(made.scenarios) for name in ("direct", "tools", "unsolved")}
            shares["rollout/unsound"] = 1 - fmean(rights)
            wrong += any(abs(experience.metrics[name] - share) > EXACT for name, share in shares.items())
    return Finding(wrong == 0 and len(kinds) == 3, say(kept=kept, questions=str(dict(kinds)), wrong=wrong))


def right(one: Trajectory) -> bool:
    """Whether it ends with the answer."""
    return one.turns[-1].text == f"<answer>{one.scenario.answer}</answer>"


def put_back(tried: Sequence[Trajectory]) -> list[tuple[Trajectory, list[str]]]:
    """The hinted episodes, and what each begins with: a plain one but for its answer, and a call instead."""
    plain = zip([[turn.text for turn in one.turns] for one in tried[8:12]], CALLS.values(), strict=False)
    begins = [[*said[:-1], call] for said, call in plain if said[-1].startswith("<answer>")]
    return list(zip(tried[12:], begins, strict=True))


def easy(tried: Sequence[Trajectory]) -> bool:
    """Whether these 8 replies solve a question."""
    direct = [right(one) for one in tried if one.turns[-1].text not in CALLS.values()]
    return any(direct) and sum(direct) >= len(direct) / 2


def expected(tried: Sequence[Trajectory]) -> tuple[str, set[tuple[str, ...]]]:
    """What solves a question, and which traces are to be imitated, of 8 direct, 4 plain and the hinted episodes."""
    if easy(tried[:8]):
        return "direct", {(f"<answer>{tried[0].scenario.answer}</answer>",)}
    found = set[tuple[str, ...]]()
    for one in filter(right, tried[8:]):
        replies = tuple(turn.text for turn in one.turns)
        if 1 < len(replies) == len(set(replies)) < 5:
            found.add(replies)
    return ("tools" if found else "unsolved"), found


@claim("A hint brings about traces with a call that the policy hardly ever makes.")
def a_hint_brings_about_traces_with_a_call_that_the_policy_hardly() -> Finding:
    shares = {}
    for name, hints in (("hints", COLD.rollout.hints), ("none", ())):  # type: ignore[attr-defined]
        made = bench(COLD.but({"rollout.hints": hints}), 0, start(search=0.5, python=1e-6), HARD)
        kept = [one for _ in range(6) for one in made.step().trajectories]
        shares[name] = fmean(CALLS["python"] in [turn.text for turn in one.turns] for one in kept)
    return Finding(shares["hints"] > 0.05 and shares["none"] == 0, f"with Python, of what is imitated: {say(**shares)}")


@claim("Reinforcement learning asks what the policy before it does not solve directly, and nothing else.")
def reinforcement_learning_asks_what_the_policy_before_it_does_not() -> Finding:
    made, wrong, shares = bench(TOOL_STAR_RL, 0, start()), 0, list[float]()
    for _ in range(12):
        experience = made.step().experience
        assert experience is not None
        tried = {one.id: [other for other in experience.discarded if other.scenario == one] for one in made.scenarios}
        hard = {name: 8 for name, replies in tried.items() if not easy(replies)}
        wrong += dict(Counter(one.scenario.id for one in experience.trajectories)) != hard
        wrong += any(turn.policy == "policy" for one in experience.discarded for turn in one.turns)
        wrong += abs(experience.metrics["rollout/direct"] - 1 + len(hard) / len(tried)) > EXACT
        shares.append(1 - len(hard) / len(tried))
    return Finding(wrong == 0 and 0.2 < fmean(shares) < 0.8, say(wrong=wrong, directly=fmean(shares)))


# ---------------------------------------------------------------- what comes of it


@claim(
    "After the cold start the bonus raises two-tool answers where both tools are needed, and no calls where none is, "
    "though such were tried before it.",
    "arXiv:2505.16410",
    slow=True,
)
def after_the_cold_start_the_bonus_raises_two_tool_answers_where() -> Finding:
    before, cold = habits(bench(COLD, 0, start())), [habits(begun(seed)) for seed in SEEDS]
    paid, plain = trained("bonus"), trained("none")
    gains = [one.both - other.both for one, other in zip(paid, plain, strict=True)]
    told = {"before": before.both, "cold_start": line([one.both for one in cold])}
    told |= {"bonus": line([one.both for one in paid]), "none": line([one.both for one in plain])}
    calls = {"before": before.calls, "cold_start": line([one.calls for one in cold])}
    calls |= {"bonus": line([one.calls for one in paid]), "none": line([one.calls for one in plain])}
    held = all(one.calls < old.calls + EXACT < before.calls / 3 for one, old in zip(paid, cold, strict=True))
    saw = (
        f"20 and 20 steps, 5 seeds: orders right with both tools {say(**told)}; calls per easy question {say(**calls)}"
    )
    return Finding(min(gains) > 0.02 and fmean(gains) > 0.1 and held, saw)


@claim(
    "Where easy questions are asked and calls tried, the bonus keeps or raises calls, which fall without it.",
    "derived",
    slow=True,
)
def where_easy_questions_are_asked_and_calls_tried_the_bonus_keeps() -> Finding:
    runs = {
        name: [habits(bench(TOOL_STAR_RL.but({**ALL, **how}), seed, start(), EASY).run(90)).calls for seed in SEEDS]
        for name, how in (("with_the_bonus", {}), ("without", PLAIN))
    }
    paid, plain = runs.values()
    holds = min(a - b for a, b in zip(paid, plain, strict=True)) > 0 and fmean(paid) > max(0.5, 4 * max(plain))
    before = habits(bench(COLD, 0, start())).calls
    saw = say(calls_before=before, **{name: line(calls) for name, calls in runs.items()})
    return Finding(holds, f"90 steps on easy questions alone, no cold start, 5 seeds: {saw}")


@claim(
    "RL and DPO by turns do not fall below RL alone of as many steps of RL, and come within .01 of RL alone of as many "
    "steps in all.",
    "arXiv:2505.16410",
    slow=True,
)
def rl_and_dpo_by_turns_do_not_fall_below_rl_alone_of_as_many_steps() -> Finding:
    def worth(one: Habits) -> float:
        return (len(HARD) * (one.orders + 0.1 * one.both) + len(EASY) * one.easy) / (len(HARD) + len(EASY))

    mixed, as_much, alone = (list(map(worth, trained(*how))) for how in (("by turns",), ("bonus", 15), ("bonus",)))
    before = [worth(habits(begun(seed))) for seed in SEEDS]
    told = {"after_the_cold_start": line(before), "15_of_RL_and_5_of_DPO": line(mixed)}
    saw = say(**told, **{"15_of_RL": line(as_much), "20_of_RL": line(alone)})
    holds = all(one > other - 1e-3 for one, other in zip(mixed, as_much, strict=True))
    holds = holds and fmean(mixed) > fmean(alone) - 0.01 and fmean(mixed) > fmean(before) + 0.02
    return Finding(holds, f"score and bonus per question, 5 seeds: {saw}")


# ---------------------------------------------------------------- as shipped

LESSONS = {"recipe": "sft", "steps": 60, "task": "lessons:reckoning"}
"""How tools are called."""

SIZE = {"curriculum.prompts": 6}


def sorted_out(run: ShippedRun) -> dict[str, float]:
    """Shares of the questions, and of what is imitated."""
    return {name: run.mean(f"rollout/{name}") for name in ("direct", "tools", "hinted")}


def paid(run: ShippedRun) -> dict[str, float]:
    """How often the bonus was."""
    earned_ = [one.scores["correct"].value for row in run.results for one in row.trajectories]
    return {"paid": fmean(isinstance(value, float) and value > 1 for value in earned_)}


PHASES = {"credit.every": 1, "objective.every": 1}
GRPO_ALONE = {"credit": GRPO.credit, "objective": GRPO.objective}

claim.shipped(
    TOOL_STAR_SFT, "rollout", first=LESSONS, settings=SIZE, without={"rollout": GRPO.rollout}, sees=sorted_out
)
claim.shipped(
    TOOL_STAR_RL,
    first=LESSONS,
    settings=SIZE,
    without=PLAIN,
    sees=paid,
    small="the bonus is 0.1 beside a reward of 1, and most groups that are paid it agree",
)
claim.shipped(TOOL_STAR, first=LESSONS, steps=4, settings={**SIZE, **PHASES}, without=GRPO_ALONE)
