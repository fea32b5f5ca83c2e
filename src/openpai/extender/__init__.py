"""HiveD's scheduler extender: decides for kube-scheduler where other people's pods run."""
