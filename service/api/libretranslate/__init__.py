"""LibreTranslate's dialect: `/translate`, `/detect`, `/languages`, `/frontend/settings`."""
