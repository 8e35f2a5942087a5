"""Tasks: what is done to one input. They are picklable callables, so every engine can run them."""
