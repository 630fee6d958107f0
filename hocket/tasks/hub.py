"""Data sets of the Hugging Face hub as tasks, read by the library `datasets` from its caches or from the hub."""

from __future__ import annotations

import functools
import re
import socket
import threading
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from hocket.core.errors import ConfigurationError, nearest
from hocket.core.waits import waiting_for
from hocket.tasks.data import Data, Source, checked_settings, data_of
from hocket.tasks.examples import SPLIT_NAMES
from hocket.tasks.form import TaskForm
from hocket.tasks.presets import PRESETS, Preset, preset_of
from hocket.tasks.tables import Record, table_of

PROBE = 3.0
"""Seconds within which the hub must accept a connection; else the machine counts as offline."""

_EVALUATED = ("validation", "valid", "val", "dev", "test", "eval")
"""Names of splits to evaluate on, the first that a set has."""


def hub_task(name: str, settings: Mapping[str, str], held_out: bool = False) -> Data:
    """The task `hub:OWNER/NAME[:CONFIG]`, or `hub:PRESET` for the set that a preset is made for.

    `train` and `eval` name splits of the set, `train=train[:1000]` the first rows of one. Without them training is on
    `train`, and evaluation on the first of validation and test that there is, else on a share of the training rows. A
    set without a split to train on is only evaluated on.

    Raises:
        ConfigurationError: without `datasets`, for a set that cannot be had, splits that it lacks, and as `Data`.
    """
    address, config, preset = _parsed(name)
    options = checked_settings(name, settings, preset, train=str, eval=str)
    wanted = {key: options.pop(key, None) for key in ("train", "eval")}
    if preset is not None and options.get("preset") in (None, preset.name):
        wanted = {"train": wanted["train"] or preset.train, "eval": wanted["eval"] or preset.eval}
    builder = _builder(name, address, config)
    splits = _splits(name, list(builder.info.splits), wanted, held_out=held_out)
    records: list[Record] = []
    counts = []
    for split, expression in splits.items():
        rows = table_of(_rows(name, builder, expression), f"{name} {expression}")
        counts.append(f"{_VERBS[split]} {expression} ({len(rows)} rows)")
        stated = {"split": split} if len(splits) > 1 else {}
        records += [
            Record(len(records) + place, row.where, {**_unsplit(row), **stated}) for place, row in enumerate(rows)
        ]
    remark = f"{name} {' and '.join(counts)}{_read_by(preset, options)}"
    if "train" not in splits:
        options["eval_share"] = 1.0
    return data_of([Source(name, records)], name, options, [remark], preset)


_VERBS = {"train": "trains on", "eval": "evaluates on"}


def _parsed(name: str) -> tuple[str, str | None, Preset | None]:
    """The address of a set, its configuration, and the preset that it has by its name."""
    address, _, config = name.removeprefix("hub:").partition(":")
    if address in PRESETS:
        preset = PRESETS[address]
        return preset.addresses[0], config or preset.config, preset
    if not re.fullmatch(r"[\w.-]+(/[\w.-]+)?", address):
        hint = "; to mix sets, make their rows in a file of yours, FILE.py:rows" * ("," in address)
        raise ConfigurationError(
            f"task {name}: {address!r} is no data set; write hub:OWNER/NAME or hub:OWNER/NAME:CONFIG{hint}"
        )
    if "/" not in address and not config:
        raise ConfigurationError(f"task {name}: {address!r} names no owner and is no preset{nearest(address, PRESETS)}")
    return address, config or None, preset_of(address)


def _read_by(preset: Preset | None, options: Mapping[str, Any]) -> str:
    return (
        f"; its columns are read by the preset {preset.name}" if preset is not None and "preset" not in options else ""
    )


def _unsplit(record: Record) -> Mapping[str, Any]:
    """The cells without a column `split` of the set's own: the splits of the hub divide it."""
    return {column: cell for column, cell in record.cells.items() if column != "split"}


# ---------------------------------------------------------------- splits


def _splits(name: str, splits: Sequence[str], wanted: Mapping[str, str | None], *, held_out: bool) -> dict[str, str]:
    """What to read for `train` and for `eval`, where there is anything; for `eval` alone if the set is `held_out`."""
    for key, expression in wanted.items():
        if expression is not None and expression.partition("[")[0] not in splits:
            raise ConfigurationError(
                f"task {name}: {key}={expression} names no split of the set; it has {', '.join(splits)}"
            )
    train = wanted["train"] or ("train" if "train" in splits else None)
    evaluated = wanted["eval"]
    if evaluated is None:
        evaluated = next((split for split in _EVALUATED if split in splits and split != train), None)
    if train is None and len(splits) == 1 and splits[0] not in SPLIT_NAMES:
        train = splits[0]
    if held_out:
        evaluated, train = evaluated or train, None
    chosen = {"train": train, "eval": evaluated}
    if train is None and evaluated is None:
        raise ConfigurationError(
            f"task {name}: the set has the splits {', '.join(splits)}; say which to use (?train={splits[0]}&eval=...)"
        )
    return {split: expression for split, expression in chosen.items() if expression is not None}


def _rows(name: str, builder: Any, expression: str) -> Any:
    try:
        return builder.as_dataset(split=expression)
    except Exception as error:
        raise ConfigurationError(f"task {name}: the split {expression!r} cannot be read: {_words(error)}") from error


