from queryveil.log.synthetic import synth


def test_a_log_has_exactly_the_users_and_records_asked_for():
    log = synth(users=37, records=1000, seed=3)
    assert (log.user_count(), len(log)) == (37, 1000)


def test_the_same_seed_gives_the_same_log_and_another_seed_another():
    assert synth(users=20, records=400, seed=5) == synth(users=20, records=400, seed=5)
    assert synth(users=20, records=400, seed=5) != synth(users=20, records=400, seed=6)
