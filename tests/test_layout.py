"""The order of the modules: a file imports only from rows above its own."""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "promask"
ROWS = [
    "errors",
    "limits",
    "version",
    "cluster",
    "geometry",
    "types",
    "fourier",
    "magnitude",
    "recon",
    "patterns",
    "projection",
    "schedules",
    "sampling",
    "rules",
    "reading",
    "config",
    "files",
    "exact_size",
    "distribution",
    "headings",
    "metrics",
    "conventions",
    "segmentation",
    "tasks",
    "data",
    "training",
    "learning",
    "nn",
    "baselines",
    "export",
    "evaluation",
    "held_out",
    "figures",
    "report",
    "learn_and_report",
    "experiments",
    "studio",
    "bars",
    "terminal",
    "showing",
    "offers",
    "options",
    "completion",
    "completion_scripts",
    "mistakes",
    "helping",
    "learn_cli",
    "segment_cli",
    "measure_cli",
    "compare_cli",
    "files_cli",
    "figure_cli",
    "report_cli",
    "studio_cli",
    "cli",
    "__main__",
    "__init__",
]


def imported_modules(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            yield node.module
            if node.module == "promask":
                yield from (f"promask.{alias.name}" for alias in node.names)


def row_of(path):
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def test_imports_go_upwards():
    files = sorted(PACKAGE.rglob("*.py"))
    assert {row_of(path) for path in files} == set(ROWS)
    for path in files:
        for module in imported_modules(path):
            parts = module.split(".")
            if parts[0] == "promask" and len(parts) > 1:
                assert ROWS.index(parts[1]) <= ROWS.index(row_of(path)), f"{path} imports {module}"


def test_the_textbook_shares_nothing_with_the_package():
    assert not any(
        module.startswith("promask") for module in imported_modules(ROOT / "benchmarks" / "textbook.py")
    )


def test_nothing_is_unpickled():
    for path in PACKAGE.rglob("*.py"):
        text = path.read_text()
        assert "import pickle" not in text
        assert "torch.load" not in text
        assert "allow_pickle=True" not in text
