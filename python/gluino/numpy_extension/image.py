"""mx.npx.image: image operators, from the registry."""
