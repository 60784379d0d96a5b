package main

import "fmt"

// ofLimit selects the limits that are chosen on the dashboard.
const ofLimit = `{limit=~"$limit"}`

// quantiles are the median and the 99th percentile of a histogram.
func quantiles(metric, by, selector string) []query {
	var all []query
	for _, q := range []string{"0.5", "0.99"} {
		all = append(all, query{
			fmt.Sprintf("histogram_quantile(%s, sum by (le, %s) (rate(%s_bucket%s[$__rate_interval])))", q, by, metric,
				selector),
			fmt.Sprintf("{{%s}} p%s", by, map[string]string{"0.5": "50", "0.99": "99"}[q]),
		})
	}
	return all
}

// perSecond is the rate of a counter.
func perSecond(metric, by, selector, legend string) query {
	return query{fmt.Sprintf("sum by (%s) (rate(%s%s[$__rate_interval]))", by, metric, selector), legend}
}

// most is the state that all processes export.
func most(metric, by, selector, legend string) query {
	return query{fmt.Sprintf("max by (%s) (%s%s)", by, metric, selector), legend}
}

// rows are the charts of the dashboard.
func rows() []row {
	return []row{fleetRow(), limitsRow(), startsRow(), tasksRow(), servicesRow()}
}

func fleetRow() row {
	single := func(title, about, expr, legend string) chart {
		return chart{title: title, about: about, unit: "none", kind: "stat", queries: []query{{expr, legend}}}
	}
	return row{"Fleet", []chart{
		single("Dispatcher", "1: a process is on duty.", "max(headway_dispatcher_on_duty)", ""),
		single("Services", "1: all workers read it.", "min by (service) (headway_up)", "{{service}}"),
		single("Workers", "", `count(headway_up{service="redis"})`, ""),
		single("Waiting", "", `sum(max by (limit, key, state) (headway_waitlist_tasks`+ofLimit+`))`, ""),
		single("Running", "", "sum(headway_tasks_running)", ""),
		single("Dead", "", `sum(max by (queue) (headway_queue_tasks{state="archived"}))`, ""),
	}}
}

func limitsRow() row {
	const meter, legend = "limit, key, meter", "{{limit}} {{key}} {{meter}}"
	return row{"Limits", []chart{
		{
			title: "Level", about: "What may start now, of the capacity; below zero is a debt.", unit: "percentunit",
			queries: []query{
				{
					"max by (limit, key, meter) (headway_meter_level_tokens" + ofLimit + ") / max by (limit, key, meter) " +
						"(headway_meter_capacity_tokens" + ofLimit + ")", legend,
				},
			},
		},
		{title: "Tokens used and refilled", unit: "none", queries: []query{
			perSecond("headway_tokens_settled_total", meter, ofLimit, legend+" used/s"),
			most("headway_meter_refill_tokens_per_second", meter, ofLimit, legend+" refill/s"),
		}},
		{title: "Waiting tasks", unit: "none", queries: []query{
			most("headway_waitlist_tasks", "limit, key, state", ofLimit, "{{limit}} {{key}} {{state}}"),
		}},
		{title: "Until the last waiting task starts", unit: "s", queries: []query{
			{"max by (limit, key) (headway_waitlist_end_timestamp_seconds" + ofLimit + ") - time()", "{{limit}} {{key}}"},
			most("headway_waitlist_wait_goal_seconds", "limit", ofLimit, "{{limit}} goal"),
		}},
		{title: "Waiting and reserved tokens", unit: "none", queries: []query{
			most("headway_waitlist_tokens", meter, ofLimit, legend+" waiting"),
			most("headway_meter_reserved_tokens", meter, ofLimit, legend+" reserved"),
		}},
		{title: "Blocked by the provider for", unit: "s", queries: []query{
			{
				"clamp_min(max by (limit, key) (headway_bucket_blocked_until_timestamp_seconds" + ofLimit + ") - time(), 0)",
				"{{limit}} {{key}}",
			},
		}},
	}}
}

