// Package estimates learns the ratio of used to estimated tokens of requests, per limit and model. It does no I/O;
// package keeper shares the learned ratios in a fleet.
//
// # What is learned
//
// The package learns three ratios of used to estimated tokens: of prompts (estimated by their characters), of answers
// that the request bounds (max_tokens), and of answers without a bound. It counts ratios on a logarithmic scale, so
// that a model takes a constant 16 kB. The last 250 to 500 requests count; older ones are dropped.
//
// # What it does
//
// A ratio counts by the estimated tokens, up to 8192, because the sum of all reservations depends on large requests.
//
// [Ratios.Scale] turns an estimate into a reservation: by default, nine of ten such requests do not exceed it
// ([Config].Quantile). The reservation of an answer is at most max_tokens. The reservation of a prompt is at most its
// number of bytes. Each is at least 5 % of the estimate. Below 20 requests nothing is scaled.
//
// A limit stays exact whatever is reserved: a task owes the tokens beyond its reservation, and settles them when the
// call ends. Some providers count max_tokens when a request arrives, and correct the count when it ends. They refuse
// requests that the fleet sends with smaller reservations. So learning is off until a program enables it for a limit.
package estimates
