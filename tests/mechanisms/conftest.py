"""What tests of several mechanisms share."""

import pytest

from queryveil.mechanisms.semantic import sealed


@pytest.fixture
def a_cache_of_its_own(tmp_path, monkeypatch):
    """Laws are calibrated anew, into a folder that is empty at first."""
    folder = tmp_path / "cache"
    monkeypatch.setattr(sealed, "cache_folder", lambda: folder)
    return folder
