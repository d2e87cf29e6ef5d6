"""`python -m promask` is `promask`."""

from promask.cli.main import main

main()
