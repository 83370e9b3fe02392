"""What the plain neural networks share. No method by itself; torch is imported by its files alone."""
