"""Evaluations in the files of lm-evaluation-harness."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hocket.apps.report.lm_eval_results import write_results
from hocket.core.errors import ConfigurationError
from hocket.tasks import find
from hocket.train.config import configure
from hocket.train.evaluate import EvaluationResult
from hocket.train.kinds.kind import ACCURACY
from hocket.types import Trajectory, Turn


@pytest.fixture
def task(tmp_path: Path) -> Any:
    rows = [{"prompt": f"What is {n} + 1?", "answer": n + 1, "level": "a"} for n in range(4)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return find(f"{tmp_path / 'rows.jsonl'}?extract=number&eval_share=1")


def evaluated(task: Any) -> EvaluationResult:
    texts = ["It is 1", "2", "It is 3", "no"]
    played = [
        Trajectory(task.scenario("eval", n), [Turn("a", "p", np.zeros(0, int), np.arange(3), text=text)])
        for n, text in enumerate(texts)
    ]
    each = [task.success(one) for one in played]
    common: dict[str, Any] = {"length": 3.0, "seconds": 2.0, "measure": ACCURACY}
    return EvaluationResult(0.75, 0.3, 0.95, 4, trajectories=played, each=each, **common)


def test_the_files_are_those_of_the_harness(task: Any, tmp_path: Path) -> None:
    config = configure([], task)
    file = write_results(tmp_path / "out", evaluated(task), task, config, "runs/a", {1: (0.5, 0.1, 0.9)})
    assert file.parent == tmp_path / "out" / "runs__a"
    data = json.loads(file.read_text())
    ((name, metrics),) = data["results"].items()
    assert metrics["alias"] == task.name
    assert metrics["acc,none"] == 0.75
    # One of four is wrong: the deviation with n - 1 is a half, over the root of 4.
    assert math.isclose(metrics["acc_stderr,none"], 0.25)
    assert metrics["pass@1,none"] == 0.5
    assert data["n-samples"][name] == {"original": 4, "effective": 4}
    assert data["higher_is_better"][name] == {"acc": True, "pass@1": True}
    (path,) = file.parent.glob("samples_*.jsonl")
    assert path.name == file.name.replace("results_", f"samples_{name}_").replace(".json", ".jsonl")
    samples = [json.loads(line) for line in path.read_text().splitlines()]
    assert [sample["acc"] for sample in samples] == [1, 1, 1, 0]
    first = samples[0]
    assert (first["doc_id"], first["target"], first["resps"]) == (0, "1", [["It is 1"]])
    assert first["filtered_resps"] == ["1"]
    assert (first["doc"]["level"], first["arguments"]["gen_args_0"]["arg_0"]) == ("a", "What is 0 + 1?")
    assert first["target_hash"] == hashlib.sha256(b"1").hexdigest()
    whole = "".join(row["doc_hash"] + row["prompt_hash"] + row["target_hash"] for row in samples)
    assert data["task_hashes"][name] == hashlib.sha256(whole.encode()).hexdigest()


def test_the_harness_reads_them(task: Any, tmp_path: Path) -> None:
    utils = pytest.importorskip("lm_eval.utils")
    schema = pytest.importorskip("lm_eval.result_schema")
    file = write_results(tmp_path, evaluated(task), task, configure([], task), "model")
    files = [str(path) for path in file.parent.iterdir()]
    assert utils.get_latest_filename(utils.get_results_filenames(files)) == str(file)
    data = json.loads(file.read_text())
    (name,) = data["results"]
    (samples,) = utils.get_sample_results_filenames(files)
    assert utils.get_file_task_name(Path(samples).name) == name
    (row,) = (line for line in utils.make_table(data).splitlines() if "acc" in line)
    assert [cell.strip() for cell in row.strip("|").split("|")][4:] == ["acc", "↑", "0.75", "±", "0.25"]
    assert set(schema.SampleResult.__annotations__) <= set(json.loads(Path(samples).read_text().splitlines()[0]))


def test_results_without_right_and_wrong_are_refused(task: Any, tmp_path: Path) -> None:
    bare = replace(evaluated(task), each=[])
    with pytest.raises(ConfigurationError, match="--format lm-eval is for answers that are right or wrong"):
        write_results(tmp_path, bare, task, configure([], task), "model")
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(ConfigurationError, match=r"--out .*file cannot be written"):
        write_results(blocked, evaluated(task), task, configure([], task), "model")
