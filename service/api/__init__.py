"""Answers HTTP requests. Each client protocol (dialect) has its own file or folder.

The other files and folders hold code that all protocols share.
"""
