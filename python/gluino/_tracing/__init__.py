"""What Python code reads and changes while it is traced."""
