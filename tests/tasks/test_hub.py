"""Data sets of the hub by name: which splits are used, and a sentence for each way in which a set cannot be had."""

from __future__ import annotations

import json
import sys
import time
import types
from pathlib import Path
from typing import Any

import pytest

from hocket.core.errors import ConfigurationError
from hocket.tasks import evaluated_on, find, hub
from hocket.tasks.data import Data

COMMIT = "0123456789abcdef0123456789abcdef01234567"
CARD = """---
configs:
- config_name: main
  data_files:
  - split: train
    path: main/train*
  - split: test
    path: main/test*
- config_name: other
  data_files: other/*
---
"""


def gsm8k(first: int, count: int) -> list[dict[str, Any]]:
    return [
        {"question": f"{n} + 1?", "answer": f"<<{n}+1={n + 1}>>\n#### {n + 1}"} for n in range(first, first + count)
    ]


# ---------------------------------------------------------------- a scripted library


class Builder:
    def __init__(self, splits: dict[str, list[dict[str, Any]]]) -> None:
        self.splits = splits
        self.info = types.SimpleNamespace(splits=splits)

    def download_and_prepare(self) -> None: ...

    def as_dataset(self, split: str) -> list[dict[str, Any]]:
        name, _, part = split.partition("[:")
        return self.splits[name][: int(part.rstrip("]")) if part else None]


class DatasetNotFoundError(FileNotFoundError): ...


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """`datasets`, with the sets in `cached` (prepared here) and `served` (on the hub); an exception is raised."""
    made: Any = types.ModuleType("datasets")
    made.config = types.SimpleNamespace(HF_HUB_OFFLINE=False)
    made.logging = types.SimpleNamespace(
        get_verbosity=lambda: 30, set_verbosity=lambda level: None, set_verbosity_error=lambda: None
    )
    made.are_progress_bars_disabled = lambda: True
    made.disable_progress_bars = made.enable_progress_bars = lambda: None
    made.cached, made.served, made.asked = {}, {}, []

    def load(where: str, config: str | None) -> Builder:
        made.asked.append((where, config, made.config.HF_HUB_OFFLINE))
        found = (made.cached if made.config.HF_HUB_OFFLINE else made.served).get(where)
        if found is None:
            raise DatasetNotFoundError(f"Dataset '{where}' doesn't exist on the Hub or cannot be accessed.")
        if isinstance(found, Exception):
            raise found
        return Builder(found)

    made.load_dataset_builder = load
    monkeypatch.setitem(sys.modules, "datasets", made)
    monkeypatch.setattr(hub, "_reachable", lambda: True)
    monkeypatch.setattr(hub, "_downloaded", lambda address: None)
    return made


def refused(name: str) -> str:
    with pytest.raises(ConfigurationError) as caught:
        find(name)
    return str(caught.value)


def test_a_preset_knows_its_set(library: Any) -> None:
    library.served["openai/gsm8k"] = {"train": gsm8k(0, 6), "test": gsm8k(20, 3)}
    task = find("hub:gsm8k")
    assert isinstance(task, Data)
    assert library.asked[-1] == ("openai/gsm8k", "main", False)
    assert (task.size("train"), task.size("eval")) == (6, 3)
    assert task.scenario("eval", 0).answer == "21"
    assert task.remarks == (
        "hub:gsm8k trains on train (6 rows) and evaluates on test (3 rows); its columns are read by the preset gsm8k",
    )
    same = find("hub:openai/gsm8k:main?train=train[:2]")
    assert (same.size("train"), same.scenario("train", 0).answer) == (2, "1")


def test_what_is_prepared_here_is_not_asked_for(library: Any) -> None:
    library.cached["a/b"] = {"train": [{"prompt": f"p{n}", "answer": n} for n in range(9)]}
    task = find("hub:a/b")
    assert [asked[2] for asked in library.asked] == [True]
    assert library.config.HF_HUB_OFFLINE is False
    assert (task.size("train") or 0) + (task.size("eval") or 0) == 9
    assert task.size("eval")


def test_columns_by_settings(library: Any) -> None:
    library.cached["a/b"] = {"all": [{"ask": f"p{n}", "gold": n, "split": "x"} for n in range(9)]}
    task = find("hub:a/b?prompt=ask&answer=gold")
    assert task.scenario("train", 0).answer is not None
    assert "prompt=query names a column that no row has; its columns are ask, gold" in refused("hub:a/b?prompt=query")


@pytest.mark.parametrize(
    ("splits", "query", "expected"),
    [
        (("train", "validation", "test"), "", {"train": "train", "eval": "validation"}),
        (("train", "test"), "?eval=train", {"train": "train", "eval": "train"}),
        (("train_sft", "test_sft"), "?train=train_sft&eval=test_sft", {"train": "train_sft", "eval": "test_sft"}),
        (("test",), "", {"eval": "test"}),
        (("test",), "?train=test", {"train": "test"}),
    ],
)
def test_splits(splits: tuple[str, ...], query: str, expected: dict[str, str]) -> None:
    settings = dict(part.split("=") for part in query[1:].split("&") if part)
    wanted = {"train": settings.get("train"), "eval": settings.get("eval")}
    assert hub._splits("hub:a/b", splits, wanted, held_out=False) == expected
    only = expected.get("eval", expected.get("train"))
    assert hub._splits("hub:a/b", splits, wanted, held_out=True) == {"eval": only}


