"""MultiRole-R1's claims."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch

from hocket.core.keys import Key
from hocket.lab.bench import Bench
from hocket.lab.claims.harness import EXACT, Claims, Finding, below, each, inspect_rows, runs, say
from hocket.lab.claims.lesson_data import Pupil, after_lessons, begin
from hocket.lab.toys.instances import TREES, four_right
from hocket.lab.toys.recorded_answers import lines, said, shaped
from hocket.lab.world import Answer, World
from hocket.methods.base.grpo import GRPO
from hocket.methods.group_relative.multirole_r1 import (
    MULTIROLE_R1,
    MULTIROLE_R1_SFT,
    MergedRoles,
    distinct_n,
    roles_of,
)
from hocket.train.aio import run_async
from hocket.train.ledger import Ledger
from hocket.types import Assignment, Scenario, Trajectory, Turn

claim = Claims("multirole-r1", "arXiv:2507.20187; terms chosen here")
VIEWS = ("As a teacher:", "As a parent:", "As a mayor:", "As a nurse:")
REMARKS = ("this seems fair to me", "costs matter here too", "time is short", "people differ")


def opinions(question: int, answer: Answer) -> str:
    """Three lines of thought, each a role's heading or a remark, and an answer."""
    lines = [(VIEWS[token] + f" {REMARKS[token]}") if token < 4 else REMARKS[token - 2] for token in answer[:-1]]
    return "\n".join([*lines, f"<answer>{answer[-1] % 4}</answer>"])


