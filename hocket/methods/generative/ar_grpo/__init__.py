"""AR-GRPO: pictures as tokens, one after the other or scale by scale."""
