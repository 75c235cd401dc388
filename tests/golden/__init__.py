"""The edge cases of compose_soul and what the Go original composes from each."""
