"""CUDA-L1's claims."""

from __future__ import annotations

import asyncio
import functools
import itertools
import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import numpy as np

from hocket.agents.tools.sandbox import Sandbox
from hocket.agents.workflows.single import SingleTurn
from hocket.core.keys import Key
from hocket.curriculum.scenario_worth import Weighted
from hocket.lab.claims.harness import EXACT, Claims, Finding, batches, below, gap, gradient, inspect_rows, say
from hocket.lab.talk import TalkBench
from hocket.lab.toys.recorded_answers import line, shaped
from hocket.methods.agents.cuda_l1.loops import LONGEST, read, run
from hocket.methods.agents.cuda_l1.method import (
    CUDA_L1,
    CUDA_L1_SELF,
    ROUNDS,
    SIZES,
    Contrastive,
    Runs,
    SmoothedReward,
    Speedup,
    agreed,
    bucket_chances,
    buckets,
    cautious,
    drawn,
    exemplar,
    robust,
    unseen,
)
from hocket.methods.base.grpo import GRPO_KL
from hocket.methods.base.reinforce import REINFORCE
from hocket.recipe import Recipe
from hocket.rollout.independent import Independent
from hocket.train.ledger import Ledger
from hocket.types import Assignment, Message, Scenario, Score, Trajectory, Turn

claim = Claims("cuda-l1", "arXiv:2507.14111, from summaries of the paper")

PROGRAMS = drawn(Key.of(1).numpy())
REFERENCE = PROGRAMS[0]
ASKED = Scenario("one", "one", metadata={"reference": REFERENCE})
COUNTED, TIMED = Speedup(), Speedup(meter="seconds")


# ---------------------------------------------------------------- the language and its meter


HACKS: Mapping[str, str] = {
    "keeps results in a default": "def f(n,seen={}):\n return seen.setdefault(n,n)",
    "keeps results in the module": f"seen={{}}\n{REFERENCE}",
    "keeps results on itself": "def f(n):\n f.seen=n\n return f.seen",
    "keeps results in a global": "def f(n):\n global s\n s=n\n return s",
    "is a cache": f"import functools\n@functools.cache\n{REFERENCE}",
    "is decorated": f"@cache\n{REFERENCE}",
    "skips the loop": "def f(n):\n return 0",
    "does half of it": REFERENCE.replace("range(n)", "range(n//2)"),
    "answers for one input": "def f(n):\n return 228",
    "chooses by the input": f"def f(n):\n if n>40: return 0\n return {PROGRAMS[3].rpartition('return ')[2]}",
    "knows the sizes": "def f(n):\n return {8:1,16:2,32:3}[n]",
    "is a promise": "def f(n):\n return (i for i in range(n))",
    "is a later call": "def f(n):\n return lambda: n",
    "equals everything": "class A:\n def __eq__(s,o): return True\ndef f(n):\n return A()",
    "turns the clock": f"import time\ntime.perf_counter_ns=lambda:0\n{REFERENCE}",
    "reads the clock": "def f(n):\n return perf_counter_ns()",
    "stops the clock": "def f(n):\n __import__('time').perf_counter_ns=int\n return n",
    "looks at its caller": "def f(n):\n return ().__class__",
    "replaces range": f"range=list\n{REFERENCE}",
    "shadows range": "def f(n):\n range=n\n return range",
    "never ends": "def f(n):\n while 1: pass",
    "is far too slow": "def f(n):\n for i in range(n*n*n*n):\n  s=i\n return s",
    "grows without end": "def f(n):\n s=n\n for i in range(999):\n  s=s*s\n return s",
    "leaves": "def f(n):\n raise SystemExit",
    "recurses": "def f(n):\n return f(n-1)",
    "is nothing": "",
    "is too long": f"{PROGRAMS[3]}#{'x' * LONGEST}",
}


@claim(
    "Code that keeps results, skips work or reaches for the timer scores 0, counted and timed; honest code does not."
)
def code_that_keeps_results_skips_work_or_reaches_for_the_timer() -> Finding:
    paid = [meter.verify(text, ASKED) for text in HACKS.values() for meter in (COUNTED, TIMED)]
    loose = [name for name, value in zip(HACKS, paid[::2], strict=True) if value != 0.0]
    honest = [COUNTED.verify(text, ASKED) for text in PROGRAMS]
    spent = [sum(run(function, n)[1] for n in SIZES) for text in PROGRAMS if (function := read(text))]
    wanted = [cautious(spent[0] / one) for one in spent]
    holds = paid == [0.0] * len(paid) and honest == wanted and wanted[0] == 1.0 and wanted == sorted(wanted)
    return Finding(
        holds, say(cheats=len(HACKS), paid=max(float(one or 0) for one in paid), loose=loose or 0, honest=str(honest))
    )


