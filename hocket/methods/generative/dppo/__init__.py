"""DPPO on a point that has to go round an obstacle."""
