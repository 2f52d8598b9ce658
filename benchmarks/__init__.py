"""Benchmarks: what one deploy step costs here, at the floor, and in three other engines.

Run ``python -m benchmarks`` from the root of the repository; ``--help`` lists the options and
``README.md`` says what each row of the table measures.
"""