func startsRow() row {
	return row{"Starts and settlements", []chart{
		{title: "Starts and refusals", unit: "ops", queries: []query{
			perSecond("headway_starts_total", "limit, key", ofLimit, "{{limit}} {{key}} starts"),
			perSecond("headway_provider_refusals_total", "limit, key", ofLimit, "{{limit}} {{key}} refused"),
		}},
		{
			title: "Used of what was estimated", about: "Below 100 % estimates are too high.", unit: "percentunit",
			queries: []query{
				{
					"sum by (limit, meter) (rate(headway_tokens_settled_total" + ofLimit + "[$__rate_interval])) / " +
						"sum by (limit, meter) (rate(headway_tokens_estimated_total" + ofLimit + "[$__rate_interval]))",
					"{{limit}} {{meter}}",
				},
			},
		},
		{title: "Lateness of starts", unit: "s", queries: quantiles("headway_start_lateness_seconds", "limit", ofLimit)},
		{title: "Hold before starts", unit: "s", queries: quantiles("headway_start_hold_seconds", "limit", ofLimit)},
		{title: "Corrections", unit: "ops", queries: []query{
			perSecond("headway_syncs_total", "limit, result", ofLimit, "{{limit}} sync {{result}}"),
			perSecond("headway_settlements_failed_total", "limit", ofLimit, "{{limit}} settlement failed"),
		}},
		{title: "Deliveries that wait", unit: "ops", queries: []query{
			perSecond("headway_tasks_deferred_total", "limit, reason", ofLimit, "{{limit}} {{reason}}"),
			perSecond("headway_tasks_sorted_total", "queue", "", "{{queue}} sorted"),
		}},
	}}
}

func tasksRow() row {
	return row{"Tasks and queues", []chart{
		{title: "Ends of tasks", unit: "ops", queries: []query{
			perSecond("headway_tasks_finished_total", "result", "", "{{result}}"),
			perSecond("headway_tasks_rejected_total", "reason", "", "rejected: {{reason}}"),
		}},
		{title: "Duration of tasks", unit: "s", queries: quantiles("headway_task_duration_seconds", "type", "")},
		{title: "Queues", unit: "none", queries: []query{
			most("headway_queue_tasks", "queue, state", "", "{{queue}} {{state}}"),
			most("headway_queue_paused", "queue", "", "{{queue}} paused"),
		}},
		{title: "Age of the oldest pending task", unit: "s", queries: []query{
			most("headway_queue_latency_seconds", "queue", "", "{{queue}}"),
		}},
	}}
}

func servicesRow() row {
	return row{"Services", []chart{
		{title: "Calls of the store of the buckets", unit: "s", queries: quantiles("headway_store_call_duration_seconds",
			"operation", "")},
		{title: "Calls of Redis", unit: "s", queries: []query{{
			"histogram_quantile(0.99, sum by (le, command) " +
				"(rate(headway_redis_call_duration_seconds_bucket[$__rate_interval])))",
			"{{command}} p99",
		}}},
		{title: "Commands of MongoDB", unit: "s", queries: []query{{
			"histogram_quantile(0.99, sum by (le, collection, command) " +
				"(rate(headway_mongo_call_duration_seconds_bucket[$__rate_interval])))",
			"{{collection}} {{command}} p99",
		}}},
		{title: "Errors of services", unit: "ops", queries: []query{
			perSecond("headway_store_errors_total", "operation", "", "store {{operation}}"),
			perSecond("headway_redis_errors_total", "command", "", "redis {{command}}"),
			perSecond("headway_mongo_errors_total", "collection, command", "", "MongoDB {{collection}} {{command}}"),
		}},
		{title: "Read of the fleet's state", unit: "s", queries: []query{
			{"max(headway_fleet_read_duration_seconds)", "took"},
			{"max(time() - headway_fleet_read_timestamp_seconds)", "age"},
			most("headway_waitlists_truncated", "limit", ofLimit, "{{limit}}: not all waitlists were read"),
		}},
	}}
}
