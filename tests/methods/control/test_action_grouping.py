"""The world of clusters."""

from __future__ import annotations

from statistics import fmean

from hocket.methods.control.action_grouping import (
    clusters,
)


def test_in_the_world_of_clusters_groups_and_differences_are_drawn_alike():
    wanted = 1.3 / 2.8
    squares = {
        width: fmean(
            float((clusters(64, 64, width=width, seed=seed).transition ** 2).sum(-1).mean()) for seed in range(10)
        )
        for width in (0.0, 1.0)
    }
    assert max(abs(one - wanted) for one in squares.values()) < 0.02
