"""Worlds that are arrays, and what solves them step by step with every value exact: `hocket solve`."""
