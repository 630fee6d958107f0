"""Spectral PO and EDGE-GRPO take an answer for right from the return that is common to all, `RIGHT`."""

from __future__ import annotations

from dataclasses import fields

import pytest

from hocket.core.signals import RIGHT
from hocket.lab.toys.recorded_answers import sample, shaped
from hocket.methods.group_relative.edge_grpo import GuidedCorrection
from hocket.methods.group_relative.spectral_po import SPECTRAL_PO, StepScores


@pytest.mark.parametrize("stage", [GuidedCorrection, StepScores])
def test_the_least_return_of_a_right_answer_is_the_common_one(stage: type) -> None:
    (success,) = (one.default for one in fields(stage) if one.name == "success")
    assert success == RIGHT


@pytest.mark.parametrize(("best", "kept"), [(RIGHT, True), (RIGHT - 0.01, False)])
def test_a_group_with_a_right_answer_keeps_its_rewards(best: float, kept: bool) -> None:
    rows = [sample("a", reward, [-1.0], text="1 + 1 = 2") for reward in (0.0, best)]
    assert (shaped(SPECTRAL_PO, rows) == [0.0, best]) == kept
