"""Tests that a person's eyes and hands would make: a real JupyterLab in headless Chromium."""
