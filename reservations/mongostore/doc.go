// Package mongostore keeps buckets in MongoDB, for fleets of any size. It implements [reservations.Store].
//
// # Consistency
//
// Each bucket is one document. A call is one findOneAndUpdate with an update pipeline that folds all its requests, unless it is a swap, see below: the
// server reads, computes and writes as one atomic change, so no number of callers can start more than the limit allows. There is
// no lock and no transaction. Writes are acknowledged by a majority, so a failover takes nothing back.
//
// A Store that was the last to write a bucket, twice in a row and within a second, knows its state: it decides by [reservations.Step] and
// writes the result where the document is still the same, which is cheap whatever the number of requests (a swap). Where it is not, the
// pipeline decides, in a second round trip, and goes on to for up to 256 calls: processes that share a bucket pay a few in a hundred.
// A call with many requests that can't do so reads the document and swaps it in two round trips, which costs less than a pipeline with all of them;
// where somebody else writes in between, nothing is changed, and after two looks the pipeline decides.
// A Store remembers the 1024 buckets it used last.
//
// # Clock
//
// The server's $$NOW is the only clock that decides; the clocks of the callers do not matter. It may run backwards, e.g. after
// a failover: a little changes nothing, and where it is behind by more than a minute it is taken as it is, without a grant. A swap decides
// at a moment that the server's clock has reached: what its last answer said, not older than a second, and the time since that arrived.
// That is behind by about a millisecond, and follows a clock that was set one call later.
//
// # Storage
//
// Documents stand in the collection [DefaultCollection], named by their bucket. A missing document means a full bucket, so
// a document may be deleted as soon as it would be full again: [Store.EnsureIndexes] creates a TTL index that does.
//
// # Servers
//
// MongoDB 4.4 and later (standalone, replica set, sharded by _id), and FerretDB 2.
//
// # Failures
//
// Conflicts between first writers of a bucket are repeated a few times. What may have been applied is never repeated by this package; the driver's
// own retryable writes repeat exactly once, where the server supports them. Every error is a *[reservations.UnavailableError] that says what is known.
// A client made by [Connect] or [ClientOptions] lets the store tell calls that were never sent from those whose answer was lost; with
// another client it says [reservations.AppliedMaybe] more often than it has to.
package mongostore
