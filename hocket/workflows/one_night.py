"""One night of werewolf for two: one speaks for itself, the other believes it or not."""

from __future__ import annotations

import re
from dataclasses import dataclass

from hocket.core.columns import InfoColumn
from hocket.types import Scenario
from hocket.workflows.team import Team
from hocket.workflows.workflow import Outcome, Workflow

CARD = InfoColumn("card", "The card that the speaker held.")

CLAIM = re.compile(r"\b(seer|swear|promise|trust|innocent)\b", re.IGNORECASE)
DOUBT = re.compile(r"\b(liar|lie|lies|lying|doubt|wolf|hang)\b", re.IGNORECASE)

SPEAKER = "You are a {card}. Speak to the village: say that you are the seer, or keep to small talk."
JUDGE = "The speaker, villager or wolf, says: {said}\nSay whether you trust it or take it for a liar."


@dataclass(frozen=True)
class OneNight(Workflow):
    """A game of bluff in free words, small enough to be solved: a reduced Werewolf.

    The speaker is villager or wolf with even chances, which it alone knows. It claims to be somebody (a word such as
    seer, swear or trust) or keeps quiet. A quiet wolf is found out and loses 1 to the judge, a quiet villager wins 1.
    After a claim the judge doubts (a word such as liar, doubt or wolf) or believes. Believed, the speaker wins 1;
    doubted, a villager wins `stake` and a wolf loses it. Each gets what the other loses.

    With stake s a villager always claims, a wolf with `(s - 1) / (s + 1)`, and the judge doubts a claim with
    `2 / (s + 1)`: only so can neither gain.
    """

    name = "one-night"
    description = "one claims to be the seer, the other believes it or not (LSPO)"

    stake: float = 2.0

    roles = ("speaker", "judge")
    scores = True

    def __post_init__(self) -> None:
        if self.stake <= 1:
            raise ValueError(f"stake must be above 1, not {self.stake}")

    async def play(self, scenario: Scenario, team: Team) -> Outcome:
        card = ("villager", "wolf")[int(team.key.derive("card").numpy().integers(2))]
        said = await team.speaker(SPEAKER.format(card=card), state=card)
        if not CLAIM.search(said.text):
            won = 1.0 if card == "villager" else -1.0
            return Outcome(said.text, turn_rewards={"reward": {said: won}}, info={CARD.name: card})
        judged = await team.judge(JUDGE.format(said=said), state="judge")
        doubted = bool(DOUBT.search(judged.text))
        won = (self.stake if card == "villager" else -self.stake) if doubted else 1.0
        return Outcome(judged.text, turn_rewards={"reward": {said: won, judged: -won}}, info={CARD.name: card})
