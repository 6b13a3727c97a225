"""A kill test for operators: does a live stream keep its promise on your own disk and with your own broker?

`python -m queryveil.testing.harness redis --url redis://host/0 --kills 100` makes a run of its own there, with records
that it makes up, and kills workers at every labelled place of the code (`connector.STEPS`), freezes them while others
take over, takes the disk away, and sets the server back where that can be done without touching anything that is not
its own. Somebody looks at the output all the time: what was seen once must never change. In the end everything is
repeated by one worker that nobody disturbs, from a file to a file with the same key, and both outputs must be the same,
byte by byte. What it made it removes.

`python -m queryveil.testing.harness spark --kills 20` does the like to releases on Spark: it ends their driver.

`records` makes the input, `zygote` and `workers` are the processes, `ends` what is done to files and brokers, `trial`
the order of events and the verdict; `spark_driver` and `spark_trial` are for Spark.
"""
