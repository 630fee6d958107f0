"""Action masks as settings: checked, written, and read from configurations of before."""

import pytest

from hocket import tasks
from hocket.core.components import from_plain, to_plain
from hocket.core.errors import ConfigurationError
from hocket.rollout.nucleus import NucleusMask
from hocket.train.config import configure
from hocket.types import ActionMask, Decoding


def test_a_mask_is_a_setting_like_any_other():
    decoding = Decoding(mask=NucleusMask(0.8))
    assert isinstance(decoding.mask, ActionMask)
    assert from_plain(to_plain(decoding)) == decoding


@pytest.mark.parametrize("mask", [0.9, "nucleus", {"mass": 0.9}])
def test_what_is_no_mask_is_refused(mask):
    with pytest.raises(ConfigurationError, match="action mask"):
        configure([("decoding.mask", mask)], tasks.find("sums"))
