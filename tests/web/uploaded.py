"""What attackers upload, and what came of it."""

SECRET = "xyzzy-secret-query"
ROWS = f"user,query\nann,{SECRET}\nbob,weather\n".encode()
NOBODY = "0" * 32


def stored(settings):
    """Every file below the server's folder that holds something of an upload."""
    return [path for path in (settings.folder / "logs").rglob("*") if path.is_file()]
