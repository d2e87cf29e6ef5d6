"""`python -m promask` is `promask`."""

from promask.cli import main

main()
