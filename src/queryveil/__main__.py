"""`python -m queryveil`, and the file to hand to `spark-submit`."""

from queryveil.cli.main import main

if __name__ == "__main__":
    main()
