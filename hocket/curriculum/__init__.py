"""What is asked, and how often."""

from hocket.curriculum.shuffled import Shuffled

__all__ = ["Shuffled"]
