"""The foundry: from the data to the readers that ship, in stages that can be interrupted."""
