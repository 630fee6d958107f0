"""Rows with pictures: every form in which they are written, and what is refused of them in one sentence."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from hocket.core.errors import ConfigurationError
from hocket.core.media import MEDIA, digest_of, pictures_in
from hocket.core.pictures import open_picture, picture_bytes
from hocket.tasks.data import Data, from_rows, from_settings

SUM = {"answer": "3"}


def png(seed: int) -> bytes:
    return picture_bytes(np.random.default_rng(seed).integers(0, 256, (8, 8, 3), dtype=np.uint8))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number in range(3):
        (tmp_path / f"{number}.png").write_bytes(png(number))
    return tmp_path


def task(folder: Path, *rows: dict[str, Any]) -> Data:
    file = folder / "rows.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)))
    return from_settings(str(file), {})


def url(seed: int) -> str:
    return "data:image/png;base64," + base64.b64encode(png(seed)).decode()


def chat(*parts: Any, role: str = "user") -> dict[str, Any]:
    return {"prompt": [{"role": role, "content": list(parts)}], **SUM}


WORDS = {"type": "text", "text": "Sum?"}
FORMS = {
    "a column": lambda n: {"prompt": "Sum?", "image": f"{n}.png", **SUM},
    "a list": lambda n: {"prompt": "Sum?", "images": [f"{n}.png"], **SUM},
    "a place": lambda n: {**chat({"type": "image"}, WORDS), "images": [f"{n}.png"]},
    "messages": lambda n: {"prompt": [{"role": "user", "content": "Sum?"}], "images": [url(n)], **SUM},
    "a path": lambda n: chat({"type": "image", "image": f"{n}.png"}, WORDS),
    "a data URL": lambda n: chat({"type": "image_url", "image_url": {"url": url(n)}}, WORDS),
}


@pytest.mark.parametrize("form", FORMS)
def test_one_text_with_other_pictures_is_other_prompts(form: str, folder: Path) -> None:
    data = task(folder, *(FORMS[form](number) for number in range(3)))
    rows = [data.scenario(split, n) for split in ("train", "eval") for n in range(data.size(split))]
    assert data.size("eval") == 1
    assert {pictures_in(row.messages)[0] for row in rows} == {digest_of(png(number)) for number in range(3)}
    for row in rows:
        (message,) = row.messages
        assert message["content"] == [{"type": "image", "image": pictures_in([message])[0]}, WORDS]
        assert MEDIA.data(pictures_in([message])[0])
        assert not {"image", "images"} & row.metadata.keys()


def test_rows_from_python(folder: Path) -> None:
    """As `datasets` holds them: Pillow images, and bytes with a path."""
    held = [Image.open(folder / "0.png"), {"bytes": png(1), "path": None}, {"bytes": png(2), "path": "elsewhere.png"}]
    data = from_rows([{"prompt": "Sum?", "image": one, **SUM} for one in held])
    assert data.size("train") + data.size("eval") == 3
    with pytest.raises(ConfigurationError, match=r"data\[0\]: picture 0: '0.png' is a file's name"):
        from_rows([{"prompt": "Sum?", "image": "0.png", **SUM}])


def test_demonstrations_and_text_in_parts(folder: Path) -> None:
    rows = [
        {
            "messages": [
                {"role": "user", "content": [{"type": "image", "image": f"{number}.png"}, WORDS]},
                {"role": "assistant", "content": [{"type": "text", "text": "2"}, {"type": "text", "text": "1"}]},
            ]
        }
        for number in range(3)
    ]
    scenario = task(folder, *rows).scenario("train", 0)
    assert scenario.metadata["demonstration"] == "21"
    assert len(pictures_in(scenario.messages)) == 1


def broken(folder: Path, name: str) -> None:
    """Files that are no pictures to read."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    def headed(width: int, height: int) -> bytes:
        head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
        parts = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")
        return b"\x89PNG\r\n\x1a\n" + parts

    file = folder / name
    if name == "animated.gif":
        frames = [Image.new("RGB", (4, 4), (shade, 0, 0)) for shade in (0, 100, 200)]
        frames[0].save(file, save_all=True, append_images=frames[1:])
    elif name == "ink.jpg":
        Image.new("CMYK", (4, 4)).save(file)
    elif name == "wide.png":
        Image.new("RGB", (20_000, 1)).save(file)
    else:
        file.write_bytes({"cut.png": png(0)[:60], "none.png": headed(0, 0), "bomb.png": headed(40_000, 25_000)}[name])


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("cut.png", r"cut\.png cannot be read as a picture .*; give a whole file"),
        ("none.png", r"none\.png cannot be read as a picture"),
        ("wide.png", r"wide\.png is 20,000 x 1 pixels, more than 16,384 a side"),
        ("bomb.png", r"bomb\.png has more pixels than may be opened"),
        ("ink.jpg", r"ink\.jpg has the mode CMYK; convert it to RGB"),
        ("animated.gif", r"animated\.gif is animated \(3 frames\); save one frame"),
    ],
)
def test_files_that_are_refused(name: str, words: str, folder: Path) -> None:
    broken(folder, name)
    with pytest.raises(ConfigurationError, match=words):
        task(folder, {"prompt": "Sum?", "image": name, **SUM})


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"prompt": "Sum?", "image": "../0.png"}, r"line 1: picture 0: '\.\./0\.png' lies outside"),
        ({"prompt": "Sum?", "image": "http://x.y/0.png"}, "would be fetched, and nothing is"),
        ({"prompt": "Sum?", "image": "9.png"}, "there is no file"),
        ({"prompt": "Sum?", "image": "data:image/png,xx"}, "is no data URL"),
        ({"prompt": "Sum?", "image": 7}, "is of type int"),
        ({**chat({"type": "image"}, {"type": "image"}), "image": "0.png"}, "places for 2 pictures and 1 are given"),
        (chat({"type": "image"}, WORDS), "stands for a picture, and none is left"),
        (chat({"type": "video", "video": "a.mp4"}), "part 0 is of type 'video'"),
        (chat({"type": "image", "image": "0.png"}, role="system"), "a message of 'system' holds a picture"),
        (chat("Sum?"), "part 0 has no type"),
    ],
)
def test_rows_that_are_refused(row: dict[str, Any], words: str, folder: Path) -> None:
    with pytest.raises(ConfigurationError, match=words):
        task(folder, {**SUM, **row})


def test_transparency_is_white(folder: Path) -> None:
    clear = Image.new("RGBA", (2, 1), (9, 9, 9, 0))
    clear.putpixel((1, 0), (9, 9, 9, 255))
    assert list(open_picture(picture_bytes(clear), "clear").getdata()) == [(255, 255, 255), (9, 9, 9)]
