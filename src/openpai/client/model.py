"""The answers of the platform as frozen values, written from `openpai.wire` by `make docs`.

Names are in snake case and times are milliseconds since the epoch. Fields that a newer server adds are in `document`,
the unchanged answer, which `--json` prints.
"""

# ruff: noqa: PLC0414
from openpai.client import behaviour
from openpai.client import reading as field
from openpai.client.reading import Answer
from openpai.client.reading import LogPiece as LogPiece


class Alert(behaviour.Alert, Answer):
    """Something that needs attention, in Alertmanager's shape."""

    labels = field.mapping("labels")
    next = field.text("annotations", "next")
    """What to do next."""
    since = field.text("startsAt")
    ends_at = field.text("endsAt")
    state = field.text("status", "state")
    """Suppressed: a silence holds for it."""
    silenced_by = field.texts("status", "silencedBy")
    fingerprint = field.text("fingerprint")


class AlertAction(Answer):
    """Something that an alert did."""

    at_ms = field.amount("time")
    rule = field.text("rule")
    action = field.text("action")
    target = field.text("target")
    state = field.text("state")
    """Limited: a limit prevented it; dry: the rule only records."""
    detail = field.text("detail")
    """What became of it."""
    fingerprint = field.text("fingerprint")


class AlertChannel(Answer):
    """A way by which messages leave the platform; its credentials are never returned."""

    name = field.text("name")
    kind = field.text("kind")
    data = field.mapping("data")
    secrets = field.texts("secrets")
    """Whether there are credentials: `sealed`."""
    changed_by = field.text("changedBy")
    changed_at_ms = field.number("changedTime")


class AlertMessage(Answer):
    """A message in the outbox."""

    id = field.amount("id")
    channel = field.text("channel")
    subject = field.text("subject")
    state = field.text("state")
    tries = field.amount("tries")
    """How often it was sent."""
    created_at_ms = field.amount("createdTime")
    next_at_ms = field.amount("nextTime")
    """When it is sent next."""
    error = field.text("error")
    """Why it was not delivered."""


class Revised(Answer):
    """The last change of something that the platform comes with or an administrator added."""

    changed_by = field.text("changedBy")
    """The user who changed it last, if it was changed."""
    changed_at_ms = field.number("changedTime")
    is_outdated = field.flag("outdated")
    """Whether the bundled one is newer than the change."""
    revision = field.amount("revision")
    """That of its last change; 0 if it was never changed."""


class AlertRule(Revised):
    """An alert rule."""

    name = field.text("name")
    origin = field.text("origin")
    """Where it comes from."""
    severity = field.text("severity")
    expr = field.text("expr")
    for_s = field.amount("forSeconds")
    """How long the condition must hold."""
    actions = field.texts("actions")
    """What an alert does."""
    notify = field.texts("notify")
    """The channels and users that are notified."""
    is_enabled = field.flag("enabled")
    """Whether it is evaluated."""
    is_dry = field.flag("dryRun")
    """Whether its actions are only recorded."""
    rule_text = field.text("text")
    """The rule as YAML."""
    bundled = field.text("bundled")
    """The bundled rule, if there is one."""
    problem = field.text("problem")
    """Why it could not be evaluated or act lately."""


class Revision(behaviour.Revision, Answer):
    """One change."""

    revision = field.amount("revision")
    name = field.text("name")
    at_ms = field.amount("time")
    user = field.text("user")
    reason = field.text("reason")


class AlertRuleChange(Revision):
    """One change of an alert rule."""

    action = field.text("action")
    rule_text = field.text_if_any("text")
    """As it was afterwards; None: as bundled, or none."""


class PastAlert(Answer):
    """An alert that a rule would have had."""

    labels = field.mapping("labels")
    summary = field.text("summary")
    fired_at_ms = field.number("firedTime")
    resolved_at_ms = field.number("resolvedTime")
    value = field.real("value")


class PastAction(Answer):
    """An action that a rule would have carried out."""

    at_ms = field.amount("time")
    action = field.text("action")
    target = field.text("target")
    refused = field.text("refused")
    """The limit that would have prevented it."""


class AlertRuleTest(Answer):
    """What a rule would have done in the past."""

    from_ms = field.amount("fromTime")
    to_ms = field.amount("toTime")
    step_s = field.real("stepSeconds")
    """How far the evaluations are apart."""
    evaluations = field.amount("evaluations")
    alerts = field.parts(PastAlert, "alerts")
    """Those that would have fired, the oldest first."""
    actions = field.parts(PastAction, "actions")
    """What they would have done."""
    unknown = field.texts("unknown")
    """Values of which no past is kept."""
    problem = field.text("problem")
    """Why it could not be evaluated."""
    is_cut = field.flag("cut")
    """Whether alerts or jobs were left out because there are too many."""


class Announcement(Answer):
    """What administrators tell all users for a time."""

    id = field.text("id")
    text = field.text("text")
    level = field.text("level")
    from_ms = field.amount("fromTime")
    """Shown from then on."""
    to_ms = field.number("toTime")
    """Until then; None: until it is removed."""
    by = field.text("by")
    state = field.text("state")


class ApplicationTicket(Answer):
    """The address of an application, for one browser."""

    uri = field.text("uri")
    """Opens the application in one browser without a login, once, with the rights of the user who requested it."""
    expires_at_ms = field.amount("expiresAt")


class AuditEntry(Answer):
    """One request that changed something, or tried to."""

    id = field.amount("id")
    at_ms = field.amount("time")
    actor = field.text("actor")
    action = field.text("action")
    target = field.text("target")
    owner = field.text("owner")
    via = field.text("via")
    address = field.text("address")
    status = field.amount("status")
    detail = field.mapping("detail")


class AuditPage(Answer):
    """Entries, newest first."""

    needed = ("entries",)
    entries = field.parts(AuditEntry, "entries")
    next = field.number("next")
    """`before` of the next page."""


