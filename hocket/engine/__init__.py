"""Fast sampling for causal language models."""
