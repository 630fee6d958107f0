"""MultiRole-R1's claims."""

from __future__ import annotations

import itertools
from dataclasses import replace
from statistics import fmean

import torch

from hocket.lab.bench import Bench
from hocket.lab.claims.harness import EXACT, Claims, Finding, below, each, inspect_rows, runs, say
from hocket.lab.toys.instances import TREES, four_right
from hocket.lab.toys.rewarded import lines, said, shaped
from hocket.lab.world import Answer, World
from hocket.methods.base.grpo import GRPO
from hocket.methods.group_relative.multirole_r1 import MULTIROLE_R1, distinct_n, roles_of

claim = Claims("multirole-r1", "arXiv:2507.20187; terms chosen here")
VIEWS = ("As a teacher:", "As a parent:", "As a mayor:", "As a nurse:")
REMARKS = ("this seems fair to me", "costs matter here too", "time is short", "people differ")


def opinions(question: int, answer: Answer) -> str:
    """Three lines of thought, each a role's heading or a remark, and an answer."""
    lines = [(VIEWS[token] + f" {REMARKS[token]}") if token < 4 else REMARKS[token - 2] for token in answer[:-1]]
    return "\n".join([*lines, f"<answer>{answer[-1] % 4}</answer>"])


@claim("with w = 0 it is plain GRPO bit for bit")
def _() -> Finding:
    rows = [said("q", VIEWS[n % 4] + " yes", float(n % 2)) for n in range(6)]
    bare = MULTIROLE_R1.but({"shaping.0.weight": 0.0})
    same = {**inspect_rows(bare, rows), "recipe": ""} == {**inspect_rows(GRPO, rows), "recipe": ""}
    world = replace(four_right(), text=lambda question, answer: VIEWS[answer[0] % 4] + TREES[answer[0] // 2])
    made = (Bench(world, recipe, seed=1).run(5, every=5) for recipe in (bare, GRPO, MULTIROLE_R1))
    own, plain, shaped_too = (bench.policy.logits.detach() for bench in made)
    equal = torch.equal(own, plain)
    return Finding(same and equal and not torch.equal(own, shaped_too), say(microscope=same, weights_after_5=equal))


@claim("the shaped reward counts roles and distinct bigrams")
def _() -> Finding:
    text = "As a teacher: yes yes yes\nRole: parent: no\n<answer>1</answer>"
    words = ["as", "a", "teacher", "yes", "yes", "yes", "role", "parent", "no", "answer", "1", "answer"]
    share = len(set(itertools.pairwise(words))) / (len(words) - 1)
    (value,) = shaped(MULTIROLE_R1, [said("q", text, 1.0)])
    error = abs(value - (1.0 + 0.2 * (0.5 * 2 / 3 + 0.5 * share)))
    return Finding(below(EXACT, error=error).holds, say(reward=f"{value:.6f}", distinct_2=share, roles="two of three"))


@claim("three roles are enough, a text of one word has no bigrams, and without a text there is nothing")
def _() -> Finding:
    texts = ["As a teacher: a\nAs a parent: b\nAs the mayor: c\nRole: cook: d", "yes", "", "yes no"]
    earned = shaped(MULTIROLE_R1, [said("q", text, 0.5) for text in texts])
    wanted = [0.6 + 0.1 * 13 / 14, 0.5, 0.5, 0.6]
    off = max(abs(a - b) for a, b in zip(earned, wanted, strict=True))
    return Finding(off < EXACT, say(off_by_hand=off, earned=lines(rewards=earned)))


@claim("more roles per chain and more distinct bigrams at no loss of accuracy", slow=True)
def _() -> Finding:
    world = World(4, 6, 4, lambda question, answer: float(answer[-1] % 4 == question), context="last", text=opinions)
    made = runs(world, GRPO, MULTIROLE_R1, steps=120, every=120)
    roles = each(made, lambda bench: bench.expected(lambda *asked: float(len(roles_of(opinions(*asked))))))
    variety = each(made, lambda bench: bench.expected(lambda *asked: distinct_n(opinions(*asked))))
    right = each(made, Bench.success)
    holds = min(roles["multirole-r1"]) > max(roles["grpo"]) + 0.3
    holds &= min(variety["multirole-r1"]) > max(variety["grpo"]) + 0.01
    holds &= fmean(right["multirole-r1"]) >= fmean(right["grpo"]) - 0.02
    return Finding(holds, lines(**{"roles": roles, "distinct-2": variety, "right": right}))


claim.shipped(MULTIROLE_R1, "shaping", task="reasoning-gym:letter_counting")
