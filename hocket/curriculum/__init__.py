"""What is asked, and how often."""

from hocket.curriculum.budget import ShrinkingBudget
from hocket.curriculum.failures import ByFailure
from hocket.curriculum.families import Families
from hocket.curriculum.formats import FormatStages
from hocket.curriculum.invented import Invented
from hocket.curriculum.shuffled import Shuffled
from hocket.curriculum.variable import Chosen, variable

__all__ = [
    "ByFailure",
    "Chosen",
    "Families",
    "FormatStages",
    "Invented",
    "ShrinkingBudget",
    "Shuffled",
    "variable",
]
