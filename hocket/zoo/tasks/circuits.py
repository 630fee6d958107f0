"""Small circuits to be written in Verilog: gates, multiplexers, adders and registers described in a line."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from hocket.agents.tools.verilog import required, simulate
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.markup import without_thoughts
from hocket.core.options import checked
from hocket.rewards.opinions import Opinions
from hocket.stages import Reward, Split
from hocket.tasks.arithmetic import tagged_answer
from hocket.tasks.form import TaskForm
from hocket.tasks.split import split_of
from hocket.tasks.text import TextTask, check_number
from hocket.types import Scenario, Trajectory

Family = Literal["gate", "multiplexer", "adder", "register"]
FAMILIES: tuple[Family, ...] = ("gate", "multiplexer", "adder", "register")

GATES = {"and": "{}&{}", "or": "{}|{}", "xor": "{}^{}", "nand": "~({}&{})", "nor": "~({}|{})", "xnor": "~({}^{})"}
"""Expressions by the word for a gate."""

INPUTS = "abcdefgh"
WIDEST = 4
"""Bits of an adder's inputs."""

PASSING = 0.99
"""A design passes that agrees with the reference on at least this share of vectors."""

_FENCED = re.compile(r"```(?:verilog|v)?[ \t]*\r?\n(.*?)```", re.DOTALL)
_RANDOM = 24
"""Vectors of a register, and random ones where there are too many to try all."""


@dataclass(frozen=True)
class Circuit:
    """A module to write.

    Attributes:
        words: what is asked. inputs: names in the order of the header. width: bits of each input. result: bits of `y`.
        expression: what `y` is. clocked: whether it is so from each rising edge of `clk` on.
    """

    words: str
    inputs: str
    width: int
    result: int
    expression: str
    clocked: bool = False

    @property
    def header(self) -> str:
        """The first line of its module."""
        bits, wide = (f"[{n - 1}:0]" if n > 1 else " " for n in (self.width, self.result))
        clock, reg = ("input clk,", " reg") if self.clocked else ("", "")
        return f"module top({clock}input{bits}{','.join(self.inputs)},output{reg}{wide}y);"

    @property
    def module(self) -> str:
        """The reference."""
        body = f"always@(posedge clk)y<={self.expression};" if self.clocked else f"assign y={self.expression};"
        return f"{self.header}{body}endmodule"

    def bench(self, key: Key) -> str:
        """A testbench: prints `y` after each of the vectors tried, for a register also before each edge of the clock.

        All vectors where there are at most 64, else corners (all bits 0, all 1, one 1, one 0) and random ones; of a
        register random ones.
        """
        bits = self.width * len(self.inputs)
        parts = [f".{name}(v[{(n + 1) * self.width - 1}:{n * self.width}])" for n, name in enumerate(self.inputs)]
        ports = ",".join([*parts, ".y(y)", *([".clk(clk)"] if self.clocked else [])])
        tried = [f"v={bits}'d{vector};{self._seen()}" for vector in self._vectors(bits, key)]
        return (
            f"module bench;reg [{bits - 1}:0] v;reg clk;wire [{self.result - 1}:0] y;top dut({ports});\n"
            f"initial begin clk=0;\n{chr(10).join(tried)}\n$finish;end endmodule\n"
        )

    def _seen(self) -> str:
        show = '#1 $display("%b",y);'
        return f"{show}clk=1;{show}clk=0;" if self.clocked else show

    def _vectors(self, bits: int, key: Key) -> list[int]:
        drawn = key.numpy().integers(1 << bits, size=_RANDOM).tolist()
        if self.clocked:
            return list(drawn)
        if bits <= 6:
            return list(range(1 << bits))
        full = (1 << bits) - 1
        ones = [1 << place for place in range(bits)]
        return [0, full, *ones, *(full ^ bit for bit in ones), *drawn]


def draw_circuit(rng: np.random.Generator, families: Sequence[Family] = FAMILIES) -> Circuit:
    """One of a family, its inputs and what is done to them."""
    family = families[int(rng.integers(len(families)))]
    names = "".join(INPUTS[place] for place in rng.permutation(len(INPUTS))[:3])
    first, second, third = list(names)
    if family == "adder":
        width, plus = int(rng.integers(1, WIDEST + 1)), rng.random() < 0.5
        words = f"y is {first} {'plus' if plus else 'minus'} {second}, {width} bit"
        return Circuit(words, names[:2], width, width + plus, f"{first}{'+' if plus else '-'}{second}")
    negated = _drawn(rng)
    inputs = ["not " * no + name for no, name in zip(negated, names[:2], strict=True)]
    terms = ["~" * no + name for no, name in zip(negated, names[:2], strict=True)]
    if family == "multiplexer":
        words = f"y is {inputs[0]} if {third} else {inputs[1]}"
        return Circuit(words, names, 1, 1, f"{third}?{terms[0]}:{terms[1]}")
    gate = list(GATES)[int(rng.integers(len(GATES)))]
    words, clocked = f"y is {inputs[0]} {gate} {inputs[1]}", family == "register"
    return Circuit(words + " at clk" * clocked, names[:2], 1, 1, GATES[gate].format(*terms), clocked)


def _drawn(rng: np.random.Generator) -> list[bool]:
    """Whether each of two inputs is negated."""
    return [bool(flag) for flag in rng.random(2) < 0.3]


def verilog_of(text: str) -> str | None:
    """The design in an answer: what stands between answer tags, of fenced blocks the last; None without either."""
    answer = without_thoughts(text)
    tagged = tagged_answer(answer)
    blocks = _FENCED.findall(answer if tagged is None else tagged)
    return str(blocks[-1]) if blocks else tagged


