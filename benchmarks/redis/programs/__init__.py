"""One program for each side. Those of peers run with the peer's own interpreter."""
