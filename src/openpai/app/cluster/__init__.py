"""`pai cluster`: installs, upgrades, backs up, restores and removes the platform in a Kubernetes cluster."""
