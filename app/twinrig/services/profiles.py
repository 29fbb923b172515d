"""Profiles on disk: the names other packages use."""

from twinrig.services.profile_codec import dump_profile, parse_profile
from twinrig.services.profile_store import BrokenProfile, ProfileListing, ProfileStore

__all__ = ["BrokenProfile", "ProfileListing", "ProfileStore", "dump_profile", "parse_profile"]
