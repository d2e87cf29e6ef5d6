"""The paper's tables and figures, on anyone's data."""
