"""Who may do what, in plain text: written by hand, and never made from the table of the platform.

To add a route, give it a line in ROUTES with the action it names. Where its answer does not follow from the line of
that action in WHO_MAY, add a line of its own, with a word after a colon. `{a|b}` stands for two paths, `-` for open.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

# The thing is always ann's: her account, and her finished job `train` in the virtual cluster `team`.
# vera is a viewer whom `team` is granted, bob a user without grants, mia is granted `team` and the storage `data`,
# max manages `team`, root is an administrator. Then tokens: of an application of ann, of one of root, and those of ann
# whose scope is `read` and `jobs`.
WHO_MAY: Final = """
action                vera  bob  mia  max  ann  root   app  rootapp  read  jobs
logout                 +     +    +    +    +    +      -      -      -     -
token.check            +     +    +    +    +    +      +      +      +     +
token.list             +     +    +    +    +    +      -      -      -     -
token.create           +     +    +    +    +    +      -      -      -     -
token.revoke           +     +    +    +    +    +      -      -      -     -
user.list              +     +    +    +    +    +      +      +      +     +
user.read              +     +    +    +    +    +      +      +      +     +
user.details           -     -    -    -    +    +      +      +      +     +
user.details:me        +     +    +    +    +    +      +      +      +     +
user.change_own        -     -    -    -    +    +      -      -      -     -
user.change_own:me     +     +    +    +    +    +      -      -      -     -
user.add               -     -    -    -    -    +      -      -      -     -
user.change            -     -    -    -    -    +      -      -      -     -
user.remove            -     -    -    -    -    +      -      -      -     -
user.tokens            -     -    -    -    +    +      -      -      -     -
user.sign_out          -     -    -    -    +    +      -      -      -     -
group.list             +     +    +    +    +    +      +      +      +     +
group.members          -     -    -    -    -    +      -      +      -     -
group.change           -     -    -    -    -    +      -      -      -     -
vc.list                +     +    +    +    +    +      +      +      +     +
vc.inspect             +     +    +    +    +    +      +      +      +     +
vc.change              -     -    -    -    -    +      -      +      -     -
vc.preview             -     -    -    -    -    +      -      +      -     -
quota.own              +     +    +    +    +    +      +      +      +     +
quota.list             -     -    -    +    -    +      -      +      -     -
quota.change           -     -    -    +    -    +      -      +      -     -
budget.own             +     +    +    +    +    +      +      +      +     +
budget.change          -     -    -    -    -    +      -      +      -     -
node.list              +     +    +    +    +    +      +      +      +     +
node.change            -     -    -    -    -    +      -      +      -     -
cluster.read           -     -    -    -    -    +      -      +      -     -
cluster.change         -     -    -    -    -    +      -      +      -     -
exit_spec.list         +     +    +    +    +    +      +      +      +     +
exit_spec.test         -     -    -    -    -    +      -      +      -     -
exit_spec.change       -     -    -    -    -    +      -      +      -     -
scheduler.snapshot     -     -    -    -    -    +      -      +      -     -
scheduler.what_if      -     -    -    +    -    +      -      +      -     -
alert.list             +     +    +    +    +    +      +      +      +     +
alert.rules            -     -    -    -    -    +      -      +      -     -
alert.change           -     -    -    -    -    +      -      +      -     -
alert.silence          -     -    -    -    -    +      -      +      -     -
alert.channels         -     -    -    -    -    +      -      -      -     -
alert.subscribe        +     +    +    +    +    +      -      -      -     -
job.list               +     +    +    +    +    +      +      +      +     +
job.submit             -     +    +    +    +    +      +      +      -     +
job.read               +     -    +    +    +    +      +      +      +     +
job.config             +     -    +    +    +    +      +      +      +     +
job.logs               -     -    -    +    +    +      +      +      +     +
job.ssh                -     -    -    -    +    +      +      +      +     +
job.stop               -     -    -    +    +    +      +      +      -     +
job.stop:each          +     +    +    +    +    +      +      +      -     +
job.tag                -     -    -    +    +    +      +      +      -     +
job.priority           -     -    -    +    +    +      +      +      -     +
job.scale              -     -    -    -    +    +      +      +      -     +
job.rank               -     -    -    +    -    +      -      +      -     -
job.checkpoint         -     -    -    -    +    +      +      +      -     +
job.exec               -     -    -    -    +    +      +      +      -     +
job.archive            -     -    -    -    +    +      +      +      -     +
job.delete             -     -    -    -    +    +      +      +      -     +
storage.list           +     +    +    +    +    +      +      +      +     +
storage.read           -     -    +    -    -    +      -      +      -     -
storage.write          -     -    +    -    -    +      -      +      -     -
storage.change         -     -    -    -    -    +      -      +      -     -
market.read            +     +    +    +    +    +      +      +      +     +
market.read:theirs     -     -    -    -    +    +      +      +      +     +
market.rate            -     +    +    +    +    +      +      +      -     +
market.publish         -     +    +    +    +    +      +      +      -     -
market.publish:theirs  -     -    -    -    +    +      +      +      -     -
market.approve         -     -    -    -    -    +      -      +      -     -
report.own             +     +    +    +    +    +      +      +      +     +
report.read            -     -    -    +    -    +      -      +      -     -
metrics.read           -     -    -    -    -    +      -      +      -     -
announcement.list      +     +    +    +    +    +      +      +      +     +
announcement.change    -     -    -    -    -    +      -      +      -     -
plugin_page.list       +     +    +    +    +    +      +      +      +     +
settings.read          -     -    -    -    -    +      -      +      -     -
audit.own              +     +    +    +    +    +      +      +      +     +
"""

ROUTES: Final = """
POST    /api/v2/jobs                                                    job.submit
POST    /api/v2/jobs/check                                              job.submit
GET     /api/v2/jobs                                                    job.list
GET     /api/v2/jobs/{job}                                              job.read
GET     /api/v2/jobs/{job}/attempts/{number}                            job.read
PUT     /api/v2/jobs/{job}/executionType                                job.stop
GET     /api/v2/jobs/{job}/config                                       job.config
GET     /api/v2/jobs/{job}/events                                       job.read
GET     /api/v2/changes                                                 job.list
GET     /api/v2/jobs/{job}/why                                          job.read
GET     /api/v2/jobs/{job}/ssh                                          job.ssh
POST    /api/v2/jobs/bulk                                               job.stop:each
PUT     /api/v2/jobs/{job}/archive                                      job.archive
DELETE  /api/v2/jobs/{job}/archive                                      job.archive
DELETE  /api/v2/jobs/{job}                                              job.delete
PUT     /api/v2/jobs/{job}/tag                                          job.tag
DELETE  /api/v2/jobs/{job}/tag                                          job.tag
PUT     /api/v2/jobs/{job}/priority                                     job.priority
PUT     /api/v2/jobs/{job}/taskRoles                                    job.scale
PUT     /api/v2/jobs/{job}/rank                                         job.rank
POST    /api/v2/jobs/{job}/checkpoint                                   job.checkpoint
GET     /api/v2/jobs/{job}/job-attempts/healthz                         job.list
GET     /api/v2/jobs/{job}/job-attempts                                 job.read
GET     /api/v2/jobs/{job}/job-attempts/{number}                        job.read
GET     /api/v2/jobs/{job}/attempts/{number}/taskRoles/{role}/taskIndex/{index}/attempts                        job.read
GET     /api/v2/jobs/{job}/usage                                        job.read
GET     /api/v2/jobs/{job}/metrics                                      job.read
GET     /api/v2/jobs/{job}/efficiency                                   job.read
GET     /metrics                                                        metrics.read
GET     /api/v2/metrics                                                 metrics.read
GET     /api/v2/metrics/{name}                                          metrics.read
GET     /api/v2/jobs/{job}/work                                         job.logs
GET     /api/v2/jobs/{job}/work/archive                                 job.logs
GET     /api/v2/jobs/{job}/attempts/{number}/taskRoles/{role}/taskIndex/{index}/attempts/{attempt}/work         job.logs
GET     /api/v2/jobs/{job}/attempts/{number}/taskRoles/{role}/taskIndex/{index}/attempts/{attempt}/logs         job.logs
GET     /api/v2/jobs/{job}/attempts/{number}/taskRoles/{role}/taskIndex/{index}/attempts/{attempt}/logs/{name}  job.logs
GET     /api/v2/jobs/{job}/attempts/{number}/taskRoles/{role}/taskIndex/{index}/attempts/{attempt}/logs/{name}/search job.logs
POST    /api/v2/jobs/{job}/attempts/{number}/taskRoles/{role}/taskIndex/{index}/attempts/{attempt}/exec         job.exec
POST    /api/v2/jobs/{job}/attempts/{number}/taskRoles/{role}/taskIndex/{index}/attempts/{attempt}/ports/{port} job.exec
POST    /api/v2/jobs/{job}/applications/{application}/ticket            job.exec

