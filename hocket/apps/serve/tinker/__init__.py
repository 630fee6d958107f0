"""Tinker's training API over engines of this process: the public client trains here unchanged."""
