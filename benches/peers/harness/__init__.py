"""What all loaders have in common: the work, the clock, the memory, the table."""
