"""Wrong command lines: each is answered in one sentence of ours, with the rule or the name that was meant."""

import pytest

PARSERS_OWN = ("Usage:", "Invalid value", "No such", "Missing", "Input should", "╭", "Traceback")

WRONG = [
    (("relase", "suppress", "LOG"), "there is no command “relase”. Did you mean release?"),
    (("release", "supress", "LOG", "-o", "OUT"), "there is no mechanism “supress”. Did you mean suppress?"),
    (("plan", "semantics", "--epsilon", "1"), "there is no mechanism “semantics”. Did you mean semantic?"),
    (("release", "cooking", "LOG"), "there is no mechanism “cooking”. Choose one of suppress, "),
    (("ledger", "shwo"), "there is no command “shwo”. Did you mean show?"),
    (("release", "suppress"), "LOG is missing: a query log"),
    (("audit", "LOG"), "RELEASED is missing"),
    (("verify",), "FOLDER is missing: a release folder."),
    (("plan", "semantic"), "--epsilon is missing: privacy loss"),
    (("advise", "LOG", "--max-risk", "0.05"), "--task is missing: what the release is for"),
    (("advise", "LOG", "--task", "freqency", "--max-risk", "0.05"), "Did you mean query frequency?"),
    (("advise", "LOG", "--task", "frequency", "--max-risk", "5%"), "--max-risk must be a number; got '5%'. Try 0.05."),
    (("release", "suppress", "LOG", "-o", "OUT", "--k-txt", "3"), "no option --k-txt. Did you mean --k-text?"),
    (("release", "suppress", "LOG", "-o", "OUT", "--k-text", "abc"), "--k-text must be a whole number; got 'abc'."),
    (("release", "suppress", "LOG", "-o", "OUT", "--k-text=abc"), "--k-text must be a whole number; got 'abc'."),
    (("release", "suppress", "LOG", "-o", "OUT", "--k-text", "0"), "k_text must be a whole number >= 2"),
    (
        ("release", "suppress", "LOG", "-o", "OUT", "--mode", "fast"),
        "--mode must be one of safe, paper, rule; got",
    ),
    (("release", "suppress", "LOG", "-o", "OUT", "--k-text"), "--k-text needs a value after it."),
    (("release", "suppress", "LOG", "my", "secret", "-o", "OUT"), "more arguments than it takes"),
    (("inspect", "LOG", "--on-error", "skpi"), "must be one of skip, fail; got 'skpi'. Did you mean skip?"),
    (("serve", "--port", "abc"), "--port must be a whole number; got 'abc'."),
    (("--nonsense",), "there is no option --nonsense."),
    (("compare", "LOG", "--workers", "0"), "workers must be a whole number >= 1"),
]


@pytest.mark.parametrize(("words", "said"), WRONG, ids=[" ".join(words) for words, _ in WRONG])
def test_a_wrong_call_is_answered_in_our_own_words(run, tmp_path, words, said):
    log = tmp_path / "log.csv"
    log.write_text("user,query\nann,weather\nbob,weather\n")
    places = {"LOG": log, "OUT": tmp_path / "out"}
    code, out, err = run(*(places.get(word, word) for word in words))
    told = " ".join(err.split())
    assert (code, out) == (2, "")
    assert said in told
    assert told.startswith("error: ")
    assert not [own for own in PARSERS_OWN if own in err]
    assert "secret" not in err  # it may be of a query
    assert not (tmp_path / "out").exists()


def test_help_is_help_and_no_error(run):
    code, out, err = run("release")
    assert code in (0, 2)
    assert "error:" not in err
    assert "suppress" in out + err
