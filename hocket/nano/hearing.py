"""Pretraining of the nano model with ears: its tower learns to hear notes, and its language part to answer about them.

In between the projector is set so that each token of a sound looks like the first letter of its note, or like a space.
Answers are taught in two styles, as those of the model with eyes: at once, and mostly wrong (`Tones.beginner`), or
worked out, which is rarer and right. They are learnt by the library's own forward pass, which reads a sound once for
all questions about it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import Qwen3ForCausalLM

from hocket.agents.workflows.chat import Chat
from hocket.core.keys import Key
from hocket.core.media import MEDIA, with_sounds
from hocket.core.packing import pack
from hocket.core.sounds import sound_bytes
from hocket.nano import BASE
from hocket.nano.lesson_steps import update
from hocket.nano.sound import TOKENS, build_processor, new_model
from hocket.policies.causal_lm import CausalLM
from hocket.policies.sound_reader import SoundReader
from hocket.policies.vision import language_part
from hocket.tasks.scenes import SceneQuestion
from hocket.tasks.split import Split, split_of
from hocket.tasks.tones import NOTES, UNITS, Melody, Tones, beginning, recording, worked
from hocket.types import Decoding, Quantity, Scenario, Trajectory, Turn

Progress = Callable[[dict[str, Any]], None]


@dataclass(frozen=True)
class SoundPretraining:
    """Settings."""

    seed: int = 0
    recordings: int = 1600
    """Different recordings, of melodies that neither training nor evaluation plays."""
    tower_steps: int = 160
    tower_rows: int = 32
    steps: int = 240
    rows: int = 8
    """Recordings of a step. Each kind of question is asked about each."""
    lessons: int = 2
    """Answers to each question."""
    tower_lr: float = 2e-3
    lr: float = 1e-3
    worked: float = 0.25
    """Share of answers that write down what is heard first."""


class RecordedMelodies(NamedTuple):
    """Recordings: their digests, what the tower reads `[N, bins, frames]`, melodies, and notes by token `[N, TOKENS]`.

    0 is silence, and the notes follow from 1.
    """

    digests: list[str]
    mel: Tensor
    melodies: list[Melody]
    notes: Tensor


def pretrain_hearing(config: SoundPretraining, out: Path, *, progress: Progress | None = None) -> dict[str, Any]:
    """Makes the model at the folder `out`, on one thread; what it took.

    `progress` is called with `{"stage", "step", "loss"}` now and then.
    """
    tell = progress or (lambda _: None)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    started = time.process_time()
    try:
        processor = build_processor()
        language = Qwen3ForCausalLM.from_pretrained(str(BASE), dtype=torch.float32)
        model = new_model(language, processor, config.seed)
        policy = CausalLM(language_part(model.eval(), SoundReader(processor)), processor.tokenizer)
        policy.tokenizer.picture_reader = reader = policy.model.vision.reader
        heard = record(reader, config.recordings, "pretrain", Key.of(config.seed).derive("hearing", "record"))
        _hear_notes(model, heard, config, tell)
        name_notes(model, processor, heard)
        _answer(policy, heard, config, tell)
        summary = {
            "seconds": time.process_time() - started,
            "parameters": sum(weight.numel() for weight in model.parameters()),
            "settings": asdict(config),
        }
    finally:
        torch.set_num_threads(threads)
    model.save_pretrained(out)
    processor.save_pretrained(out)
    (out / "model.safetensors").chmod(0o644)
    (out / "pretraining.json").write_text(json.dumps(summary, indent=2) + "\n")
    return summary


def record(reader: SoundReader, count: int, part: Split, key: Key) -> RecordedMelodies:
    """Recordings of melodies of a split."""
    rng, task, melodies = key.numpy(), Tones(), list[Melody]()
    while len(melodies) < count:
        melody = task.draw(rng, "longest" if len(melodies) % 4 else "notes")
        if split_of(task.described(melody)) == part:
            melodies.append(melody)
    starts = [beginning(melody, rng) for melody in melodies]
    pairs = list(zip(melodies, starts, strict=True))
    digests = [MEDIA.put(sound_bytes(recording(melody, start, rng))) for melody, start in pairs]
    inputs = [reader.inputs(MEDIA.token(reader.ids(digest)[0]).picture) for digest in digests]
    mel = torch.cat([features["input_features"] for features in inputs])
    return RecordedMelodies(digests, mel, melodies, torch.tensor([_by_token(*pair) for pair in pairs]))


def _by_token(melody: Melody, start: float) -> list[int]:
    """The note in the middle of each token, from 1; 0 is silence."""
    notes = [0] * TOKENS
    for tone in melody:
        for token in range(TOKENS):
            if start <= (token + 0.5) * UNITS / TOKENS < start + tone.units:
                notes[token] = list(NOTES).index(tone.note) + 1
        start += tone.units + 1
    return notes


def _hear_notes(model: Any, heard: RecordedMelodies, config: SoundPretraining, tell: Progress) -> None:
    """Teaches the tower which note sounds in each token, if any."""
    tower, width = model.model.audio_tower, model.config.audio_config.d_model
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        reader = nn.Linear(width, len(NOTES) + 1)
    weights = [*tower.requires_grad_(True).parameters(), *reader.parameters()]
    optimiser = torch.optim.AdamW(weights, lr=config.tower_lr, weight_decay=0.01)
    for step in range(config.tower_steps):
        rng = Key.of(config.seed).derive("hearing", "tower", step).numpy()
        places = torch.from_numpy(rng.integers(len(heard.melodies), size=config.tower_rows))
        states = tower(heard.mel[places]).last_hidden_state
        loss = functional.cross_entropy(reader(states).flatten(0, 1), heard.notes[places].flatten())
        update(optimiser, loss, config.tower_lr, step, config.tower_steps)
        if step % 40 == 39:
            tell({"stage": "tower", "step": step + 1, "loss": loss.item()})
    tower.requires_grad_(False)


@torch.no_grad()
def name_notes(model: Any, processor: Any, heard: RecordedMelodies) -> None:
    """Sets the projector to the linear map of least squares from the tower's states to the notes' first letters."""
    letters = processor.tokenizer.convert_tokens_to_ids([" ", *(note[0] for note in NOTES)])
    due = model.get_input_embeddings().weight[torch.tensor(letters)[heard.notes]].flatten(0, 1)
    states = model.model.audio_tower(heard.mel).last_hidden_state.flatten(0, 1)
    inputs = torch.cat([states, torch.ones(len(states), 1)], 1).double()
    square = inputs.T @ inputs + 1e-3 * len(inputs) * torch.eye(inputs.shape[1])
    solved = torch.linalg.solve(square, inputs.T @ due.double()).float()
    model.model.multi_modal_projector.linear.weight.copy_(solved[:-1].T)
    model.model.multi_modal_projector.linear.bias.copy_(solved[-1])


def questions_about(task: Tones, melody: Melody, rng: np.random.Generator) -> list[SceneQuestion]:
    """A question of each kind that can be asked about a melody."""
    lengths = sorted(tone.units for tone in melody)
    kinds = [kind for kind in task.kinds if kind in ("notes", "count") or len(melody) > 1]
    kinds = [kind for kind in kinds if kind != "longest" or lengths[-1] > lengths[-2]]
    return [task.ask(melody, kind, rng) for kind in kinds]


def lesson(
    task: Tones, melody: Melody, question: SceneQuestion, rng: np.random.Generator, config: SoundPretraining
) -> str:
    """An answer in one of the two styles; a transcript has but one."""
    if question.kind != "notes" and rng.random() < config.worked:
        return worked(melody, question)
    return task.beginner(melody, question, rng)


def _answer(policy: CausalLM, heard: RecordedMelodies, config: SoundPretraining, tell: Progress) -> None:
    """Teaches the language part questions with answers, of which the loss is taken alone."""
    chat, task = Chat(policy.tokenizer), Tones()
    optimiser = torch.optim.AdamW(policy.parameter_groups()["policy"], lr=config.lr, weight_decay=0.01)
    for step in range(config.steps):
        rng = Key.of(config.seed).derive("hearing", "answers", step).numpy()
        turns = []
        for place in rng.integers(len(heard.melodies), size=config.rows).tolist():
            melody, digest = heard.melodies[place], heard.digests[place]
            for question in questions_about(task, melody, rng):
                prompt = chat.opening([{"role": "user", "content": with_sounds(question.words, [digest])}])
                for _ in range(config.lessons):
                    text = lesson(task, melody, question, rng, config) + policy.tokenizer.eos_token
                    answer = policy.tokenizer(text, add_special_tokens=False)["input_ids"]
                    turns.append(Turn("a", "policy", np.array(prompt), np.array(answer), decoding=Decoding()))
        batch = pack([Trajectory(Scenario(str(n)), [turn], terminated=True) for n, turn in enumerate(turns)])
        loss = -policy.evaluate(batch, {Quantity.LOGP}).get(Quantity.LOGP).mean()
        update(optimiser, loss, config.lr, step, config.steps)
        if step % 20 == 19:
            tell({"stage": "answers", "step": step + 1, "loss": loss.item()})
