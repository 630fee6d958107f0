"""Teams and what they act in: workflows, tools, environments, search."""
