"""`python -m pgsluice` is the command `pgsluice`."""

from pgsluice.cli.main import main

if __name__ == "__main__":
    main()
