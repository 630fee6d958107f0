"""Search-R2's claims."""

from __future__ import annotations

import asyncio
import itertools
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from hocket.agents.workflows.tool_use import ToolUse
from hocket.core.columns import CALLS
from hocket.core.keys import Key
from hocket.lab.claims.harness import SEEDS, Claims, Finding, below, say
from hocket.lab.claims.lesson_data import Pupil, after_lessons
from hocket.lab.claims.shipped_check import ShippedRun
from hocket.lab.talk import TalkBench
from hocket.lab.toys.instances import JudgedReward
from hocket.lab.toys.recorded_answers import line
from hocket.lab.toys.talks import Tells
from hocket.methods.agents.search_r2 import (
    JUDGE,
    REFINED,
    SEARCH_R2,
    TRIM,
    ActorRefiner,
    EvidenceReward,
    accepts,
    cut_of,
)
from hocket.recipe import Recipe
from hocket.testing import Part, rehearse, tool_call
from hocket.types import Message, Scenario, Trajectory
from hocket.zoo.tasks.lookup import Lookup

claim = Claims("search-r2", "arXiv:2602.03647")

# ---------------------------------------------------------------- strings: a letter is a step

LETTERS = {letter: tool_call(letter) for letter in "ab"}
NEVER = -math.inf
String = str


@dataclass(frozen=True)
class Chances:
    """A whole policy: of an `a` after a prefix, of accepting a string, of each cut of it (from 1 on)."""

    a: Mapping[String, float]
    accept: Mapping[String, float]
    cut: Mapping[String, tuple[float, ...]]
    length: int

    @property
    def strings(self) -> list[String]:
        return ["".join(one) for one in itertools.product("ab", repeat=self.length)]

    def suffix(self, kept: String, whole: String) -> float:
        """The chance that the actor goes on from what is kept to the whole."""
        if not whole.startswith(kept):
            return 0.0
        steps = range(len(kept), self.length)
        return math.prod(self.a[whole[:n]] if whole[n] == "a" else 1 - self.a[whole[:n]] for n in steps)

    def refined(self, before: Mapping[String, float]) -> dict[String, float]:
        """The mixture formula: what comes of attempts that are distributed so."""
        anew = self.anew(before)
        return {one: chance * self.accept[one] + anew[one] for one, chance in before.items()}

    def anew(self, before: Mapping[String, float]) -> dict[String, float]:
        """How what is rejected of such attempts goes on from its cut."""
        after = dict.fromkeys(self.strings, 0.0)
        for one, chance in before.items():
            for place, cut in enumerate(self.cut[one]):
                for other in self.strings:
                    after[other] += chance * (1 - self.accept[one]) * cut * self.suffix(one[:place], other)
        return after

    @property
    def alone(self) -> dict[String, float]:
        """What the actor writes by itself."""
        return {one: self.suffix("", one) for one in self.strings}


def drawn(seed: int, length: int) -> Chances:
    """Any policy."""
    rng = Key.of(seed).numpy()
    prefixes = ["".join(one) for n in range(length) for one in itertools.product("ab", repeat=n)]
    strings = ["".join(one) for one in itertools.product("ab", repeat=length)]
    return Chances(
        {one: float(rng.uniform(0.1, 0.9)) for one in prefixes},
        {one: float(rng.uniform(0.1, 0.9)) for one in strings},
        {one: tuple(rng.dirichlet(np.ones(length)).tolist()) for one in strings},
        length,
    )


def letters(text: str) -> String:
    """The steps that a text names."""
    return "".join(re.findall(r'"name": "([ab])"', text))


def spoken(chances: Chances) -> Callable[[tuple[Message, ...], tuple[str, ...]], dict[str, float]]:
    """The logits of a policy with these chances; other words are never said."""
    words = words_of(chances.length)

    def logits(messages: tuple[Message, ...], said: tuple[str, ...]) -> dict[str, float]:
        last = str(messages[-1]["content"])
        if last.endswith(JUDGE):
            yes = chances.accept[letters(last)]
            told = {"yes": yes, "no": 1 - yes}
        elif last.endswith(TRIM):
            told = {str(place): chance for place, chance in enumerate(chances.cut[letters(last)], 1)}
        else:
            a = chances.a["".join(letters(str(one["content"])) for one in messages if one["role"] == "assistant")]
            told = {LETTERS["a"]: a, LETTERS["b"]: 1 - a}
        return {word: math.log(told[word]) if told.get(word) else NEVER for word in words}

    return logits


def words_of(length: int) -> tuple[str, ...]:
    return (*LETTERS.values(), "yes", "no", *map(str, range(1, length + 1)))


