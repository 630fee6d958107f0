"""The data: sums in two halves. A column reaches the workflow as `scenario.metadata`."""

import random
from typing import Any


def rows(count: int = 800) -> list[dict[str, Any]]:
    """Sums of four numbers; each half is a column that one agent alone is shown."""
    draw = random.Random(0)
    problems = []
    for _ in range(count):
        a, b, c, d = (draw.randrange(1, 50) for _ in range(4))
        problems.append(
            {
                "prompt": f"What is {a} + {b} + {c} - {d}?",
                "answer": str(a + b + c - d),
                "first": f"{a} + {b}",
                "second": f"+ {c} - {d}",
            }
        )
    return problems