class Budget(Answer):
    """The GPU hours that a user, a group or a virtual cluster may use in a period, and those that are used."""

    kind = field.text("kind")
    """Whose use it counts."""
    name = field.text("name")
    """Name of the user, the group or the virtual cluster."""
    period = field.text("period")
    """After which time it renews, in UTC."""
    gpu_hours = field.real("gpuHours")
    warn_at = field.measures("warnAt")
    """Shares of the hours at which a warning is sent."""
    stops = field.text("stops")
    """Which accepted jobs with GPUs are stopped once it is used up."""
    notice_minutes = field.real("noticeMinutes")
    """How long before a stop its user is notified."""
    contact = field.text("contact")
    """Whom to ask for more."""
    gpu_hours_used = field.real("gpuHoursUsed")
    """In the present period, those of running jobs until now."""
    renews_at_ms = field.number("renewsAt")
    """When it renews; None: never."""
    used_up_at_ms = field.number("usedUpAt")
    """When the platform noticed that it is used up; None: it is not."""


class Checked(Answer):
    """The user and scope of a token; times are in seconds, as in a JWT."""

    needed = ("username",)
    user = field.text("username")
    is_application = field.flag("application")
    expires_at_s = field.amount("exp")
    """Missing if it never expires."""
    is_admin = field.flag("admin")
    scope = field.text("scope")


class Estimate(Answer):
    """When a waiting job may start."""

    earliest_ms = field.number("earliestTime")
    latest_ms = field.number("latestTime")
    basis = field.text("basis")
    """Basis of the estimate."""
    judged = field.amount("judged")
    """How many of the latest starts in its virtual cluster were estimated."""
    within = field.amount("within")
    """How many of these were within the range."""


class Lent(Answer):
    """Resources of a virtual cluster that jobs of another one use without a guarantee."""

    virtual_cluster = field.text("virtualCluster")
    """The one that uses them."""
    gpus = field.amount("gpu")
    cpus = field.amount("cpu")


class Wait(Answer):
    """One reason why a job waits."""

    code = field.text("code")
    message = field.text("message")
    unblock = field.text("unblock")
    """What would change that."""
    ahead = field.texts("ahead")
    """Jobs ahead of it."""
    position = field.number("position")
    estimate = field.part_if_any(Estimate, "estimate")
    more = field.amount("more")
    """How many more tasks of the job wait for the same reason, after this one."""
    lent = field.parts(Lent, "lent")
    """What others use of its virtual cluster, or of what is reserved for it."""
    lent_back_s = field.real("lentBackSeconds")
    """Within which a job that needs it gets that back."""
    is_interruptible = field.flag("interruptible")
    """Whether it may borrow idle resources, and be preempted there."""


class CheckedJob(behaviour.CheckedJob, Answer):
    """A job file that could be submitted."""

    name = field.text("name")
    virtual_cluster = field.text("virtualCluster")
    gpus_total = field.amount("totalGpuNumber")
    warnings = field.texts("warnings")
    """Settings that do not have the expected effect."""
    waits = field.parts(Wait, "waits")
    """Why it would wait if it were submitted now; empty if it would start, None where that is not known."""


class ClusterConfig(Answer):
    """The guarantees of virtual clusters."""

    promises = field.text_if_any("promises")
    hived = field.text("hived")
    """A configuration in HiveD's format, YAML."""
    version = field.amount("version")
    problems = field.texts("problems")
    """Guarantees that cannot be kept at the moment."""
    demoted = field.texts("demoted")
    """Jobs that lost their guarantee in the last change."""


class Event(Answer):
    """One event of a job."""

    role = field.text("taskroleName")
    """Empty for the job itself."""
    task = field.text("taskName")
    """Empty for the job itself."""
    index = field.amount("taskIndex")
    """-1 for the job itself."""
    type = field.text("type")
    reason = field.text("reason")
    message = field.text("message")
    first_at_ms = field.moment("firstTimestamp")
    at_ms = field.moment("lastTimestamp")
    node = field.text("sourceHost")


class ExitSpec(Revised):
    """An exit spec with its rules."""

    name = field.text("name")
    origin = field.text("origin")
    """Where it comes from."""
    summary = field.text("summary")
    domain = field.text("domain")
    retry = field.text("retry")
    """Whether another attempt may end better."""
    action = field.text("action")
    """`exclude_node`: the next attempt avoids the node."""
    row = field.number("row")
    """Its row of the exit-code table."""
    rules = field.amount("rules")
    """How many rules find it."""
    problem = field.text("problem")
    """Why this version cannot use the change, so that the bundled one holds."""
    spec = field.mapping("spec")
    """Summary, domain, retry, row, action, advice and rules."""
    bundled = field.mapping_if_any("bundled")
    """The bundled one, if there is one."""


class ExitSpecChange(Revision):
    """One change of an exit spec."""

    action = field.text("action")
    spec = field.mapping_if_any("spec")
    """As it was afterwards; None: as bundled, or none."""


class Cause(behaviour.Cause, Answer):
    """The cause of a failure, as the rules of the failure analysis found it."""

    name = field.text("name")
    """Name of the exit spec; `unknown` if no rule matched."""
    summary = field.text("summary")
    domain = field.text("domain")
    retry = field.text("retry")
    """Whether another attempt may end better."""
    excludes_node = field.flag("excludesNode")
    """Whether the next attempt avoids the node."""
    line = field.text("line")
    """The line that shows it."""
    lines = field.texts("lines")
    """The same with the lines around it."""
    advice = field.texts("advice")


class PastFailure(Answer):
    """A failed job with another cause after an edit."""

    job = field.text("job")
    submitted_at_ms = field.number("submissionTime")
    role = field.text("taskRoleName")
    """The task that failed first, after the edit."""
    index = field.amount("taskIndex")
    before = field.part(Cause, "before")
    after = field.part(Cause, "after")


class ExitSpecTest(Answer):
    """The effect of an edit on a text, and on the newest failed jobs."""

    before = field.part(Cause, "finding", "before")
    after = field.part(Cause, "finding", "after")
    compared = field.amount("compared")
    """Failed jobs that were compared."""
    is_cut = field.flag("cut")
    """Whether jobs were left out because too many logs would be read."""
    changes = field.parts(PastFailure, "changes")
    """Those whose cause would change, newest first."""


class FileView(behaviour.FileView, Answer):
    """A file or a directory."""

    name = field.text("name")
    type = field.text("type")
    size = field.amount("size")
    modified_at_ms = field.number("modifiedTime")


