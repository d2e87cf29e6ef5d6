"""What `make bench` runs, and the yardstick it measures with."""
