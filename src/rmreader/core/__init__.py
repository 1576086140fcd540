"""What every room stands on: errors for people, progress, settings and recipes, files, processes."""
