"""The pages of the two analyses say what the checks find, and their examples run."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

from hocket.core.errors import ConfigurationError
from hocket.lab.claims.claim import Check, Finding
from hocket.lab.claims.pages import filled
from hocket.methods.group_relative.claims import group_relative_reinforce, grpo_success_amplification

DOCS = Path(__file__).parents[2] / "docs"
PAGES = {"group-relative-reinforce": group_relative_reinforce, "success-amplification": grpo_success_amplification}


@pytest.mark.parametrize("name", PAGES)
def test_its_words_are_those_of_the_module_and_every_check_has_its_line(name):
    text, module = (DOCS / f"{name}.md").read_text(), PAGES[name]
    assert text.startswith(module.PAGE.split("{figures}")[0])
    lines = text.splitlines()
    assert all(sum(check.claim[1:] in line for line in lines) == 1 for check in module.claim if not check.shipped)


@pytest.mark.parametrize("name", PAGES)
def test_its_exact_figures_are_the_checks_own(name):
    lines = (DOCS / f"{name}.md").read_text().splitlines()
    for check in PAGES[name].claim:
        if not check.slow:
            line = next(line for line in lines if check.claim[1:] in line)
            kinds = [part for part in check().saw.replace(":", " ").replace(";", " ").split() if "e-" not in part]
            assert all(part in line for part in kinds)


@pytest.mark.parametrize("name", PAGES)
def test_its_examples_run(name):
    assert doctest.testfile(str(DOCS / f"{name}.md"), module_relative=False).failed == 0


def test_a_page_is_not_written_around_a_failure():
    with pytest.raises(ConfigurationError, match="does not: a claim"):
        filled("{figures}", (Check("row", "a claim", lambda: Finding(False, "nothing")),))
