"""Reads model families: the files, config keys and tensor names of each family."""
