"""Problems that are neither too easy nor too hard: what is kept, and what is asked again."""

from __future__ import annotations

import pytest
from rollout_cases import Stage, assignments

from hocket.methods.teams.cpmobius import WithinBand


class Shares(Stage):
    """Episodes whose share stands in their scenario's name or, by sample, in `by_sample`."""

    by_sample: tuple[float, ...] = ()

    def trajectory(self, assignment, sample):
        found = super().trajectory(assignment, sample)
        name = assignment.scenario.id
        if name != "none":
            found.info["share"] = self.by_sample[sample] if self.by_sample else float(name)
        return found


def stage(*by_sample: float) -> Shares:
    found = Shares(lambda scenario, sample: 1.0)
    found.by_sample = by_sample
    return found


def names(trajectories) -> list[str]:
    return [one.scenario.id for one in trajectories]


def test_the_band_includes_its_ends() -> None:
    found = stage().collect(WithinBand(max_rounds=1), assignments("0.1", "0.2", "0.5", "0.8", "0.9"))
    assert names(found.trajectories) == ["0.2", "0.5", "0.8"]
    assert names(found.discarded) == ["0.1", "0.9"]
    assert found.metrics == {"rollout/rounds": 1.0, "rollout/kept": 0.6}


def test_missing_ones_come_from_the_curriculum_until_the_batch_is_full() -> None:
    left = ["0", "0.3", "0.4", "0.6", "0.7"]

    def more(count: int):
        given = [left.pop(0) for _ in range(count)]
        return assignments(*given)

    shares = stage()
    found = shares.collect(WithinBand(), assignments("1", "0.5", "0"), more)
    assert names(found.trajectories) == ["0.5", "0.3", "0.4"]
    assert names(found.discarded) == ["1", "0", "0"]
    assert found.metrics["rollout/rounds"] == 3
    assert [[one.scenario.id for one in asked] for asked in shares.asked] == [["1", "0.5", "0"], ["0", "0.3"], ["0.4"]]
    assert len(shares.scored) == 6


def test_without_a_curriculum_scenarios_are_asked_afresh() -> None:
    shares = stage(0.0, 0.0, 0.5, 1.0, 0.4, 0.0)
    found = shares.collect(WithinBand(samples=2), assignments("x"))
    assert [one.sample for one in found.trajectories] == [2, 4]
    assert [asked[0].first for asked in shares.asked] == [0, 2, 4]


def test_nothing_kept_leaves_the_first_asked_unless_it_may_be_empty() -> None:
    found = stage().collect(WithinBand(max_rounds=2), assignments("0", "1"))
    assert names(found.trajectories) == ["0", "1"]
    assert names(found.discarded) == ["0", "1"]
    found = stage().collect(WithinBand(max_rounds=2, empty=True), assignments("0", "1"))
    assert found.trajectories == []
    assert len(found.discarded) == 4


def test_without_a_share_all_are_kept_and_failures_are_not() -> None:
    assert names(stage().collect(WithinBand(), assignments("none", "none")).trajectories) == ["none", "none"]
    failing = stage()
    failing.rule = lambda scenario, sample: None
    assert failing.collect(WithinBand(max_rounds=1, empty=True), assignments("0.5")).trajectories == []


@pytest.mark.parametrize("wrong", [{"samples": 0}, {"max_rounds": 0}, {"low": 0.9}, {"high": 1.2}])
def test_nonsense_is_refused(wrong) -> None:
    with pytest.raises(ValueError, match=r"samples|low"):
        WithinBand(**wrong)
