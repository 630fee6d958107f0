"""The microscope: what recipes make of one recorded batch, in float64 and without a model.

It calls the same `Recipe.compute_credit` and `Recipe.loss` as training, so what it prints is what training uses.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hocket.core.annotators import Annotator
from hocket.core.batch import Batch, Level, LevelScores, Occurrences, RecordedNumbers
from hocket.core.batch_document import natural, rows_of
from hocket.core.columns import EMBEDDING, FEEDBACK, HISTORY, LABEL, METADATA, ORIGIN, TEXT, TOKEN_TEXTS, TRACE, Column
from hocket.core.errors import ConfigurationError, HocketError
from hocket.core.packing import Codes
from hocket.recipe import Recipe
from hocket.types import COMPARED, Evaluation, Quantity


def inspect(recipe: Recipe, document: Mapping[str, Any]) -> dict[str, Any]:
    """What one recipe makes of a recorded batch: loss, advantages, gradient, weights, in the order of the input.

    The document's `state` holds what stages remember by slot, and `step` and `progress` of the run where those matter.

    Raises:
        HocketError: when the batch lacks what the recipe needs.
    """
    read = RecordedBatch(document)
    _check_fields(recipe, read)
    state = dict(document.get("state", {}))
    batch = read.batch.but(step=int(state.pop("step", 1)), progress=float(state.pop("progress", 0.0)))
    memory = {**recipe.init(), **state}
    if Column.PROXIMAL in recipe.reads and "proximal" not in batch.logp:
        # Before the first update the learner's own log-probs are the current ones.
        known = torch.ones_like(read.logp, dtype=torch.bool)
        batch = batch.but(logp={**batch.logp, "proximal": RecordedNumbers(read.logp, known)})
    batch, _ = recipe.compute_credit(batch, memory, {})
    leaves = {Quantity.LOGP: read.logp.clone().requires_grad_()}
    for quantity, column in ((Quantity.ENTROPY, read.batch.entropy), (Quantity.VALUE, read.batch.value)):
        if column is not None:
            leaves[quantity] = column.clone().requires_grad_()
    if read.score is not None:
        leaves[Quantity.SCORE] = read.score[:, None].clone().requires_grad_()
    evaluation = Evaluation(**{quantity.value: leaf for quantity, leaf in leaves.items()})
    terms = recipe.loss(evaluation, batch)
    loss = torch.stack([term.total() for term in terms]).sum()
    gradients = torch.autograd.grad(loss, list(leaves.values()), allow_unused=True) if loss.requires_grad else ()
    slopes = {q: g for q, g in zip(leaves, gradients, strict=False) if g is not None}
    occurrences = batch.occurrences
    result = {
        "recipe": recipe.name,
        "loss": float(loss.detach()),
        "advantages": read.by_trajectory(occurrences.advantage),
        "gradient": read.by_trajectory(slopes.get(Quantity.LOGP, torch.zeros_like(read.logp))[occurrences.decision]),
        "weight": read.by_trajectory(occurrences.weight),
        "kept": [any(weight != 0 for weight in row) for row in read.by_trajectory(occurrences.weight)],
        "metrics": {name: float(value) for term in terms for name, value in term.metrics.items()},
    }
    for quantity in (Quantity.VALUE, Quantity.ENTROPY):
        if quantity in slopes:
            result[f"gradient_{quantity.value}"] = read.by_trajectory(slopes[quantity][occurrences.decision])
    if Quantity.SCORE in slopes:
        result["gradient_score"] = read.by_trajectory(slopes[Quantity.SCORE][occurrences.decision, 0])
    return result


def relation(left: Mapping[str, Any], right: Mapping[str, Any], tolerance: float = 1e-9) -> str:
    """How two recipes' gradients lie: `equal`, `proportional (x 0.5)` or `different`."""
    a, b = (torch.tensor([v for row in side["gradient"] for v in row], dtype=torch.float64) for side in (left, right))
    scale = max(float(a.abs().max()), float(b.abs().max()), 1e-300)
    if float((a - b).abs().max()) <= tolerance * scale:
        return "equal"
    factor = float(a @ b / (a @ a)) if float(a @ a) > 0 else 0.0
    if factor > 0 and float((factor * a - b).abs().max()) <= tolerance * scale:
        return f"proportional (x {factor:.4g})"
    return "different"


