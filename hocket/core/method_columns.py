"""Columns by which the pieces of one method, in several rooms, speak to each other."""

from __future__ import annotations

from hocket.core.columns import InfoColumn

ACCURACY_WITH = InfoColumn("accuracy_with", "The mean score of the scenario's samples told to use what is compared.")
ACCURACY_WITHOUT = InfoColumn("accuracy_without", "The mean score of the scenario's samples told to avoid it.")
APPEAL = InfoColumn("appeal", "The judge's verdict on an appeal; None if not asked or without an opinion.")
BELIEFS = InfoColumn("beliefs", "Per turn the belief in the right answer as the turn began; None where unknown.")
CHAIN = InfoColumn("chain", "Which of the scenario's chains the answer was taken from.")
EXIT = InfoColumn("exit", "At which exit of its chain the answer was taken, the earliest first.")
COMPRESSED = InfoColumn(
    "thinking",
    "A right response's thought: place of its `tag`, tokens `kept` and `original`, "
    "and whether the answer was `reached`.",
)
DECISIVE = InfoColumn("decisive", "The places of the turns that a judge called decisive, a list.")
FORCED_VALUES = InfoColumn("forced_values", "What answers forced at each cut are worth, from the start to the end.")
HITS = InfoColumn("hits", "For each item of a list whether it is relevant, 0 or 1.")
MESSAGE_VALUES = InfoColumn("message_values", "The mean return through each message of the episode, in [-1, 1].")
TEMPERED = InfoColumn("tempered", "True for samples at a temperature of their own, which are credited apart.")
USUAL_ENTROPY = InfoColumn("usual_entropy", "By turn, the mean entropy at this turn in earlier steps, nats, or None.")
DATABASE = InfoColumn("database", "The database as the episode left it.")
CLOSED = InfoColumn("closed", "Whether the user closed the talk.")
ALONE = InfoColumn("alone", "What the agent answered without peers; None if it was not asked.")
ROUTE_AGREED = InfoColumn("agreed", "Whether the pair agreed on one route.")
MESSAGES = InfoColumn("messages", "How many messages the dialogue had.")
ANSWERS = InfoColumn("answers", "The answer of each role, by role.")
