"""A sampler that learns a subject from reference pictures trains, resumes and is measured like all others."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest
from safetensors.torch import load_file
from tiny_runs import resume, rows, summary, train

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.lab.claims.harness import gradient
from hocket.lab.toys.recorded_answers import document, sample
from hocket.methods.preference.rpo_lambda_harmonic.harmonic import Harmonic, harmonic
from hocket.methods.preference.rpo_lambda_harmonic.kind import ReferencePlayer
from hocket.methods.preference.rpo_lambda_harmonic.method import RPO, Similarity, SubjectProbing
from hocket.methods.preference.rpo_lambda_harmonic.task import SubjectDigits, likeness, references, subject_pixels
from hocket.nano.flow import WORDS, quarters
from hocket.policies.denoising.denoiser import Denoiser
from hocket.policies.denoising.network import FlowShape
from hocket.rollout.probing import Probes
from hocket.tasks.handwriting import judge
from hocket.types import Assignment

SHAPE = FlowShape(16, 4, 8, 2, 1, WORDS, 4, 3, quarters(16, 4), steps=2)
SMALL = ["--evaluation.n", "4", "--evaluation.between", "4", "--threads", "1", "--curriculum.prompts", "2"]
SMALL += ["--rollout.similar", "2", "--rollout.probes", "2"]


@pytest.mark.slow
def test_a_run_that_was_left_ends_with_the_same_bits(tmp_path: Path) -> None:
    Denoiser(SHAPE, Key.of(0)).save(tmp_path)
    words = ["--task", "subject-digits", "--recipe", "rpo-lambda-harmonic", "--model", str(tmp_path)]
    train(tmp_path, "whole", *words, "--checkpoint.steps", "1", steps=2, tiny=SMALL)
    train(tmp_path, "parts", *words, "--checkpoint.steps", "1", steps=1, tiny=SMALL)
    resume(tmp_path, "parts", "--steps", "2")
    weights = [
        load_file(next((tmp_path / run / "checkpoints").glob("step-000002/policy/model.safetensors")))
        for run in ("whole", "parts")
    ]
    assert all(np.array_equal(weights[0][name], weights[1][name]) for name in weights[0])
    assert rows(tmp_path / "whole")[2]["pairs/total"] == 2
    assert summary(tmp_path / "whole")["measure"] == "accuracy"


def test_a_task_without_a_subject_is_refused() -> None:
    assert RPO.rollout.reads_metadata == {"subject"}


def test_a_subject_is_a_digit() -> None:
    with pytest.raises(ConfigurationError, match="subject must be a digit, not 11"):
        SubjectDigits(11)


def test_references_show_the_subject_in_every_quarter() -> None:
    known = references(7)
    assert [reference.prompt for reference in known] == [
        "7 top left",
        "7 top right",
        "7 bottom left",
        "7 bottom right",
    ]
    assert all(likeness(reference.picture, 7) > 1 - 1e-6 for reference in known)
    assert all(reference.labels.count(7) == 1 for reference in known)
    assert judge("evaluate").read(subject_pixels(7)[None]).tolist() == [7]


def test_prompts_name_the_subject_once_and_no_reference() -> None:
    task = SubjectDigits()
    rows_of = {split: [task.scenario(split, n).metadata["digits"] for n in range(40)] for split in ("train", "eval")}  # type: ignore[arg-type]
    assert all(labels.count(4) == 1 for labels in (*rows_of["train"], *rows_of["eval"]))
    asked = {split: {tuple(labels) for labels in labelled} for split, labelled in rows_of.items()}
    assert not asked["train"] & asked["eval"]
    assert not {reference.labels for reference in references(4)} & (asked["train"] | asked["eval"])


def test_reference_pictures_stand_in_the_order_of_their_assignments() -> None:
    player, task = ReferencePlayer(Denoiser(SHAPE, Key.of(0))), SubjectDigits()
    first, second = (task.scenario("train", n) for n in range(2))
    asked = [
        Assignment(first, 1, first=5, source="expert", options=(Probes(2),)),
        Assignment(second, 2, options=(Probes(2),)),
        Assignment(second, 1, source="imported"),
    ]
    played = asyncio.run(player.play(asked, key=Key.of(1)))
    assert [(entry.scenario.id, entry.source) for entry in played] == [
        (first.id, "expert"),
        (second.id, "own"),
        (second.id, "own"),
        (second.id, "imported"),
    ]
    assert np.array_equal(played[0].final_state, references(4)[1].picture)
    assert [len(entry.turns) for entry in played] == [1, 1, 1, 0]


def test_the_harmonic_mean_takes_two_scores() -> None:
    assert harmonic(0.5, 1.0, 0.5) == pytest.approx(2 / 3)
    assert harmonic(0.0, 1.0, 0.0) == 1.0
    assert harmonic(0.3, 0.3, 0.2) == pytest.approx(0.3)
    rows_of = [{**sample("g", 0.0, [-1.0], logp_ref=[-1.0]), "scores": {"digits": value}} for value in (0.0, 1.0)]
    with pytest.raises(ConfigurationError, match="takes the scores subject and digits of trajectories"):
        gradient(RPO, document(rows_of))


def test_settings_that_mean_nothing_are_refused() -> None:
    with pytest.raises(ValueError, match="share must lie in"):
        Harmonic(1.5)
    with pytest.raises(ValueError, match="samples, a reference among them, at least 2"):
        SubjectProbing(samples=1)
    with pytest.raises(ValueError, match="coefficient must be at least 0"):
        Similarity(-1.0)
