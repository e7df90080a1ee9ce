// @ts-check
// The types of the responses of the REST server. This module contains only types, so no script loads it at run time.
//
// Each type has the name of its model (tidemill.ops.rest.models), with the fields that the page reads.
// tests/unit/ops/web/test_answer_types.py compares them. Times and durations are in milliseconds, sizes in bytes.

/**
 * @typedef {{
 *   "tidemill-version": string,
 *   "may-operate": boolean,
 *   features: Features,
 * }} ServerConfig
 *
 * @typedef {{
 *   "web-history": boolean,
 * }} Features
 *
 * @typedef {{
 *   errors: string[],
 * }} Errors
 */

/**
 * @typedef {{
 *   jid: string,
 *   name: string,
 *   state: string,
 *   "start-time": number,
 *   "end-time": number,
 *   duration: number,
 *   restarts: number,
 *   epoch: number,
 *   "records-per-second": number,
 *   url?: string | null,
 * }} JobOverview
 *
 * @typedef {{
 *   jobs: JobOverview[],
 * }} JobsOverview
 *
 * @typedef {{
 *   jid: string,
 *   name: string,
 *   state: string,
 *   "job-type": string,
 *   "start-time": number,
 *   "end-time": number,
 *   now: number,
 *   restarts: number,
 *   epoch: number,
 *   recorded: number | null,
 *   vertices: Vertex[],
 *   plan: PlanInfo,
 * }} JobDetails
 *
 * @typedef {{
 *   "execution-mode": string,
 *   "restart-strategy": string,
 *   "job-parallelism": number,
 *   "object-reuse-mode": boolean,
 *   "user-config": Record<string, string>,
 * }} ExecutionConfig
 *
 * @typedef {{
 *   "execution-config": ExecutionConfig,
 *   configuration: Record<string, string>,
 * }} JobConfig
 *
 * @typedef {{
 *   exceptionName: string,
 *   stacktrace: string,
 *   timestamp: number,
 *   lastTimestamp: number,
 *   times: number,
 *   taskName: string | null,
 *   uid: string | null,
 *   subtask: number | null,
 *   epoch: number | null,
 *   record: string | null,
 *   followedBy: string,
 * }} JobException
 *
 * @typedef {{
 *   entries: JobException[],
 *   truncated: boolean,
 * }} ExceptionEntries
 *
 * @typedef {{
 *   exceptionHistory: ExceptionEntries,
 * }} JobExceptions
 *
 * @typedef {{
 *   path: string,
 *   lines: string[],
 *   next: number,
 * }} LogLines
 */

/**
 * @typedef {{
 *   id: string,
 *   ship_strategy: string,
 *   side_output: string | null,
 * }} PlanInput
 *
 * @typedef {{
 *   uid: string,
 *   name: string,
 *   line: string,
 *   keyed: boolean,
 *   guarantee?: string,
 * }} PlanOperator
 *
 * @typedef {{
 *   id: string,
 *   parallelism: number,
 *   operator: string,
 *   inputs: PlanInput[],
 *   operators: PlanOperator[],
 * }} PlanNode
 *
 * @typedef {{
 *   nodes: PlanNode[],
 *   guarantee?: string,
 * }} PlanInfo
 */

/**
 * @typedef {{
 *   "read-records": number,
 *   "write-records": number,
 * }} IoMetrics
 *
 * @typedef {{
 *   id: string,
 *   uid: string,
 *   name: string,
 *   operators: string[],
 *   maxParallelism: number,
 *   parallelism: number,
 * }} Vertex
 *
 * @typedef {{
 *   id: string,
 *   parallelism: number,
 *   "records-in-per-second": number,
 *   "records-out-per-second": number,
 *   busy: number,
 *   backpressure: number,
 *   watermark: number | null,
 * }} VertexNow
 *
 * @typedef {{
 *   subtask: number,
 *   metrics: IoMetrics,
 * }} Subtask
 *
 * @typedef {{
 *   subtasks: Subtask[],
 * }} VertexDetails
 *
 * @typedef {{
 *   subtask: number,
 *   ratio: number,
 *   busyRatio: number,
 * }} SubtaskPressure
 *
 * @typedef {{
 *   subtasks: SubtaskPressure[],
 * }} Backpressure
 *
 * @typedef {{
 *   key: unknown,
 *   text: string,
 *   share: number,
 *   records: number,
 * }} HotKeyInfo
 *
 * @typedef {{
 *   keys: HotKeyInfo[],
 *   sampled: number,
 * }} HotKeysInfo
 *
 * @typedef {{
 *   id: string,
 *   value?: string,
 * }} MetricInfo
 *
 * @typedef {{
 *   id: string,
 *   min?: number,
 *   max?: number,
 *   avg?: number,
 *   sum?: number,
 * }} AggregatedMetric
 */

