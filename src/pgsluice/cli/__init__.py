"""The command line: parses, calls, prints. No SQL here."""
