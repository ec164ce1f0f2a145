"""Collective algorithms as schedules: proved, run, counted and shown from one generator each."""
