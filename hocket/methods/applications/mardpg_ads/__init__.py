"""mardpg-ads: two scenarios of one campaign, and the method that joins them."""

from __future__ import annotations

from hocket.core.rooms import lazy

__getattr__, __dir__ = lazy(__name__)
