import pytest


@pytest.fixture
def store(tmp_path):
    return tmp_path / "store.sqlite"
