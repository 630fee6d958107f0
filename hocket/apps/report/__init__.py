"""What people look at: diagnoses, the page of a run and comparisons of runs."""
