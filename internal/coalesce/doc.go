// Package coalesce lets concurrent callers share calls to a slow service, such as a database.
//
// At most one call for a key is under way. Requests for that key that arrive meanwhile gather, in their order, and
// the next call takes them along. A lone caller does not wait for other callers. After a shared call, the next one
// waits for as many callers as the last call had: at most as long as that call took, and at most 5 ms. So where
// many callers repeat their requests, most calls are full.
package coalesce