GET     /api/v2/lemons                                                  node.list
PUT     /api/v2/lemons                                                  cluster.change
GET     /api/v2/nodes                                                   node.list
GET     /api/v2/nodes/{name}                                            node.list
PUT     /api/v2/nodes/{name}                                            node.change
DELETE  /api/v2/nodes/{name}                                            node.change
GET     /api/v2/virtual-clusters                                        vc.list
GET     /api/v2/virtual-clusters/{vc}                                   vc.list
GET     /api/v2/virtual-clusters/{vc}/queue                             vc.list
PUT     /api/v2/virtual-clusters/{vc}                                   vc.change
DELETE  /api/v2/virtual-clusters/{vc}                                   vc.change
PUT     /api/v2/virtual-clusters/{vc}/status                            vc.change
GET     /api/v2/cluster/sku-types                                       vc.list
GET     /api/v2/virtual-clusters/{vc}/sku-types                         vc.list
POST    /api/v2/virtual-clusters/{vc}/preview                           vc.preview
GET     /api/v2/cluster/config                                          cluster.read
PUT     /api/v2/cluster/config                                          cluster.change
GET     /api/{v2|v1}/kubernetes/nodes                                   cluster.read
GET     /api/{v2|v1}/kubernetes/pods                                    cluster.read
GET     /api/v2/alerts                                                  alert.list
GET     /v1/inspect/clusterstatus                                       vc.inspect
GET     /v1/inspect/clusterstatus/physicalcluster                       vc.inspect
GET     /v1/inspect/clusterstatus/virtualclusters                       vc.inspect
GET     /v1/inspect/clusterstatus/virtualclusters/                      vc.inspect
GET     /v1/inspect/clusterstatus/virtualclusters/{vc}                  vc.inspect
GET     /v1/inspect/affinitygroups                                      vc.inspect
GET     /v1/inspect/affinitygroups/                                     vc.inspect
GET     /v1/inspect/affinitygroups/{name:path}                          vc.inspect
GET     /api/v2/scheduler/inspect/clusterstatus                         vc.inspect
GET     /api/v2/scheduler/inspect/clusterstatus/physicalcluster         vc.inspect
GET     /api/v2/scheduler/inspect/clusterstatus/virtualclusters         vc.inspect
GET     /api/v2/scheduler/inspect/clusterstatus/virtualclusters/        vc.inspect
GET     /api/v2/scheduler/inspect/clusterstatus/virtualclusters/{vc}    vc.inspect
GET     /api/v2/scheduler/inspect/affinitygroups                        vc.inspect
GET     /api/v2/scheduler/inspect/affinitygroups/                       vc.inspect
GET     /api/v2/scheduler/inspect/affinitygroups/{name:path}            vc.inspect
GET     /api/v2/scheduler/snapshot                                      scheduler.snapshot
GET     /api/v2/scheduler/fairness                                      vc.list
PUT     /api/v2/scheduler/fairness                                      cluster.change
GET     /api/v2/scheduler/orders                                        vc.list
PUT     /api/v2/scheduler/orders                                        cluster.change
GET     /api/v2/scheduler/what-if                                       scheduler.what_if

