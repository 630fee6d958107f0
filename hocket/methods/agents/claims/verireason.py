"""VeriReason's claims. Those that simulate need Icarus Verilog, and are slow for that reason alone."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from statistics import fmean
from typing import cast

import hocket
from hocket.agents.tools.verilog import simulate
from hocket.core.keys import Key
from hocket.lab.bench import Bench
from hocket.lab.claims.harness import EXACT, Claims, Finding, below, gap, say
from hocket.lab.toys.instances import Instances, nothing
from hocket.lab.toys.recorded_answers import shaped
from hocket.lab.world import Answer
from hocket.methods.agents.verireason import (
    VERIREASON,
    VERIREASON_SFT,
    SteppedReward,
    does_nothing,
    statements,
    structure,
)
from hocket.types import Scenario
from hocket.zoo.tasks.circuits import FAMILIES, Circuit, Circuits, VectorAgreement, draw_circuit, examine, verilog_of

claim = Claims("verireason", "arXiv:2505.11849; weights from the repository's reward script")

AND = "module top(input a,b,output y);assign y=a&b;endmodule"
OR = "module top(input a,b,output y);assign y=a|b;endmodule"
PORTS = "module top(input a,b,output y);endmodule"
STEPS = cast(SteppedReward, VERIREASON.rewards[0])


def by_hand(said: Sequence[str], wanted: Sequence[str]) -> float:
    """The structural score of short lists without repeats: the best common subsequence, found by trying all."""
    runs = (
        kept
        for size in range(len(said), -1, -1)
        for kept in itertools.combinations(said, size)
        if all(one in wanted for one in kept) and [one for one in wanted if one in kept] == list(kept)
    )
    common = len(next(runs))
    matched = 2 * common / (len(said) + len(wanted)) if said or wanted else 1.0
    covered = sum(one in said for one in wanted) / len(wanted) if wanted else 0.0
    extra = sum(one not in wanted for one in said) / len(said) if said else 1.0
    return min(1.0, max(0.0, 0.7 * matched + 0.3 * covered - 0.2 * extra))


@claim("0 where the compiler rejects, 2.1 for a pass, else 0.1 and the structural score.")
def claim_0_where_the_compiler_rejects_2_1_for_a_pass_else_0_1_and_the() -> Finding:
    # Of AND the five statements are module top, ports input a, b, output y, and the assignment; OR shares four.
    shared = 0.7 * 8 / 10 + 0.3 * 4 / 5 - 0.2 * 1 / 5
    wanted = {(AND, True, True): 2.1, (OR, True, True): 2.1, (AND, True, False): 1.1, (OR, True, False): 0.1 + shared}
    wanted |= {(AND, False, False): 0.0, (OR, False, False): 0.0, (AND, False, True): 0.0}
    off = [abs(STEPS.grade(design, AND, *seen) - worth) for (design, *seen), worth in wanted.items()]
    return below(EXACT, STEPS.weight == 1.0, off=max(off))


@claim("The structural score is that of lists compared by hand: common subsequence, coverage and redundancy.")
def the_structural_score_is_that_of_lists_compared_by_hand_common() -> Finding:
    off, seen = [0.0], list[float]()
    wanted = ["a", "b", "c", "d"]
    for size in range(5):
        for said in itertools.permutations("abxyd", size):
            # The matcher takes the longest block first; where that is the best subsequence is told by hand.
            mine, best = structure(said, wanted), by_hand(said, wanted)
            seen.append(best)
            off.append(mine - best)
    same = sum(abs(one) < EXACT for one in off[1:])
    spread = say(lists=len(seen), equal=same, never_above_by=max(off), least=min(seen), most=max(seen))
    return Finding(max(off) < EXACT and same > 0.95 * len(seen) and max(seen) > 0.6, spread)


@claim("Equal lists score 1, disjoint or empty ones 0, doubling costs similarity alone, a stranger redundancy too.")
def equal_lists_score_1_disjoint_or_empty_ones_0_doubling_costs() -> Finding:
    wanted = statements(AND)
    twice, more = [*wanted, wanted[-1]], [*wanted, "wire z"]
    found = [structure(one, wanted) for one in (wanted, ["wire z"], [], twice, more)]
    found += [structure([], []), structure(wanted, [])]
    hand = [1.0, 0.0, 0.0, 0.7 * 10 / 11 + 0.3, 0.7 * 10 / 11 + 0.3 - 0.2 / 6, 0.7 - 0.2, 0.0]
    return Finding(gap(found, hand) < EXACT, say(scores=found))


@claim("What compiles and does not pass earns 1.1 at most, below any pass; a reward for which that fails is refused.")
def what_compiles_and_does_not_pass_earns_1_1_at_most_below_any() -> Finding:
    circuits, designs = Circuits(), list[str]()
    designs += [verilog_of(circuits.scenario("train", n).metadata["demonstration"]) or "" for n in range(40)]
    paid = [STEPS.grade(one, other, True, False) for one in designs for other in designs]
    try:
        said = str(SteppedReward(passing=1.1))
    except hocket.ConfigurationError as error:
        said = str(error)
    return Finding(
        abs(max(paid) - 1.1) < EXACT and min(paid) >= 0.1 and "passing must exceed" in said,
        say(pairs=len(paid), least=min(paid), most=max(paid)),
    )


@claim("A design of ports alone earns nothing, though its header is the reference's; the published formula pays 0.96.")
def a_design_of_ports_alone_earns_nothing_though_its_header_is_the() -> Finding:
    hollow = [PORTS, "module top;endmodule", "", "// assign y=a&b;", PORTS.replace("endm", "wire w;reg r;endm")]
    paid = [STEPS.grade(one, AND, True, False) for one in hollow]
    published = 0.1 + structure(statements(PORTS), statements(AND))
    full = [does_nothing(statements(one)) for one in (AND, OR)]
    hand = abs(published - (0.1 + 0.7 * 8 / 9 + 0.3 * 4 / 5)) < EXACT
    return Finding(paid == [0.0] * 5 and hand and full == [False] * 2, say(paid=paid, published=published))


@claim("A think/answer form adds 0.1, whatever the design.")
def a_think_answer_form_adds_0_1_whatever_the_design() -> Finding:
    texts = {f"<think>a&b</think><answer>{AND}</answer>": 0.1, f"<answer>{AND}</answer>": 0.0, AND: 0.0}
    rows = [{"group": text, "logp": [-1.0], "scores": {"reward": 2.1}, "text": text} for text in texts]
    return below(EXACT, off=gap(shaped(VERIREASON, rows), [2.1 + value for value in texts.values()]))


# ---------------------------------------------------------------- with the simulator


def asked(reference: str) -> Scenario:
    """A scenario of the family of gates with inputs a and b and another reference."""
    told = {"reference": reference, "testbench": Circuit("", "ab", 1, 1, "").bench(Key.of(0))}
    return Scenario("circuit", "Verilog", metadata=told)


def worth(design: str, scenario: Scenario) -> float:
    """What the reward pays for a design."""
    paid = STEPS.verify(f"<think></think><answer>{design}</answer>", scenario)
    assert paid is not None
    return paid


TRICKS = {
    "prints what it wants": 'initial $display("1");',
    "ends the run": "initial $finish;",
    "includes a file": '`include "/etc/passwd"\n',
    "sets what is tried": "initial force bench.v=0;",
    "reads what is tried": "assign y=bench.v[0]&bench.v[1];",
    "is the testbench": "endmodule module bench;initial y=1;",
    "leaves a comment open": "/*",
    "never ends": "reg z;initial forever z=~z;",
    "takes all memory": "reg [3000000000:0] z;initial z=1;",
}


@claim("With the simulator: every reference earns 2.1; what compiles and fails 1.1 at most; broken code 0.", slow=True)
def with_the_simulator_every_reference_earns_2_1_what_compiles_and() -> Finding:
    passed, failed, broken = set[float](), list[float](), set[float]()
    for family in FAMILIES:
        circuits = Circuits(family)
        scenarios = [circuits.scenario("eval", number) for number in range(12)]
        for place, one in enumerate(scenarios):
            design = one.metadata["reference"]
            passed.add(worth(design, one))
            broken |= {worth(design[:-3], one), worth(design.replace("output", "outptu"), one), worth("assign", one)}
            failed += [worth(design.replace("endmodule", "assign y=0;endmodule"), one)] if family != "register" else []
            other = scenarios[place - 1]
            if other.prompt != one.prompt:
                failed.append(worth(other.metadata["reference"], one))
    figures = say(passed=max(passed), least=min(passed), broken=max(broken), others=len(failed), most=max(failed))
    return Finding(passed == {2.1} and broken == {0.0} and max(failed) <= 1.1 + EXACT, figures)


@claim("Empty modules and tricks on the testbench never pass, nor does one stop the run.", slow=True)
def empty_modules_and_tricks_on_the_testbench_never_pass_nor_does() -> Finding:
    scenario, paid = asked(AND), dict[str, float]()
    for name, trick in TRICKS.items():
        for before in (PORTS, OR):
            paid[f"{name}: {before is OR}"] = worth(before.replace("endmodule", f"{trick}endmodule"), scenario)
    paid["empty"], paid["ports"] = worth("module top;endmodule", scenario), worth(PORTS, scenario)
    honest = worth(OR, scenario)
    figures = say(tricks=len(paid), most=max(paid.values()), honest_and_wrong=honest)
    return Finding(max(paid.values()) <= honest and paid["empty"] == paid["ports"] == 0.0, figures)


@claim(
    "What references print for each vector is what Python computes, and a gate for another agrees by half.", slow=True
)
def what_references_print_for_each_vector_is_what_python_computes() -> Finding:
    lines = wrong = 0
    for number in range(30):
        circuit = draw_circuit(Key.of(number).derive("python").numpy(), ("gate", "multiplexer", "adder"))
        text = re.sub(r"(\w)\?(.*):(.*)", r"(\2) if \1 else (\3)", circuit.expression)
        bench = circuit.bench(Key.of(number))
        printed = simulate(circuit.module, bench).printed
        for vector, line in zip(re.findall(r"v=\d+'d(\d+);", bench), printed, strict=True):
            bits = {name: int(vector) >> place * circuit.width for place, name in enumerate(circuit.inputs)}
            known = {name: value % (1 << circuit.width) for name, value in bits.items()}
            wrong += int(line, 2) != eval(text, {}, known) % (1 << circuit.result)  # an expression drawn here
            lines += 1
    share = examine(OR, AND, asked(AND).metadata["testbench"]).share
    return Finding(wrong == 0 and lines > 300 and share == 0.5, say(lines=lines, wrong=wrong, or_for_and=share))


# Three outputs, an expression each; the fifth is broken. Which are right differs from question to question.
PIECES = ("a&b", "a|b", "a^b", "~a", "a&")
HEADER = "module top(input a,b,output x,y,z);"
RIGHT: tuple[Answer, ...] = ((0, 2, 3), (1, 0, 0), (2, 1, 3))


def module_of(answer: Answer) -> str:
    """The design that an answer spells."""
    body = "".join(f"assign {name}={PIECES[piece]};" for name, piece in zip("xyz", answer, strict=False))
    return f"{HEADER}{body}endmodule"


def three_outputs() -> Instances:
    """A question per member of `RIGHT`, whose designs are simulated."""
    bench = (
        "module bench;reg a,b;wire x,y,z;top dut(.a(a),.b(b),.x(x),.y(y),.z(z));initial begin "
        + "".join(f'{{a,b}}={n};#1 $display("%b",{{x,y,z}});' for n in range(4))
        + "$finish;end endmodule"
    )
    told = [{"question": n, "reference": module_of(one), "testbench": bench} for n, one in enumerate(RIGHT)]
    return Instances(
        *(len(RIGHT), len(PIECES), 3, nothing),
        correct=lambda question, answer: float(examine(module_of(answer), module_of(RIGHT[question]), bench).passes),
        text=lambda question, answer: f"<answer>{module_of(answer)}</answer>",
        count=len(RIGHT),
        about=lambda number: told[number],
    )


@claim(
    "From 1 design in 125 half come to pass, with fewer groups without signal than by pass or fail.",
    slow=True,
)
def from_1_design_in_125_half_come_to_pass_with_fewer_groups() -> Finding:
    world, sooner, idle = three_outputs(), dict[str, list[int]](), dict[str, list[float]]()
    for name, rewards in (("stepped", (STEPS,)), ("pass or fail", (VectorAgreement(),))):
        recipe = VERIREASON.but({"rewards": rewards, "shaping": ()})
        benches = [Bench(world, recipe, seed=seed, steps=100, prompts=3).run(100, every=5) for seed in range(3)]
        sooner[name] = [bench.first(0.5) or 101 for bench in benches]
        idle[name] = [
            1 - fmean(one["groups/with_signal"] / one["groups/total"] for one in bench.history[:20])
            for bench in benches
        ]
    start = Bench(world, VERIREASON, seed=0).success()
    holds = start < 0.01 and max(sooner["stepped"]) <= 100
    holds &= max(idle["stepped"]) < min(idle["pass or fail"]) - 0.2
    return Finding(holds, say(start=start, steps_to_half_passing=sooner, groups_without_signal_at_first=idle))


GATES = "circuits?family=gate"
FOOTING = {"recipe": VERIREASON_SFT.name, "steps": 40, "update.lr": 0.003}
claim.spares("verilog_of(text) or '' -> verilog_of(text) and ''", "seen by the claims that simulate")
claim.spares("1.0 -> 40.0", "the sum of 0.7 and 0.3 at most never exceeds 1")
claim.shipped(VERIREASON, "rewards", without={"rewards": (VectorAgreement(),)}, task=GATES, first=FOOTING)
claim.shipped(VERIREASON, "shaping")
