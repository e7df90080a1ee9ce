"""The options that Tidemill acts on, grouped as Flink groups them; RocksDB and restarts have modules of their own.

Keys, defaults and deprecated keys are those of Flink 2.3 unless the description says that the option is Tidemill's own.
"""

from __future__ import annotations

from datetime import timedelta

from tidemill.config.option import option
from tidemill.config.values import Bool, DurationValue, Int, ListValue, MapValue, MemorySizeValue, OneOf, Text

KB, MB, GB = 1 << 10, 1 << 20, 1 << 30
_MS = timedelta(milliseconds=1)

#: Upper bound of key groups: Flink's, two bytes.
MAX_KEY_GROUPS = 1 << 15


class PipelineOptions:
    """What the program looks like: parallelism, names, watermarks."""

    PARALLELISM = option("parallelism.default", Int(1), 1, "Subtasks of an operator that sets no parallelism.")
    MAX_PARALLELISM = option(
        "pipeline.max-parallelism",
        Int(1, MAX_KEY_GROUPS, also=(-1,)),
        -1,
        "Number of key groups, the bound of rescaling; -1 derives it from the parallelism.",
    )
    NAME = option("pipeline.name", Text(), None, "Name of the job.")
    AUTO_WATERMARK_INTERVAL = option(
        "pipeline.auto-watermark-interval",
        DurationValue(),
        timedelta(milliseconds=200),
        "How often periodic watermark generators are asked; 0 stops them.",
    )
    OPERATOR_CHAINING = option(
        "pipeline.operator-chaining.enabled",
        Bool(),
        True,
        "Run neighbouring operators in one task.",
        deprecated=["pipeline.operator-chaining"],
    )
    GLOBAL_JOB_PARAMETERS = option(
        "pipeline.global-job-parameters", MapValue(), None, "The user's own parameters, readable in every function."
    )
    PYTHON_FILES = option(
        "python.files", Text(), None, "Python files, zips and eggs that workers can import, with commas between them."
    )
    OBJECT_REUSE = option(
        "pipeline.object-reuse",
        Bool(),
        False,
        "Hand objects on without copies: for programs that change no object after they emitted or received it.",
    )
    AUTO_GENERATE_UIDS = option(
        "pipeline.auto-generate-uids", Bool(), True, "If false, every operator needs a uid set by the user."
    )
    GENERIC_TYPES = option("pipeline.generic-types", Bool(), True, "If false, pickled types are refused.")


class ExecutionOptions:
    """How the job runs: mode, epochs, exchange."""

    RUNTIME_MODE = option(
        "execution.runtime-mode", OneOf("STREAMING", "BATCH", "AUTOMATIC"), "STREAMING", "Execution mode."
    )
    TARGET = option(
        "execution.target", OneOf("spark", "local"), "spark", "Where to run; 'local' is one process, without Spark."
    )
    JOB_ID = option("execution.job-id", Text(), None, "Tidemill's own: the job's id; a new one if not set.")
    RESUME_MODE = option(
        "execution.resume-mode",
        OneOf("latest", "none"),
        "latest",
        "Tidemill's own: whether a job that finds committed epochs of its id goes on from the last one. With 'none' it "
        "begins anew, and deletes them, or what is left of them.",
    )
    SORTED_INPUTS_MEMORY = option(
        "execution.sorted-inputs.memory",
        MemorySizeValue(),
        128 << 20,
        "BATCH mode: memory of a keyed subtask for its input, before it is put aside on disk.",
    )
    EPOCH_MAX_RECORDS = option(
        "execution.epoch.max-records", Int(1), 1_000_000, "Tidemill's own: most records of one source in one epoch."
    )
    EPOCH_MAX_DURATION = option(
        "execution.epoch.max-duration",
        DurationValue(),
        timedelta(seconds=10),
        "Tidemill's own: how long an epoch may take. It gets fewer records where they cost more; 0: no bound.",
    )
    EPOCH_MIN_INTERVAL = option(
        "execution.epoch.min-interval",
        DurationValue(),
        timedelta(0),
        "Tidemill's own: least time between epoch starts.",
    )
    OWNER_CHECK_INTERVAL = option(
        "execution.owner-check-interval",
        DurationValue(_MS),
        timedelta(seconds=10),
        "Tidemill's own: how often a driver without work looks whether another one has taken its job over.",
    )
    CLOCK_JUMP_DELAY = option(
        "execution.clock.jump-delay",
        DurationValue(),
        timedelta(minutes=1),
        "Tidemill's own: how long a jump of the wall clock ahead must last before processing time follows it.",
    )
    EPOCH_SNAPSHOT_INTERVAL = option(
        "execution.epoch.snapshot-interval",
        Int(2),
        16,
        "Tidemill's own: epochs after which their deltas are merged in the background.",
    )
    DEAD_LETTER_DIRECTORY = option(
        "execution.dead-letter.dir",
        Text(),
        None,
        "Tidemill's own: where records go, as JSON lines, that operators with ErrorPolicy.dead_letter() failed at.",
    )
    SINK_COMMITTER_TIMEOUT = option(
        "sink.committer.timeout",
        DurationValue(_MS),
        timedelta(minutes=10),
        "Tidemill's own: a sink that has not committed an epoch after so long fails the job.",
    )
    EXCHANGE_PARCEL_SIZE = option(
        "execution.exchange.parcel-size", MemorySizeValue(), MB, "Tidemill's own: target size of one packet of records."
    )


