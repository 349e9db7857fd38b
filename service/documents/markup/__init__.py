"""Formats that consist of XML: docx, pptx, odt and epub in a ZIP archive, XLIFF as one file."""
