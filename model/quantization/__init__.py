"""Int8 schemes and the packing of their matrices."""
