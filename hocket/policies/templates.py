"""What a run makes of a tokenizer's chat template: another one, variables that are set in it, and a date that stays.

All of it is written into the template itself, so a saved tokenizer shows conversations as they were shown in training.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from hocket.core.errors import ConfigurationError, nearest

_BEGIN, _END = "{#- set by hocket -#}", "{#- the template -#}"
_SET = re.compile(rf"\A(?:{re.escape(_BEGIN)}.*?{re.escape(_END)})+", re.DOTALL)
_DIRECTIVE = re.compile(r"(?<!\{)%[-_0^#]?[a-zA-Z]")
_GIVEN = frozenset(("messages", "tools", "documents", "add_generation_prompt", "raise_exception", "strftime_now"))
"""What a template is given anyway."""


@dataclass(frozen=True)
class TemplateSettings:
    """Attributes:
    given: text or file that replaces the tokenizer's own template.
    variables: names and values, as the template language writes them.
    day: what `strftime_now` is of, `YYYY-MM-DD`; None is today, each day anew.
    strict: whether a variable that the template does not read is refused.
    """

    given: str | None = None
    variables: tuple[tuple[str, str], ...] = ()
    day: str | None = None
    strict: bool = True

    @property
    def lenient(self) -> TemplateSettings:
        """The same for a model of another family: it may lack a variable."""
        return replace(self, strict=False)

    @staticmethod
    def of(given: str | None, variables: Mapping[str, Any], day: str | None) -> TemplateSettings:
        """Settings with the values of variables as they are."""
        written = tuple((name, literal(value)) for name, value in variables.items())
        return TemplateSettings(given, written, day)

    def written(self, own: str | Mapping[str, str] | None) -> Any:
        """A tokenizer's `own` template, or each of several, as the run uses it.

        Raises:
            ConfigurationError: for a file that is missing, or a variable that no template reads.
        """
        template = own if self.given is None else _read(self.given)
        if not template:
            return template
        sources = {"": template} if isinstance(template, str) else dict(template)
        read = frozenset[str]().union(*map(_variables, sources.values())) if self.variables else frozenset[str]()
        strange = next((name for name, _ in self.variables if name not in read), None)
        if strange is not None and self.strict:
            raise ConfigurationError(
                f"chat.{strange}: the chat template has no such variable{nearest(strange, sorted(read - _GIVEN))}"
            )
        changed = {name: _changed(source, self.variables, self.day) for name, source in sources.items()}
        return changed[""] if isinstance(template, str) else changed


def _changed(source: str, variables: tuple[tuple[str, str], ...], day: str | None) -> str:
    before = _SET.match(source)
    bare = source[before.end() :] if before else source
    read = _variables(source) if variables else ()
    lines = [f"{{%- set {name} = {value} -%}}" for name, value in variables if name in read]
    if day is not None and "strftime_now" in bare:
        lines.append(_dated(day, sorted(set(_DIRECTIVE.findall(bare + str(variables))))))
    # What is set later counts, so the settings of an earlier run stand first.
    return f"{source[: len(source) - len(bare)]}{_BEGIN}{''.join(lines)}{_END}{bare}" if lines else source


def _dated(day: str, directives: Sequence[str]) -> str:
    """A `strftime_now` that writes a day, whatever way a template comes to its format from directives in its text."""
    date = datetime.date.fromisoformat(day)
    known = literal({directive: date.strftime(directive) for directive in directives})
    return (
        "{%- macro strftime_now(format) -%}{%- set date = namespace(text=format | replace('%%', '\\0')) -%}"
        f"{{%- for directive, text in {known}.items() -%}}"
        "{%- set date.text = date.text | replace(directive, text) -%}{%- endfor -%}"
        "{{- date.text | replace('\\0', '%') -}}{%- endmacro -%}"
    )


@lru_cache(64)
def _variables(source: str) -> frozenset[str]:
    """The variables that a template reads and does not set."""
    from jinja2 import Environment, TemplateError, meta, nodes
    from jinja2.ext import Extension, loopcontrols
    from jinja2.parser import Parser

    class Generation(Extension):
        """The tag around what an assistant says, which `transformers` adds."""

        tags = {"generation"}  # noqa: RUF012

        def parse(self, parser: Parser) -> nodes.Node:
            line = next(parser.stream).lineno
            return nodes.Scope(parser.parse_statements(("name:endgeneration",), drop_needle=True), lineno=line)

    environment = Environment(extensions=[Generation, loopcontrols])
    try:
        return frozenset(meta.find_undeclared_variables(environment.parse(_SET.sub("", source))))
    except TemplateError as error:
        raise ConfigurationError(f"the chat template cannot be read: {error}") from error


def literal(value: Any) -> str:
    """A value as the template language writes it."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{literal(str(name))}: {literal(item)}" for name, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(literal, value)) + "]"
    return repr(value) if value is None or isinstance(value, (str, bool, int, float)) else repr(str(value))


def _read(source: str) -> str:
    if "{" in source:
        return source
    try:
        return Path(source).expanduser().read_text()
    except OSError as error:
        raise ConfigurationError(
            f"chat_template = {source!r}: there is no such file, and it is not a template"
        ) from error
