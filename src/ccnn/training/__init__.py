"""Training: the LightningModule, what it minimises, and runs that survive being stopped."""
