// Package estimates learns how far the tokens that requests are estimated to take are from those that they use, per
// limit and model. It does no I/O; package keeper shares what a fleet has learned.
//
// # What is learned
//
// The ratio of used to estimated tokens, apart for the prompt (the estimate is a matter of characters), for an answer
// that the request bounds (max_tokens) and for one that nothing bounds. Ratios are counted on a logarithmic scale, so
// that a model costs 16 kB and nothing grows. The oldest are forgotten: what counts are the last 250 to 500 requests.
//
// # What it does
//
// A ratio counts by the tokens that were estimated, up to 8192: large requests are what the sum of all reservations
// depends on.
//
// [Ratios.Scale] turns an estimate into what is to be reserved: by default what nine of ten such requests do not exceed
// ([Config].Quantile). It is bounded: an answer is never more than max_tokens, a prompt never more tokens than bytes,
// nothing less than [Config].Floor of the estimate. Below 20 requests nothing is scaled.
//
// A limit stays exact whatever is reserved: what was used beyond it is owed, and settled when the call ends. A provider
// that itself counts max_tokens when a request comes, and corrects that when it ends, refuses what is reserved below
// it. So a program that reserves less has to ask for it, limit by limit.
package estimates
