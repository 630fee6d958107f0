"""MPO's claims."""

import math
from typing import Any

import torch

from hocket.core.keys import Key
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.claims.harness import batches, below, gap, inspect_rows, say
from hocket.methods.base.dpo import DPO
from hocket.methods.preference.multi_preference_optimization import MULTI_PREFERENCE_OPTIMIZATION, SetContrast

claim = Claims("multi-preference-optimization", "arXiv:2412.04628")
MPO = MULTI_PREFERENCE_OPTIMIZATION


@claim("The loss is the formula's, counted by hand, for every power.")
def the_loss_is_the_formulas_counted_by_hand_for_every_power() -> Finding:
    gaps = []
    for power in (0, 1, 2):
        recipe = MPO.but({"objective.beta": 0.7, "objective.loss": SetContrast(0.8, power)})
        for document in batches(10, "mpo", power, graded=True, gap=0.4):
            rows, total = document["trajectories"], 0.0
            groups = list(dict.fromkeys(row["group"] for row in rows))
            for group in groups:
                own = [row for row in rows if row["group"] == group]
                mean = sum(row["scores"]["reward"] for row in own) / len(own)
                parts = [
                    (
                        row["scores"]["reward"] > mean,
                        math.exp(0.8 * abs(row["scores"]["reward"] - mean) ** power)
                        * math.exp(0.7 * (sum(row["logp"]) - sum(row["logp_ref"]))),
                    )
                    for row in own
                ]
                total -= math.log(sum(w for good, w in parts if good) / sum(w for _, w in parts)) / len(groups)
            gaps.append(abs(inspect_rows(recipe, rows)["loss"] - total))
    return below(1e-9, off=max(gaps))


claim.reduces(
    "Of one chosen and one rejected answer, unweighted, it is DPO.",
    MPO.but({"objective.loss.scale": 0.0}), DPO, "two", samples=2, graded=True, gap=0.3,
)  # fmt: skip


@claim("Adding a number to a prompt's rewards changes nothing.")
def adding_a_number_to_a_prompts_rewards_changes_nothing() -> Finding:
    def shifted(document: dict[str, Any]) -> list[dict[str, Any]]:
        by = {name: 0.3 * place for place, name in enumerate(sorted({r["group"] for r in document["trajectories"]}))}
        return [
            {**row, "scores": {"reward": row["scores"]["reward"] + by[row["group"]]}}
            for row in document["trajectories"]
        ]

    gaps = [
        gap(inspect_rows(MPO, one["trajectories"])["gradient"], inspect_rows(MPO, shifted(one))["gradient"])
        for one in batches(20, "shift", graded=True, gap=0.3)
    ]
    return below(1e-9, off=max(gaps))


@claim("The error against infinitely many answers falls with the root of their number; the bias alone falls faster.")
def the_error_against_infinitely_many_answers_falls_with_the_root() -> Finding:
    rng = Key.of(0).derive("mpo", "answers").numpy()
    # Nobody near the mean, so that a sample's mean parts the answers as the whole's does.
    noise, score = (torch.from_numpy(rng.normal(size=40)) for _ in range(2))
    reward = noise.sign() * (0.7 + noise.abs())
    sizes, loss = (8, 16, 32, 64, 128, 256, 512), SetContrast(0.5, 1)
    # The limit over answers drawn uniformly: means in place of sums.
    limit = float(loss(score, reward))
    errors, biases = [], []
    for size in sizes:
        draws = torch.from_numpy(rng.integers(0, 40, (1500, size)))
        found = torch.stack([loss(score[row], reward[row]) for row in draws])
        errors.append(float((found - limit).abs().mean()))
        biases.append(abs(float(found.mean()) - limit))
    x = torch.tensor(sizes, dtype=torch.float64).log()
    x = x - x.mean()
    slope, faster = (
        float((x * torch.tensor(found, dtype=torch.float64).log()).sum() / (x * x).sum()) for found in (errors, biases)
    )
    return Finding(
        abs(slope + 0.5) < 0.1 and faster < slope - 0.2,
        say(slope_of_error=slope, slope_of_bias=faster),
    )


@claim("As shipped an answer weighs e^|R - mean R|, and beta is 0.1.", "chosen here")
def as_shipped_an_answer_weighs_e_r_mean_r_and_beta_is_0_1() -> Finding:
    drift, reward, rows = (0.4, -0.7, 1.1), (0.9, 0.1, 0.3), []
    for number, (gone, worth) in enumerate(zip(drift, reward, strict=True)):
        told = {"logp": [gone - 2.0], "logp_ref": [-2.0], "logp_behaviour": [-2.0]}
        rows.append({"id": f"{number}", "group": "question", "scores": {"reward": worth}, **told})
    mean = sum(reward) / 3
    parts = [math.exp(abs(worth - mean) + 0.1 * gone) for gone, worth in zip(drift, reward, strict=True)]
    found = inspect_rows(MPO, rows)["loss"]
    return below(1e-12, off=abs(found + math.log(parts[0] / sum(parts))))


claim.shipped(MPO, "objective")