class FilePage(Answer):
    """The entries of a directory."""

    needed = ("entries",)
    storage = field.text("storage")
    path = field.text("path")
    total = field.amount("totalCount")
    files = field.parts(FileView, "entries")


class Group(behaviour.Group, Answer):
    """A group."""

    needed = ("groupname",)
    name = field.text("groupname")
    description = field.text("description")
    external_name = field.text("externalName")
    """Its name at the identity provider."""
    is_admin = field.flag("extension", "acls", "admin")
    virtual_clusters = field.texts("extension", "acls", "virtualClusters")
    managed = field.texts("extension", "acls", "managedVirtualClusters")
    storages = field.texts("extension", "acls", "storageConfigs")


class Holding(Answer):
    """The resources that one job holds."""

    job = field.text("job")
    virtual_cluster = field.text("virtualCluster")
    tasks = field.amount("tasks")
    gpus = field.amount("gpus")
    cpus = field.amount("cpus")
    memory_mb = field.amount("memoryMB")
    devices = field.amounts("devices")
    """Numbers of its GPUs on the node."""
    started_at_ms = field.number("startedTime")
    ends_at_ms = field.number("endsTime")
    """When its time limit ends it."""
    is_ending = field.flag("ending")
    """Whether it is about to end."""


class Held(Answer):
    """The resources that jobs hold."""

    jobs = field.parts(Holding, "jobs")
    other_jobs = field.amount("others", "jobs")
    other_tasks = field.amount("others", "tasks")
    other_gpus = field.amount("others", "gpus")
    other_cpus = field.amount("others", "cpus")


class JobChanges(Answer):
    """Which jobs changed after a number."""

    next = field.amount("next")
    """The number to continue after."""
    jobs = field.texts("jobs")
    """Jobs that the caller may read."""
    others = field.flag("others")
    """Whether jobs changed of which the caller may only see the list."""
    complete = field.flag("complete")
    """False: more changed than is named here, so everything may have."""


class JobHead(Answer):
    """What the list and the detail both say of a job besides its state."""

    id = field.text("debugId")
    name = field.text("name")
    tags = field.texts("tags")
    sweep = field.text("sweep")
    """The sweep that it is a job of, if it is of one."""
    priority = field.text("jobPriority")
    rank = field.amount("rank")
    """Among jobs of equal priority, the higher rank goes first."""
    is_private = field.flag("private")
    archived_at_ms = field.number("archivedTime")
    """None outside the archive."""


class After(Answer):
    """A job that has to end before another one is queued."""

    job = field.text("job")
    until = field.text("until")
    """How it has to end."""


class Application(Answer):
    """A server in a task of a job that browsers reach through the platform."""

    name = field.text("name")
    title = field.text("title")
    role = field.text("taskRoleName")
    index = field.amount("taskIndex")
    state = field.text("state")
    """Waiting for its task, starting until it answers, ready, or gone with its task."""
    used_at_ms = field.number("usedTime")
    """When it was used last, while it runs."""
    stops_at_ms = field.number("stopTime")
    """When its job is stopped unless it is used; None if it is not."""


class Restart(Answer):
    """An attempt that began because a user restarted the job."""

    attempt = field.amount("attemptId")
    at_ms = field.amount("time")
    message = field.text("message")
    """The user and the reason."""


class RetryDetails(Answer):
    """The retries of a job, by the cause of the failure."""

    user = field.amount("user")
    platform = field.amount("platform")
    resource = field.amount("resource")


class TaskProgress(behaviour.TaskProgress, Answer):
    """What a task reported last about its progress."""

    step = field.real("step")
    total = field.measured("total")
    metrics = field.mapping("metrics")
    at_ms = field.amount("time")
    steps_per_s = field.measured("stepsPerSecond")
    """Over the last minutes."""
    left_s = field.measured("secondsLeft")
    """For the remaining steps at this rate."""


class JobProgress(TaskProgress):
    """What a running job reported last about its progress: that of the task that is least far."""

    role = field.text("taskRoleName")
    index = field.amount("taskIndex")


class FirstCause(Cause):
    """The cause of a failed attempt, and the task that failed first."""

    role = field.text("taskRoleName")
    index = field.number("taskIndex")
    at_ms = field.number("time")
    """When that task ended."""


class ExitCodeRow(Answer):
    """A row of the exit-code table."""

    code = field.amount("code")
    phrase = field.text("phrase")
    issuer = field.text("issuer")
    causer = field.text("causer")
    type = field.text("type")
    stage = field.text("stage")
    behavior = field.text("behavior")
    reaction = field.text("reaction")
    reason = field.text("reason")
    repro = field.texts("repro")
    solution = field.texts("solution")


class TaskView(behaviour.TaskView, Answer):
    """A task, with its newest attempt."""

    index = field.amount("taskIndex")
    state = field.text("taskState")
    retries = field.amount("retries")
    accountable_retries = field.amount("accountableRetries")
    created_at_ms = field.number("createdTime")
    started_at_ms = field.number("launchedTime")
    ended_at_ms = field.number("completedTime")
    container_id = field.text("containerId")
    address = field.text("containerIp")
    node = field.text("containerNodeName")
    ports = field.mapping("containerPorts")
    gpu_numbers = field.text("containerGpus")
    exit_code = field.number("containerExitCode")
    """See the exit-code table; None until it ended."""
    exit_spec = field.part_if_any(ExitCodeRow, "containerExitSpec")
    exit_diagnostics = field.text("containerExitDiagnostics")
    cause = field.part(Cause, "containerExitCause")
    """The cause of a failure; None for other ends."""
    current_attempt_created_at_ms = field.number("currentAttemptCreatedTime")
    current_attempt_launched_at_ms = field.number("currentAttemptLaunchedTime")
    current_attempt_completed_at_ms = field.number("currentAttemptCompletedTime")
    attempt = field.number("attemptId")
    attempt_state = field.text("attemptState")
    is_removed = field.flag("isRemoved")
    """Whether its role became smaller and lost it; it ends, or has ended."""


