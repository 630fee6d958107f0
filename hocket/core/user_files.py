"""What `FILE.py:NAME` names: a user's file is run as a module of its own, once per path."""

from __future__ import annotations

import hashlib
import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from hocket.core.errors import ConfigurationError, nearest


def load_object(reference: str, where: str = "") -> Any:
    """What `FILE.py:NAME` names. The file is run as a module of its own; relative paths are from the current folder."""
    file, _, name = reference.rpartition(":")
    if not file.endswith(".py"):
        raise ConfigurationError(f"{where or 'reference'} = {reference!r}: write FILE.py:NAME")
    module = load_file(Path(file), where)
    if not hasattr(module, name):
        public = [n for n in vars(module) if not n.startswith("_")]
        raise ConfigurationError(f"{where or file}: {file} has no {name!r}{nearest(name, public)}")
    return getattr(module, name)


@contextmanager
def importing_from(folder: Path) -> Iterator[None]:
    """Lets the modules of a folder be imported, after all others."""
    place = str(folder)
    if place in sys.path:
        yield
        return
    sys.path.append(place)
    try:
        yield
    finally:
        sys.path.remove(place)


class _AsWritten(SourceFileLoader):
    """Runs a file as it is written: what is compiled in a `__pycache__` beside it need not come from it."""

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        code: CodeType = self.source_to_code(self.get_data(path), path)
        return code


def load_file(path: Path, where: str = "") -> ModuleType:
    """Runs a user's file as a module, once per path. It may import modules of its folder."""
    resolved = path.resolve()
    name = f"hocket_user_{hashlib.blake2b(str(resolved).encode(), digest_size=8).hexdigest()}"
    if name in sys.modules:
        return sys.modules[name]
    if not resolved.is_file():
        raise ConfigurationError(f"{where or 'file'}: there is no file {path}")
    spec = importlib.util.spec_from_file_location(name, resolved, loader=_AsWritten(name, str(resolved)))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    module.__hocket_file__ = str(path)  # type: ignore[attr-defined]
    sys.modules[name] = module
    try:
        with importing_from(resolved.parent):
            spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise ConfigurationError(f"{path} cannot be run: {type(error).__name__}: {error}") from error
    return module
