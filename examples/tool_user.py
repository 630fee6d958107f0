"""A model learns to call a tool that it was not told of, because nothing else earns anything.

    hocket train examples/tool_user.yaml

The task asks for products that the small model cannot work out. A first phase shows it what a call looks like, in
one of ten demonstrations; the second phase lets it find out that calling is what pays.
"""

from hocket.recipes import GRPO, SFT

COLD_START = SFT.but(name="cold-start", **{"update.lr": 1e-3, "curriculum.prompts": 32})
PRACTICE = GRPO.but(name="practice", **{"update.lr": 3e-4})