/**
 * @typedef {{
 *   epoch: number,
 *   ended: number,
 *   duration: number,
 *   phases: Record<string, number>,
 *   records: number,
 *   "delta-bytes": number,
 *   "state-entries": number,
 *   runs: number,
 * }} Epoch
 *
 * @typedef {{
 *   epochs: Epoch[],
 * }} Epochs
 */

/**
 * @typedef {{
 *   id: number,
 *   status: string,
 *   is_savepoint: boolean,
 *   checkpoint_type: string,
 *   trigger_timestamp: number,
 *   end_to_end_duration: number,
 *   state_size: number,
 *   checkpointed_size: number,
 *   discarded: boolean,
 *   external_path: string | null,
 *   failure_message: string | null,
 * }} Checkpoint
 *
 * @typedef {{
 *   id: number,
 *   status: string,
 *   is_savepoint: boolean,
 *   checkpoint_type: string,
 *   trigger_timestamp: number,
 *   end_to_end_duration: number,
 *   state_size: number,
 *   checkpointed_size: number,
 *   discarded: boolean,
 *   external_path: string | null,
 *   failure_message: string | null,
 *   tasks: Record<string, TaskCheckpoint>,
 * }} CheckpointDetails
 *
 * @typedef {{
 *   id: string,
 *   name: string,
 *   num_subtasks: number,
 *   checkpointed_size: number,
 *   end_to_end_duration: number,
 *   write_duration: number,
 * }} TaskCheckpoint
 *
 * @typedef {{
 *   uid: string,
 *   name: string,
 *   rows: number,
 * }} WrittenState
 *
 * @typedef {{
 *   index: number,
 *   checkpointed_size: number,
 *   end_to_end_duration: number,
 *   write_duration: number,
 *   states: WrittenState[],
 * }} SubtaskCheckpointInfo
 *
 * @typedef {{
 *   subtasks: SubtaskCheckpointInfo[],
 * }} SubtaskCheckpoints
 *
 * @typedef {{
 *   completed: number,
 *   failed: number,
 * }} CheckpointCounts
 *
 * @typedef {{
 *   p50: number,
 *   p95: number,
 * }} Spread
 *
 * @typedef {{
 *   checkpointed_size: Spread,
 *   end_to_end_duration: Spread,
 * }} CheckpointSummary
 *
 * @typedef {{
 *   completed: Checkpoint | null,
 *   savepoint: Checkpoint | null,
 *   failed: Checkpoint | null,
 *   restored: Checkpoint | null,
 * }} LatestCheckpoints
 *
 * @typedef {{
 *   counts: CheckpointCounts,
 *   summary: CheckpointSummary,
 *   latest: LatestCheckpoints,
 *   history: Checkpoint[],
 * }} Checkpoints
 *
 * @typedef {{
 *   enabled: boolean,
 *   delete_on_cancellation: boolean,
 * }} Externalization
 *
 * @typedef {{
 *   mode: string,
 *   interval: number,
 *   timeout: number,
 *   min_pause: number,
 *   externalization: Externalization,
 *   state_backend: string,
 *   checkpoint_storage: string,
 *   tolerable_failed_checkpoints: number,
 *   num_retained: number,
 * }} CheckpointConfigInfo
 */

/**
 * @typedef {{
 *   id: string,
 *   name: string,
 *   kind: string,
 *   types: Record<string, string>,
 *   rows: number,
 *   bytes: number,
 *   entries: number | null,
 * }} StateOfOperator
 *
 * @typedef {{
 *   id: string,
 *   uid: string,
 *   name: string,
 *   keyed: boolean,
 *   timers: number,
 *   states: StateOfOperator[],
 *   "operator-states": StateOfOperator[],
 * }} OperatorWithState
 *
 * @typedef {{
 *   epoch: number,
 *   operators: OperatorWithState[],
 * }} StateList
 *
 * @typedef {{
 *   epoch: number,
 *   entries: Record<string, unknown>[],
 *   next: string | null,
 * }} StatePage
 */

/**
 * @typedef {{
 *   "request-id": string,
 * }} Trigger
 *
 * @typedef {{
 *   id: string,
 * }} OperationState
 *
 * @typedef {{
 *   class: string,
 *   "stack-trace": string,
 * }} FailureCause
 *
 * @typedef {{
 *   location?: string,
 *   "failure-cause"?: FailureCause,
 * }} OperationResult
 *
 * @typedef {{
 *   status: OperationState,
 *   operation?: OperationResult,
 * }} OperationAnswer
 */

/**
 * An event of a job's stream; `epoch` is its last committed epoch, `latest` the new ones.
 *
 * @typedef {{
 *   state: string,
 *   restarts: number,
 *   epoch: Epoch | null,
 *   latest: Epoch[],
 *   vertices: VertexNow[],
 * }} JobEvent
 */

export {};
