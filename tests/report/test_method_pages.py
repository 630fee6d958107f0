"""Pages about methods: generated docs stand as committed, and the microscope's page holds what was computed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hocket.apps.report.cards import card, card_of, cards
from hocket.apps.report.catalogue import catalogue, catalogue_page
from hocket.apps.report.known_flags import known_flags_page
from hocket.apps.report.map import map_page
from hocket.apps.report.method_docs import equivalences_page, primitives_page, recipes_page, theorems_page
from hocket.apps.report.methods import differences, relations
from hocket.apps.report.microscope import html
from hocket.apps.report.mutants import mutants_page
from hocket.core.keys import Key
from hocket.lab.documents import random_document
from hocket.lab.microscope import inspect
from hocket.recipes import all_recipes, find

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize(
    ("name", "page"),
    [
        ("recipes.md", recipes_page),
        ("catalogue.md", catalogue_page),
        ("primitives.md", primitives_page),
        ("equivalences.md", equivalences_page),
        ("theorems.md", theorems_page),
        ("mutation.md", mutants_page),
        ("known-flags.md", known_flags_page),
        ("map.md", map_page),
    ],
)
def test_the_docs_say_what_the_code_says(name, page):
    assert (DOCS / name).read_text() == page(), "run: hocket recipes --docs docs"


def test_differences_name_settings_and_replaced_stages():
    found = {path: (left, right) for path, left, right in differences(card("grpo"), card("dr-grpo"))}
    assert found["credit.scale"] == ("std", None)
    assert found["objective.aggregate"] == ("sequence-mean", "constant-length")
    assert "objective" in {path for path, _, _ in differences(card("grpo"), card("cispo"))}
    assert differences(card("grpo"), card("grpo")) == []


def test_relations_between_recipes():
    assert relations(find("grpo"), find("grpo")) == {"on-policy": "equal", "off-policy": "equal"}
    found = relations(find("rloo"), find("dr-grpo"))
    assert found["on-policy"].startswith("proportional")
    assert found["off-policy"] == "different"


def test_the_page_holds_every_number_and_no_markup_of_its_input():
    document = random_document(Key.of(0))
    document["trajectories"][0]["info"] = {"pieces": ["</script><b>"] * len(document["trajectories"][0]["logp"])}
    found = [inspect(find("grpo"), document), {"recipe": "broken", "error": "it needs <value>"}]
    page = html(found, document, "A & B")
    assert "</script><b>" not in page
    assert "A &amp; B" in page
    data = json.loads(page.split('id="data">')[1].split("</script>")[0])
    assert [row["under"][0]["gradient"] for row in data["rows"]] == found[0]["gradient"]
    assert all(row["under"][1] is None for row in data["rows"])


def test_kept_cards_are_what_the_recipes_say():
    assert {name: card_of(find(name)) for name in cards()} == cards(), "run: hocket recipes --docs docs"


def test_every_row_is_listed_once_and_every_recipe_belongs_to_one_that_is() -> None:
    rows = catalogue()
    assert len({row.id for row in rows}) == len(rows)
    by_id = {row.id: row for row in rows}
    for recipe in all_recipes().values():
        for name in recipe.catalogue_ids:
            assert recipe.name in by_id[name].where
            assert by_id[name].state != "open"
    assert all(row.note for row in rows if row.state == "partial")
    assert all(not row.where for row in rows if row.state == "open")
