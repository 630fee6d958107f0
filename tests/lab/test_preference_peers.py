"""Every loss of TRL's DPOTrainer under every divergence, on random batches of unequal lengths."""

from __future__ import annotations

import functools

import pytest

from hocket.core.errors import HocketError
from hocket.lab.peers.comparing import PeerComparison, distance
from hocket.lab.peers.preferences import DIVERGENCES, LINKS, OWN_SMOOTHING, link_settings, trl_dpo
from hocket.recipes import find


def entry(loss, divergence):
    theirs = functools.partial(trl_dpo, loss=loss, divergence=divergence, smoothing=0.1 * (loss in OWN_SMOOTHING))
    return PeerComparison("TRL", theirs, "dpo", link_settings(loss, divergence), "")


CASES = [(loss, divergence) for loss in LINKS for divergence in DIVERGENCES]


def compare(loss, divergence, batches):
    if LINKS[loss].each and divergence != "reverse_kl":
        with pytest.raises((HocketError, ValueError), match="judges each answer by its log-ratio"):
            find("dpo").but(link_settings(loss, divergence))
        return
    one = entry(loss, divergence)
    found = distance(one, one.settled(), gap=0.3, batches=batches)
    assert found.word == "equal", found


@pytest.mark.parametrize(("loss", "divergence"), CASES)
def test_equal_in_value_and_gradient(loss, divergence):
    compare(loss, divergence, 4)


@pytest.mark.slow
@pytest.mark.parametrize(("loss", "divergence"), CASES)
def test_equal_on_many_batches(loss, divergence):
    compare(loss, divergence, 200)
