"""Other people's runs: what code a configuration names, who wrote it, and whether it may run here.

A run's configuration may name files, modules and commands. What this user wrote on this machine is signed with a key in
the user's cache, together with the digests of the files that it names; anything else needs `--trust`. A configuration
that names no code needs neither. See docs/sharing.md.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import hashlib
import hmac
import json
import os
import re
import secrets
import shlex
import site
import stat
import sys
import sysconfig
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.machinery import BuiltinImporter, FrozenImporter, PathFinder
from pathlib import Path
from typing import Any, Literal
from urllib.parse import unquote

from hocket.agents.environments.pettingzoo import of_pettingzoo
from hocket.core.aliases import present_name
from hocket.core.cache import cache_folder
from hocket.core.components import ROOMS, load_named
from hocket.core.discovery import hyphenated
from hocket.core.errors import ConfigurationError
from hocket.core.names import RECIPES, TASKS, WORKFLOWS
from hocket.core.rooms import public
from hocket.stages import Stage
from hocket.train.config import Pairs, read_pairs
from hocket.train.disk import write_atomic

SIGNATURE = "signature.json"
"""Beside the configuration: the digests of the files that it names, and the signature over all."""

SHOWN = 6
"""So many of the things that would run are listed in a sentence."""

Kind = Literal["file", "module", "command", "address"]


@dataclass(frozen=True)
class NamedCode:
    """Code that a configuration names: the dotted key `where`, the `text` there, and what `kind` of thing it is."""

    where: str
    text: str
    kind: Kind

    def __str__(self) -> str:
        return f"{self.where} = {self.text}"


# ---------------------------------------------------------------- what a configuration names

RECIPE = "hocket.recipe.Recipe"

DESCRIPTIVE = frozenset({"title", "source", "family", "catalogue_ids", "axes", "formula", "conventions", "note"})
"""What a recipe says of itself is text that nobody reads a name from."""

COMPONENTS = frozenset({*ROOMS, "methods", "agents.search", "lab.exact"}) - {"train"}
"""Rooms whose classes anybody's configuration may name: none starts a program of somebody else's choosing."""

SETTINGS = frozenset({"hocket.train.settings", "hocket.train.model_reward", "hocket.train.scorer_refits"})
"""Modules of `hocket.train` whose classes it may name."""

_FILE = re.compile(r"\.pyw?(?![\w.])", re.IGNORECASE)
_COMMAND = re.compile(r"(?<![\w-])(outside|mcp|exec):", re.IGNORECASE)
_ADDRESS = re.compile(r"[a-z][a-z0-9+.]*://|(?<![\w-])openenv:", re.IGNORECASE)
_DOTTED = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)+")
_PARTS = re.compile(r"[?&=,+|;\s]+")


def named_code(pairs: Iterable[tuple[str, Any]]) -> tuple[NamedCode, ...]:
    """All code that settings name, wherever it stands in them. What may be code counts as code.

    Raises:
        ConfigurationError: for a value that holds itself.
    """
    names = (name for key, value in pairs for name in _walked(value, str(key), frozenset()))
    return tuple(dict.fromkeys(names))


def _walked(value: Any, where: str, above: frozenset[int], *, described: bool = False) -> Iterator[NamedCode]:
    last = where.rpartition(".")[2]
    described = described and not (isinstance(value, Mapping) and "type" in value)  # A component is built all the same.
    if value is not None and (last == "python" or where.endswith("engine.folder")):
        yield NamedCode(where, str(value), "command")  # An interpreter, and where weights are written for a server.
    elif value is not None and last in ("endpoint", "url", "key_variable"):
        yield NamedCode(where, str(value), "address")
    elif isinstance(value, str) and not described and (kind := _kind_of(value)) is not None:
        yield NamedCode(where, value, kind)
    if isinstance(value, (str, bytes)) or not isinstance(value, Collection):
        return
    if id(value) in above:
        raise ConfigurationError(f"{where} holds itself; write it out instead of with a YAML alias")
    is_recipe = isinstance(value, Mapping) and "objective" in value and value.get("type", RECIPE) == RECIPE
    for key, item in value.items() if isinstance(value, Mapping) else _keyed(value):
        inner = f"{where}.{key}"
        if isinstance(value, Mapping) and key == "type":
            if not _is_own(str(item), "type"):
                yield NamedCode(inner, str(item), "file" if _FILE.search(str(item)) else "module")
        else:
            text = described or (is_recipe and key in DESCRIPTIVE)
            yield from _walked(item, inner, above | {id(value)}, described=text)


def _keyed(value: Collection[Any]) -> Iterable[tuple[Any, Any]]:
    """The members of a list with their places; the second of `[engine.python, VALUE]`, a setting, with its key."""
    members = list(value)
    is_setting = len(members) == 2 and isinstance(members[0], str) and "." in members[0]
    return enumerate(members) if not is_setting else [(0, members[0]), (members[0], members[1])]


def _kind_of(text: str) -> Kind | None:
    """What kind of code a text names; None for none."""
    text = _decoded(text)
    if _FILE.search(text):
        return "file"
    if _COMMAND.search(text):
        return "command"
    if _ADDRESS.search(text):
        return "address"
    return "module" if any(map(_is_module, _pieces(text))) else None


def _decoded(text: str) -> str:
    """Settings inside names are percent-encoded, perhaps within each other."""
    while (decoded := unquote(text)) != text:
        text = decoded
    return text


def _pieces(text: str) -> Iterator[str]:
    """The parts of a name that may be names: `lessons:gym:CartPole-v1?x=y` also is `gym:CartPole-v1`, `y`, ..."""
    for part in _PARTS.split(text):
        words = part.split(":")
        yield from (":".join(words[place:]) for place in range(len(words)))


def _is_module(piece: str) -> bool:
    scheme, _, rest = piece.partition(":")
    if scheme in ("gym", "gymnasium"):
        return ":" in rest  # `gym:MODULE:NAME` imports the module.
    if scheme == "pettingzoo":
        return not of_pettingzoo(rest)
    if _DOTTED.fullmatch(piece):
        first = piece.partition(".")[0]
        return not _is_own(piece, "function") if first == "hocket" else first == "__main__" or _spec(first) is not None
    return hyphenated(piece) in _of_packages()


@functools.cache
def _of_packages() -> Mapping[str, str]:
    """What installed packages declare: modules by name, which is spelled with hyphens."""
    registries = (TASKS, WORKFLOWS, RECIPES)
    return {
        hyphenated(name): declared.module
        for each in registries
        for name, declared in each.declared.items()
        if name not in each.own
    }


def _is_own(name: str, kind: Literal["type", "function"]) -> bool:
    """Whether a dotted name is one of the library's own that anybody may name."""
    if not _DOTTED.fullmatch(name):
        return False
    path, _, last = present_name(name).rpartition(".")
    inside = path.removeprefix("hocket.") + "."
    rooms = (*COMPONENTS, "tasks", "train", "zoo")
    room = next((name for name in rooms if inside.startswith(f"{name}.")), "")
    if not path.startswith("hocket.") or not room:
        return False
    # `hocket.types` offers what the core defines.
    held = {**public("hocket.core"), **public(path)} if path == "hocket.types" else public(path)
    module = held.get(last)
    if module is None or "claims" in path.split("."):  # Not defined there: what a module imports is not its own.
        return False
    if room == "train":
        return module in SETTINGS
    if room in ("tasks", "zoo") or (room in ("rewards", "methods") and kind == "function"):
        # A reward, which may stand beside its task; functions could be given any text.
        target = load_named(name)
        return isinstance(target, type) and issubclass(target, Stage)
    if kind == "function":
        return False
    return room in COMPONENTS and module != "hocket.agents.tools.mcp"


