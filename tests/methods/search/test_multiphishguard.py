"""The mails of MultiPhishGuard, and how its agents' words are read."""

from __future__ import annotations

from statistics import fmean

import pytest

from hocket.methods.search.claims.multiphishguard import INBOX, SAID, TASK, alike, mail, played
from hocket.methods.search.multiphishguard.method import (
    EXPLANATION,
    REPORTS,
    WEIGHTS,
    MailGuard,
    read_report,
    read_variant,
    read_weights,
)
from hocket.methods.search.multiphishguard.task import PARTS, PHISHING, SAFE, SIGNS
from hocket.testing import Part


def test_mails_are_right_as_often_as_is_counted() -> None:
    mails = [TASK.scenario("train", number) for number in range(3000)]
    assert INBOX.best > INBOX.accuracy(alike) + 0.05
    for rule in (INBOX.decision, alike):
        said = [rule(one.metadata["kind"], [SIGNS[w] for w in one.metadata["parts"].values()]) for one in mails]
        drawn = fmean(float(a == one.answer) for a, one in zip(said, mails, strict=True))
        rate = INBOX.accuracy(rule)
        assert abs(drawn - rate) < 3 * (rate * (1 - rate) / len(mails)) ** 0.5


def test_weights_that_cannot_be_read_count_nobody() -> None:
    guard = MailGuard(attacked=0.0)
    for said in ("much", "9 and 2", "0 0 0"):
        one = played(guard, mail(), **SAID, weigher=said)
        assert list(WEIGHTS.get(one).values()) == [0.0] * 3
        assert one.info["answer"] == f"<answer>{SAFE}</answer>"
    one = played(MailGuard(attacked=0.0, learnt=False), mail(), **SAID)
    assert list(WEIGHTS.get(one).values()) == pytest.approx([1 / 3] * 3)
    assert one.info["answer"] == f"<answer>{PHISHING}</answer>"


def test_a_silent_reader_has_no_vote() -> None:
    silent = played(MailGuard(attacked=0.0), mail(), **{**SAID, "link": "who knows"}, weigher="1 9 1")
    assert REPORTS.get(silent)["link"] is None
    assert silent.info["answer"] == f"<answer>{SAFE}</answer>"
    assert "text phishing 6, link -, sender safe 9" in str(silent.turns[-1].prompt[-1]["content"])


def test_reports_weights_and_variants_are_read() -> None:
    reports = {
        "phishing 10": (PHISHING, 10), "Safe, 7 of 10": (SAFE, 7), "surely phishing": None, "unsafe 9": None,
        "safe 12": None, "": None, "safe\n0": (SAFE, 0),
    }  # fmt: skip
    weights = {
        "2 9 4": (2, 9, 4),
        "text 1, link 0, sender 3, 9": (1, 0, 3),
        "29": (0, 0, 0),
        "000": (0, 0, 0),
        "937": (9, 3, 7),
    }
    variants = {
        "link: a b ": ("link", "a b"), "- text: x\nlink: y": ("text", "x"), "header: z": None, "link:": None,
        "the link: y": None,
    }  # fmt: skip
    assert {text: read_report(text) for text in reports} == reports
    assert {text: read_weights(text, 3) for text in weights} == weights
    assert {text: read_variant(text, list(PARTS)) for text in variants} == variants


def test_the_explainer_reads_mail_verdict_and_reports() -> None:
    explainer = Part("Its link is odd.")
    silent = {**SAID, "sender": "hm"}
    one = played(MailGuard(attacked=0.0, explain=True), mail(), **silent, weigher="1 9 1", explainer=explainer)
    told = [f"This mail is {PHISHING}. Say why in plain words.", "text: please confirm (phishing 6)"]
    explainer.assert_asked("\n".join([*told, "link: x7q.ru/win (phishing 9)", "sender: ann@firm.com (nothing to say)"]))
    assert EXPLANATION.get(one) == "Its link is odd."
