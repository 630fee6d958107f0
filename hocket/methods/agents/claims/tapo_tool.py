"""TAPO's claims."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache
from statistics import fmean
from typing import Any

from hocket.agents.tools.calculator import calculator
from hocket.agents.tools.protocol import Tool
from hocket.agents.workflows.tool_use import ToolUse
from hocket.core.keys import Key
from hocket.lab.claims.harness import SEEDS, Claims, Finding, gap, inspect_rows, say
from hocket.lab.claims.shipped_check import ShippedRun
from hocket.lab.talk import TalkBench
from hocket.lab.toys.episodes import episode
from hocket.lab.toys.recorded_answers import line, lines, shaped
from hocket.lab.toys.talks import Tells, earned
from hocket.methods.agents.tapo_tool import TAPO_TOOL, AccuracySampling
from hocket.methods.base.dapo import DAPO
from hocket.objectives.aggregate import HORIZON
from hocket.rewards.tool_answer import ToolAnswer
from hocket.rollout.dynamic import DynamicSampling, has_signal
from hocket.types import Message, Scenario

claim = Claims("tapo-tool", "repository Goer17/TAPO")
PLAIN = DAPO.but({"shaping": TAPO_TOOL.shaping})


def answers(key: Key, *, drift: float) -> list[dict[str, Any]]:
    """Three groups of four answers of one turn whose log-ratios to the sampler have deviation `drift`."""
    rng, rows = key.numpy(), []
    for group in range(12):
        reward = float(rng.integers(-1, 2))
        row = episode(f"g{group // 4}", reward, [{"tokens": [0] * int(rng.integers(1, 6))}])
        row["logp"] = rng.normal(-2.0, 0.5, len(row["tokens"])).tolist()
        row["logp_behaviour"] = (rng.normal(0.0, drift, len(row["tokens"])) + row["logp"]).tolist()
        rows.append(row)
    return rows


@claim("Without a call the loss is DAPO's; only the dual clip at 10 differs, far off policy.")
def without_a_call_the_loss_is_dapos_only_the_dual_clip_at_10() -> Finding:
    off, bounded, cut, checked = 0.0, 0.0, 0, 0
    for number in range(20):
        ours, theirs = (inspect_rows(recipe, answers(Key.of(number), drift=0.5)) for recipe in (TAPO_TOOL, PLAIN))
        off = max(off, *(gap(ours[field], theirs[field]) for field in ("loss", "gradient")))
        rows = answers(Key.of(number), drift=2.5)
        ours, theirs = inspect_rows(TAPO_TOOL, rows), inspect_rows(PLAIN, rows)
        fields = ours["gradient"], theirs["gradient"], ours["advantages"]
        for row, *numbers in zip(rows, *fields, strict=True):
            for now, old, a, b, worth in zip(row["logp"], row["logp_behaviour"], *numbers, strict=True):
                checked += 1
                beyond = worth < 0 and math.exp(now - old) > 10
                cut += beyond and a == 0 and abs(b) > 0.01
                bounded = max(bounded, abs(a) if beyond else abs(a - b))
    figures = say(batches=20, loss_and_gradient_differ_by=off, decisions_far_off_policy=checked, dual_clipped=cut)
    return Finding(off == 0 and bounded == 0 and cut > 3, f"{figures}, all of them without gradient")


@claim("Long attempts are charged: nothing up to half of the horizon, 1 at it, evenly in between.")
def long_attempts_are_charged_nothing_up_to_half_of_the_horizon_1() -> Finding:
    shares = (0.25, 0.5, 0.75, 1.0)
    rows = [{"group": "g", "logp": [-1.0] * int(share * HORIZON), "scores": {"reward": 1.0}} for share in shares]
    worth = shaped(TAPO_TOOL, rows)
    return Finding(gap(worth, [1.0, 1.0, 0.5, 0.0]) < 1e-9, say(shares_of_the_horizon=line(shares), worth=line(worth)))


@claim("Log-probs of tool output change no gradient: it is no decision.")
def log_probs_of_tool_output_change_no_gradient_it_is_no_decision() -> Finding:
    """Tool tokens listed as context: whatever their log-probs, nothing changes; a recorded episode has none of them."""
    moved, own, different = 0.0, 0.0, 0.0
    for number in range(20):
        rng, rows, bare, shifted = Key.of(number).numpy(), [], [], []
        for sample in range(4):
            before, after, read = (int(rng.integers(1, 4)) for _ in range(3))
            trained = [True] * before + [False] * read + [True] * after
            logp = rng.normal(-2.0, 0.5, len(trained)).tolist()
            old = (rng.normal(0.0, 0.5, len(trained)) + logp).tolist()
            row = {"group": "g", "scores": {"reward": float(sample % 2)}, "logp": logp, "logp_behaviour": old}
            rows.append({**row, "trained": trained})
            bare.append({**row, "logp": _where(trained, logp), "logp_behaviour": _where(trained, old)})
        for row in rows:
            noise = rng.normal(0.0, 5.0, len(row["logp"]))
            logp = [x + (0.0 if used else y) for x, y, used in zip(row["logp"], noise, row["trained"], strict=True)]
            shifted.append({**row, "logp": logp})
        whole, only, again = (inspect_rows(TAPO_TOOL, each) for each in (rows, bare, shifted))
        moved = max(moved, *(gap(whole[field], again[field]) for field in ("gradient", "loss")))
        for row, slope, alone in zip(rows, whole["gradient"], only["gradient"], strict=True):
            own = max(own, *map(abs, _where([not used for used in row["trained"]], slope)))
            different = max(different, gap(_where(row["trained"], slope), alone))
    result = bench("tools", 0).step()
    calls = sum(one.info["tool_calls"] for one in result.trajectories)
    words, decisions = len(result.trajectories) + calls, result.batch.decisions if result.batch else 0
    figures = say(new_logprobs_move=moved, own_gradient=own, the_rest_changes_by=different)
    recorded = say(decisions_of_recorded_episodes=decisions, words=words, calls=calls)
    return Finding(moved == own == different == 0 and calls > 0 and decisions == words, f"{figures}, {recorded}")


def _where(flags: Sequence[bool], values: Sequence[float]) -> list[float]:
    return [value for value, flag in zip(values, flags, strict=True) if flag]


BROKEN = ["7", "<answer>7", "<answer>7</answer> or so", "<tool_call>{}</tool_call>"]
BROKEN += ["<think>hm<answer>7</answer>", "<think>hm</answer><answer>7</answer>"]
FORMS = {"<answer>7</answer>": 1.0, "<think>hm</think> so <answer> 7.0 </answer>\n": 1.0, "<answer>8</answer>": 0.0}
FORMS |= dict.fromkeys(BROKEN, -1.0)
GRADED = {("exact", "twelve", "12"): 1.0, ("exact", "1,200", "1200"): 1.0}
GRADED |= {("fact", "the city of Paris", "paris"): 1.0, ("fact", "pairs", "paris"): 0.6, ("fact", "rome", "paris"): 0.0}
GRADED |= {("near", "0.3334", "0.333333"): 1.0, ("near", "0.34", "0.333333"): 0.0, ("near", "no idea", "1"): 0.0}
GRADED |= {("nearly", "104", "100"): 1.0, ("nearly", "106", "100"): 0.0}


@claim("Broken tags earn -1, else the answer its grade, however many calls.", "tool_dapo.py of repository Goer17/TAPO")
def broken_tags_earn_1_else_the_answer_its_grade_however_many_calls() -> Finding:
    reward = TAPO_TOOL.rewards[0]
    assert isinstance(reward, ToolAnswer)
    wrong = [text for text, worth in FORMS.items() if earned(reward, [text]) != worth]
    wrong += [one[1] for one, worth in GRADED.items() if abs(reward.graded(*one[1:], one[0]) - worth) > 1e-12]
    call = '<tool_call>{"name": "calculator", "arguments": {"expression": "3 + 4"}}</tool_call>'
    after = [earned(reward, [call] * calls + ["<answer>7</answer>"]) for calls in range(5)]
    cut = earned(reward, [call, "<think>so", "</think><answer>7</answer>"])
    figures = say(forms=len(FORMS), graded_answers=len(GRADED), wrong=wrong or "none", cut=cut)
    return Finding(not wrong and after == [1.0] * 5 and cut == -1.0, f"{figures}, right after 0 to 4 calls {after}")


CALL = '<tool_call>{"name": "calculator", "arguments": {"expression": "the question"}}</tool_call>'
DIGITS = tuple(f"<answer>{digit}</answer>" for digit in range(4))
RAW = "well"
WORDS = (*DIGITS, RAW, CALL)
SHORT = [Scenario(f"short {n}", f"1 + {n}", str(1 + n)) for n in range(2)]
LONG = [Scenario(f"long {n}", f"{37 + n} * 489 - {(37 + n) * 489 - n % 4}", str(n % 4)) for n in range(4)]
STEPS, LONGER, BONUS = 25, 45, 0.25


def tools(scenario: Scenario, key: Key) -> Sequence[Tool]:
    """A calculator that works out the question, whatever it is told."""
    return (Tells("calculator", lambda: calculator(str(scenario.prompt))),)


def view(messages: tuple[Message, ...]) -> tuple[str, ...]:
    """A long sum looks like any other; of a conversation with the tool, the last result and how many there were."""
    results = [str(message["content"]) for message in messages if message["role"] == "tool"]
    question = str(messages[0]["content"])
    if results:
        return ("told", results[-1], str(len(results)), "long" if "*" in question else "short")
    return ("long" if "*" in question else question,)


def start(messages: tuple[Message, ...], said: tuple[str, ...]) -> Mapping[str, float]:
    """Short sums are known, results are repeated, both with some doubt; a call is tried one time in twelve."""
    kind = view(messages)
    if kind == ("long",):
        return {word: math.log(0.2 if word in DIGITS else 0.08 if word == CALL else 0.1) for word in WORDS}
    known = f"<answer>{kind[1] if kind[0] == 'told' else calculator(kind[0])}</answer>"
    return {word: math.log(0.8 if word == known else 0.08 if word == CALL else 0.04) for word in WORDS}


def bench(kind: str, seed: int) -> TalkBench:
    """With tools, without, or with a bonus for every call that works."""
    flow = ToolUse(tools, turns=4, listed=False, call_reward=BONUS if "bonus" in kind else 0.0)
    words = WORDS if kind != "no tools" else WORDS[:-1]

    def begin(messages: tuple[Message, ...], said: tuple[str, ...]) -> Mapping[str, float]:
        return {word: logit for word, logit in start(messages, said).items() if word in words}

    recipe = TAPO_TOOL.but({"rollout": DynamicSampling(samples=8, max_rounds=3)} if kind == "bonus" else {})
    return TalkBench(flow, [*SHORT, *LONG], words, recipe, view=view, prior=begin, seed=seed, lr=0.1)


def habits(made: TalkBench) -> dict[str, float]:
    """Exact rates by kind of sum: of calling at all, of right answers; and mean calls."""
    rates: dict[str, float] = {}
    for kind, scenarios in (("short", SHORT), ("long", LONG)):
        sums = [0.0, 0.0, 0.0]
        for scenario in scenarios:
            for chance, played in made.outcomes(scenario):
                calls, right = played.info["tool_calls"], played.text == f"<answer>{scenario.answer}</answer>"
                sums = [s + chance * v / len(scenarios) for s, v in zip(sums, (calls > 0, right, calls), strict=True)]
        rates |= {f"{name} {kind}": value for name, value in zip(("calling", "right", "calls"), sums, strict=True)}
    return rates


@cache
def trained(kind: str, runs: int = len(SEEDS)) -> dict[str, list[float]]:
    """Habits after training, seed by seed."""
    steps = LONGER if kind == "bonus" else STEPS
    rates = [habits(bench(kind, seed).run(steps)) for seed in range(runs)]
    return {name: [one[name] for one in rates] for name in rates[0]}


@claim(
    "Calls go to 1 on sums too long for the policy and stay rare on short ones; accuracy beats having no tool.",
    "catalogue",
    slow=True,
)
def calls_go_to_1_on_sums_too_long_for_the_policy_and_stay_rare_on() -> Finding:
    ours, bare = trained("tools"), trained("no tools")
    holds = min(ours["calling long"]) > 0.95 and max(ours["calling short"]) < 0.15
    holds &= min(ours["right long"]) - max(bare["right long"]) > 0.5
    before = say(steps=STEPS, before=habits(bench("tools", 0)))
    return Finding(holds, f"{before}; {lines(**ours)}; without a tool {lines(**bare)}")


@claim("A bonus per call inflates calls.", "catalogue", slow=True)
def a_bonus_per_call_inflates_calls() -> Finding:
    """Also where groups are chosen by accuracy, on sums that need a call; sums always right by now are left out."""
    plain, paid, chosen = trained("tools"), trained("bonus"), trained("bonus by accuracy", 2)
    holds = min(paid["calls short"]) - max(plain["calls short"]) > 0.7
    holds &= fmean(paid["calls long"]) > fmean(plain["calls long"]) + 0.4
    sides = {"no bonus": plain, "groups chosen by reward": paid, "groups chosen by accuracy": chosen}
    calls = {f"{kind}, {name}": side[f"calls {kind}"] for kind in ("short", "long") for name, side in sides.items()}
    return Finding(holds, lines(bonus=BONUS, at_most=3, steps=LONGER, calls=calls))


@claim("Groups whose samples have the same accuracy are asked again, whatever their rewards.")
def groups_whose_samples_have_the_same_accuracy_are_asked_again() -> Finding:
    """A group of -1 and 0 differs in reward and not in accuracy; it is rare, so several seeds are looked at."""
    kept, unlike, mixed, scores = 0, 0, 0, set[str]()
    for seed in range(6):
        made = bench("tools", seed)
        reward, rollout = made.recipe.rewards[0], made.recipe.rollout
        assert isinstance(reward, ToolAnswer)
        assert isinstance(rollout, AccuracySampling)
        for result in (made.step() for _ in range(6)):
            scores |= {name for one in (*result.trajectories, *result.discarded) for name in one.scores}
            for group, learnt in ((result.trajectories, True), (result.discarded, False)):
                for one in range(0, len(group), rollout.samples):
                    members = group[one : one + rollout.samples]
                    both = len({reward.judge(member) == 1.0 for member in members}) == 2
                    kept += learnt and both
                    unlike += learnt and not both
                    mixed += not learnt and not both and has_signal(members)
    holds = kept > 120 and unlike == 0 and mixed > 0 and scores == {"correct"}
    return Finding(holds, say(steps=36, mixed_groups_learnt_from=kept, others=unlike, left_out_of_minus_1_and_0=mixed))


SHIPPED = {"rewards.0.weight": 1.0, "rollout.max_rounds": 3, "rollout.oversample": 1.0, "rollout.right": 0.9}

claim.constants(
    "As shipped a right answer is worth 1; a group of like accuracy is asked again in at most 3 rounds, answers above "
    "0.9 being right; a batch is gone through once in 4 mini-batches.",
    TAPO_TOOL,
    {**SHIPPED, "update.minibatches": 4, "update.epochs": 1},
    "tapo_single_node.sh of repository Goer17/TAPO; the rounds are chosen here",
)


claim.spares("worth > self.right -> worth <= self.right", "a group is mixed either way, and marks are taken off again")


def malformed(run: ShippedRun) -> float:
    """The share of answers of broken form among those learnt from and left out."""
    kept = [row.experience for row in run.results if row.experience is not None]
    played = [one for each in kept for one in (*each.trajectories, *each.discarded)]
    return fmean(float(one.scores["correct"].value == -1.0) for one in played)


claim.shipped(
    TAPO_TOOL,
    "rewards",
    "shaping",
    task="calculator?turns=6",
    first={"recipe": "sft", "steps": 40, "task": "lessons:calculator?turns=6"},
    settings={"curriculum.prompts": 4},
    sees=lambda run: {
        "calls": run.mean("tools/calls"),
        "malformed": malformed(run),
        "penalty": run.mean("reward/mean") - run.mean("reward/shaped"),
    },
)
