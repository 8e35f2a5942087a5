"""What is done to one input: picklable callables, the same in every engine."""