class JobDetail(behaviour.JobDetail, JobHead):
    """A job with one of its attempts and every task of that attempt."""

    time_limit_minutes = field.measured("timeLimitMinutes")
    """After which an attempt is ended."""
    is_interruptible = field.flag("interruptible")
    """Whether it may borrow idle resources, and be preempted there; false when it is finished."""
    after = field.parts(After, "after")
    """The jobs that had to end before it was queued."""
    applications = field.parts(Application, "applications")
    """Servers in its tasks that browsers reach."""
    restarts = field.parts(Restart, "restarts")
    """Attempts that users requested; all others but the first are retries."""
    user = field.text("jobStatus", "username")
    state = field.text("jobStatus", "state")
    sub_state = field.text("jobStatus", "subState")
    execution_type = field.text("jobStatus", "executionType")
    retries = field.amount("jobStatus", "retries")
    retry_details = field.part(RetryDetails, "jobStatus", "retryDetails")
    retry_delay_s = field.number("jobStatus", "retryDelayTime")
    """Seconds until the next retry."""
    submitted_at_ms = field.amount("jobStatus", "submissionTime")
    created_at_ms = field.amount("jobStatus", "createdTime")
    started_at_ms = field.number("jobStatus", "launchedTime")
    ended_at_ms = field.number("jobStatus", "completedTime")
    exit_code = field.number("jobStatus", "appExitCode")
    """See the exit-code table; None until it ended."""
    virtual_cluster = field.text("jobStatus", "virtualCluster")
    progress = field.part_if_any(JobProgress, "jobStatus", "progress")
    cause = field.part(FirstCause, "jobStatus", "appExitCause")
    """The cause of a failure; None for other ends."""
    exit_spec = field.part_if_any(ExitCodeRow, "jobStatus", "appExitSpec")
    exit_diagnostics = field.text("jobStatus", "appExitDiagnostics")
    trigger_message = field.text("jobStatus", "appExitTriggerMessage")
    trigger_role = field.text("jobStatus", "appExitTriggerTaskRoleName")
    trigger_index = field.number("jobStatus", "appExitTriggerTaskIndex")
    attempt = field.amount("jobStatus", "attemptId")
    attempt_state = field.text("jobStatus", "attemptState")
    attempt_created_at_ms = field.number("jobStatus", "appCreatedTime")
    attempt_started_at_ms = field.number("jobStatus", "appLaunchedTime")
    attempt_ended_at_ms = field.number("jobStatus", "appCompletedTime")
    checkpoint_at_ms = field.number("jobStatus", "checkpointTime")
    """When the job's newest checkpoint was written."""
    tasks = field.grouped(TaskView, "taskRoles", "taskStatuses", "role")


class ResourceEfficiency(Answer):
    """A resource of a task, or of one of its GPUs: asked for and used. None where nothing was measured."""

    asked = field.real("asked")
    mean = field.measured("mean")
    """Over time and tasks."""
    most = field.measured("most")
    """The greatest of one task, within ten seconds."""
    share = field.measured("share")
    """The used part: of processors and GPUs the mean, of memory the most."""


class RoleEfficiency(Answer):
    """What the tasks of a role asked for and used."""

    name = field.text("name")
    tasks = field.amount("tasks")
    tasks_measured = field.amount("tasksMeasured")
    """How many of them the values are of."""
    cpu = field.part(ResourceEfficiency, "cpu")
    memory_bytes = field.part(ResourceEfficiency, "memoryBytes")
    gpus = field.amount("gpus")
    """The GPUs of each task."""
    gpu_percent = field.part(ResourceEfficiency, "gpuPercent")
    """How busy each GPU was."""
    gpu_memory_percent = field.part(ResourceEfficiency, "gpuMemoryPercent")
    """How full the memory of each GPU was."""
    gpus_measured = field.amount("gpusMeasured")
    gpus_unused = field.amount("gpusUnused")
    """How many of them did nothing all the time."""
    advice = field.texts("advice")


class JobEfficiency(Answer):
    """How much of what it asked for a job used, from its start on."""

    is_over = field.flag("isOver")
    """Whether the job has ended."""
    measured_s = field.real("measuredSeconds")
    """For how long it was measured; 0: not at all."""
    roles = field.parts(RoleEfficiency, "taskRoles")
    no_advice = field.text("noAdvice")
    """Why nothing is advised; empty if something is."""


class JobSummary(behaviour.JobSummary, JobHead):
    """A job as an entry of the list."""

    user = field.text("username")
    state = field.text("state")
    sub_state = field.text("subState")
    execution_type = field.text("executionType")
    retries = field.amount("retries")
    retry_details = field.part(RetryDetails, "retryDetails")
    retry_delay_s = field.number("retryDelayTime")
    """Seconds until the next retry."""
    submitted_at_ms = field.amount("submissionTime")
    created_at_ms = field.amount("createdTime")
    started_at_ms = field.number("launchedTime")
    ended_at_ms = field.number("completedTime")
    exit_code = field.number("appExitCode")
    """See the exit-code table; None until it ended."""
    virtual_cluster = field.text("virtualCluster")
    progress = field.part_if_any(JobProgress, "progress")
    gpus = field.amount("totalGpuNumber")
    tasks = field.amount("totalTaskNumber")
    task_roles = field.amount("totalTaskRoleNumber")
    attempt_started_at_ms = field.number("appLaunchedTime")
    """When the newest attempt began to run."""
    attempt_ended_at_ms = field.number("appCompletedTime")
    """When the newest attempt ended."""


class JobPage(behaviour.JobPage, Answer):
    """A page of the list, and how many jobs match in all."""

    needed = ("data", "totalCount")
    total = field.amount("totalCount")
    jobs = field.parts(JobSummary, "data")


class LogHit(Answer):
    """A line in which a text was found, or a part of a very long one."""

    stream = field.text("stream")
    offset = field.amount("offset")
    """Of the first byte in its stream."""
    at_ms = field.amount("time")
    """When it was seen in the log, in milliseconds."""
    text = field.text("text")
    """As a terminal would show it, without control sequences."""


class Login(Answer):
    """A login and its token."""

    needed = ("user", "token")
    user = field.text("user")
    token = field.text("token", is_secret=True)
    is_admin = field.flag("admin")


