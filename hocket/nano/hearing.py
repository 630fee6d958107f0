"""Pretraining of the nano model with ears: its tower learns to hear notes, and then the whole answers about them.

In between the projector is set so that each token of a sound looks like the first letter of its note, or like a space.

Answers are taught in two styles, as those of the model with eyes: at once, and mostly wrong (`Tones.beginner`), or
worked out, which is rarer and right.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import Qwen3ForCausalLM

from hocket.core.keys import Key
from hocket.nano import BASE
from hocket.nano.lesson_steps import Inputs, answer_loss, answers, update
from hocket.nano.sound import AUDIO, FRAMES, TOKENS, build_processor, new_model
from hocket.tasks.scenes import SceneQuestion
from hocket.tasks.split import Split, split_of
from hocket.tasks.tones import NOTES, UNITS, Melody, Tones, beginning, recording, worked

Progress = Callable[[dict[str, Any]], None]

SHOWN = AUDIO * TOKENS
"""The placeholders of a sound."""


@dataclass(frozen=True)
class HearingPretraining:
    """Settings."""

    seed: int = 0
    recordings: int = 2000
    """Different recordings, of melodies that neither training nor evaluation plays."""
    tower_steps: int = 160
    steps: int = 240
    rows: int = 24
    tower_lr: float = 2e-3
    lr: float = 1e-3
    worked: float = 0.25
    """Share of answers that write down what is heard first."""
    measured: int = 100
    """Recordings on which the result is measured."""


class Heard(NamedTuple):
    """Recordings as the processor makes them, `[N, bins, frames]`, their melodies, and notes by token `[N, TOKENS]`.

    0 is silence, and the notes follow from 1.
    """

    mel: Tensor
    melodies: list[Melody]
    notes: Tensor

    def inputs(self, places: Sequence[int] | Tensor) -> Inputs:
        """What the model is called with."""
        mel = self.mel[places]
        return {"input_features": mel, "feature_attention_mask": torch.ones(len(mel), FRAMES, dtype=torch.long)}


def pretrain_hearing(config: HearingPretraining, out: Path, *, progress: Progress | None = None) -> dict[str, Any]:
    """Makes the model at the folder `out`, on one thread; what was measured of it.

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
        heard = record(processor, config.recordings, "pretrain", Key.of(config.seed).derive("hearing", "record"))
        _hear_notes(model, heard, config, tell)
        name_notes(model, processor, heard)
        _answer(model, processor, heard, config, tell)
        summary = {
            "seconds": time.process_time() - started,
            "parameters": sum(weight.numel() for weight in model.parameters()),
            "settings": asdict(config),
            "greedy": _measure(model.eval(), processor, config),
        }
    finally:
        torch.set_num_threads(threads)
    model.save_pretrained(out)
    processor.save_pretrained(out)
    (out / "model.safetensors").chmod(0o644)
    (out / "pretraining.json").write_text(json.dumps(summary, indent=2) + "\n")
    return summary


def record(processor: Any, count: int, part: Split, key: Key) -> Heard:
    """Recordings of melodies of a split, of which each kind of question can be asked."""
    rng, task, melodies = key.numpy(), Tones(), list[Melody]()
    while len(melodies) < count:
        melody = task.draw(rng, "longest" if len(melodies) % 2 else "notes")
        if split_of(task.described(melody)) == part:
            melodies.append(melody)
    starts = [beginning(melody, rng) for melody in melodies]
    features = [
        processor.feature_extractor(
            recording(melody, start, rng).samples,
            sampling_rate=processor.feature_extractor.sampling_rate,
            return_tensors="pt",
        )["input_features"]
        for melody, start in zip(melodies, starts, strict=True)
    ]
    notes = torch.tensor([_by_token(melody, start) for melody, start in zip(melodies, starts, strict=True)])
    return Heard(torch.cat(features), melodies, notes)


def _by_token(melody: Melody, start: float) -> list[int]:
    """The note in the middle of each token, from 1; 0 is silence."""
    notes = [0] * TOKENS
    for tone in melody:
        for token in range(TOKENS):
            if start <= (token + 0.5) * UNITS / TOKENS < start + tone.units:
                notes[token] = list(NOTES).index(tone.note) + 1
        start += tone.units + 1
    return notes


def _hear_notes(model: Any, heard: Heard, config: HearingPretraining, tell: Progress) -> None:
    """Teaches the tower which note sounds in each token, if any."""
    tower, width = model.model.audio_tower, model.config.audio_config.d_model
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        reader = nn.Linear(width, len(NOTES) + 1)
    optimiser = torch.optim.AdamW([*tower.parameters(), *reader.parameters()], lr=config.tower_lr, weight_decay=0.01)
    for step in range(config.tower_steps):
        places = _places(heard, config, "tower", step)
        states = tower(heard.mel[places]).last_hidden_state
        loss = functional.cross_entropy(reader(states).flatten(0, 1), heard.notes[places].flatten())
        update(optimiser, loss, config.tower_lr, step, config.tower_steps)
        if step % 40 == 39:
            tell({"stage": "tower", "step": step + 1, "loss": loss.item()})


