"""A run that a program drives: progress in terminals and notebooks, callbacks, and ends in order."""
