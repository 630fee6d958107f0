"""Refusals in the form in which OpenAI's clients expect them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hocket.core.errors import HocketError

_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}


class Refusal(Exception):
    """A request that is not served.

    Attributes:
        status: of the HTTP response. code: a word for programs. param: the part of the request that is wrong.
        headers: of the response.
    """

    def __init__(
        self, status: int, message: str, *, code: str | None = None, param: str | None = None, **headers: str
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.param = param
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}

    def body(self) -> dict[str, Any]:
        """The JSON document that says it."""
        kind = _TYPES.get(self.status, "invalid_request_error" if self.status < 500 else "server_error")
        return {"error": {"message": str(self), "type": kind, "param": self.param, "code": self.code}}


@contextmanager
def template_refusals() -> Iterator[None]:
    """Tells as a refusal what a chat template cannot show."""
    try:
        yield
    except HocketError as error:
        raise Refusal(400, str(error), code="invalid_messages", param="messages") from None
    except Exception as error:  # Templates are programs of others, which take much for granted.
        words = f"the chat template cannot show this conversation: {type(error).__name__}: {error}"
        raise Refusal(400, words, code="invalid_messages", param="messages") from None
