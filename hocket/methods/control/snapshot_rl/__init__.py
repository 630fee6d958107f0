"""Snapshot RL: episodes that begin where a teacher has been."""
