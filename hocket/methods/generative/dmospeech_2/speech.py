"""A small world of speech: utterances of symbols, a frozen speaker that utters them in so many frames, and listeners.

A frame is a spectrum of `CHANNELS` numbers. Every symbol has a spectrum and a natural length, every voice a colour that
is added to what it utters, and a pace. The mouth is slow: frames are means over `MOUTH`, so symbols that are squeezed
blur into each other; and breath is short: a symbol that is stretched beyond `BREATH` of its natural length stops and
sounds again. `recognised` and `heard_voice` hear frames alone and know neither text nor duration.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from hocket.core.keys import Key

SYMBOLS, CHANNELS = 8, 12
SHORTEST, LONGEST = 3, 8
"""Symbols of an utterance."""
MOUTH = 7
"""Frames over which the mouth moves."""
BREATH = 1.4
"""How much longer than its natural length a symbol may sound."""
NOISE = 0.2
"""Deviation of the noise of every number of a frame."""
PACE = (0.75, 1.35)
"""Slowest and fastest voice."""
CHOICES, FRAMES = 61, 2
"""Durations that may be chosen: 0, 2, 4, ..., 120 frames; 0 is uttered in one frame."""

Rows = NDArray[np.float64]


@dataclass(frozen=True)
class Utterance:
    """What is to be uttered, and the voice that is asked for: its colour `[CHANNELS]` and its pace."""

    text: tuple[int, ...]
    colour: Rows
    pace: float

    @property
    def natural(self) -> float:
        """Frames in which this voice would say it."""
        return float(lengths()[list(self.text)].sum() / self.pace)


@cache
def spectra() -> Rows:
    """A spectrum of length 2 for every symbol, at right angles to each other, `[SYMBOLS, CHANNELS]`."""
    drawn = Key.of(0).derive("spectra").numpy().normal(size=(CHANNELS, SYMBOLS))
    return np.asarray(2.0 * np.linalg.qr(drawn)[0].T, np.float64)


@cache
def lengths() -> Rows:
    """Natural frames of every symbol, `[SYMBOLS]`."""
    return Key.of(0).derive("lengths").numpy().uniform(5.0, 9.0, SYMBOLS)


def drawn_utterance(draws: np.random.Generator) -> Utterance:
    """An utterance of `SHORTEST` to `LONGEST` symbols, no two alike beside each other."""
    count = int(draws.integers(SHORTEST, LONGEST + 1))
    text = [int(draws.integers(0, SYMBOLS))]
    while len(text) < count:
        following = int(draws.integers(0, SYMBOLS))
        text += [following] if following != text[-1] else []
    colour = draws.normal(size=CHANNELS)
    return Utterance(tuple(text), 0.5 * colour / np.linalg.norm(colour), float(draws.uniform(*PACE)))


def recorded_frames(utterance: Utterance, draws: np.random.Generator) -> float:
    """How long a person took to say it: some hurry and some drawl, by a factor of e^0.7 as a deviation."""
    return utterance.natural * math.exp(float(draws.normal(0.0, 0.7)))


def utter(utterance: Utterance, frames: int, draws: np.random.Generator) -> Rows:
    """The frames `[T, CHANNELS]` that the speaker makes of an utterance in T frames, at least one."""
    count = max(1, frames)
    natural = lengths()[list(utterance.text)]
    ends = np.cumsum(natural) / natural.sum() * count
    time = np.arange(count) + 0.5
    place = np.minimum(np.searchsorted(ends, time, side="right"), len(natural) - 1)
    start = np.concatenate([[0.0], ends[:-1]])[place]
    # Beyond its breath a symbol falls silent for two frames, then sounds again.
    since, limit = time - start, BREATH * natural[place] / utterance.pace
    voiced = ~((since >= limit) & (since < limit + 2.0))
    silent = np.zeros((count, CHANNELS))
    sound = np.where(voiced[:, None], spectra()[list(utterance.text)][place] + utterance.colour, silent)
    padded = np.pad(sound, ((MOUTH // 2, MOUTH // 2), (0, 0)), mode="edge")
    mean = np.mean([padded[first : first + count] for first in range(MOUTH)], axis=0)
    smooth = np.where(voiced[:, None], mean, silent)
    return smooth + draws.normal(0.0, NOISE, smooth.shape)


def sound_logp(frames: Rows, sharpness: float = 2.0) -> Tensor:
    """The recogniser's log-probs of silence and of every symbol at each frame, `[T, 1 + SYMBOLS]`, by distance."""
    known = np.concatenate([np.zeros((1, CHANNELS)), spectra()])
    distance = np.square(frames[:, None] - known[None]).sum(-1)
    return torch.log_softmax(torch.from_numpy(-sharpness * distance), -1)


def recognition_loss(frames: Rows, text: tuple[int, ...]) -> float:
    """The recogniser's CTC loss of a text, in nats a symbol, at most 10."""
    logp, target = sound_logp(frames)[:, None], torch.tensor([[1 + symbol for symbol in text]])
    sizes = torch.tensor([len(frames)]), torch.tensor([len(text)])
    loss = float(functional.ctc_loss(logp, target, *sizes, blank=0, reduction="sum"))
    return min(10.0, loss / len(text))


def recognised(frames: Rows) -> tuple[int, ...]:
    """What another listener hears, by angles in place of distances: symbols, without repetitions and silence."""
    size = np.linalg.norm(frames, axis=1)
    angle = frames @ spectra().T / (2.0 * np.maximum(size, 1e-9)[:, None])
    label = np.where((size > 1.0) & (angle.max(1) > 0.6), angle.argmax(1), -1)
    heard = [int(label[0])] + [int(b) for a, b in itertools.pairwise(label) if a != b]
    return tuple(symbol for symbol in heard if symbol >= 0)


def heard_voice(frames: Rows) -> Rows:
    """The colour of a voice, `[CHANNELS]`: the mean of what frames with sound have beside their nearest symbol."""
    label = sound_logp(frames).argmax(-1).numpy()
    rest = frames[label > 0] - spectra()[label[label > 0] - 1]
    return rest.mean(0) if len(rest) else np.zeros(CHANNELS)


def voice_distance(frames: Rows, utterance: Utterance) -> float:
    """1 less the cosine of the colour that is heard and the one asked for, in [0, 2]."""
    heard = heard_voice(frames)
    size = float(np.linalg.norm(heard) * np.linalg.norm(utterance.colour))
    return 1.0 - float(heard @ utterance.colour) / size if size > 0 else 1.0


def features(utterance: Utterance) -> NDArray[np.float32]:
    """What the duration head reads, `[OBSERVATIONS]`: counts of symbols, their number, and the pace."""
    counts = np.bincount(utterance.text, minlength=SYMBOLS) / 2.0
    return np.concatenate([counts, [len(utterance.text) / LONGEST, 1.0 / utterance.pace]]).astype(np.float32)


OBSERVATIONS = SYMBOLS + 2
