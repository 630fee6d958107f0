"""Rewards that look at the length of an answer, in decisions of all its turns."""

from __future__ import annotations

from hocket.core.batch import GroupBy

SCENARIO = GroupBy("scenario")


# ---------------------------------------------------------------- one answer alone


# ---------------------------------------------------------------- answers of a group
