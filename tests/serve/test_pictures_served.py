"""Pictures and sounds in requests for chat."""

from __future__ import annotations

import base64

import msgspec
import numpy as np
import pytest

from hocket.apps.serve.refusals import Refusal
from hocket.apps.serve.wire import ChatRequest, template_message
from hocket.core.media import digest_of
from hocket.core.pictures import data_url, picture_bytes
from hocket.core.sounds import Sound, sound_bytes

FILE = picture_bytes(np.full((4, 4, 3), 9, np.uint8))
SOUND = sound_bytes(Sound(np.zeros(8, np.float32), 8_000))


def asked(*parts: object, role: str = "user") -> dict[str, object]:
    body = msgspec.json.encode({"model": "m", "messages": [{"role": role, "content": list(parts)}]})
    (message,) = msgspec.json.decode(body, type=ChatRequest).messages
    return template_message(message)


def shown(url: str) -> dict[str, object]:
    return {"type": "image_url", "image_url": {"url": url, "detail": "auto"}}


def test_a_data_url_becomes_a_digest() -> None:
    text = {"type": "text", "text": "Sum?"}
    found = asked(text, shown(data_url(FILE)))
    assert found == {"role": "user", "content": [text, {"type": "image", "image": digest_of(FILE)}]}
    assert asked(text, text) == {"role": "user", "content": "Sum?\nSum?"}


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("https://x.y/a.png", "would be fetched, and nothing is"),
        ("data:image/png;base64,AAAA", "cannot be read as a picture"),
        ("a.png", "is a file's name"),
    ],
)
def test_other_addresses_are_refused(url: str, words: str) -> None:
    with pytest.raises(Refusal, match=words) as refused:
        asked(shown(url))
    assert (refused.value.status, refused.value.param) == (400, "messages")


def test_a_sound_becomes_a_digest() -> None:
    part = {"type": "input_audio", "input_audio": {"data": base64.b64encode(SOUND).decode(), "format": "wav"}}
    assert asked(part) == {"role": "user", "content": [{"type": "audio", "audio": digest_of(SOUND)}]}
    part["input_audio"]["data"] = base64.b64encode(FILE).decode()  # type: ignore[index]
    with pytest.raises(Refusal, match="cannot be read as a sound") as refused:
        asked(part)
    assert refused.value.code == "invalid_audio"
    with pytest.raises(msgspec.ValidationError, match="mp3"):
        asked({"type": "input_audio", "input_audio": {"data": "", "format": "mp3"}})


def test_only_users_and_tools_show_pictures() -> None:
    assert asked(shown(data_url(FILE)), role="tool")["content"]
    for role in ("system", "assistant"):
        with pytest.raises(msgspec.ValidationError):
            asked(shown(data_url(FILE)), role=role)
