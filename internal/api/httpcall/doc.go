// Package httpcall says what the end of one HTTP call means: whether the request was sent, whether a later call may
// succeed, and how long the service asks all callers to wait.
package httpcall
