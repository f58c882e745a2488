"""Background jobs and recurring work that survive crashes, on the database you already have."""

__all__ = ["__version__"]

__version__ = "0.1.0"
