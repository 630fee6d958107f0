"""Sampler and learner agree with every engine that a policy can be trained with: the default job's first steps."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from vllm_server import VLLM_PYTHON, real, serving

from hocket import tasks
from hocket.train.config import configure
from hocket.train.trainer import Trainer

SHORT = [("steps", 3), ("evaluation.n", 16), ("evaluation.every", 0), ("threads", 1), ("track", ())]


@pytest.fixture
def flags(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, Any]]]:
    """The settings of an engine of the kind that the test is for."""
    kind = request.param
    if kind == "vllm":
        yield [("engine", kind), ("engine.python", VLLM_PYTHON), ("engine.memory", 0.25)]
    elif kind == "vllm-server":
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        with serving("--max-num-seqs", "128") as url:
            yield [("engine", kind), ("engine.url", url)]
    else:
        yield [("engine", kind)]


KINDS = ["local", *(pytest.param(kind, marks=real) for kind in ("vllm", "vllm-server"))]


@pytest.mark.parametrize("flags", KINDS, indirect=True)
def test_sampler_and_learner_agree(flags: list[tuple[str, Any]], tmp_path: Path) -> None:
    settings = [*SHORT, *flags, ("runs", str(tmp_path)), ("run", "a")]
    trainer = Trainer(configure(settings, tasks.find("sums")))
    for step in range(4):
        row = trainer.step()
        if step == 0:
            continue
        assert row["agreement/p999"] < 1e-4
        assert abs(row["kl/behaviour"]) < 1e-8
        assert row["tokens/generated"] > 128
        learner = trainer.parts.lead
        assert learner.agreement is not None
        assert learner.agreement.stale == 0, "every token says that it is of the weights that learn"
        assert learner.agreement.decisions > 100
        assert learner.policy.version == step
