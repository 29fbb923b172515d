"""What pages show and decide, testable without a window."""
