"""Copies that run on their own: bulk copies, pipelines, producers, and copies that blocks share."""
