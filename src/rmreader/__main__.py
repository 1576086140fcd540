"""``python -m rmreader``."""

from rmreader.cli import main

main()
