"""OpenTelemetry traces and metrics of messages."""
