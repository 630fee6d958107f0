"""Anchor states: turns that start from the same state, at any place in a scenario's trajectories."""

from __future__ import annotations

from difflib import SequenceMatcher

import torch

from hocket.core.batch import Batch, trajectory_of_turn


def similar(one: str, other: str, threshold: float) -> bool:
    """Whether the Ratcliff-Obershelp ratio of two texts is at least `threshold`, as in the authors' code of GiGPO."""
    if one == other:
        return True
    matcher = SequenceMatcher(None, one, other)
    return (
        matcher.real_quick_ratio() >= threshold and matcher.quick_ratio() >= threshold and matcher.ratio() >= threshold
    )


def alike(batch: Batch, threshold: float) -> Batch:
    """The batch with equal state codes for similar state keys.

    Within a scenario, in assignment order and then time, each key joins the first earlier key that is similar and has
    not itself joined another one. Turns without a state key keep codes of their own.
    """
    names, owner = batch.names["state"], trajectory_of_turn(batch)
    place = zip(batch.order[owner].tolist(), batch.index.tolist(), range(batch.turns), strict=True)
    leaders: dict[int, list[str]] = {}
    joined: dict[tuple[int, str], str] = {}
    codes: dict[str, int] = {}
    column = torch.zeros_like(batch.state)
    for _, _, turn in sorted(place):
        scenario, name = int(batch.scenario[owner[turn]]), names[int(batch.state[turn])]
        if (scenario, name) not in joined:
            known = leaders.setdefault(scenario, [])
            leader = (
                None if name.startswith("\0") else next((key for key in known if similar(key, name, threshold)), None)
            )
            if leader is None and not name.startswith("\0"):
                known.append(name)
            joined[scenario, name] = name if leader is None else leader
        column[turn] = codes.setdefault(joined[scenario, name], len(codes))
    return batch.but(state=column, names={**batch.names, "state": tuple(codes)})
