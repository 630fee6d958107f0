"""Settings over a run, as values and in configurations."""

from __future__ import annotations

import pytest

from hocket.core.components import from_plain, replaced, to_plain
from hocket.core.errors import ConfigurationError
from hocket.core.schedules import Constant, Cosine, Linear, Steps, bounds, value_at
from hocket.objectives.divergence import KLToReference


@pytest.mark.parametrize(
    ("setting", "values"),
    [
        (0.3, [0.3, 0.3, 0.3]),
        (Constant(0.3), [0.3, 0.3, 0.3]),
        (Linear(1.0, 2.0), [1.0, 1.5, 2.0]),
        (Linear(1.0, 2.0, over=0.5), [1.0, 2.0, 2.0]),
        (Cosine(0.0, 1.0), [0.0, 0.5, 1.0]),
        (Cosine(1.0, 0.0, over=0.5), [1.0, 0.0, 0.0]),
        (Steps((1.0, 2.0, 3.0), (0.5, 0.6)), [1.0, 2.0, 3.0]),
    ],
)
def test_values_at_start_middle_and_end(setting, values):
    assert [value_at(setting, share) for share in (0.0, 0.5, 1.0)] == pytest.approx(values)
    assert bounds(setting) == (min(values), max(values))


def test_equal_ends_are_exactly_constant():
    for share in (0.0, 0.1, 0.7, 1.0):
        assert Linear(0.04, 0.04)(share) == Cosine(0.04, 0.04)(share) == 0.04


@pytest.mark.parametrize(
    "wrong", [lambda: Linear(0, 1, over=0), lambda: Steps((1.0,), (0.5,)), lambda: Steps((1.0, 2.0, 3.0), (0.5, 0.5))]
)
def test_schedules_that_make_no_sense_are_refused(wrong):
    with pytest.raises(ValueError, match=r"must|need"):
        wrong()


def test_a_setting_in_a_configuration_is_a_number_or_a_schedule():
    term = KLToReference(coefficient=Linear(0.0, 0.1))
    assert from_plain(to_plain(term)) == term
    assert replaced(term, "coefficient", "1e-3").coefficient == 1e-3
    assert replaced(term, "coefficient.end", 0.2).coefficient == Linear(0.0, 0.2)
    told = {"type": "hocket.schedules.Cosine", "start": 0, "end": 1}
    assert replaced(term, "coefficient", told).coefficient == Cosine(0, 1)
    with pytest.raises(ConfigurationError, match="coefficient"):
        replaced(term, "coefficient", "much")
    with pytest.raises(ConfigurationError, match="at least 0"):
        replaced(term, "coefficient", -0.1)
