"""The collision probability of a policy: that two of its draws are the same action."""

from __future__ import annotations

import torch
from torch import Tensor

from hocket.core.annotators import Annotator, of_distributions
from hocket.core.batch import Batch
from hocket.core.errors import ConfigurationError
from hocket.stages import Policy


def collisions(batch: Batch, policy: Policy, decisions: Tensor) -> Tensor:
    """log sum_a pi(a)^2 at the decisions, `[T]` in nats; 0 elsewhere.

    Raises:
        ConfigurationError: for a policy without distributions over discrete actions.
    """
    column = of_distributions(batch, policy, decisions, lambda logp, action: torch.logsumexp(2 * logp, 1))
    if column is None:
        raise ConfigurationError(
            "objective.on_policy_weight aligns log-probs by the policy's distribution over actions, and this policy "
            "shows none; set it to false"
        )
    return column


COLLISION = Annotator("collision", "The log of the probability that two draws are the same action, [T].", collisions)