# ---------------------------------------------------------------- reading


def _builder(name: str, address: str, config: str | None) -> Any:
    """The set, prepared: from the cache of `datasets`, else from the hub, else from the cache of files of the hub."""
    datasets = _datasets()
    with _offline(datasets):
        prepared = _prepared(datasets, address, config)
    if prepared is not None:
        return prepared
    reachable = not datasets.config.HF_HUB_OFFLINE and _reachable()
    if reachable:
        with waiting_for(f"the hub for {address}"):
            return _loaded(name, datasets, address, config)
    folder = _downloaded(address)
    if folder is None:
        raise ConfigurationError(
            f"task {name}: {address} is in no cache of this machine, and the hub cannot be reached from it; on a "
            f"machine that can, run `hf download --repo-type dataset {address}`, and copy its cache here"
        )
    with _offline(datasets):
        return _loaded(name, datasets, str(folder), config)


def _datasets() -> Any:
    try:
        import datasets
    except ImportError:
        raise ConfigurationError("data sets of the hub need the package datasets: pip install 'hocket[hub]'") from None
    return datasets


@contextmanager
def _offline(datasets: Any) -> Iterator[None]:
    """Inside, `datasets` asks no server, and does not warn that it cannot."""
    before, level = datasets.config.HF_HUB_OFFLINE, datasets.logging.get_verbosity()
    datasets.config.HF_HUB_OFFLINE = True
    datasets.logging.set_verbosity_error()
    try:
        yield
    finally:
        datasets.config.HF_HUB_OFFLINE = before
        datasets.logging.set_verbosity(level)


def _prepared(datasets: Any, address: str, config: str | None) -> Any:
    """A set that `datasets` has prepared on this machine before; None without one."""
    try:
        builder = datasets.load_dataset_builder(address, config)
        builder.download_and_prepare()
    except Exception:  # Whatever it lacks, the hub and the files of the hub are looked at next.
        return None
    return builder


def _downloaded(address: str) -> Path | None:
    """The folder of a set's files in the cache of the hub; None without one."""
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(address, repo_type="dataset", local_files_only=True))
    except Exception:  # Its errors differ between versions; all mean that it is not there.
        return None


def _loaded(name: str, datasets: Any, where: str, config: str | None) -> Any:
    bars = datasets.are_progress_bars_disabled()
    if Path(where).is_dir():
        datasets.disable_progress_bars()
    try:
        builder = datasets.load_dataset_builder(where, config)
        builder.download_and_prepare()
    except Exception as error:
        raise ConfigurationError(f"task {name}: {_reason(error, name, config)}") from error
    finally:
        if not bars:
            datasets.enable_progress_bars()
    return builder


def _reason(error: Exception, name: str, config: str | None) -> str:
    """Why a set cannot be had, and what to do."""
    words = _words(error)
    base = f"hub:{name.removeprefix('hub:').partition(':')[0]}"
    names = re.search(r"available configs: ?\[(.*?)\]", words) or re.search(r"Available: ?\[(.*?)\]", words)
    if names is not None:
        listed = names[1].replace("'", "")
        first = listed.split(",")[0].strip()
        what = "it has several configurations" if config is None else f"it has no configuration {config!r}"
        return f"{what}: {listed}; name one, as {base}:{first}"
    if "gated" in words.lower() or "ask for access" in words.lower():
        return "the owner asks for consent; accept the terms on its page, log in (`hf auth login`), and run this again"
    if type(error).__name__ in ("DatasetNotFoundError", "RepositoryNotFoundError") or "doesn't exist" in words:
        return "the hub has no such set, or it is private; correct the name, or log in (`hf auth login`)"
    if "scripts are no longer supported" in words:
        return "the set brings code of its own, which is never run; look for a copy of it in parquet"
    return f"it cannot be read ({words}); correct the name, or load it in a file of yours (FILE.py:rows)"


def _words(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return text if len(text) <= 300 else f"{text[:297]}..."


def _reachable() -> bool:
    """Whether the hub, or the proxy before it, accepts a connection within `PROBE` seconds."""
    from huggingface_hub import constants

    endpoint = urlsplit(constants.ENDPOINT)
    proxy = urllib.request.getproxies().get(endpoint.scheme)
    if proxy and not urllib.request.proxy_bypass(endpoint.hostname or ""):
        endpoint = urlsplit(proxy if "//" in proxy else f"http://{proxy}")
    connections: list[bool] = []

    def connect() -> None:
        port = endpoint.port or (443 if endpoint.scheme == "https" else 80)
        try:
            socket.create_connection((endpoint.hostname or "", port), timeout=PROBE).close()
        except OSError:
            return
        connections.append(True)

    # In a thread, since looking up a name takes as long as the system's resolver likes.
    probe = threading.Thread(target=connect, daemon=True)
    probe.start()
    probe.join(PROBE)
    return bool(connections)


HUB = TaskForm(
    name="hub:NAME",
    description="a data set of the hub, e.g. hub:openai/gsm8k:main, or of a preset: hub:gsm8k",
    family="data",
    make=hub_task,
    held_out=functools.partial(hub_task, held_out=True),
)
