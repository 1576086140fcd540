"""What a release is made of beside the code: its version, its list of parts, its archive."""
