"""The options that Tidemill supports, grouped as in Flink. RocksDB and restarts have separate modules.

Keys, defaults and deprecated keys are those of Flink 2.3, unless the description begins with "Tidemill only".
"""

from __future__ import annotations

from datetime import timedelta

from tidemill.config.option import option
from tidemill.config.values import Bool, DurationValue, Int, ListValue, MapValue, MemorySizeValue, OneOf, Text

KB, MB, GB = 1 << 10, 1 << 20, 1 << 30
_MS = timedelta(milliseconds=1)

#: Maximum number of key groups, as in Flink: they are stored in two bytes.
MAX_KEY_GROUPS = 1 << 15


class PipelineOptions:
    """The program: parallelism, names, watermarks."""

    PARALLELISM = option("parallelism.default", Int(1), 1, "Default parallelism of operators.")
    MAX_PARALLELISM = option(
        "pipeline.max-parallelism",
        Int(1, MAX_KEY_GROUPS, also=(-1,)),
        -1,
        "Number of key groups, which limits rescaling; -1 derives it from the parallelism.",
    )
    NAME = option("pipeline.name", Text(), None, "Name of the job.")
    AUTO_WATERMARK_INTERVAL = option(
        "pipeline.auto-watermark-interval",
        DurationValue(),
        timedelta(milliseconds=200),
        "Interval at which periodic watermark generators are called; 0 disables them.",
    )
    OPERATOR_CHAINING = option(
        "pipeline.operator-chaining.enabled",
        Bool(),
        True,
        "Chain adjacent operators into one task.",
        deprecated=["pipeline.operator-chaining"],
    )
    GLOBAL_JOB_PARAMETERS = option(
        "pipeline.global-job-parameters", MapValue(), None, "User-defined parameters, readable in every function."
    )
    PYTHON_FILES = option(
        "python.files", Text(), None, "Python files, zips and eggs that workers can import, comma-separated."
    )
    OBJECT_REUSE = option(
        "pipeline.object-reuse",
        Bool(),
        False,
        "Pass objects on without copying. Only for programs that never modify an emitted or received object.",
    )
    AUTO_GENERATE_UIDS = option(
        "pipeline.auto-generate-uids", Bool(), True, "If false, every operator needs an explicit uid."
    )
    GENERIC_TYPES = option("pipeline.generic-types", Bool(), True, "If false, pickled types are rejected.")
    STRICT_CONFIGURATION = option(
        "pipeline.strict-configuration",
        Bool(),
        False,
        "Tidemill only. If true, an unknown configuration key is an error; otherwise it is a warning.",
    )
    STRICT_TYPES = option(
        "pipeline.strict-types",
        Bool(),
        False,
        "Tidemill only. If true, a value that its declared type does not describe is an error; otherwise it is "
        "converted as in Flink where that is possible.",
    )


class ExecutionOptions:
    """Execution of the job: mode, epochs, exchange."""

    RUNTIME_MODE = option(
        "execution.runtime-mode", OneOf("STREAMING", "BATCH", "AUTOMATIC"), "STREAMING", "Execution mode."
    )
    TARGET = option(
        "execution.target",
        OneOf("spark", "local"),
        "spark",
        "Where to run the job; 'local' is the program's own process, without Spark. If it is not set and no Java is "
        "found, it is 'local'.",
    )
    JOB_ID = option("execution.job-id", Text(), None, "Tidemill only. Id of the job; if not set, one is generated.")
    RESUME_MODE = option(
        "execution.resume-mode",
        OneOf("latest", "none"),
        "latest",
        "Tidemill only. With 'latest', a job resumes from the last committed epoch of its id, if one exists. With "
        "'none', it deletes any existing epochs and starts from scratch.",
    )
    SORTED_INPUTS_MEMORY = option(
        "execution.sorted-inputs.memory",
        MemorySizeValue(),
        128 << 20,
        "BATCH mode: memory that a keyed subtask uses for its input before it spills to disk.",
    )
    EPOCH_MAX_RECORDS = option(
        "execution.epoch.max-records",
        Int(1),
        1_000_000,
        "Tidemill only. Maximum number of records that one source reads in one epoch.",
    )
    EPOCH_MAX_DURATION = option(
        "execution.epoch.max-duration",
        DurationValue(),
        timedelta(seconds=10),
        "Tidemill only. Target maximum duration of an epoch. Slow epochs get fewer records; 0 means no limit.",
    )
    EPOCH_MIN_INTERVAL = option(
        "execution.epoch.min-interval",
        DurationValue(),
        timedelta(0),
        "Tidemill only. Minimum time between the starts of two epochs.",
    )
    OWNER_CHECK_INTERVAL = option(
        "execution.owner-check-interval",
        DurationValue(_MS),
        timedelta(seconds=10),
        "Tidemill only. How often an idle driver checks whether another driver has taken over its job.",
    )
    TAKE_OVER = option(
        "execution.take-over",
        Bool(),
        False,
        "Tidemill only. Whether to take the job over from a driver that is alive, which then stops. A dead driver's "
        "job is always resumed.",
    )
    DRIVER_HEARTBEAT_INTERVAL = option(
        "execution.driver-heartbeat-interval",
        DurationValue(_MS),
        timedelta(seconds=5),
        "Tidemill only. How often a driver writes to the checkpoint directory that it is alive. After three intervals "
        "without it, another driver resumes the job.",
    )
    CLOCK_JUMP_DELAY = option(
        "execution.clock.jump-delay",
        DurationValue(),
        timedelta(minutes=1),
        "Tidemill only. How long a forward jump of the wall clock must persist before processing time follows it.",
    )
    EPOCH_SNAPSHOT_INTERVAL = option(
        "execution.epoch.snapshot-interval",
        Int(2),
        16,
        "Tidemill only. Number of epochs after which their deltas are merged in the background.",
    )
    DEAD_LETTER_DIRECTORY = option(
        "execution.dead-letter.dir",
        Text(),
        None,
        "Tidemill only. Directory for records at which operators with ErrorPolicy.dead_letter() fail, as JSON lines.",
    )
    SINK_COMMITTER_TIMEOUT = option(
        "sink.committer.timeout",
        DurationValue(_MS),
        timedelta(minutes=10),
        "Tidemill only. The job fails if a sink does not commit an epoch within this time.",
    )
    EXCHANGE_PARCEL_SIZE = option(
        "execution.exchange.parcel-size", MemorySizeValue(), MB, "Tidemill only. Target size of one parcel of records."
    )


