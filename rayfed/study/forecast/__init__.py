"""Forecasts of a study's costs and of its end, before anything is started."""
