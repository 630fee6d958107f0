"""What sharing prompts saves a scorer: the samples of one prompt, scored together and as sequences of their own.

python benchmarks/scoring.py [MODEL] [--samples 8] [--prompt 200] [--answer 64] [--rounds 9] [--train]

Rows are medians over rounds in which all ways take turns, with the quartiles of their ratio to `transformers` padded to
the longest. `--train` times a forward and backward pass of the Bradley-Terry loss over the pairs of these samples.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.credit.pairs import BestAgainstWorst
from hocket.credit.score_positions import ReadAt
from hocket.objectives.scores import BradleyTerry
from hocket.policies.scorer import Scorer
from hocket.rewards.combine import WeightedSum
from hocket.train.models import model_path
from hocket.types import Scenario, Score, Trajectory, Turn
from hocket.update.gradient import GradientStep
from hocket.update.problem import Problem


def sampled(scenarios: int, samples: int, prompt: int, answer: int, words: int) -> list[Trajectory]:
    """Groups of answers, their lengths spread evenly between half of `answer` and one and a half times that."""
    draw = Key.of(0).numpy()
    found = []
    for number in range(scenarios):
        asked = draw.integers(10, words, prompt)
        for sample in range(samples):
            said = draw.integers(10, words, int(answer * (0.5 + sample / max(1, samples - 1))))
            turn = Turn("policy", "policy", asked, said)
            found.append(
                Trajectory(Scenario(str(number)), [turn], sample, scores={"preference": Score(float(-sample))})
            )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", default="nano")
    for name, usual in (("samples", 8), ("prompt", 200), ("answer", 64), ("rounds", 9)):
        parser.add_argument(f"--{name}", type=int, default=usual)
    parser.add_argument("--scenarios", type=int, default=1, help="prompts with samples of their own")
    parser.add_argument("--train", action="store_true", help="a step's passes instead of scores")
    options = parser.parse_args()
    scorer = Scorer.from_pretrained(model_path(options.model), key=Key.of(0))
    played = sampled(options.scenarios, options.samples, options.prompt, options.answer, scorer.model.config.vocab_size)
    ways = trained(scorer, played) if options.train else scored(scorer, played)
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for way in ways.values():
        way()
    for _ in range(options.rounds):
        for name, way in ways.items():
            start = time.perf_counter()
            way()
            seconds[name].append(time.perf_counter() - start)
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, {options}")
    plain = seconds["transformers, padded"]
    for name, taken in seconds.items():
        low, middle, high = statistics.quantiles([one / base for one, base in zip(taken, plain, strict=True)], n=4)
        print(f"{name:32s} {1e3 * statistics.median(taken):9.1f} ms   {middle:.3f} of it ({low:.3f} to {high:.3f})")


def scored(scorer: Scorer, played: list[Trajectory]) -> dict[str, Callable[[], object]]:
    """Ways of scoring without gradient; all give the same."""
    alone = scorer.frozen_copy()
    alone.share_prefixes = False
    forward = padded(scorer, played)

    def peer() -> torch.Tensor:
        with torch.no_grad():
            return forward()

    gap = float((scorer.scores(played) - peer()).abs().max())
    print(f"largest difference of the scores {gap:.2g}")
    return {
        "transformers, padded": peer,
        "hocket, prompts shared": lambda: scorer.scores(played),
        "hocket, each sequence alone": lambda: [scorer.scores([one]) for one in played],
        "hocket, padded": lambda: alone.scores(played),
    }


def trained(scorer: Scorer, played: list[Trajectory]) -> dict[str, Callable[[], object]]:
    """Ways of computing the gradient of the pairs' loss."""
    pairs = [one for one in played if one.sample in (0, max(p.sample for p in played))]
    batch = pack(pairs)
    batch = WeightedSum()(batch, {})
    batch = batch.but(occurrences=ReadAt(BestAgainstWorst())(batch))
    objective = BradleyTerry()
    problem = Problem(
        batch=batch,
        policy=scorer,
        optimiser=GradientStep().optimiser(scorer),
        loss_terms=lambda now, part: [objective(now, part)],
        needs=objective.needs,
        couples=objective.couples,
        idle_without_advantage=False,
    )
    forward = padded(scorer, pairs)

    def peer() -> None:
        scorer.module.zero_grad(set_to_none=True)
        scores = forward()[:, 0]
        (-torch.nn.functional.logsigmoid(scores[0::2] - scores[1::2]).mean()).backward()  # type: ignore[no-untyped-call]

    return {"transformers, padded": peer, "hocket": problem.gradient}


def padded(scorer: Scorer, played: list[Trajectory]) -> Callable[[], torch.Tensor]:
    """Scores by `transformers` as it loads what was saved, with its usual attention."""
    from transformers import AutoModelForSequenceClassification

    with tempfile.TemporaryDirectory() as folder:
        scorer.save(Path(folder))
        model: Any = AutoModelForSequenceClassification.from_pretrained(folder)
    rows = [np.concatenate([turn.observation, turn.action]) for one in played for turn in one.turns]
    width = max(map(len, rows))
    ids = torch.full((len(rows), width), model.config.pad_token_id, dtype=torch.long)
    mask = torch.zeros_like(ids)
    for number, row in enumerate(rows):
        ids[number, : len(row)], mask[number, : len(row)] = torch.from_numpy(row), 1
    return lambda: model(input_ids=ids, attention_mask=mask).logits


if __name__ == "__main__":
    main()