def test_a_set_without_rows_to_train_on_is_only_evaluated_on(library: Any) -> None:
    rows = [{"problem": f"p{n}", "answer": str(n), "solution": "s"} for n in range(5)]
    library.cached["math-ai/aime25"] = {"test": rows}
    library.cached["HuggingFaceH4/aime_2024"] = {"train": rows}
    assert find("hub:math-ai/aime25").size("eval") == 5
    with pytest.raises(ConfigurationError, match="has only rows to evaluate on"):
        find("hub:math-ai/aime25").scenario("train", 0)
    assert evaluated_on("sums", "hub:aime").size("eval") == 5


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (
            DatasetNotFoundError("Dataset 'a/b' doesn't exist on the Hub or cannot be accessed."),
            "the hub has no such set",
        ),
        (
            DatasetNotFoundError("Dataset 'a/b' is a gated dataset on the Hub. Visit the page to ask for access."),
            "the owner asks for consent; accept the terms on its page, log in (`hf auth login`)",
        ),
        (
            ValueError("Config name is missing.\nPlease pick one among the available configs: ['main', 'socratic']"),
            "it has several configurations: main, socratic; name one, as hub:a/b:main",
        ),
        (
            RuntimeError("Dataset scripts are no longer supported, but found b.py"),
            "brings code of its own, which is never",
        ),
        (OSError("disk\nfull"), "it cannot be read (disk full)"),
    ],
)
def test_a_set_that_cannot_be_had_is_refused_in_a_sentence(library: Any, error: Exception, words: str) -> None:
    library.served["a/b"] = error
    sentence = refused("hub:a/b")
    assert sentence.startswith("task hub:a/b: ")
    assert words in sentence
    assert "\n" not in sentence


def test_offline_is_said_at_once(library: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "_reachable", lambda: False)
    sentence = refused("hub:a/b")
    assert "a/b is in no cache of this machine, and the hub cannot be reached" in sentence
    assert "hf download --repo-type dataset a/b" in sentence
    assert [asked[2] for asked in library.asked] == [True]


def test_the_probe_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    def lookup(address: Any, timeout: float) -> Any:
        time.sleep(0.3)
        raise OSError

    monkeypatch.setattr(hub, "PROBE", 0.05)
    monkeypatch.setattr(hub.socket, "create_connection", lookup)
    started = time.monotonic()
    assert not hub._reachable()
    assert time.monotonic() - started < 0.3


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("hub:gsm8", "'gsm8' names no owner and is no preset; did you mean 'gsm8k'?"),
        ("hub:a/b/c", "is no data set; write hub:OWNER/NAME"),
        ("hub:a/b,hub:c/d", "to mix sets, make their rows in a file of yours"),
        ("hub:", "is no data set"),
    ],
)
def test_names_that_are_none(name: str, words: str) -> None:
    assert words in refused(name)


def test_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    assert "pip install 'hocket[hub]'" in refused("hub:a/b")


# ---------------------------------------------------------------- the library itself


@pytest.fixture
def caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A set as `hf download` leaves it in the cache of the hub, and an empty cache of `datasets`."""
    datasets = pytest.importorskip("datasets")
    from huggingface_hub import constants

    repository = tmp_path / "hub" / "datasets--openai--gsm8k"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text(COMMIT)
    folder = repository / "snapshots" / COMMIT
    for config, split, rows in (
        ("main", "train", gsm8k(0, 6)),
        ("main", "test", gsm8k(20, 3)),
        ("other", "x", gsm8k(0, 1)),
    ):
        (folder / config).mkdir(parents=True, exist_ok=True)
        (folder / config / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "README.md").write_text(CARD)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "prepared")
    monkeypatch.setattr(hub, "_reachable", lambda: False)
    return tmp_path


@pytest.mark.slow
@pytest.mark.global_rng
def test_a_set_in_the_cache_of_the_hub_is_read_offline(caches: Path) -> None:
    task = find("hub:gsm8k")
    assert (task.size("train"), task.size("eval"), task.scenario("eval", 0).answer) == (6, 3, "21")
    assert find("hub:openai/gsm8k:main?train=train[:50%]").size("train") == 3
    assert "it has several configurations: main, other; name one, as hub:openai/gsm8k:main" in refused(
        "hub:openai/gsm8k"
    )
    assert "it has no configuration 'third'" in refused("hub:openai/gsm8k:third")
    assert "names no split of the set; it has train, test" in refused("hub:gsm8k?eval=dev")
    assert "in no cache of this machine" in refused("hub:openai/none")


@pytest.mark.slow
@pytest.mark.global_rng
def test_a_set_that_the_library_has_prepared_is_read_offline(caches: Path) -> None:
    import datasets

    rows = datasets.Dataset.from_list([{"prompt": f"p{n}", "answer": n} for n in range(9)])
    folder = caches / "prepared" / "a___b" / "default" / "0.0.0" / COMMIT
    folder.mkdir(parents=True)
    rows.to_parquet(caches / "b.parquet")
    builder = datasets.load_dataset_builder("parquet", data_files={"train": str(caches / "b.parquet")})
    builder.download_and_prepare(str(folder))
    for file in folder.glob("parquet-*.arrow"):
        file.rename(folder / file.name.replace("parquet-", "b-"))
    info = json.loads((folder / "dataset_info.json").read_text())
    (folder / "dataset_info.json").write_text(json.dumps({**info, "builder_name": "parquet", "dataset_name": "b"}))
    task = find("hub:a/b")
    assert (task.size("train") or 0) + (task.size("eval") or 0) == 9
