"""Games in which players move once each, in order and seeing all earlier moves: their subgame-perfect equilibria.

With threshold B, `r` players left to move after a history that sums to `s`, actions in [0, m] and
`cost > multiplier / n`, the public-goods game of `hocket.methods.teams.mac_spgg` has one subgame-perfect equilibrium
for every bonus > cost - multiplier / n: all who can still reach B contribute m, and nobody else anything. For the last
player decides whether its own m completes B, in which case each unit gains bonus + multiplier / n - cost > 0, and
otherwise loses; and who moves before it sees that with s + r m >= B its own m lets the rest follow, while
with less nobody is ever paid. So the path of play is full contribution for B <= n m, and every history contributes
exactly for B <= m.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

History = tuple[float, ...]
Payoffs = Callable[[Sequence[float]], Sequence[float]]


@dataclass(frozen=True)
class Solution:
    """The subgame-perfect equilibria of a game.

    Attributes:
        choices: by history, every action that is chosen there in some equilibrium of the subgame.
        plays: every play that some equilibrium leads to.
    """

    choices: Mapping[History, frozenset[float]]
    plays: frozenset[History]

    @property
    def unique(self) -> bool:
        """Whether there is one equilibrium."""
        return all(len(actions) == 1 for actions in self.choices.values())


def backward_induction(players: int, actions: Sequence[float], payoffs: Payoffs) -> Solution:
    """All pure subgame-perfect equilibria, ties included, from the last move back.

    An action is part of one when some equilibrium play after it gives the mover no less than the worst equilibrium
    play after every other action: those who move later may treat a deviation as ill as they like.
    """
    choices: dict[History, frozenset[float]] = {}

    def plays(history: History) -> frozenset[History]:
        if len(history) == players:
            return frozenset({history})
        mover = len(history)
        after = {action: plays((*history, action)) for action in actions}
        value = {play: payoffs(play)[mover] for found in after.values() for play in found}
        worst = {action: min(value[play] for play in found) for action, found in after.items()}
        kept = {
            action: frozenset(
                play for play in found if all(value[play] >= worst[other] for other in actions if other != action)
            )
            for action, found in after.items()
        }
        choices[history] = frozenset(action for action, found in kept.items() if found)
        return frozenset().union(*kept.values())

    found = plays(())
    return Solution(choices, found)
