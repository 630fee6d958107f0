"""The data: questions that need the tool, with demonstrations of which most guess instead of calling it."""

import json
import random
from typing import Any

from tools import PRICES


def rows(calls: float = 0.3) -> list[dict[str, Any]]:
    """A question for every item; in `calls` of the demonstrations the tool is called. Every fourth item is unseen."""
    draw = random.Random(0)
    return [
        {
            "prompt": f"What does the {item} cost?",
            "answer": str(cost),
            "split": "eval" if place % 4 == 0 else "train",
            "demonstration": called(item, cost) if draw.random() < calls else said(draw.randrange(10, 100)),
        }
        for place, (item, cost) in enumerate(PRICES.items())
    ]


def said(answer: int) -> str:
    """An answer as the shipped model writes it."""
    return f"<answer>{answer}</answer>"


def called(item: str, cost: int) -> list[dict[str, str]]:
    """The turns of a call, its result, and the answer."""
    call = json.dumps({"name": "price", "arguments": {"item": item}})
    return [
        {"role": "assistant", "content": f"<tool_call>{call}</tool_call>"},
        {"role": "tool", "content": str(cost)},
        {"role": "assistant", "content": said(cost)},
    ]
