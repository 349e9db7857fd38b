"""The web layer: HTTP in front of the model package. `model/` never imports it."""
