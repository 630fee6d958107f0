"""The model card of a pretrained base, from the summary of its pretraining."""

from __future__ import annotations

from typing import Any

from hocket.nano.corpus import STYLE_SHARES, TASK_SHARES
from hocket.tasks.arithmetic import TITLE
from hocket.tasks.split import SHARES

_CARD = """\
---
library_name: transformers
pipeline_tag: text-generation
language: en
---

# hocket nano base

A causal language model of {parameters:,} parameters (Qwen3 architecture, 6 layers of width 128, characters and
a few whole phrases as tokens, fp32), pretrained from nothing on procedurally generated chats. It is the starting
point of hocket's default examples: weak where reinforcement learning has something to teach, fluent in the formats.

    hocket pretrain --seed {seed}

makes it again: {step} steps, {seconds:.0f} s of processor time on {threads} thread(s).

## Data

All examples are generated and correct. Tasks: {tasks}.
Styles of answering: {styles} (`direct` puts the answer in `<answer>` at
once, `worked` thinks in `<think>` first, `untagged` answers without tags). The default task is {title}.
`chain_sum`, `spell_backward` and `letter_counting` are worded as in reasoning-gym; their words are made up.

Questions are split by a hash of their text ({splits}). Pretraining saw only the first split, reinforcement
learning uses only the second, and every figure below was measured on the third. The checkpoint was chosen by its
greedy accuracy on held-out questions of the first split: {held_out_accuracy:.3f}, the aim being {low:.2f} to
{high:.2f}. The default aim was itself set after earlier checkpoints had been measured on the third split, so the level
of its greedy accuracy is a choice, not a finding.

## Measured

{figures}

Greedy unless it says sampled (temperature 1). "Working forced" begins every answer with `<think>`.
{longest}

## Use and limits

For experiments with reinforcement learning on small machines, and for tests. It knows nothing but these tasks:
it cannot hold a conversation, knows no facts, and its arithmetic is often wrong. Characters outside ASCII are
unknown to it. Chats longer than {row_length} tokens were not seen in pretraining.
"""


def model_card(summary: dict[str, Any]) -> str:
    """The text of README.md for the summary returned by `pretrain`."""
    settings = summary["settings"]
    low, high = settings["window"]
    longest = summary.get("longest completion, tokens")
    return _CARD.format(
        parameters=summary["parameters"],
        seed=settings["seed"],
        step=summary["step"],
        seconds=summary["seconds"],
        held_out_accuracy=summary["held_out_accuracy"],
        row_length=settings["row_length"],
        threads=settings["threads"],
        low=low,
        high=high,
        title=TITLE,
        tasks=_listed(TASK_SHARES),
        styles=_listed(STYLE_SHARES),
        splits=", ".join(f"{name} {share} %" for name, share in SHARES.items()),
        figures=_table(summary.get("figures", {})),
        longest=f"The longest completion of `sums` had {longest} tokens." if longest else "",
    )


def _listed(shares: dict[str, float] | dict[Any, float]) -> str:
    return ", ".join(f"{name} {share:.0%}" for name, share in shares.items())


def _table(figures: dict[str, dict[str, Any]]) -> str:
    if not figures:
        return "Nothing was measured."
    rows = [
        f"| {name} | {row['value']:.3f} | {row['low']:.3f} to {row['high']:.3f} | {row['n']} |"
        for name, row in figures.items()
    ]
    return "\n".join(["| measurement | share | 95 % interval | n |", "|---|---|---|---|", *rows])
