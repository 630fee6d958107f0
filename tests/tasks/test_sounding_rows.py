"""Rows with sounds: every form in which they are written, and what is refused of them in one sentence."""

from __future__ import annotations

import base64
import io
import json
import wave
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hocket.core.errors import ConfigurationError
from hocket.core.media import digest_of, media_in, words_of
from hocket.core.pictures import data_url
from hocket.core.sounds import Sound, open_sound, sound_bytes
from hocket.tasks.data import Data, from_rows, from_settings

NUMBER = {"answer": "3"}


def wav(seed: int) -> bytes:
    return sound_bytes(Sound(np.random.default_rng(seed).uniform(-1, 1, 80).astype(np.float32), 8_000))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number in range(3):
        (tmp_path / f"{number}.wav").write_bytes(wav(number))
    return tmp_path


def task(folder: Path, *rows: dict[str, Any]) -> Data:
    file = folder / "rows.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)))
    return from_settings(str(file), {})


def chat(*parts: Any, role: str = "user") -> dict[str, Any]:
    return {"prompt": [{"role": role, "content": list(parts)}], **NUMBER}


WORDS = {"type": "text", "text": "Count?"}
FORMS = {
    "a column": lambda n: {"prompt": "Count?", "audio": f"{n}.wav", **NUMBER},
    "a place": lambda n: {**chat({"type": "audio"}, WORDS), "audios": [f"{n}.wav"]},
    "a path": lambda n: chat({"type": "audio", "audio": f"{n}.wav"}, WORDS),
    "the endpoint's": lambda n: chat(
        {"type": "input_audio", "input_audio": {"data": base64.b64encode(wav(n)).decode(), "format": "wav"}}, WORDS
    ),
    "a data URL": lambda n: {"prompt": [{"role": "user", "content": "Count?"}], "audio": data_url(wav(n)), **NUMBER},
}


@pytest.mark.parametrize("form", FORMS)
def test_one_text_with_other_sounds_is_other_prompts(form: str, folder: Path) -> None:
    data = task(folder, *(FORMS[form](number) for number in range(3)))
    rows = [data.scenario(split, n) for split in ("train", "eval") for n in range(data.size(split))]
    assert {media_in(row.messages)[0] for row in rows} == {("audio", digest_of(wav(number))) for number in range(3)}
    for row in rows:
        (message,) = row.messages
        assert message["content"] == [{"type": "audio", "audio": media_in([message])[0][1]}, WORDS]
    assert words_of(rows[0].messages[0]["content"]).startswith("(sound ")


def test_rows_from_python_and_with_both() -> None:
    """As `datasets` holds them: decoded, or bytes with a path; a picture and a sound take places of their own."""
    held = [{"array": [0.0, 0.5, -0.5], "sampling_rate": 8_000, "path": None}, {"bytes": wav(1), "path": "b.wav"}]
    data = from_rows([{"prompt": "Count?", "audio": one, **NUMBER} for one in held])
    assert data.size("train") + data.size("eval") == 2
    from PIL import Image

    both = chat({"type": "audio"}, {"type": "image"}, {"type": "audio"}, WORDS)
    rows = from_rows([{**both, "audios": [wav(1), wav(2)], "image": Image.new("RGB", (2, size))} for size in (2, 3)])
    scenario = rows.scenario("train", 0)
    assert [kind for kind, _ in media_in(scenario.messages)] == ["audio", "image", "audio"]


def pcm(width: int, channels: int, frames: bytes, rate: int = 100) -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setnchannels(channels)
        out.setsampwidth(width)
        out.setframerate(rate)
        out.writeframes(frames)
    return file.getvalue()


def test_every_width_of_pcm() -> None:
    """Half of the range, and its negative."""
    forms = {1: b"\xc0\x40", 2: b"\x00\x40\x00\xc0", 3: b"\x00\x00\x40\x00\x00\xc0", 4: b"\0\0\0\x40\0\0\0\xc0"}
    for width, frames in forms.items():
        assert open_sound(pcm(width, 1, frames), "a").samples.tolist() == [0.5, -0.5]
        assert open_sound(pcm(width, 2, frames), "a").samples.tolist() == [0.0]
    again = open_sound(sound_bytes(Sound(np.array([0.25, -2.0], np.float32), 100)), "a")
    assert np.abs(again.samples - [0.25, -1.0]).max() < 1e-4
    assert (again.rate, again.seconds) == (100, 0.02)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (pcm(2, 1, b""), "has 0 samples at 100 Hz, so nothing is heard"),
        (wav(0)[:90], "cannot be read as a sound .*ends early"),
        (b"ID3 and so on", "cannot be read as a sound .*; give a WAV file of PCM"),
    ],
)
def test_files_that_are_refused(data: bytes, words: str, folder: Path) -> None:
    (folder / "x.wav").write_bytes(data)
    with pytest.raises(ConfigurationError, match=rf"x\.wav {words}"):
        task(folder, {"prompt": "Count?", "audio": "x.wav", **NUMBER})


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"prompt": "?", "audio": "../0.wav"}, r"line 1: sound 0: '\.\./0\.wav' lies outside"),
        ({"prompt": "?", "audio": "http://x.y/0.wav"}, "would be fetched, and nothing is"),
        ({"prompt": "?", "audio": 7}, "is of type int; give a file's bytes"),
        ({**chat({"type": "audio"}, {"type": "audio"}), "audio": "0.wav"}, "places for 2 sounds and 1 are given"),
        (chat({"type": "audio"}, WORDS), "stands for a sound, and none is left"),
        (chat({"type": "input_audio", "input_audio": {"data": "?"}}, WORDS), "its data is not valid base64"),
        (chat({"type": "audio", "audio": "0.wav"}, role="system"), "a message of 'system' holds a sound"),
    ],
)
def test_rows_that_are_refused(row: dict[str, Any], words: str, folder: Path) -> None:
    with pytest.raises(ConfigurationError, match=words):
        task(folder, {**NUMBER, **row})
