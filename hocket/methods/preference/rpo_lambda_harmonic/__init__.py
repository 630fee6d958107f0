"""RPO: a sampler learns one subject from a few pictures, with the lambda-harmonic reward."""
