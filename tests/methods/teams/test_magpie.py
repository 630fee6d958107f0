"""What talks about days earn and leak."""

from __future__ import annotations

from hocket.zoo.calendars import Calendar, Calendars, Card

CARD = Card((("secret", "free", "secret", "free"), ("secret", "secret", "busy", "free")))


def test_a_leak_costs_its_agent_alone_and_once_and_agreement_pays_both() -> None:
    talk = Calendar(Calendars(cost=2.0), CARD)
    lines = "I am busy Mon and Tue.", "Not Wed. Not Tue. How about Thu?", "Not Mon. Fine."
    paid = [talk.act({talk.acting[0]: line}) for line in lines]
    assert paid == [{"ann": -1.0, "bob": 0.0}, {"ann": 0.0, "bob": -1.0}, {"ann": 1.0, "bob": 1.0}]
    assert talk.talk.leak == 0.5


def test_agreement_on_a_day_that_does_not_suit_pays_nobody() -> None:
    talk = Calendar(Calendars(), CARD)
    for who, line in (("ann", "How about Tue?"), ("bob", "Fine.")):
        assert set(talk.act({who: line}).values()) == {0.0}
    assert not talk.acting
