"""The routes of version 3 of Azure Translator."""
