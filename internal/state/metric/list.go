// Package metric lists the metrics that package metrics exports, for it and for the pages and rules made from them.
package metric

import "slices"

// Type is how a metric behaves.
type Type string

// The types of Prometheus that are used.
const (
	Counter   Type = "counter"
	Gauge     Type = "gauge"
	Histogram Type = "histogram"
)

// Scope is what a metric counts.
type Scope string

const (
	// ScopeProcess counts what this process did: take sum over the fleet.
	ScopeProcess Scope = "process"
	// ScopeFleet is state that the fleet shares: take max over the fleet.
	ScopeFleet Scope = "fleet"
)

// Metric is the definition of one metric.
type Metric struct {
	Name, Help string
	Type       Type
	Scope      Scope
	Labels     []string
	// Buckets are the upper bounds of a histogram, in seconds.
	Buckets []float64
}

// The labels.
const (
	labelLimit, labelKey, labelMeter = "limit", "key", "meter"
	labelQueue, labelType            = "queue", "type"
	labelState, labelResult          = "state", "result"
	labelReason, labelService        = "reason", "service"
	labelOperation, labelCommand     = "operation", "command"
	labelCollection                  = "collection"
	labelKind, labelSeverity         = "kind", "severity"
	labelCause, labelRemedy          = "cause", "remedy"
)

// fast are bounds for what takes microseconds to seconds, slow for what takes milliseconds to minutes.
func fast() []float64 {
	return []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5}
}

func slow() []float64 { return []float64{.01, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600} }

// The names of the metrics.
const (
	Up          = "headway_up"
	ReadAge     = "headway_fleet_read_timestamp_seconds"
	ReadSeconds = "headway_fleet_read_duration_seconds"
	Dispatcher  = "headway_dispatcher_on_duty"
	Stuck       = "headway_stuck_tasks"

	Capacity      = "headway_meter_capacity_tokens"
	Refill        = "headway_meter_refill_tokens_per_second"
	Level         = "headway_meter_level_tokens"
	Reserved      = "headway_meter_reserved_tokens"
	BlockedUntil  = "headway_bucket_blocked_until_timestamp_seconds"
	Stopped       = "headway_bucket_stopped"
	WaitingTasks  = "headway_waitlist_tasks"
	WaitingTokens = "headway_waitlist_tokens"
	WaitlistEnd   = "headway_waitlist_end_timestamp_seconds"
	Truncated     = "headway_waitlists_truncated"
	WaitGoal      = "headway_waitlist_wait_goal_seconds"

	QueueTasks   = "headway_queue_tasks"
	QueueLatency = "headway_queue_latency_seconds"
	QueuePaused  = "headway_queue_paused"

	DeadTasks     = "headway_dead_tasks"
	DeadLately    = "headway_dead_tasks_last_hour"
	Batches       = "headway_batches"
	BatchRequests = "headway_batch_requests"

	Running  = "headway_tasks_running"
	Finished = "headway_tasks_finished_total"
	Duration = "headway_task_duration_seconds"
	Rejected = "headway_tasks_rejected_total"
	Deferred = "headway_tasks_deferred_total"

	Starts    = "headway_starts_total"
	Lateness  = "headway_start_lateness_seconds"
	Hold      = "headway_start_hold_seconds"
	Estimated = "headway_tokens_estimated_total"
	Settled   = "headway_tokens_settled_total"
	Unsettled = "headway_settlements_failed_total"
	Refusals  = "headway_provider_refusals_total"
	Syncs     = "headway_syncs_total"

	StoreSeconds = "headway_store_call_duration_seconds"
	StoreErrors  = "headway_store_errors_total"
	RedisSeconds = "headway_redis_call_duration_seconds"
	RedisErrors  = "headway_redis_errors_total"
	MongoSeconds = "headway_mongo_call_duration_seconds"
	MongoErrors  = "headway_mongo_errors_total"
)

func fleetGauge(name, help string, labels ...string) Metric {
	return Metric{Name: name, Help: help, Type: Gauge, Scope: ScopeFleet, Labels: labels}
}

func ownGauge(name, help string, labels ...string) Metric {
	return Metric{Name: name, Help: help, Type: Gauge, Scope: ScopeProcess, Labels: labels}
}

func counter(name, help string, labels ...string) Metric {
	return Metric{Name: name, Help: help, Type: Counter, Scope: ScopeProcess, Labels: labels}
}

func histogram(name, help string, buckets []float64, labels ...string) Metric {
	return Metric{Name: name, Help: help, Type: Histogram, Scope: ScopeProcess, Labels: labels, Buckets: buckets}
}

// List returns the definitions of all metrics, in the order of docs/metrics.md.
func List() []Metric {
	return slices.Concat(serviceMetrics(), limitMetrics(), taskMetrics(), startMetrics(), callMetrics())
}

// serviceMetrics are the metrics of the services and the dispatcher.
func serviceMetrics() []Metric {
	return []Metric{
		fleetGauge(Up, "1 if this process could read the service (redis, buckets, records) the last time, 0 if not.",
			labelService),
		fleetGauge(ReadAge, "When this process last read the state of the fleet that its gauges show."),
		ownGauge(ReadSeconds, "How long this process took to read the state of the fleet the last time."),
		fleetGauge(Dispatcher, "1 if a process of the fleet is on duty as dispatcher, 0 if none is."),
		fleetGauge(Stuck, "Tasks that wait because of this cause, in the words of the page and of `headway status`; "+
			"severity is severe (nothing goes on) or slow. Absent while nothing is stuck.",
			labelKind, labelSeverity, labelCause, labelRemedy),
	}
}

