"""Forecasts: what a study will cost and whether it can end, before anything is started."""
