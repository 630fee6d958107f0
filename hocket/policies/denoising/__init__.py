"""Samplers that decide by denoising: networks, noise laws, and the policy that learns from recorded steps."""
