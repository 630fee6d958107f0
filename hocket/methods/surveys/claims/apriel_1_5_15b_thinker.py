"""Claims about Apriel-1.5-15b-Thinker."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path
from typing import Any

import torch

from hocket.apps.report import map as maps
from hocket.core.keys import Key
from hocket.lab.claims.harness import Claims, Finding, say
from hocket.lab.claims.lesson_data import Pupil, begin
from hocket.methods.surveys.apriel_1_5_15b_thinker.method import (
    APRIEL_1_5_15B_THINKER,
    copied_blocks,
    deepened,
    write_deepened,
)
from hocket.nano import BASE
from hocket.policies.loading import read_model
from hocket.train.aio import run_async
from hocket.train.evaluate import evaluate

claim = Claims("apriel-1-5-15b-thinker", "arXiv:2510.01141; zeros in the copies are derived here")

LAYERS = 8
_FOLDER = tempfile.TemporaryDirectory()


@functools.cache
def _deep() -> Path:
    """The shipped model with two layers more."""
    folder = Path(_FOLDER.name) / "deep"
    write_deepened(BASE, folder, LAYERS)
    return folder


def _logits(model: Any) -> torch.Tensor:
    tokens = torch.from_numpy(Key.of(0).derive("tokens").numpy().integers(0, 90, (4, 24)))
    with torch.no_grad():
        return model(tokens).logits  # type: ignore[no-any-return]


@claim("A copied block with zeroed output projections adds nothing: logits are the same to the last bit.")
def a_copied_block_adds_nothing() -> Finding:
    shallow, deep = read_model(str(BASE), torch.float32), read_model(str(_deep()), torch.float32)
    layers = len(deep.model.layers)
    same, spread = torch.equal(_logits(shallow), _logits(deep)), float(_logits(shallow).std())
    deep.load_state_dict(deepened(shallow.state_dict(), copied_blocks(6, LAYERS), zeroed=False))
    repeated = float((_logits(shallow) - _logits(deep)).abs().max())
    return Finding(same and layers == LAYERS and repeated > spread / 2, say(layers=layers, copied_whole=repeated))


@claim("A copy stands after its block and has its weights; the blocks copied are spread evenly over the depth.")
def a_copy_stands_after_its_block() -> Finding:
    copied, wrong = copied_blocks(6, LAYERS), 0
    state = read_model(str(BASE), torch.float32).state_dict()
    deeper = deepened(state, copied)
    order = [0, 1, 1, 2, 3, 4, 4, 5]  # By hand, for copies of the blocks 1 and 4.
    for place, block in enumerate(order):
        copy = place > 0 and order[place - 1] == block
        for part in ("self_attn.q_proj", "self_attn.o_proj", "mlp.up_proj", "mlp.down_proj", "input_layernorm"):
            source, weight = (
                states[f"model.layers.{n}.{part}.weight"] for states, n in ((state, block), (deeper, place))
            )
            zero = copy and part.endswith(("o_proj", "down_proj"))
            wrong += not torch.equal(weight, torch.zeros_like(source) if zero else source)
    counts = [copied_blocks(40, 48), copied_blocks(3, 6), copied_blocks(4, 5)]
    spread = counts == [[2, 7, 12, 17, 22, 27, 32, 37], [0, 1, 2], [2]]
    return Finding(copied == [1, 4] and not wrong and spread, say(wrong=wrong, weights=len(deeper)))


@claim("The copies learn: after a step of supervised tuning no projection of theirs is 0, and the function is another.")
def the_copies_learn() -> Finding:
    pupil = begin("sft", "worked-sums", {"model": str(_deep()), "curriculum.prompts": 4}).run(2)
    weights = pupil.parts.lead.policy.module.state_dict()
    moved = {
        f"{place} {part}": float(
            next(w for name, w in weights.items() if f"layers.{place}." in name and part in name).abs().max()
        )
        for place in (2, 6)
        for part in ("o_proj", "down_proj")
    }
    return Finding(min(moved.values()) > 0, say(**moved))


TASK = "worked-sums"
PASSES = {"sft": 3, "grpo": 4}
"""Passes over a token: forward and twice that for the gradient; GRPO samples besides."""
BUDGET = 120_000
"""Of passes over answer tokens."""


def _trained(recipe: str, settings: dict[str, Any]) -> tuple[Pupil, float]:
    """The deepened model after so many passes; and how many they were."""
    pupil, spent = begin(recipe, TASK, {"model": str(_deep()), **settings}), 0.0
    while spent < BUDGET:
        pupil.run(1)
        spent += PASSES[recipe] * sum(trajectory.length for trajectory in pupil.results[-1].trajectories)
    return pupil, spent


def _right(pupil: Pupil, count: int = 100) -> float:
    """Of unseen sums, answered greedily as an evaluation does."""
    parts = pupil.parts
    result = run_async(
        evaluate(parts.task, parts.player, (), n=count, decoding=parts.decoding, key=Key.of(0), split="eval")
    )
    return float(result.success)


@claim(
    "From the deepened model at equal compute, counted in passes over tokens, supervised tuning on worked answers and "
    "GRPO on the verdict alone both raise the share of unseen sums answered rightly by 15 points; which is ahead is "
    "what an RL result has to state.",
    slow=True,
    learns=True,
)
def at_equal_compute_both_rise() -> Finding:
    start = _right(begin("sft", TASK, {"model": str(_deep())}))
    tuned, tuned_passes = _trained("sft", {"update.lr": 3e-4, "curriculum.prompts": 32})
    reinforced, rl_passes = _trained("grpo", {"update.lr": 3e-4, "curriculum.prompts": 8})
    by = {"before": start, "sft": _right(tuned), "grpo": _right(reinforced)}
    holds = min(by["sft"], by["grpo"]) > start + 0.15 and 0.8 < tuned_passes / rl_passes < 1.25
    return Finding(holds, say(**by, passes_of_sft=tuned_passes, passes_of_grpo=rl_passes))


@claim("Every stage of it has a recipe or says why not, and RL recipes have a baseline for each kind of data.")
def every_stage_has_a_recipe() -> Finding:
    problems = maps.problems(APRIEL_1_5_15B_THINKER)
    sizes = {cell.name: len(maps.members(cell.holds)) for cell in APRIEL_1_5_15B_THINKER.axes[1].cells}
    return Finding(not problems and min(sizes.values()) > 0, say(problems=len(problems), **sizes))
