import os

os.environ.setdefault("MPLBACKEND", "Agg")

import torch
from jaxtyping import install_import_hook

# Every shape that a signature of the package names is checked at run time.
install_import_hook("promask", "typecheck.typecheck")
torch.set_num_threads(1)