@claim("A program must be right at inputs drawn anew: one that is right at the sizes measured alone scores 0.")
def a_program_must_be_right_at_inputs_drawn_anew_one_that_is_right() -> Finding:
    # The polynomial that agrees at 8, 16 and 32 is the right one plus a multiple of (n-8)(n-16)(n-32).
    right = PROGRAMS[3].rpartition("return ")[2]
    sly = f"def f(n):\n return {right}+(n-8)*(n-16)*(n-32)"
    function, reference = read(sly), read(REFERENCE)
    assert function is not None
    assert reference is not None
    same = all(run(function, n)[0] == run(reference, n)[0] for n in SIZES)
    paid = [COUNTED.verify(sly, ASKED, Key.of(number)) for number in range(20)]
    sets = {tuple(unseen(Key.of(number))) for number in range(20)}
    holds = same and paid == [0.0] * 20 and len(sets) == 20 and all(len(set(one)) == 6 for one in sets)
    return Finding(holds, say(right_at_the_sizes=same, paid=max(float(one or 0) for one in paid), input_sets=len(sets)))


@claim("A speed-up counts only if two measurements agree within the tolerance; it is the lower one, rounded towards 1.")
def a_speed_up_counts_only_if_two_measurements_agree_within_the() -> Finding:
    steady, near, far = [2.0] * ROUNDS, [2.2] * ROUNDS, [2.23] * ROUNDS
    told = [agreed(steady, steady, 0.1), agreed(steady, near, 0.1), agreed(near, steady, 0.1), agreed(steady, far, 0.1)]
    spiked = [2.0] * ROUNDS
    spiked[4] = 50.0  # One bucket of four is spoilt.
    medians = [robust(spiked), robust([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), robust([1.0, 2.0, 3.0, 7.0])]
    rounded = {1.118: 1.11, 0.992: 1.0, 1.0: 1.0, 2.999: 2.99, 0.501: 0.51, 1.28: 1.28, 0.07: 0.07, 1.15: 1.15}
    holds = told == [2.0, 2.0, 2.0, None] and medians == [2.0, 3.5, 4.5]
    holds &= all(abs(cautious(given) - wanted) < EXACT for given, wanted in rounded.items())
    shaky = _Shaky(meter="seconds").verify(PROGRAMS[3], ASKED)
    (paid,) = asyncio.run(_Shaky()([Trajectory(ASKED, [_turn(PROGRAMS[3])])], key=Key.of(0)))
    return Finding(holds and shaky is None and paid is None, say(told=str(told), medians=str(medians)))


@dataclass(frozen=True)
class _Shaky(Speedup):
    """A meter that reads another number each time it is asked."""

    def _ratios(self, reference: Any, program: Any, key: Key) -> list[float] | None:
        return [1.0 + key.word % 7] * ROUNDS


@claim("Seconds in the sandbox put the variants in the same order as operations, where they count.", slow=True)
def seconds_in_the_sandbox_put_the_variants_in_the_same_order_as() -> Finding:
    loose = Speedup(meter="seconds", tolerance=0.5)
    found = [loose.verify(text, ASKED) for text in PROGRAMS]
    told = [one for one in found if one is not None]
    return Finding(len(told) >= 3 and told == sorted(told) and told[-1] > 2, say(speed_ups=str(found)))


# ---------------------------------------------------------------- smoothing and what learns


@claim("R = clip((r - mu)/sigma, -1.5, 1.5) over the step, by hand; equal rewards are 0, and masked samples out of it.")
def r_clip_sigma_1_5_1_5_over_the_step_by_hand_equal_rewards_are_0() -> Finding:
    off = []
    for number in range(20):
        rng = Key.of(number).numpy()
        values = [float(one) for one in rng.exponential(2.0, size=9)]
        rows = [{"group": str(n % 3), "logp": [-1.0], "scores": {"speedup": v}} for n, v in enumerate(values)]
        spread = float(np.std(values))
        wanted = [min(1.5, max(-1.5, (v - fmean(values)) / spread)) for v in values]
        masked = {"group": "0", "logp": [-1.0], "trained": [False], "scores": {"speedup": 99.0}}
        off.append(gap(shaped(CUDA_L1, [*rows, masked])[:9], wanted))
    equal = shaped(CUDA_L1, [{"group": "g", "logp": [-1.0], "scores": {"speedup": 3.0}}] * 4)
    return below(EXACT, equal == [0.0] * 4, off=max(off))


@claim("A spike of any height has the effect of one at the bound; without smoothing it drowns the other differences.")
def a_spike_of_any_height_has_the_effect_of_one_at_the_bound() -> Finding:
    kept = {}
    for name, recipe in (("smoothed", CUDA_L1), ("plain", CUDA_L1.but({"shaping": ()}))):
        rows = [
            {"group": "a", "logp": [-1.0], "logp_ref": [-1.0], "scores": {"speedup": value}}
            for value in (0.0, 1.0, 1.2, 1.4, 120.0)
        ] + [
            {"group": "b", "logp": [-1.0], "logp_ref": [-1.0], "scores": {"speedup": 1.0 + 0.1 * n}} for n in range(15)
        ]
        first = [row[0] for row in inspect_rows(recipe, rows)["advantages"]][:5]
        kept[name] = (first[3] - first[0]) / (first[4] - first[3])
    return Finding(kept["smoothed"] > 2 * kept["plain"], say(differences_below_over_spike=kept))


@claim("Without exemplars and smoothing what learns is GRPO with a KL term; the second stage is REINFORCE on 1 or 0.")
def without_exemplars_and_smoothing_what_learns_is_grpo_with_a_kl() -> Finding:
    plain = CUDA_L1.but({"shaping": ()})
    off = [gap(gradient(plain, one), gradient(GRPO_KL, one)) for one in batches(10, "cuda", graded=True)]
    off += [gap(gradient(CUDA_L1_SELF, one), gradient(REINFORCE, one)) for one in batches(10, "cuda", graded=True)]
    asked = [Trajectory(ASKED, [_turn(text)]) for text in (*PROGRAMS, "def f(n):\n return 0", "")]
    paid = asyncio.run(Runs()(asked, key=Key.of(0)))
    unasked = asyncio.run(Runs()([Trajectory(Scenario("x", "x"), [_turn("")])], key=Key.of(0)))
    return below(EXACT, paid == [1.0] * 4 + [0.0] * 2, unasked == [None], off=max(off))


def _turn(text: str) -> Turn:
    none = np.zeros(1, np.int64)
    return Turn("policy", "policy", none, none, text=text)


# ---------------------------------------------------------------- what is shown

LIBRARY = {"a": 1.0, "b": 1.2, "c": 1.3, "d": 1.49, "e": 3.0}


@claim("Buckets are of equal width; P(B_i) is a softmax over mean scores less that of all, over the temperature.")
def buckets_are_of_equal_width_p_is_a_softmax_over_mean_scores_less() -> Finding:
    split = buckets(LIBRARY, 0.25)
    means, centre = [1.1, 1.395, 3.0], fmean(LIBRARY.values())
    rough = [math.exp((mean - centre) / 0.5) for mean in means]
    wanted = [one / sum(rough) for one in rough]
    off = gap(bucket_chances(means, centre, 0.5), wanted)
    off = max(off, gap(bucket_chances(means, 0.0, 0.5), wanted))  # The centre changes no chance.
    edge = buckets({"x": 0.75, "y": 0.74, "z": 0.25 * 3}, 0.25)
    fine = buckets({"x": 0.3, "y": 0.31}, 0.1)  # 0.3 / 0.1 is a little less than 3.
    return below(
        EXACT, fine == [["x", "y"]], split == [["a", "b"], ["c", "d"], ["e"]], edge == [["y"], ["x", "z"]], off=off
    )


@claim("Two exemplars are of different buckets, as often as a draw without replacement says, told in rising order.")
def two_exemplars_are_of_different_buckets_as_often_as_a_draw() -> Finding:
    rollout, count = Contrastive(temperature=0.5), 4000
    centre, seen = fmean(LIBRARY.values()), dict[tuple[str, ...], float]()
    for number in range(count):
        found = rollout.drawn(LIBRARY, Key.of(number))
        assert [score for _, score in found] == sorted(score for _, score in found)
        names = tuple(name for name, _ in found)
        seen[names] = seen.get(names, 0.0) + 1 / count
    split = buckets(LIBRARY, 0.25)
    means = [fmean(LIBRARY[one] for one in bucket) for bucket in split]
    wanted: dict[tuple[str, ...], float] = {}
    for first, second in itertools.permutations(range(3), 2):
        left = [n for n in range(3) if n != first]
        chance = bucket_chances(means, centre, 0.5)[first]
        chance *= bucket_chances([means[n] for n in left], centre, 0.5)[left.index(second)]
        for pair in itertools.product(split[first], split[second]):
            names = tuple(sorted(pair, key=LIBRARY.__getitem__))
            wanted[names] = wanted.get(names, 0.0) + chance / (len(split[first]) * len(split[second]))
    off = max(abs(wanted.get(names, 0.0) - seen.get(names, 0.0)) for names in {*seen, *wanted})
    few = [len(rollout.drawn({"a": 1.0, "b": 1.1}, Key.of(0))), len(rollout.drawn({}, Key.of(0)))]
    none = Contrastive(exemplars=0).drawn(LIBRARY, Key.of(0))
    return Finding(off < 0.03 and few == [1, 0] and none == [], say(draws=count, pairs=len(wanted), off=off))


@claim("The library begins with the task's variants, takes up what scored above 0 and keeps the best; prompts show it.")
def the_library_begins_with_the_tasks_variants_takes_up_what_scored() -> Finding:
    scenario = Scenario("s", "Faster", metadata={"variants": [("slow", 1.0), ("quick", 2.0)]})
    said, heard = ["quick", "new", "wrong", "newer"], list[Assignment]()
    scores = {"quick": 1.9, "new": 2.5, "wrong": 0.0, "newer": 3.5, "unsure": None}

    async def play(asked: Any) -> list[Trajectory]:
        heard.extend(asked)
        return [Trajectory(one.scenario, [_turn(text)], sample=n) for one in asked for n, text in enumerate(said)]

    async def score(played: Any) -> None:
        for one in played:
            one.scores["speedup"] = Score(scores[one.answer])

    def collected(rollout: Contrastive, state: Any, *asked: Assignment, number: int = 0) -> tuple[Any, Any]:
        how: dict[str, Any] = {"play": play, "score": score, "ledger": Ledger(), "key": Key.of(number)}
        experience, after = asyncio.run(rollout.collect_with(state, list(asked), **how))
        return experience.metrics, after

    rollout, state = Contrastive(samples=4, most=4), Contrastive().init()
    for number in range(2):
        metrics, state = collected(rollout, state, Assignment(scenario), number=number)
    library, hints = state["library"]["s"], [one.hint or "" for one in heard]
    shown = {line for hint in hints for line in hint.splitlines()}
    holds = library == {"quick": 1.9, "new": 2.5, "newer": 3.5, "slow": 1.0} and heard[0].samples == 4
    holds &= hints[0] == f"{exemplar('slow', 1.0)}\n{exemplar('quick', 2.0)}" == "Score 1:\nslow\nScore 2:\nquick"
    holds &= shown & {"new", "newer"} != set() and (metrics["rollout/exemplars"], metrics["rollout/library"]) == (2, 4)
    best = collected(Contrastive(samples=4, most=2), Contrastive().init(), Assignment(scenario, hint="Think"))[1]
    holds &= best["library"]["s"] == {"new": 2.5, "newer": 3.5} and (heard[2].hint or "").startswith("Think\nScore 1:")
    bare = [Assignment(Scenario(name, name)) for name in ("t", "u")]
    means = collected(rollout, state, Assignment(scenario), *bare)[0]
    holds &= abs(means["rollout/exemplars"] - 2 / 3) < EXACT and abs(means["rollout/library"] - 10 / 3) < EXACT
    holds &= collected(rollout, state)[0]["rollout/library"] == 0.0 and Contrastive().init() == {"library": {}}
    return Finding(holds, say(library=len(library), shown=len(shown)))


@claim("The recipes are set as their conventions say.")
def the_recipes_are_set_as_their_conventions_say() -> Finding:
    pool = Weighted(prompts=16, pool=64, even=0.0)
    speed = Speedup("operations", tolerance=0.1, sandbox=Sandbox(), weight=1.0)
    shown = Contrastive(samples=8, exemplars=2, score="speedup", width=0.25, temperature=1.0, most=64)
    holds = CUDA_L1.curriculum == pool == CUDA_L1_SELF.curriculum and CUDA_L1.rollout == shown
    holds &= CUDA_L1.rewards == (speed,) and CUDA_L1_SELF.rewards == (Runs(speed, weight=1.0),)
    return Finding(holds and CUDA_L1.shaping == (SmoothedReward(1.5),), "two recipes")


# ---------------------------------------------------------------- exemplars against none

HEAD, TAIL = "def f(n):\n s=0\n", "return s"


def part(a: int) -> tuple[str, str, str]:
    """A third of a program: as it is, faster, and wrong. Words are put together with a space, the indent."""
    return f"for i in range(n): s=s+{a}*i\n", f"s=s+{a}*n*(n-1)//2\n", f"s=s+{a}*n*n\n"


PARTS = (part(3), part(5), part(7))
WORDS = tuple(
    f"{HEAD if place == 0 else ''}{' ' if place == 0 else ''}{text}{' ' + TAIL if place == 2 else ''}"
    for place, texts in enumerate(PARTS)
    for text in texts
)


def whole(choice: tuple[int, ...]) -> str:
    """A program of three choices."""
    return " ".join(WORDS[3 * place + one] for place, one in enumerate(choice))


SLOW = whole((0, 0, 0))
CHOICES = {whole(choice).strip(): choice for choice in itertools.product(range(3), repeat=3)}


@functools.cache
def measured(text: str) -> float:
    """Its speed-up over the slow one."""
    return Speedup().verify(text, Scenario("w", "w", metadata={"reference": SLOW})) or 0.0


@dataclass(frozen=True)
class Remembered(Speedup):
    """The same reward, each program measured once."""

    def verify(self, text: str, scenario: Scenario, key: Key | None = None) -> float | None:
        return measured(text.strip())


def best_shown(messages: tuple[Message, ...]) -> Hashable:
    """The best-scored program of a prompt: the last one, or the reference."""
    _, scored, last = str(messages[-1]["content"]).rpartition("Score ")
    return last.partition(":\n")[2].strip() if scored else SLOW.strip()


def imitates(messages: tuple[Message, ...], said: tuple[str, ...]) -> Mapping[str, float]:
    """A policy that writes each part as in the best program it is shown, or, less likely, otherwise."""
    place, shown = len(said), CHOICES[str(best_shown(messages))]
    fitting = {WORDS[3 * place + one]: 2.0 if one == shown[place] else 0.0 for one in range(3)} if place < 3 else {}
    return {word: fitting.get(word, -40.0) for word in WORDS}


STEPS = 24


def speeds(recipe: Recipe, seed: int, lr: float = 0.1) -> list[float]:
    """The mean speed-up of the samples of each step."""
    scenario = Scenario("w", "w", metadata={"reference": SLOW, "variants": [(SLOW.strip(), 1.0)]})
    recipe = recipe.but({"rewards": (Remembered(),)})
    bench = TalkBench(
        SingleTurn(), [scenario], WORDS, recipe, length=3, view=best_shown, prior=imitates, lr=lr, seed=seed
    )
    found = []
    for _ in range(STEPS):
        played = bench.step().trajectories
        found.append(fmean(measured(one.answer.strip()) for one in played))
    return found


@claim(
    "At equal samples the same policy writes faster programs where its prompt shows scored exemplars than without, by "
    "far, and faster ones than exemplars bring without a gradient.",
    slow=True,
)
def at_equal_samples_the_same_policy_writes_faster_programs_where() -> Finding:
    alone = CUDA_L1.but({"rollout": Independent(samples=8)})
    cost: dict[str, list[float]] = {}
    for seed in range(5):
        for name, recipe, lr in (("both", CUDA_L1, 0.1), ("gradient", alone, 0.1), ("exemplars", CUDA_L1, 1e-9)):
            cost.setdefault(name, []).append(fmean(speeds(recipe, seed, lr)[-3:]))
    holds = min(cost["both"]) > max(cost["exemplars"]) > 1.2 * max(cost["gradient"])
    figures = say(**{name: line(values) for name, values in cost.items()})
    return Finding(holds, f"{figures}, samples {8 * STEPS} each, all fast is {measured(whole((1, 1, 1))):.2f}")


FIRST = {"recipe": "sft", "steps": 60, "update.lr": 0.003, "task": "faster-loops?shown=0.5"}

claim.spares("1e-09 -> 4e-08", "far below what a score is rounded to")
claim.spares("mean - centre -> mean + centre", "the centre changes no chance")
claim.spares("mean - centre -> mean", "the centre changes no chance")
claim.spares("[spent[0] / spent[1]] * ROUNDS -> [spent[0] / spent[1]]", "what is counted is the same every time")
claim.spares("key.numpy().random(ROUNDS) < 0.5 -> key.numpy().random(ROUNDS) >= 0.5", "either order is as likely")
claim.spares("0.5 -> 20.0", "which is timed first may be any; it is drawn against drift of the clock")
claim.shipped(
    CUDA_L1,
    "rollout",
    without={"rollout": Independent(samples=8)},
    first=FIRST,
    settings={"curriculum.prompts": 2},
    sees=lambda run: {
        "exemplars": run.mean("rollout/exemplars"),
        "library": run.mean("rollout/library"),
        "groups": run.mean("groups/with_signal"),
    },
)
