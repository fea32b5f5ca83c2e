"""openpai: many teams share one GPU cluster as if each had its own."""