@torch.no_grad()
def name_notes(model: Any, processor: Any, heard: Heard) -> None:
    """Sets the projector to the linear map of least squares from the tower's states to the notes' first letters."""
    letters = processor.tokenizer.convert_tokens_to_ids([" ", *(note[0] for note in NOTES)])
    due = model.get_input_embeddings().weight[torch.tensor(letters)[heard.notes]].flatten(0, 1)
    states = model.model.audio_tower(heard.mel).last_hidden_state.flatten(0, 1)
    given = torch.cat([states, torch.ones(len(states), 1)], 1).double()
    square = given.T @ given + 1e-3 * len(given) * torch.eye(given.shape[1])
    solved = torch.linalg.solve(square, given.T @ due.double()).float()
    model.model.multi_modal_projector.linear.weight.copy_(solved[:-1].T)
    model.model.multi_modal_projector.linear.bias.copy_(solved[-1])


def _places(heard: Heard, config: HearingPretraining, stage: str, step: int) -> Tensor:
    rng = Key.of(config.seed).derive("hearing", stage, step).numpy()
    return torch.from_numpy(rng.integers(len(heard.melodies), size=config.rows))


def question_about(task: Tones, melody: Melody, rng: np.random.Generator) -> SceneQuestion:
    """A question of any kind that can be asked about a melody."""
    lengths = sorted(tone.units for tone in melody)
    alone = len(melody) == 1
    kinds = [kind for kind in task.kinds if kind in ("notes", "count") or not alone]
    kinds = [kind for kind in kinds if kind != "longest" or lengths[-1] > lengths[-2]]
    return task.ask(melody, kinds[int(rng.integers(len(kinds)))], rng)


def lesson(
    task: Tones, melody: Melody, question: SceneQuestion, rng: np.random.Generator, config: HearingPretraining
) -> str:
    """An answer in one of the two styles; a transcript has but one."""
    if question.kind != "notes" and rng.random() < config.worked:
        return worked(melody, question)
    return task.beginner(melody, question, rng)


def _answer(model: Any, processor: Any, heard: Heard, config: HearingPretraining, tell: Progress) -> None:
    """Teaches questions with answers, of which the loss is taken alone."""
    task = Tones()
    optimiser = torch.optim.AdamW(model.parameters(), lr=config.lr, weight_decay=0.01)
    model.train()
    for step in range(config.steps):
        loss = lesson_loss(model, processor, heard, config, task, step)
        update(optimiser, loss, config.lr, step, config.steps)
        if step % 50 == 49:
            tell({"stage": "answers", "step": step + 1, "loss": loss.item()})


def lesson_loss(model: Any, processor: Any, heard: Heard, config: HearingPretraining, task: Tones, step: int) -> Tensor:
    """The mean cross-entropy in nats of the answers of a step."""
    places, rng = _places(heard, config, "sounds", step), Key.of(config.seed).derive("hearing", step).numpy()
    melodies = [heard.melodies[place] for place in places.tolist()]
    questions = [question_about(task, melody, rng) for melody in melodies]
    texts = [lesson(task, *pair, rng, config) for pair in zip(melodies, questions, strict=True)]
    words = [question.words for question in questions]
    return answer_loss(model, processor.tokenizer, heard.inputs(places), words, texts, SHOWN)


def _measure(model: Any, processor: Any, config: HearingPretraining) -> dict[str, float]:
    """Shares of right greedy answers to melodies of evaluation by kind: left to itself, at once, and worked out."""
    task, key = Tones(), Key.of(config.seed).derive("hearing", "measure")
    heard, rng = record(processor, config.measured, "eval", key.derive("record")), key.numpy()
    asked = [question_about(task, melody, rng) for melody in heard.melodies]
    inputs, shares = heard.inputs(range(len(asked))), dict[str, float]()
    for style, begun in (("answers", ""), ("at once", "<answer>"), ("worked", "<think>")):
        words = [question.words for question in asked]
        texts = answers(model, processor.tokenizer, inputs, words, task.longest, begun, SHOWN)
        for kind in task.kinds:
            if kind != "notes" or style == "answers":
                pairs = [(text, one.answer) for text, one in zip(texts, asked, strict=True) if one.kind == kind]
                shares[f"{kind}, {style}"] = sum(task.extracted(text) == due for text, due in pairs) / max(
                    1, len(pairs)
                )
    return shares
