"""Which of several schedules serves best at given sizes: by a model of time, or by what was measured."""
