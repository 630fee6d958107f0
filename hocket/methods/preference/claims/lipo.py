"""LiPO's claims."""

import math

import torch

from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.claims.harness import batches, below, gap, gradient, inspect_rows
from hocket.methods.base.dpo import DPO
from hocket.methods.preference.lipo import LIPO, LambdaRanking
from hocket.objectives.listwise import Listwise

claim = Claims("lipo", "arXiv:2402.01878")


def loss_by_hand(rows: list[dict[str, float]], beta: float) -> float:
    """Of one list, by loops; each row has a `label` and a `gap`, its log-ratio."""
    scores = [beta * row["gap"] for row in rows]
    order = sorted(range(len(rows)), key=lambda i: (-scores[i], -rows[i]["label"], i))
    rank = {answer: place + 1 for place, answer in enumerate(order)}
    total = 0.0
    for i, one in enumerate(rows):
        for j, other in enumerate(rows):
            if one["label"] > other["label"]:
                gain = abs(2 ** one["label"] - 2 ** other["label"])
                discount = abs(1 / math.log(1 + rank[i]) - 1 / math.log(1 + rank[j]))
                total += gain * discount * math.log1p(math.exp(scores[j] - scores[i]))
    return total


@claim("Loss and gradient are the formula's, counted by hand, ties at the reference included.")
def loss_and_gradient_are_the_formulas_counted_by_hand_ties_at_the() -> Finding:
    recipe, gaps = LIPO.but({"objective.beta": 0.7}), []
    for number, document in enumerate(batches(20, "lipo", graded=True, gap=0.4)):
        rows = [dict(row) for row in document["trajectories"]]
        if number % 4 == 0:
            for row in rows:
                row["logp"] = list(row["logp_ref"])
        found, wanted = inspect_rows(recipe, rows), 0.0
        groups = list(dict.fromkeys(row["group"] for row in rows))
        for group in groups:
            told = [
                {"label": row["scores"]["reward"], "gap": sum(row["logp"]) - sum(row["logp_ref"])}
                for row in rows
                if row["group"] == group
            ]
            wanted += loss_by_hand(told, 0.7) / len(groups)
        gaps.append(abs(found["loss"] - wanted))
    return below(1e-9, off=max(gaps))


@claim("Of two answers its gradient is DPO's times a constant.")
def of_two_answers_its_gradient_is_dpos_times_a_constant() -> Finding:
    plain = DPO.but({"objective.beta": 0.1})
    gaps = []
    for document in batches(20, "two", samples=2, groups=1, graded=True, gap=0.3):
        ours, theirs = gradient(LIPO, document), gradient(plain, document)
        labels = [row["scores"]["reward"] for row in document["trajectories"]]
        factor = abs(2 ** labels[0] - 2 ** labels[1]) * (1 / math.log(2) - 1 / math.log(3))
        gaps.append(gap(ours, factor * theirs))
    return below(1e-12, off=max(gaps))


@claim("Nothing depends on the order in which a list is written down.")
def nothing_depends_on_the_order_in_which_a_list_is_written_down() -> Finding:
    loss, gaps = LambdaRanking(), []
    generator = torch.Generator().manual_seed(0)
    for _ in range(50):
        score, label = torch.randn(2, 6, generator=generator, dtype=torch.float64)
        order = torch.randperm(6, generator=generator)
        gaps.append(abs(float(loss(score, label) - loss(score[order], label[order]))))
    return below(1e-12, off=max(gaps))


@claim("Equal labels have no weight, and an error near the top weighs more than one as large near the bottom.")
def equal_labels_have_no_weight_and_an_error_near_the_top_weighs() -> Finding:
    def loss(score: list[float], label: list[float]) -> tuple[torch.Tensor, torch.Tensor]:
        at = torch.tensor(score, dtype=torch.float64).requires_grad_()
        value = LambdaRanking()(at, torch.tensor(label, dtype=torch.float64))
        return value.detach(), torch.autograd.grad(value, at)[0].abs().sum()

    _, equal = loss([3.0, 2.0, 1.0, 0.0], [1.0] * 4)
    # Only one pair differs and is the wrong way round: at the top of the first list, at the bottom of the second.
    (top, _), (bottom, _) = loss([0.0, 1.0, -9.0, -9.0], [1.0, 0, 0, 0]), loss([9.0, 9.0, 0.0, 1.0], [1.0, 1.0, 1.0, 0])
    return below(1e-12, float(top) > float(bottom), equal=float(equal))


SAME = {"update": DPO.update, "curriculum": DPO.curriculum}
claim.constants("Prompts of a step and updates are DPO's.", LIPO, SAME, "derived")


ALIKE = "gains enter as differences, in which a constant cancels"
claim.spares("2 ** label.clamp(max=LARGEST) - 1 -> 2 ** label.clamp(max=LARGEST) + 1", ALIKE)
claim.spares("2 ** label.clamp(max=LARGEST) - 1 -> 2 ** label.clamp(max=LARGEST)", ALIKE)
claim.spares("lipo: credit.epsilon = 4e-07", "no deviation is taken")
claim.spares("lipo: credit.epsilon = 0.0", "no deviation is taken")
claim.spares("lipo: credit.ddof = 40", "no deviation is taken")
claim.spares("lipo: objective.measure.alpha = 20.0", "of the alpha divergence alone; this is the log-ratio")
claim.spares("lipo: objective.measure.alpha = 0.0", "of the alpha divergence alone; this is the log-ratio")
claim.spares("50.0 -> 2000.0", "it keeps gains finite for labels far beyond any list's")
claim.shipped(LIPO, "objective", without={"objective": Listwise(beta=0.1)})