GET     /api/{v2/tokens|v1/token}                                       token.list
DELETE  /api/{v2/tokens|v1/token}                                       token.revoke
POST    /api/{v2/tokens|v1/token}/application                           token.create
DELETE  /api/{v2/tokens|v1/token}/{token}                               token.revoke
GET     /api/{v2/tokens|v1/token}/check                                 token.check
DELETE  /api/{v2|v1}/authn/basic/logout                                 logout
DELETE  /api/v2/authn/browser/logout                                    logout
GET     /api/v2/{users|user}                                            user.list
GET     /api/v2/{users|user}/me                                         user.details:me
GET     /api/v2/{users|user}/{username}                                 user.read
GET     /api/v1/user/{username}                                         user.read
POST    /api/v2/{users|user}                                            user.add
PUT     /api/v2/{users|user}                                            user.change
PUT     /api/v2/{users|user}/me                                         user.change_own:me
DELETE  /api/v2/{users|user}/{username}                                 user.remove
PUT     /api/v2/{users|user}/{username}/grouplist                       user.change
PUT     /api/v2/{users|user}/{username}/group                           user.change
DELETE  /api/v2/{users|user}/{username}/group                           user.change
PUT     /api/v2/{users|user}/{username}/virtualcluster                  user.change
PUT     /api/v2/{users|user}/{username}/admin                           user.change
PUT     /api/v2/{users|user}/{username}/extension                       user.change_own
PUT     /api/v2/{users|user}/{username}/email                           user.change_own
PUT     /api/v2/{users|user}/{username}/password                        user.change_own
GET     /api/v2/users/{username}/ssh-keys                               user.details
POST    /api/v2/users/{username}/ssh-keys                               user.change_own
DELETE  /api/v2/users/{username}/ssh-keys/{key}                         user.change_own
GET     /api/v2/{users|user}/{username}/tokens                          user.tokens
DELETE  /api/v2/{users|user}/{username}/tokens                          user.sign_out
GET     /api/v2/{groups|group}                                          group.list
GET     /api/v2/{groups|group}/{groupname}                              group.list
GET     /api/v2/{groups|group}/{groupname}/userlist                     group.members
POST    /api/v2/{groups|group}                                          group.change
PUT     /api/v2/{groups|group}                                          group.change
DELETE  /api/v2/{groups|group}/{groupname}                              group.change
PUT     /api/v2/{groups|group}/{groupname}/extension                    group.change
PUT     /api/v2/{groups|group}/{groupname}/extension/{path:path}        group.change
PUT     /api/v2/{groups|group}/{groupname}/description                  group.change
PUT     /api/v2/{groups|group}/{groupname}/externalname                 group.change