class MarketCategory(Answer):
    """A category of items."""

    name = field.text("name")
    items = field.amount("items")
    """How many the caller sees."""


class MarketItem(Answer):
    """An item of the marketplace, as lists have it."""

    name = field.text("name")
    """Its name in paths and commands."""
    kind = field.text("kind")
    title = field.text("title")
    summary = field.text("summary")
    author = field.text("author")
    is_official = field.flag("official")
    """Whether it is the administrators'."""
    categories = field.texts("categories")
    tags = field.texts("tags")
    visibility = field.text("visibility")
    """Shared: with members of its groups and users of its virtual clusters."""
    groups = field.texts("groups")
    """It is shared with."""
    virtual_clusters = field.texts("virtualClusters")
    """It is shared with the users of."""
    status = field.text("status")
    """Others see only what is approved."""
    stars = field.amount("stars")
    """Users who like it."""
    is_starred = field.flag("starred")
    """Whether the caller gave it a star."""
    uses = field.amount("uses")
    """Jobs that were submitted from it."""
    users = field.amount("users")
    """Users who submitted them."""
    created_at_ms = field.amount("createdTime")
    changed_at_ms = field.amount("changedTime")


class MarketParameter(Answer):
    """A parameter of an item's job file."""

    name = field.text("name")
    value = field.anything("value")
    """Its value unless the user gives another one."""


class MarketRevision(Answer):
    """The content of one revision of an item."""

    revision = field.amount("revision")
    at_ms = field.number("time")
    user = field.text("user")
    comment = field.text("comment")
    """What the edit was for."""
    title = field.text("title")
    summary = field.text("summary")
    description = field.text("description")
    protocol = field.text("protocol")
    """A job file; secrets in it are `******`, for which each user gives their own."""
    storage = field.text("storage")
    """The storage that has it."""
    path = field.text("path")
    """Its path in the storage."""
    address = field.text("address")
    """Its URL, if it is in no storage."""
    categories = field.texts("categories")
    tags = field.texts("tags")
    visibility = field.text("visibility")
    """Shared: with members of its groups and users of its virtual clusters."""
    groups = field.texts("groups")
    virtual_clusters = field.texts("virtualClusters")


class MarketDetail(MarketItem):
    """An item of the marketplace with its texts."""

    revision = field.amount("revision")
    """Of what is shown."""
    newest = field.amount("newest")
    """The newest revision, which an edit starts from."""
    changed_by = field.text("changedBy")
    description = field.text("description")
    protocol = field.text("protocol")
    """A job file; secrets in it are `******`, for which each user gives their own."""
    parameters = field.parts(MarketParameter, "parameters")
    """Of the job file, with their defaults."""
    secrets = field.texts("secrets")
    """Secrets that whoever runs it gives."""
    storage = field.text("storage")
    """The storage that has it."""
    path = field.text("path")
    """Its path in the storage."""
    address = field.text("address")
    """Its URL, if it is in no storage."""
    reason = field.text("reason")
    """Why it, or its newest revision, was rejected."""
    proposed = field.part_if_any(MarketRevision, "proposed")
    """Its newest revision, if that is not approved; for its author and administrators."""
    is_editable = field.flag("editable")
    """Whether the caller may edit and remove it."""
    usage = field.text("usage")
    """What a job file needs to use a data set or a model, as YAML."""


class MarketEdit(Answer):
    """One edit of an item."""

    revision = field.amount("revision")
    at_ms = field.amount("time")
    user = field.text("user")
    comment = field.text("comment")
    """What the edit was for."""


class MarketPage(Answer):
    """A part of a list of items."""

    total = field.amount("total")
    items = field.parts(MarketItem, "items")


class MarketRun(behaviour.MarketRun, Answer):
    """A job that was submitted from an item."""

    item = field.text("item")
    """Its name in paths and commands."""
    revision = field.amount("revision")
    user = field.text("user")
    name = field.text("name")
    id = field.text("id")
    warnings = field.texts("warnings")
    """What may not have the expected effect."""


class MarketSettings(Answer):
    """Settings of the marketplace."""

    needs_approval = field.flag("approval")
    """Whether administrators approve items before others see them."""


class MetricSeries(Answer):
    """The values of one series; None where nothing was measured."""

    labels = field.mapping("labels")
    mean = field.measures("mean")
    low = field.measures("low")
    high = field.measures("high")


class MetricChart(Answer):
    """The past of a metric, as points for a chart: each is about the `step` from its time on."""

    name = field.text("name")
    unit = field.text("unit")
    help = field.text("help")
    start_ms = field.amount("start")
    """The time of the first point."""
    step_ms = field.amount("step")
    """The distance of two points in ms."""
    matched = field.amount("matched")
    """How many series match; only the newest are returned if there are many."""
    series = field.parts(MetricSeries, "series")


class MetricInfo(Answer):
    """A metric of the catalogue."""

    name = field.text("name")
    help = field.text("help")
    kind = field.text("kind")
    """The values of a counter are its rates per second."""
    unit = field.text("unit")
    """The unit of its values; empty for a count."""
    series = field.amount("series")
    """How many series are measured now."""


class NewToken(Answer):
    """A token of an application."""

    needed = ("token",)
    token = field.text("token", is_secret=True)
    name = field.text("name")
    scope = field.text("scope")


class Amount(Answer):
    """Total and used amount of a resource."""

    total = field.amount("total")
    used = field.amount("used")


class NodeView(Answer):
    """A node and how much of it is in use."""

    name = field.text("name")
    address = field.text("address")
    is_healthy = field.flag("healthy")
    message = field.text("message")
    """What is wrong, if anything."""
    is_drained = field.flag("drained")
    drained_because = field.text("drainedBecause")
    drain_deadline_ms = field.number("drainDeadline")
    """When jobs that still run there are put back into the queue."""
    gpu_model = field.text("gpuModel")
    cpus = field.part(Amount, "cpus")
    memory_mb = field.part(Amount, "memoryMB")
    gpus = field.part(Amount, "gpus")
    bad_devices = field.amounts("badDevices")
    """GPUs that no job may get."""
    bad_because = field.text("badBecause")
    """Why an administrator marked GPUs as bad."""
    tasks = field.amount("tasks")
    """Task attempts that hold resources there."""
    virtual_clusters = field.texts("virtualClusters")
    temperatures = field.mapping("temperatures")
    """Of GPUs by their number, in Celsius, where measured."""
    lemon_score = field.real("lemonScore")
    """How many users' jobs failed lately for its hardware, older failures counting less."""
    lemon_users = field.amount("lemonUsers")
    """How many users these are."""


