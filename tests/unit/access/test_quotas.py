"""Which quotas hold: a user's own before the one for every user, for a virtual cluster and over all."""

from __future__ import annotations

from itertools import permutations

from openpai.access.quotas import Quota, quotas_for, quotas_of

EVERY, OF_ANN, OF_BOB = Quota("vision", jobs_unfinished=1), Quota("vision", "ann"), Quota("vision", "bob", 2)
OVER_ALL, OVER_ALL_ANN = Quota(gpus_running=8), Quota(user="ann", gpus_running=4)
SPEECH = Quota("speech", gpus_per_job=1)


def test_a_users_own_quota_replaces_the_one_for_every_user_also_where_it_limits_nothing() -> None:
    for quotas in permutations((EVERY, OF_ANN, OF_BOB, OVER_ALL, OVER_ALL_ANN)):
        assert set(quotas_of("ann", quotas)) == {OF_ANN, OVER_ALL_ANN}
        assert set(quotas_of("bob", quotas)) == {OF_BOB, OVER_ALL}
        assert set(quotas_of("eve", quotas)) == {EVERY, OVER_ALL}


def test_a_job_is_held_to_the_quota_of_its_virtual_cluster_and_then_to_the_one_over_all() -> None:
    quotas = (OVER_ALL, SPEECH, EVERY, OF_ANN)
    assert quotas_for("ann", quotas, "vision") == (OF_ANN, OVER_ALL)
    assert quotas_for("ann", quotas, "speech") == (SPEECH, OVER_ALL)
    assert quotas_for("ann", quotas, "default") == (OVER_ALL,)
    assert quotas_for("ann", (), "vision") == ()