class TaskOptions:
    """Single tasks."""

    CANCELLATION_INTERVAL = option(
        "task.cancellation.interval",
        DurationValue(),
        timedelta(seconds=30),
        "Time between attempts to cancel a task.",
        deprecated=["task.cancellation-interval"],
    )
    CANCELLATION_TIMEOUT = option(
        "task.cancellation.timeout",
        DurationValue(),
        timedelta(minutes=3),
        "Time to wait for a cancelled task; 0: no bound.",
    )


class CheckpointingOptions:
    """Checkpoints: when, where, how many are kept."""

    INTERVAL = option(
        "execution.checkpointing.interval",
        DurationValue(_MS),
        None,
        "Time between checkpoints; not set: no checkpoints.",
    )
    MODE = option(
        "execution.checkpointing.mode", OneOf("EXACTLY_ONCE", "AT_LEAST_ONCE"), "EXACTLY_ONCE", "Consistency."
    )
    TIMEOUT = option(
        "execution.checkpointing.timeout",
        DurationValue(_MS),
        timedelta(minutes=10),
        "A checkpoint that takes longer fails.",
    )
    MIN_PAUSE = option("execution.checkpointing.min-pause", DurationValue(), timedelta(0), "Least time between two.")
    MAX_CONCURRENT = option("execution.checkpointing.max-concurrent-checkpoints", Int(1), 1, "Most at one time.")
    EXTERNALIZED_RETENTION = option(
        "execution.checkpointing.externalized-checkpoint-retention",
        OneOf("DELETE_ON_CANCELLATION", "RETAIN_ON_CANCELLATION", "NO_EXTERNALIZED_CHECKPOINTS"),
        "NO_EXTERNALIZED_CHECKPOINTS",
        "What becomes of checkpoints when the job is cancelled.",
    )
    TOLERABLE_FAILED = option(
        "execution.checkpointing.tolerable-failed-checkpoints", Int(0), 0, "Failures in a row before the job fails."
    )
    INCREMENTAL = option(
        "execution.checkpointing.incremental",
        Bool(),
        False,
        "Store only what changed (Tidemill always does).",
        deprecated=["state.backend.incremental"],
    )
    DIRECTORY = option(
        "execution.checkpointing.dir",
        Text(),
        None,
        "Directory of checkpoints, a path or URI.",
        deprecated=["state.checkpoints.dir", "state.backend.fs.checkpointdir"],
    )
    SAVEPOINT_DIRECTORY = option(
        "execution.checkpointing.savepoint-dir",
        Text(),
        None,
        "Default directory of savepoints.",
        deprecated=["state.savepoints.dir", "savepoints.state.backend.fs.dir"],
    )
    NUM_RETAINED = option(
        "execution.checkpointing.num-retained",
        Int(1),
        1,
        "Completed checkpoints to keep.",
        deprecated=["state.checkpoints.num-retained"],
    )
    STORAGE = option(
        "execution.checkpointing.storage",
        OneOf("jobmanager", "filesystem", or_class=True),
        None,
        "Where checkpoints are kept; not set: filesystem if a directory is set.",
        deprecated=["state.checkpoint-storage"],
    )
    UNALIGNED = option(
        "execution.checkpointing.unaligned.enabled",
        Bool(),
        False,
        "Accepted; epochs need no alignment.",
        deprecated=["execution.checkpointing.unaligned"],
    )
    HISTORY_SIZE = option("web.checkpoints.history", Int(1), 10, "Checkpoints that a job's history remembers.")
    JOBMANAGER_MAX_STATE_SIZE = option(
        "execution.checkpointing.jobmanager.max-state-size",
        MemorySizeValue(),
        5 * MB,
        "Tidemill's own: most bytes of one subtask's state with checkpoint storage 'jobmanager'.",
    )
    SNAPSHOT_COMPRESSION = option("execution.checkpointing.snapshot-compression", Bool(), False, "Compress snapshots.")


class StateRecoveryOptions:
    """What to start from."""

    SAVEPOINT_PATH = option(
        "execution.state-recovery.path",
        Text(),
        None,
        "Savepoint or checkpoint to start from.",
        deprecated=["execution.savepoint.path"],
    )
    IGNORE_UNCLAIMED_STATE = option(
        "execution.state-recovery.ignore-unclaimed-state",
        Bool(),
        False,
        "Start even if the savepoint has state that no operator of the program claims.",
        deprecated=["execution.savepoint.ignore-unclaimed-state"],
    )
    PREFER_LATEST = option(
        "execution.state-recovery.prefer-latest",
        Bool(),
        False,
        "Tidemill's own: a job that has committed epochs goes on from the last one, whatever the path to start from.",
    )
    CLAIM_MODE = option(
        "execution.state-recovery.claim-mode",
        OneOf("CLAIM", "NO_CLAIM", "LEGACY"),
        "NO_CLAIM",
        "Who owns the files started from.",
        deprecated=["execution.savepoint-restore-mode"],
    )
    ALLOW_PICKLE = option(
        "execution.state-recovery.allow-pickle",
        Bool(),
        False,
        "Tidemill's own: unpickle state also from elsewhere than the job's own directories; it can run any code.",
    )
    DRY_RUN = option(
        "execution.state-recovery.dry-run",
        Bool(),
        False,
        "Tidemill's own: only print what the program would find of the state it would start from.",
    )


