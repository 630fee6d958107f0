"""The multi-objective decision transformer: actions, states and returns predicted by one sequence model."""
