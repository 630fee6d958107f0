"""The microscope's contract: order, what is kept, refusals, exit codes, settings, one JSON document."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from oracle.documents import document

from hocket.apps.cli.parser import main
from hocket.core.errors import HocketError
from hocket.lab.microscope import inspect
from hocket.recipes import find

NAMES = [
    "grpo",
    "two-grpo",
    "grpo-kl",
    "grpo-process",
    "othink-mr1",
    "dr-grpo",
    "loop",
    "mapo",
    "bnpo",
    "ngrpo",
    "s-grpo-noise",
    "seed-grpo",
    "gpg",
    "gmpo",
    "gvpo",
    "nft",
    "disco",
    "trpa",
    "bapo",
    "kimi-k1-5",
    "deepvideo-r1",
    "lens",
    "unlikeliness-reward",
    "edge-grpo",
    "fc-entropy-grpo",
    "gtpo-trajectory",
    "vital-dgrpo",
    "noisy-verifier-correction",
    "noisy-verifier-forward",
    "tempsamp-r1",
    "grpo-lead",
    "conciser",
    "otc",
    "dra-grpo",
    "ttrv",
    "cppo",
    "d3s",
    "rec-reinforce",
    "rec-asymre",
    "rec-one-side",
    "rec-one-side-is",
    "rec-opmd",
    "rec-weight",
    "rec-drop",
    "rank-grpo",
    "pta-grpo",
    "aapo",
    "spo",
    "mdpo",
    "trpo",
    "discovered-policy-optimisation",
    "ppo",
    "ppo-rlhf",
    "nlpo",
    "multi-objective-grpo-normalised",
    "dr-genre",
]
REQUIRED = ("recipe", "loss", "advantages", "gradient", "weight", "kept", "metrics")


@pytest.mark.parametrize("ids", [True, False])
@pytest.mark.parametrize("name", NAMES)
def test_values_do_not_depend_on_the_order_of_the_input(name: str, ids: bool) -> None:
    for seed in range(2):
        given = document(seed, masks=True, turns=True, grades="graded")
        if not ids:
            for r in given["trajectories"]:
                del r["id"]
        order = np.random.default_rng(seed + 9).permutation(len(given["trajectories"]))
        moved = {**given, "trajectories": [given["trajectories"][i] for i in order]}
        one, other = inspect(find(name), given), inspect(find(name), moved)
        assert other["loss"] == pytest.approx(one["loss"], rel=1e-9, abs=1e-9)
        assert other["kept"] == [one["kept"][i] for i in order]
        for key in ("advantages", "gradient", "weight"):
            for place, i in enumerate(order):
                assert other[key][place] == pytest.approx(one[key][i], rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_what_is_printed_has_the_shape_of_the_input(name: str) -> None:
    given = document(3, masks=True)
    got = inspect(find(name), given)
    assert set(REQUIRED) <= set(got)
    for key in ("advantages", "gradient", "weight"):
        assert [len(x) for x in got[key]] == [len(r["logp"]) for r in given["trajectories"]]
    for r, weight, gradient, kept in zip(
        given["trajectories"], got["weight"], got["gradient"], got["kept"], strict=True
    ):
        assert kept == any(weight)
        trained = r.get("trained", [True] * len(r["logp"]))
        for yes, w, g in zip(trained, weight, gradient, strict=True):
            assert yes or (w == 0 and g == 0)


@pytest.mark.parametrize("name", NAMES)
def test_what_has_no_weight_changes_nothing(name: str) -> None:
    given = document(4, grades="graded")
    rows = given["trajectories"]
    # Rewards within those seen, so that what asks for the batch's highest and lowest is as before.
    idle = {**rows[0], "id": "idle", "scores": {"reward": 0.25}, "trained": [False] * len(rows[0]["logp"])}
    with_it = inspect(find(name), {**given, "trajectories": [*rows, idle]})
    without = inspect(find(name), given)
    assert with_it["kept"][-1] is False
    assert with_it["loss"] == pytest.approx(without["loss"], rel=1e-9, abs=1e-9)
    for x, y in zip(with_it["gradient"][:-1], without["gradient"], strict=True):
        assert x == pytest.approx(y, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_behaviour_defaults_to_the_recorded_log_probs(name: str) -> None:
    given = document(5)
    explicit = [{**r, "logp_behaviour": r["logp"]} for r in given["trajectories"]]
    silent = [{k: v for k, v in r.items() if k != "logp_behaviour"} for r in given["trajectories"]]
    one, other = (inspect(find(name), {**given, "trajectories": rows}) for rows in (explicit, silent))
    assert one["gradient"] == other["gradient"]
    assert one["loss"] == other["loss"]


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("gvpo", "logp_ref"),
        ("trpa", "logp_ref"),
        ("grpo-kl", "logp_ref"),
        ("edge-grpo", "entropy"),
        ("d3s", "entropy"),
        ("fc-entropy-grpo", "entropy"),
        ("gtpo-trajectory", "entropy"),
        ("spo", "value"),
        ("mdpo", "value"),
        ("nlpo", "logp_ref"),
        ("ttrv", "label"),
    ],
)
def test_a_missing_field_is_named(name: str, field: str) -> None:
    given = document(6)
    del given["trajectories"][1][field]
    if name == "ttrv":  # One sample without an answer is lawful; no answers at all are not.
        for r in given["trajectories"]:
            r.pop(field, None)
    with pytest.raises(HocketError, match=field):
        inspect(find(name), given)


@pytest.mark.parametrize("field", ["group", "scores", "logp"])
def test_a_required_field_is_named(field: str) -> None:
    given = document(6)
    del given["trajectories"][1][field]
    with pytest.raises(HocketError, match=field):
        inspect(find("grpo"), given)


@pytest.mark.parametrize("version", [None, 0, 2, "1"])
def test_another_version_is_refused(version: Any) -> None:
    with pytest.raises(HocketError, match="version"):
        inspect(find("grpo"), {**document(6), "version": version})


def test_an_unknown_field_is_refused_and_named() -> None:
    given = document(6)
    given["trajectories"][2]["lopg"] = []
    with pytest.raises(HocketError, match="lopg"):
        inspect(find("grpo"), given)


@pytest.mark.parametrize(
    "field", ["logp_behaviour", "logp_proximal", "logp_ref", "entropy", "value", "trained", "tokens"]
)
def test_a_column_of_another_length_is_refused(field: str) -> None:
    given = document(6)
    given["trajectories"][2][field] = [0] * (len(given["trajectories"][2]["logp"]) + 1)
    with pytest.raises(HocketError, match=field):
        inspect(find("grpo"), given)


# ---------------------------------------------------------------- the command line


class Shown:
    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def rows(self) -> list[dict[str, Any]]:
        return json.loads(self.out)


@pytest.fixture
def show(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    def run(given: Any, *words: str) -> Shown:
        path = tmp_path / "batch.json"
        path.write_text(given if isinstance(given, str) else json.dumps(given))
        capsys.readouterr()
        try:
            code = main(["microscope", "--batch", str(path), *words])
        except SystemExit as error:
            code = int(error.code or 0)
        said = capsys.readouterr()
        return Shown(code or 0, said.out, said.err)

    return run


def test_json_is_one_document_in_the_order_asked(show: Any) -> None:
    given = document(7)
    got = show(given, "--recipe", "nft", "--recipe", "grpo", "--json")
    assert got.code == 0
    assert [r["recipe"] for r in got.rows] == ["nft", "grpo"]
    assert got.rows[1]["gradient"] == inspect(find("grpo"), given)["gradient"]
    assert got.rows[1]["loss"] == inspect(find("grpo"), given)["loss"]


def test_one_that_runs_is_enough_for_success(show: Any) -> None:
    given = document(7)
    for r in given["trajectories"]:
        del r["logp_ref"]
    some = show(given, "--recipe", "gvpo", "--recipe", "grpo", "--json")
    assert some.code == 0
    assert set(some.rows[0]) == {"recipe", "error"}
    assert "logp_ref" in some.rows[0]["error"]
    assert "loss" in some.rows[1]
    none = show(given, "--recipe", "gvpo", "--recipe", "trpa", "--json")
    assert none.code == 2
    assert [set(r) for r in none.rows] == [{"recipe", "error"}] * 2


def test_numbers_that_are_not_finite_are_null(show: Any) -> None:
    given = {
        "version": 1,
        "trajectories": [
            {"group": "a", "scores": {"r": 1}, "logp": [math.nan]},
            {"group": "a", "scores": {"r": 0}, "logp": [-1]},
        ],
    }
    got = show(given, "--recipe", "grpo", "--json")
    assert "NaN" not in got.out
    assert got.rows[0]["loss"] is None
    assert got.rows[0]["gradient"][0] == [None]


@pytest.mark.parametrize(
    ("words", "changes"),
    [
        (["credit.ddof=0"], {"credit.ddof": 0}),
        (["credit.scale=null"], {"credit.scale": None}),
        (["objective.low=0.01", "objective.high=0.02"], {"objective.low": 0.01, "objective.high": 0.02}),
        (["objective.aggregate=token-mean"], {"objective.aggregate": "token-mean"}),
        (["credit.virtual=[1.0]"], {"credit.virtual": [1.0]}),
    ],
)
def test_set_changes_what_it_says(show: Any, words: list[str], changes: dict[str, Any]) -> None:
    given = document(8)
    flags = [x for w in words for x in ("--set", w)]
    got = show(given, "--recipe", "grpo", *flags, "--json").rows[0]
    wanted = inspect(find("grpo").but(changes), given)
    assert got["loss"] == wanted["loss"]
    assert got["gradient"] == wanted["gradient"]
    assert got["gradient"] != inspect(find("grpo"), given)["gradient"]


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--recipe", "grpo", "--set", "credit.dof=0"], "ddof"),
        (["--recipe", "grpo", "--set", "credit.ddof=many"], "credit.ddof"),
        (["--recipe", "grpo", "--set", "credit.ddof"], "KEY=VALUE"),
        (["--recipe", "gropo"], "grpo"),
        ([], "--recipe"),
    ],
)
def test_bad_usage_is_2_and_says_the_mend(show: Any, words: list[str], named: str) -> None:
    got = show(document(8), *words, "--json")
    assert got.code == 2
    assert named in got.out + got.err
    assert "Traceback" not in got.err


@pytest.mark.parametrize("text", ["{oops", "[1]", "3", '{"version": 1, "trajectories": []}'])
def test_no_batch_is_2(show: Any, text: str) -> None:
    got = show(text, "--recipe", "grpo", "--json")
    assert got.code == 2
    assert "Traceback" not in got.err


@pytest.mark.parametrize(
    "more",
    [
        {"logp": ["x"]},
        {"logp": -1},
        {"scores": [1]},
        {"trained": ["yes"]},
        {"parent": {"id": "0"}, "id": "1"},
    ],
)
def test_a_field_of_another_type_is_bad_usage(show: Any, more: dict[str, Any]) -> None:
    plain = {"group": "a", "scores": {"r": 0}, "logp": [-1]}
    got = show({"version": 1, "trajectories": [{**plain, "id": "0"}, {**plain, **more}]}, "--recipe", "grpo", "--json")
    assert got.code == 2
    assert next(iter(more)) in got.out + got.err
