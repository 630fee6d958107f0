"""Past one process: the cluster and the swarm."""
