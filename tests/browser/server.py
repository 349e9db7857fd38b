"""Runs `regard`, and lets browsers keep the files of the page: a page has ninety."""

from service.api import page
from service.cli import main

if __name__ == "__main__":
    page.HEADERS["Cache-Control"] = "max-age=3600"
    main()
