"""What only Windows has."""