POST    /api/v2/code/missing                                            job.submit
PUT     /api/v2/code/{digest:digest}                                    job.submit
POST    /api/v2/sweeps                                                  job.submit
GET     /api/v2/sweeps/{sweep}                                          job.read
GET     /api/v2/storages                                                storage.list
POST    /api/v2/storages                                                storage.change
GET     /api/v2/storages/{name}                                         storage.read
PUT     /api/v2/storages/{name}                                         storage.change
DELETE  /api/v2/storages/{name}                                         storage.change
POST    /api/v2/storages/{name}/test                                    storage.change
PUT     /api/v2/storages/{name}/groups/{group}                          storage.change
DELETE  /api/v2/storages/{name}/groups/{group}                          storage.change
GET     /api/v2/storages/{name}/files                                   storage.read
GET     /api/v2/storages/{name}/files/{path:path}                       storage.read
PUT     /api/v2/storages/{name}/files/{path:path}                       storage.write
DELETE  /api/v2/storages/{name}/files/{path:path}                       storage.write
GET     /api/v2/storage/config                                          storage.list
GET     /api/v2/storage/config/{name}                                   storage.read
GET     /api/v2/storage/server                                          storage.list
GET     /api/v2/storage/server/{name}                                   storage.read

GET     /api/v2/quotas                                                  quota.list
PUT     /api/v2/quotas                                                  quota.change
DELETE  /api/v2/quotas                                                  quota.change
GET     /api/v2/alerts/silences                                         alert.rules
POST    /api/v2/alerts/silences                                         alert.silence
DELETE  /api/v2/alerts/silences/{id}                                    alert.silence
GET     /api/v2/alerts/actions                                          alert.rules
GET     /api/v2/alerts/messages                                         alert.rules
GET     /api/v2/alerts/subscription                                     alert.subscribe
PUT     /api/v2/alerts/subscription                                     alert.subscribe
GET     /api/v2/market/items                                            market.read
POST    /api/v2/market/items                                            market.publish
GET     /api/v2/market/items/{item}                                     market.read
PUT     /api/v2/market/items/{item}                                     market.publish:theirs
DELETE  /api/v2/market/items/{item}                                     market.publish:theirs
GET     /api/v2/market/items/{item}/revisions                           market.read:theirs
GET     /api/v2/market/items/{item}/revisions/{revision}                market.read:theirs
PUT     /api/v2/market/items/{item}/star                                market.rate
DELETE  /api/v2/market/items/{item}/star                                market.rate
PUT     /api/v2/market/items/{item}/review                              market.approve
POST    /api/v2/market/items/{item}/run                                 job.submit
GET     /api/v2/market/categories                                       market.read
GET     /api/v2/market/settings                                         market.read
PUT     /api/v2/market/settings                                         market.approve

