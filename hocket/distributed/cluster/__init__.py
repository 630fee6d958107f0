"""A run on several processes or machines: learners that share a gradient, samplers that share a batch."""
