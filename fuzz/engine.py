"""One target under atheris, in a separate process: `python -m fuzz.engine TARGET [libFuzzer options] [folders]`."""

import sys

import atheris

with atheris.instrument_imports(include=["acp_proxy"]):
    from fuzz.corpus import target

    run = target(sys.argv[1])


def main() -> None:
    atheris.Setup([sys.argv[0], *sys.argv[2:]], run)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