class TaskOptions:
    """Tasks."""

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
        "Time to wait for a cancelled task; 0 means no limit.",
    )


class CheckpointingOptions:
    """Checkpoints: interval, location, retention."""

    INTERVAL = option(
        "execution.checkpointing.interval",
        DurationValue(_MS),
        None,
        "Time between checkpoints; if not set, checkpointing is disabled.",
    )
    MODE = option(
        "execution.checkpointing.mode", OneOf("EXACTLY_ONCE", "AT_LEAST_ONCE"), "EXACTLY_ONCE", "Consistency guarantee."
    )
    TIMEOUT = option(
        "execution.checkpointing.timeout",
        DurationValue(_MS),
        timedelta(minutes=10),
        "A checkpoint that takes longer fails.",
    )
    MIN_PAUSE = option(
        "execution.checkpointing.min-pause", DurationValue(), timedelta(0), "Minimum pause between two checkpoints."
    )
    MAX_CONCURRENT = option(
        "execution.checkpointing.max-concurrent-checkpoints", Int(1), 1, "Maximum number of concurrent checkpoints."
    )
    EXTERNALIZED_RETENTION = option(
        "execution.checkpointing.externalized-checkpoint-retention",
        OneOf("DELETE_ON_CANCELLATION", "RETAIN_ON_CANCELLATION", "NO_EXTERNALIZED_CHECKPOINTS"),
        "NO_EXTERNALIZED_CHECKPOINTS",
        "What happens to checkpoints when the job is cancelled.",
    )
    TOLERABLE_FAILED = option(
        "execution.checkpointing.tolerable-failed-checkpoints",
        Int(0),
        0,
        "Consecutive failures that the job tolerates.",
    )
    INCREMENTAL = option(
        "execution.checkpointing.incremental",
        Bool(),
        False,
        "Store only changes (Tidemill always does).",
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
        "Where checkpoints are stored; if not set, filesystem if a directory is set.",
        deprecated=["state.checkpoint-storage"],
    )
    UNALIGNED = option(
        "execution.checkpointing.unaligned.enabled",
        Bool(),
        False,
        "Accepted; epochs need no alignment.",
        deprecated=["execution.checkpointing.unaligned"],
    )
    HISTORY_SIZE = option("web.checkpoints.history", Int(1), 10, "Number of checkpoints in a job's history.")
    JOBMANAGER_MAX_STATE_SIZE = option(
        "execution.checkpointing.jobmanager.max-state-size",
        MemorySizeValue(),
        5 * MB,
        "Tidemill only. Maximum size of one subtask's state with checkpoint storage 'jobmanager'.",
    )
    SNAPSHOT_COMPRESSION = option("execution.checkpointing.snapshot-compression", Bool(), False, "Compress snapshots.")


