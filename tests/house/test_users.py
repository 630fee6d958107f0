"""A piece with one user stands beside it: the engine or two rows use what is public outside methods and zoo."""

from __future__ import annotations

from collections.abc import Mapping

from ratchet import complaints
from tiers import modules

from hocket.apps.report.usage import ENGINE, METHODS, PUBLIC, under, unused, usages


def broken() -> Mapping[str, int]:
    return {one.name: 1 for one in unused()}


RULES = {"users": broken}


def test_the_engine_or_two_rows_use_every_public_definition() -> None:
    """Move what one row uses to that row, and delete what nobody uses; `PUBLIC` is for what people compose."""
    problems = complaints("users", broken())
    assert not problems, problems


def test_what_is_there_for_people_has_fewer_users() -> None:
    """Else the entry is not needed; one for what there is no longer hides nothing."""
    few = [one.name for one in usages() if not one.enough]
    vain = {prefix for prefix in PUBLIC if not any(under(name, [prefix]) for name in few)}
    assert not vain, f"no longer needed in PUBLIC: {', '.join(sorted(vain))}"


def test_the_engine_begins_in_modules_that_exist() -> None:
    assert set(ENGINE) | {METHODS} <= set(modules())
