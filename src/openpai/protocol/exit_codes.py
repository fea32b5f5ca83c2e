"""The exit-code table: what each way of ending means, who caused it, and what to do about it.

Every page, answer and retry decision about a failure uses a row of this table. Codes and phrases are OpenPAI's, so that
existing scripts keep working; the sentences are our own and apply to every backend. Pages list the rows in this order.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

_SUCCESS: Final = "USER_SUCCESS"
_STOP: Final = "USER_STOP"
_USER: Final = "USER_FAILURE"
_PLATFORM: Final = "PLATFORM_FAILURE"
_TIMEOUT: Final = "RESOURCE_ALLOCATION_TIMEOUT"
_UNKNOWN: Final = "UNKNOWN_FAILURE"

_SUB: Final = "SUBMISSION"
_ALL: Final = "ALLOCATION"
_LAU: Final = "LAUNCHING"
_RUN: Final = "RUNNING"
_COM: Final = "COMPLETING"
_UNK: Final = "UNKNOWN"

_T: Final = "TRANSIENT"
_TC: Final = "TRANSIENT_CONFLICT"
_P: Final = "PERMANENT"
_U: Final = "UNKNOWN"

_WAIT: Final = "Wait: the platform tries again by itself."
RETRY_ADVICE: Final = "Set jobRetryCount when a further try may help."
_ADMIN: Final = "If it keeps happening, inform the cluster's administrator."
_DEVELOPERS: Final = "Report it to the developers of the platform, with the job's events."
_LOG: Final = "Read the end of the task's log."
_EVENTS: Final = "Read the job's events: they carry the system's own message."
_QUOTE: Final = "Read the quoted line, and in the task's log the lines before it."
_FIX: Final = "Mend the program and submit the job again."


_REACTION_OF: Final = {
    _T: "ALWAYS_RETRY",
    _TC: "ALWAYS_BACKOFF_RETRY",
    _P: "NEVER_RETRY",
    _U: "RETRY_TO_MAX",
}


class ExitSpec(NamedTuple):
    """One row of the table; `solution` is the advice."""

    code: int
    phrase: str
    parties: str
    """What reports the end, and after a slash what caused it: USER_CONTAINER, PAI_RUNTIME, PAI_OS, USER_STOP, ..."""
    type: str
    """USER_SUCCESS, USER_STOP, USER_FAILURE, PLATFORM_FAILURE, RESOURCE_ALLOCATION_TIMEOUT or UNKNOWN_FAILURE."""
    stage: str
    """SUBMISSION, ALLOCATION, LAUNCHING, RUNNING, COMPLETING or UNKNOWN."""
    behavior: str
    """TRANSIENT, TRANSIENT_CONFLICT, PERMANENT or UNKNOWN: what it means for retries."""
    reason: str
    repro: str
    solution: tuple[str, ...]

    @property
    def reaction(self) -> str:
        """Return ALWAYS_RETRY, ALWAYS_BACKOFF_RETRY, NEVER_RETRY or RETRY_TO_MAX."""
        return "NEVER_RETRY" if self.code == 0 else _REACTION_OF[self.behavior]


# fmt: off
ROWS: Final[tuple[ExitSpec, ...]] = (
    ExitSpec(0, "Succeeded", "USER_CONTAINER/USER_CONTAINER", _SUCCESS, _COM, _U,
        "The program ended well.", "Run a program that returns 0.", ()),
    ExitSpec(-100, "ConfigMapExternalDeleted", "PAI_FC/PAI_UNKNOWN", _PLATFORM, _UNK, _T,
        "The record of this attempt was removed by another program.", "Remove the record by hand.", (_WAIT, _ADMIN)),
    ExitSpec(-101, "PodExternalDeleted", "PAI_FC/PAI_UNKNOWN", _PLATFORM, _UNK, _T,
        "The task vanished and left no report: its node is gone, or it was removed by hand.",
        "Remove a running task behind the platform's back.", (_WAIT, _ADMIN)),
    ExitSpec(-110, "ConfigMapLocalCacheCreationTimeout", "PAI_FC/PAI_UNKNOWN", _PLATFORM, _LAU, _T,
        "The record of this attempt did not show up in time.", "Stop the cluster's API server right after creation.",
        (_WAIT, _ADMIN)),
    ExitSpec(-111, "PodLocalCacheCreationTimeout", "PAI_FC/PAI_UNKNOWN", _PLATFORM, _LAU, _T,
        "The task was created but did not show up in time.", "Stop the cluster's API server right after creation.",
        (_WAIT, _ADMIN)),
    ExitSpec(-120, "PodCreationTransientError", "PAI_FC/PAI_UNKNOWN", _PLATFORM, _LAU, _T,
        "The task could not be started just then.", "Stop the node's container service right before the start.",
        (_WAIT, _ADMIN)),
    ExitSpec(-200, "PodCreationPermanentError", "PAI_FC/USER_SUBMISSION", _USER, _SUB, _P,
        "The task cannot be started as it was asked for.", "Ask for a container setting that the system refuses.",
        (_EVENTS, "Change the job file accordingly and submit it again.")),
    ExitSpec(-210, "StopFrameworkRequested", "PAI_FC/USER_STOP", _STOP, _UNK, _P,
        "A user asked for the job to be stopped.", "Stop a running job.", ()),
    ExitSpec(-220, "FrameworkAttemptCompletion", "PAI_FC/USER_STOP", _STOP, _UNK, _P,
        "The task was ended because the job's attempt was over.",
        "Let one task role finish the job while another still runs.", ()),
    ExitSpec(-230, "DeleteTaskRequested", "PAI_FC/USER_SCALEDOWN", _STOP, _UNK, _P,
        "The task is no longer wanted: its task role became smaller.", "Reduce a task role's instances.", ()),
    ExitSpec(-240, "DependencyNeverMet", "PAI_OPENPAI/DEPENDENCY", _STOP, _UNK, _P,
        "A job that this one waits for ended otherwise than it was to end, so this one was not started.",
        "Submit a job with `after: [other]`, and stop the other one.",
        ("Start the other job again, and then this one: pai job start.",
         "To run it however the other one ends, submit it with `until: ended`.")),
    ExitSpec(-300, "PodFailedWithoutFailedContainer", "PAI_FC/UNKNOWN", _UNKNOWN, _LAU, _U,
        "The task failed although no container of it did.", "Submit a job that the node's agent rejects.",
        (_EVENTS, RETRY_ADVICE, _ADMIN)),
    ExitSpec(-310, "PodCreationUnknownError", "PAI_FC/UNKNOWN", _UNKNOWN, _LAU, _U,
        "The task could not be started and the system did not say clearly why.",
        "Remove something the task needs right after submission.", (_EVENTS, RETRY_ADVICE, _ADMIN)),
    ExitSpec(-1000, "PodEvicted", "PAI_K8S/PAI_K8S", _PLATFORM, _RUN, _T,
        "The cluster ended the task to free its node, which was drained or ran short of memory or disk.",
        "Use up a node's memory outside of any job.",
        (_WAIT, _ADMIN)),
    ExitSpec(-1001, "PodNodeLost", "PAI_K8S/PAI_K8S", _PLATFORM, _RUN, _T,
        "The node the task ran on was lost.", "Stop the node's agent.", (_WAIT, _ADMIN)),
    ExitSpec(-1002, "PodScheduledToInsufficientResourceNode", "PAI_K8S/PAI_K8S", _PLATFORM, _LAU, _T,
        "The node found that it had less to give than was planned.", "Bind a task to a node that is too small.",
        (_WAIT, _ADMIN)),
    ExitSpec(-1003, "PodPreemptedForCriticalPod", "PAI_K8S/PAI_K8S", _PLATFORM, _RUN, _T,
        "The node needed the room for a service of the system.", "Start a large service of the system on a full node.",
        (_WAIT, _ADMIN)),
    ExitSpec(-1004, "PodDeadlineExceeded", "PAI_K8S/USER_STOP", _STOP, _RUN, _P,
        "It ran for as long as its time limit allows.", "Give a job a time limit shorter than its work.",
        ("Raise timeLimitMinutes, do less in one job, or save the work when SIGTERM comes and go on in another.",)),
    ExitSpec(-1005, "PodNodeAdmissionForbidden", "PAI_K8S/USER_SUBMISSION", _USER, _LAU, _P,
        "The node does not allow what the task asks for.", "Ask for a privileged task where none is allowed.",
        (_EVENTS, "Ask for less privilege, or ask the cluster's administrator to allow it.")),
    ExitSpec(-1006, "PodNodeAdmissionUnexpectedError", "PAI_K8S/PAI_K8S", _PLATFORM, _LAU, _T,
        "The node had trouble of its own when it was to take the task.", "Break the node's agent for a moment.",
        (_WAIT, _ADMIN)),
    ExitSpec(-1100, "CreateFrameworkPermanentFailed", "PAI_DB_CONTROLLER/USER_SUBMISSION", _USER, _SUB, _P,
        "The job was recorded, but the cluster refuses it for good.", "Submit a job with a very large configuration.",
        (_EVENTS, "Make the job smaller or simpler and submit it again.")),
    ExitSpec(-1300, "InitContainerDockerOOMKilled", "PAI_DOCKER/PAI_RUNTIME", _PLATFORM, _LAU, _T,
        "Preparing the task took more memory than it may use.", "Let the preparation step use too much memory.",
        (_WAIT, _ADMIN)),
    ExitSpec(-1200, "UserContainerDockerOOMKilled", "PAI_DOCKER/USER_CONTAINER", _USER, _RUN, _P,
        "The task used more memory than it asked for and was killed.", "Use more than resourcePerInstance.memoryMB.",
        ("Ask for more memoryMB.", "Use less memory, say by smaller batches.", "Spread the work over more tasks.")),
    ExitSpec(-1201, "ContainerDockerCreationError", "PAI_DOCKER/UNKNOWN", _UNKNOWN, _LAU, _U,
        "The container could not be made.", "Start a container from an image that is broken.",
        (_EVENTS, RETRY_ADVICE, _ADMIN)),
    ExitSpec(-1202, "ContainerDockerStartCmdPermissionDenied", "PAI_DOCKER/PAI_RUNTIME", _PLATFORM, _LAU, _P,
        "The container's first command may not be executed.", "Start a container with a directory as its command.",
        (_DEVELOPERS,)),
    ExitSpec(-1203, "ContainerDockerStartCmdNotFound", "PAI_DOCKER/PAI_RUNTIME", _PLATFORM, _LAU, _P,
        "The container's first command does not exist in the image.", "Use an image that has no shell.",
        ("Use an image that contains /bin/sh.", _DEVELOPERS)),
    ExitSpec(-1204, "ContainerDockerStartUnknownError", "PAI_DOCKER/UNKNOWN", _UNKNOWN, _LAU, _U,
        "The container was made but could not be started.", "Ask for a capability that does not exist.",
        (_EVENTS, RETRY_ADVICE, _ADMIN)),
    ExitSpec(-1205, "ContainerGpuDeviceNotFoundError", "PAI_DOCKER/PAI_HW", _PLATFORM, _LAU, _T,
        "A GPU that was granted to the task is not there.", "Grant the fourth GPU of a node that has three.",
        (_WAIT, _ADMIN)),
    ExitSpec(-1206, "UserContainerDiskLimitExceeded", "PAI_OS/USER_CONTAINER", _USER, _RUN, _P,
        "The task put more into its working directory and its container than a task may and was ended.",
        "Write without end to a file in the working directory.",
        ("Write large files to a storage.", "Remove what is not needed any more, such as old checkpoints.",
         "An administrator can let tasks use more: pai up --work-max-mb.")),
    ExitSpec(128, "ContainerMayFailDueToGpuDeviceEccError", "USER_CONTAINER/PAI_HW", _PLATFORM, _RUN, _U,
        "The task failed on a node whose GPUs report memory errors.", "Run on a GPU with double-bit ECC errors.",
        (RETRY_ADVICE, _ADMIN)),
    ExitSpec(130, "ContainerSigIntReceived", "PAI_OS/PAI_OS", _PLATFORM, _RUN, _T,
        "The program was interrupted from outside (SIGINT).", "Send the program SIGINT.", (_WAIT, _ADMIN)),
    ExitSpec(131, "ContainerSigQuitReceived", "PAI_OS/PAI_OS", _PLATFORM, _RUN, _T,
        "The program was made to quit from outside (SIGQUIT).", "Send the program SIGQUIT.", (_WAIT, _ADMIN)),
    ExitSpec(132, "ContainerSigIllReceived", "USER_CONTAINER/USER_CONTAINER", _USER, _RUN, _P,
        "The program used an instruction this processor does not know (SIGILL).",
        "Run a program built for a newer processor.", (_LOG, "Build the program for the cluster's processors.")),
    ExitSpec(134, "ContainerSigAbrtReceived", "USER_CONTAINER/UNKNOWN", _UNKNOWN, _RUN, _U,
        "The program aborted itself (SIGABRT).", "Call abort().", (_LOG, RETRY_ADVICE)),
    ExitSpec(135, "ContainerSigBusReceived", "USER_CONTAINER/USER_CONTAINER", _USER, _RUN, _P,
        "The program reached memory it cannot have (SIGBUS); a full /dev/shm does this too.",
        "Fill the shared memory from data-loading workers.",
        (_LOG, "Ask for more extraContainerOptions.shmMB.", _FIX)),
    ExitSpec(136, "ContainerSigFpeReceived", "USER_CONTAINER/USER_CONTAINER", _USER, _RUN, _P,
        "The program calculated something impossible (SIGFPE).", "Divide an integer by zero in C.", (_LOG, _FIX)),
    ExitSpec(137, "ContainerSigKillReceived", "PAI_OS/PAI_OS", _PLATFORM, _RUN, _T,
        "The program was killed from outside (SIGKILL), often because memory ran out.", "Send the program SIGKILL.",
        (_WAIT, "If it happens each time, ask for more memoryMB.", _ADMIN)),
    ExitSpec(139, "ContainerSigSegvReceived", "USER_CONTAINER/UNKNOWN", _UNKNOWN, _RUN, _U,
        "The program touched memory that is not its own (SIGSEGV).", "Follow a null pointer.", (_LOG, _ADMIN)),
    ExitSpec(141, "ContainerSigPipeReceived", "USER_CONTAINER/USER_CONTAINER", _USER, _RUN, _P,
        "The program wrote to a pipe without a reader (SIGPIPE).", "Run `yes | true` with pipefail.", (_LOG, _FIX)),
    ExitSpec(143, "ContainerSigTermReceived", "PAI_OS/PAI_OS", _PLATFORM, _RUN, _T,
        "The program was asked to end from outside (SIGTERM).", "Send the program SIGTERM.", (_WAIT, _ADMIN)),
    ExitSpec(220, "UserCommandExitWithError", "USER_CONTAINER/USER_CONTAINER", _USER, _RUN, _P,
        "A command of the job does not exist or may not be executed.", "Submit a job whose command is misspelt.",
        ("Check the command's spelling.", "Check that the image contains it and that PATH leads to it.")),
    ExitSpec(221, "ContainerTensorflowOOMKilled", "PAI_RUNTIME/USER_CONTAINER", _USER, _RUN, _P,
        "TensorFlow ran out of memory.", "Train a model larger than the memory asked for.",
        ("Ask for more memory or a larger GPU.", "Use smaller batches or a smaller model.")),
    ExitSpec(222, "ContainerMPISegvFault", "PAI_RUNTIME/USER_CONTAINER", _USER, _RUN, _P,
        "An MPI program touched memory that is not mapped.", "Follow a wild pointer in an MPI program.", (_LOG, _FIX)),
    ExitSpec(223, "ContainerCudaUncorrectableECCError", "PAI_RUNTIME/PAI_HW", _PLATFORM, _RUN, _T,
        "A GPU reported a memory error it could not correct.", "Run on a broken GPU.", (_WAIT, _ADMIN)),
    ExitSpec(224, "ContainerCudaVersionMismatch", "PAI_RUNTIME/USER_CONTAINER", _USER, _RUN, _P,
        "The image's CUDA is newer than the node's driver can serve.", "Use CUDA 12 on a driver made for CUDA 11.",
        ("Use an image with an older CUDA.", "Ask the cluster's administrator for a newer driver.")),
    ExitSpec(225, "ContainerCudaDnnVersionMismatch", "PAI_RUNTIME/USER_CONTAINER", _USER, _RUN, _P,
        "The framework and the image's cuDNN do not belong together.", "Install a new framework over an old cuDNN.",
        ("Use an image whose framework and cuDNN were built for each other.",)),
    ExitSpec(226, "ContainerCudaOOMKilled", "PAI_RUNTIME/USER_CONTAINER", _USER, _RUN, _P,
        "The GPU's memory ran out.", "Allocate more than the GPU holds.",
        ("Use smaller batches, gradient accumulation or lower precision.", "Ask for a GPU with more memory.")),
    ExitSpec(228, "ContainerIncorrectParameterError", "PAI_RUNTIME/USER_CONTAINER", _USER, _RUN, _P,
        "The program was called with a parameter it does not take.", "Pass an option that does not exist.",
        (_LOG, "Correct the parameter and submit the job again.")),
    ExitSpec(229, "ContainerIncorrectDataModelError", "PAI_RUNTIME/USER_CONTAINER", _USER, _RUN, _P,
        "A data or model file is missing or not in the format the program expects.", "Open a file that does not exist.",
        (_LOG, "Correct the path or the file and submit the job again.")),
    ExitSpec(230, "ContainerInvalidSavePath", "PAI_RUNTIME/USER_CONTAINER", _USER, _RUN, _P,
        "The path to restore a model from does not hold one.", "Restore a checkpoint from an empty directory.",
        ("Correct the path and submit the job again.",)),
    ExitSpec(231, "ContainerSyntaxError", "PAI_RUNTIME/USER_CONTAINER", _USER, _RUN, _P,
        "The program's own code has an error.", "Run a Python file with a syntax error.", (_LOG, _FIX)),
    ExitSpec(232, "ContainerImportError", "PAI_RUNTIME/USER_CONTAINER", _USER, _RUN, _P,
        "A module the program imports is not there or does not load.", "Import a module the image lacks.",
        ("Install the module in the image or in the job's commands.", _FIX)),
    ExitSpec(233, "ContainerIndexOutOfRange", "PAI_RUNTIME/USER_CONTAINER", _USER, _RUN, _P,
        "The program read past the end of a list or array.", "Read the fourth item of three.", (_LOG, _FIX)),
    ExitSpec(234, "ContainerSigvFault", "PAI_RUNTIME/USER_CONTAINER", _USER, _RUN, _P,
        "A process of the task touched memory that is not its own.", "Follow a null pointer in a child process.",
        (_LOG, _FIX)),
    ExitSpec(235, "ContainerEngineCoreDump", "PAI_RUNTIME/USER_CONTAINER", _USER, _RUN, _P,
        "A process of the task crashed and dumped its memory.", "Call abort() in a child process.", (_LOG, _FIX)),
    ExitSpec(236, "ContainerUncaughtException", "PAI_RUNTIME/USER_CONTAINER", _USER, _RUN, _U,
        "The program ended with an exception that it did not handle.", "Raise a ValueError.",
        (_QUOTE, _FIX, RETRY_ADVICE)),
    ExitSpec(237, "ContainerErrorReported", "PAI_RUNTIME/UNKNOWN", _UNKNOWN, _RUN, _U,
        "The program reported an error and failed.", "Read a file that does not exist with cat.",
        (_QUOTE, "Mend what it names and submit the job again.", RETRY_ADVICE)),
    ExitSpec(238, "ContainerScriptNotFound", "USER_CONTAINER/USER_CONTAINER", _USER, _RUN, _P,
        "The file that a program should run is not where the task looked for it.",
        "Run python with a misspelt file.",
        ("Check the spelling of the path, and the directory that the command runs in.",
         "Check that the file comes along: by `pai run`, in a storage, in the image, or fetched by a command.")),
    ExitSpec(239, "ContainerGpuHardwareFailed", "PAI_OS/PAI_HW", _PLATFORM, _RUN, _T,
        "A GPU or its link failed.", "Pull a GPU out of a running node.", (_WAIT, _ADMIN)),
    ExitSpec(240, "ContainerPeerFailed", "USER_CONTAINER/UNKNOWN", _UNKNOWN, _RUN, _U,
        "The task waited in vain for another task, or lost its connection to it.",
        "Kill one task of a distributed training.",
        ("Look for a task that failed first, or that stands still.", RETRY_ADVICE)),
    ExitSpec(241, "ContainerNetworkFailed", "USER_CONTAINER/PAI_OS", _PLATFORM, _RUN, _U,
        "The task could not reach another host.", "Download from a host that does not exist.",
        (_QUOTE, "Check the address that it names.", RETRY_ADVICE, _ADMIN)),
    ExitSpec(242, "ContainerDiskFull", "USER_CONTAINER/PAI_OS", _PLATFORM, _RUN, _U,
        "A disk that the task writes to is full.", "Fill a storage.",
        ("Remove what is not needed any more, such as old checkpoints.", "Write large files to another storage.",
         RETRY_ADVICE, _ADMIN)),
    ExitSpec(245, "ContainerStorageFailed", "USER_CONTAINER/PAI_OS", _PLATFORM, _RUN, _U,
        "A storage could not be mounted, or stopped answering.", "Stop a file server while a job reads from it.",
        (_QUOTE, RETRY_ADVICE, _ADMIN)),
    ExitSpec(246, "ContainerGpuNotUsable", "USER_CONTAINER/UNKNOWN", _PLATFORM, _RUN, _U,
        "The program cannot see or use a GPU.", "Train on a GPU in a job that asks for none.",
        ("Ask for a GPU in resourcePerInstance.", "Use an image whose framework was built for GPUs.", RETRY_ADVICE,
         _ADMIN)),
    ExitSpec(249, "PAIRuntimeSSHBarrierTimeout", "PAI_RUNTIME/PAI_RUNTIME", _PLATFORM, _RUN, _P,
        "The task waited in vain for the others to answer by SSH.", "Use the SSH barrier in one task role only.",
        ("Enable the ssh plugin for every task role.", "Use an image that can run an SSH server.")),
    ExitSpec(250, "FrameworkBarrierTransientFailed", "PAI_RUNTIME/PAI_RUNTIME", _PLATFORM, _LAU, _T,
        "The task could not learn where the others are, for a passing reason.",
        "Cut the network for a moment at start.", (_WAIT, _ADMIN)),
    ExitSpec(251, "JobGangAllocationTimeout", "PAI_RUNTIME/RESOURCE_ALLOCATION_TIMEOUT", _TIMEOUT, _ALL, _TC,
        "Not all tasks of the job got their resources in time.", "Ask for more than the virtual cluster has free.",
        (_WAIT, "Ask for fewer tasks or less for each.", "Ask for more quota for the virtual cluster.")),
    ExitSpec(252, "FrameworkBarrierPermanentFailed", "PAI_RUNTIME/PAI_RUNTIME", _PLATFORM, _LAU, _P,
        "The task could not learn where the others are, for a lasting reason.", "Give the barrier a wrong setting.",
        (_DEVELOPERS,)),
    ExitSpec(253, "ContainerPortConflict", "PAI_RUNTIME/PAI_RUNTIME", _PLATFORM, _LAU, _T,
        "A port that was given to the task is used by a stranger.", "Occupy the node's ports outside of any job.",
        (_WAIT, "Ask for fewer ports.", _ADMIN)),
    ExitSpec(254, "ContainerImageNotExists", "PAI_RUNTIME/PAI_RUNTIME", _USER, _LAU, _P,
        "The image does not exist, or its registry wants credentials.", "Misspell the image's uri.",
        ("Check the image's uri.", "Give the registry's credentials in the prerequisite's auth.")),
    ExitSpec(255, "PAIRuntimeUnknownFailed", "PAI_RUNTIME/UNKNOWN", _UNKNOWN, _UNK, _U,
        "The program failed, and its log does not say why.", "Run a program that returns 1.",
        (_LOG, RETRY_ADVICE)),
    ExitSpec(-8000, "ContainerUndefinedNegativeExitCode", "UNKNOWN/UNKNOWN", _UNKNOWN, _UNK, _U,
        "The task ended with a code that is not in the table.", "Remove a negative code from the table.",
        (_DEVELOPERS,)),
    ExitSpec(256, "PAIRuntimeExitAbnormally", "PAI_RUNTIME/PAI_RUNTIME", _PLATFORM, _UNK, _U,
        "The task ended with a code that is not in the table.", "Let the platform's own script fail.",
        (_DEVELOPERS,)),
)
# fmt: on
UNLISTED_POSITIVE: Final = 256
UNLISTED_NEGATIVE: Final = -8000
EXIT_SPECS: Final[Mapping[int, ExitSpec]] = MappingProxyType({row.code: row for row in ROWS})


def spec_for(code: int) -> ExitSpec:
    """Return the row of a code; an unlisted code gets the row for unlisted codes, with its own number."""
    spec = EXIT_SPECS.get(code)
    if spec is not None:
        return spec
    return EXIT_SPECS[UNLISTED_POSITIVE if code > 0 else UNLISTED_NEGATIVE]._replace(code=code)
