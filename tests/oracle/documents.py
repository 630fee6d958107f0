"""Small random documents, with every field that a recipe here may read."""

from __future__ import annotations

from typing import Any

import numpy as np

GRADES = {"binary": [0.0, 1.0], "graded": [0.0, 0.25, 0.6, 1.0]}


def document(
    seed: int,
    grades: str = "binary",
    gap: float = 0.3,
    masks: bool = False,
    turns: bool = False,
    groups: int = 4,
    largest: int = 6,
    longest: int = 6,
    **top: Any,
) -> dict[str, Any]:
    """Groups of one to `largest` in mixed order; the first group is constant; `gap` is the scale of log-ratios."""
    rng = np.random.default_rng(seed)
    rows: list[dict[str, Any]] = []
    for g in range(groups):
        size = int(rng.integers(1, largest + 1)) if g else 2
        for _ in range(size):
            n = int(rng.integers(1, longest + 1))
            logp = -rng.exponential(1.0, n) - 1e-3

            def near(scale: float, around: np.ndarray = logp, n: int = n) -> list[float]:
                return np.minimum(around + scale * rng.normal(size=n), -1e-3).tolist()

            reward = 1.0 if g == 0 else float(rng.choice(GRADES[grades]))
            row: dict[str, Any] = {
                "id": f"t{len(rows)}",
                "group": f"g{g}",
                "scores": {"reward": reward},
                "logp": logp.tolist(),
                "logp_behaviour": near(gap),
                "logp_ref": near(0.4),
                "tokens": rng.integers(0, 3, n).tolist(),
                "entropy": rng.uniform(0.05, 1.2, n).tolist(),
                "value": rng.normal(size=n).tolist(),
                "label": str(rng.integers(0, 3)),
                "embedding": rng.uniform(0.0, 1.0, 3).tolist(),
                "info": {"tool_calls": int(rng.integers(0, 4))},
            }
            if masks and n > 1:
                row["trained"] = [bool(x) for x in rng.random(n) < 0.7]
            if turns:
                row["turn"] = np.sort(rng.integers(0, 2, n)).tolist()
                row["turn"] = (np.array(row["turn"]) - row["turn"][0]).tolist()
                row["turn_scores"] = [{"reward": float(rng.choice([0.0, 0.5]))} for _ in range(row["turn"][-1] + 1)]
                row["agent"] = ["solo"] * (row["turn"][-1] + 1)
            rows.append(row)
    return {"version": 1, "trajectories": [rows[i] for i in rng.permutation(len(rows))], **top}
