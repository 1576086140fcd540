"""Files: questions from a file, answers into a file, passages from the keyboard. Start at ``predict.py``."""
