"""Applications: worlds of use, and what learners are worth in them beside an oracle or an honest baseline."""
