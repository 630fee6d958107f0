"""A controller in use: actions for observations, in the forms that its environment has."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from hocket.apps.use.environment_form import EnvironmentForm
from hocket.apps.use.trained_policy import TrainedPolicy
from hocket.core.errors import ConfigurationError, HocketError
from hocket.core.keys import uniforms
from hocket.policies.control import ControlPolicy
from hocket.rollout.joint import JointController

Actions = tuple[Any, NDArray[np.float32] | None]
"""The action of one observation, or the actions of a batch; and the state to pass in next."""


@dataclass(eq=False, repr=False)
class TrainedController(TrainedPolicy):
    """A controller. `act` gives the actions that `hocket eval` plays, to the last bit.

    Attributes:
        form: the forms of observations and actions. width: rows that the network reads together, as in evaluation.
    """

    form: EnvironmentForm = field(kw_only=True)
    width: int = field(kw_only=True)

    what = "a controller"
    use = ".act(observation)"

    @property
    def carries(self) -> int:
        """Numbers of its state; 0 if each action depends on one observation alone."""
        return int(getattr(self.policy, "carries", 0))

    def act(
        self,
        observation: Any,
        state: NDArray[np.float32] | None = None,
        greedy: bool = True,
        *,
        allowed: Any = None,
        episode_start: Any = None,
        reward: Any = None,
    ) -> Actions:
        """The action for an observation, or the actions for a batch of B, and the new state.

        Args:
            observation: as the environment gives it, or a batch `[B, ..]`; raw, for the policy normalises by itself.
                Also the flat numbers `[O]`, a `Dict` observation, and `{"observation": .., "action_mask": ..}`.
            state: what the last call returned, `[carries]` or `[B, carries]`; None begins an episode.
            greedy: the likeliest action, else one drawn at the temperature of training.
            allowed: which discrete actions may be taken, `[A]` or `[B, A]` bool; all without it.
            episode_start: which rows begin a new episode, `[B]` bool; their state is set to 0.
            reward: what the last action was paid, a number or `[B]`; only policies that are conditioned on the return
                that is still wanted read it.

        Returns:
            The action as the environment takes it: an int or a vector `[A]` within its bounds, for a batch `[B]` or
            `[B, A]`; and the state, None for a controller without one.

        Raises:
            ConfigurationError: for shapes that do not fit, or an observation that is not finite.
        """
        rows, mask = self.form.rows(observation)
        single = rows.ndim == 1
        rows = rows[None] if single else rows
        carried = self._carried(state, len(rows), single=single)
        policy = self.policy
        if isinstance(policy, ControlPolicy) and policy.reads_rewards and state is not None:
            if reward is None:
                raise ConfigurationError(
                    f"policy {policy.name!r} reads what its last action was paid; pass it as reward, beside the state"
                )
            policy.paid(np.broadcast_to(np.asarray(reward, np.float64), len(rows)), carried)
        if episode_start is not None:
            carried[np.broadcast_to(np.asarray(episode_start, bool), len(rows))] = 0.0
        permitted = self._allowed(mask if allowed is None else allowed, len(rows))
        actions = self._decide(rows, carried, permitted, greedy=greedy)
        moves = [self.form.move(action) for action in (actions.tolist() if actions.ndim == 1 else actions)]
        kept_state = None if not self.carries else carried[0] if single else carried
        return (moves[0] if single else np.array(moves)), kept_state

    def _decide(
        self,
        rows: NDArray[np.float32],
        carried: NDArray[np.float32],
        allowed: NDArray[np.bool_] | None,
        *,
        greedy: bool,
    ) -> NDArray[Any]:
        """Actions of rows `[B, O]` in the policy's own units; `carried` changes in place."""
        policy, width = cast(JointController, self.policy), self.width
        temperature = np.full(width, 0.0 if greedy else self.subject.config.decoding.temperature, np.float32)
        draws = np.full((len(rows), policy.draws), 0.5)
        if not greedy:
            counters = np.arange(draws.size, dtype=np.uint64).reshape(draws.shape)
            draws = uniforms(np.array([[self._key("act").word]], np.uint64), counters)
        actions: list[NDArray[Any]] = []
        # Blocks of one size, blank rows among them: the last bit of a product depends on how many rows it has.
        for start in range(0, len(rows), width):
            block, blank = slice(start, start + width), width - len(rows[start : start + width])
            held = _padded(carried[block], blank)
            options: dict[str, Any] = {"carried": held} if self.carries else {}
            if allowed is not None:
                options["allowed"] = _padded(allowed[block], blank, fill=True)
            padded = _padded(rows[block], blank), _padded(draws[block], blank, fill=0.5)
            chosen, logps = policy.sample(*padded, temperature, **options)
            if not np.isfinite(logps[: width - blank]).all():
                raise HocketError(
                    f"policy {policy.name!r} gives numbers that are not finite; its weights have diverged"
                )
            carried[block] = held[: width - blank]
            actions.append(chosen[: width - blank])
        return np.concatenate(actions) if actions else np.zeros(0, np.int64)

    def _carried(self, state: NDArray[np.float32] | None, count: int, *, single: bool) -> NDArray[np.float32]:
        """The state of each row, `[B, carries]`, a copy."""
        if state is None or not self.carries:
            return np.zeros((count, self.carries), np.float32)
        shape = (self.carries,) if single else (count, self.carries)
        found_shape = np.shape(state)
        if found_shape != shape:
            raise ConfigurationError(f"state has the shape {found_shape}, and {shape} goes with this observation")
        return np.array(state, np.float32).reshape(count, self.carries)

    def _allowed(self, allowed: Any, count: int) -> NDArray[np.bool_] | None:
        """The mask of each row, `[B, A]`."""
        if allowed is None:
            return None
        actions = self.form.choices
        mask = np.asarray(allowed, bool)
        if not actions or mask.shape not in ((actions,), (count, actions)):
            shape = f"{(actions,)} or {(count, actions)}" if actions else "none, for actions are vectors"
            raise ConfigurationError(f"allowed has the shape {mask.shape}, and must have {shape}")
        mask = np.broadcast_to(mask, (count, actions))
        if not mask.any(1).all():
            raise ConfigurationError("allowed permits no action in some row; permit at least one")
        return mask

    def save_onnx(self, file: str | Path) -> Path:
        """Writes the greedy controller as an ONNX file; see `hocket.apps.use.onnx`."""
        from hocket.apps.use.onnx import write_onnx

        checkpoint = self.subject.checkpoint
        about = {
            "task": self.subject.name,
            "role": self.role,
            "checkpoint": "" if checkpoint is None else checkpoint.name,
        }
        return write_onnx(cast(ControlPolicy, self.policy), self.form, Path(file), about)


def _padded(rows: NDArray[Any], count: int, fill: float = 0.0) -> NDArray[Any]:
    """Rows with `count` blank ones behind them, a copy."""
    return np.concatenate([rows, np.full((count, *rows.shape[1:]), fill, rows.dtype)])
