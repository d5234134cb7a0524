"""Delays: virtual seconds of one local step."""