def written(trajectory: Trajectory) -> String:
    """The string that counts."""
    return "".join(call["name"] for call in CALLS.get(trajectory, ())) + letters(trajectory.answer)


def bench(chances: Chances, rounds: int = 1, recipe: Recipe = SEARCH_R2, seed: int = 0, **how: object) -> TalkBench:
    """An actor whose steps are calls that bring nothing."""
    tools = [Tells(letter, lambda: "ok") for letter in LETTERS]
    flow = ActorRefiner(tuple(tools), turns=chances.length, rounds=rounds)
    asked = [Scenario(f"s{n}", "word", "a" * chances.length) for n in range(4)]
    return TalkBench(flow, asked, words_of(chances.length), recipe, prior=spoken(chances), seed=seed, lr=0.1, **how)  # type: ignore[arg-type]


def frequencies(made: TalkBench) -> dict[String, float]:
    """The exact chance of each string that an episode may end with."""
    found = Counter[String]()
    for chance, played in made.outcomes(made.scenarios[0]):
        found[written(played)] += chance  # type: ignore[assignment]
    return dict(found)


@claim("What episodes end with is distributed as the mixture formula says, exactly: strings of length 4.", slow=True)
def what_episodes_end_with_is_distributed_as_the_mixture_formula() -> Finding:
    chances = drawn(0, 4)
    found, wanted = frequencies(bench(chances)), chances.refined(chances.alone)
    off = max(abs(found.get(one, 0.0) - wanted[one]) for one in chances.strings)
    moved = max(abs(chances.alone[one] - wanted[one]) for one in chances.strings)
    return Finding(off < 1e-6 and moved > 0.02, say(strings=len(wanted), off=off, from_the_actors=moved))


@claim("Without a round it is the actor's own distribution, with one the formula's.")
def without_a_round_it_is_the_actors_own_distribution_with_one_the() -> Finding:
    off, chances = list[float](), drawn(1, 2)
    wanted = chances.alone
    for rounds in range(2):
        found = frequencies(bench(chances, rounds))
        off.append(max(abs(found.get(one, 0.0) - wanted[one]) for one in chances.strings))
        wanted = chances.refined(wanted)
    return below(1e-6, largest_difference=max(off))


def judging(seed: int, right: float, wrong: float, *, anywhere: bool = False) -> Chances:
    """Any actor; right strings, all of a, and wrong ones are accepted so often. Cuts are anywhere up to the first
    error, of a right string at any place; else always at the start."""
    free, rng = drawn(seed, 4), Key.of(seed).derive("cuts").numpy()
    accept = {one: right if "b" not in one else wrong for one in free.strings}
    cuts = dict[String, tuple[float, ...]]()
    for one in free.strings:
        most = (one.index("b") + 1 if "b" in one else 4) if anywhere else 1
        cuts[one] = (*rng.dirichlet(np.ones(most)).tolist(), *[0.0] * (4 - most))
    return Chances(free.a, accept, cuts, 4)


@claim(
    "The expected reward rises by J (1 - J) (p(accept right) - p(accept wrong)) at least where cuts fall up to the "
    "first error, by just so much where all is written anew, and falls where wrong ones are accepted more often.",
    "arXiv:2602.03647, and derived",
)
def the_expected_reward_rises_by_j_p_at_least_where_cuts_fall_up_to() -> Finding:
    least, off, falls = math.inf, 0.0, list[float]()
    for seed in range(60):
        rng = Key.of(seed).derive("judge").numpy()
        wrong, right = sorted(rng.uniform(0, 1, 2).tolist())
        for anywhere in (True, False):
            chances = judging(seed, right, wrong, anywhere=anywhere)
            alone, good = chances.alone, "a" * 4
            gain = chances.refined(alone)[good] - alone[good]
            bound = alone[good] * (1 - alone[good]) * (right - wrong)
            least, off = (min(least, gain - bound), off) if anywhere else (least, max(off, abs(gain - bound)))
        worse = judging(seed, wrong, right)
        falls.append(worse.refined(alone)[good] - alone[good])
    saw = say(gain_less_bound_at_least=least, written_anew_off=off, most_where_wrong_are_accepted=max(falls))
    return Finding(least > -1e-12 and off < 1e-12 and max(falls) < 0, saw)


