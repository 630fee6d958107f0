"""Charts as pictures of their own."""

from __future__ import annotations

import re
from base64 import b64decode
from xml.etree import ElementTree

from hocket.apps.report.chart import Chart, ChartLine
from hocket.apps.report.picture import image, picture

LINES = [ChartLine("won & lost", [(0, 0.1), (1, 0.5), (2, 0.9)]), ChartLine("length", [(0, 1.0), (2, 0.0)])]


def test_a_picture_needs_no_page_around_it() -> None:
    tree = ElementTree.fromstring(picture(Chart("Reward < cost", LINES, unit="points")))
    texts = [text for element in tree.iter() for text in element.itertext()]
    assert {"Reward < cost", "won & lost", "  length", "  points"} <= set(texts)
    style = next(element.text or "" for element in tree.iter() if element.tag.endswith("style"))
    # Every class and colour that is drawn has its rule, for light and dark.
    for name in {name for element in tree.iter() for name in element.get("class", "").split()} - {"chart"}:
        assert f".{name}" in style, name
    for colour in set(re.findall(r"var\((--\w+)\)", style)):
        assert style.count(f"{colour}:") == 2, colour


def test_one_line_has_no_legend_and_no_points_no_picture() -> None:
    assert "length" not in picture(Chart("Reward", LINES[1:]))
    assert picture(Chart("Reward", [])) == ""
    assert image(Chart("Reward", [])) == ""


def test_an_image_holds_the_picture() -> None:
    chart = Chart('The "best"', LINES)
    match = re.fullmatch(
        r'<img src="data:image/svg\+xml;base64,([^"]+)" alt="The &quot;best&quot;" width="380">', image(chart)
    )
    assert match is not None
    assert b64decode(match[1]).decode() == picture(chart)
