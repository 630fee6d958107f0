"""Plays scenarios with a sampler: pictures from noise, step by step, side by side."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hocket.core.errors import ConfigurationError, HocketError
from hocket.core.keys import Key, uniforms
from hocket.core.noise_laws import StepCoefficients, Window, flow_schedule, log_density, steps_of, without_noise
from hocket.rollout.noisy_sampling import Sampling
from hocket.types import Assignment, Trajectory, Turn, before_training

_AT_ONCE = 256
"""Samples side by side."""


class SamplerShape(Protocol):
    """The shape of what a sampler makes: pixels of a picture, usual steps, whether it knows no prompt."""

    @property
    def pixels(self) -> int: ...

    @property
    def steps(self) -> int: ...

    @property
    def unprompted(self) -> bool: ...

    def encode(self, prompt: str) -> NDArray[np.int32]: ...


class PictureSampler(Protocol):
    """Who predicts velocities of pictures: `hocket.policies.denoising.denoiser.Denoiser`."""

    name: str
    version: int

    @property
    def shape(self) -> SamplerShape: ...

    @property
    def row_type(self) -> np.dtype[Any]:
        """The type of a recorded step."""

    def means(self, rows: NDArray[Any]) -> Tensor:
        """The means of the next states of recorded steps, `[B, D]`."""


@dataclass
class PictureSample:
    """One picture to be made.

    Attributes:
        assignment, number: what it is a sample of. begin, word: streams of its first noise and of the noise of steps.
    """

    assignment: Assignment
    number: int
    begin: int
    word: int


class DenoisingPlayer:
    """A `Player` for flow samplers. At temperature 0 the steps have no noise, so nothing is decided.

    A sample depends on its own key alone: noise is counter-based, and the network gives a row the same bits in any
    company (`Denoiser.predictions`). The picture `[D]` is the trajectory's `final_state`; its turn holds the steps with
    noise. A picture that is not finite has failed.
    """

    def __init__(self, policy: PictureSampler) -> None:
        self.policy = policy
        self.reference: PictureSampler | None = None

    async def play(self, assignments: Sequence[Assignment], *, key: Key) -> list[Trajectory]:
        """Every sample of every assignment, in assignment order, then sample order.

        Raises:
            ConfigurationError: for a decoding, a law or a number of steps that this sampler cannot have.
        """
        for assignment in assignments:
            self._check(assignment)
        waiting = list(_samples(assignments, key))
        done: list[Trajectory] = []
        for _, alike in itertools.groupby(waiting, lambda sample: self._manner(sample.assignment)):
            members = list(alike)
            for start in range(0, len(members), _AT_ONCE):
                done += self._made(members[start : start + _AT_ONCE])
        return done

    def _manner(self, assignment: Assignment) -> tuple[Sampling, float, str]:
        """What samples that are made side by side have in common."""
        return assignment.option(Sampling) or Sampling(), assignment.decoding.temperature, assignment.actor

    def _check(self, assignment: Assignment) -> None:
        decoding, policy = assignment.decoding, self.policy
        sampling = assignment.option(Sampling) or Sampling()
        if decoding.truncates or decoding.mask is not None:
            raise ConfigurationError(
                "a sampler of pictures draws from whole normal distributions; leave decoding.top_k, top_p, min_p and "
                "mask unset"
            )
        if sampling.law.path != "flow":
            raise ConfigurationError(
                f"rollout.law = {type(sampling.law).__name__} goes with a schedule of {sampling.law.path}, and policy "
                f"{policy.name!r} predicts velocities; choose FlowSDE, ConstantSDE or CPS"
            )
        if decoding.guidance != 1.0 and not policy.shape.unprompted:
            raise ConfigurationError(
                f"decoding.guidance = {decoding.guidance:g}: policy {policy.name!r} was never trained without prompts, "
                "so there is nothing to guide away from; leave it at 1"
            )
        if decoding.temperature > 0 and sampling.law.silent:
            raise ConfigurationError(
                "rollout.law adds no noise, so no step decides anything and nothing can be learnt; set its level "
                "above 0"
            )
        if decoding.temperature > 0 and (sampling.steps or policy.shape.steps) < 2:
            raise ConfigurationError(
                "rollout.steps = 1 leaves no step between noise and picture to learn from; set 2 or more"
            )

    def _made(self, samples: Sequence[PictureSample]) -> list[Trajectory]:
        """The trajectories of samples that are made alike."""
        sampling, temperature, actor = self._manner(samples[0].assignment)
        policy = self.policy if actor == "policy" else self._reference()
        shape = policy.shape
        schedule = flow_schedule(sampling.steps or shape.steps)
        if temperature == 0:
            steps = steps_of(without_noise(sampling.law), schedule, Window())
        else:
            steps = [_tempered(step, temperature) for step in steps_of(sampling.law, schedule, sampling.window)]
        rows = np.zeros(len(samples), policy.row_type)
        rows["words"] = np.stack([shape.encode(_prompt(sample.assignment)) for sample in samples])
        rows["guidance"] = [sample.assignment.decoding.guidance for sample in samples]
        rows["state"] = _normals([sample.begin for sample in samples], 0, shape.pixels)
        words, held, taken, logps = [sample.word for sample in samples], [], [], []
        with torch.inference_mode():
            for place, step in enumerate(steps):
                rows["level"] = schedule[place]
                rows["coefficients"] = (step.state, step.prediction, step.deviation)
                then = policy.means(rows)
                if step.decides:
                    drawn, mean = torch.from_numpy(_normals(words, place + 1, shape.pixels)), then
                    then = mean + step.deviation * drawn
                    held.append(rows.copy())
                    taken.append(then.numpy())
                    deviation = torch.full((len(samples),), step.deviation, dtype=torch.float64)
                    logps.append(log_density(then, mean, deviation).numpy())
                rows["state"] = then.numpy()
        return [
            self._trajectory(
                sample, rows["state"][number].copy(), *(_of(part, number) for part in (held, taken, logps))
            )
            for number, sample in enumerate(samples)
        ]

    def _trajectory(
        self,
        sample: PictureSample,
        picture: NDArray[np.float32],
        rows: NDArray[Any],
        actions: NDArray[np.float32],
        logp: NDArray[np.float64],
    ) -> Trajectory:
        assignment = sample.assignment
        unguided = (assignment.option(Sampling) or Sampling()).unguided and assignment.decoding.guidance != 1.0
        if unguided and len(rows):
            rows["guidance"] = 1.0
        name = self.policy.name
        turn = Turn(
            agent="sampler",
            policy=name if assignment.actor == "policy" else before_training(name),
            observation=rows,
            action=actions,
            logp=None if unguided else logp,
            version=np.full(len(rows), self.policy.version, np.int64),
            prompt=assignment.scenario.messages,
            decoding=assignment.decoding,
        )
        finite = bool(np.isfinite(picture).all())
        return Trajectory(
            scenario=assignment.scenario,
            turns=[turn] if len(rows) else [],
            sample=sample.number,
            final_state=picture,
            source=assignment.source,
            failure=None if finite else "sampler: the picture has numbers that are not finite",
        )

    def _reference(self) -> PictureSampler:
        if self.reference is None:
            raise HocketError("the rollout samples from the policy as it was before training, which was not given")
        return self.reference


def _samples(assignments: Sequence[Assignment], key: Key) -> Iterator[PictureSample]:
    for assignment in assignments:
        shared = (assignment.option(Sampling) or Sampling()).same_noise
        for number in range(assignment.first, assignment.first + assignment.samples):
            own_stream = key.derive(assignment.scenario.id, assignment.source, number)
            begin = key.derive(assignment.scenario.id, "noise") if shared else own_stream
            yield PictureSample(assignment, number, begin.word, own_stream.word)


def _prompt(assignment: Assignment) -> str:
    """What is asked for: the last message."""
    messages = assignment.scenario.messages
    return str(messages[-1]["content"]) if messages else ""


def _tempered(step: StepCoefficients, temperature: float) -> StepCoefficients:
    """A step at another temperature: its variance is multiplied."""
    if temperature == 1.0:
        return step
    return StepCoefficients(step.state, step.prediction, step.deviation * math.sqrt(temperature))


def _normals(words: Sequence[int], step: int, size: int) -> NDArray[np.float32]:
    """Standard normals `[B, size]` of a step, by counters of each sample's stream."""
    counters = np.arange(step * size, (step + 1) * size, dtype=np.uint64)
    drawn = torch.from_numpy(uniforms(np.array(words, np.uint64)[:, None], counters[None]))
    result: Tensor = torch.special.ndtri(drawn)
    return result.float().numpy()


def _of(column: Sequence[NDArray[Any]], number: int) -> NDArray[Any]:
    """The rows of one sample in a column of steps."""
    return np.stack([step[number] for step in column]) if column else np.zeros(0)