class StateRecoveryOptions:
    """The state that a job starts from."""

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
        "Tidemill only. A job with committed epochs resumes from the last one, regardless of the recovery path.",
    )
    CLAIM_MODE = option(
        "execution.state-recovery.claim-mode",
        OneOf("CLAIM", "NO_CLAIM", "LEGACY"),
        "NO_CLAIM",
        "Who owns the files of the restored savepoint or checkpoint.",
        deprecated=["execution.savepoint-restore-mode"],
    )
    ALLOW_PICKLE = option(
        "execution.state-recovery.allow-pickle",
        Bool(),
        False,
        "Tidemill only. Also unpickle state from outside the job's own directories. A pickle can execute any code.",
    )
    DRY_RUN = option(
        "execution.state-recovery.dry-run",
        Bool(),
        False,
        "Tidemill only. Only print what would happen to each state if the program started.",
    )


class StateOptions:
    """State at run time."""

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
        "Tidemill only. Smaller deltas are stored in the manifest.",
    )
    WORKER_CACHE_SIZE = option(
        "worker.cache.size",
        MemorySizeValue(),
        GB,
        "Tidemill only. Maximum size of the warm state in one Python worker.",
    )


class FileOptions:
    """Monitored files."""

    MISSING = option(
        "files.missing",
        OneOf("fail", "skip"),
        "fail",
        "Tidemill only. What to do if a file of a monitored path disappears before it is read; 'skip' ignores it.",
    )


class SparkOptions:
    """Spark. All other keys that begin with ``spark.`` are passed to Spark unchanged."""

    MASTER = option("spark.master", Text(), "local[*,4]", "Spark master, if no session exists.")


class MetricOptions:
    """Metrics."""

    REPORTERS = option("metrics.reporters", ListValue(), None, "Names of the reporters to start; if not set, all.")
    LATENCY_INTERVAL = option(
        "metrics.latency.interval", DurationValue(), timedelta(0), "Interval of latency markers; 0 disables them."
    )
    FETCHER_UPDATE_INTERVAL = option(
        "metrics.fetcher.update-interval", DurationValue(), timedelta(seconds=10), "How often the web page is updated."
    )
    MAX_SUBTASKS = option(
        "metrics.max-subtasks",
        Int(1),
        256,
        "Tidemill only. Number of subtasks of an operator that are reported individually; the others are summed up.",
    )
    HOT_KEYS = option(
        "metrics.hot-keys.enabled", Bool(), True, "Tidemill only. Sample keys to determine the most frequent ones."
    )


class RestOptions:
    """The REST server and web page."""

    ENABLED = option("rest.enabled", Bool(), False, "Tidemill only. Run a REST server in the driver process.")
    ADDRESS = option("rest.address", Text(), None, "Host that clients use.")
    BIND_ADDRESS = option("rest.bind-address", Text(), None, "Address the server listens on; if not set, 127.0.0.1.")
    PORT = option("rest.port", Int(0, 65535), 8081, "Port that clients use, and the server if no bind port is set.")
    BIND_PORT = option("rest.bind-port", Text(), "8081", "Port or range of ports ('8081-8090') the server listens on.")
    CONNECTION_TIMEOUT = option(
        "rest.connection-timeout", DurationValue(_MS), timedelta(seconds=15), "Timeout of clients."
    )
    OPERATE_TOKEN = option(
        "rest.operate-token",
        Text(),
        None,
        "Tidemill only. Location ('env:NAME', 'file:PATH') of the token that permits everything.",
    )
    READ_TOKEN = option(
        "rest.read-token",
        Text(),
        None,
        "Tidemill only. Location of the token that permits reading everything except state and records.",
    )
    SAVEPOINT_DIRECTORIES = option(
        "rest.savepoint-dirs",
        ListValue(),
        None,
        "Tidemill only. Directories allowed for savepoints of clients, besides execution.checkpointing.savepoint-dir.",
    )
    MAX_REQUESTS = option(
        "rest.max-requests-per-second",
        Int(1),
        100,
        "Tidemill only. Maximum number of requests from one client address.",
    )
    CERTIFICATE = option(
        "rest.ssl.certificate", Text(), None, "Tidemill only. Certificate chain (PEM), which enables HTTPS."
    )
    CERTIFICATE_KEY = option("rest.ssl.certificate-key", Text(), None, "Tidemill only. File of the private key (PEM).")
    CLIENT_CA = option(
        "rest.ssl.client-ca",
        Text(),
        None,
        "Tidemill only. Certificate authorities (PEM). Clients must present a certificate signed by one of them.",
    )
    ANYONE = option(
        "rest.dangerously-allow-anyone",
        Bool(),
        False,
        "Tidemill only. Serve an address that other machines can reach, and permit every client to do everything.",
    )
    JOBS_KEPT = option("rest.ended-jobs", Int(0), 50, "Tidemill only. Number of ended jobs that the server keeps.")
    SUBMIT = option(
        "web.submit.enable",
        Bool(),
        False,
        "Allow clients with the operate token to upload and run programs. Flink's default is true.",
    )
