"""Support vector machines between classes of embeddings, solved through their kernel matrix on any device."""

from turbosvm.svm.machine import Machine, fit

__all__ = ["Machine", "fit"]
