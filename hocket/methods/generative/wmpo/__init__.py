"""WMPO on a small world of pictures: a policy that learns in what a model imagines."""
