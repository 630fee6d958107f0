"""The pictures of a run's page."""

from __future__ import annotations

import base64
import struct
import zlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from hocket.apps.report.pictures import pictures_of
from hocket.train.pictures import write_pictures
from hocket.types import Scenario, Score, Trajectory


def evaluation(shades: list[float], rewards: list[float]) -> Any:
    played = []
    for number, (shade, reward) in enumerate(zip(shades, rewards, strict=True)):
        one = Trajectory(Scenario(f"s{number}", f"picture {number}"), [], final_state=np.full(6, shade, np.float32))
        one.scores["ink"] = Score(reward)
        played.append(one)
    return SimpleNamespace(trajectories=played, each=[float(reward == 1.0) for reward in rewards])


def test_best_worst_and_most_changed(tmp_path: Path) -> None:
    write_pictures(tmp_path, 0, evaluation([-1.0, 0.0, 1.0], [0.5, 0.5, 0.5]), (2, 3))
    write_pictures(tmp_path, 9, evaluation([-1.0, 1.0, 0.9], [1.0, 0.25, 0.5]), (2, 3))
    best, worst, changed = pictures_of(SimpleNamespace(path=tmp_path))  # type: ignore[arg-type]
    assert [pair["prompt"] for pair in best["pairs"]] == ["picture 0", "picture 2", "picture 1"]
    assert worst["pairs"][0]["prompt"] == "picture 1"
    assert changed["pairs"][0]["prompt"] == "picture 1"
    assert [pair["right"] for pair in best["pairs"]] == [True, False, False]
    png = base64.b64decode(changed["pairs"][0]["after"].partition(",")[2])
    assert png[:4] == b"\x89PNG"
    assert struct.unpack(">II", png[16:24]) == (3, 2)
    size = struct.unpack(">I", png[33:37])[0]
    assert zlib.decompress(png[41 : 41 + size]) == b"\0\xff\xff\xff" * 2
    assert changed["title"] == "Most changed"


def test_what_is_not_finite_is_left_out_and_other_runs_have_none(tmp_path: Path) -> None:
    write_pictures(tmp_path, 0, evaluation([np.nan, 0.0], [0.0, 0.0]), (2, 3))
    best, _ = pictures_of(SimpleNamespace(path=tmp_path))  # type: ignore[arg-type]
    assert len(best["pairs"]) == 1
    assert pictures_of(SimpleNamespace(path=tmp_path / "other")) == []  # type: ignore[arg-type]


def test_pictures_in_colour_are_made_smaller(tmp_path: Path) -> None:
    result = evaluation([0.0], [1.0])
    shades = np.zeros((256, 512, 3), np.uint8)
    shades[:, :, 0], shades[::2, :, 2] = 200, 100
    result.trajectories[0].final_state = shades
    write_pictures(tmp_path, 0, result, ())
    best, _ = pictures_of(SimpleNamespace(path=tmp_path))  # type: ignore[arg-type]
    png = base64.b64decode(best["pairs"][0]["after"].partition(",")[2])
    assert struct.unpack(">IIBB", png[16:26]) == (128, 64, 8, 2)
    size = struct.unpack(">I", png[33:37])[0]
    assert zlib.decompress(png[41 : 41 + size]) == (b"\0" + bytes([200, 0, 50]) * 128) * 64
