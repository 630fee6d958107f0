"""How good a trajectory is, how several scores become one reward, and edits of it."""

from hocket.rewards.combine import WeightedSum
from hocket.rewards.functions import FunctionReward, load_reward, load_rewards
from hocket.rewards.opinions import Opinions, RewardError
from hocket.rewards.shaping import KLInReward, MaskTruncated, OverlongPenalty
from hocket.rewards.verifiers import ExactMatch, TaskVerifier

__all__ = [
    "ExactMatch",
    "FunctionReward",
    "KLInReward",
    "MaskTruncated",
    "Opinions",
    "OverlongPenalty",
    "RewardError",
    "TaskVerifier",
    "WeightedSum",
    "load_reward",
    "load_rewards",
]
