"""Hardware: what a driver is, how one is found, and those that come along."""
