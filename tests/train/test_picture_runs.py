"""Runs of a model that reads pictures: agreement, resumption, the page, the blind control, and what is refused."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from tiny_runs import call, resume, rows, train, weights

sys.path.insert(0, str(Path(__file__).parent.parent / "policies"))
import tiny_vision

from hocket.core.media import MEDIA

REWARD = """
def spread(completions, **columns):
    return [float(sum(map(ord, text)) % 7) for text in completions]
"""


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The flags of a run on six pictures under one question."""
    folder = tmp_path_factory.mktemp("pictured")
    for number in range(6):
        (folder / f"{number}.png").write_bytes(MEDIA.data(tiny_vision.picture(number)))
    lines = [{"prompt": "Sum?", "image": f"{number}.png", "answer": "3"} for number in range(6)]
    (folder / "rows.jsonl").write_text("\n".join(map(json.dumps, lines)))
    (folder / "reward.py").write_text(REWARD)
    model = tiny_vision.write("llava", folder / "model")
    reward = f"{folder / 'reward.py'}:spread"
    return ["--task", str(folder / "rows.jsonl"), "--model", str(model), "--reward", reward]


@pytest.mark.slow
def test_a_tower_that_is_trained_resumes_and_shows_how_far_it_moved(settings: list[str], tmp_path: Path) -> None:
    trained = [*settings, "--tower.lr", "1e-3"]
    train(tmp_path, "whole", *trained, steps=2)
    train(tmp_path, "parts", *trained, steps=1)
    resume(tmp_path, "parts", "--steps", "2")
    assert weights(tmp_path / "whole") == weights(tmp_path / "parts")
    assert rows(tmp_path / "whole")[2] == rows(tmp_path / "parts")[2]
    assert [row["agreement/largest"] for row in rows(tmp_path / "whole")[1:]] == [0.0, 0.0]
    assert all(row["moved/vision_tower"] > 0 < row["moved/language"] for row in rows(tmp_path / "whole")[1:])


@pytest.mark.slow
def test_an_interrupted_run_ends_with_the_same_numbers(settings: list[str], tmp_path: Path) -> None:
    train(tmp_path, "whole", *settings, steps=2)
    train(tmp_path, "parts", *settings, steps=1)
    MEDIA.__init__()  # As in another process, which knows nothing of the pictures but what lies in the run's folder.
    resume(tmp_path, "parts", "--steps", "2")
    assert weights(tmp_path / "whole") == weights(tmp_path / "parts")
    assert rows(tmp_path / "whole")[2] == rows(tmp_path / "parts")[2]
    assert [row["agreement/largest"] for row in rows(tmp_path / "whole")[1:]] == [0.0, 0.0]

    media = sorted(file.name for file in (tmp_path / "whole" / "media").iterdir())
    assert len(media) == 7  # The pictures, once each, and the index.
    episodes = (tmp_path / "whole" / "rollouts" / "step-000001.jsonl").read_text()
    assert media[0] in episodes
    assert "base64" not in episodes
    assert "data:image/png" in (tmp_path / "whole" / "report.html").read_text()

    sighted = call("eval", "whole", "--runs", tmp_path, "--n", "1", "--json")
    blind = call("eval", "whole", "--runs", tmp_path, "--n", "1", "--blind", "--json")
    assert (sighted.code, blind.code) == (0, 0), blind.err
    assert blind.json["blind"] is True
    assert "blind" not in sighted.json


def test_what_is_refused_in_a_sentence(settings: list[str], tmp_path: Path) -> None:
    started = ["train", "--steps", "1", "--runs", tmp_path, "--quiet"]
    said = call(*started, *settings, "--model", "nano")
    assert said.code == 2
    assert "reads words alone; choose a model that reads pictures, such as --model nano-vlm" in said.err
    said = call(*started, "--task", "sums", "--tower.lr", "1e-4")
    assert said.code == 2
    assert "reads words alone and has no tower; drop tower.lr" in said.err
    said = call("eval", "nano", "--task", "sums", "--n", "1", "--blind")
    assert said.code == 2
    assert "--blind is for models that read pictures" in said.err
