"""A linear-quadratic game of two: what each plans a few steps ahead, and what either could gain by a best answer."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hocket.core.errors import ConfigurationError
from hocket.lab.exact.mdp import Array
from hocket.lab.exact.worlds import WorldFamily

DISCOUNT, SWEEPS = 0.9, 500
"""Of costs a step later; and steps after which nothing is left of them, to float64."""


@dataclass(frozen=True, eq=False)
class Rendezvous:
    """`x' = A x + b_1 u_1 + b_2 u_2`, and each pays `sum_t discount^t (x'Q_i x + r_i u_i^2)`.

    x holds a place and a speed of each, `[4]`. Each wants to be at 0, costs a push its effort, and both want to be
    together: as that cost is shared and all others are each one's own, pushes fixed ahead are a potential game.

    An answer is what each takes the rest to cost, matrices `[2, 4, 4]` of `x'P_i x` where its look ahead ends. Both
    then plan anew at every step (see `planned`), and the value is less what the two could gain by best answers to the
    other's gains, summed, from `x ~ N(0, I)`.

    Attributes:
        look: how many steps a plan has. together: what being apart costs, `(p_1 - p_2)^2` times this.
        shared: both pay the sum of all costs, effort included; then it is one regulator with two hands.
    """

    look: int = 1
    together: float = 0.5
    shared: bool = False
    name: str = "rendezvous"

    def __post_init__(self) -> None:
        if self.look < 1 or self.together < 0:
            raise ConfigurationError(
                f"{self.name}: look = {self.look}, together = {self.together}; look is at least 1, together not below 0"
            )

    @property
    def move(self) -> Array:
        """A, `[4, 4]`."""
        return np.kron(np.eye(2), np.array([[1.0, 0.5], [0.0, 0.9]]))

    @property
    def push(self) -> Array:
        """b_1 and b_2, the columns of `[4, 2]`."""
        return np.kron(np.eye(2), np.array([[0.125], [0.5]]))

    @cached_property
    def states(self) -> Array:
        """Q_1 and Q_2, `[2, 4, 4]`."""
        apart = self.together * np.outer([1, 0, -1, 0], [1, 0, -1, 0])
        own = np.array([np.diag([1.0, 0.1, 0.0, 0.0]), np.diag([0.0, 0.0, 0.3, 0.1])])
        return np.stack([own.sum(0) + apart] * 2) if self.shared else own + apart

    @cached_property
    def efforts(self) -> Array:
        """`[2, 2]`, what each player pays for each push, squared."""
        own = np.diag([0.5, 1.0])
        return np.stack([own.sum(0)] * 2) if self.shared else own

    # ------------------------------------------------------------ gains

    def cost(self, gains: Array) -> Array:
        """`[2, 4, 4]`, what each pays from x on where both push by `u_i = -gains_i x`, gains `[2, 4]`."""
        return np.stack([self._summed(player, gains) for player in (0, 1)])

    def _summed(self, player: int, gains: Array) -> Array:
        closed = self.move - self.push @ gains
        paid = self.states[player] + gains.T @ np.diag(self.efforts[player]) @ gains
        # vec(P) = vec(paid) + discount vec(F'P F)
        whole = np.eye(16) - DISCOUNT * np.kron(closed.T, closed.T)
        found: Array = np.linalg.solve(whole, paid.reshape(-1)).reshape(4, 4)
        return found

    def answered(self, player: int, gains: Array) -> Array:
        """`[4]`, the gain of a player that is best where the other keeps its own of `gains` `[2, 4]`."""
        other = 1 - player
        push, effort = self.push[:, player], self.efforts[player]
        move = self.move - np.outer(self.push[:, other], gains[other])
        paid = self.states[player] + effort[other] * np.outer(gains[other], gains[other])
        after, gain = np.zeros((4, 4)), np.zeros(4)
        for _ in range(SWEEPS):
            gain = DISCOUNT * push @ after @ move / (effort[player] + DISCOUNT * push @ after @ push)
            closed = move - np.outer(push, gain)
            after = paid + effort[player] * np.outer(gain, gain) + DISCOUNT * closed.T @ after @ closed
        return gain

    def gain(self, gains: Array) -> float:
        """What both could gain by best answers, summed; not finite where a state grows faster than costs fade."""
        if float(np.abs(np.linalg.eigvals(self.move - self.push @ gains)).max()) ** 2 * DISCOUNT >= 1:
            return float("inf")
        paid, total = self.cost(gains), 0.0
        for player in (0, 1):
            better = gains.copy()
            better[player] = self.answered(player, gains)
            total += max(0.0, float(np.trace(paid[player]) - np.trace(self._summed(player, better))))
        return total

    # ------------------------------------------------------------ planning ahead

    def planned(self, rest: Array) -> Array:
        """`[2, 4]`, gains of the first pushes of plans that answer each other, each `look` steps and then `rest`.

        A plan is pushes fixed ahead; the other's plan is what it says. What either plans is linear in the state and in
        the other's plan, and so is the pair in which neither would change its own.
        """
        size = 4 + 2 * self.look  # Rows of x_0, then of the first's pushes, then of the second's.
        pushes = [[4 + player * self.look + step for step in range(self.look)] for player in (0, 1)]
        rows, slopes = np.eye(4, size), np.zeros((2, size, size))
        for step in range(self.look):
            now = np.eye(size)[[pushes[0][step], pushes[1][step]]]
            for player in (0, 1):
                paid = rows.T @ self.states[player] @ rows + now.T @ np.diag(self.efforts[player]) @ now
                slopes[player] += DISCOUNT**step * paid
            rows = self.move @ rows + self.push @ now
        for player in (0, 1):
            slopes[player] += DISCOUNT**self.look * rows.T @ rest[player] @ rows
        still = np.concatenate([slopes[player][pushes[player]] for player in (0, 1)])
        found: Array = np.linalg.solve(still[:, 4:], still[:, :4])[[0, self.look]]
        return found

    def value(self, rest: Array) -> float:
        return 0.0 - self.gain(self.planned(rest))

    @property
    def optimum(self) -> float:
        """Of an equilibrium."""
        return 0.0


def rendezvous(look: int) -> Rendezvous:
    """Plans of so many steps."""
    return Rendezvous(look, name=f"rendezvous:{look}")


RENDEZVOUS = WorldFamily(
    name="rendezvous", description="a linear-quadratic game of two who plan so many steps", make=rendezvous, size=(1,)
)
