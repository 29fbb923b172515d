"""Adapters that touch a machine; they implement ``domain.ports``."""