// limitMetrics are the metrics of buckets and waitlists.
func limitMetrics() []Metric {
	return []Metric{
		fleetGauge(Capacity, "Most tokens that the bucket holds.", labelLimit, labelKey, labelMeter),
		fleetGauge(Refill, "Tokens that come back every second, by the limit in force; 0 for calls in flight.",
			labelLimit, labelKey, labelMeter),
		fleetGauge(Level, "Tokens that may start now; negative is a debt. Of calls in flight: free slots.",
			labelLimit, labelKey, labelMeter),
		fleetGauge(Reserved, "Tokens that are promised to waiting tasks.", labelLimit, labelKey, labelMeter),
		fleetGauge(BlockedUntil,
			"Until when nothing starts because a provider refused a call; 0 if the bucket is not blocked.",
			labelLimit, labelKey),
		fleetGauge(Stopped,
			"1 if the bucket has stopped until people act, because the provider refuses calls for this reason (quota: the "+
				"account has none left; key: it is not accepted), 0 if not.",
			labelLimit, labelKey, labelReason),
		fleetGauge(WaitingTasks, "Tasks in the waitlist: waiting, or promoted and on their way to start.",
			labelLimit, labelKey, labelState),
		fleetGauge(WaitingTokens, "Tokens that the waiting and promoted tasks take together.",
			labelLimit, labelKey, labelMeter),
		fleetGauge(WaitlistEnd,
			"When the last waiting task is expected to start, if no other comes. Absent while no task waits.",
			labelLimit, labelKey),
		fleetGauge(Truncated, "1 if the limit has more waitlists than were read, so that its sums are too low; 0 if not.",
			labelLimit),
		fleetGauge(WaitGoal,
			"How long a task may wait before an alert fires: max_wait of the limit, else the default of the process.",
			labelLimit),
	}
}

// taskMetrics are the metrics of queues and tasks.
func taskMetrics() []Metric {
	return []Metric{
		fleetGauge(QueueTasks,
			"Tasks in asynq's queue by state: pending, active, scheduled, retry, completed, archived (dead).",
			labelQueue, labelState),
		fleetGauge(QueueLatency, "How long the oldest pending task of the queue has been pending.", labelQueue),
		fleetGauge(QueuePaused, "1 if the queue is paused, 0 if not.", labelQueue),
		fleetGauge(DeadTasks, "Dead tasks, by their records."),
		fleetGauge(DeadLately, "Dead tasks that died in the last hour."),
		fleetGauge(Batches, "Of the 20 newest batches: open ones, and ones that have stopped at their failed requests.",
			labelState),
		fleetGauge(BatchRequests, "Requests of these open batches: waiting, done, failed.", labelState),
		ownGauge(Running, "Tasks whose handler runs.", labelQueue),
		counter(Finished,
			"Tasks that started and ended: succeeded, failed (is retried), archived, refused, dropped, aborted.",
			labelQueue, labelType, labelResult),
		histogram(Duration, "Time from the start of a handler to its end.", slow(), labelType),
		counter(Rejected, "Tasks that were archived without a start: expired, or invalid.",
			labelQueue, labelType, labelReason),
		counter(Deferred, "Deliveries that sent a task back to wait: for its limit, or because the store did not answer.",
			labelLimit, labelReason),
	}
}

// startMetrics are the metrics of starts and settlements.
func startMetrics() []Metric {
	return []Metric{
		counter(Starts, "Tasks that started, once for each limit that they take from.", labelLimit, labelKey),
		histogram(Lateness, "Time from the moment at which all buckets let a task start, until its handler ran.",
			fast(), labelLimit),
		histogram(Hold, "Time for which a started task waited in the worker for its exact moment.",
			[]float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .15, .2, .25}, labelLimit),
		counter(Estimated, "Tokens that tasks were charged when they started, counted when they end.",
			labelLimit, labelKey, labelMeter),
		counter(Settled, "Tokens that these tasks really used; divided by the estimated ones it is the quality of estimates.",
			labelLimit, labelKey, labelMeter),
		counter(Unsettled, "Settlements that were given up: the estimate stays charged.", labelLimit),
		counter(Refusals, "Calls that a provider refused, with and without a time to wait.", labelLimit, labelKey),
		counter(Syncs, "Corrections of buckets by what a provider said is left: applied or failed.", labelLimit, labelResult),
	}
}

// callMetrics are the metrics of calls of services.
func callMetrics() []Metric {
	return []Metric{
		histogram(StoreSeconds, "Duration of calls of the store of the buckets.", fast(), labelOperation),
		counter(StoreErrors, "Calls of the store of the buckets that failed.", labelOperation),
		histogram(RedisSeconds, "Duration of calls of Redis; a pipeline is one call.", fast(), labelCommand),
		counter(RedisErrors,
			"Calls of Redis that failed, dial included. A missing key and an unknown script are no failures.", labelCommand),
		histogram(MongoSeconds,
			"Duration of commands that MongoDB was sent: for buckets, overrides, batches, results, dead tasks.",
			fast(), labelCollection, labelCommand),
		counter(MongoErrors,
			"Commands that MongoDB refused or did not answer; without a collection, the looks whether it lives.",
			labelCollection, labelCommand),
	}
}
