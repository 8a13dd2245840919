"""headway: an inference server and scheduler that keeps deadlines on shared accelerators."""

__all__ = ["__version__"]

__version__ = "0.1.0"
