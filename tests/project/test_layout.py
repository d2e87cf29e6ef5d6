"""What no module does. The order of the rooms is held by import-linter, in `make lint`."""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "promask"


def imported_modules(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            yield node.module
            if node.module == "promask":
                yield from (f"promask.{alias.name}" for alias in node.names if alias.name != "__version__")


def test_the_textbook_shares_nothing_with_the_package():
    assert not any(
        module.startswith("promask") for module in imported_modules(ROOT / "benchmarks" / "textbook.py")
    )


def test_nothing_is_unpickled():
    paths = list(PACKAGE.rglob("*.py"))
    assert PACKAGE / "nn.py" in paths
    for path in paths:
        text = path.read_text()
        assert "import pickle" not in text
        assert "torch.load" not in text
        assert "allow_pickle=True" not in text
