"""`python -m turbosvm` is the `turbosvm` command."""

from turbosvm.cli.main import main

main()