class NodeCheck(Answer):
    """What a check of a node found; one that failed keeps new tasks away from the node, or from GPUs of it."""

    name = field.text("name")
    result = field.text("result")
    """`warning` keeps nothing away, `unknown` cannot be checked there."""
    message = field.text("message")
    """What was found; empty if all is well."""
    since_ms = field.number("sinceTime")
    """Since when it has this result."""
    checked_ms = field.number("checkedTime")
    """When it was checked last."""


class NodeDetail(NodeView, Held):
    """A node and the jobs on it."""

    checks = field.parts(NodeCheck, "checks")
    """Checks before and between tasks."""
    history = field.parts(AuditEntry, "history")
    """Changes made to it, newest first; for administrators."""


class PluginPage(Answer):
    """A page of another server in the portal's navigation."""

    name = field.text("name")
    """The word in its address at the portal, /pages/NAME."""
    title = field.text("title")
    """As the navigation has it."""
    address = field.text("address")
    """`{user}`, `{theme}` and `{language}` in it stand for values."""


class Resources(Answer):
    """Resources, also under their older names."""

    cpus = field.amount("cpu")
    memory_mb = field.amount("memory")
    gpus = field.amount("gpu")


class Share(Answer):
    """What a virtual cluster is guaranteed, before and after a change."""

    name = field.text("name")
    before = field.part(Resources, "before")
    """None for a new one."""
    after = field.part(Resources, "after")
    """None for one that would be removed."""


class PromisePreview(Answer):
    """What a change of guarantees would do; nothing was changed."""

    promises = field.text_if_any("promises")
    """All guarantees as they would be."""
    shares = field.parts(Share, "shares")
    """Every virtual cluster, by name."""
    problems = field.texts("problems")
    """Guarantees that could not be kept at the moment."""
    demoted = field.texts("demoted")
    """Jobs that would run on without their guarantee."""


class Quota(behaviour.Quota, Answer):
    """A quota that holds for oneself."""

    virtual_cluster = field.text("virtualCluster")
    """Empty: all virtual clusters together."""
    user = field.text("user")
    """Empty: each user without a quota of their own."""
    gpus_running = field.number("gpusRunning")
    gpus_per_job = field.number("gpusPerJob")
    jobs_unfinished = field.number("jobsUnfinished")
    gpu_hours_per_month = field.measured("gpuHoursPerMonth")
    gpus_used = field.number("used", "gpusRunning")
    """GPUs that one's jobs hold now."""
    jobs_used = field.number("used", "jobsUnfinished")
    gpu_hours_used = field.measured("used", "gpuHoursThisMonth")


class UsageTotal(Answer):
    """Use in hours."""

    gpu_hours = field.real("gpuHours")
    cpu_hours = field.real("cpuHours")
    memory_gb_hours = field.real("memoryGbHours")
    task_attempts = field.amount("taskAttempts")
    gpu_hours_borrowed = field.real("gpuHoursBorrowed")
    """The part of them without a guarantee."""
    gpu_hours_lent = field.real("gpuHoursLent")
    """What virtual clusters lent to others; not by user or group."""
    jobs_moved = field.amount("jobsMoved")
    """How often a job was moved to make room for another one."""
    gpu_hours_moved = field.real("gpuHoursMoved")
    """The work that these jobs did again."""
    gpu_hours_idle = field.real("gpuHoursIdle")
    """Held by running jobs that did not use them."""
    gpu_hours_failed = field.real("gpuHoursFailed")
    """Lost because the platform failed."""
    gpu_hours_preempted = field.real("gpuHoursPreempted")
    """Lost because resources were taken back."""
    gpu_hours_wasted = field.real("gpuHoursWasted")
    """The last three together."""


class Use(UsageTotal):
    """Use by the requested dimensions."""

    day = field.text("day")
    user = field.text("user")
    group = field.text("group")
    virtual_cluster = field.text("virtualCluster")


class Report(Answer):
    """A report of use."""

    needed = ("rows", "total")
    from_ms = field.amount("from")
    to_ms = field.amount("to")
    by = field.texts("by")
    rows = field.parts(Use, "rows")
    total = field.part(UsageTotal, "total")


class Result(behaviour.Result, Answer):
    """The result for one job."""

    job = field.text("job")
    id = field.text("id")
    status = field.amount("status")
    message = field.text("message")
    advice = field.text("advice")


class Results(Answer):
    """The results for all jobs."""

    needed = ("results",)
    done = field.amount("done")
    failed = field.amount("failed")
    more = field.amount("more")
    """Jobs that match after the first 1,000."""
    results = field.parts(Result, "results")


class Silence(Answer):
    """Alerts that fit all matchers neither notify nor act until it ends."""

    id = field.text("id")
    matchers = field.texts("matchers")
    from_ms = field.amount("fromTime")
    to_ms = field.amount("toTime")
    user = field.text("user")
    comment = field.text("comment")
    is_active = field.flag("active")
    """Whether it is in effect."""


class SshGatewayTask(behaviour.SshGatewayTask, Answer):
    """How an SSH client reaches a running task through the gateway of the platform."""

    needed = ("host", "port", "user")
    role = field.text("taskRoleName")
    index = field.amount("taskIndex")
    host = field.text("host")
    """The host of this request."""
    port = field.amount("port")
    user = field.text("user")
    """The user name for SSH."""
    host_key = field.text("hostKey")
    """As known_hosts has it."""
    command = field.text("command")


class SshKey(Answer):
    """A public SSH key of a user."""

    id = field.text("id")
    """Names the key in paths."""
    title = field.text("title")
    type = field.text("type")
    bits = field.amount("bits")
    fingerprint = field.text("fingerprint")
    key = field.text("key")
    added_at_ms = field.number("addedTime")
    """None if an older client added it."""


