"""The stores that can be tortured: SQLite in a file, PostgreSQL and Redis on servers of ours or of the user's.

An arena knows how processes reach its store and what can be done to it; when and to whom is for the nemesis.
"""
