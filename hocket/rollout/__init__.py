"""Who is asked how many times; the loop between sampling and scoring."""

from hocket.rollout.accuracy import AccuracySampling
from hocket.rollout.agent_turn_tree import AgentTurnTree
from hocket.rollout.alternating import AlternatingRollout
from hocket.rollout.appeals import WithAppeals
from hocket.rollout.baseline import WithGreedyBaseline
from hocket.rollout.beliefs import WithBeliefs
from hocket.rollout.compressed import CompressedThoughts, FirstMention
from hocket.rollout.contrast import ContrastGroups
from hocket.rollout.correction import GuidedCorrection
from hocket.rollout.demonstrations import Demonstrations, Preferences
from hocket.rollout.dialogue_tree import DialogueTree
from hocket.rollout.difficulty import DifficultyAware
from hocket.rollout.dropped import DroppedThoughts
from hocket.rollout.dynamic import DynamicSampling
from hocket.rollout.expert import WithExpert
from hocket.rollout.forced import ForcedAnswers
from hocket.rollout.independent import Independent
from hocket.rollout.judged_turns import JudgedTurns
from hocket.rollout.latent import LatentThoughts
from hocket.rollout.message_search import UCT, MessageSearch
from hocket.rollout.named_turns import NamedBy, ProbedTurns
from hocket.rollout.nucleus import DelayedNucleus, NucleusMask
from hocket.rollout.plan_runs import PlanRuns
from hocket.rollout.reference import WithReference
from hocket.rollout.refilled import Refilled
from hocket.rollout.resampled import ResampledTurn
from hocket.rollout.selected import Selected
from hocket.rollout.serial import SerialGroup
from hocket.rollout.tempered import Tempered
from hocket.rollout.tree import PlanTree
from hocket.rollout.within_band import WithinBand

__all__ = [
    "UCT",
    "AccuracySampling",
    "AgentTurnTree",
    "AlternatingRollout",
    "CompressedThoughts",
    "ContrastGroups",
    "DelayedNucleus",
    "Demonstrations",
    "DialogueTree",
    "DifficultyAware",
    "DroppedThoughts",
    "DynamicSampling",
    "FirstMention",
    "ForcedAnswers",
    "GuidedCorrection",
    "Independent",
    "JudgedTurns",
    "LatentThoughts",
    "MessageSearch",
    "NamedBy",
    "NucleusMask",
    "PlanRuns",
    "PlanTree",
    "Preferences",
    "ProbedTurns",
    "Refilled",
    "ResampledTurn",
    "Selected",
    "SerialGroup",
    "Tempered",
    "WithAppeals",
    "WithBeliefs",
    "WithExpert",
    "WithGreedyBaseline",
    "WithReference",
    "WithinBand",
]
