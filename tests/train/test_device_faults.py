"""What a device does to a run comes out as one sentence, and the run goes on from its checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from hocket.apps.cli.parser import main
from hocket.core.errors import ConfigurationError
from hocket.policies.operations import table
from hocket.train import device_faults, trainer
from hocket.train.device_faults import lost, move, no_room, refusal

FAULT = "CUDA error: an illegal memory access was encountered\nCUDA kernel errors might be reported later\n"


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (RuntimeError(FAULT), "CUDA error: an illegal memory access was encountered"),
        (RuntimeError("NCCL error: remote process exited"), "NCCL error: remote process exited"),
        (RuntimeError("CUDA error: out of memory"), None),
        (RuntimeError("shapes cannot be multiplied"), None),
        (ValueError("CUDA error: no"), None),
        (RuntimeError(""), None),
    ],
)
def test_a_lost_device_is_told_from_other_errors(error: Exception, said: str | None) -> None:
    assert lost(error) == said


def test_a_device_that_is_lost_in_a_step_leaves_a_run_to_resume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plain, steps = trainer.train_step, list[int]()

    def failing(parts: Any, step: int) -> Any:
        steps.append(step)
        if len(steps) == 2:
            raise RuntimeError(FAULT)
        return plain(parts, step)

    monkeypatch.setattr(trainer, "train_step", failing)
    run = ["--task", "torch:cartpole?copies=8", "--recipe", "ppo", "--steps", "3", "--curriculum.prompts", "8"]
    more = ["--evaluation.n", "2", "--checkpoint.steps", "1", "--runs", str(tmp_path), "--run", "lost"]
    assert main(["train", *run, *more]) == 1
    (line,) = [one for one in capsys.readouterr().err.splitlines() if one.startswith("hocket:")]
    assert "the device failed in step 2 (CUDA error: an illegal memory access was encountered)" in line
    assert f"hocket train --resume {tmp_path / 'lost'}" in line
    assert main(["train", "--resume", str(tmp_path / "lost")]) == 0
    assert steps == [1, 2, 2, 3]


@pytest.mark.global_rng  # Linear layers draw their weights.
def test_a_device_without_room_says_how_much_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_faults, "available_memory", lambda device: 3 * 2**29)

    class Full(nn.Linear):
        def to(self, *given: Any, **settings: Any) -> Any:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB")

    with pytest.raises(
        ConfigurationError, match=r"^cuda:1 has 1\.5 GiB free, in which the weights of 'policy', 0\.0 GiB"
    ):
        move(Full(2, 2), torch.device("cuda:1"), "policy")
    assert "choose another --device" in str(no_room(torch.device("cuda"), "nothing fits"))
    move(nn.Linear(2, 2), torch.device("cpu"), "policy")


@pytest.mark.parametrize(
    ("fault", "head", "why"),
    [
        ("triton is not installed; install hocket[triton]", 64, "not available: triton is not installed"),
        ("triton does not load: no libcuda.so.1", 64, "triton does not load: no libcuda"),
        (None, 512, "for heads of a multiple of 2 numbers up to 256, not of 512"),
        (None, 64, None),
    ],
)
def test_why_an_accelerator_computes_in_plain_torch_is_said(
    fault: str | None, head: int, why: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table, "_triton_fault", lambda: fault)
    table._column_of.cache_clear()
    found = refusal(torch.device("cuda"), torch.float32, head, 1)
    table._column_of.cache_clear()
    assert found is None if why is None else why in str(found)


def test_no_column_takes_a_head_of_an_odd_size() -> None:
    with pytest.raises(ConfigurationError, match="torch column has rotary turn for heads of a multiple of 2 numbers"):
        table.column_of(torch.device("cuda"), torch.float32, 17)
