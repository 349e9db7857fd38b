"""Model families: which files, which config keys, which tensor names."""
