"""Attacks on the server by those who want in, each refused."""

import logging

import pytest

from queryveil.errors import UsageError
from queryveil.web.sessions import MOST_GUESSES
from queryveil.web.settings import WebSettings
from web.uploaded import NOBODY, ROWS, stored

# Getting in


def test_a_stranger_sees_the_entrance_and_nothing_else(stranger):
    for path in ("/api/logs", "/api/ledger", "/api/releases", "/api/openapi.json", "/api/session"):
        assert stranger.get(path).status_code == 401
    for path in ("/", "/ledger", "/try", f"/logs/{NOBODY}"):
        answer = stranger.get(path)
        assert (answer.status_code, answer.headers["location"]) == (303, "/enter")


def test_guessing_the_token_is_stopped(stranger):
    answers = [stranger.post("/api/session", {"secret": f"guess {n}"}).status_code for n in range(MOST_GUESSES + 1)]
    assert answers == [403] * MOST_GUESSES + [429]
    assert stranger.post("/api/session", {"secret": stranger.tokens[-1]}).status_code == 429


def test_another_page_cannot_use_up_the_guesses_and_keep_the_holder_out(stranger):
    for site in ("cross-site", "same-site"):
        foreign = {"sec-fetch-site": site, "sec-fetch-mode": "navigate"}
        for n in range(MOST_GUESSES + 1):
            assert stranger.get(f"/enter?token={n}", headers=foreign).status_code == 403
    own = {"sec-fetch-site": "none", "sec-fetch-mode": "navigate"}
    assert stranger.get(f"/enter?token={stranger.tokens[-1]}", headers=own).status_code == 200


def test_a_token_works_once(stranger):
    used = stranger.tokens[-1]
    assert stranger.get(f"/enter?token={used}").status_code == 200
    stranger.http.cookies.clear()
    assert stranger.get(f"/enter?token={used}").status_code == 403
    assert stranger.tokens[-1] != used


def test_a_forged_cookie_opens_nothing(stranger):
    stranger.http.cookies.set("queryveil", "A" * 43)
    assert stranger.get("/api/logs").status_code == 401


def test_who_left_is_out(visitor):
    assert visitor.delete("/api/session").status_code == 204
    assert visitor.get("/api/logs").status_code == 401


def test_scripts_cannot_read_the_cookie_and_other_sites_do_not_send_it(stranger):
    cookie = stranger.get(f"/enter?token={stranger.tokens[-1]}").headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie


def test_a_server_that_others_can_reach_needs_a_password(tmp_path):
    with pytest.raises(UsageError, match="password of 12 characters"):
        WebSettings(folder=tmp_path, host="192.0.2.7")
    for everywhere in ("0.0.0.0", "::"):
        with pytest.raises(UsageError, match="one address"):
            WebSettings(folder=tmp_path, host=everywhere, password="long enough, surely")
    with pytest.raises(UsageError, match="numeric"):
        WebSettings(folder=tmp_path, host="localhost")


@pytest.mark.parametrize("host", ["127.0.0.1", "192.0.2.7"])
@pytest.mark.parametrize("password", ["", "short", "eleven char"])
def test_a_password_that_can_be_guessed_is_refused_everywhere(tmp_path, host, password):
    with pytest.raises(UsageError, match="must have 12 characters"):
        WebSettings(folder=tmp_path, host=host, password=password)


# Pretending to be our page


@pytest.mark.parametrize("host", ["evil.example", "localhost:8642", "127.0.0.1", "127.0.0.1:80", ""])
def test_a_name_that_was_bound_to_loopback_gets_no_answer(guest, host):
    assert guest.get("/api/logs", headers={"host": host}).status_code == 421


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1:9999", "http://localhost:8642"])
def test_a_request_from_another_origin_is_refused(guest, origin):
    assert guest.post("/api/logs/sample", headers={"origin": origin}).status_code == 403


def test_a_request_that_the_browser_says_is_foreign_is_refused(guest):
    for site in ("cross-site", "same-site"):
        assert guest.post("/api/logs/sample", headers={"sec-fetch-site": site}).status_code == 403
    foreign_image = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}
    assert guest.get("/api/logs", headers=foreign_image).status_code == 403


@pytest.mark.parametrize("token", [None, "", "wrong", "a" * 43])
def test_nothing_is_changed_without_the_token_of_the_session(guest, token):
    headers = {} if token is None else {"x-csrf-token": token}
    for path in ("/api/logs/sample", "/api/ledger", f"/api/jobs/{NOBODY}/cancel"):
        assert guest.http.post(path, headers=headers, json={"epsilon": 1.0}).status_code == 403
    assert guest.http.delete(f"/api/logs/{NOBODY}", headers=headers).status_code == 403
    assert guest.http.post("/sample", data={"csrf": token or ""}).status_code == 403
    assert guest.get("/api/logs").json() == []


@pytest.mark.parametrize("fields", [[], [("csrf", "wrong")]])
def test_an_upload_without_the_token_is_not_stored(guest, fields):
    answer = guest.http.post("/logs", data=dict(fields), files={"file": ("log.csv", ROWS)})
    assert answer.status_code == 403
    assert stored(guest.settings) == []


def test_a_token_that_comes_after_the_file_is_too_late(guest):
    token = guest.headers["x-csrf-token"]
    body = (
        b'--x\r\nContent-Disposition: form-data; name="file"; filename="log.csv"\r\n\r\n' + ROWS + b"\r\n"
        b'--x\r\nContent-Disposition: form-data; name="csrf"\r\n\r\n' + token.encode() + b"\r\n--x--\r\n"
    )
    answer = guest.http.post("/logs", content=body, headers={"content-type": "multipart/form-data; boundary=x"})
    assert answer.status_code == 403
    assert stored(guest.settings) == []


