"""Episodes of environments that are handed over in pieces while they are played."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from hocket.core.keys import Key
from hocket.rollout.vector import EpisodePool, VectorEpisode, VectorPlayer, episodes
from hocket.types import Assignment, Trajectory


class PiecewisePlayer(VectorPlayer):
    """A `VectorPlayer` whose episodes may also be learnt from before they end."""

    @cached_property
    def _narrow(self) -> dict[int, VectorPlayer]:
        """Players of fewer environments side by side."""
        return {}

    def close(self) -> None:
        super().close()
        for player in self._narrow.values():
            player.close()

    def pieces(
        self, assignments: Sequence[Assignment], *, key: Key, length: int, width: int
    ) -> Generator[list[Trajectory], None, list[Trajectory]]:
        """What `width` environments saw and did in `length` rounds of decisions, until all episodes have ended.

        Where an episode ends the next one begins.

        A piece is a trajectory of its decisions alone. Where the episode goes on after it, it is truncated, with the
        next observation as its final state. Weights that change between two pieces are those of the next piece.

        Returns:
            The whole episodes, as `play` returns them.
        """
        waiting = list(episodes(assignments, key))
        versions: dict[int, list[int]] = {episode.place: [] for episode in waiting}
        if width not in self._narrow:
            self._narrow[width] = VectorPlayer(self._world, self.policy, agent=self.agent, width=width)
        pool = EpisodePool(self._narrow[width], self.policy, iter(waiting))
        while pool.active:
            ended: list[VectorEpisode] = []
            for _ in range(length):
                if pool.active:
                    ended += pool.advance()
            going = [
                replace(episode, final_state=pool.observations[slot].copy())
                for slot, episode in enumerate(pool.slots)
                if episode is not None
            ]
            cuts = [self._piece(episode, versions[episode.place]) for episode in (*ended, *going)]
            yield [piece for piece in cuts if piece.turns]
        recorded = [self._recorded(episode) for episode in waiting]
        for episode, trajectory in zip(waiting, recorded, strict=True):
            for turn in trajectory.turns:
                turn.version = np.array(versions[episode.place], np.int64)
        return recorded

    def _piece(self, episode: VectorEpisode, versions: list[int]) -> Trajectory:
        """The decisions of an episode that have no version yet; they get the present one."""
        new = slice(len(versions), len(episode.actions))
        versions += [self.policy.version] * (new.stop - new.start)
        columns = {name: getattr(episode, name)[new] for name in ("observations", "actions", "logps", "rewards")}
        return self._recorded(replace(episode, **columns))
