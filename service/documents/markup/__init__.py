"""Formats in XML, alone or in a ZIP archive: docx, pptx, odt, epub and XLIFF."""