class SshTask(behaviour.SshTask, Answer):
    """The SSH address of a running task."""

    needed = ("sshIp", "sshPort")
    id = field.text("id")
    role = field.text("taskRoleName")
    index = field.amount("taskIndex")
    host = field.text("sshIp")
    command = field.text("command")


class StorageStep(Answer):
    """One step of a test."""

    step = field.text("step")
    is_ok = field.flag("ok")
    message = field.text("message")


class StorageTest(Answer):
    """The result of a test of a storage."""

    needed = ("ok", "steps")
    name = field.text("name")
    is_ok = field.flag("ok")
    steps = field.parts(StorageStep, "steps")


class StorageView(Answer):
    """A storage in full, without its credentials."""

    name = field.text("name")
    is_shared = field.flag("share")
    """False: each user sees a folder of their own."""
    is_default = field.flag("default")
    """Whether jobs that name no storage get it."""
    type = field.text("type")
    """OpenPAI's name of the type; `unknown` if it has none."""
    kind = field.text("kind")
    is_read_only = field.flag("readOnly")
    description = field.text("description")
    data = field.mapping("data")
    mount_options = field.texts("mountOptions")
    groups = field.texts("groups")
    """For administrators: groups that it is granted to."""
    has_credentials = field.flag("hasCredentials")
    created_at_ms = field.amount("createdTime")


class Submitted(behaviour.Submitted, Answer):
    """A job that was accepted and stored durably."""

    message = field.text("message")
    user = field.text("user")
    name = field.text("name")
    id = field.text("id")
    warnings = field.texts("warnings")
    """Settings that do not have the expected effect."""


class SubmittedSweep(Answer):
    """A sweep whose jobs were all accepted and stored durably."""

    message = field.text("message")
    user = field.text("user")
    name = field.text("name")
    """Name of the sweep."""
    jobs = field.texts("jobs")
    """Names of its jobs."""
    warnings = field.texts("warnings")
    """Settings that do not have the expected effect."""


class Subscription(Answer):
    """What a user hears of their own jobs."""

    on = field.texts("on")
    """The events; weekly: a report of the virtual clusters that one manages."""
    waiting_minutes = field.real("waitingMinutes")
    """How long a job may wait before a message."""
    url = field.text("url")
    """A webhook of one's own; empty: mail."""
    shape = field.text("shape")
    """The form of what the webhook gets."""
    problem = field.text("problem")
    """Why no message can arrive; empty if nothing is known to be in the way."""


class SweepJob(Answer):
    """A job of a sweep."""

    number = field.amount("number")
    name = field.text("name")
    state = field.text("state")
    parameters = field.mapping_if_any("parameters")
    """Its combination; None if the job file is private."""
    progress = field.part_if_any(JobProgress, "progress")


class Sweep(Answer):
    """A sweep: how many of its jobs are in each state, and all that are not archived."""

    user = field.text("user")
    name = field.text("name")
    """Name of the sweep."""
    states = field.mapping("states")
    """Number of jobs by their state."""
    max_running = field.number("maxRunning")
    """How many may be queued or run at a time; None for no limit."""
    jobs = field.parts(SweepJob, "jobs")


class GpuUse(Answer):
    """What a GPU of a task does; None where that is not measured."""

    index = field.amount("index")
    """Its number on the node."""
    busy_percent = field.measured("busyPercent")
    """Share of the time in which a kernel ran; 100 also while it waits for others."""
    tensor_percent = field.measured("tensorPercent")
    """How busy its tensor cores are, from Hopper on."""
    memory_bytes = field.number("memoryBytes")
    memory_total_bytes = field.number("memoryTotalBytes")
    power_w = field.measured("powerWatts")
    power_limit_w = field.measured("powerLimitWatts")
    temperature_c = field.measured("temperatureCelsius")


class TaskUse(behaviour.TaskUse, Answer):
    """What a running task uses, measured every few seconds; None where that is not measured."""

    role = field.text("taskRoleName")
    index = field.amount("taskIndex")
    job_attempt = field.amount("jobAttemptId")
    attempt = field.amount("attemptId")
    at_ms = field.amount("time")
    cpus = field.measured("cpus")
    """Processors used since the sample before; None for the first."""
    cpus_requested = field.amount("cpusRequested")
    cpu_s = field.real("cpuSeconds")
    """Processor time since the task started."""
    memory_bytes = field.amount("memoryBytes")
    """Without the cache of files."""
    memory_requested_bytes = field.amount("memoryRequestedBytes")
    disk_read_bytes = field.number("diskReadBytes")
    """Since the task started."""
    disk_written_bytes = field.number("diskWrittenBytes")
    """Since the task started."""
    disk_read_per_s = field.measured("diskReadPerSecond")
    disk_written_per_s = field.measured("diskWrittenPerSecond")
    network_received_bytes = field.number("networkReceivedBytes")
    """Since the task started; None where tasks share the network of their node."""
    network_sent_bytes = field.number("networkSentBytes")
    """Since the task started."""
    network_received_per_s = field.measured("networkReceivedPerSecond")
    network_sent_per_s = field.measured("networkSentPerSecond")
    processes = field.amount("processes")
    stopped = field.amount("stoppedProcesses")
    """How many of them are stopped, as by SIGSTOP."""
    gpus = field.parts(GpuUse, "gpus")
    progress = field.part_if_any(TaskProgress, "progress")


class TokenView(Answer):
    """One of a user's tokens."""

    id = field.text("id")
    """Names the token; is no credential."""
    name = field.text("name")
    is_application = field.flag("application")
    scope = field.text("scope")
    created_at_ms = field.amount("createdTime")
    expires_at_ms = field.number("expirationTime")
    is_current = field.flag("current")
    """Whether it is the token of this request."""


class User(behaviour.User, Answer):
    """A user in full."""

    needed = ("username",)
    name = field.text("username")
    email = field.text("email")
    groups = field.texts("grouplist")
    extension = field.mapping("extension", is_secret=True)
    """Values that clients store with the user."""
    is_admin = field.flag("admin")
    is_viewer = field.flag("viewer")
    virtual_clusters = field.texts("virtualCluster")
    storages = field.texts("storageConfig")
    source = field.text("source")
    """Who checks the password: local, oidc or ldap."""
    created_at_ms = field.amount("createdTime")


