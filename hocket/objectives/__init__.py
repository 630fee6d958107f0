"""What is minimised. Regularisers are objectives too; terms add."""

from hocket.objectives.adaptive_clip import AdaptiveClip
from hocket.objectives.among import Among
from hocket.objectives.discriminative import Discriminative
from hocket.objectives.divergence import ExactKL, KLToReference
from hocket.objectives.drift import ClipDrift, DriftSurrogate, TanhDrift
from hocket.objectives.entropy import EntropyBonus
from hocket.objectives.geometric import GeometricMean
from hocket.objectives.importance import ClippedImportanceWeight
from hocket.objectives.learnt_drift import LearntDrift
from hocket.objectives.likelihood import NegativeLogLikelihood
from hocket.objectives.masked import MaskedPolicyGradient
from hocket.objectives.negative_aware import NegativeAwareLikelihood
from hocket.objectives.policy_gradient import PolicyGradient
from hocket.objectives.preference import DPO
from hocket.objectives.proximity import HingeTrustRegion, KLToOld, LogRatioPenalty
from hocket.objectives.quadratic import QuadraticDrift
from hocket.objectives.regression import AdvantageRegression
from hocket.objectives.surrogate import ClippedSurrogate
from hocket.objectives.trust_region import ForwardKLDrift
from hocket.objectives.value import ValueLoss

__all__ = [
    "DPO",
    "AdaptiveClip",
    "AdvantageRegression",
    "Among",
    "ClipDrift",
    "ClippedImportanceWeight",
    "ClippedSurrogate",
    "Discriminative",
    "DriftSurrogate",
    "EntropyBonus",
    "ExactKL",
    "ForwardKLDrift",
    "GeometricMean",
    "HingeTrustRegion",
    "KLToOld",
    "KLToReference",
    "LearntDrift",
    "LogRatioPenalty",
    "MaskedPolicyGradient",
    "NegativeAwareLikelihood",
    "NegativeLogLikelihood",
    "PolicyGradient",
    "QuadraticDrift",
    "TanhDrift",
    "ValueLoss",
]
