"""What a controller must know of its environment."""

from __future__ import annotations

from typing import Protocol


class Spaces(Protocol):
    """What a controller must know of its environment: sizes of observation and action vectors.

    `actions` is the number of choices when `discrete`, else the dimensions of the action vector. One that offers the
    state of all agents together has its size in an attribute `joint`; one whose observations begin with a grid, its
    shape in an attribute `shape`; one whose agents see others row by row, in `slots` which rows, and in `plane` what of
    it may be turned; one that shows pictures, or other numbers that networks should not read as they are, their ranges
    in `ranges`, and those of the joint state in `joint_ranges`. One whose actions are several choices has the options
    of each in `choices`; one whose actions are neither choices nor vectors, their form in `action_form`; one that
    networks of its own read, its form in `sight_form` (see `hocket.policies.control_parts`); and one of a joint task,
    its world in `world`.
    """

    @property
    def observations(self) -> int: ...

    @property
    def actions(self) -> int: ...

    @property
    def discrete(self) -> bool: ...