class QueuedJob(Answer):
    """A job that waits, at its place in the queue of its virtual cluster."""

    position = field.amount("position")
    job = field.text_if_any("job")
    """None for a job that the caller may not see."""
    priority_class = field.text("priorityClass")
    priority = field.amount("priority")
    """Jobs with a higher one go first; -1 for opportunistic ones."""
    rank = field.amount("rank")
    """Among jobs of equal priority, the higher rank goes first."""
    tasks = field.amount("tasks")
    gpus = field.amount("gpu")
    cpus = field.amount("cpu")
    submitted_at_ms = field.amount("submittedTime")
    code = field.text("code")
    message = field.text("message")
    unblock = field.text("unblock")
    """What would change that."""
    may_move = field.flag("mayMove")
    """Whether the caller may move it before or after another job."""


class VcQueue(Answer):
    """The jobs that wait in a virtual cluster, in the order in which the scheduler considers them."""

    order = field.text("order")
    """The order among equal priority and rank."""
    total = field.amount("totalCount")
    """How many jobs wait."""
    jobs = field.parts(QueuedJob, "jobs")
    """The first of them."""


class Accuracy(Answer):
    """How good the latest guesses about a virtual cluster were, at most 500 of each kind."""

    starts = field.amount("starts")
    """Starts that had been estimated."""
    starts_within = field.amount("startsWithinRange")
    """Those within the estimated range, or a minute of it."""
    runs = field.amount("runTimes")
    """Run times that had been guessed."""
    runs_within_2x = field.amount("runTimesWithinFactor2")
    """Those at most twice, and at least half, as long."""
    run_error = field.measured("runTimeErrorFactor")
    """The median of how many times longer or shorter than guessed jobs ran."""


class Moves(Answer):
    """Jobs that were moved to make whole cells for others, since the present leader took over."""

    jobs = field.amount("jobs")
    gpu_hours_lost = field.real("gpuHoursLost")
    """Work that was not saved and is done again."""


class VirtualCluster(behaviour.VirtualCluster, Answer):
    """The guaranteed, healthy and used resources of a virtual cluster."""

    capacity = field.real("capacity")
    """Percent of the cluster."""
    max_capacity = field.real("maxCapacity")
    used_capacity = field.real("usedCapacity")
    """Percent of the cluster."""
    used = field.part(Resources, "resourcesUsed")
    guaranteed = field.part(Resources, "resourcesGuaranteed")
    total = field.part(Resources, "resourcesTotal")
    borrowed = field.part(Resources, "resourcesBorrowed")
    """What its jobs use without a guarantee."""
    lent = field.part(Resources, "resourcesLent")
    """What jobs of others use of its promise, until it needs that back."""
    lent_to = field.named_parts(Resources, "lentTo")
    """The same, by the virtual cluster whose jobs use it."""
    skus = field.mapping("skus")
    """Number of SKUs by type."""
    running = field.amount("runningGangs")
    waiting = field.amount("waitingGangs")
    accuracy = field.part(Accuracy, "accuracy")
    order = field.text("order")
    """The order of its queue."""
    is_interruptible = field.flag("interruptible")
    """Whether jobs may be interrupted that do not say."""
    moves_jobs = field.flag("moveJobs")
    """Whether interruptible jobs may be moved to make whole cells."""
    moves = field.part(Moves, "moves")


class WeeklyReport(Answer):
    """The message about the last week."""

    subject = field.text("subject")
    text = field.text("text")


class ReplayedVc(Answer):
    """What the replay of the past says of one virtual cluster, or of all together."""

    name = field.text("name")
    gpus = field.amount("gpus")
    """Promised; of all together, the GPUs of the cluster."""
    jobs = field.amount("jobs")
    refused = field.amount("refused")
    """Jobs that could never run."""
    never_started = field.amount("neverStarted")
    wait_mean_s = field.real("waitMeanSeconds")
    """From submission to first start."""
    wait_p50_s = field.real("waitP50Seconds")
    """Half of the jobs waited for less."""
    wait_p95_s = field.real("waitP95Seconds")
    """19 of 20 jobs waited for less."""
    gpus_used = field.real("gpusUsed")
    utilisation = field.real("utilisation")
    """The same as a share of the promise."""
    jobs_waiting = field.real("jobsWaiting")
    gpus_stranded = field.real("gpusStranded")
    """Free while a job waited that needed no more of them, on average."""
    preemptions = field.amount("preemptions")
    gpu_hours_lost = field.real("gpuHoursLost")
    """Work that preempted jobs did again."""


class Replayed(Answer):
    """One replay of the past."""

    total = field.part(ReplayedVc, "total")
    virtual_clusters = field.parts(ReplayedVc, "virtualClusters")
    step_s = field.real("stepSeconds")
    """Length of each step of the series."""
    gpus_used = field.measures("gpusUsed")
    """By all virtual clusters, step by step."""
    jobs_waiting = field.measures("jobsWaiting")
    """In all queues, step by step."""


class WhatIf(Answer):
    """The past as the scheduler would have decided it, with the promises of now and with others."""

    needed = ("now", "then")
    from_ms = field.amount("fromTime")
    to_ms = field.amount("toTime")
    jobs = field.amount("jobs")
    left_out = field.mapping("leftOut")
    """Jobs that were not, by reason."""
    notes = field.texts("notes")
    """What is different, in words."""
    now = field.part(Replayed, "now")
    then = field.part(Replayed, "then")


class WorkKept(behaviour.WorkKept, Answer):
    """The files that one task attempt left in its working directory."""

    job_attempt = field.amount("jobAttemptId")
    role = field.text("taskRoleName")
    index = field.amount("taskIndex")
    attempt = field.amount("attemptId")
    files = field.amount("files")
    bytes = field.amount("bytes")
    is_counted = field.flag("isCounted")
    """False if there are more: very many files are not all counted."""
    kept_until_ms = field.amount("keptUntil")
