"""Thoughts cut at the first right answer, and relative length by hand."""

from __future__ import annotations

from hocket.methods.group_relative.lc_r1 import FirstMention, quoted_end


def test_first_mention():
    extract = FirstMention()
    assert extract("it is 7.", 7) == 7
    assert extract("17 and 70 and 7.5 and a7", "7") is None
    assert extract("-7 or 7", ["9", "7"]) is not None
    assert extract("anything", "") is None
    assert extract("", None) is None


def test_a_quote_is_found_with_its_spaces_levelled():
    assert quoted_end("so  it\nis 7. Then", "'it is 7.'") == 12
    assert quoted_end("so it is 7", "it is 8") is None
    assert quoted_end("so it is 7", " ") is None
