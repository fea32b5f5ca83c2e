"""HiveD: virtual clusters that guarantee topology. `docs/scheduler.md` shows how to drive it."""
