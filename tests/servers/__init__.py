"""Real servers for tests: found or fetched, started when first asked for, gone when the run is."""
