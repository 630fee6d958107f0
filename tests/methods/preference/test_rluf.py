"""Which scores user love reads."""

from __future__ import annotations

import pytest

from hocket.core.errors import ConfigurationError
from hocket.lab.claims.harness import inspect_rows
from hocket.methods.preference.rluf import RLUF


def test_a_floor_reads_the_score_of_help() -> None:
    row = {"group": "g", "scores": {"love": 1.0, "helpful": 1.0}, "logp": [-1.0], "logp_ref": [-1.0]}
    with pytest.raises(ConfigurationError, match=r"combine\.help"):
        inspect_rows(RLUF.but({"combine.floor": 0.5, "combine.help": "use"}), [row, row])
