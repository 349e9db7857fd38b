"""Formats in which every character outside the texts is kept: txt, md, html, srt, vtt, po, json."""
