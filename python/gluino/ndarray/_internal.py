"""Every operator under its name in the registry."""
