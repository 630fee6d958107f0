"""What multirole-r1 claims."""

from __future__ import annotations

import itertools
from dataclasses import replace

import torch

from hocket.lab.bench import Bench
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.microscope import look
from hocket.lab.toys.agreeing_rewards import TREES, four_right
from hocket.lab.toys.rewarded import SEEDS, document, line, said, shaped
from hocket.lab.world import Answer, World
from hocket.methods.base.grpo import GRPO
from hocket.methods.group_relative.multirole_r1 import MULTIROLE_R1, distinct_n, roles_of

claim = Claims("multirole-r1", "arXiv:2507.20187; terms chosen here")


VIEWS = ("As a teacher:", "As a parent:", "As a mayor:", "As a nurse:")
REMARKS = ("this seems fair to me", "costs matter here too", "time is short", "people differ")


def opinions() -> World:
    """Four stakeholders ask; three lines of thought, each a role's heading or a remark, and the answer that suits."""

    def text(question: int, answer: Answer) -> str:
        lines = [(VIEWS[token] + f" {REMARKS[token]}") if token < 4 else REMARKS[token - 2] for token in answer[:-1]]
        return "\n".join([*lines, f"<answer>{answer[-1] % 4}</answer>"])

    return World(
        questions=4,
        tokens=6,
        horizon=4,
        context="last",
        reward=lambda question, answer: float(answer[-1] % 4 == question),
        text=text,
    )


def roles(bench: Bench) -> float:
    """Expected number of different roles in a chain."""
    return bench.expected(lambda question, answer: float(len(roles_of(bench.world.written(question, answer)))))


def variety(bench: Bench) -> float:
    """Expected distinct-2 of a chain."""
    return bench.expected(lambda question, answer: distinct_n(bench.world.written(question, answer)))


@claim("with w = 0 it is plain GRPO bit for bit")
def weight_zero_is_grpo() -> Finding:
    """In the microscope, and after five steps of training."""
    rows = [said("q", VIEWS[n % 4] + " yes", float(n % 2)) for n in range(6)]
    bare = MULTIROLE_R1.but({"shaping.0.weight": 0.0})
    same = {**look(bare, document(rows)), "recipe": ""} == {**look(GRPO, document(rows)), "recipe": ""}
    world = replace(four_right(), text=lambda question, answer: VIEWS[answer[0] % 4] + TREES[answer[0] // 2])
    tables = [
        Bench(world, recipe, seed=1).run(5, every=5).policy.logits.detach() for recipe in (bare, GRPO, MULTIROLE_R1)
    ]
    return Finding(
        same and torch.equal(tables[0], tables[1]) and not torch.equal(tables[0], tables[2]),
        f"microscope equal: {same}; weights after 5 steps equal bit for bit: {torch.equal(tables[0], tables[1])}",
    )


@claim("the shaped reward counts roles and distinct bigrams")
def shaped_reward_is_counted_right() -> Finding:
    """One text, counted by hand."""
    text = "As a teacher: yes yes yes\nRole: parent: no\n<answer>1</answer>"
    words = ["as", "a", "teacher", "yes", "yes", "yes", "role", "parent", "no", "answer", "1", "answer"]
    share = len(set(itertools.pairwise(words))) / (len(words) - 1)
    wanted = 1.0 + 0.2 * (0.5 * 2 / 3 + 0.5 * share)
    found = shaped(MULTIROLE_R1, [said("q", text, 1.0)])[0]
    return Finding(abs(found - wanted) < 1e-12, f"{found:.6f} for two roles of three and distinct-2 {share:.3f}")


@claim("more roles per chain and more distinct bigrams at no loss of accuracy", slow=True)
def more_roles() -> Finding:
    """GRPO and MultiRole-R1 from one start."""
    world, steps = opinions(), 120
    runs = {
        recipe.name: [Bench(world, recipe, seed=seed).run(steps, every=steps) for seed in SEEDS]
        for recipe in (GRPO, MULTIROLE_R1)
    }
    plain, varied = runs["grpo"], runs["multirole-r1"]
    named = [[roles(bench) for bench in side] for side in (varied, plain)]
    spread = [[variety(bench) for bench in side] for side in (varied, plain)]
    right = [[bench.success() for bench in side] for side in (varied, plain)]
    return Finding(
        min(named[0]) > max(named[1]) + 0.3
        and min(spread[0]) > max(spread[1]) + 0.01
        and sum(right[0]) / 5 >= sum(right[1]) / 5 - 0.02,
        f"roles per chain {line(named[0])} against {line(named[1])}; distinct-2 {line(spread[0])} against "
        f"{line(spread[1])}; accuracy {line(right[0])} against {line(right[1])}",
    )
