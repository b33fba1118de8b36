"""Acts: what the dashboard changes, each declared once; `catalog.ACTS` has them all."""
