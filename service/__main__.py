"""Makes `python -m service` run the command `regard`."""

from service.cli import main

main()