def _spec(module: str) -> Any:
    """Where a top-level module would come from; nothing is imported."""
    for finder in (BuiltinImporter, FrozenImporter, PathFinder):
        with contextlib.suppress(ImportError, ValueError, AttributeError):
            if (spec := finder.find_spec(module)) is not None:
                return spec
    return None


# ---------------------------------------------------------------- the files behind the names


def _files(named: Sequence[NamedCode]) -> dict[str, Path]:
    """The files behind what is named, and those of the user's own modules that these import.

    A file that is named goes by its name, a module's by `module NAME` or `module NAME: PATH`.
    """
    files: dict[str, Path] = {}
    for item in named:
        text = _decoded(item.text)
        if item.kind == "module":
            names = [_of_packages().get(hyphenated(text), ""), *(match[0] for match in _DOTTED.finditer(text))]
            names += text.split(":")[1:-1]
            for name in filter(None, names):
                _module(name.partition(".")[0], files)
        else:
            for file in _files_in(text) if item.kind == "file" else filter(os.path.isfile, _words(text)):
                _follow(file, Path(file), files)
    return files


def _files_in(text: str) -> list[str]:
    """The files that a text names: each ends where `.py` does, and begins at the start or after something else."""
    ends = [text[: match.end()] for match in _FILE.finditer(text)]
    starts = [end[place:] for end in ends for place in (0, *(match.end() for match in re.finditer(r"[:?&=,+\s]", end)))]
    return [start for start in dict.fromkeys(starts) if start and Path(start).is_file()]


