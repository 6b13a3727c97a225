"""Tests that share a server go to one worker, and long units are handed out before short ones."""

from types import SimpleNamespace

from scheduling import FIRST, TOGETHER, LongUnitsFirst, rank, unit


class Worker:
    """Takes what it is given, in this order."""

    shutting_down = False

    def __init__(self, collection):
        self.gateway = SimpleNamespace(id=str(id(self)))
        self.collection, self.given = collection, []

    def send_runtest_some(self, indices):
        self.given += [self.collection[index] for index in indices]

    def shutdown(self):
        self.shutting_down = True


def handed_out(collection, workers):
    """What each worker gets, where all take equally long for a test."""
    option = SimpleNamespace(loadscopereorder=True)
    config = SimpleNamespace(getvalue=lambda name: ["popen"] * workers, option=option, hook=None)
    scheduler = LongUnitsFirst(config, None)
    nodes = [Worker(collection) for _ in range(workers)]
    for node in nodes:
        scheduler.add_node(node)
        scheduler.add_node_collection(node, collection)
    scheduler.schedule()
    for place in range(len(collection)):
        for node in nodes:
            if place < len(node.given):
                scheduler.mark_test_complete(node, collection.index(node.given[place]))
    return [node.given for node in nodes]


def test_a_folder_with_servers_is_one_unit_and_else_each_file():
    assert unit("tests/engines/test_spark.py::test_a[x::y]") == unit("tests/engines/test_spark_jobs.py::test_b")
    assert unit("tests/log/test_reading.py::Class::test_a") == "tests/log/test_reading.py"
    assert rank("tests/engines/") < rank("tests/web/test_access.py") < rank("tests/web/test_api.py") < rank("src/x.py")


def test_every_test_is_handed_out_once_units_whole_and_the_long_ones_first():
    short = [f"src/queryveil/m{n}.py::doc" for n in range(6)]
    middle = [f"tests/audit/test_a.py::test_{n}" for n in range(4)]
    spark = [f"tests/engines/test_{n % 2}.py::test_{n}" for n in range(5)]
    collection = [*short, *middle, *sorted(spark)]
    given = handed_out(collection, workers=2)
    assert sorted(given[0] + given[1]) == sorted(collection)
    for whole in (spark, middle):
        assert any(set(whole) <= set(one) for one in given)
    assert given[0][:5] == sorted(spark)
    assert given[1][:4] == middle


def test_every_unit_that_is_named_is_there(request):
    for name in (*FIRST, *TOGETHER):
        found = list(request.config.rootpath.glob(f"{name}*"))
        assert found, f"{name} is no longer there"
