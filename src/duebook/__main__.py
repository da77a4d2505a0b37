"""Makes `python -m duebook` run the duebook command."""

from duebook.cli import main

main(prog_name="duebook")