def _words(text: str) -> list[str]:
    match = _COMMAND.search(text)
    command = text[match.end() :] if match else text
    try:
        return shlex.split(command)
    except ValueError:
        return command.split()


def _follow(label: str, file: Path, files: dict[str, Path]) -> None:
    """Notes a file and, where it is Python, what of the user's own it imports."""
    if label in files:
        return
    files[label] = file.resolve()
    if file.suffix != ".py":
        return
    try:
        nodes = list(ast.walk(ast.parse(file.read_bytes())))
    except (SyntaxError, ValueError, OSError, RecursionError):
        return  # It will not run either.
    imported = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    imported += [node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module and not node.level]
    for name in imported:
        _module(name.partition(".")[0], files)


def _module(name: str, files: dict[str, Path]) -> None:
    """Notes a module that is not installed; of a package all its sources."""
    spec = None if name == "hocket" else _spec(name)
    if spec is None:
        return
    folders = [Path(place) for place in spec.submodule_search_locations or ()]
    origin = [Path(spec.origin)] if spec.origin and spec.has_location else []
    if any(_installed(place) for place in origin or folders) or not (origin or folders):
        return
    for folder in folders:
        for file in sorted(folder.rglob("*.py")):
            _follow(f"module {name}: {file.relative_to(folder)}", file, files)
    for file in () if folders else origin:
        _follow(f"module {name}", file, files)


@functools.cache
def _installed_in() -> tuple[Path, ...]:
    paths = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    # Another environment's packages may be on the path as well.
    others = [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]
    return tuple(Path(path).resolve() for path in (*paths, *site.getsitepackages(), *others))


def _installed(place: Path) -> bool:
    """Whether a module is Python's own or was installed: who can change these needs no run folder."""
    return any(place.resolve().is_relative_to(folder) for folder in _installed_in())


# ---------------------------------------------------------------- the key


class _NoKey(Exception):
    """Why there is no key, in a few words."""


def _key(*, make: bool) -> bytes:
    """The secret of this user on this machine, which `make` makes where there is none yet."""
    try:
        path = cache_folder("trust") / "key"
        if make and not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            _place(path, secrets.token_bytes(32))
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
            status, content = os.fstat(file.fileno()), file.read(64)
    except (OSError, RuntimeError) as error:
        if isinstance(error, FileNotFoundError) and not make:
            raise _NoKey("this user has no key on this machine yet") from None
        raise _NoKey(f"the key cannot be kept in the cache: {getattr(error, 'strerror', None) or error}") from None
    if status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) & 0o077 or len(content) != 32:
        raise _NoKey(f"{path} is a key that other users can read; remove it, and a new one is made")
    return content


