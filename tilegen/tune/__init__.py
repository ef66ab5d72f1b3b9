"""Tuning: which values of a schedule's parameters, and which of several schedules, run fastest on this device."""
