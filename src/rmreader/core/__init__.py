"""What every room uses: errors for people, progress, settings and recipes, files, processes."""
