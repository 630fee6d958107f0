"""What `constraints.txt` pins."""

from __future__ import annotations

from pathlib import Path

PINS = dict(
    line.split("==")
    for line in (Path(__file__).parents[2] / "constraints.txt").read_text().splitlines()
    if "==" in line and not line.startswith("#")
)


def test_the_parts_of_mujoco_are_of_one_version() -> None:
    """`mujoco` wants `mujoco-core` and `mujoco-studio` of its own version; a later one of either breaks it."""
    assert len({PINS[part] for part in ("mujoco", "mujoco-core", "mujoco-studio")}) == 1
