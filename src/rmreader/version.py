"""The version, readable where the package runs from its source folder without being installed."""

__version__ = "0.2.0"
