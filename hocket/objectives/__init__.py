"""What is minimised. Regularisers are objectives too; terms add."""

from hocket.objectives.divergence import ExactKL, KLToReference
from hocket.objectives.entropy import EntropyBonus
from hocket.objectives.importance import ClippedImportanceWeight
from hocket.objectives.likelihood import NegativeLogLikelihood
from hocket.objectives.policy_gradient import PolicyGradient
from hocket.objectives.preference import DPO
from hocket.objectives.surrogate import ClippedSurrogate
from hocket.objectives.value import ValueLoss

__all__ = [
    "DPO",
    "ClippedImportanceWeight",
    "ClippedSurrogate",
    "EntropyBonus",
    "ExactKL",
    "KLToReference",
    "NegativeLogLikelihood",
    "PolicyGradient",
    "ValueLoss",
]
