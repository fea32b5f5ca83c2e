"""The environment of a task: every documented variable, raw and normalised names, and the limits of a system."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import pytest

from openpai.protocol.job import Completion, Resources, TaskRole
from openpai.runtime.environment import (
    BYTES_MAX,
    STRING_BYTES_MAX,
    JobEnvironment,
    JobView,
    Peer,
    Self,
    TaskVariables,
    port_labels,
)


def whole(environment: JobEnvironment, task: Self) -> dict[str, str]:
    """Return the whole environment of a task: the shared variables, overridden by its own."""
    return {**environment.shared, **environment.of(task)}


def a_role(name: str, instances: int = 1, gpus: int = 0) -> TaskRole:
    return TaskRole(name, "image", Resources(4, 8192, gpus), ("true",), instances, Completion(1, instances))


def a_job() -> JobView:
    return JobView(
        user="ada",
        job_name="train-1",
        virtual_cluster="vision",
        roles=(a_role("PS_server"), a_role("worker", 2, gpus=2)),
        peers=(
            Peer("PS_server", 0, "10.0.0.1", {"ssh": (20000,), "http": (20001,), "tf": (20002, 20003)}),
            Peer("worker", 0, "10.0.0.1", {"ssh": (20004,), "http": (20005,)}),
            Peer("worker", 1, "10.0.0.2", {"ssh": (20000,), "http": (20001,)}),
        ),
    )


def test_a_task_gets_every_variable_openpai_documents() -> None:
    message = whole(JobEnvironment(a_job()), Self("PS_server", 0, job_attempt=1, task_attempt=2))
    expected = {
        "PAI_FRAMEWORK_NAME": "ada~train-1",
        "PAI_JOB_NAME": "ada~train-1",
        "PAI_USER_NAME": "ada",
        "PAI_USERNAME": "ada",
        "PAI_DEFAULT_FS_URI": "",
        "PAI_VIRTUAL_CLUSTER": "vision",
        "PAI_TASK_ROLE_COUNT": "2",
        "PAI_TASK_ROLES_NUM": "2",
        "PAI_JOB_TASK_ROLE_COUNT": "2",
        "PAI_TASK_ROLE_LIST": "PS_server,worker",
        "PAI_JOB_TASK_ROLE_LIST": "PS_server,worker",
        "PAI_TASKS_NUM": "3",
        "PAI_JOB_TASK_COUNT": "3",
        "PAI_TASK_ROLE_TASK_COUNT_worker": "2",
        "PAI_RESOURCE_worker": "2,4,8192,512",
        "PAI_MIN_FAILED_TASK_COUNT_worker": "1",
        "PAI_MIN_SUCCEEDED_TASK_COUNT_worker": "2",
        "PAI_TASK_ROLE_TASK_COUNT_PS_server": "1",
        "PAI_CURRENT_TASK_ROLE_NAME": "PS_server",
        "PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX": "0",
        "PAI_TASK_INDEX": "0",
        "PAI_JOB_ATTEMPT_ID": "1",
        "PAI_TASK_ATTEMPT_ID": "2",
        "PAI_TASK_ROLE_INSTANCES": "PS_server:0,worker:0,worker:1",
        "PAI_TASK_ROLE_worker_HOST_LIST": "10.0.0.1:20005,10.0.0.2:20001",
        "PAI_HOST_IP_worker_1": "10.0.0.2",
        "PAI_PORT_LIST_worker_1_http": "20001",
        "PAI_worker_1_ssh_PORT": "20000",
        "PAI_CONTAINER_HOST_IP": "10.0.0.1",
        "PAI_CURRENT_CONTAINER_IP": "10.0.0.1",
        "PAI_CONTAINER_HOST_PORT": "20001",
        "PAI_CURRENT_CONTAINER_PORT": "20001",
        "PAI_CONTAINER_SSH_PORT": "20000",
        "PAI_CONTAINER_HOST_PORT_LIST": "ssh:20000;http:20001;tf:20002,20003;",
        "PAI_CONTAINER_HOST_tf_PORT_LIST": "20002,20003",
        "CUDA_VISIBLE_DEVICES": "",
        "NVIDIA_VISIBLE_DEVICES": "none",
    }
    assert expected.items() <= message.items()


@pytest.mark.parametrize("spelling", ["PS_server", "psserver"])
def test_a_role_with_capitals_is_found_under_both_spellings(spelling: str) -> None:
    message = whole(JobEnvironment(a_job()), Self("worker", 1))
    assert message[f"PAI_HOST_IP_{spelling}_0"] == "10.0.0.1"
    assert message[f"PAI_PORT_LIST_{spelling}_0_tf"] == "20002,20003"
    assert message[f"PAI_{spelling}_0_tf_PORT"] == "20002,20003"
    assert message[f"PAI_TASK_ROLE_{spelling}_HOST_LIST"] == "10.0.0.1:20001"


def test_a_normalised_spelling_never_hides_another_role() -> None:
    roles = tuple(a_role(name) for name in ("psserver", "PS_server", "A_b", "Ab"))
    peers = tuple(Peer(role.name, 0, f"10.0.0.{n}", {"ssh": (1,), "http": (2,)}) for n, role in enumerate(roles))
    message = whole(JobEnvironment(JobView("ada", "job", "default", roles, peers)), Self("A_b", 0))
    assert message["PAI_HOST_IP_psserver_0"] == "10.0.0.0"
    assert message["PAI_HOST_IP_PS_server_0"] == "10.0.0.1"
    assert "PAI_HOST_IP_ab_0" not in message


def test_devices_are_named_in_the_order_of_the_bus() -> None:
    message = whole(JobEnvironment(a_job()), Self("worker", 0, devices=(2, 3)))
    assert message["CUDA_VISIBLE_DEVICES"] == "2,3"
    assert message["NVIDIA_VISIBLE_DEVICES"] == "2,3"
    assert message["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"


def test_a_task_that_is_no_peer_is_not_answered() -> None:
    with pytest.raises(KeyError):
        JobEnvironment(a_job()).of(Self("worker", 2))


@pytest.mark.parametrize(
    ("declared", "expected"),
    [
        ({}, {"ssh": 1, "http": 1}),
        ({"tf": 2}, {"tf": 2, "ssh": 1, "http": 1}),
        ({"http": 3, "none": 0}, {"http": 3, "ssh": 1}),
    ],
)
def test_ssh_and_http_ports_are_always_there(declared: dict[str, int], expected: dict[str, int]) -> None:
    assert port_labels(Resources(1, 1, 0, declared)) == expected


def test_the_list_of_hosts_is_complete_and_readable_line_by_line() -> None:
    assert JobEnvironment(a_job()).hosts.splitlines() == [
        "PS_server 0 10.0.0.1 ssh=20000 http=20001 tf=20002,20003",
        "worker 0 10.0.0.1 ssh=20004 http=20005",
        "worker 1 10.0.0.2 ssh=20000 http=20001",
    ]


def a_big_job(tasks: int) -> JobView:
    ports = {"ssh": (20000,), "http": (20001,), "rendezvous": (20002,)}
    workers = (Peer("Worker_role", index, f"10.0.{index >> 8}.{index & 255}", ports) for index in range(tasks))
    peers = (Peer("chief", 0, "10.1.0.1", ports), *workers)
    return JobView("ada", "big", "default", (a_role("Worker_role", tasks), a_role("chief")), peers)


def test_a_job_of_five_hundred_tasks_gets_every_variable() -> None:
    message = whole(JobEnvironment(a_big_job(500)), Self("Worker_role", 499))
    assert message["PAI_HOST_IP_Worker_role_498"] == "10.0.1.242"
    assert message["PAI_TASK_ROLE_Worker_role_HOST_LIST"].count(",") == 499


def test_ten_thousand_tasks_stay_within_what_a_system_lets_start() -> None:
    environment = JobEnvironment(a_big_job(10_000))
    message = whole(environment, Self("Worker_role", 9_999))
    sizes = [len(f"{name}={value}") + 1 + 8 for name, value in message.items()]
    assert sum(sizes) < BYTES_MAX
    assert max(sizes) < STRING_BYTES_MAX
    assert message["PAI_HOST_IP_chief_0"] == "10.1.0.1"
    assert message["PAI_HOST_IP_Worker_role_0"] == "10.0.0.0"
    # A shell reads all of it each time it starts: more than the first few tasks would cost seconds for each task.
    assert len(message) < 1_000
    assert message["PAI_HOST_IP_Worker_role_9999"] == message["PAI_CONTAINER_HOST_IP"] == "10.0.39.15"
    assert "PAI_TASK_ROLE_Worker_role_HOST_LIST" not in message
    assert len(environment.hosts.splitlines()) == 10_001


@pytest.mark.parametrize("tasks", [1, 7, 500, 3_000])
def test_shared_and_own_variables_make_up_what_each_task_always_got(tasks: int) -> None:
    view = a_big_job(tasks)
    environment = JobEnvironment(view)
    for index in {0, tasks // 2, tasks - 1}:
        alone = JobView(view.user, view.job_name, view.virtual_cluster, view.roles, (view.peers[index + 1],))
        task = Self("Worker_role", index)
        own = environment.of(task)
        message = whole(environment, task)
        # What concerns nobody but the task itself is said whether its peers are known or not.
        about_itself = {
            name: value
            for name, value in whole(JobEnvironment(alone), task).items()
            if not name.startswith("PAI_TASK_ROLE_")
        }
        assert len(about_itself) > 20
        assert {name: message.get(name) for name in about_itself} == about_itself
        assert message.keys() == environment.shared.keys() | own.keys()
        assert {name: message[name] for name in own} == own
        assert {name: message[name] for name in environment.shared if name not in own} == {
            name: value for name, value in environment.shared.items() if name not in own
        }


def test_a_task_does_not_get_once_more_what_its_peers_know_of_it() -> None:
    environment = JobEnvironment(a_big_job(3_000))
    known, unknown = environment.of(Self("Worker_role", 1)), environment.of(Self("Worker_role", 2_999))
    assert "PAI_HOST_IP_Worker_role_1" in environment.shared
    assert "PAI_HOST_IP_Worker_role_1" not in known
    assert unknown["PAI_HOST_IP_Worker_role_2999"] == unknown["PAI_CONTAINER_HOST_IP"]


def test_what_only_one_task_gets_does_not_grow_with_the_number_of_its_peers() -> None:
    few, many = JobEnvironment(a_big_job(2)), JobEnvironment(a_big_job(5_000))
    task = Self("Worker_role", 1)
    assert few.of(task).keys() == many.of(task).keys()
    assert len(many.shared) > 10 * len(many.of(task))


def test_the_variables_of_tasks_that_wait_for_their_turn_take_little_memory() -> None:
    view = a_job()
    peers = tuple(Peer("worker", index, "10.0.0.1", {"ssh": (20000,), "http": (20001,)}) for index in range(1000))
    environment, own = JobEnvironment(replace(view, peers=peers)), {"TOKEN": "t"}
    tracemalloc.start()
    waiting = [TaskVariables(environment, Self("worker", index), own) for index in range(1000)]
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert taken < 250_000
    assert waiting[7] == {**environment.of(Self("worker", 7)), **own}


def test_a_name_that_no_task_can_have_is_missed_without_working_out_the_variables() -> None:
    environment, task = JobEnvironment(a_job()), Self("worker", 1)
    names = environment.of(task).keys()
    variables = TaskVariables(environment, task, {"TOKEN": "t"})
    assert all(name in variables for name in (*names, "TOKEN"))
    assert "PAI_OTHER" not in variables
    tracemalloc.start()
    others = [TaskVariables(environment, task, {}) for _ in range(1000)]
    assert not any("SIMULATED_RUN_S" in other for other in others)
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert taken < 250_000


def test_the_variables_of_a_task_that_is_no_peer_are_missed_before_it_is_launched() -> None:
    with pytest.raises(KeyError):
        TaskVariables(JobEnvironment(a_job()), Self("worker", 2), {})