class StateOptions:
    """Where state lives while the job runs."""

    BACKEND = option(
        "state.backend.type",
        OneOf("hashmap", "rocksdb", aliases={"filesystem": "hashmap", "jobmanager": "hashmap"}, or_class=True),
        "hashmap",
        "State backend.",
        deprecated=["state.backend"],
    )
    INLINE_DELTA_SIZE = option(
        "state.inline-delta-size",
        MemorySizeValue(),
        64 * KB,
        "Tidemill's own: smaller deltas are stored in the manifest.",
    )
    WORKER_CACHE_SIZE = option(
        "worker.cache.size",
        MemorySizeValue(),
        GB,
        "Tidemill's own: bytes of warm state that one Python worker may hold.",
    )


class FileOptions:
    """Watched files."""

    MISSING = option(
        "files.missing",
        OneOf("fail", "skip"),
        "fail",
        "Tidemill's own: what to do if a file of a watched path is gone before it was read; 'skip' goes on without it.",
    )


class SparkOptions:
    """Spark itself; every other key that begins with ``spark.`` is handed to Spark as it is."""

    MASTER = option("spark.master", Text(), "local[*,4]", "Spark master, used if no session exists.")


class MetricOptions:
    """Metrics."""

    REPORTERS = option("metrics.reporters", ListValue(), None, "Names of the reporters to start; not set: all.")
    LATENCY_INTERVAL = option("metrics.latency.interval", DurationValue(), timedelta(0), "Latency marks; 0: none.")
    FETCHER_UPDATE_INTERVAL = option(
        "metrics.fetcher.update-interval", DurationValue(), timedelta(seconds=10), "How often the page gets new values."
    )
    MAX_SUBTASKS = option(
        "metrics.max-subtasks",
        Int(1),
        256,
        "Tidemill's own: subtasks of an operator that are told apart; the counts of others are added up.",
    )
    HOT_KEYS = option(
        "metrics.hot-keys.enabled", Bool(), True, "Tidemill's own: sample keys, to tell which are the hottest."
    )


class RestOptions:
    """The REST server and page."""

    ENABLED = option(
        "rest.enabled", Bool(), False, "Tidemill's own: serve REST from the driver, while its process lives."
    )
    ADDRESS = option("rest.address", Text(), None, "Host that clients use.")
    BIND_ADDRESS = option("rest.bind-address", Text(), None, "Address the server listens on; not set: 127.0.0.1.")
    PORT = option("rest.port", Int(0, 65535), 8081, "Port that clients use, and the server if no bind port is set.")
    BIND_PORT = option("rest.bind-port", Text(), "8081", "Port or range of ports ('8081-8090') the server listens on.")
    CONNECTION_TIMEOUT = option("rest.connection-timeout", DurationValue(_MS), timedelta(seconds=15), "For clients.")
    OPERATE_TOKEN = option(
        "rest.operate-token",
        Text(),
        None,
        "Tidemill's own: where the token is ('env:NAME', 'file:PATH') with which a client may do everything.",
    )
    READ_TOKEN = option(
        "rest.read-token",
        Text(),
        None,
        "Tidemill's own: where the token is with which a client may look at all but state and records.",
    )
    SAVEPOINT_DIRECTORIES = option(
        "rest.savepoint-dirs",
        ListValue(),
        None,
        "Tidemill's own: where clients may have savepoints written, beside execution.checkpointing.savepoint-dir.",
    )
    MAX_REQUESTS = option(
        "rest.max-requests-per-second", Int(1), 100, "Tidemill's own: most requests of one client's address."
    )
    CERTIFICATE = option(
        "rest.ssl.certificate", Text(), None, "Tidemill's own: certificate chain (PEM); with it, HTTPS."
    )
    CERTIFICATE_KEY = option("rest.ssl.certificate-key", Text(), None, "Tidemill's own: file of its private key (PEM).")
    CLIENT_CA = option(
        "rest.ssl.client-ca",
        Text(),
        None,
        "Tidemill's own: authorities (PEM); clients must show a certificate that one of them has signed.",
    )
    ANYONE = option(
        "rest.dangerously-allow-anyone",
        Bool(),
        False,
        "Tidemill's own: serve an address that other machines reach, to whoever asks, and let them do everything.",
    )
    JOBS_KEPT = option("rest.ended-jobs", Int(0), 50, "Tidemill's own: ended jobs that the server remembers.")
    SUBMIT = option(
        "web.submit.enable",
        Bool(),
        False,
        "Let clients with the operate token upload programs and run them. Flink's default is true; here it is not.",
    )
