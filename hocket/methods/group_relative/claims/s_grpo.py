"""What s-grpo claims."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from hocket.lab.bench import Bench
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.microscope import look
from hocket.lab.policy import Tabular
from hocket.lab.toys.early_answers import NEVER, STEP, TAG, Thought
from hocket.lab.toys.rewarded import SEEDS, advantages, apart, document, line, shaped
from hocket.lab.toys.toys import Verdict, bench
from hocket.lab.world import Answer
from hocket.methods.base.dr_grpo import DR_GRPO
from hocket.methods.base.grpo import GRPO
from hocket.methods.group_relative.s_grpo import S_GRPO

claim = Claims("s-grpo", "arXiv:2505.07686")


def thought(horizon: int = 16) -> Thought:
    """One question, asked four times a step."""
    made = Thought(
        questions=1,
        tokens=4,
        horizon=horizon,
        reward=lambda question, answer: 0.0,
        context="last",
        words=("s ", "</think>", "<answer>7</answer>", "<answer>3</answer>"),
        count=2,
        about=lambda number: {"question": 0, "answer": "7"},
    )
    return Thought(**{**vars(made), "correct": made.right})


def thoughtful(policy: Tabular, more: float = 0.7, sure: float = 0.98) -> None:
    """A start that thinks enough, goes on with probability `more`, and then answers 7 with probability `sure`."""
    policy.logits.fill_(NEVER)
    for place in range(policy.world.horizon):
        thinking = [STEP] * place
        on = 0.99 if place < 2 else more
        policy.logits[policy.row(0, thinking), :2] = torch.tensor([on, 1 - on], dtype=torch.float64).log()
        if place:
            answering = [*thinking[:-1], TAG]
            shares = torch.tensor([sure, 1 - sure], dtype=torch.float64)
            policy.logits[policy.row(0, answering), 2:] = shares.log()


def steps_of(answer: Answer) -> float:
    """Steps in an answer's thought."""
    return float(answer.count(STEP))


@claim("pattern 0,1,1,0,1 earns 0, 1, 1/2, 0, 1/4, and an all-wrong group has no gradient")
def decaying_pattern() -> Finding:
    """Pattern 0,1,1,0,1 earns 0, 1, 1/2, 0, 1/4, and an all-wrong group has no gradient."""

    def rows(pattern: Sequence[int]) -> list[dict[str, Any]]:
        told = [{"exit": place, "chain": 0} for place in range(len(pattern))]
        pairs = zip(pattern, told, strict=True)
        made = [{"group": "g", "scores": {"reward": v}, "logp": [-1.0, -2.0], "info": about} for v, about in pairs]
        return [made[place] for place in (2, 0, 4, 1, 3)]

    found = shaped(S_GRPO, rows((0, 1, 1, 0, 1)))
    back = [found[(2, 0, 4, 1, 3).index(place)] for place in range(5)]
    middle = sum(back) / 5
    given = advantages(S_GRPO, rows((0, 1, 1, 0, 1)))
    centre = apart(given, [value - middle for value in found])
    idle = look(S_GRPO, document(rows((0, 0, 0, 0, 0))))
    still = all(value == 0.0 for row in idle["gradient"] for value in row)
    holds = apart(back, [0, 1, 0.5, 0, 0.25]) == 0 and centre < 1e-12 and still
    return Finding(
        holds, f"pattern 0,1,1,0,1 earns {line(back)} in any order of the batch; all wrong: gradient 0 {still}"
    )


@claim(
    "thinking shrinks towards the steps needed at no loss of accuracy; under outcome reward alone it stays",
    slow=True,
)
def thinks_as_long_as_it_must() -> Finding:
    """Thinking shrinks towards the steps needed at no loss of accuracy; under outcome reward alone it stays."""
    world = thought()
    serial_group = S_GRPO.but({"rollout.phrase": "</think>"})
    verdict = Verdict(lambda told, answer: world.right(0, answer))
    rows: dict[str, list[tuple[float, float]]] = {}
    for recipe in (GRPO, DR_GRPO, serial_group):
        made = [bench(world, recipe.but(rewards=(verdict,)), seed, 40, start=thoughtful) for seed in SEEDS]
        rows[recipe.name] = [(b.expected(lambda _, answer: steps_of(answer)), b.success()) for b in made]
    before = Bench(world, GRPO, start=thoughtful)
    length, accuracy = before.expected(lambda _, answer: steps_of(answer)), before.success()
    serial, plain, unbiased = rows["s-grpo"], rows["grpo"], rows["dr-grpo"]
    holds = max(n for n, _ in serial) < world.enough + 1 and min(a for _, a in serial) >= accuracy
    holds &= min(n for n, _ in unbiased) > length - 0.75
    holds &= min(n for n, _ in plain) > max(n for n, _ in serial)
    said = {name: f"{line([n for n, _ in found])} at {line([a for _, a in found])}" for name, found in rows.items()}
    return Finding(
        holds,
        f"2 steps suffice; before: {length:.2f} steps at accuracy {accuracy:.3f}; after 40 steps S-GRPO "
        f"{said['s-grpo']}; Dr. GRPO {said['dr-grpo']}; GRPO, whose 1/n_i favours short right answers, {said['grpo']}",
    )
