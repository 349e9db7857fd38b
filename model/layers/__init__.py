"""The sublayers of a Transformer: attention, feed-forward, SSRU, positions, residual."""
