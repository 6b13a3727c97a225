"""Schemathesis over the OpenAPI: whatever is sent, no fault of ours and nothing of the data in an answer."""

import pytest
from hypothesis import HealthCheck, Phase, given, settings

SECRET = "xyzzy-secret-query"
NOT_TRIED = ("/api/session", "/api/try")  # the first would end the session; the second loads word vectors at length
MANY_WAYS = settings(
    max_examples=6,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.parametrize("way", ["as described", "otherwise"])
def test_no_request_of_any_shape_is_a_fault_of_ours_or_tells_of_the_data(visitor, way):
    import schemathesis  # it takes a second to load, and one worker alone needs it
    from schemathesis.generation import GenerationMode

    mode = GenerationMode.POSITIVE if way == "as described" else GenerationMode.NEGATIVE
    log = visitor.upload("log.csv", f"user,query\nann,{SECRET}\nbob,{SECRET}\n".encode()).json()["id"]
    visitor.finished(visitor.put(f"/api/logs/{log}/reading", {}))
    schema = schemathesis.openapi.from_dict(visitor.get("/api/openapi.json").json())
    answers = []
    for found in schema.get_all_operations():
        operation = found.ok()
        if operation.path in NOT_TRIED:
            continue
        try:
            cases = operation.as_strategy(generation_mode=mode)
        except Exception as error:
            assert "Impossible" in type(error).__name__ or mode is GenerationMode.NEGATIVE
            continue

        @MANY_WAYS
        @given(case=cases)
        def send(case):
            if case.method != "DELETE" and len(answers) % 2 and "log" in (case.path_parameters or {}):
                case.path_parameters["log"] = log  # a log that is there, every other time
            answers.append(sent(visitor, case))

        try:
            send()
        except Exception as error:
            if "Unsatisfiable" not in type(error).__name__:  # some routes cannot be called otherwise than described
                raise
    assert len(answers) > 100
    assert {status for status, _ in answers} >= ({200, 404, 422} if mode is GenerationMode.POSITIVE else {422})
    for status, answer in answers:
        assert status < 500
        if status >= 400:
            assert SECRET not in answer.text
            assert answer.json().keys() == {"error"}


def sent(visitor, case):
    """The status and the answer to a case, sent by somebody who was let in."""
    given = case.as_transport_kwargs(base_url=visitor.settings.address)
    given["headers"] = {
        name: value for name, value in (given.get("headers") or {}).items() if name.lower() not in ("host", "cookie")
    } | visitor.headers
    given.pop("cookies", None)
    if isinstance(given.get("data"), bytes | str):
        given["content"] = given.pop("data")
    answer = visitor.http.request(**given)
    return answer.status_code, answer
