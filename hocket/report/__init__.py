"""What people look at: intervals, diagnoses, the page of a run and comparisons of runs."""
