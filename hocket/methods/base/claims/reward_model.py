"""What holds of reward models from pairs, labels, numbers and steps."""

import math
import tempfile
from typing import Any

import numpy as np
import torch

import hocket
from hocket.core.components import value_at
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.credit.pairs import AllPairs
from hocket.credit.score_positions import AtScores, ReadAt
from hocket.lab.claims.harness import EXACT, Claims, Finding, below, gap, say
from hocket.objectives.scores import BradleyTerry, LabelledScore, RegressedScore
from hocket.recipes import find
from hocket.rewards.combine import WeightedSum
from hocket.rollout.demonstrations import Labelled, Preferences, Ranked
from hocket.types import Evaluation, Scenario, Score, Trajectory, Turn

claim = Claims("reward-model", "derived here")


def _pairs(count: int, seed: int) -> tuple[Any, torch.Tensor]:
    """A batch of pairs of unequal lengths, read at their ends, and random scores of all its decisions."""
    draw, played = Key.of(seed).numpy(), []
    for number in range(count):
        for sample in range(2):
            turn = Turn("a", "policy", np.array([1]), draw.integers(0, 9, draw.integers(1, 6)))
            scores = {"preference": Score(1.0 - sample)}
            played.append(Trajectory(Scenario(str(number)), [turn], sample, scores=scores))
    batch = WeightedSum()(pack(played), {})
    batch = batch.but(occurrences=ReadAt(AllPairs())(batch))
    return batch, torch.from_numpy(draw.normal(size=(batch.decisions, 1)) * 2)


def _slope(objective: BradleyTerry, batch: Any, scores: torch.Tensor) -> torch.Tensor:
    at = scores.clone().requires_grad_()
    loss = objective(Evaluation(logp=torch.zeros(len(at), dtype=at.dtype), score=at), batch).total()
    return torch.autograd.grad(loss, at)[0][:, 0]


@claim("A pair's gradient is sigmoid(r_l - r_w) at its ends, over the number of pairs, and 0 elsewhere")
def a_pairs_gradient_is_sigmoid_at_its_ends_over_the_number_of() -> Finding:
    batch, scores = _pairs(12, 0)
    ends, found = batch.last(), _slope(BradleyTerry(), batch, scores)
    by_hand = torch.zeros(len(scores), dtype=torch.float64)
    for better, worse in batch.occurrences.pairs.tolist():
        wins = 1 / (1 + math.exp(float(scores[ends[worse], 0] - scores[ends[better], 0])))
        by_hand[ends[better]] -= (1 - wins) / 12
        by_hand[ends[worse]] += (1 - wins) / 12
    return below(EXACT, largest_difference=gap(found, by_hand))


@claim("A constant added to all rewards changes nothing but the centring term", "Eisenstein et al., arXiv:2312.09244")
def a_constant_added_to_all_rewards_changes_nothing_but_the() -> Finding:
    batch, scores = _pairs(6, 1)
    moved = {
        str(centring): gap(_slope(BradleyTerry(centring=centring), batch, one), _slope(BradleyTerry(), batch, scores))
        for centring in (0.0, 0.01)
        for one in (scores + 3,)
    }
    return Finding(moved["0.0"] < EXACT < 1e-3 < moved["0.01"], say(gradient_moves_by_with_centring=moved))


@claim("With a margin the loss asks for a larger gap of what is told apart by more", "arXiv:2307.09288, equation 2")
def with_a_margin_the_loss_asks_for_a_larger_gap_of_what_is_told() -> Finding:
    batch, scores = _pairs(6, 2)
    margin = torch.arange(6, dtype=torch.float64)
    plain, asked = (
        _slope(BradleyTerry(), one, scores)[batch.last()[batch.occurrences.pairs[:, 0]]]
        for one in (batch, batch.credited(pair_margin=margin))
    )
    pull = (asked / plain).tolist()
    return Finding(pull[0] == 1 and all(one > 1 for one in pull[1:]), say(pull_relative_to_no_margin=pull))


@claim("As shipped a step is one update on 16 scenarios by the first output, no margin, centring where it is named")
def as_shipped_a_step_is_one_update_on_16_scenarios_by_the_first() -> Finding:
    plain: dict[str, Any] = {"curriculum.prompts": 16, "update.epochs": 1, "update.minibatches": 1}
    plain |= {"update.clip_norm": 1.0, "update.warmup": 0, "update.weight_decay": 0.0}
    parts = {
        "reward-model": (Preferences(), ReadAt(AllPairs(margin=0.0)), BradleyTerry(output=0, centring=0.0)),
        "reward-model-centred": (Preferences(), ReadAt(AllPairs(margin=0.0)), BradleyTerry(output=0, centring=0.01)),
        "reward-binary": (Labelled(mismatched=False), AtScores(of=("label",)), LabelledScore(output=0, of="label")),
        "reward-regression": (Ranked(), AtScores(of=("reward",)), RegressedScore(output=0, of="reward")),
    }
    recipes = [(find(name), due) for name, due in parts.items()]
    wrong = [one.name for one, due in recipes if (one.rollout, one.credit, one.objective) != due]
    wrong += [one.name for one, _ in recipes if {name: value_at(one, name) for name in plain} != plain]
    return Finding(not wrong, say(recipes=len(recipes), otherwise=", ".join(wrong) or 0))


@claim("After 60 steps on graded sums more unseen pairs are told right, by four standard errors", slow=True)
def after_60_steps_on_graded_sums_more_unseen_pairs_are_told_right() -> Finding:
    with tempfile.TemporaryDirectory() as folder:
        quiet: dict[str, Any] = {"evaluation.n": 1000, "evaluation.every": 0, "threads": 1, "curriculum.prompts": 32}
        run = hocket.train(recipe="reward-model", steps=60, runs=folder, **quiet)
        before, after = (run.summary[when]["pairs/accuracy"] for when in ("before", "after"))
    error = math.sqrt((before * (1 - before) + after * (1 - after)) / 1000)
    return Finding(after - before > 4 * error, say(before=before, after_60_steps=after, standard_error=error))


claim.shipped(find("reward-model"), without={"credit": AllPairs()})
claim.shipped(find("reward-model-centred"), "objective")
claim.shipped(find("reward-binary"), without={"objective": RegressedScore(of="label")})
claim.shipped(find("reward-regression"), without={"objective": LabelledScore(of="reward")})
claim.shipped(find("process-reward"), "rollout", "credit")
