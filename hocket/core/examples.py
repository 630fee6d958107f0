"""What a scenario holds besides its prompt: responses that were written down before, and how they compare."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hocket.types import Scenario


BESIDES = ("tool_calls", "function_call", "reasoning_content", "reasoning", "thinking")
"""What an assistant's message may say besides its content."""


class Example(Enum):
    """What responses stand in a scenario's metadata, and under which names.

    Where a name holds a response, it is text, or the messages to append where it has several turns.
    """

    PROMPT = "prompts"
    """None."""

    DEMONSTRATION = "demonstrations"
    """`demonstration`, a response to imitate; or the scenario's answer, as text."""

    PAIR = "pairs"
    """`chosen` and `rejected`; and of `weight`, `margin` and `target` (the probability that chosen is preferred) those
    that were stated."""

    LABELLED = "labelled responses"
    """`demonstration`, and whether it is a good one: `label`, a boolean; and `weight` where it was stated."""

    RANKED = "ranked responses"
    """`responses`, two or more, and their `scores`, as many numbers."""

    STEPS = "labelled steps"
    """`steps`, the parts of one response, each text, or `demonstration`, messages of which the assistant's are the
    parts; and `labels`, a probability that it is right, a boolean or None for each part."""

    @property
    def columns(self) -> str:
        """How data states it."""
        return _COLUMNS[self]

    @property
    def recipe(self) -> str:
        """A recipe that learns from it."""
        return _RECIPES[self]


_COLUMNS = {
    Example.PROMPT: "prompt",
    Example.DEMONSTRATION: "prompt and completion, or messages",
    Example.PAIR: "chosen and rejected",
    Example.LABELLED: "completion and label",
    Example.RANKED: "responses and scores",
    Example.STEPS: "steps and labels",
}
_RECIPES = {
    Example.PROMPT: "--recipe grpo with a reward",
    Example.DEMONSTRATION: "--recipe sft",
    Example.PAIR: "--recipe dpo",
    Example.LABELLED: "--recipe kto",
    Example.RANKED: "a recipe for ranked responses",
    Example.STEPS: "--recipe process-reward",
}


def held_by(scenario: Scenario) -> frozenset[Example]:
    """What a scenario's metadata hold, which may be several things; an answer is a demonstration too."""
    known = scenario.metadata
    names = {name for name, value in known.items() if value is not None}
    shown = "demonstration" in names
    held = {
        Example.PAIR: {"chosen", "rejected"} <= names,
        Example.RANKED: isinstance(known.get("responses"), list),
        Example.STEPS: (shown or "steps" in names) and isinstance(known.get("labels"), list),
        Example.LABELLED: shown and isinstance(known.get("label"), bool),
        Example.DEMONSTRATION: shown or scenario.answer is not None,
    }
    return frozenset(example for example, is_held in held.items() if is_held) or frozenset({Example.PROMPT})


def responses_of(scenario: Scenario) -> list[Any]:
    """The responses that stand in a scenario's metadata, each text or messages to append."""
    known = scenario.metadata
    responses = [known.get(name) for name in ("chosen", "rejected", "demonstration")]
    held = held_by(scenario)
    ranked = known["responses"] if Example.RANKED in held else None
    if Example.STEPS in held and known.get("steps") is not None:
        responses = ["\n".join(known["steps"])]
    return [response for response in [*responses, *(ranked or ())] if response is not None]
