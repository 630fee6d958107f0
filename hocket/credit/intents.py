"""Pairs of utterances by what they mean in a game: which intents play too little of, and which too much."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch

from hocket.core.columns import TOKEN_TEXTS
from hocket.credit.abstract_game import AbstractGame, Course, Move, Situation, Strategy
from hocket.credit.pairs import paired_turns
from hocket.credit.sibling_turns import turns_of
from hocket.credit.utterances import embedded, k_means
from hocket.keys import Key
from hocket.segments import segment_sum
from hocket.signals import REWARD, counted_trajectories, rewards_by_occurrence, token_texts, turn_visits
from hocket.stages import Credit
from hocket.types import Batch, Column, Level, Occurrences


@dataclass(frozen=True)
class Said:
    """One turn: who said what in which trajectory, at the place `phase` in it; `counts`, whether it is learnt from."""

    trajectory: int
    turn: int
    role: str
    phase: int
    text: str
    counts: bool


@dataclass(frozen=True)
class IntentPairs(Credit):
    """Pairs of turns in one situation of an abstract game: an utterance meant too rarely against one meant too often.

    Latent space policy optimisation (LSPO, arXiv 2502.04686). What each role says at each place of an episode is
    clustered into `intents` kinds; the episodes become a game in these (`AbstractGame`), which CFR solves; in a
    situation, where `pi` is the solution's mix and `p` the shares of the intents in this experience, utterances of the
    intent of largest `pi / p` are preferred to those of the smallest, if the first is played too rarely and the second
    too often by more than `margin`. At an equilibrium no intent of the mix is worth less than another, so the preferred
    one is the better valued, and among equals the one that the mix plays more.

    A situation is a role, the scenario, the turn's `state` (what its speaker alone knows) and who meant what before; a
    turn without a state knows nothing apart. What roles earn are their turns' and decisions' rewards, and the
    trajectory's for all. A turn without words is clustered by its actions. Each utterance is in one pair at most:
    `pairs` name trajectories, `compared` their turns; all others get weight 0.

    Attributes:
        intents: clusters per role and place, fewer where fewer texts differ. iterations: of CFR.
        margin: how far apart `pi` and `p` must be.
    """

    intents: int = 4
    iterations: int = 200
    margin: float = 0.05

    reads: ClassVar[frozenset[Column]] = frozenset({TOKEN_TEXTS})
    pairs: ClassVar[bool] = True
    least_samples: ClassVar[int] = 2

    def __post_init__(self) -> None:
        if self.intents < 2 or self.iterations < 1 or self.margin < 0:
            raise ValueError(
                f"intents must be at least 2, iterations at least 1 and margin at least 0, not {self.intents}, "
                f"{self.iterations} and {self.margin}"
            )

    def __call__(self, batch: Batch) -> Occurrences:
        """The batch's occurrences with `pairs` and `compared`, `[P, 2]` each; advantages are left as they are."""
        talk = self.talk(batch)
        situations, game = self.abstracted(batch, talk, self.meant(talk))
        found = self._found(situations, game, game.solved(self.iterations)) if game.situations else []
        return paired_turns(
            batch, [((better.trajectory, better.turn), (worse.trajectory, worse.turn)) for better, worse in found]
        )

    # ------------------------------------------------------------ from talk to a game

    def talk(self, batch: Batch) -> list[Said]:
        """Every turn of every trajectory that counts, in assignment order."""
        seen, order, roles = batch.occurrences, batch.order.tolist(), batch.names["role"]
        visit, starts = turn_visits(batch)
        counted = (segment_sum((seen.weight != 0).double(), visit, int(starts.sum())) > 0).tolist()
        actions, place = batch.action.tolist(), 0
        said: dict[int, list[Said]] = {}
        for trajectory, (turns, pieces) in enumerate(zip(turns_of(batch), self._pieces(batch), strict=True)):
            said[trajectory] = []
            own = seen.decision[seen.trajectory == trajectory]
            for phase, turn in enumerate(turns):
                here = (batch.turn[own] == turn).tolist()
                text = "".join(piece for piece, mine in zip(pieces, here, strict=True) if mine)
                text = text or " ".join(str(actions[at]) for at, mine in zip(own.tolist(), here, strict=True) if mine)
                role = roles[int(batch.role[turn])]
                said[trajectory].append(Said(trajectory, turn, role, phase, text, counted[place]))
                place += 1
        used = counted_trajectories(batch).tolist()
        chosen = sorted((row for row in said if used[row]), key=lambda row: order[row])
        return [one for row in chosen for one in said[row]]

    def _pieces(self, batch: Batch) -> list[list[str]]:
        lengths = batch.lengths().tolist()
        return (
            token_texts(batch, "IntentPairs") if TOKEN_TEXTS.present(batch) else [[""] * length for length in lengths]
        )

    def meant(self, talk: Sequence[Said]) -> list[int]:
        """The intent of each turn: a cluster among what its role said at that place, each text counting once."""
        texts: dict[tuple[str, int], set[str]] = {}
        for one in talk:
            texts.setdefault((one.role, one.phase), set()).add(one.text)
        intents: dict[tuple[str, int, str], int] = {}
        for (role, phase), known in texts.items():
            ordered = sorted(known)
            kinds = k_means(embedded(ordered), self.intents, Key.of(0).derive("utterances", role, phase))
            intents |= {(role, phase, text): kind for text, kind in zip(ordered, kinds, strict=True)}
        return [intents[one.role, one.phase, one.text] for one in talk]

    def abstracted(
        self, batch: Batch, talk: Sequence[Said], intents: Sequence[int]
    ) -> tuple[dict[tuple[Situation, int], list[Said]], AbstractGame]:
        """The game of these intents, and the turns that mean each intent in each situation."""
        payoffs = earned(batch)
        moves: dict[int, list[Move]] = {}
        found: dict[tuple[Situation, int], list[Said]] = {}
        for one, intent in zip(talk, intents, strict=True):
            before = moves.setdefault(one.trajectory, [])
            private = batch.names["state"][int(batch.state[one.turn])]
            move = Move(one.role, "" if private.startswith("\0") else private, intent)
            heard = tuple((other.role, other.intent) for other in before)
            scenario = batch.names["scenario"][int(batch.scenario[one.trajectory])]
            found.setdefault((Situation(one.role, scenario, move.private, heard), intent), []).append(one)
            before.append(move)
        scenarios = {row: batch.names["scenario"][int(batch.scenario[row])] for row in moves}
        return found, AbstractGame([Course(scenarios[row], tuple(own), payoffs[row]) for row, own in moves.items()])

    # ------------------------------------------------------------ and back

    def _found(
        self, said: dict[tuple[Situation, int], list[Said]], game: AbstractGame, mix: Strategy
    ) -> list[tuple[Said, Said]]:
        found: list[tuple[Said, Said]] = []
        for situation, counts in game.intents.items():
            better, worse = self.preferred(counts, mix[situation])
            if better != worse:
                members = ([one for one in said[situation, intent] if one.counts] for intent in (better, worse))
                found += list(zip(*members, strict=False))
        return found

    def preferred(self, counts: dict[int, int], mix: Mapping[int, float]) -> tuple[int, int]:
        """The intents to say more and less of, the same twice where the mix is met."""
        whole = sum(counts.values())
        share = {intent: count / whole for intent, count in counts.items()}
        better = max(share, key=lambda intent: mix[intent] / share[intent])
        worse = min(share, key=lambda intent: mix[intent] / share[intent])
        apart = min(mix[better] - share[better], share[worse] - mix[worse])
        return (better, worse) if apart > self.margin else (better, better)


def earned(batch: Batch) -> list[dict[str, float]]:
    """What each role earned in each trajectory: by its turns and decisions, and the trajectory's reward."""
    seen, roles = batch.occurrences, batch.names["role"]
    rewards = rewards_by_occurrence(batch)
    whole = [0.0] * batch.trajectories
    if REWARD[Level.TRAJECTORY] in batch.scores:
        values = batch.scores[REWARD[Level.TRAJECTORY]].values
        whole, last = values.tolist(), batch.last()
        owned = last >= 0
        rewards = rewards.index_add(0, last[owned], -values[owned].to(rewards.dtype))
    role = batch.role[batch.turn[seen.decision]]
    sums = segment_sum(rewards, seen.trajectory * len(roles) + role, batch.trajectories * len(roles))
    present = torch.zeros(batch.trajectories * len(roles), dtype=torch.bool)
    present[seen.trajectory * len(roles) + role] = True
    rows = zip(sums.reshape(-1, len(roles)).tolist(), present.reshape(-1, len(roles)).tolist(), whole, strict=True)
    return [
        {name: own + all_of for name, own, here in zip(roles, values, acts, strict=True) if here}
        for values, acts, all_of in rows
    ]
