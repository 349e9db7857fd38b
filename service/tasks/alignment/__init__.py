"""The alignment of words by cross-attention."""
