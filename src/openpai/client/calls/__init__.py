"""The operations of the platform, a file per noun, each method written once for both clients."""
