"""The same mechanisms on logs that outgrow one machine, by Apache Spark (extra `spark`).

`Cluster` opens Spark and reads a log as a `SparkLog`, which a mechanism protects like any other: its block functions
run on the executors, over Arrow (`mapInArrow`), and what is small is decided on the driver.

Why a task that is retried, or run twice by speculation, publishes no second draw for a record: a block's noise comes
from keys that the driver derived before the job, and a block's rows are sorted before anything is drawn, so a second
attempt computes the same rows; and a release is written only from parts that were finished and committed first.
"""
