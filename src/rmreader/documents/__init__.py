"""Documents: formats, passages with exact places, an index, answers that cite."""
