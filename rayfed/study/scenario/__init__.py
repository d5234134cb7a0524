"""What a scenario file says, as frozen values."""
