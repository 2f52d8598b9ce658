"""A conductor with a step-execution engine for bare-metal nodes."""
