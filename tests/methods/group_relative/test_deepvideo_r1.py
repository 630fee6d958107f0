"""Hints for what is too hard, heat for what is too easy."""

import pytest

from hocket.methods.group_relative.deepvideo_r1 import DifficultyAware


@pytest.mark.parametrize("fields", [{"samples": 0}, {"margin": -1.0}, {"least": 0.0}, {"heat": 1.0}])
def test_settings_that_make_no_sense_are_refused(fields):
    with pytest.raises(ValueError, match="|".join(fields)):
        DifficultyAware(**fields)