def record(episodes: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """A run's recorded episodes as a document for the microscope; episodes without log-probs are left out."""
    rows = [_recorded(number, episode) for number, episode in enumerate(episodes)]
    sampled = [row for row in rows if row is not None]
    if not sampled:
        raise HocketError("this step recorded no sampled episodes, so there is no batch to look at")
    return {"version": 1, "trajectories": sampled}


def _recorded(number: int, episode: Mapping[str, Any]) -> dict[str, Any] | None:
    turns = episode["turns"]
    if episode.get("failure") or any(turn.get("logp") is None for turn in turns):
        return None
    per_turn = {name for turn in turns for name in turn.get("rewards") or ()}
    return {
        "id": f"{episode['scenario']['id']}/{number}",
        "group": str(episode["scenario"]["id"]),
        "scores": {name: value for name, value in episode["scores"].items() if not isinstance(value, (list, dict))},
        "token_scores": {
            name: value
            for name, value in episode["scores"].items()
            if isinstance(value, list) and name not in per_turn and any(score is not None for score in value)
        },
        "turn_scores": [turn.get("rewards") or {} for turn in turns],
        "logp": [value for turn in turns for value in turn["logp"]],
        "tokens": [value for turn in turns for value in turn.get("tokens", [])] or None,
        "trained": [not value for turn in turns for value in turn.get("forced") or [False] * len(turn["logp"])],
        "turn": [place for place, turn in enumerate(turns) for _ in turn["logp"]],
        "agent": [turn["agent"] for turn in turns],
        **({"state": [turn["state"] for turn in turns]} if all(turn.get("state") for turn in turns) else {}),
        "text": turns[-1].get("text", "") if turns else "",
        "label": episode.get("label"),
        "info": _info(episode),
        "truncated": bool(episode.get("truncated")),
        "source": episode.get("source", "own"),
    }


def _info(episode: Mapping[str, Any]) -> dict[str, Any]:
    """What training gave the stages of a trajectory besides scores: columns of `Batch.info`."""
    scenario = episode["scenario"]
    info = {
        **episode.get("info", {}),
        METADATA.name: scenario.get("metadata") or {},
        ORIGIN.name: scenario.get("origin"),
        FEEDBACK.name: episode.get("feedback") or {},
    }
    if all(turn.get("token_texts") for turn in episode["turns"]):
        info[TOKEN_TEXTS.name] = [text for turn in episode["turns"] for text in turn["token_texts"]]
    return info


def _check_fields(recipe: Recipe, read: RecordedBatch) -> None:
    """Raises `HocketError` naming the field a recipe needs and the batch lacks."""
    if recipe.outputs > 1:
        raise HocketError(f"{recipe.name} learns {recipe.outputs} scores, and a recorded batch holds one per decision")
    if recipe.outputs and read.score is None:
        raise HocketError(f"{recipe.name} learns a scorer and needs score in every trajectory")
    if Column.REFERENCE in recipe.reads and "reference" not in read.batch.logp:
        raise HocketError(f"{recipe.name} needs logp_ref in every trajectory")
    if recipe.wants_value and read.batch.value is None:
        raise HocketError(f"{recipe.name} needs value in every trajectory")
    if (Quantity.ENTROPY in recipe.needs or Column.ENTROPY in recipe.reads) and read.batch.entropy is None:
        raise HocketError(f"{recipe.name} needs entropy in every trajectory")
    # What a rollout has measured for its next choice is nothing that a batch is learnt from by.
    reads = frozenset[Column]().union(*(stage.reads for stage in recipe.stages if stage.room != "rollout"))
    if Quantity.BELIEF in recipe.needs:
        raise HocketError(f"{recipe.name} needs a policy's beliefs, which a recorded batch does not hold")
    if recipe.store is not None:
        raise HocketError(f"{recipe.name} learns from rows of a store, which a recorded batch does not hold")
    if COMPARED & recipe.needs or any(isinstance(column, Annotator) for column in reads):
        raise HocketError(f"{recipe.name} needs whole distributions, which a recorded batch does not hold")


class RecordedBatch:
    """A document read into a float64 `Batch`, trajectories in the order of the input.

    Attributes:
        batch: the batch, with all recorded columns. logp: the current policy's log-probs, `[T]`.
        score: what a scorer gives after each decision, `[T]`; None where it is not recorded.
    """

    def __init__(self, document: Mapping[str, Any]) -> None:
        rows = rows_of(document)
        self._named = {number for number, row in enumerate(rows) if row.get("id") is not None}
        self.rows = [{**row, "id": row["id"] if n in self._named else f"#{n}"} for n, row in enumerate(rows)]
        self._place = {row["id"]: number for number, row in enumerate(self.rows)}
        if len(self._place) < len(self.rows):
            raise ConfigurationError("two trajectories have one id; ids must differ")
        self._visits = self._decisions()
        decisions = [(n, p) for n, visit in enumerate(self._visits) for p, entry in enumerate(visit) if entry[1]]
        self._owner = decisions
        self.logp = self._column("logp")
        self.score = self._column("score") if self._given("score") else None
        self.batch = self._batch()

    def by_trajectory(self, values: Tensor) -> list[list[float]]:
        """Values per occurrence `[E]` as one list per trajectory."""
        sizes = [len(visit) for visit in self._visits]
        return [part.tolist() for part in torch.split(values.detach().double(), sizes)]

    def _decisions(self) -> list[list[tuple[int, bool]]]:
        """Per trajectory, the number of each of its decisions and whether it is new with this trajectory."""
        visits: dict[int, list[tuple[int, bool]]] = {}
        count = 0

        def visit(number: int, path: tuple[int, ...]) -> list[tuple[int, bool]]:
            nonlocal count
            if number in visits:
                return visits[number]
            row = self.rows[number]
            shared: list[tuple[int, bool]] = []
            if row.get("parent"):
                parent = self._place.get(row["parent"]["id"])
                if parent is None or parent in path:
                    raise ConfigurationError(f"trajectory {row['id']}: its parent {row['parent']['id']!r} is not there")
                above, length = visit(parent, (*path, number)), int(row["parent"]["length"])
                if length > min(len(above), len(row["logp"])):
                    raise ConfigurationError(
                        f"trajectory {row['id']}: parent.length is {length}, but its parent has {len(above)} decisions "
                        f"and itself {len(row['logp'])}"
                    )
                shared = [(d, False) for d, _ in above[:length]]
            added = [(count + i, True) for i in range(len(row["logp"]) - len(shared))]
            count += len(added)
            visits[number] = shared + added
            return visits[number]

        for number in range(len(self.rows)):
            visit(number, ())
        return [visits[number] for number in range(len(self.rows))]

    def _column(self, name: str, default: Any = None, dtype: torch.dtype = torch.float64) -> Tensor:
        """A per-decision field `[T]`, each decision from the trajectory that brought it."""
        total = 1 + max((d for visit in self._visits for d, _ in visit), default=-1)
        column = torch.zeros(total, dtype=dtype)
        for number, position in self._owner:
            values = self.rows[number].get(name)
            value = default(number, position) if values is None else values[position]
            column[self._visits[number][position][0]] = value
        return column

    def _given(self, name: str) -> bool:
        """Whether every trajectory that decides something has the field."""
        return all(row.get(name) is not None for row in self.rows if row["logp"])

    def _batch(self) -> Batch:
        turn_of, turns = self._turns()
        names = {name: Codes() for name in ("scenario", "source", "agent", "role", "policy", "state")}
        logp = {"behaviour": self._column("logp_behaviour", lambda n, p: self.rows[n]["logp"][p])}
        if any(row.get("logp_proximal") is not None for row in self.rows):
            logp["proximal"] = self._column("logp_proximal", lambda n, p: self.rows[n]["logp"][p])
        if self._given("logp_ref"):
            logp["reference"] = self._column("logp_ref")
        for name in {key for row in self.rows for key in row.get("logp_under") or {}}:
            logp[name] = self._under(name)
        known = torch.ones(len(self.logp), dtype=torch.bool)
        decision = torch.tensor([d for visit in self._visits for d, _ in visit], dtype=torch.long)
        sizes = torch.tensor([len(visit) for visit in self._visits])
        trajectory = torch.repeat_interleave(torch.arange(len(self.rows)), sizes)
        trained = self._column("trained", lambda n, p: True, torch.bool)
        baseline = torch.tensor([row.get("source") == "baseline" for row in self.rows])
        weight = (trained[decision] & ~baseline[trajectory]).double()
        columns = {
            "scenario": [names["scenario"](str(row["group"])) for row in self.rows],
            "source": [names["source"](str(row.get("source", "own"))) for row in self.rows],
            "agent": [names["agent"](self._of_turn(n, t, "agent", "policy")) for n, t in turns],
            "role": [names["role"](self._of_turn(n, t, "agent", "policy")) for n, t in turns],
            "policy": [names["policy"]("policy") for _ in turns],
            "state": [names["state"](self._of_turn(n, t, "state", f"\0{n},{t}")) for n, t in turns],
            "index": [t for _, t in turns],
            "order": self._order(),
            "parent": self._parents(turns),
        }
        tensors: dict[str, Any] = {name: torch.tensor(column, dtype=torch.long) for name, column in columns.items()}
        return Batch(
            action=self._column("tokens", lambda n, p: 0, torch.long),
            turn=turn_of,
            segment=self._column("segment", lambda n, p: 0, torch.long),
            version=torch.zeros(len(self.logp), dtype=torch.long),
            forced=~trained,
            logp={name: RecordedNumbers(values, known) for name, values in logp.items()},
            observation=[np.zeros(0, np.int64) for _ in turns],
            terminated=torch.tensor([not row.get("truncated", False) for row in self.rows]),
            truncated=torch.tensor([bool(row.get("truncated", False)) for row in self.rows]),
            final_state=[row.get("final_state") for row in self.rows],
            final_value=torch.tensor([float(row.get("final_value") or 0.0) for row in self.rows], dtype=torch.float64),
            value=self._column("value") if self._given("value") else None,
            entropy=self._column("entropy") if self._given("entropy") else None,
            occurrences=Occurrences(decision, trajectory, torch.zeros_like(weight), weight),
            names={name: tuple(codes.names) for name, codes in names.items()},
            scores=self._scores(turns),
            combined=True,
            info=self._info(),
            **tensors,
        )

    def _order(self) -> list[int]:
        """A place for each trajectory, by which ties are broken: by id where given, else by its content.

        So it does not depend on the input's order, unless two rows without id are alike in everything.
        """

        def key(number: int) -> tuple[bool, Any, str]:
            row = self.rows[number]
            content = json.dumps({k: v for k, v in row.items() if k != "id"}, sort_keys=True)
            named = number in self._named
            return (not named, natural(str(row["id"])) if named else (), content)

        place = {number: rank for rank, number in enumerate(sorted(range(len(self.rows)), key=key))}
        return [place[number] for number in range(len(self.rows))]

    def _under(self, name: str) -> Tensor:
        column = torch.zeros(len(self.logp), dtype=torch.float64)
        for number, position in self._owner:
            values = (self.rows[number].get("logp_under") or {}).get(name)
            if values is None:
                raise ConfigurationError(
                    f"trajectory {self.rows[number]['id']} lacks logp_under.{name}, others have it"
                )
            column[self._visits[number][position][0]] = values[position]
        return column

    # ------------------------------------------------------------ turns

    def _turns(self) -> tuple[Tensor, list[tuple[int, int]]]:
        """The turn of each decision `[T]`, and the turns as (trajectory that brought it, number within it)."""
        turns: dict[tuple[int, int], int] = {}
        turn_of = torch.zeros(len(self.logp), dtype=torch.long)
        for number, position in self._owner:
            named = self.rows[number].get("turn")
            key = (number, 0 if named is None else int(named[position]))
            turn_of[self._visits[number][position][0]] = turns.setdefault(key, len(turns))
        return turn_of, list(turns)

    def _of_turn(self, number: int, turn: int, name: str, default: str) -> str:
        values = self.rows[number].get(name)
        return default if values is None or turn >= len(values) else str(values[turn])

    def _parents(self, turns: list[tuple[int, int]]) -> list[int]:
        place = {key: number for number, key in enumerate(turns)}
        return [place.get((number, turn - 1), -1) for number, turn in turns]

    # ------------------------------------------------------------ scores

    def _scores(self, turns: list[tuple[int, int]]) -> dict[str, LevelScores]:
        scores = {}
        for name in dict.fromkeys(name for row in self.rows for name in row["scores"]):
            values = [_number(row["scores"].get(name)) for row in self.rows]
            scores[name] = LevelScores(Level.TRAJECTORY, torch.tensor(values, dtype=torch.float64))
        for name in dict.fromkeys(n for row in self.rows for turn in row.get("turn_scores") or () for n in turn):
            per_turn = [(self.rows[n].get("turn_scores") or []) for n, _ in turns]
            values = [
                _number(g[t].get(name)) if t < len(g) else torch.nan for g, (_, t) in zip(per_turn, turns, strict=True)
            ]
            scores[_apart(name, scores, "turn")] = LevelScores(Level.TURN, torch.tensor(values, dtype=torch.float64))
        for name in dict.fromkeys(n for row in self.rows for n in row.get("token_scores") or {}):
            rows = [(row.get("token_scores") or {}).get(name) or [None] * len(row["logp"]) for row in self.rows]
            values = [_number(value) for row in rows for value in row]
            scores[_apart(name, scores, "token")] = LevelScores(
                Level.DECISION, torch.tensor(values, dtype=torch.float64)
            )
        return scores

    def _info(self) -> dict[str, list[Any]]:
        columns: dict[str, list[Any]] = {}
        for name in (TEXT.name, LABEL.name, EMBEDDING.name, HISTORY.name):
            if any(row.get(name) is not None for row in self.rows):
                columns[name] = [row.get(name) for row in self.rows]
        for name in dict.fromkeys(key for row in self.rows for key in row.get("info") or {}):
            columns[name] = [(row.get("info") or {}).get(name) for row in self.rows]
        if TEXT.name in columns:
            columns.setdefault(TRACE.name, columns[TEXT.name])
        return columns


def _apart(name: str, taken: Mapping[str, Any], level: str) -> str:
    return f"{name}/{level}" if name in taken else name


def _number(value: Any) -> float:
    return torch.nan if value is None else float(value)
