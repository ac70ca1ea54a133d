"""Users' data: federated arrays, the built-in glyphs, splits by user."""
