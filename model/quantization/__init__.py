"""Int8 schemes and the packing of int8 matrices."""
