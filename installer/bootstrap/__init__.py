"""Sets Twinrig up in ``.venv`` of a checkout. Standard library only, Python 3.11 to 3.13."""
