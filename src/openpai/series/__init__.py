"""Values over time, as pure code: labels, metrics, compressed blocks, tiers, and the points of a chart."""
