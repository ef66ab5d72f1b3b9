"""Faults put into trees, lowered programs and texts, and the nets that have to catch each."""