@dataclass(frozen=True)
class DesignCheck:
    """Whether a design compiles by itself, and on which share of vectors it agrees with the reference."""

    compiles: bool
    share: float

    @property
    def passes(self) -> bool:
        """Whether it passes its testbench."""
        return self.share >= PASSING


def examine(design: str, reference: str, bench: str) -> DesignCheck:
    """Simulates a design and the reference with a testbench; see `hocket.agents.tools.verilog.simulate`.

    Vectors for which the reference tells nothing (`x`, a register before its first edge) are not counted. What the
    reference prints is no part of the run of the design.
    """
    wanted, simulated = simulate(reference, bench).printed, simulate(design, bench)
    known = [(place, line) for place, line in enumerate(wanted) if set(line) <= {"0", "1"}]
    agreed = len(simulated.printed) == len(wanted) and sum(simulated.printed[place] == line for place, line in known)
    return DesignCheck(simulated.compiles, agreed / max(len(known), 1))


def examined(text: str, scenario: Scenario) -> DesignCheck | None:
    """What came of an answer; None where the scenario has no reference and testbench."""
    metadata = scenario.metadata
    if not metadata.get("reference") or not metadata.get("testbench"):
        return None
    design = verilog_of(text)
    return DesignCheck(False, 0.0) if design is None else examine(design, metadata["reference"], metadata["testbench"])


@dataclass(frozen=True)
class VectorAgreement(Reward):
    """The share of test vectors on which the Verilog in an answer agrees with `scenario.metadata["reference"]`.

    Both are simulated with `metadata["testbench"]`. None where the scenario has neither; 0 for what does not compile.

    Attributes:
        grading: `share` of the vectors, or `all` (at least `PASSING` of them) or nothing.
    """

    grading: Literal["share", "all"] = "all"
    name: str = "testbench"
    weight: float = 1.0

    def __post_init__(self) -> None:
        if self.grading not in ("share", "all"):
            raise ConfigurationError(f"grading must be share or all, not {self.grading!r}")

    async def __call__(self, trajectories: Sequence[Trajectory], *, key: Key) -> Opinions:
        grades = (asyncio.to_thread(self.verify, each.answer, each.scenario) for each in trajectories)
        return Opinions(await asyncio.gather(*grades))

    def verify(self, text: str, scenario: Scenario) -> float | None:
        """The grade of one answer."""
        check = examined(text, scenario)
        return None if check is None else check.share if self.grading == "share" else float(check.passes)


class Circuits(TextTask):
    """Modules `top` with output `y`, simulated with a testbench beside a reference.

    A scenario's metadata hold `reference`, `testbench` and `demonstration`: the expression as thought, and the module.
    Train and eval differ in what is asked.

    Args:
        family: gate, multiplexer, adder or register; any of them when None. grading: the reward, `all` or `share`.
    """

    def __init__(self, family: Family | None = None, grading: Literal["share", "all"] = "all") -> None:
        if family is not None and family not in FAMILIES:
            raise ConfigurationError(f"task circuits: family must be one of {', '.join(FAMILIES)}, not {family!r}")
        settings: dict[str, str] = {"family": family} if family else {}
        settings |= {"grading": grading} if grading != "all" else {}
        self.name = "circuits" + "".join(f"{'&' if n else '?'}{k}={v}" for n, (k, v) in enumerate(settings.items()))
        self.families = FAMILIES if family is None else (family,)
        self._reward = VectorAgreement(grading)

    def scenario(self, split: Split, number: int) -> Scenario:
        check_number(self.name, split, number)
        key = Key.of(0).derive("circuits", *self.families, split, number)
        rng = key.numpy()
        while split_of((circuit := draw_circuit(rng, self.families)).words) != split:
            pass
        metadata = {
            "reference": circuit.module,
            "testbench": circuit.bench(key.derive("vectors")),
            "demonstration": f"<think>{circuit.expression}</think><answer>{circuit.module}</answer>",
        }
        return Scenario(f"circuits/{split}/{number}", f"Verilog: {circuit.words}", metadata=metadata, seed=number)

    @property
    def rewards(self) -> Sequence[Reward]:
        return (self._reward,)

    def suggest(self, recipe: Any) -> Mapping[str, Any]:
        return {**super().suggest(recipe), "decoding.max_tokens": 112}

    def verify(self, text: str, scenario: Scenario) -> float | None:
        return self._reward.verify(text, scenario)

    def describe(self, trajectory: Trajectory) -> Mapping[str, float]:
        """`compiles`: whether the design does; `agrees`: the share of vectors on which it is right."""
        check = examined(trajectory.answer, trajectory.scenario) or DesignCheck(False, 0.0)
        return {"compiles": float(check.compiles), "agrees": check.share}

    def label(self, trajectory: Trajectory) -> str | None:
        """Designs have no word by which they agree."""
        return None

    def success(self, trajectory: Trajectory) -> float:
        """1 if the testbench passes."""
        check = examined(trajectory.answer, trajectory.scenario)
        return float(check is not None and check.passes)


def from_settings(name: str, settings: Mapping[str, str]) -> Circuits:
    """The task with these settings; `ConfigurationError` without a simulator."""
    required()
    return Circuits(**checked(name, settings, {"family": str | None, "grading": str}))


CIRCUITS = TaskForm(
    name="circuits",
    description="small modules to be written in Verilog, simulated with a testbench, e.g. circuits?family=gate",
    family="words",
    make=from_settings,
)
