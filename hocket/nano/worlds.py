"""The second part of the pretraining of the nano model with eyes: drawn worlds, beside its digits.

The tower learns to read from each patch what stands there: which colour and shape, the edges of its box, the interval
of its lamp. Then the whole model learns what beginners answer (`SceneTask.beginner`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from hocket.core.keys import Key
from hocket.core.media import words_of
from hocket.nano.lesson_steps import answer_loss, answers, update
from hocket.tasks.boxes import Boxes, Layout
from hocket.tasks.digits import QUESTIONS, canvas
from hocket.tasks.frames import Frames, LampFilm
from hocket.tasks.scenes import COLOURS, SceneTask
from hocket.tasks.shapes import SHAPES, Shapes, ShapesTask

PATCHES = 16
_ACROSS = 4

READ: Mapping[str, int] = {
    "digit": 11,
    "colour": len(COLOURS) + 1,
    "shape": len(SHAPES) + 1,
    **dict.fromkeys(("x0", "y0", "x1", "y1"), 9),
    **dict.fromkeys(("left", "right"), len(COLOURS) + 1),
    **dict.fromkeys(("left from", "left to", "right from", "right to"), 17),
    **dict.fromkeys(("moving x0", "moving y0", "moving x1", "moving y1"), 5),
}
"""What the tower learns to read from each patch, and how many values it has."""

Reading = Mapping[str, Sequence[int]]
"""Values by patch, -100 where there is none; what a picture does not have is missing."""

Lesson = Callable[[str, Sequence[int], np.random.Generator], str]


class SightExample(NamedTuple):
    """A picture `[16, 16, 3]` of uint8, what stands in its patches, a question and a beginner's answer."""

    pixels: NDArray[np.uint8]
    reading: Reading
    question: str
    answer: str


def colour_number(colour: str) -> int:
    """The number of a colour, from 1; 0 is none."""
    return list(COLOURS).index(colour) + 1