GET     /api/v2/alert-rules                                             alert.rules
GET     /api/v2/alert-rules/history                                     alert.rules
POST    /api/v2/alert-rules/test                                        alert.rules
GET     /api/v2/alert-rules/{name}                                      alert.rules
PUT     /api/v2/alert-rules/{name}                                      alert.change
DELETE  /api/v2/alert-rules/{name}                                      alert.change
GET     /api/v2/alert-channels                                          alert.rules
PUT     /api/v2/alert-channels/{name}                                   alert.channels
DELETE  /api/v2/alert-channels/{name}                                   alert.channels
POST    /api/v2/alert-channels/{name}/test                              alert.channels
GET     /api/v2/exit-specs                                              exit_spec.list
GET     /api/v2/exit-specs/history                                      exit_spec.test
POST    /api/v2/exit-specs/test                                         exit_spec.test
GET     /api/v2/exit-specs/{name}                                       exit_spec.list
PUT     /api/v2/exit-specs/{name}                                       exit_spec.change
DELETE  /api/v2/exit-specs/{name}                                       exit_spec.change
GET     /api/v2/quotas/me                                               quota.own
GET     /api/v2/reports/weekly                                          report.read
GET     /api/v2/budgets                                                 budget.own
PUT     /api/v2/budgets                                                 budget.change
DELETE  /api/v2/budgets                                                 budget.change
GET     /api/v2/reports/use                                             report.own
GET     /api/v2/announcements                                           announcement.list
POST    /api/v2/announcements                                           announcement.change
DELETE  /api/v2/announcements/{id}                                      announcement.change
GET     /api/v2/plugin-pages                                            plugin_page.list
GET     /api/v2/settings                                                settings.read
GET     /api/v2/audit                                                   audit.own

GET     /                                                               -
GET     /healthz                                                        -
GET     /readyz                                                         -
GET     /prometheus/api/v1/query                                        node.list
GET     /prometheus/api/v1/query_range                                  node.list
GET     /api/{v2|v1}/authn/info                                         -
POST    /api/{v2/tokens|v1/token}                                       -
POST    /api/{v2|v1}/authn/basic/login                                  -
POST    /api/v2/authn/browser/login                                     -
GET     /api/{v2|v1}/authn/oidc/login                                   -
GET     /api/{v2|v1}/authn/oidc/return                                  -
POST    /api/{v2|v1}/authn/oidc/return                                  -
GET     /api/{v2|v1}/authn/oidc/logout                                  -
POST    /api/v2/authn/oidc/token                                        -
POST    /api/v2/authn/oidc/browser                                      -
ANY     /api/{v2/info|v2/|v1/}                                          -
"""  # noqa: E501

# What is said where a route wants to know that before it looks who is allowed.
BODIES: Final[Mapping[str, Any]] = {
    "POST /api/v2/market/items": {"name": "mine", "kind": "dataset", "title": "x", "storage": "data"},
    "PUT /api/v2/market/items/{item}": {"title": "x", "storage": "data"},
    "PUT /api/v2/market/items/{item}/review": {"approved": True},
    "PUT /api/v2/market/settings": {"approval": True},
    "PUT /api/v2/jobs/{job}/executionType": {"value": "STOP"},
    "PUT /api/v2/jobs/{job}/tag": {"value": "tag"},
    "DELETE /api/v2/jobs/{job}/tag": {"value": "tag"},
    "PUT /api/v2/jobs/{job}/priority": {"value": "prod"},
    "PUT /api/v2/jobs/{job}/rank": {"value": "front"},
    "PUT /api/v2/jobs/{job}/taskRoles": {"taskRoles": {"worker": {"instances": 1}}},
    "PUT /api/v2/exit-specs/{name}": {"spec": {"disabled": True}},
    "PUT /api/v2/quotas": {"virtualCluster": "team", "gpusRunning": 1},
}
_SEARCH: Final = (
    "GET /api/v2/jobs/{job}/attempts/{number}/taskRoles/{role}/taskIndex/{index}/attempts/{attempt}/logs/{name}/search"
)
QUERIES: Final[Mapping[str, str]] = {
    "DELETE /api/v2/quotas": "?virtualCluster=team",
    "DELETE /api/v2/budgets": "?kind=vc&name=team",
    "GET /api/v2/scheduler/what-if": "?change=team=%2B1",
    _SEARCH: "?text=x",
}
