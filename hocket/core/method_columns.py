"""Columns by which the pieces of one method, in several rooms, speak to each other."""

from __future__ import annotations

from hocket.core.columns import InfoColumn

DATABASE = InfoColumn("database", "The database as the episode left it.")
CLOSED = InfoColumn("closed", "Whether the user closed the talk.")
ALONE = InfoColumn("alone", "What the agent answered without peers; None if it was not asked.")
ROUTE_AGREED = InfoColumn("agreed", "Whether the pair agreed on one route.")
MESSAGES = InfoColumn("messages", "How many messages the dialogue had.")
ANSWERS = InfoColumn("answers", "The answer of each role, by role.")
