"""Runs by name: alone, of a plan, and from within a plan."""

from __future__ import annotations

from pathlib import Path

import pytest

from hocket.core.errors import ConfigurationError
from hocket.train.runfolder import PLAN, find_run, run_named


def test_a_run_is_found_by_name_beside_a_plan_too(tmp_path: Path) -> None:
    for name in ("alone", "taught/1-lessons", "taught/2-grpo", "asking/1-first"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "config.yaml").touch()
    for name in ("taught", "asking"):
        (tmp_path / name / PLAN).touch()
    runs = str(tmp_path)
    assert run_named("alone", runs) == tmp_path / "alone" == find_run(str(tmp_path / "alone"), "elsewhere")
    assert run_named("taught", runs) == tmp_path / "taught" / "2-grpo"
    within = str(tmp_path / "asking")
    assert run_named("1-first", within) == tmp_path / "asking" / "1-first"
    assert run_named("alone", within) == tmp_path / "alone"
    assert run_named("taught", within) == tmp_path / "taught" / "2-grpo"
    assert run_named("nowhere", within) is None
    with pytest.raises(ConfigurationError, match="there is no run 'alon'; did you mean 'alone'"):
        find_run("alon", runs)
