"""What ZO-RankSGD refuses."""

import pytest

from hocket.methods.preference.zo_ranksgd import DirectionStep, PerturbedPlay, RankedDirections


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
