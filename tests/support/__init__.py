"""What the tests of several rooms share; importable as ``support`` (``pythonpath`` in pyproject.toml)."""
