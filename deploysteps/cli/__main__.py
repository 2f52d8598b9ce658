"""``python -m deploysteps.cli``, for where the script is not on the path."""

from deploysteps.cli import main

main()
