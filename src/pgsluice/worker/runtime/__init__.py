"""The runtime below `App`: sources that give deliveries, and the engine that runs handlers for them."""
