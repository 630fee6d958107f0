"""Pictures that workflows bring: observations of environments and answers of tools, to models with eyes and without."""

from __future__ import annotations

import asyncio
import base64
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from hocket.agents.environments.protocol import Observation
from hocket.agents.tools.mcp import answer_of
from hocket.agents.tools.outside_answers import Answers
from hocket.agents.workflows.fitting import Fit
from hocket.agents.workflows.tool_loop import content_for
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.media import FIRST, MEDIA, PicturedAnswer, digest_of, words_of
from hocket.core.pictures import data_url, picture_bytes
from hocket.core.sounds import Sound, sound_bytes
from hocket.engine.remote_wire import text_body, tokens_body
from hocket.engine.requests import Request
from hocket.types import Decoding, Turn

PIXELS = np.full((4, 4, 3), 7, np.uint8)
FILE = picture_bytes(PIXELS)
SOUND = Sound(np.zeros(8, np.float32), 8_000)
HEARD = digest_of(sound_bytes(SOUND))


def test_an_observation_shows_its_pictures() -> None:
    found = Observation("You are here.", pictures=(PIXELS, FILE)).beside("You are here.")
    assert found == [*[{"type": "image", "image": digest_of(FILE)}] * 2, {"type": "text", "text": "You are here."}]
    assert Observation("You are here.").beside("You are here.") == "You are here."
    heard = Observation("", pictures=(FILE,), sounds=(SOUND, sound_bytes(SOUND))).beside("")
    assert heard == [{"type": "image", "image": digest_of(FILE)}, *[{"type": "audio", "audio": HEARD}] * 2]
    with pytest.raises(ConfigurationError, match="the picture of an observation is of type int"):
        Observation("", pictures=(7,)).beside("")


def answered(*parts: Any, wrong: bool = False) -> str:
    found = SimpleNamespace(content=list(parts), structured_content=None, is_error=wrong)
    return answer_of("camera", found)


def picture_part(data: str) -> Any:
    return SimpleNamespace(type="image", data=data, mime_type="image/png")


TEXT = SimpleNamespace(type="text", text="a room")
SHOWN = picture_part(data_url(FILE).partition(",")[2])


def test_a_tools_picture_goes_to_models_with_eyes() -> None:
    seeing, blind = (SimpleNamespace(sees=sees) for sees in (True, False))
    answer = answered(TEXT, SHOWN)
    assert content_for(seeing, answer) == [
        {"type": "text", "text": "a room"},
        {"type": "image", "image": digest_of(FILE)},
    ]
    assert content_for(blind, answer) == "a room\n[a picture (image/png), which cannot be read here]"
    assert content_for(seeing, answered(SHOWN)) == [{"type": "image", "image": digest_of(FILE)}]
    assert MEDIA.data(digest_of(FILE)) == FILE
    # What is no picture, or an error, stays words.
    for plain in (answered(TEXT), answered(TEXT, picture_part("AAAA")), answered(TEXT, SHOWN, wrong=True)):
        assert not isinstance(plain, PicturedAnswer)
        assert isinstance(content_for(seeing, plain), str)


def test_a_resumed_run_is_shown_the_picture_again() -> None:
    kept: dict[str, Any] = {}
    journal = SimpleNamespace(get=kept.get, put=kept.__setitem__)
    calls = []

    class Camera:
        name, outside = "camera", True

        async def __call__(self, arguments: Any) -> str:
            calls.append(arguments)
            return answered(TEXT, SHOWN)

    first, again = (asyncio.run(Answers("episode", journal).of(Camera(), {})) for _ in range(2))
    assert len(calls) == 1
    assert isinstance(again, PicturedAnswer)
    assert (str(again), again.content) == (str(first), first.content)
    assert digest_of(FILE) in str(kept)
    assert "base64" not in str(kept)


def test_a_prompt_with_pictures_is_never_cut() -> None:
    def turn(*observation: int) -> Turn:
        return Turn("a", "policy", np.array(observation), np.array([5, 6]))

    fit = Fit("start", max_length=4)
    assert fit([turn(1, 2, 3)], None, "row")[0].observation.tolist() == [2, 3]
    with pytest.raises(ConfigurationError, match="a prompt with pictures is never cut"):
        fit([turn(1, FIRST + 3, 3)], None, "row")
    # A root that fits stays as it is beside one that does not.
    short = turn(9)
    assert fit([turn(1, 2, 3), short], None, "row")[1].observation.tolist() == [9]


def test_endpoints_get_pictures_as_data_urls() -> None:
    content = [{"type": "image", "image": MEDIA.put(FILE)}, {"type": "text", "text": "Sum?"}]
    request = Request((1, FIRST), Decoding(), Key.of(0), messages=({"role": "user", "content": content},))
    sent = text_body(request, "far")["messages"][0]["content"]
    assert sent == [{"type": "image_url", "image_url": {"url": data_url(FILE)}}, {"type": "text", "text": "Sum?"}]
    played = ({"role": "user", "content": [{"type": "audio", "audio": MEDIA.put(sound_bytes(SOUND))}]},)
    sent = text_body(Request((1, FIRST), Decoding(), Key.of(0), messages=played), "far")["messages"][0]["content"]
    data = base64.b64encode(sound_bytes(SOUND)).decode()
    assert sent == [{"type": "input_audio", "input_audio": {"data": data, "format": "wav"}}]
    with pytest.raises(ConfigurationError, match="model 'far' gets token ids, and a picture or sound has none there"):
        tokens_body(request, "far", ())


def test_pictures_in_a_line_of_text() -> None:
    digest = digest_of(FILE)
    assert (
        words_of([{"type": "image", "image": digest}, {"type": "text", "text": "a"}]) == f"(picture {digest[:12]})\na"
    )
    assert words_of("a") == "a"
    assert words_of(None) == ""
