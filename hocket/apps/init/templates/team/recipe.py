"""The method: GRPO; both roles are one policy. `--cast separate` gives each its own."""

from hocket.recipes import GRPO

RECIPE = GRPO.but(name="mine", **{"credit.scale": None})
