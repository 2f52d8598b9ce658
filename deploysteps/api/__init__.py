"""The REST API: thin. It validates, calls the conductor, and renders."""
