"""What a run remembers of a step: outcomes for the ledger, and the memory of the curriculum and the rewards."""

from __future__ import annotations

from hocket.core.outcomes import SAMPLED, all_trajectories, total_reward
from hocket.core.statistics import measure_samples, measurements
from hocket.curriculum.remembering import RememberingCurriculum
from hocket.rewards import remembering
from hocket.train.ledger import SampleOutcome
from hocket.train.run_parts import RunParts
from hocket.types import Experience


def outcomes(parts: RunParts, experience: Experience) -> list[SampleOutcome]:
    """The outcomes that the ledger records: one per sample of the policies themselves, in order."""
    samples = [trajectory for trajectory in all_trajectories(experience) if trajectory.source == "own"]
    statistics = parts.lead.recipe.statistics
    measure_samples(statistics, samples)
    return [
        SampleOutcome(sample.scenario.id, total_reward(sample, parts.weights), measurements(statistics, sample))
        for sample in samples
    ]


def remember(parts: RunParts, experience: Experience) -> None:
    """Updates the memory of the curriculum and the rewards, once per step, from the experience."""
    collected = all_trajectories(experience)
    lead, curriculum = parts.lead, parts.lead.recipe.curriculum
    if isinstance(curriculum, RememberingCurriculum):
        samples = [trajectory for trajectory in collected if trajectory.source == "own"]
        memory = curriculum.after(lead.memory["curriculum"], samples, parts.weights)
        lead.memory = {**lead.memory, "curriculum": memory}
    sampled = [trajectory for trajectory in collected if trajectory.source in SAMPLED]
    parts.rewards = remembering.after(parts.rewards, sampled)
