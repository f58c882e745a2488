"""Servers of a campaign's own: started, crashed, started again, and gone with it. On loopback only."""
