import importlib.util
import os
import pkgutil

os.environ.setdefault("MPLBACKEND", "Agg")

import torch
from jaxtyping import install_import_hook

# Every shape that a signature of the package names is checked at run time. Not so in config, whose own checks of
# what users hand it are under test.
folder = importlib.util.find_spec("promask").submodule_search_locations
names = {module.name for module in pkgutil.iter_modules(folder)} - {"config", "__main__"}
install_import_hook([f"promask.{name}" for name in names], "typecheck.typecheck")
torch.set_num_threads(1)