@claim("At equal numbers of steps, cutting at the first error beats writing whole attempts anew.")
def at_equal_numbers_of_steps_cutting_at_the_first_error_beats() -> Finding:
    ahead = list[float]()
    for seed in range(20):
        cutting, anew = judging(seed, 0.9, 0.1), judging(seed, 0.9, 0.1)
        first = {one: (one.index("b") + 1 if "b" in one else 1) for one in cutting.strings}
        exact = {one: tuple(float(n + 1 == first[one]) for n in range(4)) for one in first}
        cutting = Chances(cutting.a, cutting.accept, exact, 4)
        curves = []
        for chances in (cutting, anew):
            now, accepted, spent, curve = chances.alone, 0.0, 4.0, list[tuple[float, float]]()
            for _round in range(8):
                curve.append((spent, accepted + now["aaaa"]))
                kept = {one: sum(n * cut for n, cut in enumerate(chances.cut[one])) for one in now}
                spent += sum(now[one] * (1 - chances.accept[one]) * (4 - kept[one]) for one in now)
                accepted += now["aaaa"] * chances.accept["aaaa"]  # What is accepted is judged no more.
                now = chances.anew(now)
            curves.append(curve)
        steps, success = zip(*curves[1], strict=True)
        ahead += [right - float(np.interp(at, steps, success)) for at, right in curves[0][1:4]]
    return Finding(min(ahead) > 0, say(policies=20, success_ahead_at_equal_steps=ahead))


@claim("The reward is 1 for a right answer plus the share of its calls that brought something needed; else 0.")
def the_reward_is_1_for_a_right_answer_plus_the_share_of_its_calls() -> Finding:
    task = Lookup(hops=2)
    scenario = task.scenario("train", 0)
    first, second = scenario.metadata["gold"]
    right, wrong = f"<answer>{scenario.answer}</answer>", "<answer>no</answer>"
    other = next(one for one in task.facts.numbers if one not in (first, second))
    a, b, c = (tool_call("search", query=one) for one in (first, second, other))
    talks = {(a, b, right): 2.0, (a, c, b, right): 1 + 2 / 3, (c, right): 1.0, (right,): 1.0, (a, b, wrong): 0.0}
    flow, off = ToolUse((task.search,), turns=5), list[float]()
    for talk, wanted in talks.items():
        (played,) = rehearse(flow, scenario, list(talk))
        (paid,) = asyncio.run(EvidenceReward()([played], key=Key.of(0)))
        off.append(abs((paid or 0.0) - wanted))
    return below(1e-12, SEARCH_R2.rewards == (EvidenceReward(),), off_by_hand=max(off))


@claim(
    "Kept steps are shown again, the cut names where the actor goes on, and a strange verdict rejects from the start."
)
def kept_steps_are_shown_again_the_cut_names_where_the_actor_goes() -> Finding:
    task = Lookup(hops=2)
    scenario = task.scenario("train", 0)
    first, second = scenario.metadata["gold"]
    a, b, right = (
        tool_call("search", query=first),
        tool_call("search", query=second),
        f"<answer>{scenario.answer}</answer>",
    )
    actor, judge = (
        Part(a, tool_call("search", query="x"), "<answer>1</answer>", b, right),
        Part("No", "<answer>yes</answer>"),
    )
    trimmer = Part("<answer>2</answer>")
    flow = ActorRefiner((task.search,), rounds=3)
    parts = {"actor": actor, "discriminator": judge, "trimmer": trimmer}
    (played,) = rehearse(flow, scenario, parts)
    for part in parts.values():
        part.assert_done()
    queries = [call["arguments"]["query"] for call in played.info["calls"]]
    shown = [one["content"] for one in actor.asked[3]]
    read = [accepts(one) for one in ("yes", " Yes ", "<answer>YES</answer>", "no", "yes or no", "")]
    cuts = [cut_of(one, 3) for one in ("2", "<answer>3</answer>", "4", "0", "two", "")]
    holds = queries == [first, second] and played.answer == right and played.info["refined"] == 1
    holds &= shown == [scenario.prompt, a, task.search.answer(first)] and len(played.turns) == 8
    holds &= read == [True, True, True, False, False, False] and cuts == [2, 3, 1, 1, 1, 1]
    return Finding(holds, say(queries=str(queries), verdicts=str(read), cuts=str(cuts)))


def success(made: TalkBench) -> float:
    """The exact chance of a right string."""
    return frequencies(made).get("aaa", 0.0)


def even(seed: int) -> Chances:
    """An actor that is right in one attempt of eight, judged and cut anyhow."""
    free = drawn(seed, 3)
    third = (1 / 3,) * 3
    return Chances(dict.fromkeys(free.a, 0.5), dict.fromkeys(free.accept, 0.5), dict.fromkeys(free.cut, third), 3)


