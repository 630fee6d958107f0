"""CUDA-L1's little language, its task and its refusals."""

from __future__ import annotations

from typing import Any

import hocket
from hocket.core.keys import Key
from hocket.methods.agents.claims.cuda_l1 import ASKED, COUNTED, PROGRAMS, REFERENCE, _turn
from hocket.methods.agents.cuda_l1.loops import read, run
from hocket.methods.agents.cuda_l1.method import ROUNDS, SIZES, Contrastive, FasterLoops, SmoothedReward, Speedup
from hocket.tasks.split import split_of
from hocket.types import Scenario, Trajectory


def test_values_are_pythons_own_and_operations_counted() -> None:
    cases = {
        "def f(n):\n return n": 1,
        "def f(n):\n return n+1": 2,
        "def f(n):\n return -n": 2,
        "def f(n):\n return n*(n-1)//2": 4,
        "def f(n):\n s=0\n for i in range(n):\n  s=s+i\n return s": 1 + 2 * 7,
        "def f(n):\n s=0\n for i in range(n):\n  s+=3*i\n return s": 1 + 3 * 7,
        "def f(n):\n s=0\n for i in range(2,n+1):\n  s-=i\n return s+n": 1 + 1 + 2 * 6 + 1,
        "def f(n):\n s=0\n for i in range(n):\n  for j in range(i):\n   s=s+j\n return s": 1 + 7 + 2 * 21,
        "def f(n):\n for i in range(n):\n  return i+5\n return 2": 3,
        **dict.fromkeys(PROGRAMS),  # Counted in the claim below.
    }
    wrong = []
    for text, operations in cases.items():
        function, space = read(text), dict[str, Any]()
        assert function is not None
        exec(text, space)  # written here
        found, spent = run(function, 7)
        wrong += [text] if found != space["f"](7) or operations not in (None, spent) else []
    assert not wrong


def test_what_the_variants_cost() -> None:
    off = []
    for text, (each, once) in zip(PROGRAMS, ((4, 1), (3, 3), (2, 4), (0, 7)), strict=True):
        function = read(text)
        assert function is not None
        off += [abs(run(function, n)[1] - (each * n + once)) for n in (0, 1, *SIZES)]
    assert max(off) == 0


def test_the_task() -> None:
    task, wrong, speeds = FasterLoops(), 0, set[float]()
    for number in range(60):
        one = task.scenario("train", number)
        worth = task.verify(one.metadata["demonstration"], one) or 0.0
        speeds.add(worth)
        (reference, base), (_, second) = one.metadata["variants"]
        wrong += worth < 1 or base != 1.0 or second != 1.28 or reference != one.metadata["reference"]
        wrong += split_of(one.metadata["reference"]) != "train" or one.prompt != f"Faster:\n{reference}"
    half = FasterLoops(shown=0.5)
    prompts = [str(half.scenario("train", number).prompt) for number in range(60)]
    telling = [prompt.count("Score ") for prompt in prompts]
    wrong += sorted(set(telling)) != [0, 2] or abs(telling.count(2) / 60 - 0.5) > 0.2
    for prompt in prompts:
        scores = [float(one.partition(":")[0]) for one in prompt.split("Score ")[1:]]
        wrong += scores != sorted(scores) or not set(scores) <= speeds
    wrong += half.name != "faster-loops?shown=0.5" or task.name != "faster-loops"
    unseen_one = task.scenario("eval", 3)
    fast = Trajectory(unseen_one, [_turn(unseen_one.metadata["variants"][1][0])])
    same = Trajectory(unseen_one, [_turn(unseen_one.metadata["reference"])])
    told = [task.describe(one) for one in (fast, same)]
    holds = told == [{"runs": 1.0, "faster": 1.0}, {"runs": 1.0, "faster": 0.0}]
    holds &= [task.success(one) for one in (fast, same)] == [1.0, 0.0]
    holds &= split_of(unseen_one.metadata["reference"]) == "eval"
    assert wrong == 0
    assert holds
    assert len(speeds) == 4


def test_a_slower_program_and_one_that_does_not_end() -> None:
    class Halting(Speedup):
        """A meter that one of the two measurements does not come to its end with."""

        def _ratios(self, reference: Any, program: Any, key: Key) -> list[float] | None:
            return None if key == Key.of(ASKED.seed).derive("measured").derive(1) else [2.0] * ROUNDS

    slow = REFERENCE.replace("  s=s", "  for j in range(n):\n   k=j+i\n  s=s")
    paid = [COUNTED.verify(slow, ASKED), Halting().verify(REFERENCE, ASKED)]
    assert 0 < float(paid[0] or 0) < 0.2
    assert paid[1] == 0.0


def test_settings_that_cannot_be_are_refused() -> None:
    makes = (
        lambda: Speedup(meter="hours"),  # type: ignore[arg-type]
        lambda: Speedup(tolerance=1.0),
        lambda: FasterLoops(shown=2.0),
        lambda: SmoothedReward(most=0.0),
        lambda: Contrastive(samples=0),
        lambda: Contrastive(width=0.0),
        lambda: Contrastive(temperature=0.0),
        lambda: COUNTED.verify("", Scenario("x", "x", metadata={"reference": "print(1)"})),
    )
    refused = 0
    for make in makes:
        try:
            make()
        except hocket.ConfigurationError:
            refused += 1
    assert refused == len(makes)
