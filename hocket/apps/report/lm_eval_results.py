"""Evaluations in the files of lm-evaluation-harness: `results_DATE.json` and `samples_TASK_DATE.jsonl`.

The form is that of lm-eval 0.4: a folder per model, a metric as `NAME,FILTER` with its `NAME_stderr,FILTER`, and a line
for every answer. Programs that read the harness's results, such as its tables and loggers, read these.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import math
import re
import time
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from hocket.core import sums
from hocket.core.errors import ConfigurationError
from hocket.core.occurrences import unmarked
from hocket.stages import Task
from hocket.train.evaluate import EvaluationResult
from hocket.train.settings import Config
from hocket.types import Trajectory

METRIC = "acc"
FILTER = "none"


def write_results(
    folder: Path,
    result: EvaluationResult,
    task: Task,
    config: Config,
    source: str,
    passes: Mapping[int, tuple[float, float, float]] | None = None,
) -> Path:
    """Writes a greedy evaluation of a task in words into `folder/MODEL`, and returns the file of results.

    Args:
        source: the run, checkpoint or model that was measured. passes: pass@k by k, with the ends of its interval.

    Raises:
        ConfigurationError: when nothing says which answers are right, or the files cannot be written.
    """
    if not result.measure.answers or len(result.each) != len(result.trajectories) or task.kind != "text":
        raise ConfigurationError(f"--format lm-eval is for answers that are right or wrong, and {task.name} has none")
    name, date = re.sub(r"\W+", "_", task.name), datetime.datetime.now().isoformat().replace(":", "-")
    samples = [
        _sample(number, trajectory, success, task, config)
        for number, (trajectory, success) in enumerate(zip(result.trajectories, result.each, strict=True))
    ]
    data = _results(name, samples, result, task, config, source, passes or {})
    where = folder / sanitised(source)
    try:
        where.mkdir(parents=True, exist_ok=True)
        file = where / f"results_{date}.json"
        file.write_text(json.dumps(data, indent=2, ensure_ascii=False, default=str), encoding="utf-8")
        lines = (json.dumps(sample, ensure_ascii=False, default=str) + "\n" for sample in samples)
        (where / f"samples_{name}_{date}.jsonl").write_text("".join(lines), encoding="utf-8")
    except OSError as problem:
        raise ConfigurationError(f"--out {folder} cannot be written: {problem.strerror}") from problem
    return file


def sanitised(name: str) -> str:
    """A model's name without what names of files do not hold, as the harness writes it."""
    return re.sub(r"[\"<>:/|\\?*\[\]]+", "__", name)


def _sample(number: int, trajectory: Trajectory, success: float, task: Task, config: Config) -> dict[str, Any]:
    """A line of the file of samples."""
    scenario = trajectory.scenario
    prompt = (
        scenario.prompt if isinstance(scenario.prompt, str) else json.dumps(list(scenario.prompt or ()), default=str)
    )
    doc = {**scenario.metadata, "id": unmarked(scenario.id), "prompt": scenario.prompt, "answer": scenario.answer}
    target = "" if scenario.answer is None else str(scenario.answer)
    label = getattr(task, "label", None)
    extracted = None if label is None else label(trajectory)
    return {
        "doc_id": number,
        "doc": doc,
        "target": target,
        "arguments": {"gen_args_0": {"arg_0": prompt, "arg_1": _generation(config)}},
        "resps": [[trajectory.answer]],
        "filtered_resps": [trajectory.answer if extracted is None else extracted],
        "filter": FILTER,
        "metrics": [METRIC],
        "doc_hash": _hash(json.dumps(doc, indent=2, default=str, ensure_ascii=False)),
        "prompt_hash": _hash(prompt),
        "target_hash": _hash(target),
        METRIC: success,
    }


def _results(
    name: str,
    samples: Sequence[Mapping[str, Any]],
    result: EvaluationResult,
    task: Task,
    config: Config,
    source: str,
    passes: Mapping[int, tuple[float, float, float]],
) -> dict[str, Any]:
    """The file of results."""
    metrics: dict[str, float | str] = {
        f"{METRIC},{FILTER}": result.success,
        f"{METRIC}_stderr,{FILTER}": _standard_error(result.each),
    }
    for k, (value, _, _) in passes.items():
        metrics |= {f"pass@{k},{FILTER}": value, f"pass@{k}_stderr,{FILTER}": "N/A"}
    higher = {key.partition(",")[0]: True for key in metrics if "_stderr" not in key}
    end = time.perf_counter()
    return {
        "results": {name: {"name": name, "alias": task.name, "sample_len": result.n, **metrics}},
        "group_subtasks": {name: []},
        "configs": {
            name: {
                "task": name,
                "output_type": "generate_until",
                "metric_list": [
                    {"metric": metric, "aggregation": "mean", "higher_is_better": True} for metric in higher
                ],
                "generation_kwargs": _generation(config),
                "repeats": 1,
                "num_fewshot": 0,
            }
        },
        "versions": {name: 0},
        "n-shot": {name: 0},
        "higher_is_better": {name: higher},
        "n-samples": {name: {"original": task.size("eval") or result.n, "effective": result.n}},
        "config": {
            "model": "hocket",
            "model_args": {"pretrained": source},
            "batch_size": None,
            "device": config.device,
            "limit": result.n,
            "gen_kwargs": _generation(config),
            "random_seed": config.seed,
        },
        "git_hash": None,
        "date": time.time(),
        "transformers_version": version("transformers"),
        "lm_eval_version": None,
        "hocket_version": version("hocket"),
        "task_hashes": {
            name: _hash("".join(row["doc_hash"] + row["prompt_hash"] + row["target_hash"] for row in samples))
        },
        "model_source": "hocket",
        "model_name": source,
        "model_name_sanitized": sanitised(source),
        "system_instruction": None,
        "chat_template": None,
        "start_time": end - result.seconds,
        "end_time": end,
        "total_evaluation_time_seconds": str(result.seconds),
    }


def _generation(config: Config) -> dict[str, Any]:
    return {
        "until": list(config.decoding.stop),
        "do_sample": False,
        "temperature": 0.0,
        "max_gen_toks": config.decoding.max_tokens,
    }


def _standard_error(values: Sequence[float]) -> float | str:
    """The standard error of the mean, with n - 1; as the harness writes it, `N/A` for a single value."""
    if len(values) < 2:
        return "N/A"
    mean = sums.mean(list(values))
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1) / len(values))


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
