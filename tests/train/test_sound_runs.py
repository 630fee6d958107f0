"""A run of a model that reads sounds: agreement, resumption, the page and the silent control."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from tiny_runs import call, resume, rows, train, weights

sys.path.insert(0, str(Path(__file__).parent.parent / "policies"))
import tiny_hearing

from hocket.core.media import MEDIA

REWARD = """
def spread(completions, **columns):
    return [float(sum(map(ord, text)) % 7) for text in completions]
"""


@pytest.mark.slow
def test_an_interrupted_run_ends_with_the_same_numbers(tmp_path: Path) -> None:
    for number in range(6):
        (tmp_path / f"{number}.wav").write_bytes(MEDIA.data(tiny_hearing.sound(number, 0.5)))
    lines = [{"prompt": "Count?", "audio": f"{number}.wav", "answer": "3"} for number in range(6)]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, lines)))
    (tmp_path / "reward.py").write_text(REWARD)
    model = tiny_hearing.write(tmp_path / "model")
    settings = ["--task", str(tmp_path / "rows.jsonl"), "--model", str(model)]
    settings += ["--reward", f"{tmp_path / 'reward.py'}:spread"]
    train(tmp_path, "whole", *settings, steps=2)
    train(tmp_path, "parts", *settings, steps=1)
    MEDIA.__init__()  # As in another process, which knows nothing of the sounds but what lies in the run's folder.
    resume(tmp_path, "parts", "--steps", "2")
    assert weights(tmp_path / "whole") == weights(tmp_path / "parts")
    assert [row["agreement/largest"] for row in rows(tmp_path / "whole")[1:]] == [0.0, 0.0]
    assert len(list((tmp_path / "whole" / "media").iterdir())) == 7  # The sounds, once each, and the index.
    assert "data:audio/wav" in (tmp_path / "whole" / "report.html").read_text()
    silent = call("eval", "whole", "--runs", tmp_path, "--n", "1", "--blind", "--json")
    assert silent.json["blind"] is True
