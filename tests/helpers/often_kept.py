"""The command line, with a checkpoint after every step: a run of a second has one, too."""

from promask.cli.main import main
from promask.learning import checkpoint

if __name__ == "__main__":
    checkpoint.SHARE = 1e9
    main()
