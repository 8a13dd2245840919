"""Servers with an illness, and healthy ones, for whoever asks whether a doctor tells them apart."""
