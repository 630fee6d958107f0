"""VeriPrefer's claims. Those that simulate need Icarus Verilog, and are slow for that reason alone."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from statistics import fmean
from typing import Any

import numpy as np

from hocket.core.keys import Key
from hocket.lab.bench import Bench
from hocket.lab.claims.harness import EXACT, Claims, Finding, batches, below, inspect_rows, say
from hocket.lab.policy import Tabular
from hocket.lab.toys.instances import Instances, nothing
from hocket.lab.world import Answer
from hocket.methods.agents.rrhf_code_optimization import BestLikelihood
from hocket.methods.agents.veriprefer import VERIPREFER
from hocket.rollout.demonstrations import Ranked
from hocket.zoo.tasks.circuits import FAMILIES, Circuit, VectorAgreement, draw_circuit, examine

claim = Claims("veriprefer", "arXiv:2504.15804")


@claim("Loss is -log sigmoid of 0.1 times the difference of log-ratios, of the best against the worst of each group.")
def loss_is_log_sigmoid_of_0_1_times_the_difference_of_log_ratios() -> Finding:
    gaps = []
    for document in batches(12, "veriprefer", samples=4, graded=True):
        rows, losses = document["trajectories"], list[float]()
        for group in dict.fromkeys(row["group"] for row in rows):
            mine = sorted((r for r in rows if r["group"] == group), key=lambda row: float(row["scores"]["reward"]))
            worst, best = (sum(row["logp"]) - sum(row["logp_ref"]) for row in (mine[0], mine[-1]))
            losses.append(math.log1p(math.exp(-0.1 * (best - worst))))
        gaps.append(abs(inspect_rows(VERIPREFER, rows)["loss"] - fmean(losses)))
    return below(EXACT, off=max(gaps))


@claim("Every pair has a strictly better winner; specifications whose designs all do alike give none.")
def every_pair_has_a_strictly_better_winner_specifications_whose() -> Finding:
    pairs = leads = 0
    for number in range(40):
        draw = Key.of(number).derive("shares").numpy()
        shares = draw.choice([0.0, 0.5, 1.0], size=(4, 3)).tolist()
        rows = [
            {"group": f"{group}", "scores": {"reward": share}, "logp": [-1.0], "logp_ref": [-1.0]}
            for group, members in enumerate(shares)
            for share in members
        ]
        differing = sum(len(set(members)) > 1 for members in shares)
        if not differing:
            continue
        flat = [share for members in shares for share in members]
        slopes = [sum(row) for row in inspect_rows(VERIPREFER, rows)["gradient"]]
        chosen, rejected = ([n for n, s in enumerate(slopes) if sign * s < 0] for sign in (1, -1))
        if len(chosen) != differing or len(rejected) != differing:
            return Finding(False, say(chosen=len(chosen), rejected=len(rejected), differing=differing))
        pairs += differing
        leads += sum(
            flat[good] > flat[bad] for good, bad in zip(chosen, rejected, strict=True) if good // 3 == bad // 3
        )
    # What decides is the share of vectors, and its weight no more than the order of its values.
    shipped = VERIPREFER.rewards == (VectorAgreement("share", weight=1.0),)
    return Finding(shipped and leads == pairs > 100, say(pairs=pairs, strictly_better=leads))


# ---------------------------------------------------------------- with the simulator

SWAPS = (("&", "|"), ("|", "^"), ("^", "&"), ("+", "-"), ("-", "+"), ("?", "?~"), ("=~", "="), ("posedge", "negedge"))


def mutants(circuit: Circuit) -> Iterator[str]:
    """A module with one thing changed each: a sign, a negation, an input for another, an edge, a bit less."""
    head, _, rest = circuit.module.partition(";")
    for old, new in SWAPS:
        if old in rest:
            yield f"{head};{rest.replace(old, new, 1)}"
    first, second = circuit.inputs[0], circuit.inputs[1]
    body = re.sub(rf"=(.*?)(?<!\w){first}(?!\w)", rf"=\g<1>{second}", rest, count=1)
    if body != rest:
        yield f"{head};{body}"
    yield circuit.module.replace(f"={circuit.expression};", f"=~({circuit.expression});")
    if circuit.result > 1:
        yield circuit.module.replace(f"[{circuit.result - 1}:0]y", " y")


@claim(
    "Generated testbenches accept every reference and kill at least 80% of modules with one thing changed.", slow=True
)
def generated_testbenches_accept_every_reference_and_kill_at_least() -> Finding:
    killed, accepted = dict[str, list[bool]](), list[bool]()
    for family in FAMILIES:
        for number in range(12):
            key = Key.of(number).derive(family)
            circuit = draw_circuit(key.numpy(), (family,))
            bench = circuit.bench(key.derive("vectors"))
            accepted.append(examine(circuit.module, circuit.module, bench).share == 1.0)
            for changed in mutants(circuit):
                seen = examine(changed, circuit.module, bench)
                killed.setdefault(family, []).append(seen.compiles and not seen.passes)
    shares = {family: fmean(found) for family, found in killed.items()}
    figures = say(references=len(accepted), mutants=sum(map(len, killed.values())), killed=shares)
    return Finding(all(accepted) and min(shares.values()) >= 0.8, figures)


OPERANDS, SIGNS = ("a", "b", "~a", "~b"), ("&", "|", "^", "")
GATES: tuple[Answer, ...] = ((0, 0, 1), (2, 1, 1), (0, 2, 3), (3, 0, 2))
"""An operand, a sign, an operand; the fourth sign is none, and does not compile."""


def module_of(answer: Answer) -> str:
    """The design that an answer spells."""
    first, sign, second = answer
    return f"module top(input a,b,output y);assign y={OPERANDS[first]}{SIGNS[sign]}{OPERANDS[second]};endmodule"


BENCH = Circuit("", "ab", 1, 1, "").bench(Key.of(0))


def share(question: int, answer: Answer) -> float:
    """What the testbench says of a design."""
    return examine(module_of(answer), module_of(GATES[question]), BENCH).share


def imitated(policy: Tabular) -> None:
    """A policy that has begun to imitate: the right piece has about the double chance."""
    for question, answer in enumerate(GATES):
        for place, piece in enumerate(answer):
            policy.logits[policy.row(question, answer[:place])][piece] += LEAN


LEAN = 0.7


def drawn(question: int, key: Key) -> Answer:
    """A sample of that policy."""
    rng, said = key.numpy(), list[int]()
    for place, piece in enumerate(GATES[question]):
        odds = np.ones(len(OPERANDS))
        odds[piece] = math.exp(LEAN) if tuple(said) == GATES[question][:place] else 1.0
        said.append(int(rng.choice(len(OPERANDS), p=odds / odds.sum())))
    return tuple(said)


def recorded(seed: int, rounds: int = 20) -> Instances:
    """Eight samples for each member of `GATES`, `rounds` times, drawn once from the policy that begins, and judged."""
    told = list[dict[str, Any]]()
    for number in range(rounds * len(GATES)):
        question = number % len(GATES)
        said = [drawn(question, Key.of(seed).derive("drawn", number, sample)) for sample in range(8)]
        told.append({"question": question, "responses": said, "scores": [share(question, one) for one in said]})
    return Instances(
        *(len(GATES), len(OPERANDS), 3, nothing),
        correct=lambda question, answer: float(share(question, answer) == 1.0),
        count=len(told),
        about=lambda number: told[number],
    )


STEPS = 150
OFFLINE = VERIPREFER.but({"rollout": Ranked(), "rewards": ()})
WINNERS = OFFLINE.but({"objective": BestLikelihood(aggregate="sequence-sum")})


@claim("On samples drawn once more designs pass than at the start, and than by imitation of the winners.", slow=True)
def on_samples_drawn_once_more_designs_pass_than_at_the_start_and() -> Finding:
    passing, start = dict[str, list[float]](), 0.0
    for name, recipe in (("pairs", OFFLINE), ("winners", WINNERS)):
        worlds = [recorded(seed) for seed in range(2, 5)]
        start = Bench(worlds[0], recipe, seed=0, start=imitated).success()
        benches = (Bench(w, recipe, seed=n, steps=STEPS, prompts=16, start=imitated) for n, w in enumerate(worlds))
        passing[name] = [bench.run(STEPS, every=STEPS).success() for bench in benches]
    leads = [ours - theirs for ours, theirs in zip(passing["pairs"], passing["winners"], strict=True)]
    holds = min(leads) > 0.05 and min(passing["pairs"]) > start + 0.2
    return Finding(holds, say(start=start, passing=passing, leads_on_the_same_samples=leads))


claim.shipped(
    VERIPREFER,
    "rewards",
    without={"rewards": ()},
    task="circuits?family=gate",
    first={"recipe": "sft", "steps": 40, "update.lr": 0.003},
)
