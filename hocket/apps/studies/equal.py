"""Is a recipe the baseline under another name? Its gradient on many batches, and everything a batch does not show.

Half of the batches are recorded from short runs of the baseline, half are made up; all are looked at through the
microscope in float64. Where either recipe updates more than once per batch, every other batch has moved away from the
policy that sampled it, so that ratios and clipping show.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hocket import tasks
from hocket.apps.studies.folder import alone, read_result, write_result
from hocket.apps.studies.planning import StudyRun
from hocket.core.errors import HocketError
from hocket.core.keys import Key
from hocket.lab.microscope import inspect, record
from hocket.recipe import Recipe
from hocket.tasks.arithmetic import tagged_answer
from hocket.train.config import configure
from hocket.train.episodes import read_episodes
from hocket.train.trainer import Trainer
from hocket.update.gradient import GradientStep

Document = dict[str, Any]
Vector = NDArray[np.float64]

TOLERANCE = 1e-9
"""Of the largest gradient of a batch; and of the factor, from batch to batch."""

UNSEEN = ("curriculum", "rollout", "rewards", "update", "hooks")
"""Slots that a recorded batch does not show; they must be the same."""

RUN_STEPS = 25
MOVED = (0.05, 0.2, 0.7)
"""How far log-probs move from those sampled with, standard deviations in nats."""


class Lens:
    """The batches, and the baseline's gradient on each."""

    def __init__(self, documents: Sequence[Document], baseline: Recipe) -> None:
        self.baseline = baseline
        self._documents = documents
        self._seen: dict[tuple[bool, int], Vector] = {}

    @staticmethod
    def of(work: Path, run: StudyRun, count: int) -> Lens:
        """The lens of a study whose baseline trains as `run` does; batches are recorded once and kept in `work`."""
        file = work / f"{run.key}.json"
        with alone(work, run.key):
            stored = read_result(file)
            if stored is None or len(stored["batches"]) < count // 2:
                stored = {"batches": recorded(run, count // 2, work / f"{run.key}-batches")}
                write_result(file, stored)
        key = Key.of(0).derive("equal")
        documents = [_completed(document, key.derive("recorded", i)) for i, document in enumerate(stored["batches"])]
        documents += [made_up(key.derive("made up", i)) for i in range(count - len(documents))]
        for number, document in enumerate(documents):
            document["state"] = {"step": number + 1, "progress": number / len(documents)}
        return Lens(documents, _recipe(run))

    def documents(self, *, moved: bool) -> Iterator[tuple[int, Document]]:
        """All batches with their numbers; with `moved` every other one away from the policy that sampled it."""
        for number, document in enumerate(self._documents):
            yield number, _moved(document, number) if moved and number % 2 else document

    def baseline_on(self, number: int, document: Document, *, moved: bool) -> Vector:
        """The baseline's gradient, computed once."""
        if (moved, number) not in self._seen:
            self._seen[moved, number] = gradient(self.baseline, document)
        return self._seen[moved, number]


def relate(run: StudyRun, lens: Lens) -> dict[str, Any]:
    """How the recipe of `run` lies to the lens's baseline: `equal`, `proportional` (by `factor`) or `different`.

    `because` says what differs, or why it could not be looked at; then it counts as different.
    """
    recipe, baseline = _recipe(run), lens.baseline
    apart = next((slot for slot in UNSEEN if getattr(recipe, slot) != getattr(baseline, slot)), None)
    if apart is not None:
        return {"relation": "different", "because": f"{apart} differs" if apart != "rewards" else "rewards differ"}
    if list(recipe.stateful()) != list(baseline.stateful()):
        return {"relation": "different", "because": "it remembers earlier steps"}
    moved = _moves(recipe) or _moves(baseline)
    factor: float | None = None
    for number, document in lens.documents(moved=moved):
        try:
            ours, theirs = gradient(recipe, document), lens.baseline_on(number, document, moved=moved)
        except (HocketError, ValueError) as error:
            return {"relation": "different", "because": f"not to be seen on recorded batches: {error}"}
        quotient = ratio(ours, theirs)
        if quotient is None:
            continue
        if quotient <= 0 or (factor is not None and abs(quotient - factor) > TOLERANCE * factor):
            return {"relation": "different", "because": f"another gradient on batch {number + 1}"}
        factor = quotient
    if factor is None:
        return {"relation": "different", "because": "no batch has a gradient"}
    equal = abs(factor - 1) <= TOLERANCE
    return {"relation": "equal" if equal else "proportional", "factor": factor, "batches": number + 1}


def ratio(ours: Vector, theirs: Vector) -> float | None:
    """The c with ours = c theirs; 0 when there is none, None when both vanish."""
    if ours.shape != theirs.shape:
        return 0.0
    scale = max(float(np.abs(ours).max(initial=0.0)), float(np.abs(theirs).max(initial=0.0)))
    norm = float(theirs @ theirs)
    if scale == 0.0:
        return None
    factor = float(ours @ theirs) / norm if norm > 0 else 0.0
    return factor if float(np.abs(ours - factor * theirs).max()) <= TOLERANCE * scale else 0.0


def gradient(recipe: Recipe, document: Document) -> Vector:
    """All that a recipe asks of the policy on a batch, in one vector: gradients to log-probs, values and entropies."""
    inspection = inspect(recipe, document)
    zeros = [[0.0] * len(row) for row in inspection["gradient"]]
    parts = [inspection["gradient"], *(inspection.get(f"gradient_{name}", zeros) for name in ("value", "entropy"))]
    return np.array([value for part in parts for row in part for value in row], np.float64)


def _moves(recipe: Recipe) -> bool:
    """Whether a step makes more than one plain update, so that the policy leaves the one that sampled."""
    update = recipe.update
    return type(update) is not GradientStep or update.epochs * update.minibatches > 1


def _recipe(run: StudyRun) -> Recipe:
    return configure(run.pairs, tasks.find(run.task)).recipe


# ---------------------------------------------------------------- batches


def recorded(run: StudyRun, count: int, place: Path) -> list[Document]:
    """Batches from short runs, every step of seeds 0, 1, .. of what `run` trains."""
    documents: list[Document] = []
    seed = 0
    while len(documents) < count:
        steps = min(RUN_STEPS, count - len(documents))
        often = {"evaluation.n": 1, "evaluation.between": 1, "evaluation.every": 1, "steps": steps, "seed": seed}
        small = {"curriculum.prompts": 4, "runs": str(place.parent), "run": place.name}
        shutil.rmtree(place, ignore_errors=True)
        source = tasks.find(run.task)
        trainer = Trainer(configure([*dict(run.pairs).items(), *often.items(), *small.items()], source), task=source)
        while not trainer.done:
            trainer.step()
        trainer.folder.release()
        files = sorted((place / "rollouts").glob("step-*.jsonl"))
        documents += [record(read_episodes(file)) for file in files]
        seed += 1
    shutil.rmtree(place, ignore_errors=True)
    return documents[:count]


def made_up(key: Key) -> Document:
    """A batch of random groups: sizes, lengths, rewards (binary or not), cut-off answers and log-probs all drawn."""
    rng = key.numpy()
    binary = rng.random() < 0.7
    rows = []
    for group in range(int(rng.integers(1, 6))):
        chance = rng.random()
        for _ in range(int(rng.integers(2, 9))):
            length = int(rng.integers(1, 25))
            reward = float(rng.random() < chance) if binary else float(rng.normal())
            rows.append(
                {
                    "group": f"g{group}",
                    "scores": {"reward": reward},
                    "logp": (-rng.gamma(0.5, 1.0, length)).tolist(),
                    "text": f"<think>{'x' * length}</think><answer>{rng.integers(4)}</answer>",
                    "truncated": bool(rng.random() < 0.1),
                    "tokens": rng.integers(0, 90, length).tolist(),
                }
            )
    return _completed({"version": 1, "trajectories": rows}, key.derive("more"))


def _completed(document: Mapping[str, Any], key: Key) -> Document:
    """The columns that some recipes read and episodes do not keep, made up."""
    rng = key.numpy()
    past = {group: rng.random(int(rng.integers(0, 5))).tolist() for group in _groups(document)}
    rows = []
    for row in document["trajectories"]:
        logp = np.array(row["logp"], np.float64)
        more = {
            "logp_ref": (logp + rng.normal(0, 0.3, len(logp))).tolist(),
            "entropy": rng.gamma(1.0, 0.5, len(logp)).tolist(),
            "value": rng.random(len(logp)).tolist(),
            "label": tagged_answer(row.get("text") or ""),
            "history": {"rewards": past[row["group"]]},
            "embedding": rng.normal(size=8).tolist(),
        }
        rows.append({**more, **{name: value for name, value in row.items() if value is not None}})
    return {"version": 1, "trajectories": rows}


def _groups(document: Mapping[str, Any]) -> list[str]:
    return list(dict.fromkeys(row["group"] for row in document["trajectories"]))


def _moved(document: Document, number: int) -> Document:
    rng = Key.of(0).derive("equal", "moved", number).numpy()
    spread = MOVED[number // 2 % len(MOVED)]
    rows = []
    for row in document["trajectories"]:
        logp = np.array(row["logp"], np.float64)
        moved = np.minimum(logp + rng.normal(0, spread, len(logp)), 0.0)
        rows.append({**row, "logp": moved.tolist(), "logp_behaviour": row["logp"]})
    return {**document, "trajectories": rows}
