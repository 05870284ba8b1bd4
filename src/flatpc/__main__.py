"""`python -m flatpc` is `flatpc`."""

from flatpc.cli import main

if __name__ == "__main__":
    main()
