"""What is captured from a pass: queries, attention maps, step-by-step traces."""
