"""Decoding steps of fixed shapes, as an accelerator repeats them: the same logits as steps that read what is there."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import tiny_models
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hocket.engine import decoder
from hocket.engine.decoder import DecoderSession
from hocket.engine.fixed_step import FixedStep

torch.set_num_threads(1)
MODEL = tiny_models.policy("qwen3").model


def session(model: object, contexts: Sequence[tuple[int, ...]], *, fixed: bool) -> DecoderSession:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decoder, "fixed_shapes", lambda device: fixed)
        return DecoderSession(model, contexts)


def played(model: object, contexts: Sequence[tuple[int, ...]], fates: Sequence[int], *, fixed: bool) -> torch.Tensor:
    """Logits of every step by continuation `[steps, N, V]`, NaN once it has ended after `fates[n]` steps."""
    one = session(model, contexts, fixed=fixed)
    found = torch.full((max(fates), len(contexts), one.logits.shape[1]), torch.nan)
    for step in range(max(fates)):
        alive = torch.tensor([row < len(fates) and fates[row] > step for row in one.rows.tolist()])
        if not bool(alive.all()) and bool(alive.any()):
            one.keep(alive)
        mine = one.rows < len(contexts)
        token = (one.rows * 7 + step * 3) % 30 + 3
        one.step(token)
        found[step, one.rows[mine]] = one.logits[mine]
    return found


CONTEXT = st.lists(st.integers(3, 30), min_size=1, max_size=9).map(tuple)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(CONTEXT, min_size=1, max_size=3),
    st.lists(st.tuples(st.integers(0, 2), st.integers(1, 80)), min_size=1, max_size=6),
)
def test_logits_are_those_of_steps_that_grow(prompts: list[tuple[int, ...]], rows: list[tuple[int, int]]) -> None:
    """Prompts shared and apart, rows that end, and more tokens than there is room for at first."""
    contexts = sorted(prompts[place % len(prompts)] for place, _ in rows)
    fates = [length for _, length in rows]
    with torch.inference_mode():
        growing, fixed = (played(MODEL, contexts, fates, fixed=kind) for kind in (False, True))
    assert torch.equal(growing.isnan(), fixed.isnan())
    torch.testing.assert_close(fixed, growing, rtol=0, atol=2e-5, equal_nan=True)


def test_columns_not_yet_written_weigh_nothing() -> None:
    """Whatever numbers stand in them."""
    contexts = [(5, 6, 7), (5, 6, 7), (9,)]
    with torch.inference_mode():
        clean, soiled = (session(MODEL, contexts, fixed=True) for _ in range(2))
        for keys, values in soiled._own:
            keys[..., soiled._front :, :] = 50.0
            values[..., soiled._front :, :] = -50.0
        for step in range(5):
            tokens = torch.full((len(clean.rows),), 4 + step)
            clean.step(tokens)
            soiled.step(tokens)
            assert torch.equal(clean.logits, soiled.logits)


def test_off_a_device_a_step_is_just_run() -> None:
    seen = []

    def body(tokens: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
        seen.append((tokens.tolist(), place.tolist()))
        return tokens[:, None].float()

    step = FixedStep(torch.device("cpu"))
    for number in range(6):
        assert step(body, torch.tensor([number, 1]), torch.tensor([number])).tolist() == [[number], [1]]
    assert seen == [([number, 1], [number]) for number in range(6)]
