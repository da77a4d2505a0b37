"""Lets `python -m duebook` stand for the duebook command."""

from duebook.cli import main

main(prog_name="duebook")
