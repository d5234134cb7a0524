"""Result folders as frames, series and settings."""