def of_boxes(scene: Layout) -> Reading:
    """Colour and edges of the rectangle in each patch of 2 x 2 cells; no two share one."""
    reading = {name: [-100] * PATCHES for name in ("x0", "y0", "x1", "y1")} | {"colour": [0] * PATCHES}
    for item in scene:
        for row in range(item.y0 // 2, (item.y1 + 1) // 2):
            for column in range(item.x0 // 2, (item.x1 + 1) // 2):
                patch = row * _ACROSS + column
                reading["colour"][patch] = colour_number(item.colour)
                for name in ("x0", "y0", "x1", "y1"):
                    reading[name][patch] = getattr(item, name)
    return reading


def of_shapes(scene: Shapes) -> Reading:
    """Colour and kind of the shape in each patch."""
    reading = {"colour": [0] * PATCHES, "shape": [0] * PATCHES}
    for item in scene:
        reading["colour"][item.cell] = colour_number(item.colour)
        reading["shape"][item.cell] = list(SHAPES).index(item.kind) + 1
    return reading


def of_film(scene: LampFilm) -> Reading:
    """Which lamps are lit in each frame, and from when to when; or where the box is in each quarter."""
    if not scene.lamps:
        names = ("moving x0", "moving y0", "moving x1", "moving y1")
        quarter = [2 * (patch // 8) + patch % 4 // 2 for patch in range(PATCHES)]
        return {name: [scene.boxes[q][place] for q in quarter] for place, name in enumerate(names)}
    reading: dict[str, list[int]] = {}
    for side, (colour, times) in zip(("left", "right"), scene.lamps, strict=True):
        reading |= {side: [0] * PATCHES, f"{side} from": [-100] * PATCHES, f"{side} to": [-100] * PATCHES}
        for start, end in times:
            for frame in range(start, end):
                reading[side][frame] = colour_number(colour)
                reading[f"{side} from"][frame], reading[f"{side} to"][frame] = start, end
    return reading


def of_digits(quarters: Sequence[int]) -> Reading:
    """The digit of each patch's quarter; 10 for none."""
    return {"digit": [quarters[2 * (patch // 8) + patch % 4 // 2] % 11 for patch in range(PATCHES)]}


WORLDS: Sequence[tuple[SceneTask[Any], Callable[[Any], Reading]]] = (
    (Boxes(), of_boxes),
    (ShapesTask(), of_shapes),
    (Frames(), of_film),
)


def drawn(place: int, rng: np.random.Generator) -> SightExample:
    """A question of a world, by its place in `WORLDS`."""
    world, read = WORLDS[place]
    scene, question = world.posed("pretrain", rng)
    return SightExample(world.paint(scene), read(scene), question.words, world.beginner(scene, question, rng))


def of_handwriting(lesson: Lesson, rng: np.random.Generator) -> SightExample:
    """A question about digits."""
    shown, kind = canvas(rng, "train"), list(QUESTIONS)[int(rng.integers(len(QUESTIONS)))]
    pixels = np.repeat(shown.pixels[..., None], 3, 2)
    return SightExample(pixels, of_digits(shown.quarters), QUESTIONS[kind][0], lesson(kind, shown.digits, rng))


def mixture(step: int, seed: int, stage: str, rows: int, lesson: Lesson, films: int = 4) -> list[SightExample]:
    """The examples of a step: films alone in one step of `films`, else half digits and half of the other worlds."""
    rng = Key.of(seed).derive("sight", stage, step).numpy()
    if step % films == films - 1:
        return [drawn(2, rng) for _ in range(rows)]
    places = rng.permutation([-1, 0, -1, 1] * rows)[:rows].tolist()
    return [of_handwriting(lesson, rng) if place < 0 else drawn(place, rng) for place in places]


def pictures(pixels: Sequence[NDArray[np.uint8]]) -> Tensor:
    """What the processor makes of pictures, `[B, 3, 16, 16]`."""
    return (torch.from_numpy(np.stack(pixels)).float() / 127.5 - 1).permute(0, 3, 1, 2).contiguous()


def pixels_of(examples: Sequence[SightExample]) -> Tensor:
    """The same of examples."""
    return pictures([item.pixels for item in examples])


class Readers(nn.Module):
    """A linear reading of each of `READ` from the tower's states."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.heads = nn.ModuleDict({name: nn.Linear(width, values) for name, values in READ.items()})

    def loss(self, states: Tensor, examples: Sequence[SightExample]) -> Tensor:
        """The mean over readings of the mean cross-entropy in nats; states `[B, 16, width]`."""
        losses = []
        for name, head in self.heads.items():
            due = torch.tensor([item.reading.get(name, [-100] * PATCHES) for item in examples])
            places = due >= 0
            if places.any():
                losses.append(functional.cross_entropy(head(states[places]), due[places]))
        return torch.stack(losses).mean()


@dataclass(frozen=True)
class WorldPretraining:
    """Settings."""

    seed: int = 0
    tower_steps: int = 1000
    steps: int = 520
    rows: int = 32
    tower_lr: float = 2e-3
    lr: float = 1e-3
    measured: int = 100
    """Scenes of each world on which the result is measured."""


def teach_worlds(
    model: Any, processor: Any, config: WorldPretraining, lesson: Lesson, tell: Callable[[dict[str, Any]], None]
) -> None:
    """Teaches the tower to read patches, and then the whole model to answer as beginners do."""
    tower = model.model.vision_tower
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        readers = Readers(model.config.vision_config.hidden_size)
    optimiser = torch.optim.AdamW([*tower.parameters(), *readers.parameters()], lr=config.tower_lr, weight_decay=0.01)
    for step in range(config.tower_steps):
        examples = mixture(step, config.seed, "tower worlds", config.rows, lesson, films=2)
        states = tower(pixel_values=pixels_of(examples), output_hidden_states=True).hidden_states[-1]
        loss = readers.loss(states, examples)
        update(optimiser, loss, config.tower_lr, step, config.tower_steps)
        if step % 100 == 99:
            tell({"stage": "tower, worlds", "step": step + 1, "loss": loss.item()})
    optimiser = torch.optim.AdamW(model.parameters(), lr=config.lr, weight_decay=0.01)
    model.train()
    for step in range(config.steps):
        examples = mixture(step, config.seed, "world answers", config.rows, lesson)
        questions, texts = [item.question for item in examples], [item.answer for item in examples]
        loss = answer_loss(model, processor.tokenizer, pixels_of(examples), questions, texts)
        update(optimiser, loss, config.lr, step, config.steps)
        if step % 100 == 99:
            tell({"stage": "answers, worlds", "step": step + 1, "loss": loss.item()})


def measure_worlds(model: Any, processor: Any, config: WorldPretraining) -> dict[str, float]:
    """The mean reward of greedy answers by world and kind, on scenes of evaluation."""
    result: dict[str, float] = {}
    for world, _ in WORLDS:
        for kind in world.kinds:
            task = type(world)([kind])
            scenarios = [task.scenario("eval", number) for number in range(config.measured)]
            rng = [task.rng("eval", number) for number in range(config.measured)]
            pixels = [world.paint(task.posed("eval", item)[0]) for item in rng]
            questions = [words_of(item.messages[0]["content"]).split("\n")[-1] for item in scenarios]
            texts = answers(model, processor.tokenizer, pictures(pixels), questions, task.longest)
            scores = [task.verify(text, item) for text, item in zip(texts, scenarios, strict=True)]
            result[f"{world.title} {kind}"] = sum(scores) / max(1, len(scores))
    return result
