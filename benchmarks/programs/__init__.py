"""What programs of sides share, and those that run on any store."""