def _place(path: Path, data: bytes) -> None:
    """A file that appears whole, for this user alone; of several processes the first one's stays."""
    hidden = path.with_name(f".{path.name}.{os.getpid()}-{time.monotonic_ns()}")
    with os.fdopen(os.open(hidden, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(data)
    try:
        os.link(hidden, path)
    except FileExistsError:
        pass
    finally:
        hidden.unlink()


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _mac(key: bytes, name: str, content: bytes, details: Mapping[str, Any]) -> str:
    """Binds a configuration, by the name of its file, to what its signature tells beside it."""
    digest = hashlib.sha256(content).hexdigest()
    what = {"name": name, "content": digest, "cwd": details["cwd"], "files": details["files"]}
    return hmac.new(key, b"hocket run 1\n" + json.dumps(what, sort_keys=True).encode(), hashlib.sha256).hexdigest()


# ---------------------------------------------------------------- signing and looking


def sign(file: Path, pairs: Pairs) -> str | None:
    """Signs the settings that were just written into `file`, with the files that they name.

    Nothing is written where it names no code. Returns a sentence when it names some and could not be signed.
    """
    place, named = file.parent / SIGNATURE, named_code(pairs)
    try:
        if not named:
            place.unlink(missing_ok=True)
            return None
        files = {label: {"path": str(path), "sha256": _digest(path)} for label, path in _files(named).items()}
        details = {"cwd": str(Path.cwd()), "files": files}
        signature = _mac(_key(make=True), file.name, file.read_bytes(), details)
        write_atomic(place, json.dumps({**details, "signature": signature}, indent=2) + "\n")
    except (_NoKey, OSError) as error:
        return f"the code that {file} names is not signed ({error}), so later commands on it will ask for --trust"
    return None


def check(file: Path, pairs: Pairs, *, trust: bool = False) -> None:
    """Whether the code that settings name may run: this user wrote them here, or `trust` says so.

    Args:
        file: where they stand.

    Raises:
        ConfigurationError: when it may not, listing what would run.
    """
    if trust or not (named := named_code(pairs)):
        return
    reason = _distrust(file, named)
    if reason is None:
        return
    listed = [str(item) if len(str(item)) <= 160 else f"{str(item)[:160]}..." for item in named]
    more = f"; and {len(listed) - SHOWN} more" if len(listed) > SHOWN else ""
    raise ConfigurationError(
        f"{file} names code that would run here ({'; '.join(map(repr, listed[:SHOWN]))}{more}), but {reason}. Read it, "
        "and if you trust it, add --trust (in Python trust=True)"
    )


def _distrust(file: Path, named: Sequence[NamedCode]) -> str | None:
    """Why a configuration is not known to be this user's, or its files not those that it was written with."""
    place, folder = file.parent / SIGNATURE, file.parent.resolve()
    try:
        record = json.loads(place.read_bytes())
        expected = _mac(_key(make=False), file.name, file.read_bytes(), record)
        if not hmac.compare_digest(expected, str(record["signature"])):
            return "its signature is not yours from this machine, or it was changed since"
    except FileNotFoundError:
        return "it has no signature of yours (others wrote it, or you did so before runs were signed)"
    except _NoKey as error:
        return f"its signature cannot be checked ({error})"
    except (OSError, ValueError, KeyError, TypeError):
        return f"{place} cannot be read"
    recorded: Mapping[str, Mapping[str, str]] = record["files"]
    if any(item.kind == "command" for item in named) and record["cwd"] != str(Path.cwd()):
        return f"its commands are those of the folder {record['cwd']}, where it was made"
    files = _files(named)

    def stays(label: str, path: Path) -> bool:
        return label in recorded and str(path) == recorded[label]["path"] and not path.is_relative_to(folder)

    homes = [path.parent for label, path in files.items() if stays(label, path) and not label.startswith("module ")]
    for label, path in files.items():
        near = any(path.is_relative_to(home) for home in homes) and not path.is_relative_to(folder)
        if stays(label, path) or (label.startswith("module ") and near):
            continue
        if label.startswith("module ") or label not in recorded or _digest(path) != recorded[label]["sha256"]:
            return f"{path} has changed since the run was made"
    return None


def run_pairs(run: Path, *, trust: bool = False) -> Pairs:
    """The settings of a run as dotted pairs, if their code may run, see `check`.

    Raises:
        ConfigurationError: as `read_pairs` and `check`, and for a file that is no whole configuration of a run.
    """
    pairs = read_pairs(run / "config.yaml")
    if "task" not in dict(pairs):
        raise ConfigurationError(f"{run / 'config.yaml'} names no task, so it is incomplete; put back a copy")
    check(run / "config.yaml", pairs, trust=trust)
    return pairs


def file_pairs(file: Path, *, trust: bool = False) -> Pairs:
    """The settings of a YAML file; the configuration of a run is checked as `run_pairs` does.

    Raises:
        ConfigurationError: as `read_pairs` and `run_pairs`.
    """
    traces = (file.parent / "metrics.jsonl", file.parent / "checkpoints")
    is_run = file.name == "config.yaml" and any(path.exists() for path in traces)
    return run_pairs(file.parent, trust=trust) if is_run else read_pairs(file)
