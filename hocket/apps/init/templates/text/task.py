"""The data: one row per problem. Replace `rows` by yours; every column besides `prompt` reaches the reward."""

import random
from typing import Any


def rows(count: int = 600) -> list[dict[str, Any]]:
    """Sums and differences of two numbers. Rows without a `split` are divided by the hash of their prompt."""
    draw = random.Random(0)
    problems: list[dict[str, Any]] = []
    for _ in range(count):
        first, second = draw.randrange(10, 100), draw.randrange(10, 100)
        sign = draw.choice("+-")
        answer = first + second if sign == "+" else first - second
        problems.append({"prompt": f"What is {first} {sign} {second}?", "answer": str(answer)})
    return problems
