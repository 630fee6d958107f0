"""A teacher's guidance: what is refused."""

from __future__ import annotations

import pytest

from hocket.core.errors import ConfigurationError
from hocket.lab.claims.lesson_data import begin
from hocket.methods.base.grpo import GRPO


def test_a_teacher_that_nobody_is_held_against_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="compares with no reference"):
        begin(GRPO, "sums", {"teacher": "nano"})
