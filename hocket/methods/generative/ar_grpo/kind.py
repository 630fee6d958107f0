"""Who draws picture tokens: a shipped generator, and how it plays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hocket.core.errors import ConfigurationError, HocketError
from hocket.core.keys import Key, uniforms
from hocket.methods.generative.ar_grpo.policy import ROW, TokenPainter
from hocket.stages import Player, Policy, Task
from hocket.train.kinds.kind import ACCURACY
from hocket.train.kinds.network import Network
from hocket.types import Assignment, Trajectory, Turn, before_training

KIND = "picture tokens"


@dataclass
class TokenPlayer:
    """Draws pictures block by block; at temperature 0 every token is the likeliest.

    A sample depends on its own key alone. The picture `[D]`, pixels in [-1, 1], is the trajectory's `final_state`.
    """

    policy: TokenPainter
    reference: TokenPainter | None = None

    async def play(self, assignments: Sequence[Assignment], *, key: Key) -> list[Trajectory]:
        """Every sample of every assignment, in assignment order, then sample order.

        Raises:
            ConfigurationError: for a decoding that cuts off distributions.
        """
        samples = [
            (assignment, number)
            for assignment in assignments
            for number in range(assignment.first, assignment.first + assignment.samples)
        ]
        result: dict[int, Trajectory] = {}
        for actor in dict.fromkeys(assignment.actor for assignment in assignments):
            mine = [place for place, (assignment, _) in enumerate(samples) if assignment.actor == actor]
            result |= zip(mine, self._drawn([samples[place] for place in mine], key), strict=True)
        return [result[place] for place in range(len(samples))]

    @torch.inference_mode()
    def _drawn(self, samples: Sequence[tuple[Assignment, int]], key: Key) -> list[Trajectory]:
        policy = self._actor(samples[0][0])
        layout, rows = policy.layout, np.zeros(len(samples), ROW)
        for assignment, _ in samples:
            if assignment.decoding.truncates or assignment.decoding.mask is not None:
                raise ConfigurationError(
                    "picture tokens are drawn from whole distributions; leave decoding.top_k, top_p, min_p and mask "
                    "unset"
                )
        rows["labels"] = [assignment.scenario.metadata["labels"] for assignment, _ in samples]
        rows["guidance"] = [assignment.decoding.guidance for assignment, _ in samples]
        heat = torch.tensor([assignment.decoding.temperature for assignment, _ in samples])
        words = np.array([key.derive(a.scenario.id, a.source, number).word for a, number in samples], np.uint64)
        labels, guidance = torch.from_numpy(rows["labels"].astype(np.int64)), torch.from_numpy(rows["guidance"].copy())
        tokens = torch.zeros(len(samples), layout.length, dtype=torch.long)
        logp, start = torch.zeros(len(samples), layout.length), 0
        for size in layout.blocks:
            part = slice(start, start + size)
            logits = policy.logits(tokens, labels, guidance)
            spread = torch.log_softmax(logits / torch.where(heat > 0, heat, 1.0)[:, None, None], -1)[:, part]
            counters = np.arange(start, start + size, dtype=np.uint64)[None]
            drawn = _inverse(spread, torch.from_numpy(uniforms(words[:, None], counters)))
            tokens[:, part] = torch.where(heat[:, None] > 0, drawn, spread.argmax(-1))
            logp[:, part] = spread.gather(-1, tokens[:, part, None])[..., 0]
            start += size
        pictures = layout.decode(tokens, policy.module.books).clamp(0.0, 1.0) * 2.0 - 1.0
        columns = tokens.numpy(), logp.numpy(), pictures.flatten(1).numpy()
        return [
            self._trajectory(sample, rows[place : place + 1], *(column[place] for column in columns))
            for place, sample in enumerate(samples)
        ]

    def _trajectory(
        self,
        sample: tuple[Assignment, int],
        row: NDArray[Any],
        tokens: NDArray[np.int64],
        logp: NDArray[np.float32],
        picture: NDArray[np.float32],
    ) -> Trajectory:
        (assignment, number), name = sample, self.policy.name
        turn = Turn(
            agent="painter",
            policy=name if assignment.actor == "policy" else before_training(name),
            observation=np.repeat(row, len(tokens)),
            action=tokens.copy(),
            logp=logp.copy(),
            version=np.full(len(tokens), self.policy.version, np.int64),
            prompt=assignment.scenario.messages,
            decoding=assignment.decoding,
        )
        return Trajectory(
            assignment.scenario, [turn], sample=number, final_state=picture.copy(), source=assignment.source
        )

    def _actor(self, assignment: Assignment) -> TokenPainter:
        if assignment.actor == "policy":
            return self.policy
        if self.reference is None:
            raise HocketError("the rollout samples from the policy as it was before training, which was not given")
        return self.reference


def _inverse(logp: Tensor, drawn: Tensor) -> Tensor:
    """The actions `[B, L]` at uniforms `[B, L]` of distributions `[B, L, K]`."""
    mass = logp.double().exp().cumsum(-1)
    return (drawn[..., None] * mass[..., -1:] >= mass).sum(-1).clamp(max=logp.shape[-1] - 1)


class TokenPainting(Network):
    """Pictures of two digits, by a generator of tokens that comes with the library."""

    name = KIND  # Spelt out here it would declare a workflow.
    measure = ACCURACY
    guided = True
    instead = "ar-grpo, var-grpo or grpo"

    def policy(self, task: Task, name: str, key: Key) -> Policy:
        policy: Any = TokenPainter.shipped(name, task.order)  # type: ignore[attr-defined]
        return policy  # type: ignore[no-any-return]

    def player(self, task: Task, policy: Any) -> Player:
        return TokenPlayer(policy)


TOKEN_PAINTING = TokenPainting()