@claim("with w = 0 it is plain GRPO bit for bit")
def with_w_0_it_is_plain_grpo_bit_for_bit() -> Finding:
    rows = [said("q", VIEWS[n % 4] + " yes", float(n % 2)) for n in range(6)]
    bare = MULTIROLE_R1.but({"shaping.0.weight": 0.0})
    same = {**inspect_rows(bare, rows), "recipe": ""} == {**inspect_rows(GRPO, rows), "recipe": ""}
    world = replace(four_right(), text=lambda question, answer: VIEWS[answer[0] % 4] + TREES[answer[0] // 2])
    made = (Bench(world, recipe, seed=1).run(5, every=5) for recipe in (bare, GRPO, MULTIROLE_R1))
    own, plain, shaped_too = (bench.policy.logits.detach() for bench in made)
    equal = torch.equal(own, plain)
    return Finding(same and equal and not torch.equal(own, shaped_too), say(microscope=same, weights_after_5=equal))


@claim("the shaped reward counts roles and distinct bigrams")
def the_shaped_reward_counts_roles_and_distinct_bigrams() -> Finding:
    text = "As a teacher: yes yes yes\nRole: parent: no\n<answer>1</answer>"
    words = ["as", "a", "teacher", "yes", "yes", "yes", "role", "parent", "no", "answer", "1", "answer"]
    share = len(set(itertools.pairwise(words))) / (len(words) - 1)
    (value,) = shaped(MULTIROLE_R1, [said("q", text, 1.0)])
    error = abs(value - (1.0 + 0.2 * (0.5 * 2 / 3 + 0.5 * share)))
    return Finding(below(EXACT, error=error).holds, say(reward=f"{value:.6f}", distinct_2=share, roles="two of three"))


@claim("three roles are enough, a text of one word has no bigrams, and without a text there is nothing")
def three_roles_are_enough_a_text_of_one_word_has_no_bigrams_and() -> Finding:
    texts = ["As a teacher: a\nAs a parent: b\nAs the mayor: c\nRole: cook: d", "yes", "", "yes no"]
    earned = shaped(MULTIROLE_R1, [said("q", text, 0.5) for text in texts])
    wanted = [0.6 + 0.1 * 13 / 14, 0.5, 0.5, 0.6]
    off = max(abs(a - b) for a, b in zip(earned, wanted, strict=True))
    return Finding(off < EXACT, say(off_by_hand=off, earned=lines(rewards=earned)))


@claim("more roles per chain and more distinct bigrams at no loss of accuracy", slow=True)
def more_roles_per_chain_and_more_distinct_bigrams_at_no_loss_of() -> Finding:
    world = World(4, 6, 4, lambda question, answer: float(answer[-1] % 4 == question), context="last", text=opinions)
    made = runs(world, GRPO, MULTIROLE_R1, steps=120, every=120)
    roles = each(made, lambda bench: bench.expected(lambda *asked: float(len(roles_of(opinions(*asked))))))
    variety = each(made, lambda bench: bench.expected(lambda *asked: distinct_n(opinions(*asked))))
    right = each(made, Bench.success)
    holds = min(roles["multirole-r1"]) > max(roles["grpo"]) + 0.3
    holds &= min(variety["multirole-r1"]) > max(variety["grpo"]) + 0.01
    holds &= fmean(right["multirole-r1"]) >= fmean(right["grpo"]) - 0.02
    return Finding(holds, lines(**{"roles": roles, "distinct-2": variety, "right": right}))


# ---------------------------------------------------------------- the first stage


def replies(*texts: str) -> list[Trajectory]:
    """Replies to one question."""
    return [Trajectory(Scenario("q"), [Turn("a", "p", np.zeros(1), np.zeros(1), text=text)]) for text in texts]


PLAIN = replies("so <answer>yes</answer>", "<answer>yes</answer>", "<answer>no</answer>", "thus <answer>yes</answer>")
AGREED = replies(
    "costs <answer>no</answer>", "fees <answer>no</answer>", "fun <answer>yes</answer>", "<answer>no</answer>"
)
HEADED = replies(*["As a parent: time is short\n<answer>yes</answer>"] * 4)
DIVIDED = replies(*["<answer>yes</answer>", "<answer>no</answer>"] * 2)


@claim(
    "a chain has a part for every role most of whose answers are the same, in an order that is drawn, and ends with "
    "the plain question's answer; where that is none, or a role is alone, there is no chain",
    "derived; the abstract tells no more than that agreeing roles are merged",
)
def a_chain_has_a_part_for_every_role_most_of_whose_answers_are_the() -> Finding:
    stage, views = MergedRoles(), {"teacher": AGREED, "parent": HEADED, "mayor": DIVIDED}
    lines = {"As a teacher: costs", "As a parent: time is short"}
    chains = {str(stage.merged(PLAIN, views, Key.of(n))) for n in range(20)}
    holds = len(chains) == 2 and all(set(chain.splitlines()[:2]) == lines for chain in chains)
    holds &= {chain.splitlines()[2] for chain in chains} == {"<answer>yes</answer>"}
    alone, no_answer = {"teacher": AGREED, "mayor": DIVIDED}, replies("yes", "", "no", "yes <answer>yes</answer>")
    none = [
        stage.merged(*one, Key.of(0)) for one in ((PLAIN, alone), (DIVIDED, views), (no_answer, views), ([], views))
    ]
    single = replace(stage, least=1).merged(PLAIN, alone, Key.of(0)) == "As a teacher: costs\n<answer>yes</answer>"
    failed = [replace(one, failure="broke") for one in PLAIN]
    holds &= single and none == [None] * 4 and stage.merged(failed, views, Key.of(0)) is None
    return Finding(holds, say(chains=str(sorted(chains)), without_agreement=str(none)))


@claim("as many answers are asked of the question and of every role, of the policy as it was; no verdict is read")
def as_many_answers_are_asked_of_the_question_and_of_every_role_of() -> Finding:
    asked, scored = list[Assignment](), list[Trajectory]()

    async def play(assignments: Sequence[Assignment]) -> list[Trajectory]:
        asked.extend(assignments)
        found = list[Trajectory]()
        for one in assignments:
            text = str(one.scenario.metadata.get("demonstration", f"{one.hint}: so\n<answer>yes</answer>"))
            found += [replace(said, scenario=one.scenario) for said in replies(*[text] * one.samples)]
        return found

    async def score(trajectories: Sequence[Trajectory]) -> None:
        scored.extend(trajectories)

    questions = [Scenario("one", "?"), Scenario("two", "?", metadata={"roles": ("cook", "guest")})]
    stage: Any = MULTIROLE_R1_SFT.rollout
    made = run_async(
        stage.collect([Assignment(one) for one in questions], play=play, score=score, ledger=Ledger(), key=Key.of(0))
    )
    lines = [one.hint for one in asked[:7]]
    names = [None, "teacher", "parent", "mayor", None, "cook", "guest"]
    holds = lines == [None if name is None else f"Answer as a {name}." for name in names]
    holds &= all(one.samples == 4 and (one.actor, one.source) == ("reference", "baseline") for one in asked[:7])
    given = [one.scenario.metadata["demonstration"] for one in asked[7:]]
    holds &= [one.source for one in asked[7:]] == ["expert", "expert"] and len(made.discarded) == 28
    holds &= [sorted(roles_of(chain)) for chain in given] == [["mayor", "parent", "teacher"], ["cook", "guest"]]
    holds &= scored == made.trajectories and made.metrics == {"rollout/merged": 1.0, "rollout/roles": 2.5}
    return Finding(holds, say(lines=str(lines), chains=str(given)))


claim.spares("rng.random() < TOLD -> rng.random() >= TOLD", "either way is as likely")


# ---------------------------------------------------------------- the shipped model

TAUGHT = "lessons:perspectives"


def examined(pupil: Pupil) -> tuple[float, float, float]:
    """Of samples of unseen questions: how many are right, how many roles they name, and their distinct-2."""
    parts = pupil.parts
    asked = [Assignment(parts.task.scenario("eval", number), 4, parts.decoding) for number in range(60)]
    given = run_async(parts.player.play(asked, key=Key.of(1)))
    texts = [one.answer for one in given]
    right = fmean(map(parts.task.success, given))
    return right, fmean(len(roles_of(text)) for text in texts), fmean(map(distinct_n, texts))


@claim(
    "After lessons and the first stage chains of the shipped model keep nearly three roles in 60 steps; GRPO from "
    "the same start falls to one, and as many answers are right; distinct-2 tells nothing of chains so short.",
    slow=True,
)
def after_lessons_and_the_first_stage_chains_of_the_shipped_model() -> Finding:
    size = {"update.lr": 1e-3, "curriculum.prompts": 24}
    first = after_lessons(MULTIROLE_R1_SFT, "perspectives", TAUGHT, size, steps=150)
    figures = {"lessons": [examined(first)], "first stage": [examined(first.run(60))]}
    with tempfile.TemporaryDirectory() as folder:
        first.parts.lead.policy.save(Path(folder))
        for recipe in (GRPO, MULTIROLE_R1):
            asked = ({"update.lr": 5e-4, "model": folder, "seed": seed} for seed in range(2))
            figures[recipe.name] = [examined(begin(recipe, "perspectives", one).run(60)) for one in asked]
    (right, roles, _), (own_right, own_roles, _) = (
        [list(column) for column in zip(*figures[recipe.name], strict=True)] for recipe in (GRPO, MULTIROLE_R1)
    )
    holds = min(own_roles) > 2.5 > 1.5 > max(roles) and fmean(own_right) > fmean(right) - 0.05
    saw = {name: lines(**{str(n): one for n, one in enumerate(found)}) for name, found in figures.items()}
    return Finding(holds, f"right, roles, distinct-2: {say(**saw)}")


LESSONS: dict[str, Any] = {"recipe": "sft", "steps": 60, "update.lr": 0.003, "task": TAUGHT}

claim.shipped(
    MULTIROLE_R1_SFT,
    first=LESSONS,
    settings={"curriculum.prompts": 12},
    sees=lambda run: {"chains": run.mean("rollout/merged"), "roles": run.mean("rollout/roles")},
)
claim.shipped(
    MULTIROLE_R1,
    "shaping",
    first={"recipe": MULTIROLE_R1_SFT.name, "steps": 2, "update.lr": 0.001},
    settings={"curriculum.prompts": 4},
)
