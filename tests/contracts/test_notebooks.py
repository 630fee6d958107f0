"""The notebooks in `examples/`: small, saved with their output, and they still run."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))


def code_cells(file: Path) -> list[dict[str, Any]]:
    return [cell for cell in json.loads(file.read_text())["cells"] if cell["cell_type"] == "code"]


def test_every_door_has_a_notebook() -> None:
    assert [file.stem for file in NOTEBOOKS] == ["control", "method", "team", "text"]


@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)
def test_notebooks_are_small_and_saved_with_their_output(file: Path) -> None:
    text = file.read_text()
    assert 10 <= len(json.loads(text)["cells"]) <= 16
    assert len(text) < 60_000
    outputs = [output for cell in code_cells(file) for output in cell["outputs"]]
    assert {output["output_type"] for output in outputs} <= {"execute_result", "display_data", "stream"}
    assert [cell["execution_count"] for cell in code_cells(file)] == list(range(1, len(code_cells(file)) + 1))
    assert code_cells(file)[-1]["outputs"], "the last cell uses what was trained"
    assert sum("<img src" in "".join(output.get("data", {}).get("text/html", ())) for output in outputs) >= 1
    assert str(Path.home()) not in text
    assert "/tmp" not in text


@pytest.mark.slow
@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)
def test_notebooks_run_and_their_runs_improve(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import nbformat
    from nbclient import NotebookClient

    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(EXAMPLES.parent), os.environ.get("PYTHONPATH", "")]))
    notebook = nbformat.read(file, as_version=4)
    gains = "print([json.loads(file.read_text())['gain'] for file in pathlib.Path('runs').glob('*/summary.json')])"
    notebook.cells.append(nbformat.v4.new_code_cell(f"import json, pathlib\n{gains}"))
    NotebookClient(notebook, timeout=900, resources={"metadata": {"path": str(tmp_path)}}).execute()
    assert max(json.loads(notebook.cells[-1].outputs[0].text)) > 0.1
