"""A plain function as a tool."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from hocket.core.errors import ConfigurationError


@dataclass(frozen=True)
class FunctionTool:
    """A function, sync or async, that agents may call by its name; what it returns is answered as text.

    Its schema is read from its signature and its docstring, which describes each argument under `Args:`. An exception
    is answered as `error: ...`.

    Raises:
        ConfigurationError: for a function without types or without such a docstring.
    """

    function: Callable[..., Any]

    def __post_init__(self) -> None:
        _ = self.schema

    @property
    def name(self) -> str:
        return self.function.__name__

    @cached_property
    def schema(self) -> Mapping[str, Any]:
        from transformers.utils import get_json_schema

        try:
            return dict(get_json_schema(self.function))
        except Exception as error:
            words = " ".join(str(error).split())
            raise ConfigurationError(
                f"tool {self.name}: {words}; give every argument a type, and a line under Args: in the docstring"
            ) from None

    async def __call__(self, arguments: Mapping[str, Any]) -> str:
        try:
            answer = self.function(**arguments)
            return str(await answer if inspect.isawaitable(answer) else answer)
        except Exception as error:
            return f"error: {type(error).__name__}: {error}"
