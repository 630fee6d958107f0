"""The methods: imitation of the demonstrations, then GRPO, which finds out that calling the tool pays."""

from hocket.recipes import GRPO, SFT

IMITATION = SFT.but(name="imitation", **{"update.lr": 3e-3, "curriculum.prompts": 16})
PRACTICE = GRPO.but(name="practice", **{"update.lr": 5e-4, "curriculum.prompts": 8, "rollout.samples": 8})
