"""`python -m service` is `regard`."""

from service.cli import main

main()
