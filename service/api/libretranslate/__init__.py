"""LibreTranslate's dialect: translation, detection, documents, suggestions and settings."""