def upload_form(token):
    return (
        b'--x\r\nContent-Disposition: form-data; name="csrf"\r\n\r\n' + token.encode() + b"\r\n"
        b'--x\r\nContent-Disposition: form-data; name="file"; filename="log.csv"\r\n\r\n' + ROWS + b"\r\n--x--\r\n"
    )


def test_a_form_may_arrive_in_pieces_of_any_size(visitor):
    body = upload_form(visitor.headers["x-csrf-token"])
    kind = {"content-type": "multipart/form-data; boundary=x"}
    for size in (1, 7):
        pieces = (body[at : at + size] for at in range(0, len(body), size))
        assert visitor.http.post("/logs", content=pieces, headers=kind).status_code == 303
    assert [path.read_bytes() for path in stored(visitor.settings)] == [ROWS, ROWS]


@pytest.mark.parametrize("boundary", ["x" * 3000, "x" * 71, '""'])
def test_a_boundary_that_no_browser_sends_is_refused(guest, boundary):
    kind = {"content-type": f"multipart/form-data; boundary={boundary}"}
    assert guest.http.post("/logs", content=b"--x", headers=kind).status_code == 400


def test_what_a_broken_form_holds_does_not_reach_the_messages(guest, caplog):
    kind = {"content-type": "multipart/form-data; boundary=x"}
    with caplog.at_level(logging.DEBUG):
        assert guest.http.post("/logs", content=b"--y" + ROWS, headers=kind).status_code == 400
    assert [one for one in caplog.records if one.name.startswith("python_multipart")] == []


@pytest.mark.parametrize("number", ["inf", "-inf", "nan", "1e400", "2.5", "two", ""])
def test_a_number_that_is_none_is_refused(guest, number):
    form = {"csrf": guest.headers["x-csrf-token"], "query": "tulips", "mechanism": "cmp", "epsilon": "30"}
    assert guest.http.post("/try", data=form | {"n": number}).status_code == 422
    assert (
        guest.http.post(
            "/try", data=form | {"n": "1", "epsilon": "x" if number == "2.5" else number or "x"}
        ).status_code
        == 422
    )


def test_no_other_page_may_frame_read_or_script_ours(guest):
    for path in ("/", "/api/logs", "/nothing", f"/api/logs/{NOBODY}", "/static/style.css", "/enter"):
        answer = guest.get(path, headers={"origin": guest.settings.address})
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize("method", ["TRACE", "OPTIONS", "PATCH", "CONNECT", "BREW"])
def test_methods_that_are_not_used_are_refused(guest, method):
    assert guest.http.request(method, "/api/logs", headers=guest.headers).status_code == 405


# Reaching for files


@pytest.mark.parametrize(
    "path",
    [
        "/api/logs/..%2f..%2fpage.db",
        "/api/logs/%2e%2e/%2e%2e/page.db",
        "/static/..%2fpages.py",
        "/static/../pages.py",
        "/static/%5c..%5cpages.py",
        f"/api/releases/{NOBODY}/files/..%2f..%2fpage.db",
        f"/api/releases/{NOBODY}/files/all",
        "/api/releases/%00/files/log",
        "/logs/../../etc/passwd",
        f"/logs/{NOBODY}%00",
        f"/logs/{NOBODY.upper()}a",
        "//etc/passwd",
    ],
)
def test_no_path_leads_out_of_the_house(guest, path):
    answer = guest.get(path)
    assert answer.status_code in (404, 422)
    assert b"root:" not in answer.content
    assert b"SQLite" not in answer.content


@pytest.mark.parametrize(
    "name", ["../../../tmp/evil.csv", "/etc/cron.d/x", "..\\..\\x.csv", "a\0b.csv", "x" * 299, "🌷"]
)
def test_a_file_name_has_no_say_in_where_a_file_goes(visitor, name):
    answer = visitor.upload(name, ROWS)
    assert answer.status_code == 201
    (path,) = stored(visitor.settings)
    assert path.parent == visitor.settings.folder / "logs" / answer.json()["id"]
    assert path.name in ("log", "log.csv")
    assert path.stat().st_mode & 0o077 == 0


def test_a_mechanism_is_never_told_to_open_a_file_of_the_server(guest):
    for mechanism, parameters in (
        ("microaggregate", {"classifier": "/etc/passwd"}),
        ("microaggregate", {"state": "/tmp/planted"}),
        ("stream", {"classifier": "/etc/passwd"}),
        ("semantic", {"epsilon": 1.0, "per": "query", "knowledge": "/etc/passwd"}),
        ("obfuscate", {"epsilon": 10.0, "embedding": "/etc/passwd"}),
        ("obfuscate", {"epsilon": 10.0, "corpus": "/etc"}),
    ):
        answer = guest.post("/api/plan", {"mechanism": mechanism, "parameters": parameters})
        assert answer.status_code == 422
        assert "a page cannot set that parameter" in answer.json()["error"]


def test_a_page_makes_no_release_in_paper_mode(guest):
    answer = guest.post("/api/plan", {"mechanism": "suppress", "parameters": {"mode": "paper"}})
    assert answer.status_code == 422


def test_what_one_release_is_called_says_nothing_about_another(guest):
    assert guest.get(f"/api/releases/{NOBODY}").status_code == 404
    assert guest.post(f"/api/releases/{NOBODY}/verify").status_code == 404
