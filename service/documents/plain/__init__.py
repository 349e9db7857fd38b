"""Formats whose characters are kept as they are around the texts: txt, md, html, srt, po, json."""
