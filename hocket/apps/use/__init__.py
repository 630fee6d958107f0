"""What was trained, in use: runs opened again, policies that act, answer and score, and files for other programs."""
