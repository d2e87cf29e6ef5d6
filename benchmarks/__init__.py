"""What `make bench` and the other measurements of the documentation run."""
