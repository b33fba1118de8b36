"""What a worker does with messages: claim, run the handler, settle, extend leases."""
