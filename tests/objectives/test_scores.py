"""Learning to score: losses of pairs, labels and numbers against sums by hand, and where a score is read."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from objective_batches import batch_of, doubles

from hocket.core.batch import Level, LevelScores
from hocket.core.errors import ConfigurationError, HocketError
from hocket.core.packing import pack
from hocket.core.signals import standing
from hocket.credit.pairs import AllPairs
from hocket.credit.score_positions import AtScores, ReadAt
from hocket.objectives.scores import BradleyTerry, LabelledScore, RegressedScore
from hocket.types import Evaluation, Scenario, Score, Trajectory, Turn


def log_sigmoid(x: float) -> float:
    return -math.log1p(math.exp(-x)) if x > -700 else x


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def value_and_slope(objective, batch, scores):
    """The loss and d loss / d score, `[T, K]`."""
    at = scores.clone().requires_grad_()
    loss = objective(Evaluation(logp=torch.zeros(len(at), dtype=at.dtype), score=at), batch).total()
    (slope,) = torch.autograd.grad(loss, at)
    return float(loss.detach()), slope


class TestBradleyTerry:
    ROWS = ((0, 1), (2,), (3, 4, 5), (6,))
    PAIRS = torch.tensor([[0, 1], [2, 3], [0, 3]])

    @pytest.mark.parametrize("seed", range(20))
    def test_value_and_gradient_are_those_by_hand(self, seed):
        rng = np.random.default_rng(seed)
        scores = torch.from_numpy(rng.normal(size=(7, 2)) * 3)
        w, m, t = rng.uniform(0.1, 2, 3), rng.normal(size=3), rng.uniform(size=3)
        smoothing, centring = float(rng.uniform(0, 0.49)), float(rng.uniform(0, 1))
        batch = batch_of(self.ROWS).credited(
            pairs=self.PAIRS,
            pair_weight=torch.from_numpy(w),
            pair_margin=torch.from_numpy(m),
            pair_target=torch.from_numpy(t),
        )
        objective = BradleyTerry(output=1, label_smoothing=smoothing, centring=centring)
        found, slope = value_and_slope(objective, batch, scores)
        total, slopes = 0.0, [0.0] * 4
        reward = [math.fsum(float(scores[d, 1]) for d in row) for row in self.ROWS]
        for k, (a, b) in enumerate(self.PAIRS.tolist()):
            h, both = reward[a] - reward[b] - m[k], reward[a] + reward[b]
            p = t[k] * (1 - smoothing) + (1 - t[k]) * smoothing
            total += w[k] * (-p * log_sigmoid(h) - (1 - p) * log_sigmoid(-h) + centring * both**2) / 3
            slopes[a] += w[k] * (sigmoid(h) - p + 2 * centring * both) / 3
            slopes[b] += w[k] * (p - sigmoid(h) + 2 * centring * both) / 3
        assert found == pytest.approx(total, abs=1e-12)
        assert torch.count_nonzero(slope[:, 0]) == 0
        for row, by_hand in zip(self.ROWS, slopes, strict=True):
            assert slope[list(row), 1].tolist() == pytest.approx([by_hand] * len(row), abs=1e-12)

    def test_pairs_of_weight_0_and_members_that_are_not_read_do_not_count(self):
        scores = doubles(1, 2, -1, 0.5, 0.5, 0.5, 3)[:, None]
        batch = batch_of(self.ROWS, weight=doubles(1, 1, 0, 1, 1, 1, 1)).credited(pairs=self.PAIRS)
        alone = batch_of(self.ROWS).credited(pairs=self.PAIRS[1:])
        assert value_and_slope(BradleyTerry(), batch, scores)[0] == value_and_slope(BradleyTerry(), alone, scores)[0]
        weighted = batch_of(self.ROWS).credited(pairs=self.PAIRS, pair_weight=doubles(0, 1, 1))
        assert value_and_slope(BradleyTerry(), weighted, scores)[0] == value_and_slope(BradleyTerry(), alone, scores)[0]

    def test_metrics(self):
        scores = doubles(1, 2, -1, 0, 0, 1, 3)[:, None]
        now = Evaluation(logp=torch.zeros(7), score=scores)
        told = BradleyTerry()(now, batch_of(self.ROWS).credited(pairs=self.PAIRS)).metrics
        assert {name: float(value) for name, value in told.items()} == pytest.approx(
            {
                "pairs/total": 3,
                "pairs/accuracy": 1 / 3,
                "pairs/margin": (4 - 2 + 0) / 3,
                "pairs/chosen": 7 / 3,
                "pairs/rejected": 5 / 3,
            }
        )

    def test_refusals(self):
        now = Evaluation(logp=torch.zeros(7), score=torch.zeros(7, 1))
        with pytest.raises(HocketError, match="compares pairs"):
            BradleyTerry()(now, batch_of(self.ROWS))
        with pytest.raises(HocketError, match="pairs turns"):
            BradleyTerry()(now, batch_of(self.ROWS).credited(pairs=self.PAIRS, compared=self.PAIRS))
        with pytest.raises(ValueError, match="label_smoothing"):
            BradleyTerry(label_smoothing=0.5)
        with pytest.raises(ValueError, match="output"):
            BradleyTerry(output=-1)


# ---------------------------------------------------------------- labels and numbers


def recorded(*given):
    """Trajectories of two turns, of 2 and 3 decisions, with these scores."""
    turns = []
    for _ in given:
        first = Turn("a", "policy", np.array([1]), np.array([5, 6]))
        turns.append([first, Turn("a", "policy", np.array([2]), np.array([7, 8, 9]), parent=first)])
    return pack([Trajectory(Scenario(str(n)), t, scores=s) for n, (t, s) in enumerate(zip(turns, given, strict=True))])


def test_labels_at_any_level_are_learnt_where_they_stand():
    at = {"trajectory": [4, 9], "turn": [1, 4, 6, 9], "decision": [0, 7]}
    batches = {
        "trajectory": recorded({"label": Score(1.0)}, {"label": Score(0.0)}),
        "turn": recorded({"label": Score([1.0, 0.0], Level.TURN)}, {"label": Score([0.25, 1.0], Level.TURN)}),
        "decision": recorded(
            {"label": Score([1.0, None, None, None, None], Level.DECISION)},
            {"label": Score([None, None, 0.0, None, None], Level.DECISION)},
        ),
    }
    labels = {"trajectory": [1, 0], "turn": [1, 0, 0.25, 1], "decision": [1, 0]}
    scores = torch.linspace(-2, 3, 10, dtype=torch.float64)[:, None]
    for level, batch in batches.items():
        credited = batch.but(occurrences=AtScores()(batch))
        assert torch.nonzero(credited.occurrences.weight).flatten().tolist() == at[level]
        found, slope = value_and_slope(LabelledScore(), credited, scores)
        each = [(float(scores[place, 0]), label) for place, label in zip(at[level], labels[level], strict=True)]
        by_hand = math.fsum(-y * log_sigmoid(s) - (1 - y) * log_sigmoid(-s) for s, y in each) / len(each)
        assert found == pytest.approx(by_hand, abs=1e-12)
        assert torch.nonzero(slope).tolist() == [[place, 0] for place in at[level]]
        assert slope[at[level], 0].tolist() == pytest.approx([(sigmoid(s) - y) / len(each) for s, y in each])


def test_regression_is_least_squares_and_tells_what_it_explains():
    batch = recorded({"reward": Score(2.0)}, {"reward": Score(-1.0)}, {"reward": Score(None)})
    credited = batch.but(occurrences=AtScores(of=("reward",))(batch))
    scores = torch.zeros(15, 1, dtype=torch.float64)
    scores[4], scores[9] = 1.5, 0.0
    found, slope = value_and_slope(RegressedScore(), credited, scores)
    assert found == pytest.approx((0.25 + 1) / 2)
    assert {n: v for n, (v,) in enumerate(slope.tolist()) if v} == pytest.approx({4: -0.5, 9: 1.0})
    told = RegressedScore()(Evaluation(logp=torch.zeros(15), score=scores), credited).metrics
    assert float(told["scores/explained"]) == pytest.approx(1 - 0.625 / 2.25)


def test_a_label_outside_its_range_and_an_unknown_score_are_refused():
    batch = recorded({"label": Score(2.0)})
    now = Evaluation(logp=torch.zeros(5), score=torch.zeros(5, 1))
    with pytest.raises(ConfigurationError, match=r"'label' is a label and must lie in \[0, 1\]"):
        LabelledScore()(now, batch)
    with pytest.raises(ConfigurationError, match="no score 'helpful', only label"):
        AtScores(of=("helpful",))(batch)


def test_a_shared_turn_is_labelled_in_each_trajectory():
    first = Turn("a", "policy", np.array([1]), np.array([5, 6]))
    others = [Turn("a", "policy", np.array([2]), np.array([7]), parent=first) for _ in range(2)]
    paths = [
        Trajectory(Scenario("s"), [first, t], scores={"label": Score([1.0, n], Level.TURN)})
        for n, t in enumerate(others)
    ]
    assert torch.nan_to_num(standing(pack(paths), "label"), nan=9.0).tolist() == [9.0, 1.0, 0.0, 9.0, 1.0, 1.0]


# ---------------------------------------------------------------- where it is read


@pytest.mark.parametrize(
    ("where", "places"), [("end", [4, 9]), ("turns", [1, 4, 6, 9]), ("decisions", list(range(10)))]
)
def test_a_trajectory_is_read_at_its_end_its_turns_or_everywhere(where, places):
    batch = recorded({"reward": Score(1.0)}, {"reward": Score(0.0)})
    batch = batch.but(scenario=torch.zeros(2, dtype=torch.long))
    seen = ReadAt(AllPairs(), where)(batch)
    assert torch.nonzero(seen.weight).flatten().tolist() == places
    assert seen.pairs.tolist() == [[0, 1]]


def test_the_last_decision_that_counts_is_read():
    batch = recorded({"reward": Score(1.0)}, {"reward": Score(0.0)})
    batch = batch.but(scenario=torch.zeros(2, dtype=torch.long))
    batch = batch.credited(weight=batch.occurrences.weight * torch.tensor([1, 1, 1, 1, 0, 1, 1, 0, 0, 0]))
    assert torch.nonzero(ReadAt(AllPairs())(batch).weight).flatten().tolist() == [3, 6]
    assert ReadAt(AllPairs()).pairs
    with pytest.raises(ValueError, match="where is 'start'"):
        ReadAt(AllPairs(), "start")


def test_numbers_of_scores_that_were_combined_stand_as_well():
    batch = recorded({"a": Score(1.0)}, {"a": Score(0.5)})
    scores = {**batch.scores, "reward": LevelScores(Level.TRAJECTORY, doubles(3, 4))}
    found = standing(replace(batch, scores=scores), "reward")
    assert found[~found.isnan()].tolist() == [3, 4]