@claim(
    "Trained for what comes of an actor that stays, the refiner accepts right attempts, rejects wrong ones and keeps "
    "what was right of them.",
    slow=True,
)
def trained_for_what_comes_of_an_actor_that_stays_the_refiner() -> Finding:
    roles = {"actor": "actor", "discriminator": "refiner", "trimmer": "refiner"}
    whole = JudgedReward(lambda one: float(written(one) == "aaa"), "right")
    recipe = SEARCH_R2.but(rewards=(whole,), **{"rollout.samples": 16})
    before, rows = success(bench(even(0))), list[tuple[float, ...]]()
    for seed in list(SEEDS)[:3]:
        made = bench(even(0), 1, recipe, seed, roles=roles, frozen=frozenset({"actor"})).run(80)
        turns = [
            (played.turns[3].text, letters(str(played.turns[3].prompt[-1]["content"]))) for played in made.play(50)
        ]
        rates = [
            fmean(float(said == "yes") for said, one in turns if ("b" not in one) is good) for good in (True, False)
        ]
        rows.append((success(made), *rates))
    columns = [[row[place] for row in rows] for place in range(3)]
    saw = say(right_before=before, after=line(columns[0]), accepts_right=line(columns[1]), wrong=line(columns[2]))
    return Finding(min(columns[0]) > before + 0.1 and min(columns[1]) > 0.8 and max(columns[2]) < 0.2, saw)


@claim(
    "A search was useful that brought an article that is needed, or a fact, as by hand; shares are of all searches.",
    "R = [right] (1 + share of useful calls)",
)
def a_search_was_useful_that_brought_an_article_that_is_needed_or_a() -> Finding:
    told = {"gold": ["Ann"], "entities": ["blue"]}
    results = {"Ann: keeps the box.": 1, "Bob: keeps the blue box.": 1, "Annabel: keeps it.": 0, "nothing": 0}
    found = []
    for kept in itertools.product((False, True), repeat=4):
        chosen = [one for one, here in zip(results, kept, strict=True) if here]
        one = Trajectory(Scenario("0", "?", answer="7", metadata=told), [], info={"answer": "<answer>7</answer>"})
        CALLS.write(one, [{"name": "search", "arguments": {}, "result": result} for result in chosen])
        share = fmean(results[result] for result in chosen) if chosen else 0.0
        found.append(abs((EvidenceReward().judge(one) or 0.0) - 1 - share))
    ships = SEARCH_R2.workflow == "actor-refiner" and SEARCH_R2.task == "refined-lookup"
    return Finding(max(found) < 1e-12 and ships, say(largest_difference=max(found)))


def first_right(one: Trajectory) -> float:
    """Whether an episode's attempt was right before any of it was cut."""
    asked = next(turn for turn in one.turns if turn.role == "discriminator")
    last = str(asked.prompt[-1]["content"]).split("\n")[-2]
    return float(last.endswith(f"<answer>{one.scenario.answer}</answer>"))


TASK, LESSONS = "refined_lookup", {"recipe": "sft", "steps": 160, "update.lr": 0.003, "task": "lessons:refined_lookup"}


def marks(pupil: Pupil) -> tuple[float, float]:
    """On unseen questions: how often what comes of refining is right, and how often first attempts are."""
    played = pupil.exam()
    return fmean(pupil.parts.task.success(one) for one in played), fmean(map(first_right, played))


@claim(
    "After lessons of all three roles the shipped model is right more often after 15 steps. That it is so more often "
    "than in its first attempts was not seen.",
    slow=True,
)
def after_lessons_of_all_three_roles_the_shipped_model_is_right() -> Finding:
    pupil = after_lessons(SEARCH_R2, TASK, str(LESSONS["task"]), {"curriculum.prompts": 8}, steps=160)
    (before, _), (after, first) = marks(pupil), marks(pupil.run(15))
    return Finding(after > before + 0.1, say(right_before=before, after=after, first_attempts=first))


def seen(run: ShippedRun) -> dict[str, float]:
    """Attempts that were accepted and cut, and groups in which right answers are worth different amounts."""
    played = [one for row in run.results for one in row.trajectories]
    refined = [float(REFINED.get(one)) for one in played]
    worth: dict[str, set[float]] = {}
    for one in played:
        worth.setdefault(one.scenario.id, set()).add(EvidenceReward().judge(one) or 0.0)
    unlike = sum(len(values - {0.0}) > 1 for values in worth.values())
    return {"refined": fmean(refined), "accepted": 1 - fmean(refined), "groups of unlike right answers": float(unlike)}


claim.shipped(SEARCH_R2, "workflow", "rewards", first=LESSONS, settings={"curriculum.prompts": 8}, steps=8, sees=seen)
