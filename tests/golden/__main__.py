"""`make golden`: write what tests/golden expects anew, from what acp-proxy does now."""

from tests.golden.frozen_files import EXPECTED, PLANS, STORE, freeze_file, freeze_store

if __name__ == "__main__":
    for path in PLANS:
        (EXPECTED / f"{path.stem}.txt").write_text(
            freeze_file(path), encoding="utf-8", errors="surrogateescape", newline=""
        )
    STORE.write_text(freeze_store(), encoding="utf-8", errors="surrogateescape", newline="")
