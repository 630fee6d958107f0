"""What ZO-RankSGD refuses, and the oracle's credit by name."""

import pytest

from hocket.core.components import replaced_all
from hocket.methods.preference.zo_ranksgd import ZO_RANKSGD, DirectionStep, PerturbedPlay, RankedDirections, ranked


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda: PerturbedPlay(mu=0.0), "mu must be positive"),
        (lambda: RankedDirections(best=0), "best must be at least 1"),
        (lambda: DirectionStep(eta=0.0), "eta must be positive"),
        (lambda: DirectionStep(momentum=1.0), "momentum must be in"),
    ],
)
def test_settings_out_of_range_are_refused_in_a_sentence(made, said):
    with pytest.raises(ValueError, match=said):
        made()


def test_equal_values_settle_nothing():
    import torch

    assert not ranked(torch.ones(4)).any()
    assert isinstance(replaced_all(ZO_RANKSGD, {"credit.best": 2}).credit, RankedDirections)
