"""Nodes with models of their own that learn from each other's answers; see `docs/swarm.md`."""
