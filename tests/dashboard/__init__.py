"""The dashboard as people use it: a real browser, the real server, a store in memory that tests look into."""
